//! The longest of a range of pieces, by maxima over blocks of 8, of 64 and so on.

use std::cmp::Reverse;
use std::ops::Range;

const BLOCK: usize = 8;

/// A length and the piece that has it; the first of equally long ones is the greatest.
type Ranked = (i64, Reverse<usize>);

/// Maxima of lengths over blocks; about two bytes per piece.
#[derive(Clone, Debug, Default)]
pub(super) struct Longest {
    levels: Vec<Vec<Ranked>>,
}

impl Longest {
    /// Indexes `count` lengths. O(count).
    pub(super) fn new(count: usize, length: impl Fn(usize) -> i64) -> Self {
        let rank = |i: usize| (length(i), Reverse(i));
        let mut levels: Vec<Vec<Ranked>> = Vec::new();
        if count > BLOCK {
            let starts = (0..count).step_by(BLOCK);
            levels.push(starts.map(|start| longest(start..count.min(start + BLOCK), rank)).collect());
        }
        while let Some(below) = levels.last().filter(|level| level.len() > BLOCK) {
            levels.push(below.chunks(BLOCK).map(|block| longest(0..block.len(), |i| block[i])).collect());
        }
        Self { levels }
    }

    /// The longest piece of `range`; `None` when that is empty. O(log count).
    pub(super) fn of(&self, range: Range<usize>, length: impl Fn(usize) -> i64) -> Option<Ranked> {
        let Range { mut start, mut end } = range;
        let mut best = NONE;
        for level in 0..=self.levels.len() {
            let scan = |range: Range<usize>| match level.checked_sub(1) {
                None => longest(range, |i| (length(i), Reverse(i))),
                Some(above) => longest(range, |i| self.levels[above][i]),
            };
            let (inner_start, inner_end) = (start.div_ceil(BLOCK), end / BLOCK);
            if level == self.levels.len() || inner_start >= inner_end {
                best = best.max(scan(start..end));
                break;
            }
            best = best.max(scan(start..inner_start * BLOCK)).max(scan(inner_end * BLOCK..end));
            (start, end) = (inner_start, inner_end);
        }
        (best.0 >= 0).then_some(best)
    }

    /// The longest piece of the blocks that lie wholly in `range`, which holds at least one. O(log count).
    pub(super) fn of_blocks(&self, range: Range<usize>) -> usize {
        let (mut start, mut end) = (range.start.div_ceil(BLOCK), range.end / BLOCK);
        let mut best = NONE;
        for level in &self.levels {
            let (inner_start, inner_end) = (start.div_ceil(BLOCK), end / BLOCK);
            let scan = |range: Range<usize>| longest(range, |i| level[i]);
            if inner_start >= inner_end {
                best = best.max(scan(start..end));
                break;
            }
            best = best.max(scan(start..inner_start * BLOCK)).max(scan(inner_end * BLOCK..end));
            (start, end) = (inner_start, inner_end);
        }
        best.1.0
    }
}

/// Less than any length.
const NONE: Ranked = (-1, Reverse(usize::MAX));

/// The greatest of ranks that come in order of their piece.
fn longest(range: Range<usize>, rank: impl Fn(usize) -> Ranked) -> Ranked {
    let mut best = NONE;
    for i in range {
        let next = rank(i);
        if next.0 > best.0 {
            best = next;
        }
    }
    best
}

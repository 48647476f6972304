//! The longest of a range of pieces, by maxima over blocks of 16, of 256 and so on.

use std::cmp::Reverse;
use std::ops::Range;

const BLOCK: usize = 16;

/// A length and the piece that has it; the first of equally long ones is the greatest.
type Ranked = (i64, Reverse<usize>);

/// Maxima of lengths over blocks; an eighth of a length's size per piece.
#[derive(Clone, Debug, Default)]
pub(super) struct Longest {
    levels: Vec<Vec<Ranked>>,
}

impl Longest {
    /// Indexes `count` lengths. O(count).
    pub(super) fn new(count: usize, length: impl Fn(usize) -> i64) -> Self {
        let rank = |i: usize| (length(i), Reverse(i));
        let most = |range: Range<usize>| range.map(rank).max().unwrap_or((0, Reverse(0)));
        let mut levels: Vec<Vec<Ranked>> = Vec::new();
        if count > BLOCK {
            levels.push((0..count.div_ceil(BLOCK)).map(|b| most(b * BLOCK..count.min((b + 1) * BLOCK))).collect());
        }
        while let Some(below) = levels.last().filter(|level| level.len() > BLOCK) {
            let next =
                below.chunks(BLOCK).map(|block| block.iter().copied().max().unwrap_or((0, Reverse(0)))).collect();
            levels.push(next);
        }
        Self { levels }
    }

    /// The longest piece of `range`; `None` when that is empty. O(log count).
    pub(super) fn of(&self, range: Range<usize>, length: impl Fn(usize) -> i64) -> Option<Ranked> {
        let Range { mut start, mut end } = range;
        let mut best: Option<Ranked> = None;
        for level in 0..=self.levels.len() {
            let scan = |range: Range<usize>| match level.checked_sub(1) {
                None => range.map(|i| (length(i), Reverse(i))).max(),
                Some(above) => self.levels[above][range].iter().copied().max(),
            };
            let (inner_start, inner_end) = (start.div_ceil(BLOCK), end / BLOCK);
            if level == self.levels.len() || inner_start >= inner_end {
                return best.max(if start < end { scan(start..end) } else { None });
            }
            best = best.max(scan(start..inner_start * BLOCK)).max(scan(inner_end * BLOCK..end));
            (start, end) = (inner_start, inner_end);
        }
        best
    }
}

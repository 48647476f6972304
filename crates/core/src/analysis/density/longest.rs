//! The longest of many pieces, by maxima over blocks of 8, of 64 and so on.

use std::ops::Range;

/// Blocks of the level above that make one of the next; a power of two.
const BLOCK: usize = 8;

/// A piece's length, at most `u32::MAX` ns, and its key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ranked {
    pub(super) length: u32,
    pub(super) key: u32,
}

/// The longest piece of each block, the first of equally long ones; about 1.2 bytes per piece.
#[derive(Clone, Debug, Default)]
pub(super) struct Longest {
    levels: Vec<Vec<Ranked>>,
}

impl Longest {
    /// Indexes pieces. O(count).
    pub(super) fn new(pieces: impl ExactSizeIterator<Item = Ranked>) -> Self {
        let count = pieces.len();
        if count < FEWEST {
            return Self::default();
        }
        let mut first = Vec::with_capacity(count.div_ceil(BLOCK));
        let mut best = Ranked::default();
        for (i, piece) in pieces.enumerate() {
            best = longer(best, piece);
            if i % BLOCK == BLOCK - 1 {
                first.push(best);
                best = Ranked::default();
            }
        }
        let mut levels = vec![first];
        while let Some(below) = levels.last().filter(|level| level.len() >= FEWEST) {
            let blocks = below.chunks_exact(BLOCK);
            levels.push(blocks.map(|block| block.iter().copied().fold(Ranked::default(), longer)).collect());
        }
        Self { levels }
    }

    /// The key of the longest piece of `range`, which holds at least [`FEWEST`], not looking at those within an eighth of
    /// the range of its ends. Looks at 6 to 64 blocks.
    pub(super) fn within(&self, range: Range<usize>) -> Option<u32> {
        let level = (range.len() / BLOCK).checked_ilog(BLOCK)?.saturating_sub(1) as usize;
        let level = level.min(self.levels.len().checked_sub(1)?);
        let size = BLOCK.pow(level as u32 + 1);
        let blocks = self.levels[level].get(range.start.div_ceil(size)..range.end / size)?;
        Some(blocks.iter().copied().reduce(longer)?.key)
    }
}

/// Ranges of fewer pieces are not looked up here.
pub(super) const FEWEST: usize = BLOCK * BLOCK;

fn longer(first: Ranked, next: Ranked) -> Ranked {
    if next.length > first.length { next } else { first }
}

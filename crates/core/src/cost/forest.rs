//! Boosted oblivious decision trees: what a structured model leaves over, as a function of sizes.
//!
//! Every level of a tree splits all its branches alike, so a tree is a table indexed by the sides a row falls on. Least squares
//! boosting [Friedman 2001]; oblivious trees as in Kohavi 1994. Trees share splits: each is evaluated
//! once, for several rows side by side, and then every tree is gone through once for all of them.

use thiserror::Error;

/// Splits of one tree.
pub const DEPTH: usize = 6;
/// Leaves of one tree.
pub const LEAVES: usize = 1 << DEPTH;
/// Leaf values are stored in steps of this.
pub const STEP: f64 = 1.0 / 16_384.0;
/// Bytes of a stored tree.
const TREE_BYTES: usize = DEPTH * 5 + LEAVES * 2;

/// Whether a feature is above a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// Place of the feature in a row.
    pub feature: u8,
    /// What it is compared with.
    pub threshold: f32,
}

/// A tree as it grows and is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Split of each level: bit `i` of a leaf's place is the side of split `i`.
    pub splits: [Split; DEPTH],
    /// Values in units of [`STEP`].
    pub leaves: [i16; LEAVES],
}

/// A tree as it is evaluated.
#[derive(Clone, Debug, PartialEq)]
struct Table {
    /// Places of its splits in the forest's.
    splits: [u32; DEPTH],
    /// In units of [`STEP`].
    leaves: [i16; LEAVES],
}

/// Stored trees that were cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("stored trees of {length} bytes are not a whole number of trees of {TREE_BYTES} bytes")]
pub struct DamagedForest {
    /// Bytes found.
    pub length: usize,
}

/// A sum of trees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forest {
    /// Every split of any tree, by feature and threshold.
    splits: Vec<Split>,
    trees: Vec<Table>,
}

impl Forest {
    /// The sum of `trees`.
    pub fn of(trees: Vec<Tree>) -> Self {
        let key = |split: &Split| (split.feature, split.threshold.to_bits());
        let mut splits: Vec<Split> = trees.iter().flat_map(|tree| tree.splits).collect();
        splits.sort_unstable_by_key(key);
        splits.dedup_by_key(|split| key(split));
        let place = |split: Split| splits.partition_point(|other| key(other) < key(&split)) as u32;
        let table = |tree: Tree| Table { splits: tree.splits.map(place), leaves: tree.leaves };
        Self { trees: trees.into_iter().map(table).collect(), splits }
    }

    fn tree(&self, table: &Table) -> Tree {
        Tree { splits: table.splits.map(|place| self.splits[place as usize]), leaves: table.leaves }
    }

    /// The fitted value at `features`.
    pub fn value(&self, features: &[f32]) -> f64 {
        let [sum] = self.sums([features]);
        sum as f64 * STEP
    }

    /// The fitted values at `rows`: as one by one, in a fraction of the time.
    pub fn values(&self, rows: &[Vec<f32>]) -> Vec<f64> {
        let (blocks, rest) = rows.as_chunks::<16>();
        let (small, single) = rest.as_chunks::<4>();
        let blocks = blocks.iter().flat_map(|rows| self.sums(rows.each_ref().map(Vec::as_slice)));
        let small = small.iter().flat_map(|rows| self.sums(rows.each_ref().map(Vec::as_slice)));
        let single = single.iter().flat_map(|row| self.sums([row.as_slice()]));
        blocks.chain(small).chain(single).map(|sum| sum as f64 * STEP).collect()
    }

    fn sums<const ROWS: usize>(&self, rows: [&[f32]; ROWS]) -> [i64; ROWS] {
        let answers = self.answers(rows);
        let mut sums = [0; ROWS];
        for tree in &self.trees {
            for (sum, leaf) in sums.iter_mut().zip(tree.leaves(&answers)) {
                *sum += i64::from(leaf);
            }
        }
        sums
    }

    /// By split whether each row's feature is above the threshold; a feature that a row lacks is not.
    fn answers<const ROWS: usize>(&self, rows: [&[f32]; ROWS]) -> Vec<[u8; ROWS]> {
        let mut answers = Vec::with_capacity(self.splits.len());
        for group in self.splits.chunk_by(|a, b| a.feature == b.feature) {
            let feature = group[0].feature as usize;
            let values = rows.map(|row| row.get(feature).copied().unwrap_or(f32::NEG_INFINITY));
            answers.extend(group.iter().map(|split| values.map(|value| u8::from(value > split.threshold))));
        }
        answers
    }

    /// How many trees it has.
    pub fn len(&self) -> usize {
        self.trees.len()
    }

    /// Whether it has no trees.
    pub fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// Only its trees from `first` on, at most `count`.
    #[must_use]
    pub fn part(&self, first: usize, count: usize) -> Self {
        Self::of(self.trees.iter().skip(first).take(count).map(|table| self.tree(table)).collect())
    }

    /// The forest as bytes, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.trees.len() * TREE_BYTES);
        for tree in self.trees.iter().map(|table| self.tree(table)) {
            for split in &tree.splits {
                bytes.push(split.feature);
                bytes.extend(split.threshold.to_le_bytes());
            }
            bytes.extend(tree.leaves.iter().flat_map(|leaf| leaf.to_le_bytes()));
        }
        bytes
    }

    /// The forest that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// The length is not that of whole trees.
    pub fn decode(bytes: &[u8]) -> Result<Self, DamagedForest> {
        if !bytes.len().is_multiple_of(TREE_BYTES) {
            return Err(DamagedForest { length: bytes.len() });
        }
        Ok(Self::of(bytes.chunks_exact(TREE_BYTES).map(Tree::decode).collect()))
    }
}

impl Table {
    /// What its leaves hold for the rows that gave `answers`.
    fn leaves<const ROWS: usize>(&self, answers: &[[u8; ROWS]]) -> [i16; ROWS] {
        let mut leaves = [0_u8; ROWS];
        for &split in self.splits.iter().rev() {
            for (leaf, &answer) in leaves.iter_mut().zip(&answers[split as usize]) {
                *leaf = 2 * *leaf + answer;
            }
        }
        leaves.map(|leaf| self.leaves[leaf as usize % LEAVES])
    }
}

impl Tree {
    fn decode(bytes: &[u8]) -> Self {
        let (splits, leaves) = bytes.split_at(DEPTH * 5);
        let mut tree = Self { splits: [Split { feature: 0, threshold: 0.0 }; DEPTH], leaves: [0; LEAVES] };
        for (split, part) in tree.splits.iter_mut().zip(splits.chunks_exact(5)) {
            *split = Split { feature: part[0], threshold: f32::from_le_bytes([part[1], part[2], part[3], part[4]]) };
        }
        for (leaf, part) in tree.leaves.iter_mut().zip(leaves.chunks_exact(2)) {
            *leaf = i16::from_le_bytes([part[0], part[1]]);
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_forest_is_refused() {
        let fits = crate::cost::fits::Fits::builtin().unwrap();
        let forest = &fits.iter().next().unwrap().forest;
        let bytes = forest.encode();
        assert_eq!(Forest::decode(&bytes).unwrap(), *forest);
        assert!(Forest::decode(&bytes[1..]).is_err());
    }

    /// Tree by tree, as stored.
    fn literal(trees: &[Tree], row: &[f32]) -> f64 {
        let above = |split: Split| row.get(split.feature as usize).is_some_and(|&x| x > split.threshold);
        let leaf = |tree: &Tree| {
            let at = tree.splits.iter().rev().fold(0, |leaf, &split| 2 * leaf + usize::from(above(split)));
            i64::from(tree.leaves[at])
        };
        trees.iter().map(leaf).sum::<i64>() as f64 * STEP
    }

    #[test]
    fn rows_asked_together_get_what_each_tree_says_of_each() {
        let fits = crate::cost::fits::Fits::builtin().unwrap();
        for fit in fits.iter().step_by(7) {
            let forest = &fit.forest;
            let trees: Vec<Tree> = forest.encode().chunks_exact(TREE_BYTES).map(Tree::decode).collect();
            // Values on thresholds, between them, beyond them, none, and rows that are too short.
            let value = |i: usize, split: &Split| match i % 4 {
                0 => split.threshold,
                1 => split.threshold + 0.01,
                2 => f32::NAN,
                _ => (i as f32).sin() * 20.0,
            };
            let row = |i: usize| {
                let mut row = vec![f32::NEG_INFINITY; 40 - i % 9];
                for (at, split) in forest.splits.iter().enumerate() {
                    if let Some(slot) = row.get_mut(split.feature as usize)
                        && (at + i).is_multiple_of(5)
                    {
                        *slot = value(at + i, split);
                    }
                }
                row
            };
            let rows: Vec<Vec<f32>> = (0..16 + 4 + 3).map(row).collect();
            let together = forest.values(&rows);
            for (row, together) in rows.iter().zip(together) {
                let literal = literal(&trees, row);
                assert_eq!((together.to_bits(), forest.value(row).to_bits()), (literal.to_bits(), literal.to_bits()));
            }
        }
    }
}

//! Boosted oblivious decision trees: what a structured model leaves over, as a function of sizes.
//!
//! Every level of a tree asks one question of all its branches, so a tree is a table indexed by the answers. Least squares
//! boosting [Friedman 2001]; oblivious trees as in Kohavi 1994. Trees ask the same questions again and again: each is answered
//! once, for several rows side by side, and then every tree is gone through once for all of them.

use thiserror::Error;

/// Questions of one tree.
pub const DEPTH: usize = 6;
/// Leaves of one tree.
pub const LEAVES: usize = 1 << DEPTH;
/// Leaf values are stored in steps of this.
pub const STEP: f64 = 1.0 / 16_384.0;
/// Bytes of a stored tree.
const TREE_BYTES: usize = DEPTH * 5 + LEAVES * 2;

/// Whether a feature is above a threshold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// Place of the feature in a row.
    pub feature: u8,
    /// What it is compared with.
    pub threshold: f32,
}

/// A tree as it grows and is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Question of each level: bit `i` of a leaf's place is the answer to question `i`.
    pub questions: [Question; DEPTH],
    /// Values in units of [`STEP`].
    pub leaves: [i16; LEAVES],
}

/// A tree as it is asked.
#[derive(Clone, Debug, PartialEq)]
struct Table {
    /// Places of its questions in the forest's.
    asked: [u32; DEPTH],
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
    /// Every question that any tree asks, by feature and threshold.
    questions: Vec<Question>,
    trees: Vec<Table>,
}

impl Forest {
    /// The sum of `trees`.
    pub fn of(trees: Vec<Tree>) -> Self {
        let key = |question: &Question| (question.feature, question.threshold.to_bits());
        let mut questions: Vec<Question> = trees.iter().flat_map(|tree| tree.questions).collect();
        questions.sort_unstable_by_key(key);
        questions.dedup_by_key(|question| key(question));
        let place = |question: Question| questions.partition_point(|other| key(other) < key(&question)) as u32;
        let table = |tree: Tree| Table { asked: tree.questions.map(place), leaves: tree.leaves };
        Self { trees: trees.into_iter().map(table).collect(), questions }
    }

    fn tree(&self, table: &Table) -> Tree {
        Tree { questions: table.asked.map(|place| self.questions[place as usize]), leaves: table.leaves }
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

    /// By question whether each row's feature is above the threshold; a feature that a row lacks is not.
    fn answers<const ROWS: usize>(&self, rows: [&[f32]; ROWS]) -> Vec<[u8; ROWS]> {
        let mut answers = Vec::with_capacity(self.questions.len());
        for group in self.questions.chunk_by(|a, b| a.feature == b.feature) {
            let feature = group[0].feature as usize;
            let values = rows.map(|row| row.get(feature).copied().unwrap_or(f32::NEG_INFINITY));
            answers.extend(group.iter().map(|question| values.map(|value| u8::from(value > question.threshold))));
        }
        answers
    }

    /// The value at `features` by its first `0, stride, 2 · stride, …` trees, and by all of them where that is a multiple too.
    pub fn values_along(&self, features: &[f32], stride: usize) -> Vec<f64> {
        let answers = self.answers([features]);
        let mut sum = 0;
        let mut values = vec![0.0];
        for (at, tree) in self.trees.iter().enumerate() {
            sum += i64::from(tree.leaves(&answers)[0]);
            if (at + 1).is_multiple_of(stride) {
                values.push(sum as f64 * STEP);
            }
        }
        values
    }

    /// How many trees it has.
    pub fn len(&self) -> usize {
        self.trees.len()
    }

    /// Whether it has no trees.
    pub fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// Only its first `trees` trees.
    #[must_use]
    pub fn first(&self, trees: usize) -> Self {
        Self::of(self.trees.iter().take(trees).map(|table| self.tree(table)).collect())
    }

    /// The forest as bytes, little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.trees.len() * TREE_BYTES);
        for tree in self.trees.iter().map(|table| self.tree(table)) {
            for question in &tree.questions {
                bytes.push(question.feature);
                bytes.extend(question.threshold.to_le_bytes());
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
        for &question in self.asked.iter().rev() {
            for (leaf, &answer) in leaves.iter_mut().zip(&answers[question as usize]) {
                *leaf = 2 * *leaf + answer;
            }
        }
        leaves.map(|leaf| self.leaves[leaf as usize % LEAVES])
    }
}

impl Tree {
    fn decode(bytes: &[u8]) -> Self {
        let (questions, leaves) = bytes.split_at(DEPTH * 5);
        let mut tree = Self { questions: [Question { feature: 0, threshold: 0.0 }; DEPTH], leaves: [0; LEAVES] };
        for (question, part) in tree.questions.iter_mut().zip(questions.chunks_exact(5)) {
            *question =
                Question { feature: part[0], threshold: f32::from_le_bytes([part[1], part[2], part[3], part[4]]) };
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
    fn a_damaged_forest_is_told() {
        let fits = crate::cost::fits::Fits::builtin().unwrap();
        let forest = &fits.iter().next().unwrap().forest;
        let bytes = forest.encode();
        assert_eq!(Forest::decode(&bytes).unwrap(), *forest);
        assert!(Forest::decode(&bytes[1..]).is_err());
    }

    /// Tree by tree, as stored.
    fn literal(trees: &[Tree], row: &[f32]) -> f64 {
        let above = |question: Question| row.get(question.feature as usize).is_some_and(|&x| x > question.threshold);
        let leaf = |tree: &Tree| {
            let at = tree.questions.iter().rev().fold(0, |leaf, &question| 2 * leaf + usize::from(above(question)));
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
            let value = |i: usize, question: &Question| match i % 4 {
                0 => question.threshold,
                1 => question.threshold + 0.01,
                2 => f32::NAN,
                _ => (i as f32).sin() * 20.0,
            };
            let row = |i: usize| {
                let mut row = vec![f32::NEG_INFINITY; 40 - i % 9];
                for (at, question) in forest.questions.iter().enumerate() {
                    if let Some(slot) = row.get_mut(question.feature as usize)
                        && (at + i).is_multiple_of(5)
                    {
                        *slot = value(at + i, question);
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

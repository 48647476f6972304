//! Boosted oblivious decision trees: what a structured model leaves over, as a function of sizes.
//!
//! Every level of a tree asks one question of all its branches, so a tree is a table indexed by the answers. Least squares
//! boosting [Friedman 2001]; oblivious trees as in Kohavi 1994. Trees ask the same questions again and again: each is answered
//! once, for several rows side by side, and then every tree is gone through once for all of them.

use super::calibrate::FitError;

/// Questions of one tree.
const DEPTH: usize = 6;
const LEAVES: usize = 1 << DEPTH;
/// Candidate thresholds per feature.
const BINS: usize = 48;
/// What is left over counts up to this many times its median.
const REACH: f64 = 2.5;
/// Leaf values are stored in steps of this.
const STEP: f64 = 1.0 / 16_384.0;
/// Trees between two numbers of them that are compared.
const STRIDE: usize = 50;
/// Bytes of a stored tree.
const TREE_BYTES: usize = DEPTH * 5 + LEAVES * 2;

/// How a forest grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Most trees; as many are kept as rows set apart ask for.
    pub trees: usize,
    /// Share of each tree's correction that is applied.
    pub rate: f64,
    /// Pull of leaf values towards zero, in rows.
    pub prior: f64,
}

impl Default for Growth {
    fn default() -> Self {
        Self { trees: 1200, rate: 0.08, prior: 2.0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Question {
    feature: u8,
    threshold: f32,
}

/// A tree as it grows and is stored.
#[derive(Clone, Debug, PartialEq)]
struct Tree {
    questions: [Question; DEPTH],
    /// In units of [`STEP`].
    leaves: [i16; LEAVES],
}

/// A tree as it is asked.
#[derive(Clone, Debug, PartialEq)]
struct Table {
    /// Places of its questions in the forest's.
    asked: [u32; DEPTH],
    /// In units of [`STEP`].
    leaves: [i16; LEAVES],
}

/// A sum of trees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forest {
    /// Every question that any tree asks, by feature and threshold.
    questions: Vec<Question>,
    trees: Vec<Table>,
}

impl Forest {
    /// Fits `targets` by `rows` of features, all of one length below 256.
    ///
    /// Cost: O(trees · depth · features · rows).
    pub fn grow(rows: &[Vec<f32>], targets: &[f64], growth: Growth) -> Self {
        let Some(first) = rows.first() else { return Self::default() };
        let thresholds: Vec<Vec<f32>> = (0..first.len()).map(|feature| quantiles(rows, feature)).collect();
        let bins: Vec<Vec<u8>> =
            thresholds.iter().enumerate().map(|(feature, list)| binned(rows, feature, list)).collect();
        let mut rest = targets.to_vec();
        Self::of((0..growth.trees).map(|_| grow_tree(&thresholds, &bins, &mut rest, growth)).collect())
    }

    fn of(trees: Vec<Tree>) -> Self {
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

    /// How many of its first trees explain `targets` at `rows` about as well as any number of them (mean absolute
    /// difference within half a percent of the least): fewer are faster, and no worse on rows not seen.
    pub fn enough(&self, rows: &[Vec<f32>], targets: &[f64]) -> usize {
        let mut errors = vec![0.0; self.trees.len() / STRIDE + 1];
        for (row, target) in rows.iter().zip(targets) {
            let answers = self.answers([row.as_slice()]);
            let mut sum = 0;
            for (at, tree) in self.trees.iter().enumerate() {
                if at % STRIDE == 0 {
                    errors[at / STRIDE] += (sum as f64 * STEP - target).abs();
                }
                sum += i64::from(tree.leaves(&answers)[0]);
            }
            if self.trees.len().is_multiple_of(STRIDE) {
                errors[self.trees.len() / STRIDE] += (sum as f64 * STEP - target).abs();
            }
        }
        let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
        errors.iter().position(|error| *error <= 1.005 * least).unwrap_or(0) * STRIDE
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
    pub fn decode(bytes: &[u8]) -> Result<Self, FitError> {
        if !bytes.len().is_multiple_of(TREE_BYTES) {
            return Err(FitError::Forest { length: bytes.len(), tree: TREE_BYTES });
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

/// Up to [`BINS`] − 1 thresholds that split the values of `feature` into parts of like size.
fn quantiles(rows: &[Vec<f32>], feature: usize) -> Vec<f32> {
    let mut values: Vec<f32> = rows.iter().map(|row| row[feature]).collect();
    values.sort_by(f32::total_cmp);
    values.dedup();
    if values.len() < BINS {
        return values.windows(2).map(|pair| f32::midpoint(pair[0], pair[1])).collect();
    }
    let mut list: Vec<f32> = (1..BINS).map(|bin| values[bin * values.len() / BINS]).collect();
    list.dedup();
    list
}

fn binned(rows: &[Vec<f32>], feature: usize, thresholds: &[f32]) -> Vec<u8> {
    let bin = |row: &Vec<f32>| thresholds.partition_point(|threshold| *threshold < row[feature]) as u8;
    rows.iter().map(bin).collect()
}

/// `rest` with outliers pulled in: the gradient of Huber's loss, so that a few odd measurements do not lead the trees.
fn clipped(rest: &[f64]) -> Vec<f64> {
    let mut sizes: Vec<f64> = rest.iter().map(|value| value.abs()).collect();
    let middle = sizes.len() / 2;
    let median = *sizes.select_nth_unstable_by(middle, f64::total_cmp).1;
    let reach = (REACH * median).max(1e-4);
    rest.iter().map(|value| value.clamp(-reach, reach)).collect()
}

/// One tree on what is left over; takes its correction off.
fn grow_tree(thresholds: &[Vec<f32>], bins: &[Vec<u8>], rest: &mut [f64], growth: Growth) -> Tree {
    let pull = clipped(rest);
    let mut tree = Tree { questions: [Question { feature: 0, threshold: f32::INFINITY }; DEPTH], leaves: [0; LEAVES] };
    let mut leaf_of = vec![0u8; rest.len()];
    for level in 0..DEPTH {
        let Some((feature, bin)) = best_question(thresholds, bins, &pull, &leaf_of, level, growth.prior) else { break };
        tree.questions[level] = Question { feature: feature as u8, threshold: thresholds[feature][bin] };
        for (leaf, &value) in leaf_of.iter_mut().zip(&bins[feature]) {
            *leaf |= u8::from(value as usize > bin) << level;
        }
    }
    let mut sums = [(0.0, 0.0); LEAVES];
    for (&leaf, &value) in leaf_of.iter().zip(&pull) {
        sums[leaf as usize].0 += value;
        sums[leaf as usize].1 += 1.0;
    }
    for (leaf, (sum, count)) in tree.leaves.iter_mut().zip(sums) {
        let value: f64 = growth.rate * sum / (count + growth.prior) / STEP;
        *leaf = value.round().clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16;
    }
    for (&leaf, value) in leaf_of.iter().zip(rest.iter_mut()) {
        *value -= f64::from(tree.leaves[leaf as usize]) * STEP;
    }
    tree
}

/// The feature and threshold whose answers, added to those so far, explain most.
fn best_question(
    thresholds: &[Vec<f32>],
    bins: &[Vec<u8>],
    rest: &[f64],
    leaf_of: &[u8],
    level: usize,
    prior: f64,
) -> Option<(usize, usize)> {
    let mut best: Option<(f64, usize, usize)> = None;
    let mut histogram = vec![(0.0, 0.0); (1 << level) * BINS];
    for (feature, list) in thresholds.iter().enumerate().filter(|(_, list)| !list.is_empty()) {
        histogram.fill((0.0, 0.0));
        for ((&leaf, &bin), &value) in leaf_of.iter().zip(&bins[feature]).zip(rest) {
            let cell: &mut (f64, f64) = &mut histogram[leaf as usize * BINS + bin as usize];
            cell.0 += value;
            cell.1 += 1.0;
        }
        for (bin, gain) in gains(&histogram, list.len(), prior).into_iter().enumerate() {
            if best.is_none_or(|(found, _, _)| gain > found) {
                best = Some((gain, feature, bin));
            }
        }
    }
    best.map(|(_, feature, bin)| (feature, bin))
}

/// Squares explained by splitting every leaf after each bin.
fn gains(histogram: &[(f64, f64)], splits: usize, prior: f64) -> Vec<f64> {
    let mut gains = vec![0.0; splits];
    for leaf in histogram.chunks_exact(BINS) {
        let total = leaf.iter().fold((0.0, 0.0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
        if total.1 <= 0.0 {
            continue;
        }
        let mut left = (0.0, 0.0);
        for (gain, cell) in gains.iter_mut().zip(leaf) {
            left = (left.0 + cell.0, left.1 + cell.1);
            let right = (total.0 - left.0, total.1 - left.1);
            *gain += left.0 * left.0 / (left.1 + prior) + right.0 * right.0 / (right.1 + prior);
        }
    }
    gains
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<Vec<f32>>, Vec<f64>) {
        let rows: Vec<Vec<f32>> = (0..400).map(|i| vec![(i % 20) as f32, (i / 20) as f32]).collect();
        let targets =
            rows.iter().map(|row| if row[0] > 9.5 { 0.5 } else { -0.25 } + 0.1 * f64::from(row[1] / 20.0)).collect();
        (rows, targets)
    }

    #[test]
    fn a_step_and_a_slope_are_learnt() {
        let (rows, targets) = sample();
        let forest = Forest::grow(&rows, &targets, Growth::default());
        for (row, target) in rows.iter().zip(&targets) {
            assert!((forest.value(row) - target).abs() < 0.02, "{row:?}");
        }
    }

    #[test]
    fn as_many_trees_are_enough_as_lower_the_error() {
        let (rows, targets) = sample();
        let forest = Forest::grow(&rows, &targets, Growth { rate: 0.3, trees: 400, ..Growth::default() });
        let enough = forest.enough(&rows, &targets);
        assert!((50..400).contains(&enough), "{enough}");
        let error = |forest: &Forest| {
            rows.iter().zip(&targets).map(|(row, target)| (forest.value(row) - target).abs()).sum::<f64>()
        };
        assert!(error(&forest.first(enough)) <= 1.005 * error(&forest) + 1e-9);
        assert_eq!(Forest::default().enough(&rows, &targets), 0);
    }

    #[test]
    fn a_stored_forest_says_the_same() {
        let (rows, targets) = sample();
        let forest = Forest::grow(&rows, &targets, Growth { trees: 5, ..Growth::default() });
        let bytes = forest.encode();
        assert_eq!(Forest::decode(&bytes).unwrap(), forest);
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

    #[test]
    fn no_rows_make_a_forest_that_says_nothing() {
        let forest = Forest::grow(&[], &[], Growth::default());
        assert!(forest.value(&[1.0]).abs() < 1e-12);
    }
}

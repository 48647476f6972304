//! Growing of boosted oblivious decision trees: least squares boosting [Friedman 2001], with Huber's loss.

use retime_core::cost::forest::{DEPTH, Forest, LEAVES, STEP, Split, Tree};
use retime_core::stats;

/// Candidate thresholds per feature.
const BINS: usize = 48;
/// What is left over counts up to this many times its median.
const REACH: f64 = 2.5;
/// Trees between two numbers of them that are compared.
const STRIDE: usize = 50;

/// How a forest is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hyperparameters {
    /// Most trees; as many are kept as rows set apart ask for.
    pub trees: usize,
    /// Share of each tree's correction that is applied.
    pub rate: f64,
    /// Pull of leaf values towards zero, in rows.
    pub prior: f64,
}

impl Default for Hyperparameters {
    fn default() -> Self {
        Self { trees: 1200, rate: 0.08, prior: 2.0 }
    }
}

/// Fits `targets` by `rows` of features, all of one length below 256.
///
/// Cost: O(trees · depth · features · rows).
pub fn grow(rows: &[Vec<f32>], targets: &[f64], hyperparameters: Hyperparameters) -> Forest {
    let Some(first) = rows.first() else { return Forest::default() };
    let thresholds: Vec<Vec<f32>> = (0..first.len()).map(|feature| quantiles(rows, feature)).collect();
    let bins: Vec<Vec<u8>> = thresholds.iter().enumerate().map(|(feature, list)| binned(rows, feature, list)).collect();
    let mut rest = targets.to_vec();
    Forest::of((0..hyperparameters.trees).map(|_| grow_tree(&thresholds, &bins, &mut rest, hyperparameters)).collect())
}

/// How many of the first trees of `forest` explain `targets` at `rows` about as well as any number of them (mean absolute
/// difference within half a percent of the least): fewer are faster, and no worse on other rows.
pub fn enough(forest: &Forest, rows: &[Vec<f32>], targets: &[f64]) -> usize {
    let mut values = vec![0.0; rows.len()];
    let error = |values: &[f64]| values.iter().zip(targets).map(|(value, target)| (value - target).abs()).sum::<f64>();
    let mut errors = vec![error(&values)];
    for stride in 0..forest.len() / STRIDE {
        let part = forest.part(stride * STRIDE, STRIDE).values(rows);
        values.iter_mut().zip(part).for_each(|(value, part)| *value += part);
        errors.push(error(&values));
    }
    let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
    errors.iter().position(|error| *error <= 1.005 * least).unwrap_or(0) * STRIDE
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
    let median = stats::upper_quantile(&mut sizes, (1, 2)).unwrap_or_default();
    let reach = (REACH * median).max(1e-4);
    rest.iter().map(|value| value.clamp(-reach, reach)).collect()
}

/// One tree on what is left over; takes its correction off.
fn grow_tree(thresholds: &[Vec<f32>], bins: &[Vec<u8>], rest: &mut [f64], hyperparameters: Hyperparameters) -> Tree {
    let pull = clipped(rest);
    let mut tree = Tree { splits: [Split { feature: 0, threshold: f32::INFINITY }; DEPTH], leaves: [0; LEAVES] };
    let mut leaf_of = vec![0u8; rest.len()];
    for level in 0..DEPTH {
        let Some((feature, bin)) = best_split(thresholds, bins, &pull, &leaf_of, level, hyperparameters.prior) else {
            break;
        };
        tree.splits[level] = Split { feature: feature as u8, threshold: thresholds[feature][bin] };
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
        let value: f64 = hyperparameters.rate * sum / (count + hyperparameters.prior) / STEP;
        *leaf = value.round().clamp(f64::from(i16::MIN), f64::from(i16::MAX)) as i16;
    }
    for (&leaf, value) in leaf_of.iter().zip(rest.iter_mut()) {
        *value -= f64::from(tree.leaves[leaf as usize]) * STEP;
    }
    tree
}

/// The feature and threshold that explain most, after the splits so far.
fn best_split(
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
        let forest = grow(&rows, &targets, Hyperparameters::default());
        for (row, target) in rows.iter().zip(&targets) {
            assert!((forest.value(row) - target).abs() < 0.02, "{row:?}");
        }
    }

    #[test]
    fn as_many_trees_are_enough_as_lower_the_error() {
        let (rows, targets) = sample();
        let forest = grow(&rows, &targets, Hyperparameters { rate: 0.3, trees: 400, ..Hyperparameters::default() });
        let trees = enough(&forest, &rows, &targets);
        assert!((50..400).contains(&trees), "{trees}");
        let error = |forest: &Forest| {
            rows.iter().zip(&targets).map(|(row, target)| (forest.value(row) - target).abs()).sum::<f64>()
        };
        assert!(error(&forest.part(0, trees)) <= 1.005 * error(&forest) + 1e-9);
        assert_eq!(enough(&Forest::default(), &rows, &targets), 0);
    }

    #[test]
    fn a_stored_forest_says_the_same() {
        let (rows, targets) = sample();
        let forest = grow(&rows, &targets, Hyperparameters { trees: 5, ..Hyperparameters::default() });
        let bytes = forest.encode();
        assert_eq!(Forest::decode(&bytes).unwrap(), forest);
        assert!(Forest::decode(&bytes[1..]).is_err());
    }

    #[test]
    fn no_rows_make_a_forest_that_says_nothing() {
        let forest = grow(&[], &[], Hyperparameters::default());
        assert!(forest.value(&[1.0]).abs() < 1e-12);
    }
}

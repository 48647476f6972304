//! Multilayer perceptrons that predict the logarithm of a time from logarithms of sizes [Lin 2022 §III-B-2, Lin 2024 §IV-D].
//!
//! One of the choices beside the structured model with trees; training is deterministic.

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

use super::reuse::REUSE_BINS;
use super::significant::significant;
use super::work::{Shape, Work};

/// How the weights follow the gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Adam [Kingma 2015] with its usual constants.
    Adam,
    /// Plain stochastic gradient descent; its rate is ten times that of Adam in the paper's grid.
    Sgd,
}

/// One point of the grid of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MlpConfig {
    /// Hidden layers.
    pub layers: usize,
    /// Neurons of a hidden layer.
    pub width: usize,
    /// How the weights follow the gradient.
    pub optimizer: Optimizer,
    /// Learning rate.
    pub rate: f64,
    /// Passes over the rows.
    pub epochs: usize,
    /// Rows of a step.
    pub batch: usize,
}

impl MlpConfig {
    /// The grid that is searched by default: small networks, seconds to train.
    pub fn small_grid() -> Vec<Self> {
        let config =
            |layers, width, rate| Self { layers, width, optimizer: Optimizer::Adam, rate, epochs: 60, batch: 64 };
        vec![config(2, 32, 3e-3), config(3, 64, 2e-3), config(3, 64, 5e-4)]
    }

    /// The paper's grid: 3–7 layers, 128–1024 wide, both optimizers, rates 1e-4…1e-2 (tenfold for SGD). Hours to train.
    pub fn paper_grid() -> Vec<Self> {
        let mut grid = Vec::new();
        for layers in 3..=7 {
            for width in [128, 256, 512, 1024] {
                for rate in [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2] {
                    let adam = Self { layers, width, optimizer: Optimizer::Adam, rate, epochs: 200, batch: 256 };
                    grid.push(adam);
                    grid.push(Self { optimizer: Optimizer::Sgd, rate: 10.0 * rate, ..adam });
                }
            }
        }
        grid
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Layer {
    inputs: usize,
    /// Row-major, one row per output.
    weights: Vec<f64>,
    bias: Vec<f64>,
}

/// A trained network with rectified linear hidden layers; inputs and output are standardised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mlp {
    layers: Vec<Layer>,
    mean: Vec<f64>,
    scale: Vec<f64>,
    target_mean: f64,
    target_scale: f64,
}

/// Weights in training, with the moments of Adam.
struct Training {
    weights: DMatrix<f64>,
    bias: DVector<f64>,
    moments: [DMatrix<f64>; 2],
    bias_moments: [DVector<f64>; 2],
}

impl Mlp {
    /// The network of `grid` with the least error on every fifth row, trained on the others.
    ///
    /// `None` without rows.
    pub fn search(rows: &[Vec<f64>], targets: &[f64], grid: &[MlpConfig]) -> Option<(Self, MlpConfig)> {
        let (mut train, mut left) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
        for (at, (row, target)) in rows.iter().zip(targets).enumerate() {
            let part = if at % 5 == 4 { &mut left } else { &mut train };
            part.0.push(row.clone());
            part.1.push(*target);
        }
        let error = |network: &Self| {
            left.0.iter().zip(&left.1).map(|(row, target)| (network.value(row) - target).powi(2)).sum::<f64>()
        };
        let trained = grid.iter().filter_map(|config| Some((Self::train(&train.0, &train.1, config)?, *config)));
        trained
            .map(|(network, config)| (error(&network), network, config))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, network, config)| (network, config))
    }

    /// Trains on `rows` of features, mean squared error of the targets.
    ///
    /// `None` without rows. Cost: epochs · rows · weights.
    pub fn train(rows: &[Vec<f64>], targets: &[f64], config: &MlpConfig) -> Option<Self> {
        let width = rows.first()?.len();
        let column = |at: usize| rows.iter().map(move |row| row[at]);
        let (mean, scale): (Vec<f64>, Vec<f64>) = (0..width).map(|at| moments(column(at))).unzip();
        let (target_mean, target_scale) = moments(targets.iter().copied());
        let inputs =
            DMatrix::from_fn(width, rows.len(), |feature, row| (rows[row][feature] - mean[feature]) / scale[feature]);
        let wanted: Vec<f64> = targets.iter().map(|target| (target - target_mean) / target_scale).collect();
        let layers = descend(&inputs, &wanted, config).into_iter().map(Training::finish).collect();
        let mut network = Self { layers, mean, scale, target_mean, target_scale };
        network.round();
        Some(network)
    }

    /// Keeps as many digits as are written to files, so that a network is the same before and after.
    fn round(&mut self) {
        let lists = self.layers.iter_mut().flat_map(|layer| [&mut layer.weights, &mut layer.bias]);
        let values = lists.chain([&mut self.mean, &mut self.scale]).flatten();
        for value in values.chain([&mut self.target_mean, &mut self.target_scale]) {
            *value = significant(*value, 6);
        }
    }

    /// Whether its layers fit one another.
    pub fn is_sound(&self) -> bool {
        let mut inputs = self.mean.len();
        let layers_fit = self.layers.iter().all(|layer| {
            let fits = layer.inputs == inputs && layer.weights.len() == inputs * layer.bias.len();
            inputs = layer.bias.len();
            fits
        });
        layers_fit && inputs == 1 && self.scale.len() == self.mean.len()
    }

    /// The predicted value at `features`.
    pub fn value(&self, features: &[f64]) -> f64 {
        let mut signal: Vec<f64> = features
            .iter()
            .zip(self.mean.iter().zip(&self.scale))
            .map(|(value, (mean, scale))| (value - mean) / scale)
            .collect();
        let last = self.layers.len().saturating_sub(1);
        for (at, layer) in self.layers.iter().enumerate() {
            signal = layer.apply(&signal, at < last);
        }
        signal.first().map_or(0.0, |value| value * self.target_scale + self.target_mean)
    }
}

impl Layer {
    fn apply(&self, signal: &[f64], rectified: bool) -> Vec<f64> {
        let rows = self.weights.chunks_exact(self.inputs.max(1)).zip(&self.bias);
        let sums = rows.map(|(weights, bias)| {
            bias + weights.iter().zip(signal).map(|(weight, value)| weight * value).sum::<f64>()
        });
        sums.map(|sum| if rectified { sum.max(0.0) } else { sum }).collect()
    }
}

/// Mean and standard deviation; the latter 1 where all values are the same.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let deviation = (values.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
    (mean, if deviation > 1e-12 { deviation } else { 1.0 })
}

/// A fixed sequence of numbers in −1…1 (xorshift64*).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        bits as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

fn descend(inputs: &DMatrix<f64>, wanted: &[f64], config: &MlpConfig) -> Vec<Training> {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut sizes = vec![inputs.nrows()];
    sizes.extend(std::iter::repeat_n(config.width, config.layers));
    sizes.push(1);
    let mut layers: Vec<Training> =
        sizes.windows(2).map(|pair| Training::start(pair[0], pair[1], &mut noise)).collect();
    let batch = config.batch.clamp(1, inputs.ncols().max(1));
    let mut order: Vec<usize> = (0..inputs.ncols()).collect();
    let mut step = 0;
    for epoch in 0..config.epochs {
        for at in (1..order.len()).rev() {
            order.swap(at, (f64::midpoint(noise.next(), 1.0) * at as f64) as usize);
        }
        // The rate falls to a tenth along a quarter of a cosine.
        let progress = epoch as f64 / config.epochs as f64;
        let rate = config.rate * (0.1 + 0.9 * (progress * std::f64::consts::FRAC_PI_2).cos());
        for rows in order.chunks(batch) {
            step += 1;
            learn(&mut layers, &inputs.select_columns(rows), rows, wanted, config.optimizer, rate, step);
        }
    }
    layers
}

/// One step: forward, backward, update.
fn learn(
    layers: &mut [Training],
    inputs: &DMatrix<f64>,
    rows: &[usize],
    wanted: &[f64],
    optimizer: Optimizer,
    rate: f64,
    step: i32,
) {
    let last = layers.len() - 1;
    let mut signals = vec![inputs.clone()];
    for (at, layer) in layers.iter().enumerate() {
        let mut sums = &layer.weights * &signals[at];
        for mut column in sums.column_iter_mut() {
            column += &layer.bias;
        }
        if at < last {
            sums.apply(|value| *value = value.max(0.0));
        }
        signals.push(sums);
    }
    let count = rows.len() as f64;
    let mut gradient =
        DMatrix::from_fn(1, rows.len(), |_, at| 2.0 * (signals[last + 1][(0, at)] - wanted[rows[at]]) / count);
    for at in (0..=last).rev() {
        let weights = &gradient * signals[at].transpose();
        let bias = gradient.column_sum();
        let mut below = layers[at].weights.tr_mul(&gradient);
        below.zip_apply(&signals[at], |value, signal| {
            if at > 0 && signal <= 0.0 {
                *value = 0.0;
            }
        });
        layers[at].update(&weights, &bias, optimizer, rate, step);
        gradient = below;
    }
}

impl Training {
    fn start(inputs: usize, outputs: usize, noise: &mut Noise) -> Self {
        let reach = (6.0 / inputs.max(1) as f64).sqrt();
        let zero = || DMatrix::zeros(outputs, inputs);
        Self {
            weights: DMatrix::from_fn(outputs, inputs, |_, _| reach * noise.next()),
            bias: DVector::zeros(outputs),
            moments: [zero(), zero()],
            bias_moments: [DVector::zeros(outputs), DVector::zeros(outputs)],
        }
    }

    fn update(&mut self, weights: &DMatrix<f64>, bias: &DVector<f64>, optimizer: Optimizer, rate: f64, step: i32) {
        let adam = |value: &mut f64, first: &mut f64, second: &mut f64, gradient: f64| {
            *first = 0.9 * *first + 0.1 * gradient;
            *second = 0.999 * *second + 0.001 * gradient * gradient;
            let (mean, square) = (*first / (1.0 - 0.9f64.powi(step)), *second / (1.0 - 0.999f64.powi(step)));
            *value -= rate * mean / (square.sqrt() + 1e-8);
        };
        match optimizer {
            Optimizer::Sgd => {
                self.weights -= weights * rate;
                self.bias -= bias * rate;
            }
            Optimizer::Adam => {
                let [first, second] = &mut self.moments;
                for (at, value) in self.weights.iter_mut().enumerate() {
                    adam(value, &mut first[at], &mut second[at], weights[at]);
                }
                let [first, second] = &mut self.bias_moments;
                for (at, value) in self.bias.iter_mut().enumerate() {
                    adam(value, &mut first[at], &mut second[at], bias[at]);
                }
            }
        }
    }

    fn finish(self) -> Layer {
        let weights = self.weights.transpose().iter().copied().collect();
        Layer { inputs: self.weights.ncols(), weights, bias: self.bias.iter().copied().collect() }
    }
}

/// The paper's features of `work`: logarithms of sizes; stride, filter and depthwise for convolutions; `log B, E, max(L, 10⁻³), D`
/// and the reuse factors for lookups (summed over tables). Attention and plain streaming, which the
/// papers leave out, by logarithms of their sizes too. `None` for work it has no features for.
pub fn paper_features(work: &Work, reuse: Option<&[f64; REUSE_BINS]>) -> Option<Vec<f64>> {
    let log = |size: u64| (size.max(1) as f64).ln();
    Some(match work.shape {
        Shape::Gemm { batch, m, n, k } => [batch, m, n, k].map(log).to_vec(),
        Shape::Conv { batch, channels_in, channels_out, out_h, r, s, stride, groups, .. } => {
            let depthwise = f64::from(u8::from(groups > 1 && groups == channels_in));
            let mut list = [batch, out_h, channels_in, channels_out].map(log).to_vec();
            list.extend([stride as f64, r as f64, s as f64, depthwise]);
            list
        }
        Shape::Rows { rows, width } => vec![log(rows), log(width)],
        Shape::Embedding { batch, rows, tables, pooling, dim, .. } => {
            let mut list = vec![log(batch), log(rows), pooling.max(1e-3).ln(), log(dim)];
            list.extend(reuse.copied().unwrap_or_default());
            list.iter().map(|value| value * tables as f64).collect()
        }
        Shape::Attention { batch, heads, queries, keys, dim, causal, backward } => {
            let mut list = [batch, heads, queries, keys, dim].map(log).to_vec();
            list.extend([causal, backward].map(|flag| f64::from(u8::from(flag))));
            list
        }
        Shape::Plain | Shape::Strided { .. } if work.bytes().0 > 0 => {
            vec![log(work.read.0), log(work.written.0), work.flop.0.max(1.0).ln()]
        }
        _ => return None,
    })
}

/// How often rows are looked up again in one batch: share of the rows whose number of look-ups falls in each bin;
/// all zero without look-ups [Lin 2024 §IV-C].
pub fn reuse_factors(indices: &[u64]) -> [f64; REUSE_BINS] {
    let mut sorted = indices.to_vec();
    sorted.sort_unstable();
    let mut bins = [0.0; REUSE_BINS];
    for run in sorted.chunk_by(|a, b| a == b) {
        let bin = (usize::BITS - (run.len() - 1).leading_zeros()) as usize;
        bins[bin.min(REUSE_BINS - 1)] += 1.0;
    }
    let rows: f64 = bins.iter().sum();
    if rows > 0.0 { bins.map(|count| count / rows) } else { bins }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_of_sizes_is_a_sum_of_logarithms_and_is_learnt() {
        let rows: Vec<Vec<f64>> = (0..300).map(|i| vec![f64::from(i % 17), f64::from(i % 13)]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| 0.7 * row[0] + 0.2 * row[1] - 3.0).collect();
        let config = MlpConfig { layers: 2, width: 16, optimizer: Optimizer::Adam, rate: 5e-3, epochs: 80, batch: 32 };
        let network = Mlp::train(&rows, &targets, &config).unwrap();
        let worst =
            rows.iter().zip(&targets).map(|(row, target)| (network.value(row) - target).abs()).fold(0.0, f64::max);
        assert!(worst < 0.3, "{worst}");
    }

    #[test]
    fn plain_descent_lowers_the_error_too() {
        let rows: Vec<Vec<f64>> = (0..200).map(|i| vec![f64::from(i % 11)]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| row[0] * 2.0).collect();
        let config = MlpConfig { layers: 1, width: 16, optimizer: Optimizer::Sgd, rate: 0.05, epochs: 60, batch: 20 };
        let network = Mlp::train(&rows, &targets, &config).unwrap();
        assert!((network.value(&[5.0]) - 10.0).abs() < 1.0);
    }

    #[test]
    fn training_is_deterministic_and_the_best_of_a_grid_is_taken() {
        let rows: Vec<Vec<f64>> = (0..60).map(|i| vec![f64::from(i)]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| row[0]).collect();
        let config =
            |epochs| MlpConfig { layers: 1, width: 8, optimizer: Optimizer::Adam, rate: 1e-2, epochs, batch: 16 };
        let (network, chosen) = Mlp::search(&rows, &targets, &[config(1), config(80)]).unwrap();
        assert_eq!(chosen.epochs, 80);
        assert_eq!(Mlp::search(&rows, &targets, &[config(1), config(80)]).unwrap().0, network);
        assert!(Mlp::search(&[], &[], &[config(1)]).is_none());
    }

    #[test]
    fn reuse_factors_are_shares_of_rows_by_powers_of_two() {
        // Rows 1 (once), 2 (twice), 3 (three times), 4 (four times).
        let bins = reuse_factors(&[1, 2, 2, 3, 3, 3, 4, 4, 4, 4]);
        assert_eq!(bins[..4], [0.25, 0.25, 0.5, 0.0]);
        assert!(reuse_factors(&[]).iter().all(|share| *share == 0.0));
    }
}

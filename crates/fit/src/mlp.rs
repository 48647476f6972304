//! Training of multilayer perceptrons, deterministic: the same rows give the same network.

use nalgebra::{DMatrix, DVector};
use retime_core::cost::mlp::{Layer, Mlp};
use retime_core::cost::significant::significant;
use serde::{Deserialize, Serialize};

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

/// Weights in training, with the moments of Adam.
struct Training {
    weights: DMatrix<f64>,
    bias: DVector<f64>,
    moments: [DMatrix<f64>; 2],
    bias_moments: [DVector<f64>; 2],
}

/// The network of `grid` with the least error on every fifth row, trained on the others.
///
/// `None` without rows.
pub fn search(rows: &[Vec<f64>], targets: &[f64], grid: &[MlpConfig]) -> Option<(Mlp, MlpConfig)> {
    let (mut kept, mut left) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for (at, (row, target)) in rows.iter().zip(targets).enumerate() {
        let part = if at % 5 == 4 { &mut left } else { &mut kept };
        part.0.push(row.clone());
        part.1.push(*target);
    }
    let error = |network: &Mlp| {
        left.0.iter().zip(&left.1).map(|(row, target)| (network.value(row) - target).powi(2)).sum::<f64>()
    };
    let trained = grid.iter().filter_map(|config| Some((train(&kept.0, &kept.1, config)?, *config)));
    trained
        .map(|(network, config)| (error(&network), network, config))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, network, config)| (network, config))
}

/// Trains on `rows` of features, mean squared error of the targets.
///
/// `None` without rows. Cost: epochs · rows · weights.
pub fn train(rows: &[Vec<f64>], targets: &[f64], config: &MlpConfig) -> Option<Mlp> {
    let width = rows.first()?.len();
    let column = |at: usize| rows.iter().map(move |row| row[at]);
    let (mean, scale): (Vec<f64>, Vec<f64>) = (0..width).map(|at| moments(column(at))).unzip();
    let (target_mean, target_scale) = moments(targets.iter().copied());
    let inputs =
        DMatrix::from_fn(width, rows.len(), |feature, row| (rows[row][feature] - mean[feature]) / scale[feature]);
    let wanted: Vec<f64> = targets.iter().map(|target| (target - target_mean) / target_scale).collect();
    let layers = descend(&inputs, &wanted, config).into_iter().map(Training::finish).collect();
    let mut network = Mlp { layers, mean, scale, target_mean, target_scale };
    round(&mut network);
    Some(network)
}

/// Keeps as many digits as are written to files, so that a network is the same before and after.
fn round(network: &mut Mlp) {
    let lists = network.layers.iter_mut().flat_map(|layer| [&mut layer.weights, &mut layer.bias]);
    let values = lists.chain([&mut network.mean, &mut network.scale]).flatten();
    for value in values.chain([&mut network.target_mean, &mut network.target_scale]) {
        *value = significant(*value, 6);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_of_sizes_is_a_sum_of_logarithms_and_is_learnt() {
        let rows: Vec<Vec<f64>> = (0..300).map(|i| vec![f64::from(i % 17), f64::from(i % 13)]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| 0.7 * row[0] + 0.2 * row[1] - 3.0).collect();
        let config = MlpConfig { layers: 2, width: 16, optimizer: Optimizer::Adam, rate: 5e-3, epochs: 80, batch: 32 };
        let network = train(&rows, &targets, &config).unwrap();
        let worst =
            rows.iter().zip(&targets).map(|(row, target)| (network.value(row) - target).abs()).fold(0.0, f64::max);
        assert!(worst < 0.3, "{worst}");
    }

    #[test]
    fn plain_descent_lowers_the_error_too() {
        let rows: Vec<Vec<f64>> = (0..200).map(|i| vec![f64::from(i % 11)]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| row[0] * 2.0).collect();
        let config = MlpConfig { layers: 1, width: 16, optimizer: Optimizer::Sgd, rate: 0.05, epochs: 60, batch: 20 };
        let network = train(&rows, &targets, &config).unwrap();
        assert!((network.value(&[5.0]) - 10.0).abs() < 1.0);
    }

    #[test]
    fn training_is_deterministic_and_the_best_of_a_grid_is_taken() {
        let rows: Vec<Vec<f64>> = (0..60).map(|i| vec![f64::from(i)]).collect();
        let targets: Vec<f64> = rows.iter().map(|row| row[0]).collect();
        let config =
            |epochs| MlpConfig { layers: 1, width: 8, optimizer: Optimizer::Adam, rate: 1e-2, epochs, batch: 16 };
        let (network, chosen) = search(&rows, &targets, &[config(1), config(80)]).unwrap();
        assert_eq!(chosen.epochs, 80);
        assert_eq!(search(&rows, &targets, &[config(1), config(80)]).unwrap().0, network);
        assert!(search(&[], &[], &[config(1)]).is_none());
    }
}

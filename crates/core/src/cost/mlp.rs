//! Multilayer perceptrons that predict the logarithm of a time from logarithms of sizes [Lin 2022 §III-B-2, Lin 2024 §IV-D].
//!
//! One of the choices beside the structured model with trees.

use serde::{Deserialize, Serialize};

use super::reuse::REUSE_BINS;
use super::work::{Shape, Work};

/// A fully connected layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Inputs of each output.
    pub inputs: usize,
    /// Row-major, one row per output.
    pub weights: Vec<f64>,
    /// One per output.
    pub bias: Vec<f64>,
}

/// A trained network with rectified linear hidden layers; inputs and output are standardised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mlp {
    /// From inputs to the one output.
    pub layers: Vec<Layer>,
    /// Mean of each feature.
    pub mean: Vec<f64>,
    /// Standard deviation of each feature.
    pub scale: Vec<f64>,
    /// Mean of the target.
    pub target_mean: f64,
    /// Standard deviation of the target.
    pub target_scale: f64,
}

impl Mlp {
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
    fn reuse_factors_are_shares_of_rows_by_powers_of_two() {
        // Rows 1 (once), 2 (twice), 3 (three times), 4 (four times).
        let bins = reuse_factors(&[1, 2, 2, 3, 3, 3, 4, 4, 4, 4]);
        assert_eq!(bins[..4], [0.25, 0.25, 0.5, 0.0]);
        assert!(reuse_factors(&[]).iter().all(|share| *share == 0.0));
    }
}

//! Multilayer perceptrons that predict the logarithm of a time from logarithms of sizes [Lin 2022 §III-B-2, Lin 2024 §IV-D].
//!
//! One of the choices besides the structured model with trees.

use serde::{Deserialize, Serialize};

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
    pub(crate) fn is_sound(&self) -> bool {
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

/// The paper's features of `work`: logarithms of sizes; stride, filter and depthwise for convolutions. Attention and plain streaming, which the
/// papers leave out, by logarithms of their sizes too. `None` for work it has no features for.
pub fn paper_features(work: &Work) -> Option<Vec<f64>> {
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
        Shape::Attention { batch, heads, queries, keys, dim, causal, backward } => {
            let mut list = [batch, heads, queries, keys, dim].map(log).to_vec();
            list.extend([causal, backward].map(|flag| f64::from(u8::from(flag))));
            list
        }
        Shape::Plain
        | Shape::Strided { .. }
        | Shape::Tiled { .. }
        | Shape::Picked { .. }
        | Shape::Chained
        | Shape::Columns { .. }
        | Shape::Channels { .. }
            if work.bytes().0 > 0 =>
        {
            vec![log(work.read.0), log(work.written.0), work.flop.0.max(1.0).ln()]
        }
        _ => return None,
    })
}

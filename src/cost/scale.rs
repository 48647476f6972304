//! Measured corrections of models that are not fitted as a whole: one factor per kind of work and device.

use serde::{Deserialize, Serialize};

use crate::device::DeviceProfile;

use super::calibrate::{Measurement, is_held_out, summarise};
use super::models::CostModels;
use super::work::{Family, Shape, Work};

/// Kinds of work that share a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScaleKind {
    /// Embedding lookups.
    LookupForward,
    /// Updates of the rows looked up.
    LookupBackward,
    /// Elements found one by one: broadcast, permuted, concatenated, picked.
    Strided,
    /// Gradients of max pooling.
    PoolingGradient,
    /// Gradients of attention.
    AttentionGradient,
}

impl ScaleKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::LookupForward, Self::LookupBackward, Self::Strided, Self::PoolingGradient, Self::AttentionGradient];

    /// The kind of `work`; `None` of work whose model is fitted as a whole.
    pub fn of(work: &Work) -> Option<Self> {
        match work.shape {
            Shape::Embedding { backward: false, .. } => Some(Self::LookupForward),
            Shape::Embedding { backward: true, .. } => Some(Self::LookupBackward),
            Shape::Strided { .. } if work.family == Family::Pooling => Some(Self::PoolingGradient),
            Shape::Strided { .. } => Some(Self::Strided),
            Shape::Attention { backward: true, .. } => Some(Self::AttentionGradient),
            _ => None,
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::LookupForward => "lookup forward",
            Self::LookupBackward => "lookup backward",
            Self::Strided => "strided",
            Self::PoolingGradient => "pooling gradient",
            Self::AttentionGradient => "attention gradient",
        }
    }
}

/// A factor with what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// What it holds for.
    pub kind: ScaleKind,
    /// Measured over modelled time: geometric mean.
    pub factor: f64,
    /// Mean absolute relative error with it on held-out rows.
    pub error: f64,
    /// Rows behind it.
    pub n: u32,
}

/// Fewest rows that make a factor.
pub const FEWEST_SCALED: usize = 6;

impl Scale {
    /// The factor of `kind` that `rows` of `device` tell, over what `models` say, fitted to the rows that are not held out.
    ///
    /// # Returns
    /// The factor with the errors on held-out rows; `None` of too few rows.
    pub fn fit(
        kind: ScaleKind,
        rows: &[&Measurement],
        models: &CostModels,
        device: &DeviceProfile,
    ) -> Option<(Self, super::calibrate::ErrorSummary)> {
        let modelled = |row: &&Measurement| {
            let us = models.estimate(&row.work, device)?.duration.0 as f64 / 1e3;
            (us > 0.0 && row.us > 0.0).then_some((us, row.us, is_held_out(&row.work)))
        };
        let all: Vec<(f64, f64, bool)> = rows.iter().filter_map(modelled).collect();
        let train: Vec<f64> = all.iter().filter(|row| !row.2).map(|(model, us, _)| (us / model).ln()).collect();
        let test = || all.iter().filter(|row| row.2);
        if train.len() < FEWEST_SCALED || test().next().is_none() {
            return None;
        }
        let factor = (train.iter().sum::<f64>() / train.len() as f64).exp();
        let errors = summarise(test().map(|(model, us, _)| (model * factor, *us)));
        Some((Self { kind, factor, error: errors.mape, n: train.len() as u32 }, errors))
    }
}

//! Measured corrections of models that are not fitted as a whole: one factor per kind of work and device.

use serde::{Deserialize, Serialize};

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

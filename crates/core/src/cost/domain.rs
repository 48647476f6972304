//! Domains: sets of kernels that share one set of fitted parameters.

use serde::{Deserialize, Serialize};

use crate::device::Precision;

use super::work::{Family, Shape, Work};

/// What a fit covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Domain {
    /// Single matrix products on vector units (fp32, fp64).
    Linear,
    /// Batched matrix products on vector units.
    BatchedGemm,
    /// Products of 16-bit floats on tensor cores.
    Gemm16,
    /// Products of 32-bit floats that tensor cores round to 19 bits.
    Tf32,
    /// Products of 8-bit numbers on tensor cores.
    Gemm8,
    /// Convolutions.
    Conv,
    /// Norms over rows.
    Norm,
    /// Softmax.
    Softmax,
    /// Everything bound by streaming memory: element-wise, reductions, movement, optimizers, dropout, pooling.
    Streaming,
    /// Fused attention.
    Attention,
    /// Fused attention of a few queries per sequence: a decoding step.
    Decode,
}

/// Queries per sequence up to which attention is a decoding step: one, or a few that were guessed ahead. More make up blocks of
/// their own.
const FEW_QUERIES: u64 = 16;

impl Domain {
    /// All of them, in the order of the enum.
    pub const ALL: [Self; 11] = [
        Self::Linear,
        Self::BatchedGemm,
        Self::Gemm16,
        Self::Tf32,
        Self::Gemm8,
        Self::Conv,
        Self::Norm,
        Self::Softmax,
        Self::Streaming,
        Self::Attention,
        Self::Decode,
    ];

    /// Its name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::BatchedGemm => "batched-gemm",
            Self::Gemm16 => "gemm16",
            Self::Tf32 => "tf32",
            Self::Gemm8 => "gemm8",
            Self::Conv => "conv",
            Self::Norm => "norm",
            Self::Softmax => "softmax",
            Self::Streaming => "streaming",
            Self::Attention => "attention",
            Self::Decode => "decode",
        }
    }

    /// The domain of `work`; `None` for lookups, copies over links, collectives and the unrecognised.
    pub fn of(work: &Work) -> Option<Self> {
        Some(match (work.family, &work.shape) {
            (Family::Gemm, Shape::Gemm { batch, .. }) => match work.precision {
                Precision::Fp16Tensor | Precision::Bf16Tensor | Precision::Fp16 => Self::Gemm16,
                Precision::Tf32 => Self::Tf32,
                Precision::Fp8Tensor | Precision::Int8Tensor => Self::Gemm8,
                _ if *batch > 1 => Self::BatchedGemm,
                _ => Self::Linear,
            },
            (Family::Conv, Shape::Conv { .. }) => Self::Conv,
            (Family::Attention, &Shape::Attention { queries, keys, backward: false, .. })
                if queries <= FEW_QUERIES && keys > queries =>
            {
                Self::Decode
            }
            (Family::Attention, Shape::Attention { .. }) => Self::Attention,
            (Family::Norm, Shape::Rows { .. }) => Self::Norm,
            (Family::Softmax, Shape::Rows { .. }) => Self::Softmax,
            (
                Family::Elementwise
                | Family::Reduction
                | Family::Movement
                | Family::Optimizer
                | Family::Dropout
                | Family::Pooling,
                _,
            )
            // What a norm found, applied to each element.
            | (Family::Norm, Shape::Picked { .. }) => Self::Streaming,
            _ => return None,
        })
    }

    /// Whether it is of matrix products.
    pub fn is_product(self) -> bool {
        matches!(self, Self::Linear | Self::BatchedGemm | Self::Gemm16 | Self::Tf32 | Self::Gemm8)
    }
}

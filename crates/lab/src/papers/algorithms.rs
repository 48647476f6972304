//! Algorithms of convolutions, their arithmetic and traffic, and fused layers [Kakrannava 2024 §IV-B].

use retime_core::cost::analytical::{im2col_bytes, sum_us};
use retime_core::cost::{Shape, Work};
use retime_core::device::DeviceProfile;
use retime_core::units::Flop;

/// How a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// Seven nested loops.
    Direct,
    /// Winograd's minimal filtering in tiles of 4×4 outputs.
    Winograd,
    /// A matrix product that forms its operand on the fly.
    ImplicitGemm,
    /// A matrix product of an operand written out before.
    Im2col,
}

impl Algorithm {
    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Winograd => "Winograd",
            Self::ImplicitGemm => "implicit GEMM",
            Self::Im2col => "im2col",
        }
    }
}

/// Outputs of one Winograd tile along an axis, on GPUs.
const WINOGRAD_OUTPUTS: f64 = 4.0;

/// Time in µs of `work` under `algorithm`, without the start cost; the plain sum for anything but a convolution, `None` where the
/// algorithm does not apply.
pub(super) fn algorithm_us(work: &Work, algorithm: Algorithm, device: &DeviceProfile) -> Option<f64> {
    let plain = |bytes| Some(sum_us(work.flop.0, bytes, work, device));
    let &Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups } = &work.shape else {
        return plain(work.bytes().0 as f64);
    };
    match algorithm {
        Algorithm::Direct | Algorithm::ImplicitGemm => plain(work.bytes().0 as f64),
        Algorithm::Im2col => plain(im2col_bytes(work)),
        Algorithm::Winograd if stride == 1 && groups == 1 && r == s && r > 1 => {
            let [n, c, k, p, q, r] = [batch, channels_in, channels_out, out_h, out_w, r].map(|dim| dim as f64);
            Some(sum_us(winograd_flop([n, c, k, p, q], r), work.bytes().0 as f64, work, device))
        }
        Algorithm::Winograd => None,
    }
}

/// `(m+r−1)²` products per tile and channel pair, and the transforms of inputs and outputs: a product with a
/// constant `α×α` matrix from both sides, `α = m + r − 1`, takes `4α³` FLOP at most, of which half are multiplications
/// by 0 or ±1 that are left out. Filters are constant and transformed beforehand.
fn winograd_flop([n, c, k, p, q]: [f64; 5], r: f64) -> f64 {
    let m = WINOGRAD_OUTPUTS;
    let alpha = m + r - 1.0;
    let tiles = n * (p / m).ceil() * (q / m).ceil();
    let products = 2.0 * tiles * c * k * alpha * alpha;
    let transform = 2.0 * alpha.powi(3);
    products + transform * tiles * (c + k)
}

/// The algorithm that NVIDIA's library takes: Winograd for 3×3 and 5×5 at stride 1 without tensor cores, implicit GEMM on tensor cores
/// when channels divide by 4, else direct.
pub(super) fn usual_algorithm(work: &Work) -> Algorithm {
    let &Shape::Conv { channels_in, r, s, stride, groups, .. } = &work.shape else { return Algorithm::Direct };
    if work.precision.is_tensor() && channels_in % 4 == 0 {
        Algorithm::ImplicitGemm
    } else if r == s && matches!(r, 3 | 5) && stride == 1 && groups == 1 {
        Algorithm::Winograd
    } else {
        Algorithm::Direct
    }
}

/// The one layer that `first` and `second` make when fused: their arithmetic adds up, what is between them never reaches memory.
pub(super) fn fused(first: &Work, second: &Work) -> Work {
    Work { flop: Flop(first.flop.0 + second.flop.0), written: second.written, ..first.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::cost::operators::{ConvPass, ConvSize, conv_work};
    use retime_core::device::Catalog;
    use retime_core::graph::DType;

    #[test]
    fn winograd_applies_at_stride_one_only() {
        let size = |stride| ConvSize {
            batch: 1,
            channels_in: 64,
            channels_out: 128,
            in_area: 14 * 14,
            out_h: 14,
            out_w: 14,
            r: 3,
            s: 3,
            stride,
            groups: 1,
        };
        let work = |stride| conv_work(&size(stride), ConvPass::Forward, DType::Fp32, false);
        let catalog = Catalog::builtin().unwrap();
        let us = |stride| algorithm_us(&work(stride), Algorithm::Winograd, catalog.find("BLIMP").unwrap());
        assert!(us(1).is_some() && us(2).is_none());
        assert_eq!([1, 2].map(|stride| usual_algorithm(&work(stride))), [Algorithm::Winograd, Algorithm::Direct]);
    }
}

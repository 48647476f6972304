//! The analytical layer model: the time for the arithmetic of the algorithm plus the time for its traffic
//! [Kakrannava 2024 §IV].
//!
//! `t = ops / (PE_used · speed_of_PE) + bytes / BW`, `PE_used = min(PEs, parallelism of the algorithm)`.

use crate::device::DeviceProfile;
use crate::units::Flop;

use super::roofline::memory_rate;
use super::work::{Shape, Work};

/// How a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// Seven nested loops.
    Direct,
    /// Winograd's minimal filtering in tiles of 4×4 outputs.
    Winograd,
    /// Products in the frequency domain.
    Fft,
    /// A matrix product that forms its operand on the fly.
    ImplicitGemm,
    /// A matrix product of an operand written out before.
    Im2col,
}

impl Algorithm {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Winograd => "Winograd",
            Self::Fft => "FFT",
            Self::ImplicitGemm => "implicit GEMM",
            Self::Im2col => "im2col",
        }
    }

    /// All of them.
    pub const ALL: [Self; 5] = [Self::Direct, Self::Winograd, Self::Fft, Self::ImplicitGemm, Self::Im2col];
}

/// Outputs of one Winograd tile along an axis, on GPUs.
const WINOGRAD_OUTPUTS: f64 = 4.0;

/// Arithmetic and traffic of a convolution under one algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmCost {
    /// Arithmetic, the algorithm's transforms included.
    pub flop: Flop,
    /// Bytes moved, cold misses only.
    pub bytes: f64,
}

/// Cost of the convolution `work` under `algorithm`; `None` when it is not a convolution or the algorithm does not apply.
pub fn algorithm_cost(work: &Work, algorithm: Algorithm) -> Option<AlgorithmCost> {
    let &Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups } = &work.shape else {
        return None;
    };
    let [n, c, k, p, q] = [batch, channels_in, channels_out, out_h, out_w].map(|dim| dim as f64);
    let square = r == s && r > 1;
    let (r, s, bytes) = (r as f64, s as f64, work.bytes().0 as f64);
    let area = p * q;
    let (flop, bytes) = match algorithm {
        Algorithm::Direct | Algorithm::ImplicitGemm => (work.flop.0, bytes),
        Algorithm::Im2col => (work.flop.0, bytes + 2.0 * 4.0 * n * c * r * s * area),
        Algorithm::Winograd if stride == 1 && groups == 1 && square => (winograd_flop(n, c, k, p, q, r), bytes),
        Algorithm::Fft if stride == 1 && groups == 1 => (fft_flop(n, c, k, p + r - 1.0, q + s - 1.0), bytes),
        Algorithm::Winograd | Algorithm::Fft => return None,
    };
    Some(AlgorithmCost { flop: Flop(flop), bytes })
}

/// `(m+r−1)²` products per tile and channel pair, and the transforms of inputs and outputs: a product with a
/// constant `α×α` matrix from both sides, `α = m + r − 1`, takes `4α³` FLOP at most, of which half are multiplications
/// by 0 or ±1 that are left out. Filters are constant and transformed beforehand.
fn winograd_flop(n: f64, c: f64, k: f64, p: f64, q: f64, r: f64) -> f64 {
    let m = WINOGRAD_OUTPUTS;
    let alpha = m + r - 1.0;
    let tiles = n * (p / m).ceil() * (q / m).ceil();
    let products = 2.0 * tiles * c * k * alpha * alpha;
    let transform = 2.0 * alpha.powi(3);
    products + transform * tiles * (c + k)
}

/// Two-dimensional transforms of `2.5·N·log₂N` FLOP for real data, and complex products at half the frequencies.
fn fft_flop(n: f64, c: f64, k: f64, h: f64, w: f64) -> f64 {
    let points = h * w;
    let transform = 2.5 * points * points.max(2.0).log2();
    transform * (n * c + c * k + n * k) + 8.0 * n * c * k * points / 2.0
}

/// Independent units of work that the kernel offers: a block per channel for batch norm, a row for other
/// row-wise kernels, unbounded elsewhere.
fn parallelism(work: &Work) -> f64 {
    match work.shape {
        Shape::Rows { rows, .. } => (rows as f64).max(1.0),
        _ => f64::INFINITY,
    }
}

/// Time in µs of arithmetic and traffic, with `units` processing elements in use.
fn sum_us(flop: f64, bytes: f64, work: &Work, device: &DeviceProfile) -> f64 {
    let units = f64::from(device.sm_count.max(1));
    let used = parallelism(work).min(units) / units;
    let rate = device.peak_rate(work.precision).0.max(1.0) * used;
    1e6 * (flop / rate + bytes / (memory_rate(device).max(1.0) * used))
}

/// The algorithm that NVIDIA's library takes [Kakrannava §IV]: Winograd for 3×3 and 5×5 at stride 1 without tensor cores,
/// implicit GEMM on tensor cores when channels divide by 4, else direct.
pub fn usual_algorithm(work: &Work) -> Algorithm {
    let &Shape::Conv { channels_in, r, s, stride, groups, .. } = &work.shape else { return Algorithm::Direct };
    if work.precision.is_tensor() && channels_in % 4 == 0 {
        Algorithm::ImplicitGemm
    } else if r == s && matches!(r, 3 | 5) && stride == 1 && groups == 1 {
        Algorithm::Winograd
    } else {
        Algorithm::Direct
    }
}

/// The one layer that `first` and `second` make when fused: their arithmetic adds up, what is between them never
/// reaches memory [Kakrannava §IV-B6].
pub fn fused(first: &Work, second: &Work) -> Work {
    Work { flop: Flop(first.flop.0 + second.flop.0), written: second.written, ..first.clone() }
}

/// Time in µs under `algorithm`, without the start cost; the plain sum for anything but a convolution.
pub fn analytical_us(work: &Work, algorithm: Algorithm, device: &DeviceProfile) -> Option<f64> {
    match work.shape {
        Shape::Conv { .. } => algorithm_cost(work, algorithm).map(|cost| sum_us(cost.flop.0, cost.bytes, work, device)),
        _ => Some(sum_us(work.flop.0, work.bytes().0 as f64, work, device)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::{ConvPass, ConvSize, conv_work};
    use crate::cost::work::Family;
    use crate::device::{Catalog, Precision};
    use crate::graph::DType;
    use crate::units::Bytes;

    fn blimp_kernel(channels: u64, side: u64) -> Work {
        let size = ConvSize {
            batch: 1,
            channels_in: channels,
            channels_out: 2 * channels,
            in_area: side * side,
            out_h: side,
            out_w: side,
            r: 3,
            s: 3,
            stride: 1,
            groups: 1,
        };
        conv_work(&size, ConvPass::Forward, DType::Fp32, false)
    }

    #[test]
    fn winograd_ranks_before_im2col_on_blimp_as_measured() {
        let catalog = Catalog::builtin().unwrap();
        let blimp = catalog.find("BLIMP").unwrap();
        for (work, measured_im2col, measured_winograd) in
            [(blimp_kernel(256, 28), 33.057, 12.223), (blimp_kernel(512, 7), 10.085, 3.734)]
        {
            let im2col = analytical_us(&work, Algorithm::Im2col, blimp).unwrap() / 1e6;
            let winograd = analytical_us(&work, Algorithm::Winograd, blimp).unwrap() / 1e6;
            assert!(winograd < im2col);
            // 350 kFLOPS is the matrix-matrix rate; im2col runs as matrix-vector products at 500 kFLOPS.
            assert!((im2col * 350.0 / 500.0 / measured_im2col - 1.0).abs() < 0.35, "{im2col} {measured_im2col}");
            assert!((winograd / measured_winograd - 1.0).abs() < 0.35, "{winograd} {measured_winograd}");
        }
    }

    #[test]
    fn batch_norm_with_few_channels_leaves_multiprocessors_idle() {
        let catalog = Catalog::builtin().unwrap();
        let a100 = catalog.find("A100-40").unwrap();
        let norm = |rows| Work {
            family: Family::Norm,
            flop: Flop(1e8),
            read: Bytes(1 << 28),
            written: Bytes(1 << 28),
            precision: Precision::Fp32,
            shape: Shape::Rows { rows, width: (1 << 26) / rows },
        };
        let (few, many) = (norm(64), norm(1024));
        let ratio = analytical_us(&few, Algorithm::Direct, a100).unwrap()
            / analytical_us(&many, Algorithm::Direct, a100).unwrap();
        // §VI-C: 0.93 → 1.55 ms, a ratio of 108/64.
        assert!((ratio - 108.0 / 64.0).abs() < 1e-6);
    }

    #[test]
    fn a_fused_layer_reads_what_the_first_reads_and_writes_what_the_second_writes() {
        let conv = blimp_kernel(64, 14);
        let relu = Work { flop: Flop(5.0), read: conv.written, written: Bytes(7), ..conv.clone() };
        let both = fused(&conv, &relu);
        assert_eq!((both.flop.0, both.read, both.written), (conv.flop.0 + 5.0, conv.read, Bytes(7)));
    }

    #[test]
    fn an_algorithm_that_does_not_apply_has_no_cost() {
        let mut work = blimp_kernel(64, 14);
        if let Shape::Conv { stride, .. } = &mut work.shape {
            *stride = 2;
        }
        assert_eq!(algorithm_cost(&work, Algorithm::Winograd), None);
        assert_eq!(usual_algorithm(&work), Algorithm::Direct);
    }
}

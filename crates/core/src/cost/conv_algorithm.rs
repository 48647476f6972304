//! Algorithms of convolutions: where each applies, its arithmetic and traffic, and its time by the analytical model [Kakrannava 2024 §IV-B].
//!
//! | algorithm | products | other arithmetic | bytes beside input, weights and output |
//! |---|---|---|---|
//! | direct | `2·N·K·C·R·S·P·Q`, by dot products | – | – |
//! | implicit GEMM | the same, by a matrix product | – | – |
//! | im2col | the same, by a matrix product | – | `2·N·C·R·S·P·Q` elements: the unfolded input written and read |
//! | Winograd `F(m×m, R×R)` | `2·T·C·K·α²` | `2α³·T·(C + K)` | – |
//! | FFT in tiles of `F×F` | `8·T·C·K·F·(F/2 + 1)` | `2.5·F²·log₂F²` for each of `T·(C + K)` tiles and `C·K` filters | each spectrum written and read |
//!
//! `α = m + R − 1`, `T` tiles of `m×m` (Winograd; `m` is 4 on GPUs, else 2) or `(F − R + 1)²` outputs (FFT). A transform of Winograd is a
//! product with a constant matrix from both sides, `4α³` FLOP of which half are multiplications by 0 and ±1; filters are transformed
//! beforehand. How the paper counts transforms it does not print.

use std::borrow::Cow;

use serde::Serialize;

use crate::device::{DeviceKind, DeviceProfile, Precision};

use super::conv_choice::ConvAlgorithm;
use super::roofline::memory_rate;
use super::work::{Shape, Work, element_bytes};

/// What an algorithm has to do for a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AlgorithmCost {
    /// Arithmetic of its products.
    pub product_flop: f64,
    /// Arithmetic of its transforms.
    pub transform_flop: f64,
    /// Bytes that it reads and writes.
    pub bytes: f64,
}

impl AlgorithmCost {
    /// All its arithmetic.
    pub fn flop(&self) -> f64 {
        self.product_flop + self.transform_flop
    }
}

/// The sizes of a convolution as numbers.
struct Sizes {
    n: f64,
    c: f64,
    k: f64,
    p: f64,
    q: f64,
    r: f64,
    s: f64,
    element: f64,
}

impl Sizes {
    fn tiles(&self, outputs: f64) -> f64 {
        self.n * (self.p / outputs).ceil() * (self.q / outputs).ceil()
    }
}

/// What `algorithm` has to do for the convolution `work` on `device`; `None` where it does not apply, and of other work.
///
/// Winograd and FFT need square filters, stride 1 and no groups; libraries have Winograd for filters of at most 5×5.
pub fn algorithm_cost(work: &Work, algorithm: ConvAlgorithm, device: &DeviceProfile) -> Option<AlgorithmCost> {
    let &Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, stride, groups, .. } = &work.shape else {
        return None;
    };
    let [n, c, k, p, q, r_, s_] = [batch, channels_in, channels_out, out_h, out_w, r, s].map(|dim| dim as f64);
    let sizes = Sizes { n, c, k, p, q, r: r_, s: s_, element: element_bytes(work) as f64 };
    let tensors = work.bytes().0 as f64;
    let plain = AlgorithmCost { product_flop: work.flop.0, transform_flop: 0.0, bytes: tensors };
    let is_square = stride == 1 && groups == 1 && r == s && r > 1;
    match algorithm {
        ConvAlgorithm::Direct | ConvAlgorithm::ImplicitGemm => Some(plain),
        ConvAlgorithm::Im2col => Some(AlgorithmCost { bytes: tensors + unfolded(&sizes), ..plain }),
        ConvAlgorithm::Winograd => {
            (is_square && r <= LARGEST_WINOGRAD).then(|| winograd(&sizes, tensors, winograd_outputs(device)))
        }
        ConvAlgorithm::Fft => is_square.then(|| fft(&sizes, tensors)),
    }
}

/// Taps of a side of the largest filter that libraries have Winograd for.
const LARGEST_WINOGRAD: u64 = 5;

/// Outputs of a tile along an axis.
fn winograd_outputs(device: &DeviceProfile) -> f64 {
    if device.kind == DeviceKind::Gpu { 4.0 } else { 2.0 }
}

/// Bytes of the input unfolded into a matrix with a column for each output, written and read.
fn unfolded(size: &Sizes) -> f64 {
    2.0 * size.element * size.n * size.c * size.r * size.s * size.p * size.q
}

fn winograd(size: &Sizes, tensors: f64, m: f64) -> AlgorithmCost {
    let (alpha, tiles) = (m + size.r - 1.0, size.tiles(m));
    let product_flop = 2.0 * tiles * size.c * size.k * alpha.powi(2);
    let transform_flop = 2.0 * alpha.powi(3) * tiles * (size.c + size.k);
    AlgorithmCost { product_flop, transform_flop, bytes: tensors }
}

/// Largest side of a tile of the Fourier transform: what fits the shared memory of a multiprocessor (cuDNN's tiled transform).
const LARGEST_TILE: f64 = 32.0;

fn fft(size: &Sizes, tensors: f64) -> AlgorithmCost {
    let power_of_two = |side: f64| side.log2().ceil().exp2();
    let side = power_of_two(size.p.max(size.q) + size.r - 1.0).min(LARGEST_TILE.max(power_of_two(2.0 * size.r)));
    let (tiles, points) = (size.tiles(side - size.r + 1.0), side * (side / 2.0 + 1.0));
    let transformed = tiles * (size.c + size.k) + size.c * size.k;
    AlgorithmCost {
        product_flop: 8.0 * tiles * size.c * size.k * points,
        transform_flop: 2.5 * side * side * (2.0 * side.log2()) * transformed,
        // A point of a spectrum is a pair of numbers.
        bytes: tensors + 2.0 * 2.0 * size.element * points * transformed,
    }
}

/// The time in µs of the convolution `work` by `algorithm`, without the start cost; `None` where it does not apply.
///
/// `t = products / rate + transforms / vector rate + bytes / BW`: matrix products run at the rate of products where the device has one,
/// dot products and transforms at that of its vector units.
pub fn algorithm_us(work: &Work, algorithm: ConvAlgorithm, device: &DeviceProfile) -> Option<f64> {
    let cost = algorithm_cost(work, algorithm, device)?;
    let vector = device.peak_rate(vector_precision(work.precision)).0;
    let products = product_rate(work, algorithm, device);
    Some(split_us([(cost.product_flop, products), (cost.transform_flop, vector)], cost.bytes, device))
}

/// FLOP per second of the products of `algorithm`: matrix products run on the units that a device has for them.
fn product_rate(work: &Work, algorithm: ConvAlgorithm, device: &DeviceProfile) -> f64 {
    match algorithm {
        ConvAlgorithm::Direct | ConvAlgorithm::Fft => device.peak_rate(vector_precision(work.precision)).0,
        ConvAlgorithm::ImplicitGemm | ConvAlgorithm::Im2col | ConvAlgorithm::Winograd => {
            device.product_rate(work.precision).0
        }
    }
}

/// Seconds of the arithmetic of the convolution `work` by the algorithm that was chosen for it, at the peak of the units of its
/// products; `None` where none was chosen.
pub(super) fn chosen_arithmetic(work: &Work, device: &DeviceProfile) -> Option<f64> {
    let algorithm = chosen_times(work, device)?.algorithm;
    let cost = algorithm_cost(work, algorithm, device)?;
    Some((cost.product_flop + cost.transform_flop) / product_rate(work, algorithm, device).max(1.0))
}

/// Time in µs of parts of arithmetic, each with its rate in FLOP/s, and of `bytes` of traffic, on the whole of a device.
fn split_us<const N: usize>(arithmetic: [(f64, f64); N], bytes: f64, device: &DeviceProfile) -> f64 {
    let arithmetic: f64 = arithmetic.iter().map(|(flop, rate)| flop / rate.max(1.0)).sum();
    1e6 * (arithmetic + bytes / memory_rate(device).max(1.0))
}

fn vector_precision(precision: Precision) -> Precision {
    match precision {
        Precision::Fp64 | Precision::Fp64Matrix => Precision::Fp64,
        Precision::Fp16 | Precision::Fp16Tensor => Precision::Fp16,
        _ => Precision::Fp32,
    }
}

/// The algorithm that libraries take for `work`: on GPUs implicit GEMM on tensor cores when channels divide by 4, Winograd for 3×3 and
/// 5×5 at stride 1, else direct; elsewhere im2col.
pub fn usual_algorithm(work: &Work, device: &DeviceProfile) -> ConvAlgorithm {
    let &Shape::Conv { channels_in, r, s, stride, groups, .. } = &work.shape else { return ConvAlgorithm::Direct };
    if device.kind != DeviceKind::Gpu {
        ConvAlgorithm::Im2col
    } else if work.precision.is_tensor() && channels_in % 4 == 0 {
        ConvAlgorithm::ImplicitGemm
    } else if r == s && matches!(r, 3 | 5) && stride == 1 && groups == 1 {
        ConvAlgorithm::Winograd
    } else {
        ConvAlgorithm::Direct
    }
}

/// The fastest algorithm for `work` on `device` and its time in µs; `None` of what is no convolution.
pub fn best_algorithm(work: &Work, device: &DeviceProfile) -> Option<(ConvAlgorithm, f64)> {
    let timed = ConvAlgorithm::ALL.into_iter().filter_map(|it| Some((it, algorithm_us(work, it, device)?)));
    timed.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// What a choice of algorithm makes of a convolution on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlgorithmTimes {
    /// The algorithm in use.
    pub algorithm: ConvAlgorithm,
    /// Its time in µs, without the start cost.
    pub us: f64,
    /// Its time over that of the algorithm before.
    pub ratio: f64,
}

/// The times of `work` by the algorithm that was chosen for it; `None` where none was. One that does not apply leaves the former.
pub fn chosen_times(work: &Work, device: &DeviceProfile) -> Option<AlgorithmTimes> {
    let Shape::Conv { algorithm: Some(chosen), .. } = work.shape else { return None };
    let from = chosen.from.unwrap_or_else(|| usual_algorithm(work, device));
    let before = algorithm_us(work, from, device).or_else(|| algorithm_us(work, ConvAlgorithm::Direct, device))?;
    let (algorithm, us) = match chosen.to {
        Some(to) => algorithm_us(work, to, device).map_or((from, before), |us| (to, us)),
        None => best_algorithm(work, device)?,
    };
    Some(AlgorithmTimes { algorithm, us, ratio: if before > 0.0 { us / before } else { 1.0 } })
}

/// The algorithm that computes `work` on `device`: the one chosen for it, else that of its kernel, `recorded`, else the usual one. `None`
/// of what is no convolution.
pub fn used_algorithm(work: &Work, recorded: Option<ConvAlgorithm>, device: &DeviceProfile) -> Option<ConvAlgorithm> {
    let Shape::Conv { algorithm, .. } = work.shape else { return None };
    let chosen = chosen_times(work, device).map(|times| times.algorithm);
    let told = || algorithm.and_then(|chosen| chosen.from).or(recorded);
    Some(chosen.or_else(told).unwrap_or_else(|| usual_algorithm(work, device)))
}

/// The arithmetic that is done for `work` on `device`: of a convolution for which an algorithm was chosen, that algorithm's.
pub fn flop_done(work: &Work, device: &DeviceProfile) -> f64 {
    let chosen = chosen_times(work, device).and_then(|times| algorithm_cost(work, times.algorithm, device));
    chosen.map_or(work.flop.0, |cost| cost.flop())
}

/// `work` as if no algorithm had been chosen for it.
pub(super) fn without_choice(work: &Work) -> Cow<'_, Work> {
    let mut work = Cow::Borrowed(work);
    if let Shape::Conv { algorithm: Some(_), .. } = work.shape
        && let Shape::Conv { algorithm, .. } = &mut work.to_mut().shape
    {
        *algorithm = None;
    }
    work
}

/// Relative error stated for the ratio of two algorithms: the analytical model's largest by algorithm [Kakrannava 2024 §VI-B, FFT].
pub(super) const ALGORITHM_ERROR: f32 = 0.174;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::{ConvPass, ConvSize, conv_work};
    use crate::device::Catalog;
    use crate::graph::DType;

    fn work([c, k, side, r, stride]: [u64; 5]) -> Work {
        let out = side / stride;
        let size = ConvSize {
            batch: 1,
            channels_in: c,
            channels_out: k,
            in_area: side * side,
            out_h: out,
            out_w: out,
            r,
            s: r,
            stride,
            groups: 1,
        };
        conv_work(&size, ConvPass::Forward, DType::Fp32, false)
    }

    #[test]
    fn winograd_applies_at_stride_one_only_and_is_what_gpus_take_there() {
        let catalog = Catalog::builtin().unwrap();
        let gpu = catalog.find("Quadro RTX 8000").unwrap();
        let us = |stride| algorithm_us(&work([64, 128, 14, 3, stride]), ConvAlgorithm::Winograd, gpu);
        assert!(us(1).is_some() && us(2).is_none());
        assert!(algorithm_us(&work([64, 128, 14, 7, 1]), ConvAlgorithm::Winograd, gpu).is_none());
        let usual = |stride| usual_algorithm(&work([64, 128, 14, 3, stride]), gpu);
        assert_eq!([1, 2].map(usual), [ConvAlgorithm::Winograd, ConvAlgorithm::Direct]);
    }

    #[test]
    fn counts_are_those_worked_out_by_hand() {
        let catalog = Catalog::builtin().unwrap();
        let (blimp, gpu) = (catalog.find("BLIMP").unwrap(), catalog.find("V100").unwrap());
        let layer = work([16, 32, 8, 3, 1]);
        let cost = |algorithm, device| algorithm_cost(&layer, algorithm, device).unwrap();
        // 4·4 tiles of 2×2 outputs from 4×4 inputs; on a GPU 2·2 of 4×4 from 6×6.
        let (small, large) = (cost(ConvAlgorithm::Winograd, blimp), cost(ConvAlgorithm::Winograd, gpu));
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6 * b;
        assert!(close(small.product_flop, 2.0 * 16.0 * 16.0 * 32.0 * 16.0), "{small:?}");
        assert!(close(small.transform_flop, 2.0 * 64.0 * 16.0 * 48.0), "{small:?}");
        assert!(close(large.product_flop, 2.0 * 4.0 * 16.0 * 32.0 * 36.0), "{large:?}");
        // 8 outputs and a filter of 3 take one tile of 16; half its spectrum, 16·9 points.
        let fft = cost(ConvAlgorithm::Fft, gpu);
        assert!(close(fft.product_flop, 8.0 * 16.0 * 32.0 * 144.0), "{fft:?}");
        assert!(close(fft.transform_flop, 2.5 * 256.0 * 8.0 * (48.0 + 512.0)), "{fft:?}");
        let unfolded = cost(ConvAlgorithm::Im2col, gpu).bytes - cost(ConvAlgorithm::Direct, gpu).bytes;
        assert!(close(unfolded, 2.0 * 4.0 * 16.0 * 9.0 * 64.0));
    }

    #[test]
    fn the_best_is_no_slower_than_any_and_depends_on_the_device() {
        let catalog = Catalog::builtin().unwrap();
        for name in ["BLIMP", "Xeon-Gold-6230", "A100-40"] {
            let device = catalog.find(name).unwrap();
            for layer in [work([3, 64, 224, 11, 1]), work([256, 512, 28, 3, 1]), work([64, 64, 56, 1, 1])] {
                let (_, best) = best_algorithm(&layer, device).unwrap();
                assert!(
                    ConvAlgorithm::ALL.iter().all(|&it| algorithm_us(&layer, it, device).is_none_or(|us| us >= best))
                );
            }
        }
    }
}

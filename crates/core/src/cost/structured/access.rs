//! Kernels that fetch elements one by one: bound by the instructions for each element, not by its bytes.
//!
//! `t = start + elements / (width · rate · multiprocessors · clock)`, `width` elements an access.

use super::gemm::TILES;
use super::reduction::{chain_us, reduction_us};
use crate::cost::work::{Family, Picking, Shape, Work, element_bytes};
use crate::device::DeviceProfile;

/// Elements per clock and multiprocessor of kernels that work out each element's place: with a division by multiplication
/// for each of up to four dimensions some 45 instructions an element, and half of the 128 lanes' issue slots a clock are
/// used [counted from the source; no table measures it: permuted fp32 copies, bound by memory, reach 0.9 on A100].
const PLACED: f64 = 1.4;

/// Elements per clock and multiprocessor of kernels that turn tiles, where the tiles' edges leave few bytes to move: three channels, or the
/// nine taps of a filter, of 32 [images and filters of an H100 3.2 and 2.9; of an A100 3.2 and 3.4, of an H200 3.2 and 2.9, which nothing
/// was fitted to].
const TILED: f64 = 3.2;

/// Elements per clock and multiprocessor of products that fetch them one by one, median of [115 products of an H100: bf16 3.2, tf32 3.0, half
/// of them between 2.4 and 4.1; 31 of an H200 that nothing was fitted to: 3.6 and 3.1].
const FETCHED: f64 = 3.1;

/// Elements per clock and multiprocessor of a softmax by blocks over rows that start anywhere
/// [`NeuSight`: A100 0.76 at 60 % of its bandwidth where other widths reach 86 %; V100 0.6, P100 0.47].
const UNEVEN_SOFTMAX: f64 = 0.75;

/// Elements of the input per clock and multiprocessor of the gradient of max pooling, which searches the windows of each: 0.33
/// fitted to a trace of ResNet-50 on V100 (3 × 3); VGG on H100 (2 × 2) has 0.35, ResNet-50 on RTX 2080 Ti 0.25.
const POOLED: f64 = 0.33;

/// Rows per clock and multiprocessor of kernels that give each row that a list picks a block of its own: blocks bound them, not bytes
/// [rows of 64 and of 128 fp32 elements in traces of an H100 take 0.605 ns each; an H200, of the same cores, as long].
pub(super) const PICKED: f64 = 0.0063;

/// Elements per clock and multiprocessor that are added to the rows that a list picks: of half the threads that would fit, each waits for
/// its place, its element and the sum [traces of an H100: 0.39 to 0.48; 0.34 in a table of 38 GB].
const ADDED: f64 = 0.46;

/// Rows of up to [`WARP_ROW`] elements per clock and multiprocessor that warps add in the order of a sorted list, four of a block, which
/// bounds them [8.5 M rows of one element on V100, torchrec's trace: 4.53 ms; captures of an H100, which nothing is fitted to, say 0.019].
const ADDED_IN_ORDER: f64 = 0.0154;

/// Elements of a row that a warp adds at a time.
const WARP_ROW: u64 = 128;

/// Longest row of a softmax that a warp keeps in registers.
const WARP_SOFTMAX: u64 = 1024;

/// Least time of `work` on `device` in µs; 0 where bytes and arithmetic say all.
pub(crate) fn access_us(work: &Work, device: &DeviceProfile) -> f64 {
    if work.family == Family::Reduction {
        return reduction_us(work, device);
    }
    if let Some(accesses) = convolution(work).and_then(|shape| fewest(shape, device)) {
        return device.kernel_start.secs() * 1e6 + accesses / (PLACED * device.clock_mhz.max(1.0));
    }
    let (elements, rate) = match work.shape {
        Shape::Chained => return device.kernel_start.secs() * 1e6 + chain_us(device),
        Shape::Strided { elements } if work.family == Family::Pooling => (elements as f64, POOLED),
        Shape::Strided { elements } => (elements as f64, PLACED),
        Shape::Tiled { elements } => (elements as f64, TILED),
        Shape::Picked { rows, picking: Picking::Copied, .. } => (rows as f64, PICKED),
        Shape::Picked { rows, width, picking: Picking::Added } => (rows as f64 * width as f64, ADDED),
        Shape::Picked { rows, width, picking: Picking::AddedInOrder } => {
            (rows as f64 * width.div_ceil(WARP_ROW) as f64, ADDED_IN_ORDER)
        }
        Shape::Gemm { .. } if work.precision.is_tensor() => return product_us(work, device),
        Shape::Rows { rows, width } if work.family == Family::Softmax && width > WARP_SOFTMAX && width % 4 != 0 => {
            (rows as f64 * width as f64, UNEVEN_SOFTMAX)
        }
        _ => return 0.0,
    };
    let per_us = rate * f64::from(device.sm_count.max(1)) * device.clock_mhz.max(1.0);
    device.kernel_start.secs() * 1e6 + elements / per_us
}

/// Least time of a product on tensor cores of which a matrix has rows that no whole access fits: each matrix once, by how far its own rows
/// are apart; and both factors for each tile anew, where libraries fetch elements of all matrices alike.
fn product_us(work: &Work, device: &DeviceProfile) -> f64 {
    let Shape::Gemm { batch, m, n, k } = work.shape else { return 0.0 };
    let element = element_bytes(work);
    // The second factor's layout is left open; a vector's elements lie side by side whatever its length.
    let lengths = if n > 1 { [k, n | k, n] } else { [k, k, 0] };
    let width = |lengths: u64| vector(lengths, element) as f64;
    let whole = vector(0, element) as f64;
    let sms = f64::from(device.sm_count.max(1));
    let [batch, m, n, k] = [batch, m, n, k].map(|size| size as f64);
    let once = |((rows, columns), lengths): ((f64, f64), u64)| rows * columns * batch / width(lengths);
    let once = [(m, k), (k, n), (m, n)].into_iter().zip(lengths).map(once).fold(0.0, f64::max) / (PLACED * sms);
    let of_tile = |(rows, columns): (f64, f64)| {
        (batch * (m / rows).ceil() * (n / columns).ceil() / sms).ceil() * (rows + columns) * k
    };
    let all = width(lengths.into_iter().fold(0, |all, length| all | length));
    let fetched = TILES.into_iter().map(of_tile).fold(f64::INFINITY, f64::min) / (FETCHED * all);
    let accesses = if all < whole { once.max(fetched) } else { once };
    device.kernel_start.secs() * 1e6 + accesses / device.clock_mhz.max(1.0)
}

/// The product `[pixels, taps] × [taps, filters]` that a convolution without groups is on tensor cores, where a pixel has fewer channels
/// than a whole access.
#[derive(Clone, Copy)]
struct FewChannels {
    pixels: u64,
    filters: u64,
    /// Accesses for all taps of a pixel or filter.
    accesses: u64,
}

/// Whether a convolution fetches channels one by one: as a product of the same sizes it would not.
pub(crate) fn fetches_channels(work: &Work) -> bool {
    convolution(work).is_some()
}

fn convolution(work: &Work) -> Option<FewChannels> {
    let &Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, groups: 1, .. } = &work.shape else {
        return None;
    };
    let element = element_bytes(work);
    let width = vector(channels_in, element);
    let is_slow = work.precision.is_tensor() && (1..vector(0, element)).contains(&channels_in);
    let accesses = r.saturating_mul(s).saturating_mul(channels_in).div_ceil(width);
    let pixels = batch.saturating_mul(out_h).saturating_mul(out_w);
    is_slow.then_some(FewChannels { pixels, filters: channels_out, accesses })
}

/// Accesses of the busiest multiprocessor, each block fetching the rows of both factors that its tile of the result needs, with the tile
/// that needs the fewest.
fn fewest(shape: FewChannels, device: &DeviceProfile) -> Option<f64> {
    let [pixels, filters, accesses] = [shape.pixels, shape.filters, shape.accesses].map(|size| size as f64);
    let of_tile = |(rows, columns): (f64, f64)| {
        let blocks = (pixels / rows).ceil() * (filters / columns).ceil();
        (blocks / f64::from(device.sm_count.max(1))).ceil() * (rows + columns) * accesses
    };
    TILES.into_iter().map(of_tile).reduce(f64::min)
}

/// Elements of one access of at most 16 bytes when rows are `lengths` elements apart (the bitwise or of them).
fn vector(lengths: u64, element: u64) -> u64 {
    (16 / element).min(1 << lengths.trailing_zeros().min(4)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::{ConvPass, ConvSize, GemmSize, conv_work, gemm_work, movement_work};
    use crate::device::Catalog;
    use crate::graph::DType;

    #[test]
    fn a_permuted_copy_of_half_precision_takes_as_long_as_one_of_twice_the_bytes() {
        let catalog = Catalog::builtin().unwrap();
        let h100 = catalog.find("H100-SXM").unwrap();
        let copy = |bytes: u64| Work {
            shape: Shape::Strided { elements: 10_000_000 },
            ..movement_work(Family::Movement, bytes, bytes)
        };
        let (half, single) = (access_us(&copy(20_000_000), h100), access_us(&copy(40_000_000), h100));
        assert!((half - single).abs() < 1e-9 && half > 20.0);
    }

    #[test]
    fn a_convolution_of_three_channels_fetches_them_one_by_one() {
        let catalog = Catalog::builtin().unwrap();
        let size = |channels_in| ConvSize {
            batch: 128,
            channels_in,
            channels_out: 768,
            in_area: 224 * 224,
            out_h: 14,
            out_w: 14,
            r: 16,
            s: 16,
            stride: 16,
            groups: 1,
        };
        let us = |channels, dtype, device: &str| {
            let work = conv_work(&size(channels), ConvPass::Forward, dtype, false);
            access_us(&work, catalog.find(device).unwrap())
        };
        // Patches of images as two traces have them: 863 µs on an H100; by tile 256 × 64, which is not the fastest.
        let found = us(3, DType::Bf16, "H100-SXM");
        assert!((400.0..863.0).contains(&found), "{found}");
        assert!(us(513, DType::Bf16, "H100-SXM") <= 0.0, "of more channels few are padded");
        assert!(us(8, DType::Bf16, "H100-SXM") <= 0.0 && us(3, DType::Fp32, "H100-SXM") <= 0.0);
    }

    #[test]
    fn odd_sums_leave_the_result_aligned() {
        let catalog = Catalog::builtin().unwrap();
        let h100 = catalog.find("H100-SXM").unwrap();
        let us = |n, k| access_us(&gemm_work(GemmSize { batch: 1, m: 4096, n, k }, DType::Bf16, false, 0), h100);
        assert!(us(4096, 65) < 0.5 * us(4095, 64), "both factors are small beside the result");
        assert!(
            us(4095, 64) > 7.0 * (us(4096, 64) - h100.kernel_start.secs() * 1e6),
            "the result is stored one by one"
        );
    }

    #[test]
    fn an_odd_matrix_costs_the_tensor_cores_most_of_their_rate() {
        let catalog = Catalog::builtin().unwrap();
        let h100 = catalog.find("H100-SXM").unwrap();
        let us = |m, n, k, dtype, tf32| access_us(&gemm_work(GemmSize { batch: 1, m, n, k }, dtype, tf32, 0), h100);
        // The head of GPT-2 (50 257 words) and its gradient in traces of an H200, which has the same cores, in µs.
        for (us, measured) in
            [(us(4096, 50_257, 768, DType::Bf16, false), 2_640.0), (us(4096, 50_257, 768, DType::Fp32, true), 2_520.0)]
        {
            assert!((us / measured - 1.0).abs() < 0.15, "{us} for {measured}");
        }
        assert!(us(4096, 50_264, 768, DType::Bf16, false) < 0.2 * us(4096, 50_257, 768, DType::Bf16, false));
    }

    #[test]
    fn rows_of_odd_length_are_read_element_by_element() {
        assert_eq!((vector(0x440, 2), vector(0x1441, 2), vector(5186, 2)), (8, 1, 2));
    }
}

//! Kernels that fetch elements one by one: bound by the instructions for each element, not by its bytes.
//!
//! `t = start + elements / (width · rate · multiprocessors · clock)`, `width` elements an access.

use super::reduction::{chain_us, reduction_us};
use crate::cost::work::{Family, Shape, Work, element_bytes};
use crate::device::DeviceProfile;

/// Elements per clock and multiprocessor of kernels that work out each element's place: with a division by multiplication
/// for each of up to four dimensions some 45 instructions an element, and half of the 128 lanes' issue slots a clock are
/// used [counted from the source; no table measures it: permuted fp32 copies, bound by memory, reach 0.9 on A100].
const PLACED: f64 = 1.4;

/// Elements per clock and multiprocessor of a softmax by blocks over rows that start anywhere
/// [`NeuSight`: A100 0.76 at 60 % of its bandwidth where other widths reach 86 %; V100 0.6, P100 0.47].
const UNEVEN_SOFTMAX: f64 = 0.75;

/// Elements of the input per clock and multiprocessor of the gradient of max pooling, which searches the windows of each: 0.33
/// fitted to a trace of ResNet-50 on V100 (3 × 3); VGG on H100 (2 × 2) has 0.35, ResNet-50 on RTX 2080 Ti 0.25.
const POOLED: f64 = 0.33;

/// Longest row of a softmax that a warp keeps in registers.
const WARP_SOFTMAX: u64 = 1024;

/// Least time of `work` on `device` in µs; 0 where bytes and arithmetic say all.
pub(crate) fn access_us(work: &Work, device: &DeviceProfile) -> f64 {
    if work.family == Family::Reduction {
        return reduction_us(&work.shape, device);
    }
    let (elements, rate) = match work.shape {
        Shape::Chained => return device.kernel_start.secs() * 1e6 + chain_us(device),
        Shape::Strided { elements } if work.family == Family::Pooling => (elements as f64, POOLED),
        Shape::Strided { elements } => (elements as f64, PLACED),
        Shape::Gemm { batch, m, n, k } if work.precision.is_tensor() => {
            let sizes =
                [(m, k), (k, n), (m, n)].map(|(rows, columns)| rows.saturating_mul(columns).saturating_mul(batch));
            let largest = sizes.into_iter().max().unwrap_or(0);
            // A vector's own elements lie side by side whatever its length.
            let lengths = if n > 1 { n | k } else { k };
            (largest as f64 / vector(lengths, element_bytes(work)) as f64, PLACED)
        }
        Shape::Rows { rows, width } if work.family == Family::Softmax && width > WARP_SOFTMAX && width % 4 != 0 => {
            (rows as f64 * width as f64, UNEVEN_SOFTMAX)
        }
        _ => return 0.0,
    };
    let per_us = rate * f64::from(device.sm_count.max(1)) * device.clock_mhz.max(1.0);
    device.kernel_start.secs() * 1e6 + elements / per_us
}

/// Elements of one access of at most 16 bytes when rows are `lengths` elements apart (the bitwise or of them).
fn vector(lengths: u64, element: u64) -> u64 {
    (16 / element).min(1 << lengths.trailing_zeros().min(4)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::movement_work;
    use crate::device::Catalog;

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
    fn rows_of_odd_length_are_read_element_by_element() {
        assert_eq!((vector(0x440, 2), vector(0x1441, 2), vector(5186, 2)), (8, 1, 2));
    }
}

//! The analytical layer model: the time for the arithmetic of the algorithm plus the time for its traffic
//! [Kakrannava 2024 §IV].
//!
//! `t = ops / (PE_used · speed_of_PE) + bytes / BW`, `PE_used = min(PEs, parallelism of the algorithm)`. Products have a speed of their
//! own where the device has one; convolutions are those of `conv_algorithm`.

use crate::device::DeviceProfile;

use super::conv_algorithm::{algorithm_us, usual_algorithm};
use super::roofline::{memory_rate, peak_of};
use super::work::{Shape, Work};

/// Time in µs without the start cost, convolutions by the algorithm that libraries take.
pub(super) fn analytical_us(work: &Work, device: &DeviceProfile) -> f64 {
    algorithm_us(work, usual_algorithm(work, device), device)
        .unwrap_or_else(|| sum_us(work.flop.0, work.bytes().0 as f64, work, device))
}

/// Independent units of work that the kernel offers: a block per channel for batch norm, a row for other
/// row-wise kernels, unbounded elsewhere.
fn parallelism(work: &Work) -> f64 {
    match work.shape {
        Shape::Rows { rows, .. } | Shape::Channels { channels: rows, .. } => (rows as f64).max(1.0),
        _ => f64::INFINITY,
    }
}

/// Time in µs of `flop` operations and then `bytes` of traffic of `work`, with as many processing elements in use as it can occupy.
pub fn sum_us(flop: f64, bytes: f64, work: &Work, device: &DeviceProfile) -> f64 {
    let units = f64::from(device.sm_count.max(1));
    let used = parallelism(work).min(units) / units;
    let rate = peak_of(work, device).max(1.0) * used;
    1e6 * (flop / rate + bytes / (memory_rate(device).max(1.0) * used))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::work::Family;
    use crate::device::{Catalog, Precision};
    use crate::units::{Bytes, Flop};

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
        let ratio = analytical_us(&few, a100) / analytical_us(&many, a100);
        // §VI-C: 0.93 → 1.55 ms, a ratio of 108/64.
        assert!((ratio - 108.0 / 64.0).abs() < 1e-6);
    }
}

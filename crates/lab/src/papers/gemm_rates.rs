//! The parameterised roofline: measured rates of matrix products for the peak, the memory roof beside it
//! [Cardwell 2019 ch. 3].
//!
//! `P = min(f(m, n, k), OI · M_peak)`, `f` the rate measured for that very size.

use retime_core::cost::Work;
use retime_core::cost::operators::{GemmSize, gemm_flop};

/// Measured products of one machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GemmRates {
    rows: Vec<(GemmSize, f64)>,
}

impl GemmRates {
    /// Products with the seconds each took; rows without time are left out.
    pub(super) fn new(rows: impl IntoIterator<Item = (GemmSize, f64)>) -> Self {
        Self { rows: rows.into_iter().filter(|&(_, seconds)| seconds.is_finite() && seconds > 0.0).collect() }
    }

    /// FLOP per second at `size`: as measured for that size, else the mean of the logarithms of all rows' rates,
    /// weighted by the inverse square of the distance in log sizes (never beyond the fastest or slowest row).
    pub(super) fn rate(&self, size: GemmSize) -> Option<f64> {
        let mut sums = (0.0, 0.0);
        for &(row, seconds) in &self.rows {
            let rate = gemm_flop(row).0 / seconds;
            let distance = squared_distance(row, size);
            if distance <= 0.0 {
                return Some(rate);
            }
            sums = (sums.0 + rate.max(1.0).ln() / distance, sums.1 + 1.0 / distance);
        }
        (sums.1 > 0.0).then(|| (sums.0 / sums.1).exp())
    }

    /// Seconds of the product `size` whose work is `work`, under a memory roof of `memory` bytes per second.
    pub(super) fn seconds(&self, size: GemmSize, work: &Work, memory: f64) -> Option<f64> {
        let rate = self.rate(size)?.min(work.intensity() * memory);
        Some(work.flop.0 / rate.max(1.0))
    }
}

fn squared_distance(a: GemmSize, b: GemmSize) -> f64 {
    let axis = |a: u64, b: u64| (a.max(1) as f64 / b.max(1) as f64).ln().powi(2);
    axis(a.batch, b.batch) + axis(a.m, b.m) + axis(a.n, b.n) + axis(a.k, b.k)
}

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::cost::operators::gemm_work;
    use retime_core::graph::DType;

    fn size(m: u64, n: u64, k: u64) -> GemmSize {
        GemmSize { batch: 1, m, n, k }
    }

    #[test]
    fn a_measured_size_gives_its_own_time_and_others_lie_between() {
        let rates = GemmRates::new([(size(32, 50, 784), 0.000_143), (size(128, 50, 784), 0.000_207)]);
        let seconds = |size| rates.seconds(size, &gemm_work(size, DType::Fp32, false, 0), 12_937.6e6).unwrap();
        assert!((seconds(size(128, 50, 784)) - 0.000_207).abs() < 1e-12);
        let between = seconds(size(64, 50, 784));
        assert!(between > 0.000_143 / 2.0 && between < 0.000_207, "{between}");
        // Halfway in log sizes: the geometric mean of both rates.
        let mean = (rates.rate(size(32, 50, 784)).unwrap() * rates.rate(size(128, 50, 784)).unwrap()).sqrt();
        assert!((rates.rate(size(64, 50, 784)).unwrap() / mean - 1.0).abs() < 1e-9);
        assert_eq!(GemmRates::default().rate(size(1, 1, 1)), None);
    }

    #[test]
    fn the_memory_roof_holds_a_product_back() {
        let thin = size(4096, 1, 4096);
        let rates = GemmRates::new([(thin, 1e-9)]);
        let work = gemm_work(thin, DType::Fp32, false, 0);
        let least = work.bytes().0 as f64 / 1e9;
        assert!((rates.seconds(thin, &work, 1e9).unwrap() / least - 1.0).abs() < 1e-9);
    }
}

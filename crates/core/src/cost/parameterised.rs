//! The parameterised roofline: measured rates of matrix products for the peak, the memory roof beside it [Cardwell 2019 ch. 3].
//!
//! `P = min(f(k, m, n), OI · M_peak)`, in FLOP per second: `f` the rate measured for that very size, between sizes the mean of the
//! logarithms of all rates weighted by the inverse square of the distance in log sizes; `OI` FLOP per byte; `M_peak` bytes per second.
//! Convolutions are the products that im2col makes of them, attention runs at the rate of queries by keys; pooling, activations, softmax and norms lie under the memory roof alone,
//! after the device's start cost. Fails where a kernel is bound by neither (the thesis' ReLU and sigmoid rows).

use serde::{Deserialize, Serialize};

use crate::device::DeviceProfile;
use crate::device::limits::MOST_FLOP_PER_SECOND;

use super::roofline::memory_rate;
use super::work::{Family, Shape, Work};

/// A measured product `[m, k] × [k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredProduct {
    /// Rows of the result.
    pub m: f64,
    /// Columns of the result.
    pub n: f64,
    /// Length of each dot product.
    pub k: f64,
    /// What it took.
    pub seconds: f64,
}

impl MeasuredProduct {
    /// Whether a device could have taken that long for such a product.
    pub fn is_sound(&self) -> bool {
        let is_size = |size: &f64| (1.0..=1e9).contains(size);
        [self.m, self.n, self.k].iter().all(is_size)
            && (1e-9..=1e6).contains(&self.seconds)
            && self.rate() <= MOST_FLOP_PER_SECOND
    }

    fn rate(&self) -> f64 {
        2.0 * self.m * self.n * self.k / self.seconds
    }
}

/// Measured products of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProductRates {
    rows: Vec<MeasuredProduct>,
}

impl ProductRates {
    /// Those of `rows` that are sound.
    pub fn new(rows: impl IntoIterator<Item = MeasuredProduct>) -> Self {
        Self { rows: rows.into_iter().filter(MeasuredProduct::is_sound).collect() }
    }

    /// The rows.
    pub fn rows(&self) -> &[MeasuredProduct] {
        &self.rows
    }

    /// FLOP per second of a product of this size; never beyond the fastest and the slowest row.
    pub fn rate(&self, size: [f64; 3]) -> Option<f64> {
        rate(self.rows.iter(), size)
    }

    /// Each row with its seconds as the others give them; none of a single one.
    pub fn left_out(&self) -> impl Iterator<Item = (&MeasuredProduct, f64)> {
        self.rows.iter().enumerate().filter_map(|(at, row)| {
            let others = self.rows.iter().enumerate().filter(move |(other, _)| *other != at).map(|(_, row)| row);
            Some((row, row.seconds * row.rate() / rate(others, [row.m, row.n, row.k])?))
        })
    }

    /// Mean absolute relative error of the rows as the others give them; `None` of fewer than two.
    pub fn left_out_error(&self) -> Option<f64> {
        let errors: Vec<f64> = self.left_out().map(|(row, seconds)| (seconds / row.seconds - 1.0).abs()).collect();
        (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
    }

    /// The time of `work` on `device` in µs; `None` of unrecognised work without traffic.
    pub(super) fn time_us(&self, work: &Work, device: &DeviceProfile) -> Option<f64> {
        let traffic = work.bytes().0 as f64 / memory_rate(device).max(1.0);
        let Some(size) = product_size(work) else {
            let start = device.kernel_start.secs();
            let is_known = work.bytes().0 > 0 || work.family != Family::Other;
            return is_known.then_some(1e6 * (start + traffic));
        };
        Some(1e6 * (work.flop.0 / self.rate(size)?).max(traffic))
    }

    /// Whether the size of `work` was measured.
    pub(super) fn has(&self, work: &Work) -> bool {
        product_size(work).is_some_and(|size| self.rows.iter().any(|row| distance(row, size) <= 0.0))
    }
}

fn rate<'a>(rows: impl Iterator<Item = &'a MeasuredProduct>, size: [f64; 3]) -> Option<f64> {
    let mut sums = (0.0, 0.0);
    for row in rows {
        let distance = distance(row, size);
        if distance <= 0.0 {
            return Some(row.rate());
        }
        sums = (sums.0 + row.rate().max(1.0).ln() / distance, sums.1 + 1.0 / distance);
    }
    (sums.1 > 0.0).then(|| (sums.0 / sums.1).exp())
}

/// The `m`, `n`, `k` of the products that the work is made of.
fn product_size(work: &Work) -> Option<[f64; 3]> {
    let size = match work.shape {
        Shape::Gemm { m, n, k, .. } => [m, n, k],
        Shape::Attention { queries, keys, dim, .. } => [queries, keys, dim],
        Shape::Conv { batch, channels_in, channels_out, out_h, out_w, r, s, groups, .. } => {
            let groups = groups.max(1);
            let m = batch.saturating_mul(out_h).saturating_mul(out_w);
            [m, channels_out / groups, (channels_in / groups).saturating_mul(r).saturating_mul(s)]
        }
        _ => return None,
    };
    size.iter().all(|&dim| dim > 0).then(|| size.map(|dim| dim as f64))
}

fn distance(row: &MeasuredProduct, size: [f64; 3]) -> f64 {
    [row.m, row.n, row.k].into_iter().zip(size).map(|(a, b)| (a / b).ln().powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::{AttentionSize, GemmSize, attention_work, gemm_work};
    use crate::device::Catalog;
    use crate::graph::DType;

    fn row(m: f64, n: f64, k: f64, seconds: f64) -> MeasuredProduct {
        MeasuredProduct { m, n, k, seconds }
    }

    #[test]
    fn a_measured_size_gives_its_own_time_and_others_lie_between() {
        let rates = ProductRates::new([row(32.0, 50.0, 784.0, 0.000_143), row(128.0, 50.0, 784.0, 0.000_207)]);
        let catalog = Catalog::builtin().unwrap();
        let device = catalog.find("Carbonate").unwrap();
        let us = |m| rates.time_us(&gemm_work(GemmSize { batch: 1, m, n: 50, k: 784 }, DType::Fp32, false, 0), device);
        assert!((us(128).unwrap() - 207.0).abs() < 1e-9);
        let rate = |m: f64| rates.rate([m, 50.0, 784.0]).unwrap();
        assert!(rate(32.0) < rate(64.0) && rate(64.0) < rate(128.0));
        assert!((rate(1e6) / (rate(32.0) * rate(128.0)).sqrt() - 1.0).abs() < 0.3, "far away: between the rows");
        assert!(ProductRates::new([row(0.0, 1.0, 1.0, 1.0)]).rows().is_empty());
    }

    #[test]
    fn attention_runs_at_the_rate_of_its_products() {
        let rates = ProductRates::new([row(128.0, 128.0, 64.0, 1e-3)]);
        let catalog = Catalog::builtin().unwrap();
        let device = catalog.find("Carbonate").unwrap();
        let heads = AttentionSize { batch: 2, heads: 3, kv_heads: 3, queries: 128, keys: 128, dim: 64, causal: false };
        let work = attention_work(&heads, false, DType::Fp32);
        // Of each head queries by keys, and what they weigh by values: twelve such products.
        assert!((rates.time_us(&work, device).unwrap() - 12_000.0).abs() < 1e-6);
        assert!(rates.has(&work));
    }

    #[test]
    fn memory_bounds_a_product_that_was_measured_faster_than_it_allows() {
        let catalog = Catalog::builtin().unwrap();
        let device = catalog.find("Carbonate").unwrap();
        let work = gemm_work(GemmSize { batch: 1, m: 2, n: 2, k: 1 << 20 }, DType::Fp32, false, 0);
        let rates = ProductRates::new([row(2.0, 2.0, 1_048_576.0, 1e-9)]);
        let least = work.bytes().0 as f64 / memory_rate(device) * 1e6;
        assert!((rates.time_us(&work, device).unwrap() - least).abs() < 1e-9);
    }
}

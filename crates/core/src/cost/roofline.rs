//! The roofline: the greater of the time for the arithmetic and the time for the traffic.

use crate::device::{DeviceKind, DeviceProfile, UNMEASURED_BANDWIDTH};

use crate::units::DurNs;

use super::conv_algorithm::chosen_arithmetic;
use super::copies::least_us;
use super::models::Placed;
use super::work::{Family, Shape, Work};

/// Bytes per second that a device's memory delivers to large transfers.
pub(crate) fn memory_rate(device: &DeviceProfile) -> f64 {
    device.dram_bandwidth_measured.map_or(device.dram_bandwidth.0 * UNMEASURED_BANDWIDTH, |rate| rate.0)
}

/// `t = start + max(FLOP / peak, bytes / BW)` in µs, with the measured bandwidth where the profile has one
/// [Lin 2022 §III-B; the start is the device's fixed cost of any kernel].
pub fn roofline_us(work: &Work, device: &DeviceProfile) -> f64 {
    device.kernel_start.secs() * 1e6 + bound_us(work, device)
}

/// FLOP per second that bound `work`: products may have units of their own.
pub(super) fn peak_of(work: &Work, device: &DeviceProfile) -> f64 {
    device.peak_rate(work.computed_with()).0
}

/// The roofline without the start cost, in µs.
pub(crate) fn bound_us(work: &Work, device: &DeviceProfile) -> f64 {
    let peak = peak_of(work, device);
    let arithmetic = if work.flop.0 > 0.0 { work.flop.0 / peak.max(1.0) } else { 0.0 };
    let traffic = work.bytes().0 as f64 / memory_rate(device).max(1.0);
    1e6 * arithmetic.max(traffic)
}

/// Whether the traffic of `work` takes longer than its arithmetic.
pub(super) fn is_bound_by_traffic(work: &Work, device: &DeviceProfile) -> bool {
    work.bytes().0 as f64 * peak_of(work, device) > work.flop.0 * memory_rate(device)
}

/// The roofline with the device's data-movement curve for the traffic, in µs; the plain roofline on devices without
/// one. The curve holds the start cost already [Lin 2024, authors' code].
pub fn curve_us(work: &Work, device: &DeviceProfile) -> f64 {
    let Some(curve) = &device.dram_curve else { return roofline_us(work, device) };
    let arithmetic = 1e6 * work.flop.0 / peak_of(work, device).max(1.0);
    curve.time_us(work.bytes().0 as f64).max(arithmetic)
}

/// The shortest time of `work` under the theoretical roofs of a GPU: products and sums of rows at the peak of their units, and the
/// traffic that the L2 cache cannot hold at the memory's bandwidth, but of lookups, whose work does not tell what reaches memory. Zero
/// for collectives and, but for copies and lookups, on CPUs. Other arithmetic is counted by convention and bounds nothing but on devices
/// that are made for little of it, such as memory that computes.
pub fn least(work: &Work, device: &DeviceProfile) -> DurNs {
    match work.shape {
        Shape::Copy { route, .. } => return DurNs::from_us_f64(least_us(work, route, device)),
        Shape::Embedding { .. } => return arithmetic(work, device),
        Shape::Collective { .. } => return DurNs::ZERO,
        _ => {}
    }
    match device.kind {
        DeviceKind::Gpu => {}
        // Products that were measured on a machine may be faster than the peak that was.
        DeviceKind::Other if !matches!(work.family, Family::Gemm | Family::Conv | Family::Attention) => {
            return arithmetic(work, device);
        }
        DeviceKind::Other | DeviceKind::Cpu => return DurNs::ZERO,
    }
    let traffic = work.bytes().0.saturating_sub(device.l2.0) as f64 / device.dram_bandwidth.0.max(1.0);
    arithmetic(work, device).max(DurNs::from_us_f64(1e6 * traffic))
}

/// The time of the products in `work`, or of the rows that it adds up, at the peak of their units, on any device; on what is neither CPU
/// nor GPU that of all arithmetic.
fn arithmetic(work: &Work, device: &DeviceProfile) -> DurNs {
    let seconds = match work.family {
        Family::Gemm | Family::Conv | Family::Attention => {
            chosen_arithmetic(work, device).unwrap_or_else(|| work.flop.0 / peak_of(work, device).max(1.0))
        }
        family if family == Family::Embedding || device.kind == DeviceKind::Other => {
            work.flop.0 / peak_of(work, device).max(1.0)
        }
        _ => 0.0,
    };
    DurNs::from_us_f64(1e6 * seconds)
}

/// The same among the other kernels of a model: a factor of a product that the L2 cache cannot hold was not left there by what ran
/// before.
pub(super) fn least_in_model(work: &Work, device: &DeviceProfile) -> DurNs {
    if device.kind != DeviceKind::Gpu {
        return arithmetic(work, device);
    }
    let least = least(work, device);
    let &Shape::Gemm { m, n, k, .. } = &work.shape else { return least };
    let (left, right) = (m as f64 * k as f64, k as f64 * n as f64);
    let larger = work.read.0 as f64 * left.max(right) / (left + right).max(1.0);
    let missing = ((larger / device.l2.0.max(1) as f64 - LEFT) / (1.0 - LEFT)).clamp(0.0, 1.0);
    let streamed = work.bytes().0 as f64 / device.dram_bandwidth.0.max(1.0) * missing;
    least.max(DurNs::from_us_f64(1e6 * streamed))
}

/// What all traffic of `work` takes over the memory of a device.
fn streamed(work: &Work, device: &DeviceProfile) -> DurNs {
    DurNs::from_us_f64(1e6 * work.bytes().0 as f64 / device.dram_bandwidth.0.max(1.0))
}

/// Share of the L2 cache up to which a factor may be left there by what ran before; of one as large as the cache nothing is.
const LEFT: f64 = 0.5;

/// The shortest times of a kernel under the theoretical roofs, of what it had to do on its device and of what it has to do now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeastTimes {
    before: DurNs,
    now: DurNs,
    /// Whether another device has to do it now.
    is_moved: bool,
    /// What it takes with nothing to do now: no less is left of what it took.
    start: DurNs,
}

/// The name of the model by measured products.
pub(super) const PARAMETERISED: &str = "parameterised";

/// How far the clocks of GPUs go above those that their peaks are stated at: what comes above a roof by no more is as fast as its device.
const CLOCKS: f64 = 1.25;

impl LeastTimes {
    /// Those of the same kernel before and now; none where its work is not known.
    pub fn of(before: Placed<'_>, now: Placed<'_>) -> Self {
        let is_moved = before.device.id != now.device.id;
        // How many rows of a look-up a cache holds is told by how far it came above the memory of the GPU that it was measured on.
        let is_lookup = |work: &Work| matches!(work.shape, Shape::Embedding { .. });
        let looks_up = is_moved
            && before.work.is_some_and(is_lookup)
            && [before, now].iter().all(|placed| placed.device.kind == DeviceKind::Gpu);
        let of = |placed: Placed<'_>| {
            let least = |work| {
                let rows = if looks_up { streamed(work, placed.device) } else { DurNs::ZERO };
                least_in_model(work, placed.device).max(rows)
            };
            placed.work.map_or(DurNs::ZERO, least)
        };
        Self { before: of(before), now: of(now), is_moved, start: DurNs::ZERO }
    }

    /// The same where `model` predicts what it takes now: products that were measured on a machine may be faster than the peak that was.
    pub fn of_predicted(model: &str, before: Placed<'_>, now: Placed<'_>) -> Self {
        if model == PARAMETERISED { Self::default() } else { Self::of(before, now) }
    }

    /// As they are.
    ///
    /// # Arguments
    /// `start`: what it takes with nothing to do now.
    pub fn given(before: DurNs, now: DurNs, start: DurNs) -> Self {
        Self { before, now, is_moved: false, start }
    }

    /// Those of `pieces` of work one after the other, and of `merged`, which does them all at once.
    pub fn of_merged(pieces: &[Work], merged: &Work, device: &DeviceProfile) -> Self {
        Self {
            before: pieces.iter().map(|work| least_in_model(work, device)).sum(),
            now: least_in_model(merged, device),
            is_moved: false,
            start: DurNs::ZERO,
        }
    }

    /// `now`, which a kernel that took `before` is predicted to take, but no less than roofs allow. One that was above them already
    /// does less than its operator's arguments say: it comes no further above them. If it was so by its device's clocks it is not on
    /// another device.
    #[must_use]
    pub fn hold(self, before: DurNs, now: DurNs) -> DurNs {
        let above = self.before.0 as f64 / before.0.max(1) as f64;
        let is_carried = above > if self.is_moved { CLOCKS } else { 1.0 };
        now.max(if is_carried { self.now.scale(1.0 / above) } else { self.now }).max(self.start.min(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::movement_work;
    use crate::cost::reuse::Reuse;
    use crate::cost::work::Route;
    use crate::device::Catalog;
    use crate::units::{Bytes, Flop};

    #[test]
    fn a_large_copy_runs_at_measured_bandwidth_and_a_small_one_takes_the_start_cost() {
        let catalog = Catalog::builtin().unwrap();
        let v100 = catalog.find("V100").unwrap();
        let time = |bytes| roofline_us(&movement_work(Family::Movement, bytes, bytes), v100);
        assert!((time(500_000_000) - (2.0 + 1e9 / 816.953e3)).abs() < 1e-6);
        assert!((time(0) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn copies_keep_to_the_memory_and_to_the_link_and_sums_of_rows_to_the_units() {
        let catalog = Catalog::builtin().unwrap();
        let blimp = catalog.find("BLIMP").unwrap();
        let copy = |route| Work {
            shape: Shape::Copy { route, pinned: Some(true) },
            ..movement_work(Family::Transfer, 1 << 30, 1 << 30)
        };
        let link = f64::from(1 << 30) / blimp.host_link.0;
        for (route, wanted) in [
            (Route::DeviceToDevice, 2.0 * link),
            (Route::Fill, link),
            (Route::HostToDevice, link),
            (Route::PeerToPeer, 0.0),
        ] {
            assert!((least(&copy(route), blimp).secs() - wanted).abs() < 1e-6, "{route:?}");
        }
        let reuse = Reuse::default();
        let shape = Shape::Embedding {
            batch: 1 << 10,
            rows: 1 << 20,
            tables: 1,
            pooling: 1e3,
            dim: 64,
            backward: false,
            reuse,
        };
        let lookup = Work { shape, flop: Flop(64e6), ..movement_work(Family::Embedding, 1 << 20, 1 << 10) };
        assert!((least(&lookup, blimp).secs() - 64e6 / 44.8e6).abs() < 1e-3);
    }

    #[test]
    fn what_is_above_a_roof_by_its_devices_clocks_is_not_on_another_device() {
        let us = |us: i64| DurNs(1000 * us);
        let least = |is_moved| LeastTimes { before: us(110), now: us(50), is_moved, start: us(0) };
        assert_eq!(least(false).hold(us(110), us(40)), us(50));
        assert_eq!(least(false).hold(us(100), us(40)), DurNs(45_455), "no further above than it was");
        assert_eq!(least(true).hold(us(100), us(40)), us(50));
        assert_eq!(least(true).hold(us(55), us(20)), us(25), "half of the products are left out everywhere");
        let message = LeastTimes::given(us(1), us(1), us(9));
        assert_eq!(
            [us(40), us(8)].map(|before| message.hold(before, us(2))),
            [us(9), us(8)],
            "a start, or what it took"
        );
    }

    #[test]
    fn products_run_at_no_more_than_the_peak_of_a_host() {
        let catalog = Catalog::builtin().unwrap();
        let karst = catalog.find("Karst").unwrap();
        let work = Work { flop: Flop(22e6), ..movement_work(Family::Gemm, 1 << 30, 0) };
        let seconds = 22e6 / karst.peak_rate(work.precision).0;
        assert!((least_in_model(&work, karst).secs() / seconds - 1.0).abs() < 1e-6, "whatever its caches hold");
    }

    #[test]
    fn weights_beyond_the_cache_cross_the_memory_and_small_ones_may_lie_in_the_cache() {
        let catalog = Catalog::builtin().unwrap();
        let h200 = catalog.find("H200").unwrap();
        let product = |k: u64, n: u64| {
            let read = Bytes(4 * (k + k * n));
            let shape = Shape::Gemm { batch: 1, m: 1, n, k };
            let flop = Flop(2.0 * k as f64 * n as f64);
            Work { shape, flop, read, written: Bytes(4 * n), ..movement_work(Family::Gemm, 0, 0) }
        };
        let (large, small) = (product(9216, 4096), product(1024, 1024));
        let bytes = large.bytes().0 as f64 / h200.dram_bandwidth.0;
        assert!((least_in_model(&large, h200).secs() / bytes - 1.0).abs() < 1e-3);
        assert!(least(&large, h200) < least_in_model(&large, h200));
        assert_eq!(least_in_model(&small, h200), least(&small, h200));
    }
}

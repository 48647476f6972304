//! Time of copies and fills by size: a start, then a rate. In general from the device's figures; from the copies of a trace
//! where it has some.
//!
//! `t = start + bytes/rate`. Within a device the rate is that of its cache for what fits it.

use std::collections::BTreeMap;

use crate::device::DeviceProfile;
use crate::graph::{ExecutionGraph, Task, TaskKind};

use super::classify::work_of_task;
use super::parts::Part;
use super::roofline::memory_rate;
use super::work::{Route, Shape, Work};
use crate::stats;

/// Copies that have a curve of their own: device, route, kind of host memory.
pub type CopyKind = (String, Route, Option<bool>);

/// A copy of `bytes` that took `us`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredCopy {
    /// Its size.
    pub bytes: f64,
    /// Its time in µs.
    pub us: f64,
}

/// What measured copies say against the device's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopyCurve {
    /// Time of the smallest copy in µs.
    pub start_us: f64,
    /// Rate over that of [`transfer_us`].
    pub rate: f64,
    /// Mean absolute relative error on every other copy, the curve fitted to the rest.
    pub error: f64,
}

/// Shortest copies and fills in µs, medians over those of a few bytes in traces of V100, A100, H100, B200 and RTX 2080 Ti; on AMD's GPUs
/// geometric means of the medians in traces of MI300X: three of copies within the device, two from the host, one of fills. None has any
/// to the host: taken as long as one within the device.
fn start_us(route: Route, is_amd: bool) -> f64 {
    match route {
        Route::Fill if is_amd => 1.8,
        Route::HostToDevice if is_amd => 2.5,
        _ if is_amd => 3.7,
        Route::Fill => 1.0,
        Route::HostToDevice => 1.2,
        Route::DeviceToDevice | Route::PeerToPeer => 1.5,
        Route::DeviceToHost => 2.0,
    }
}

/// Share of the host link's rate that copies of pinned memory reach in running models, whose ranks may share switches: geometric
/// mean over V100 0.51, A100 0.26, GV100 0.32, P100 0.48, TITAN Xp 0.22 [Lin 2024, authors' code], two traces of A100 0.25, 0.18,
/// and traces of one rank on an H100 0.80 and an H200 0.84.
const PINNED_SHARE: f64 = 0.37;

/// The same of a lone copy on an idle machine.
const LONE_SHARE: f64 = 0.8;

/// GB/s of copies of pageable memory, which the host first copies to pinned buffers, whatever the link: geometric mean of
/// traces of V100 6.5 and 10, RTX 2080 Ti 3.5, H100 11.
const STAGED_GB_S: f64 = 7.0;

/// Relative errors of the curve without measurements: over the host's link (those shares scatter by a standard deviation of 0.56 in
/// their logarithm), on the device.
const HOST_ERROR: f64 = 0.55;
const DEVICE_ERROR: f64 = 0.3;

/// Bytes a second that copies over the host's link reach. What is copied once, of pinned memory, takes no longer than what is copied twice.
fn host_rate(pinned: Option<bool>, device: &DeviceProfile) -> f64 {
    let link = device.host_link.0.max(1.0);
    let staged = (LONE_SHARE * link).min(STAGED_GB_S * 1e9);
    if pinned == Some(false) { staged } else { (PINNED_SHARE * link).max(staged) }
}

/// Time in µs of moving `bytes` without the start.
fn transfer_us(bytes: f64, route: Route, pinned: Option<bool>, device: &DeviceProfile) -> f64 {
    let over = |rate: f64| 1e6 * bytes / rate.max(1.0);
    match route {
        Route::PeerToPeer if device.peer_link.0 > 0.0 => over(0.8 * device.peer_link.0),
        Route::HostToDevice | Route::DeviceToHost | Route::PeerToPeer => over(host_rate(pinned, device)),
        Route::DeviceToDevice => within_us(2.0 * bytes, 2.0 * bytes, device),
        Route::Fill => within_us(bytes, bytes, device),
    }
}

/// Time in µs of what rounds a factor of a product to 8 bits, a kernel of its own: each row is read twice, in 16 bits, for its scale and
/// to be scaled, and written once.
pub fn quantisation_us(elements: u64, device: &DeviceProfile) -> f64 {
    let elements = elements as f64;
    device.kernel_start.secs() * 1e6 + within_us(5.0 * elements, 3.0 * elements, device)
}

/// Time in µs of `traffic` bytes of reads and writes of `held` bytes on the device; what fits the cache goes at its rate.
fn within_us(traffic: f64, held: f64, device: &DeviceProfile) -> f64 {
    let hit = (device.l2.0 as f64 / held.max(1.0)).min(1.0).powi(2);
    let cache = device.l2_bandwidth.0.max(memory_rate(device)).max(1.0);
    1e6 * traffic * ((1.0 - hit) / memory_rate(device).max(1.0) + hit / cache)
}

/// The shortest time in µs of a copy or fill under the theoretical roofs: what the device's cache cannot hold at the memory's
/// bandwidth, what comes from or goes to a host at the link's. Nothing bounds copies between devices, whose link is not told.
pub(super) fn least_us(work: &Work, route: Route, device: &DeviceProfile) -> f64 {
    let over = |bytes: u64, rate: f64| 1e6 * bytes as f64 / rate.max(1.0);
    match route {
        Route::HostToDevice | Route::DeviceToHost => over(work.written.0, device.host_link.0),
        Route::DeviceToDevice => {
            over(work.written.0.saturating_mul(2).saturating_sub(device.l2.0), device.dram_bandwidth.0)
        }
        Route::Fill => over(work.written.0.saturating_sub(device.l2.0), device.dram_bandwidth.0),
        Route::PeerToPeer => 0.0,
    }
}

/// Time of a copy in µs, by `curve` where there is one, and its relative error; `None` for other work.
pub fn copy_us(work: &Work, device: &DeviceProfile, curve: Option<&CopyCurve>) -> Option<(f64, f64)> {
    let Shape::Copy { route, pinned } = work.shape else { return None };
    let transfer = transfer_us(work.written.0 as f64, route, pinned, device);
    Some(match curve {
        Some(curve) => (curve.start_us + transfer / curve.rate, curve.error),
        None => (start_us(route, device.is_amd) + transfer, if route.is_of_host() { HOST_ERROR } else { DEVICE_ERROR }),
    })
}

/// Fewest copies of a kind that make a curve.
const FEWEST: usize = 4;
/// Bytes up to which a copy takes no longer than its start.
const SMALL: f64 = 4096.0;
/// Bytes from which a copy tells the rate.
const LARGE: f64 = 262_144.0;
/// Least error that is stated of a curve.
const LEAST_ERROR: f64 = 0.05;

impl CopyCurve {
    /// The curve of `copies` of one kind: the start is the median of the small ones, the rate that of the large ones; where
    /// there are none of either, what holds in general. `None` of fewer than four.
    ///
    /// # Complexity
    /// O(n log n).
    pub fn fit(copies: &[MeasuredCopy], route: Route, pinned: Option<bool>, device: &DeviceProfile) -> Option<Self> {
        if copies.len() < FEWEST {
            return None;
        }
        let mut curve = Self::median(copies, route, pinned, device);
        let every = |odd: usize| copies.iter().skip(odd).step_by(2).copied().collect::<Vec<_>>();
        let (seen, unseen) = (every(0), every(1));
        let half = Self::median(&seen, route, pinned, device);
        let off = |copy: &MeasuredCopy| (half.us(copy.bytes, route, pinned, device) / copy.us - 1.0).abs();
        curve.error = (unseen.iter().map(off).sum::<f64>() / unseen.len() as f64).max(LEAST_ERROR);
        Some(curve)
    }

    fn median(copies: &[MeasuredCopy], route: Route, pinned: Option<bool>, device: &DeviceProfile) -> Self {
        let mut small = copies.iter().filter(|copy| copy.bytes <= SMALL).map(|copy| copy.us).collect::<Vec<_>>();
        let shortest = copies.iter().map(|copy| copy.us).fold(f64::INFINITY, f64::min);
        let start_us = stats::median(&mut small).unwrap_or_else(|| start_us(route, device.is_amd).min(shortest));
        let transfer = |copy: &MeasuredCopy| transfer_us(copy.bytes, route, pinned, device);
        let rate = |copy: &MeasuredCopy| transfer(copy) / (copy.us - start_us).max(0.1 * copy.us);
        let mut rates = copies.iter().filter(|copy| copy.bytes >= LARGE).map(rate).collect::<Vec<_>>();
        Self { start_us, rate: stats::median(&mut rates).unwrap_or(1.0).max(1e-3), error: 0.0 }
    }

    /// This curve, of copies between a host and `from`, of memory that is `pinned`, on another device. Copies that did not fill their
    /// link waited for something else, such as the host's memory: a slower link takes longer only from where they fill that one.
    pub(super) fn moved(self, pinned: Option<bool>, from: &DeviceProfile, device: &DeviceProfile) -> Self {
        if from.host_link.0 <= device.host_link.0 || device.model_id() == from.id {
            return self;
        }
        let reached = (self.rate * host_rate(pinned, from)).min(LONE_SHARE * device.host_link.0);
        Self { rate: (reached / host_rate(pinned, device)).max(self.rate), ..self }
    }

    fn us(&self, bytes: f64, route: Route, pinned: Option<bool>, device: &DeviceProfile) -> f64 {
        self.start_us + transfer_us(bytes, route, pinned, device) / self.rate
    }
}

/// The curves of measured copies (what they did, where, their time in µs) by kind.
pub fn copy_curves<'a>(
    copies: impl Iterator<Item = (&'a Work, &'a DeviceProfile, f64)>,
) -> BTreeMap<CopyKind, CopyCurve> {
    let mut groups: BTreeMap<CopyKind, (&DeviceProfile, Vec<MeasuredCopy>)> = BTreeMap::new();
    for (work, device, us) in copies {
        let Shape::Copy { route, pinned } = work.shape else { continue };
        if us > 0.0 {
            let group = groups.entry((device.id.clone(), route, pinned)).or_insert((device, Vec::new()));
            group.1.push(MeasuredCopy { bytes: work.written.0 as f64, us });
        }
    }
    let fitted = |(kind, (device, copies)): (CopyKind, (&DeviceProfile, Vec<MeasuredCopy>))| {
        let curve = CopyCurve::fit(&copies, kind.1, kind.2, device)?;
        Some((kind, curve))
    };
    groups.into_iter().filter_map(fitted).collect()
}

/// The copies and fills of `graph` with what they moved, where, and their times in µs; `devices` by rank, in its order.
///
/// # Complexity
/// O(tasks).
pub(crate) fn copies_of<'a>(
    graph: &ExecutionGraph,
    devices: &[&'a DeviceProfile],
) -> Vec<(Work, &'a DeviceProfile, f64)> {
    let ranks: Vec<Option<usize>> = graph.lanes.iter().map(|lane| graph.place_of(lane.rank)).collect();
    let copies = graph.tasks.node_weights().filter(|task| matches!(task.kind, TaskKind::Memcpy | TaskKind::Memset));
    let copy = |task: &Task| {
        let device = *devices.get((*ranks.get(task.lane.0 as usize)?)?)?;
        let work = work_of_task(graph, task, Part::default(), |_| None)?;
        Some((work, device, task.measured.0 as f64 / 1e3))
    };
    copies.filter_map(copy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::movement_work;
    use crate::cost::work::Family;
    use crate::device::Catalog;

    fn copy(bytes: u64, route: Route, pinned: Option<bool>) -> Work {
        Work { shape: Shape::Copy { route, pinned }, ..movement_work(Family::Transfer, bytes, bytes) }
    }

    #[test]
    fn a_traces_own_copies_give_start_and_rate() {
        let catalog = Catalog::builtin().unwrap();
        let device: &DeviceProfile = catalog.find("V100").unwrap();
        // 3 µs and 5 GB/s.
        let sizes = [64, 512, 1 << 20, 1 << 22, 1 << 24, 1 << 26];
        let works: Vec<Work> = sizes.iter().map(|&bytes| copy(bytes, Route::HostToDevice, Some(true))).collect();
        let times = works.iter().map(|work| (work, device, 3.0 + work.written.0 as f64 / 5e3));
        let curves = copy_curves(times);
        let curve = curves.values().next().unwrap();
        assert!((curve.start_us - 3.0).abs() < 0.11, "{curve:?}");
        let unseen = copy(10_000_000, Route::HostToDevice, Some(true));
        let (us, error) = copy_us(&unseen, device, Some(curve)).unwrap();
        assert!((us / 2003.0 - 1.0).abs() < 0.01 && (error - 0.05).abs() < 1e-9, "{us} {curve:?}");
    }

    #[test]
    fn a_copy_that_did_not_fill_its_link_takes_longer_on_a_slower_one_only_from_where_it_fills_that() {
        let catalog = Catalog::builtin().unwrap();
        let device = |name| -> &DeviceProfile { catalog.find(name).unwrap() };
        let work = copy(1 << 30, Route::HostToDevice, Some(true));
        // 27.7 of 63 GB/s.
        let own = CopyCurve { start_us: 1.0, rate: 27.7 / (PINNED_SHARE * 63.0), error: 0.05 };
        let rate = |curve: CopyCurve, on| (1 << 30) as f64 / 1e3 / copy_us(&work, device(on), Some(&curve)).unwrap().0;
        let after = |on| rate(own.moved(Some(true), device("H100"), device(on)), on);
        for (on, wanted) in [("H100", 27.7), ("A100", 0.8 * 31.5), ("V100", 0.8 * 15.75)] {
            assert!((after(on) / wanted - 1.0).abs() < 0.02, "{on}: {} GB/s", after(on));
        }
    }

    #[test]
    fn times_never_fall_with_size() {
        let catalog = Catalog::builtin().unwrap();
        for device in catalog.iter() {
            for (route, pinned) in [
                (Route::HostToDevice, Some(true)),
                (Route::DeviceToHost, Some(false)),
                (Route::DeviceToDevice, None),
                (Route::PeerToPeer, None),
                (Route::Fill, None),
            ] {
                let times: Vec<f64> =
                    (0..34).map(|power| copy_us(&copy(1 << power, route, pinned), device, None).unwrap().0).collect();
                assert!(
                    times.windows(2).all(|pair| pair[0] <= pair[1] && pair[1].is_finite()),
                    "{} {route:?}",
                    device.id
                );
            }
        }
    }

    #[test]
    fn too_few_copies_make_no_curve() {
        let catalog = Catalog::builtin().unwrap();
        let work = copy(1 << 20, Route::Fill, None);
        let device: &DeviceProfile = catalog.find("V100").unwrap();
        assert!(copy_curves([(&work, device, 3.0); 3].into_iter()).is_empty());
    }
}

//! Time of collectives over an interconnect [Lin 2024 §IV-A].

use crate::device::{CollectiveCurve, LinkProfile};

use super::work::CollectiveKind;

/// A collective's time with what is known of its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollectiveTime {
    /// Time in µs.
    pub us: f64,
    /// Expected relative error.
    pub error: f64,
    /// Name of the model.
    pub model: &'static str,
    /// Whether sizes, ranks or the collective itself lie outside what was measured.
    pub extrapolated: bool,
}

/// Share of a link's bandwidth that large collectives reach where nobody measured them.
pub const UNMEASURED_SHARE: f64 = 0.75;
/// Relative errors of carrying curves over [ACCURACY: n → 2n ranks 0.06–0.15; another system 0.35].
const OTHER_RANKS_ERROR: f64 = 0.15;
pub(super) const UNMEASURED_ERROR: f64 = 0.35;
/// By how much another version of the library, or another framework, is off the curve of its link: between what two in three times of
/// seven such series on H100 and B200 do not exceed at their median (5 %: NCCL 2.27 and 2.28) and at their most (15 %: XLA from 64 MiB).
const BETWEEN_LIBRARIES: f64 = 0.1;

/// Bytes that cross each device's link per byte of the buffer, among `ranks` ranks: all-to-all, all-gather and
/// reduce-scatter `(n−1)/n`, all-reduce `2(n−1)/n`, the others 1.
pub fn bus_factor(kind: CollectiveKind, ranks: u32) -> f64 {
    let n = f64::from(ranks.max(1));
    match kind {
        CollectiveKind::AllReduce => 2.0 * (n - 1.0) / n,
        CollectiveKind::AllToAll | CollectiveKind::AllGather | CollectiveKind::ReduceScatter => (n - 1.0) / n,
        CollectiveKind::Broadcast | CollectiveKind::Reduce | CollectiveKind::SendRecv => 1.0,
        CollectiveKind::Barrier => 0.0,
    }
}

/// The buffer that measurements are tabled by, for a message of `message` bytes of one rank: for all-gather the
/// gathered whole.
pub(crate) fn buffer_bytes(kind: CollectiveKind, message: u64, ranks: u32) -> f64 {
    let factor = if kind == CollectiveKind::AllGather { f64::from(ranks.max(1)) } else { 1.0 };
    message as f64 * factor
}

/// Time of a collective of `kind` among `ranks` ranks, each with a message of `message` bytes, over `link`.
///
/// From the curve for that number of ranks; else between those of the numbers around it; else from the nearest, carried over by
/// the bytes on the bus and by the steps of a ring or tree; else from the all-reduce's; else from latency and bandwidth alone.
pub fn collective_time(kind: CollectiveKind, message: u64, ranks: u32, link: &LinkProfile) -> CollectiveTime {
    let (bytes, factor) = (buffer_bytes(kind, message, ranks), bus_factor(kind, ranks));
    if ranks <= 1 {
        return CollectiveTime { us: 0.0, error: 0.0, model: "collective-none", extrapolated: false };
    }
    let name = kind.name();
    let curves = || link.curves.iter().filter(|curve| curve.collective == name);
    let below = curves().filter(|curve| curve.ranks <= ranks).max_by_key(|curve| curve.ranks);
    let above = curves().filter(|curve| curve.ranks >= ranks).min_by_key(|curve| curve.ranks);
    match (below, above) {
        (Some(exact), Some(other)) if exact.ranks == other.ranks => on_curve(exact, bytes, factor),
        (Some(below), Some(above)) => between(kind, bytes, ranks, (below, above)),
        (Some(nearest), None) | (None, Some(nearest)) => beyond(kind, bytes, (nearest, ranks), link),
        (None, None) => {
            by_bus(kind, bytes, ranks, link).unwrap_or_else(|| latency_and_bandwidth(bytes * factor, ranks, link))
        }
    }
}

/// Relative error of a collective's time by that of the all-reduce: all-gather and reduce-scatter on NVLink 3 to 5 and PCIe 4 and
/// 5, 4 KiB to 512 MiB (17.9 %, n 720).
const BY_BUS_ERROR: f64 = 0.18;

/// Time of a collective of `kind` that nobody measured, for a buffer of `bytes`, by the all-reduce, which was: the same bandwidth on
/// the bus as for such a buffer, and no less than that takes for the smallest buffer. What puts as much on the bus whatever the
/// number of ranks takes the all-reduce that puts as much there, so that more ranks are not faster.
fn by_bus(kind: CollectiveKind, bytes: f64, ranks: u32, link: &LinkProfile) -> Option<CollectiveTime> {
    let reduce = CollectiveKind::AllReduce;
    link.curves.iter().find(|curve| curve.collective == reduce.name())?;
    let reduced = |bytes: f64| collective_time(reduce, bytes.round() as u64, ranks, link);
    let times = bus_factor(kind, ranks) / bus_factor(reduce, ranks);
    let is_constant = matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce | CollectiveKind::SendRecv);
    let (whole, share) = if is_constant { (reduced(bytes * times), 1.0) } else { (reduced(bytes), times) };
    let least = reduced(0.0);
    let error = whole.error.hypot(BY_BUS_ERROR);
    Some(CollectiveTime { us: (whole.us * share).max(least.us), error, model: "collective-bus", extrapolated: true })
}

fn on_curve(curve: &CollectiveCurve, bytes: f64, factor: f64) -> CollectiveTime {
    let (us, outside) = curve.time_us(bytes, factor);
    let model = match curve {
        CollectiveCurve { fit: Some(_), .. } => "collective-sigmoid",
        CollectiveCurve { carried: true, .. } => "collective-peers",
        _ => "collective-curve",
    };
    CollectiveTime { us, error: curve.error.hypot(BETWEEN_LIBRARIES), model, extrapolated: outside || curve.carried }
}

/// Logarithm of time against logarithm of ranks, between two curves.
fn between(
    kind: CollectiveKind,
    bytes: f64,
    ranks: u32,
    (below, above): (&CollectiveCurve, &CollectiveCurve),
) -> CollectiveTime {
    let at = |curve: &CollectiveCurve| on_curve(curve, bytes, bus_factor(kind, curve.ranks));
    let place = |ranks: u32| f64::from(ranks).ln();
    let share = (place(ranks) - place(below.ranks)) / (place(above.ranks) - place(below.ranks));
    let (low, high) = (at(below), at(above));
    let us = (low.us.ln() * (1.0 - share) + high.us.ln() * share).exp();
    let error = low.error.max(high.error).max(OTHER_RANKS_ERROR);
    CollectiveTime { us, error, model: low.model, extrapolated: true }
}

fn beyond(
    kind: CollectiveKind,
    bytes: f64,
    (nearest, ranks): (&CollectiveCurve, u32),
    link: &LinkProfile,
) -> CollectiveTime {
    let (factor, measured) = (bus_factor(kind, ranks), bus_factor(kind, nearest.ranks));
    let wires = link.reachable(nearest.ranks) / link.reachable(ranks);
    let CollectiveTime { us, model, .. } = on_curve(nearest, bytes * factor / measured * wires, measured);
    let (start, _) = nearest.time_us(0.0, 0.0);
    let doublings = (f64::from(ranks) / f64::from(nearest.ranks)).log2();
    let steps = f64::from(ranks).log2() / f64::from(nearest.ranks).log2();
    let error = OTHER_RANKS_ERROR.max(nearest.error) * doublings.abs().max(1.0);
    CollectiveTime { us: (us + start * (steps - 1.0)).max(start * steps), error, model, extrapolated: true }
}

/// From latency and bandwidth alone, for `bus_bytes` on the link of each device.
pub(super) fn latency_and_bandwidth(bus_bytes: f64, ranks: u32, link: &LinkProfile) -> CollectiveTime {
    let start = link.latency_us * f64::from(ranks).log2().max(1.0);
    let us = start + bus_bytes / (link.gb_s * link.reachable(ranks) * 1e3 * UNMEASURED_SHARE);
    CollectiveTime { us, error: UNMEASURED_ERROR, model: "collective-bandwidth", extrapolated: true }
}

/// The collective that tables of measurements call `name`.
pub fn kind_named(name: &str) -> Option<CollectiveKind> {
    use CollectiveKind::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter, SendRecv};
    let kinds = [AllReduce, AllToAll, AllGather, ReduceScatter, Broadcast, Reduce, SendRecv];
    kinds.into_iter().find(|&kind| kind.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Links;

    #[test]
    fn bus_factors_are_those_of_rings() {
        assert!((bus_factor(CollectiveKind::AllReduce, 8) - 1.75).abs() < 1e-12);
        assert!((bus_factor(CollectiveKind::AllToAll, 4) - 0.75).abs() < 1e-12);
    }

    #[test]
    fn times_grow_with_size_on_every_link_for_every_collective() {
        let links = Links::builtin().unwrap();
        let kinds = [
            CollectiveKind::AllReduce,
            CollectiveKind::AllToAll,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::Broadcast,
        ];
        for link in links.iter() {
            for kind in kinds {
                for ranks in [1, 2, 3, 4, 8, 16, 64] {
                    let times: Vec<f64> =
                        (0..34).map(|exponent| collective_time(kind, 1 << exponent, ranks, link).us).collect();
                    assert!(times.iter().all(|time| time.is_finite() && *time >= 0.0));
                    assert!(
                        times.windows(2).all(|pair| pair[0] <= pair[1] * (1.0 + 1e-9)),
                        "{} {kind:?} {ranks}",
                        link.id
                    );
                }
            }
        }
    }

    #[test]
    fn two_of_a_mesh_have_the_one_wire_between_them() {
        let links = Links::builtin().unwrap();
        let link = links.find("InfinityFabric4").unwrap();
        let bus = |kind: CollectiveKind, ranks: u32| {
            let time = collective_time(kind, (1 << 30) / buffer_bytes(kind, 1, ranks) as u64, ranks, link);
            f64::from(1 << 30) * bus_factor(kind, ranks) / time.us / 1e3
        };
        // XLA measured 47, 137 and 293 GB/s at the largest buffers; no fit saw them.
        for (ranks, gb_s) in [(2, 47.0), (4, 137.0), (8, 293.0)] {
            for kind in [CollectiveKind::AllReduce, CollectiveKind::AllGather] {
                assert!((bus(kind, ranks) / gb_s - 1.0).abs() < 0.15, "{kind:?} {ranks}: {}", bus(kind, ranks));
            }
        }
    }

    #[test]
    fn a_large_all_reduce_among_eight_v100_reaches_the_published_bus_bandwidth() {
        let links = Links::builtin().unwrap();
        let link = links.find("NVLink2").unwrap();
        let time = collective_time(CollectiveKind::AllReduce, 1 << 30, 8, link);
        let bus_gb_s = 1.75 * f64::from(1 << 30) / time.us / 1e3;
        assert!((bus_gb_s - 130.4).abs() < 6.0, "{bus_gb_s}");
    }
}

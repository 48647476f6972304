//! Time of collectives over an interconnect [Lin 2024 §IV-A].

use crate::device::LinkProfile;

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
const UNMEASURED_SHARE: f64 = 0.75;
/// Relative errors of carrying curves over [ACCURACY: n → 2n ranks 0.06–0.15; another system 0.35].
const OTHER_RANKS_ERROR: f64 = 0.15;
const UNMEASURED_ERROR: f64 = 0.35;

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
pub fn buffer_bytes(kind: CollectiveKind, message: u64, ranks: u32) -> f64 {
    let factor = if kind == CollectiveKind::AllGather { f64::from(ranks.max(1)) } else { 1.0 };
    message as f64 * factor
}

/// Time of a collective of `kind` among `ranks` ranks, each with a message of `message` bytes, over `link`.
///
/// From the curve measured for that number of ranks; else from the nearest, carried over by the bytes on the bus and by the
/// steps of a ring or tree; else from latency and bandwidth alone.
pub fn collective_time(kind: CollectiveKind, message: u64, ranks: u32, link: &LinkProfile) -> CollectiveTime {
    let (bytes, factor) = (buffer_bytes(kind, message, ranks), bus_factor(kind, ranks));
    if ranks <= 1 {
        return CollectiveTime { us: 0.0, error: 0.0, model: "collective-none", extrapolated: false };
    }
    let name = table_name(kind);
    let curves = link.curves.iter().filter(|curve| curve.collective == name);
    let distance = |measured: u32| (f64::from(measured).log2() - f64::from(ranks).log2()).abs();
    let Some(curve) = curves.min_by(|a, b| distance(a.ranks).total_cmp(&distance(b.ranks))) else {
        return by_bandwidth(bytes * factor, ranks, link);
    };
    let measured_factor = bus_factor(kind, curve.ranks);
    let model = if curve.fit.is_some() { "collective-sigmoid" } else { "collective-curve" };
    if curve.ranks == ranks {
        let (us, extrapolated) = curve.time_us(bytes, factor);
        return CollectiveTime { us, error: curve.error, model, extrapolated };
    }
    let (us, _) = curve.time_us(bytes * factor / measured_factor, measured_factor);
    let (start, _) = curve.time_us(0.0, 0.0);
    let steps = f64::from(ranks).log2() / f64::from(curve.ranks).log2();
    let error = OTHER_RANKS_ERROR.max(curve.error) * distance(curve.ranks).max(1.0);
    CollectiveTime { us: (us + start * (steps - 1.0)).max(start * steps), error, model, extrapolated: true }
}

fn by_bandwidth(bus_bytes: f64, ranks: u32, link: &LinkProfile) -> CollectiveTime {
    let start = link.latency_us * f64::from(ranks).log2().max(1.0);
    let us = start + bus_bytes / (link.gb_s * 1e3 * UNMEASURED_SHARE);
    CollectiveTime { us, error: UNMEASURED_ERROR, model: "collective-bandwidth", extrapolated: true }
}

fn table_name(kind: CollectiveKind) -> &'static str {
    match kind {
        CollectiveKind::AllReduce => "all-reduce",
        CollectiveKind::AllToAll => "all-to-all",
        CollectiveKind::AllGather => "all-gather",
        CollectiveKind::ReduceScatter => "reduce-scatter",
        CollectiveKind::Broadcast => "broadcast",
        CollectiveKind::Reduce => "reduce",
        CollectiveKind::SendRecv => "send-recv",
        CollectiveKind::Barrier => "barrier",
    }
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
    fn a_large_all_reduce_among_eight_v100_reaches_the_published_bus_bandwidth() {
        let links = Links::builtin().unwrap();
        let link = links.of_device("V100").unwrap();
        let time = collective_time(CollectiveKind::AllReduce, 1 << 30, 8, link);
        let bus_gb_s = 1.75 * f64::from(1 << 30) / time.us / 1e3;
        assert!((bus_gb_s - 130.4).abs() < 6.0, "{bus_gb_s}");
    }
}

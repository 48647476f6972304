//! Collectives that nobody measured on an interconnect: among another number of ranks than somebody did, by how other interconnects
//! of its kind take from the one number to the other; where nothing was measured, by what others of its kind take for as much time
//! on the wire.
//!
//! Knows no files; `link` asks for it once all curves are read.

use std::collections::BTreeSet;

use super::link::{CollectiveCurve, LinkProfile};

/// Numbers of ranks that are carried over where they were not measured.
const RANKS: [u32; 3] = [2, 4, 8];
/// Error of one doubling of the ranks where no file says it.
pub(super) const UNMEASURED_DOUBLING: f64 = 0.15;
/// Bandwidth in GB/s from which an interconnect is a fabric of its own rather than a bus through the host.
const FABRIC_GB_S: f64 = 70.0;
/// Error of an interconnect by those of its kind where too few were measured to leave one out.
const UNMEASURED_LINK: f64 = 0.5;

/// Whether two interconnects are of a kind: both fabrics, or both buses, within a node, among any number of devices, each of which reaches all
/// others with all its bandwidth.
fn alike(a: &LinkProfile, b: &LinkProfile) -> bool {
    has_ways(a) && has_ways(b) && (a.gb_s >= FABRIC_GB_S) == (b.gb_s >= FABRIC_GB_S)
}

/// Links of the kind of `link`, on which nothing was measured, that carry as much and as soon, and on which something was.
pub(super) fn bounds(link: &LinkProfile, links: &[LinkProfile]) -> Vec<LinkProfile> {
    let is_faster = |other: &&LinkProfile| other.gb_s >= link.gb_s && other.latency_us <= link.latency_us;
    let of_kind = links.iter().filter(|other| other.id != link.id && alike(other, link) && other.is_measured());
    if link.is_measured() { Vec::new() } else { of_kind.filter(is_faster).cloned().collect() }
}

/// Whether a link is a bus: how devices share the way through it differs from machine to machine.
pub(super) fn is_bus(link: &LinkProfile) -> bool {
    has_ways(link) && link.gb_s < FABRIC_GB_S
}

fn has_ways(link: &LinkProfile) -> bool {
    !link.between_nodes && !link.pairs_only && link.mesh == 0
}

/// A curve for `ranks` ranks from `base`, of another number: its times by the geometric mean of `peers`' ratios, each the curve of
/// the number of ranks of `base` and that of `ranks`. `None` without peers, or where `base` has no points.
///
/// Error: that of `base` and, for each doubling, `doubling_error`, as independent.
pub fn carried(
    base: &CollectiveCurve,
    ranks: u32,
    peers: &[(&CollectiveCurve, &CollectiveCurve)],
    doubling_error: f64,
) -> Option<CollectiveCurve> {
    let (&first, &last) = (base.bytes.first()?, base.bytes.last()?);
    if peers.is_empty() {
        return None;
    }
    let time = |curve: &CollectiveCurve, bytes: f64| curve.time_us(bytes, 1.0).0;
    let ratio = |bytes: f64| {
        let logs: f64 = peers.iter().map(|(from, to)| (time(to, bytes) / time(from, bytes)).ln()).sum();
        (logs / peers.len() as f64).exp()
    };
    let octaves = (last / first).log2().round().max(1.0) as u32;
    let bytes: Vec<f64> =
        (0..=octaves).map(|step| first * (last / first).powf(f64::from(step) / f64::from(octaves))).collect();
    let mut highest = 0.0_f64;
    let mut us = Vec::with_capacity(bytes.len());
    for &size in &bytes {
        highest = highest.max(time(base, size) * ratio(size));
        us.push(highest);
    }
    let doublings = (f64::from(ranks) / f64::from(base.ranks)).log2().abs();
    Some(CollectiveCurve {
        ranks,
        bytes,
        us,
        error: base.error.hypot(doubling_error * doublings.sqrt()),
        source: format!("from {} ranks, by how {} interconnects of its kind grow", base.ranks, peers.len()),
        carried: true,
        ..base.clone()
    })
}

/// The curves that `link` lacks and `links` can tell: every collective measured on it, among 2, 4 and 8 ranks.
pub(super) fn missing(link: &LinkProfile, links: &[LinkProfile], doubling_error: f64) -> Vec<CollectiveCurve> {
    let mut found = Vec::new();
    for base in link.curves.iter().filter(|curve| !curve.bytes.is_empty() && !curve.carried) {
        for ranks in RANKS {
            let doublings = |from: u32| (f64::from(ranks).log2() - f64::from(from).log2()).abs();
            let of_kind = link.curves.iter().filter(|curve| curve.collective == base.collective && !curve.carried);
            let nearest = of_kind.map(|curve| doublings(curve.ranks)).fold(f64::INFINITY, f64::min);
            let is_new = !found.iter().any(|curve: &CollectiveCurve| same(curve, &base.collective, ranks));
            if nearest <= 0.0 || doublings(base.ranks) > nearest || !is_new {
                continue;
            }
            let peers: Vec<_> = links
                .iter()
                .filter(|other| other.id != link.id && alike(other, link))
                .filter_map(|other| pair(other, &base.collective, base.ranks, ranks))
                .collect();
            found.extend(carried(base, ranks, &peers, doubling_error));
        }
    }
    found
}

/// Curves for `link`, on which nothing was measured, among 2, 4 and 8 ranks: each the geometric mean of what its peers in `links`
/// take for a buffer as many times larger as they are faster, no less than a faster one takes. Empty between nodes and without peers.
pub(super) fn of_kind(link: &LinkProfile, links: &[LinkProfile]) -> Vec<CollectiveCurve> {
    let peers: Vec<&LinkProfile> = links.iter().filter(|other| other.id != link.id && alike(other, link)).collect();
    let error = left_out(&peers).map_or(UNMEASURED_LINK, |(error, _)| error);
    let curve = |(collective, ranks)| rescaled(link, collective, ranks, &peers, error);
    measured(&peers).into_iter().filter_map(curve).collect()
}

/// Collectives and numbers of ranks that were measured on any of `links`.
fn measured<'a>(links: &[&'a LinkProfile]) -> BTreeSet<(&'a str, u32)> {
    let curves = links.iter().flat_map(|link| &link.curves);
    let counted = curves.filter(|curve| !curve.carried && !curve.bytes.is_empty());
    counted.map(|curve| (curve.collective.as_str(), curve.ranks)).collect()
}

fn rescaled(
    link: &LinkProfile,
    collective: &str,
    ranks: u32,
    peers: &[&LinkProfile],
    error: f64,
) -> Option<CollectiveCurve> {
    let own = |peer: &&LinkProfile| {
        let measured = |curve: &&CollectiveCurve| same(curve, collective, ranks) && !curve.carried;
        let curve = peer.curves.iter().find(measured).filter(|curve| !curve.bytes.is_empty())?.clone();
        Some((peer.gb_s / link.gb_s, peer.latency_us, curve))
    };
    let found: Vec<(f64, f64, CollectiveCurve)> = peers.iter().filter_map(own).collect();
    let (scale, _, base) = found.iter().min_by(|a, b| a.0.ln().abs().total_cmp(&b.0.ln().abs()))?;
    let count = found.len() as f64;
    let latency = found.iter().map(|(_, latency, _)| latency).sum::<f64>() / count;
    // What carries more, and as soon, takes no longer.
    let is_faster = |peer: &&&LinkProfile| peer.gb_s >= link.gb_s && peer.latency_us <= link.latency_us;
    let curves = peers.iter().filter(is_faster).flat_map(|peer| &peer.curves);
    let faster: Vec<&CollectiveCurve> =
        curves.filter(|curve| same(curve, collective, ranks) && !curve.bytes.is_empty()).collect();
    let mut bytes: Vec<f64> = base.bytes.iter().map(|bytes| bytes / scale).collect();
    bytes.extend(faster.iter().flat_map(|curve| &curve.bytes));
    bytes.sort_by(f64::total_cmp);
    bytes.dedup();
    let time = |bytes: &f64| {
        let least = faster.iter().map(|curve| curve.time_us(*bytes, 1.0).0).fold(0.0, f64::max);
        let by_peer = |(scale, _, curve): &(f64, f64, CollectiveCurve)| curve.time_us(bytes * scale, 1.0).0.max(least);
        let logs: f64 = found.iter().map(|peer| by_peer(peer).ln()).sum();
        with_latency((logs / count).exp(), latency, link.latency_us).max(least)
    };
    Some(CollectiveCurve {
        link: String::new(),
        us: bytes.iter().map(time).collect(),
        bytes,
        error,
        n: 0,
        source: format!("by {} interconnects of its kind", found.len()),
        carried: true,
        ..base.clone()
    })
}

/// A time of which `from` is latency, with `to` in its place; not below `to`, where it was not below that before.
fn with_latency(us: f64, from: f64, to: f64) -> f64 {
    (us + to - from).max(us.min(to))
}

/// Steps from node to node of each collective that was measured on two.
const ON_TWO_NODES: [(&str, f64); 2] = [("all-reduce", 2.0), ("send-recv", 1.0)];

/// Curves for `link`, between nodes, on which nothing was measured: what the link in `links` takes that was measured and is nearest
/// in bandwidth, for a buffer as many times larger as it is faster, with the latency of `link` in place of its own.
pub(super) fn between_nodes(link: &LinkProfile, links: &[LinkProfile]) -> Vec<CollectiveCurve> {
    let measured = |curve: &&CollectiveCurve| !curve.carried && !curve.bytes.is_empty();
    let peers = links.iter().filter(|other| other.between_nodes && other.curves.iter().any(|curve| measured(&curve)));
    let distance = |other: &&LinkProfile| (other.gb_s / link.gb_s).ln().abs();
    let Some(peer) = peers.min_by(|a, b| distance(a).total_cmp(&distance(b))) else { return Vec::new() };
    let scale = link.gb_s / peer.gb_s;
    let carry = |curve: &CollectiveCurve| {
        let steps = ON_TWO_NODES.iter().find(|(name, _)| curve.collective == *name).map_or(1.0, |(_, steps)| *steps);
        let time = |us: &f64| with_latency(*us, steps * peer.latency_us, steps * link.latency_us);
        CollectiveCurve {
            bytes: curve.bytes.iter().map(|bytes| bytes * scale).collect(),
            us: curve.us.iter().map(time).collect(),
            ports: Some(curve.ports_of(peer)),
            n: 0,
            source: format!("by {}", peer.id),
            carried: true,
            ..curve.clone()
        }
    };
    peer.curves.iter().filter(measured).map(carry).collect()
}

/// How wrong interconnects are by those of their kind: mean absolute relative error over the points measured on `links`, each
/// bandwidth left out in turn, and how many points. `None` where all have one bandwidth.
fn left_out(links: &[&LinkProfile]) -> Option<(f64, usize)> {
    let mut errors = Vec::new();
    for link in links {
        let others: Vec<&LinkProfile> =
            links.iter().copied().filter(|other| (other.gb_s - link.gb_s).abs() > 1e-6 * link.gb_s).collect();
        for curve in link.curves.iter().filter(|curve| !curve.carried) {
            let Some(predicted) = rescaled(link, &curve.collective, curve.ranks, &others, 0.0) else { continue };
            let points = curve.bytes.iter().zip(&curve.us);
            errors.extend(points.map(|(&bytes, us)| (predicted.time_us(bytes, 1.0).0 / us - 1.0).abs()));
        }
    }
    (!errors.is_empty()).then(|| (errors.iter().sum::<f64>() / errors.len() as f64, errors.len()))
}

/// [`left_out`] over the fabrics (`true`) or the buses among `links`.
pub(super) fn error_of_kind(links: &[LinkProfile], fabrics: bool) -> Option<(f64, usize)> {
    let of_kind = |link: &&LinkProfile| has_ways(link) && (link.gb_s >= FABRIC_GB_S) == fabrics;
    left_out(&links.iter().filter(of_kind).collect::<Vec<_>>())
}

fn same(curve: &CollectiveCurve, collective: &str, ranks: u32) -> bool {
    curve.collective == collective && curve.ranks == ranks
}

/// The measured curves of `collective` on `link` among `from` and among `to` ranks.
fn pair<'a>(
    link: &'a LinkProfile,
    collective: &str,
    from: u32,
    to: u32,
) -> Option<(&'a CollectiveCurve, &'a CollectiveCurve)> {
    let of = |ranks: u32| {
        link.curves.iter().find(|curve| same(curve, collective, ranks) && !curve.carried && !curve.bytes.is_empty())
    };
    Some((of(from)?, of(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(ranks: u32, us: [f64; 2]) -> CollectiveCurve {
        CollectiveCurve {
            link: String::new(),
            collective: "all-reduce".to_owned(),
            ranks,
            ports: None,
            bytes: vec![1024.0, 4096.0],
            us: us.to_vec(),
            fit: None,
            error: 0.03,
            n: 2,
            source: "test".to_owned(),
            carried: false,
        }
    }

    fn link(id: &str, gb_s: f64, curves: Vec<CollectiveCurve>) -> LinkProfile {
        LinkProfile {
            id: id.to_owned(),
            name: id.to_owned(),
            devices: Vec::new(),
            gb_s,
            latency_us: 1.0,
            most: 0,
            ports: 0,
            between_nodes: false,
            pairs_only: false,
            mesh: 0,
            source: "test".to_owned(),
            curves,
            bounded_by: Vec::new(),
        }
    }

    #[test]
    fn a_number_of_ranks_is_carried_by_the_mean_ratio_of_the_peers() {
        let (two, four) = (curve(2, [10.0, 20.0]), curve(4, [20.0, 20.0]));
        let (other_two, other_four) = (curve(2, [10.0, 10.0]), curve(4, [80.0, 40.0]));
        let base = curve(2, [5.0, 30.0]);
        let found = carried(&base, 4, &[(&two, &four), (&other_two, &other_four)], 0.11).unwrap();
        // Ratios 2 and 8 at 1 KiB, 1 and 4 at 4 KiB: geometric means 4 and 2.
        assert!((found.us[0] - 20.0).abs() < 1e-9 && (found.us.last().unwrap() - 60.0).abs() < 1e-9, "{found:?}");
        assert!((found.error - 0.03_f64.hypot(0.11)).abs() < 1e-9);
    }

    #[test]
    fn only_what_is_missing_is_carried_from_the_nearest_and_only_from_its_kind() {
        let full = link("A", 300.0, vec![curve(2, [1.0, 2.0]), curve(4, [2.0, 4.0]), curve(8, [8.0, 9.0])]);
        let bus = link("C", 20.0, vec![curve(2, [1.0, 2.0]), curve(4, [9.0, 9.0])]);
        let partial = link("B", 900.0, vec![curve(2, [1.0, 2.0]), curve(4, [3.0, 4.0])]);
        let found = missing(&partial, &[full.clone(), bus.clone(), partial.clone()], 0.1);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].ranks, found[0].us[0]), (8, 12.0));
        assert!(missing(&bus, &[full.clone(), partial], 0.1).is_empty());
        assert!(missing(&full, std::slice::from_ref(&bus), 0.1).is_empty());
    }

    #[test]
    fn an_interconnect_that_nobody_measured_takes_what_its_kind_takes_for_as_long_on_the_wire() {
        let measured = link("A", 300.0, vec![curve(2, [10.0, 20.0])]);
        let bus = link("C", 20.0, vec![curve(2, [500.0, 900.0])]);
        let found = of_kind(&link("B", 150.0, Vec::new()), &[measured, bus]);
        assert_eq!(found.len(), 1);
        let us = |bytes: f64| found[0].time_us(bytes, 1.0).0.round();
        assert_eq!((us(512.0), us(2048.0)), (10.0, 20.0));
        let slower_than = link("A", 300.0, vec![curve(2, [10.0, 20.0])]);
        let never =
            found[0].bytes.iter().all(|&bytes| us(bytes) >= slower_than.curves[0].time_us(bytes, 1.0).0.floor());
        assert!(never, "no faster than what carries more");
        assert!(found[0].carried);
        assert!((found[0].error - UNMEASURED_LINK).abs() < 1e-9, "one was measured: none can be left out");
    }

    #[test]
    fn what_interconnects_err_by_is_found_by_leaving_each_bandwidth_out() {
        let slow = link("A", 100.0, vec![curve(2, [10.0, 40.0])]);
        let fast = link("B", 400.0, vec![curve(2, [20.0, 20.0])]);
        let (error, n) = error_of_kind(&[slow.clone(), fast.clone()], true).unwrap();
        // A by B: 20 µs for 1 KiB, 80 for 4 KiB, twice what they took. B by A: 10 for both, half.
        assert!((error - 0.75).abs() < 1e-9 && n == 4, "{error} {n}");
        assert!(error_of_kind(&[slow, fast], false).is_none());
    }
}

//! Collectives among numbers of ranks that nobody measured on an interconnect: from one that somebody did, by how other
//! interconnects of its kind take from the one number to the other.
//!
//! Knows no files; `link` asks for it once all curves are read.

use super::link::{CollectiveCurve, LinkProfile};

/// Numbers of ranks that are carried over where they were not measured.
const RANKS: [u32; 3] = [2, 4, 8];
/// Error of one doubling of the ranks where no file says it.
pub(super) const UNMEASURED_DOUBLING: f64 = 0.15;
/// Bandwidth in GB/s from which an interconnect is a fabric of its own rather than a bus through the host.
const FABRIC_GB_S: f64 = 100.0;

/// Whether two interconnects are of a kind: both fabrics, or both buses, within a node, among any number of devices.
fn alike(a: &LinkProfile, b: &LinkProfile) -> bool {
    let has_ways = |link: &LinkProfile| !link.between_nodes && !link.pairs_only;
    has_ways(a) && has_ways(b) && (a.gb_s >= FABRIC_GB_S) == (b.gb_s >= FABRIC_GB_S)
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
            source: "test".to_owned(),
            curves,
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
}

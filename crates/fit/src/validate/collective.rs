//! Errors of collective times: sizes left out of a curve, numbers of ranks carried over from another, nodes nobody measured between.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ValidationRow;
use super::reasons::mean_jump;
use crate::collectives::{CollectiveRow, fit_curve, scatter};
use crate::{ErrorSummary, summarise};
use retime_core::cost::collective::{UNMEASURED_SHARE, bus_factor, kind_named};
use retime_core::cost::topology::Topology;
use retime_core::cost::work::CollectiveKind;
use retime_core::device::peers::carried;
use retime_core::device::{Catalog, CollectiveCurve, DeviceProfile, LinkProfile};
use retime_core::units::Percent;

/// Mean absolute error aimed at on a measured topology.
pub(super) const TARGET: f64 = 0.05;
/// Mean absolute error aimed at on twice the ranks.
const DOUBLED_TARGET: f64 = 0.15;
/// Scatter of equal sizes, as a share of a curve's error, from which it is named as the reason.
const MUCH: f64 = 0.5;

/// What one table measured of one collective: system, between nodes or not, collective, ranks.
type Key<'a> = (&'a str, bool, &'static str, u32);

/// A row per system, collective and number of ranks, then one per doubling of the ranks.
pub(super) fn rows(catalog: &Catalog, rows: &[CollectiveRow]) -> Vec<ValidationRow> {
    let groups = grouped(rows);
    let mut table = Vec::new();
    let mut curves = BTreeMap::new();
    for (key, rows) in &groups {
        let Some((curve, left_out)) = fit_curve(rows, key.0) else { continue };
        table.push(sizes_row(catalog, *key, rows, left_out));
        curves.insert(*key, curve);
    }
    let pairs = doubled(catalog, &groups, &curves).into_iter();
    table.extend(pairs.map(|((from, to), times)| doubled_row(from, to, summarise(times.into_iter()))));
    table.extend(two_nodes(&groups, &curves));
    table
}

fn grouped(rows: &[CollectiveRow]) -> BTreeMap<Key<'_>, Vec<&CollectiveRow>> {
    let mut groups: BTreeMap<Key<'_>, Vec<&CollectiveRow>> = BTreeMap::new();
    for row in rows {
        groups.entry((&row.system, row.between_nodes, row.collective, row.ranks)).or_default().push(row);
    }
    groups
}

fn sizes_row(catalog: &Catalog, key: Key<'_>, rows: &[&CollectiveRow], left_out: ErrorSummary) -> ValidationRow {
    let (system, between_nodes, collective, ranks) = key;
    let place = if between_nodes { " between nodes" } else { "" };
    let scattered = scatter(rows);
    let missed = left_out.mape > TARGET;
    ValidationRow {
        family: format!("{collective} x{ranks}{place}"),
        device: system.to_owned(),
        model: "collective-curve",
        held_out: true,
        all: left_out,
        kernels: left_out,
        structured: ErrorSummary::default(),
        curve: latency_and_bandwidth(rows),
        roofline: by_link(catalog, key, rows),
        inside: None,
        network: None,
        target: Some(TARGET),
        met: Some(!missed),
        reason: missed.then(|| match scattered {
            scattered if scattered > MUCH * left_out.mape => {
                format!("equal sizes measured twice scatter by {:.0}", Percent(scattered))
            }
            _ => match mean_jump(by_size(rows)) {
                Some(jump) => format!(
                    "every other size is left out, and times jump by {:.1} % between neighbouring ones",
                    100.0 * jump
                ),
                None => "every other size is left out, and no three sizes lie near one another".to_owned(),
            },
        }),
    }
}

/// The mean time of each size, in order.
fn by_size(rows: &[&CollectiveRow]) -> impl Iterator<Item = (f64, f64)> {
    let mut of_size: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for row in rows {
        let (sum, count) = of_size.entry(row.bytes as u64).or_default();
        (*sum, *count) = (*sum + row.us, *count + 1.0);
    }
    of_size.into_iter().map(|(size, (sum, count))| (size as f64, sum / count))
}

/// One latency and one bandwidth for all sizes, each half of the sizes from the other half: least squares of the relative error.
fn latency_and_bandwidth(rows: &[&CollectiveRow]) -> ErrorSummary {
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.bytes as u64).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let odd = |row: &CollectiveRow| sizes.binary_search(&(row.bytes as u64)).is_ok_and(|at| at % 2 == 1);
    let mut pairs = Vec::new();
    for parity in [false, true] {
        let kept = rows.iter().filter(|row| odd(row) != parity && row.us > 0.0);
        let sums = kept.fold([0.0; 5], |[a, b, c, d, e], row| {
            let (one, size) = (1.0 / row.us, row.bytes / row.us);
            [a + one * one, b + one * size, c + size * size, d + one, e + size]
        });
        let [a, b, c, d, e] = sums;
        let determinant = a * c - b * b;
        let (latency, slope) = ((d * c - b * e) / determinant, (a * e - b * d) / determinant);
        let left = rows.iter().filter(|row| odd(row) == parity);
        pairs.extend(left.map(|row| (latency + slope * row.bytes, row.us)));
    }
    summarise(pairs.into_iter().filter(|(predicted, _)| predicted.is_finite()))
}

/// Bytes on the bus over the bandwidth of the system's interconnect, where the catalog knows it.
fn by_link(catalog: &Catalog, (system, between, collective, ranks): Key<'_>, rows: &[&CollectiveRow]) -> ErrorSummary {
    let Some(device) = catalog.find(system).ok().filter(|_| !between) else { return ErrorSummary::default() };
    let Some(kind) = kind_named(collective) else { return ErrorSummary::default() };
    let link = if device.peer_link.0 > 0.0 { device.peer_link } else { device.host_link };
    summarise(rows.iter().map(|row| (row.bytes * bus_factor(kind, ranks) / link.0 * 1e6, row.us)))
}

/// The error of twice the ranks over all `rows`, as `validate models` prints it by number of ranks.
pub fn doubling_error(catalog: &Catalog, rows: &[CollectiveRow]) -> ErrorSummary {
    let groups = grouped(rows);
    let curves =
        groups.iter().filter_map(|(key, rows)| Some((*key, fit_curve(rows, key.0)?.0))).collect::<BTreeMap<_, _>>();
    summarise(doubled(catalog, &groups, &curves).into_values().flatten())
}

/// Predicted and measured times.
type Times = Vec<(f64, f64)>;

/// Twice the ranks from how other families of devices take to them.
fn doubled(
    catalog: &Catalog,
    groups: &BTreeMap<Key<'_>, Vec<&CollectiveRow>>,
    curves: &BTreeMap<Key<'_>, CollectiveCurve>,
) -> BTreeMap<(u32, u32), Times> {
    let family = |system: &str| {
        let joined = |device: &&Arc<DeviceProfile>| device.peer_link.0 >= 1e11 && !system.contains("pairwise");
        let device = catalog.find(system).ok().filter(joined)?;
        Some(device.lineage.last().unwrap_or(&device.id).clone())
    };
    let mut pairs: BTreeMap<(u32, u32), Times> = BTreeMap::new();
    for (key, base) in curves {
        let (&(system, between, collective, ranks), Some(own)) = (key, family(key.0)) else { continue };
        let doubled = (system, between, collective, 2 * ranks);
        let Some(measured) = groups.get(&doubled) else { continue };
        let peers: Vec<_> = curves
            .iter()
            .filter(|(other, _)| (other.1, other.2, other.3) == (between, collective, ranks))
            .filter(|(other, _)| family(other.0).is_some_and(|family| family != own))
            .filter_map(|(other, from)| Some((from, curves.get(&(other.0, between, collective, 2 * ranks))?)))
            .collect();
        let Some(curve) = carried(base, 2 * ranks, &peers, 0.0) else { continue };
        let predicted = one_per_octave(measured).into_iter().map(|row| (curve.time_us(row.bytes, 1.0).0, row.us));
        pairs.entry((ranks, 2 * ranks)).or_default().extend(predicted);
    }
    pairs
}

/// The all-reduce on two nodes of several devices, with nothing known of the way between them but what one device of each reaches:
/// time of its smallest message, rate of its largest.
fn two_nodes(
    groups: &BTreeMap<Key<'_>, Vec<&CollectiveRow>>,
    curves: &BTreeMap<Key<'_>, CollectiveCurve>,
) -> Vec<ValidationRow> {
    let kind = CollectiveKind::AllReduce;
    let row = |(&(system, between, collective, ranks), measured): (&Key<'_>, &Vec<&CollectiveRow>)| {
        let is_asked = between && collective == kind.name() && ranks > 2;
        let base = curves.get(&(system, true, collective, 2)).filter(|_| is_asked)?;
        let inside = curves.get(&(system, false, collective, ranks / 2))?;
        let ((&largest, &us), &smallest_us) = (base.bytes.last().zip(base.us.last())?, base.us.first()?);
        let inside = plain_link(1.0, 1.0, vec![inside.clone()]);
        let between = plain_link(largest / us / 1e3 / UNMEASURED_SHARE, smallest_us, Vec::new());
        let nodes = Topology { between: Some(&between), per_node: ranks / 2, ..Topology::flat(&inside) };
        let all = summarise(measured.iter().map(|row| (nodes.time(kind, row.bytes as u64, ranks).us, row.us)));
        let family = format!("{} x{} on two nodes, unmeasured", kind.name(), ranks);
        Some(ValidationRow { model: "collective-bandwidth", target: None, met: None, ..plain_row(family, system, all) })
    };
    groups.iter().filter_map(row).collect()
}

fn plain_link(gb_s: f64, latency_us: f64, curves: Vec<CollectiveCurve>) -> LinkProfile {
    LinkProfile {
        id: String::new(),
        name: String::new(),
        devices: Vec::new(),
        gb_s,
        latency_us,
        most: 0,
        ports: 0,
        between_nodes: curves.is_empty(),
        pairs_only: false,
        mesh: 0,
        source: String::new(),
        curves,
        bounded_by: Vec::new(),
    }
}

/// The first of the rows of each octave of sizes and each of its repetitions, so that no table counts more than another.
fn one_per_octave<'a>(rows: &[&'a CollectiveRow]) -> Vec<&'a CollectiveRow> {
    let mut first: BTreeMap<i64, u64> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.bytes >= 1.0) {
        let size = first.entry(row.bytes.log2() as i64).or_insert(row.bytes as u64);
        *size = (*size).min(row.bytes as u64);
    }
    let is_first = |row: &&CollectiveRow| first.get(&(row.bytes.max(1.0).log2() as i64)) == Some(&(row.bytes as u64));
    rows.iter().copied().filter(is_first).collect()
}

fn doubled_row(from: u32, to: u32, all: ErrorSummary) -> ValidationRow {
    let target = Some(DOUBLED_TARGET);
    let met = Some(all.mape <= DOUBLED_TARGET);
    let family = format!("collectives x{from} to x{to}");
    ValidationRow { target, met, ..plain_row(family, "NVLink, each family left out in turn", all) }
}

fn plain_row(family: String, device: &str, all: ErrorSummary) -> ValidationRow {
    ValidationRow { family, device: device.to_owned(), model: "collective-peers", ..ValidationRow::unmeasured(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(name: &str, ranks: u32, time: impl Fn(f64) -> f64) -> Vec<CollectiveRow> {
        let row = |bytes: f64| CollectiveRow {
            system: name.to_owned(),
            collective: "all-reduce",
            ranks,
            between_nodes: false,
            bytes,
            us: time(bytes),
        };
        (10..24).map(|exponent| row(2f64.powi(exponent))).collect()
    }

    #[test]
    fn one_latency_and_one_bandwidth_are_found_exactly_where_they_hold() {
        let measured = system("x", 2, |bytes| 7.0 + bytes / 1e5);
        let found = latency_and_bandwidth(&measured.iter().collect::<Vec<_>>());
        assert!(found.n == 14 && found.mape < 1e-9, "{found:?}");
    }

    #[test]
    fn twice_the_ranks_follow_the_other_families() {
        let catalog = Catalog::builtin().unwrap();
        let systems = [("h100_sxm", 1.0), ("a100_sxm", 2.0), ("b200_sxm", 0.5)];
        let all: Vec<CollectiveRow> = systems
            .iter()
            .flat_map(|&(name, factor)| {
                let time = move |bytes: f64| factor * (8.0 + bytes / 1e5);
                [system(name, 2, time), system(name, 4, move |bytes| 1.5 * time(bytes))].concat()
            })
            .collect();
        let table = rows(&catalog, &all);
        let doubled = table.iter().find(|row| row.family == "collectives x2 to x4").unwrap();
        assert_eq!(doubled.all.n, 42);
        assert!(doubled.all.mape < 1e-6 && doubled.met == Some(true), "{doubled:?}");
    }
}

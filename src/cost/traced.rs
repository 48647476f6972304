//! Kernels of traces against the cost models: what every traced kernel took, and what the models say of it unseen.
//!
//! Knows graphs, not where their traces came from.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::device::DeviceProfile;
use crate::graph::{ExecutionGraph, Lane, NodeId, Task, TaskKind};

use super::calibrate::{ErrorSummary, summarise};
use super::classify::{family_of_task, work_of_task};
use super::copies::{CopyKind, copy_curves, copy_us};
use super::models::CostModels;
use super::parts::{Part, kernel_parts};
use super::prediction::Estimate;
use super::roofline;
use super::work::{Family, Shape, Work};

/// One kernel, copy or fill as it was traced.
#[derive(Clone, Debug, PartialEq)]
pub struct TracedKernel<'a> {
    /// Its name.
    pub name: String,
    /// Its family; with the work unknown, by names alone.
    pub family: Family,
    /// What it had to do, as far as known.
    pub work: Option<Work>,
    /// Where it ran.
    pub device: &'a DeviceProfile,
    /// How long, in µs.
    pub us: f64,
    /// Step of the clock that its trace was written with, in µs.
    pub tick_us: f64,
    /// Whether kernels of other streams ran for more than a tenth of that time: what they take from one another is no model's matter.
    pub is_beside_others: bool,
}

/// Errors of one family on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TracedRow {
    /// The family; gradients of attention and lookups apart.
    pub family: String,
    /// Device by id.
    pub device: String,
    /// Kernels traced.
    pub kernels: usize,
    /// Time of all of them in µs.
    pub measured_us: f64,
    /// Part of that time whose work no model covers.
    pub unmodelled_share: f64,
    /// What the models say of the rest, over what it took.
    pub predicted_over_measured: f64,
    /// Kernels, of those that a model covers, so short that their trace's clock does not tell their time: under ten of its steps.
    pub short: usize,
    /// What the models say of those, over what was written.
    pub short_predicted_over_measured: f64,
    /// Errors by kernel of the rest.
    pub errors: ErrorSummary,
    /// Those of kernels that had the device for themselves.
    pub alone: ErrorSummary,
    /// Share of their times that lie inside the band stated with their prediction; two in three are claimed.
    pub inside: f64,
    /// Those of the plain roofline.
    pub roofline: ErrorSummary,
    /// Kernels whose predictions miss by most time, all calls of a name together.
    pub worst: Vec<Missed>,
}

/// All calls of one kernel whose predictions miss.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Missed {
    /// Its name.
    pub name: String,
    /// Calls.
    pub count: usize,
    /// What they took in µs.
    pub measured_us: f64,
    /// What they were to take in µs.
    pub predicted_us: f64,
}

/// Steps of a clock from which a time is told to some percent.
const RESOLVED: f64 = 10.0;
/// How many kernels of a family are named.
const NAMED: usize = 3;

/// The kernels, copies and fills of `graph`; `devices` by rank, in its order, `None` where the device is not known.
/// Collectives are left out: their time is that of waiting too.
///
/// # Complexity
/// O(tasks), each with a look-up of its work.
pub fn traced_kernels<'a>(graph: &ExecutionGraph, devices: &[Option<&'a DeviceProfile>]) -> Vec<TracedKernel<'a>> {
    let parts = kernel_parts(graph);
    let position = |lane: &Lane| graph.ranks.iter().position(|part| part.rank == lane.rank);
    let ranks: Vec<Option<usize>> = graph.lanes.iter().map(position).collect();
    let beside = beside_others(graph, &ranks);
    let mut found = Vec::new();
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let is_wanted = matches!(task.kind, TaskKind::Kernel | TaskKind::Memcpy | TaskKind::Memset);
        let Some(device) = ranks.get(task.lane.0 as usize).and_then(|&rank| *devices.get(rank?)?) else { continue };
        if !is_wanted || task.measured.0 <= 0 {
            continue;
        }
        let work = work_of_task(graph, task, parts[node.index()], |id| {
            let operands = graph.operators.get(id.0 as usize)?.operands?;
            graph.operands.get(operands.0 as usize)
        });
        let family = work.as_ref().map_or_else(|| family_of_task(graph, task), |work| work.family);
        let name = graph.names.get(task.name).to_owned();
        let us = task.measured.0 as f64 / 1e3;
        let is_beside_others = beside[node.index()];
        found.push(TracedKernel { name, family, work, device, us, tick_us: 1e-3, is_beside_others });
    }
    // Profilers until 2022 wrote whole µs.
    if found.iter().all(|kernel| kernel.us.fract() <= 0.0) {
        for kernel in &mut found {
            kernel.tick_us = 1.0;
        }
    }
    found
}

/// By task: whether it is a kernel that others of its rank overlap for more than a tenth of its time.
fn beside_others(graph: &ExecutionGraph, ranks: &[Option<usize>]) -> Vec<bool> {
    let is_kernel = |task: &Task| matches!(task.kind, TaskKind::Kernel | TaskKind::Collective(_));
    let kernels: Vec<NodeId> = graph.tasks.node_indices().filter(|&node| is_kernel(&graph.tasks[node])).collect();
    let times = kernels.iter().map(|&node| {
        let task = &graph.tasks[node];
        let start = task.measured_start.0;
        (ranks.get(task.lane.0 as usize).copied().flatten(), start, start + task.measured.0)
    });
    let mut found = vec![false; graph.tasks.node_count()];
    for (node, is_beside) in kernels.iter().zip(overlapped(&times.collect::<Vec<_>>())) {
        found[node.index()] = is_beside;
    }
    found
}

/// Which of `times` (rank, start, end) others of their rank overlap for more than a tenth.
///
/// # Complexity
/// O(n log n).
fn overlapped(times: &[(Option<usize>, i64, i64)]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_unstable_by_key(|&at| times[at]);
    let mut found = vec![false; times.len()];
    let mut before: Option<(Option<usize>, i64)> = None;
    for (place, &at) in order.iter().enumerate() {
        let (rank, start, end) = times[at];
        let slack = (end - start) / 10;
        let latest = before.filter(|(other, _)| *other == rank).map_or(i64::MIN, |(_, latest)| latest);
        let next = order.get(place + 1).map(|&next| times[next]).filter(|(other, ..)| *other == rank);
        found[at] = latest > start + slack || next.is_some_and(|(_, next, _)| next < end - slack);
        before = Some((rank, latest.max(end)));
    }
    found
}

/// The copies and fills of `graph` with what they moved, where, and their times in µs; `devices` as for [`traced_kernels`].
///
/// # Complexity
/// O(tasks).
pub fn copies_of<'a>(graph: &ExecutionGraph, devices: &[&'a DeviceProfile]) -> Vec<(Work, &'a DeviceProfile, f64)> {
    let position = |lane: &Lane| graph.ranks.iter().position(|part| part.rank == lane.rank);
    let ranks: Vec<Option<usize>> = graph.lanes.iter().map(position).collect();
    let copies = graph.tasks.node_weights().filter(|task| matches!(task.kind, TaskKind::Memcpy | TaskKind::Memset));
    let copy = |task: &Task| {
        let device = *devices.get((*ranks.get(task.lane.0 as usize)?)?)?;
        let work = work_of_task(graph, task, Part::default(), |_| None)?;
        Some((work, device, task.measured.0 as f64 / 1e3))
    };
    copies.filter_map(copy).collect()
}

/// Errors of copies of one kind on one device: by the device's figures, and by curves of other copies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CopyRow {
    /// Between which memories.
    pub route: &'static str,
    /// Kind of host memory, where the host takes part.
    pub memory: &'static str,
    /// Device by id.
    pub device: String,
    /// By the device's figures alone.
    pub figures: ErrorSummary,
    /// Copies of traces that have other traces of the device beside them, by the curve of those.
    pub others: ErrorSummary,
    /// Every other copy of a trace, by the curve of the rest.
    pub own: ErrorSummary,
}

/// How well copies are predicted without having been seen, `traces` being the kernels of each trace.
pub fn copy_table(traces: &[Vec<TracedKernel<'_>>]) -> Vec<CopyRow> {
    let mut kinds: BTreeMap<CopyKind, [Vec<(f64, f64)>; 3]> = BTreeMap::new();
    for (at, trace) in traces.iter().enumerate() {
        let elsewhere = traces.iter().enumerate().filter(|(other, _)| *other != at).flat_map(|(_, kernels)| kernels);
        let others = copy_curves(elsewhere.filter_map(measured));
        let halves = copy_curves(trace.iter().filter_map(measured).step_by(2));
        for (index, kernel) in trace.iter().filter(|kernel| measured(kernel).is_some()).enumerate() {
            let Some(Work { shape: Shape::Copy { route, pinned }, .. }) = kernel.work else { continue };
            let kind = (kernel.device.id.clone(), route, pinned);
            let curves = [None, others.get(&kind), halves.get(&kind).filter(|_| index % 2 == 1)];
            let lists = kinds.entry(kind).or_default();
            for (way, (list, curve)) in lists.iter_mut().zip(curves).enumerate() {
                let asked = way == 0 || curve.is_some();
                let us = kernel.work.as_ref().and_then(|work| copy_us(work, kernel.device, curve)).filter(|_| asked);
                list.extend(us.map(|(us, _)| (us, kernel.us)));
            }
        }
    }
    let row = |((device, route, pinned), lists): (CopyKind, [Vec<(f64, f64)>; 3])| {
        let [figures, others, own] = lists.map(|pairs| summarise(pairs.into_iter()));
        let memory = match pinned {
            Some(true) => "pinned",
            Some(false) => "pageable",
            None => "",
        };
        CopyRow { route: route.name(), memory, device, figures, others, own }
    };
    kinds.into_iter().map(row).collect()
}

/// What a copy moved, where and its time; `None` of kernels.
fn measured<'a>(kernel: &'a TracedKernel<'_>) -> Option<(&'a Work, &'a DeviceProfile, f64)> {
    let work = kernel.work.as_ref().filter(|work| matches!(work.shape, Shape::Copy { .. }))?;
    Some((work, kernel.device, kernel.us))
}

/// Family of a row: gradients that have a model of their own are told apart.
fn row_family(kernel: &TracedKernel<'_>) -> String {
    let is_backward = kernel.work.as_ref().is_some_and(|work| {
        matches!(work.shape, Shape::Attention { backward: true, .. } | Shape::Embedding { backward: true, .. })
    });
    if is_backward { format!("{} backward", kernel.family.name()) } else { kernel.family.name().to_owned() }
}

/// Errors of `models` on `kernels` by family and device; none of them was fitted to.
pub fn traced_table(models: &CostModels, kernels: &[TracedKernel<'_>]) -> Vec<TracedRow> {
    let mut groups: BTreeMap<(String, &str), Vec<&TracedKernel<'_>>> = BTreeMap::new();
    for kernel in kernels {
        groups.entry((row_family(kernel), &kernel.device.id)).or_default().push(kernel);
    }
    groups.into_iter().map(|((family, device), kernels)| row(models, family, device, &kernels)).collect()
}

fn row(models: &CostModels, family: String, device: &str, kernels: &[&TracedKernel<'_>]) -> TracedRow {
    let predicted = |kernel: &TracedKernel<'_>| models.estimate(kernel.work.as_ref()?, kernel.device);
    let estimates: Vec<(&TracedKernel<'_>, Estimate)> =
        kernels.iter().filter_map(|kernel| Some((*kernel, predicted(kernel)?))).collect();
    let pairs: Vec<(&TracedKernel<'_>, f64)> =
        estimates.iter().map(|(kernel, estimate)| (*kernel, estimate.duration.0 as f64 / 1e3)).collect();
    let measured_us: f64 = kernels.iter().map(|kernel| kernel.us).sum();
    let covered_us: f64 = pairs.iter().map(|(kernel, _)| kernel.us).sum();
    let predicted_us: f64 = pairs.iter().map(|(_, us)| us).sum();
    let roofline_us = |kernel: &TracedKernel<'_>| {
        let work = kernel.work.as_ref();
        work.map_or(0.0, |work| roofline::roofline_us(work, kernel.device))
    };
    let (told, short): (Vec<_>, Vec<_>) = pairs.iter().partition(|(kernel, _)| kernel.us >= RESOLVED * kernel.tick_us);
    let short_us: f64 = short.iter().map(|(kernel, _)| kernel.us).sum();
    let short_predicted_us: f64 = short.iter().map(|(_, us)| us).sum();
    TracedRow {
        family,
        device: device.to_owned(),
        kernels: kernels.len(),
        measured_us,
        unmodelled_share: 1.0 - covered_us / measured_us.max(f64::MIN_POSITIVE),
        predicted_over_measured: if covered_us > 0.0 { predicted_us / covered_us } else { 0.0 },
        short: short.len(),
        short_predicted_over_measured: if short.is_empty() { 0.0 } else { short_predicted_us / short_us },
        errors: summarise(told.iter().map(|(kernel, us)| (*us, kernel.us))),
        alone: summarise(
            told.iter().filter(|(kernel, _)| !kernel.is_beside_others).map(|(kernel, us)| (*us, kernel.us)),
        ),
        inside: inside(&estimates),
        roofline: summarise(told.iter().map(|(kernel, _)| (roofline_us(kernel), kernel.us))),
        worst: worst(&pairs),
    }
}

/// Share of the times that the clock tells and that lie inside the bands of their predictions.
fn inside(estimates: &[(&TracedKernel<'_>, Estimate)]) -> f64 {
    let told = estimates.iter().filter(|(kernel, _)| kernel.us >= RESOLVED * kernel.tick_us);
    let (mut all, mut within) = (0.0, 0.0);
    for (kernel, estimate) in told {
        let us = estimate.duration.0 as f64 / 1e3;
        all += 1.0;
        within += f64::from(u8::from((us - kernel.us).abs() <= us * f64::from(estimate.error)));
    }
    if all > 0.0 { within / all } else { 0.0 }
}

/// The names that miss by most time, most first.
fn worst(pairs: &[(&TracedKernel<'_>, f64)]) -> Vec<Missed> {
    let mut by_name: BTreeMap<&str, (Missed, f64)> = BTreeMap::new();
    for (kernel, us) in pairs {
        let none = Missed { name: kernel.name.clone(), count: 0, measured_us: 0.0, predicted_us: 0.0 };
        let (missed, off) = by_name.entry(&kernel.name).or_insert((none, 0.0));
        missed.count += 1;
        missed.measured_us += kernel.us;
        missed.predicted_us += us;
        *off += (us - kernel.us).abs();
    }
    let mut all: Vec<(Missed, f64)> = by_name.into_values().collect();
    all.sort_by(|(a, off_a), (b, off_b)| off_b.total_cmp(off_a).then_with(|| a.name.cmp(&b.name)));
    all.into_iter().take(NAMED).map(|(missed, _)| missed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::movement_work;
    use crate::device::Catalog;

    #[test]
    fn kernels_of_a_rank_that_share_more_than_a_tenth_of_their_time_are_beside_others() {
        let (a, b) = (Some(0), Some(1));
        let times = [(a, 0, 100), (a, 95, 195), (a, 150, 400), (b, 0, 1000), (a, 500, 600), (a, 160, 170)];
        assert_eq!(overlapped(&times), [false, true, true, false, false, true]);
    }

    #[test]
    fn what_a_clock_of_whole_microseconds_cannot_tell_counts_in_sums_only() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let device = catalog.find("V100").unwrap();
        let kernel = |us: f64, tick_us| TracedKernel {
            name: "add".to_owned(),
            family: Family::Elementwise,
            work: Some(movement_work(Family::Elementwise, 4096, 4096)),
            device,
            us,
            tick_us,
            is_beside_others: us > 20.0,
        };
        let table = traced_table(&models, &[kernel(2.0, 1.0), kernel(2.0, 1e-3), kernel(12.0, 1.0), kernel(30.0, 1.0)]);
        assert_eq!((table[0].short, table[0].errors.n, table[0].alone.n), (1, 3, 2));
        assert!(table[0].short_predicted_over_measured > 0.0);
    }

    #[test]
    fn a_row_counts_what_no_model_covers_and_names_the_worst() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let device = catalog.find("V100").unwrap();
        let work = movement_work(Family::Elementwise, 400_000_000, 400_000_000);
        let us = models.estimate(&work, device).unwrap().duration.0 as f64 / 1e3;
        let kernel = |name: &str, work: Option<Work>, us| TracedKernel {
            name: name.to_owned(),
            family: Family::Elementwise,
            work,
            device,
            us,
            tick_us: 1e-3,
            is_beside_others: false,
        };
        let kernels =
            [kernel("right", Some(work.clone()), us), kernel("slow", Some(work), 2.0 * us), kernel("?", None, us)];
        let table = traced_table(&models, &kernels);
        assert_eq!((table.len(), table[0].kernels, table[0].errors.n), (1, 3, 2));
        assert!((table[0].unmodelled_share - 0.25).abs() < 1e-9);
        assert!((table[0].predicted_over_measured - 2.0 / 3.0).abs() < 1e-9);
        assert!((table[0].errors.mape - 0.25).abs() < 1e-9);
        assert_eq!((table[0].worst[0].name.as_str(), table[0].worst[0].count), ("slow", 1));
    }
}

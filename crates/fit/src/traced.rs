//! Kernels of traces against the cost models: what every traced kernel took, and what the models say of it, which were not fitted to it.
//!
//! Knows graphs, not where their traces came from.

mod errors;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use retime_core::device::DeviceProfile;
use retime_core::graph::{ExecutionGraph, Lane, NodeId, Task, TaskKind};

use crate::{ErrorSummary, summarise};
pub use errors::Coverage;
use retime_core::cost::classify::{family_of_task, work_of_task};
use retime_core::cost::copies::{CopyKind, copy_curves, copy_us};
use retime_core::cost::parts::kernel_parts;
use retime_core::cost::work::{Family, Shape, Work};
pub use table::{LargestError, TracedAnswer, TracedRow, traced_table};

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
    pub shares_device: bool,
}

/// The kernels, copies and fills of `graph`; `devices` by rank, in its order, `None` where the device is not known.
/// Collectives are left out: their time is that of waiting too.
///
/// # Complexity
/// O(tasks), each with a look-up of its work.
pub fn traced_kernels<'a>(graph: &ExecutionGraph, devices: &[Option<&'a DeviceProfile>]) -> Vec<TracedKernel<'a>> {
    let parts = kernel_parts(graph);
    let position = |lane: &Lane| graph.ranks.iter().position(|part| part.rank == lane.rank);
    let ranks: Vec<Option<usize>> = graph.lanes.iter().map(position).collect();
    let sharing = sharing_device(graph, &ranks);
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
        let shares_device = sharing[node.index()];
        found.push(TracedKernel { name, family, work, device, us, tick_us: 1e-3, shares_device });
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
fn sharing_device(graph: &ExecutionGraph, ranks: &[Option<usize>]) -> Vec<bool> {
    let is_kernel = |task: &Task| matches!(task.kind, TaskKind::Kernel | TaskKind::Collective(_));
    let kernels: Vec<NodeId> = graph.tasks.node_indices().filter(|&node| is_kernel(&graph.tasks[node])).collect();
    let times = kernels.iter().map(|&node| {
        let task = &graph.tasks[node];
        let start = task.measured_start.0;
        (ranks.get(task.lane.0 as usize).copied().flatten(), start, start + task.measured.0)
    });
    let mut found = vec![false; graph.tasks.node_count()];
    for (node, shares) in kernels.iter().zip(overlapped(&times.collect::<Vec<_>>())) {
        found[node.index()] = shares;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_a_rank_that_share_more_than_a_tenth_of_their_time_share_the_device() {
        let (a, b) = (Some(0), Some(1));
        let times = [(a, 0, 100), (a, 95, 195), (a, 150, 400), (b, 0, 1000), (a, 500, 600), (a, 160, 170)];
        assert_eq!(overlapped(&times), [false, true, true, false, false, true]);
    }
}

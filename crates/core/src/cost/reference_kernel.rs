//! Kernels whose operator was not recorded (it was called before the recording began): which other kernel did the same work.

use rustc_hash::FxHashMap;

use crate::graph::{ExecutionGraph, NodeId, Task, TaskKind};
use crate::intern::NameId;
use crate::units::DurNs;

/// How far apart the times of two kernels of one name may be for them to be taken as the same work: equal calls on one device differ
/// by a few percent, calls of another size by their size.
const ALIKE: f64 = 0.1;

/// By kernel without an operator: the kernel of its name that has one and took the most similar time, if within 10 %.
///
/// # Complexity
/// O(k log k) for k kernels; nothing where every kernel has its operator.
pub(crate) fn reference_kernels(graph: &ExecutionGraph) -> FxHashMap<NodeId, NodeId> {
    let kernels = || graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel);
    let orphans: Vec<NodeId> = kernels().filter(|&node| graph.tasks[node].operator.is_none()).collect();
    if orphans.is_empty() {
        return FxHashMap::default();
    }
    let mut known: FxHashMap<NameId, Vec<(DurNs, NodeId)>> = FxHashMap::default();
    for node in kernels().filter(|&node| graph.tasks[node].operator.is_some()) {
        known.entry(graph.tasks[node].name).or_default().push((graph.tasks[node].duration, node));
    }
    for rows in known.values_mut() {
        rows.sort_unstable();
    }
    let reference = |orphan: NodeId| {
        let task = &graph.tasks[orphan];
        Some((orphan, nearest(known.get(&task.name)?, task)?))
    };
    orphans.into_iter().filter_map(reference).collect()
}

/// The entry of `rows`, which are in order of time, whose time is the nearest to the task's.
fn nearest(rows: &[(DurNs, NodeId)], task: &Task) -> Option<NodeId> {
    let at = rows.partition_point(|&(time, _)| time < task.duration);
    let around = rows.get(at.saturating_sub(1)..(at + 1).min(rows.len()))?;
    let apart = |&&(time, _): &&(DurNs, NodeId)| (time.0 - task.duration.0).unsigned_abs();
    let &(time, node) = around.iter().min_by_key(apart)?;
    let apart = (time.0 - task.duration.0).unsigned_abs() as f64;
    (apart <= ALIKE * task.duration.0 as f64).then_some(node)
}

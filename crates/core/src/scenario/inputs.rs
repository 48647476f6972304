//! What feeds a step: copies of its input to the device, and the operators whose work that is.

use std::collections::BTreeMap;

use crate::cost::{Route, Shape, Work};
use crate::graph::{ExecutionGraph, LaneId, LaneKind, NodeId, Phase, Rank, TaskKind};
use crate::units::{Bytes, DurNs, TimeNs};

use super::base::Base;

/// Smaller copies are numbers, not inputs.
pub(super) const SMALLEST: Bytes = Bytes(4_096);

/// Whether a task brings input to the device.
///
/// # Arguments
/// `bytes`: what it copies.
pub(super) fn is_input(kind: TaskKind, work: Option<&Work>, bytes: Bytes) -> bool {
    let to_device = || matches!(work.map(|work| &work.shape), Some(Shape::Copy { route: Route::HostToDevice, .. }));
    kind == TaskKind::Memcpy && bytes >= SMALLEST && to_device()
}

/// The part of training of each operator as a user means it: what of the forward pass only brings input to the device is data,
/// and so is what other threads did while one loaded.
pub(super) fn phases(base: &Base) -> Vec<Phase> {
    let graph = base.graph();
    let mut phases: Vec<Phase> = graph.operators.iter().map(|operator| operator.phase).collect();
    let loading = loading(graph);
    for node in graph.tasks.node_indices().filter(|&node| is_traced_input(base, node)) {
        let moves = |name: &str| ["aten::copy_", "aten::_to_copy", "aten::to"].contains(&name);
        let mut at = graph.tasks[node].operator;
        while let Some(id) = at {
            let operator = &graph.operators[id.0 as usize];
            if operator.phase != Phase::Forward || !moves(graph.names.get(operator.name)) {
                break;
            }
            phases[id.0 as usize] = Phase::Data;
            at = operator.parent;
        }
    }
    for (phase, operator) in phases.iter_mut().zip(&graph.operators) {
        let around = loading.get(&graph.lanes[operator.lane.0 as usize].rank);
        let is_inside = |of: &Loading| {
            let end = operator.start + operator.dur;
            of.lane != operator.lane && of.start <= operator.start && end <= of.end
        };
        if *phase == Phase::Forward && around.is_some_and(|all| all.iter().any(is_inside)) {
            *phase = Phase::Data;
        }
    }
    phases
}

/// When a thread loads input.
struct Loading {
    lane: LaneId,
    start: TimeNs,
    end: TimeNs,
}

/// Host time that annotations call loading, by rank; what follows at once is counted with it.
fn loading(graph: &ExecutionGraph) -> BTreeMap<Rank, Vec<Loading>> {
    let loads: Vec<bool> =
        graph.names.iter().map(|(_, name)| Phase::of_annotation(name) == Some(Phase::Data)).collect();
    let mut found: BTreeMap<Rank, Vec<Loading>> = BTreeMap::new();
    for task in graph.tasks.node_weights().filter(|task| !task.kind.is_device()) {
        let is_loading = match task.operator {
            Some(id) => graph.operators[id.0 as usize].phase == Phase::Data,
            None => loads.get(task.name.0 as usize) == Some(&true),
        };
        let lane = graph.lanes[task.lane.0 as usize];
        if !is_loading || lane.kind == LaneKind::Virtual {
            continue;
        }
        let all = found.entry(lane.rank).or_default();
        let (start, end) = (task.measured_start, task.measured_end());
        match all.iter_mut().rev().find(|of| of.lane == task.lane) {
            Some(last) if start.since(last.end) <= AT_ONCE => last.end = last.end.max(end),
            _ => all.push(Loading { lane: task.lane, start, end }),
        }
    }
    found
}

/// Loading that goes on this soon was not interrupted: a call lies between.
const AT_ONCE: DurNs = DurNs(1_000_000);

/// As [`is_input`], for a traced task as it was.
pub(super) fn is_traced_input(base: &Base, node: NodeId) -> bool {
    let task = &base.graph().tasks[node];
    task.kind == TaskKind::Memcpy && is_input(task.kind, base.work(node), task.bytes)
}

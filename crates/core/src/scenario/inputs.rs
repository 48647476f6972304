//! What feeds a step: copies of its input to the device, and the operators whose work that is.

use crate::cost::{Route, Shape, Work};
use crate::graph::{NodeId, Phase, TaskKind};
use crate::units::Bytes;

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

/// The part of training of each operator as a user means it: what of the forward pass only brings input to the device is data.
pub(super) fn phases(base: &Base) -> Vec<Phase> {
    let graph = base.graph();
    let mut phases: Vec<Phase> = graph.operators.iter().map(|operator| operator.phase).collect();
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
    phases
}

/// As [`is_input`], for a traced task as it was.
pub(super) fn is_traced_input(base: &Base, node: NodeId) -> bool {
    let task = &base.graph().tasks[node];
    task.kind == TaskKind::Memcpy && is_input(task.kind, base.work(node), task.bytes)
}

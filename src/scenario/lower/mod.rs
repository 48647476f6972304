//! Draft → timed graph: written into the rows that are there where each task still comes after all it waits for, else copied
//! with the rows that changed written anew.

mod changed;
mod patch;
mod rebuild;

use crate::cost::Prediction;
use crate::graph::{NodeId, TaskId, TimedGraph};
use crate::units::DurNs;

use super::draft::{AddedId, Draft, Node};
use changed::Changed;

/// What lowering gives.
pub(super) struct Lowered {
    pub(super) timed: TimedGraph,
    /// The tasks before this one are those of the base and take as long; `None` where the graph was built anew.
    pub(super) unchanged: Option<TaskId>,
    /// The task of each added one.
    pub(super) added: Vec<TaskId>,
    /// Dependencies left out because they closed a cycle.
    pub(super) cyclic: usize,
}

/// Lowers `draft`.
///
/// # Arguments
/// `durations`: of every traced task, removed ones 0; then of every added one.
///
/// # Complexity
/// O(tasks), and O(dependencies) of tasks whose dependencies changed.
pub(super) fn lower(draft: &Draft<'_>, durations: &[DurNs]) -> Lowered {
    let changed = Changed::of(draft, durations);
    let patched = if draft.added.is_empty() { patch::patch(draft.base(), &changed, durations) } else { None };
    match patched {
        Some((timed, unchanged)) => Lowered { timed, unchanged: Some(unchanged), added: Vec::new(), cyclic: 0 },
        None => rebuild::rebuild(draft, changed, durations),
    }
}

/// Durations of all tasks of a draft, and the predictions of those that changed.
pub(super) fn durations(draft: &Draft<'_>) -> (Vec<DurNs>, Vec<(NodeId, Prediction)>) {
    let traced = draft.base().durations();
    let mut durations = Vec::with_capacity(traced.len() + draft.added.len());
    durations.extend(traced);
    let mut changes = Vec::new();
    if draft.has_touched() {
        draft.foresee();
        let nodes = draft.graph().tasks.node_indices();
        for node in nodes.filter(|&node| draft.is_touched(node) && !draft.is_removed(node)) {
            let prediction = draft.price(node);
            if prediction != Prediction::measured(durations[node.index()]) {
                durations[node.index()] = prediction.duration;
                changes.push((node, prediction));
            }
        }
    }
    draft.removed().for_each(|node| durations[node.index()] = DurNs::ZERO);
    let added = (0..draft.added.len() as u32).map(|id| draft.price_of(Node::Added(AddedId(id))).duration);
    durations.extend(added.zip(&draft.dropped).map(|(duration, &gone)| if gone { DurNs::ZERO } else { duration }));
    (durations, changes)
}

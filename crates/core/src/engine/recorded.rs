//! The chosen iteration as it was recorded: what shares of its work are of, and how much of that no model covers.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::graph::{ExecutionGraph, NodeId};
use crate::scenario::{Effect, Resolved, StepReport, tasks_of};
use crate::units::{DurNs, share};

/// The work of the chosen iteration that shares are of: that of devices, or all of it where none is used.
/// No edit changes it.
#[derive(Debug)]
pub struct Recorded {
    graph: Arc<ExecutionGraph>,
    is_in: Vec<bool>,
    on_device: bool,
    all: DurNs,
}

impl Recorded {
    /// That of `graph`.
    ///
    /// # Complexity
    /// O(tasks).
    pub(super) fn of(graph: &Arc<ExecutionGraph>) -> Self {
        let is_in = graph.recorded_tasks();
        let mut recorded = Self { graph: Arc::clone(graph), is_in, on_device: true, all: DurNs::ZERO };
        let tasks = || graph.tasks.node_indices().map(|node| (node, graph.tasks[node].duration));
        recorded.all = recorded.time(tasks());
        if recorded.all == DurNs::ZERO {
            recorded.on_device = false;
            recorded.all = recorded.time(tasks());
        }
        recorded
    }

    /// How many ranks run a device task of the iteration; 0 for every other task.
    pub(super) fn on_devices(&self, node: NodeId) -> f64 {
        if self.on_device { self.count(node) } else { 0.0 }
    }

    fn count(&self, node: NodeId) -> f64 {
        let task = &self.graph.tasks[node];
        let counts = self.is_in[node.index()] && (!self.on_device || task.kind.is_device());
        let rank = self.graph.lanes[task.lane.0 as usize].rank;
        if counts { f64::from(self.graph.count_of(rank)) } else { 0.0 }
    }

    fn time(&self, tasks: impl IntoIterator<Item = (NodeId, DurNs)>) -> DurNs {
        tasks.into_iter().map(|(node, time)| time.scale(self.count(node))).sum()
    }

    /// A time as a share of the iteration's work.
    pub(super) fn share(&self, time: DurNs) -> f64 {
        share(time, self.all)
    }

    /// Time of the iteration that effects say is not modelled, that of each traced task once.
    pub(super) fn not_modelled<'e>(&self, effects: impl Iterator<Item = &'e Effect> + Clone) -> DurNs {
        effects.clone().map(|effect| effect.untraced).sum::<DurNs>() + self.time(tasks_of(effects))
    }

    /// Share of the iteration's work that edits should have changed and no model covers: by what steps say, and by how the times of
    /// tasks came about.
    ///
    /// # Complexity
    /// O(changed tasks).
    pub(super) fn unmodelled_share(&self, resolved: &Resolved) -> f64 {
        let effects = resolved.reports.iter().flat_map(StepReport::not_modelled);
        let untraced: DurNs = effects.clone().map(|effect| effect.untraced).sum();
        let mut tasks: FxHashMap<NodeId, DurNs> = tasks_of(effects).into_iter().collect();
        for (node, _) in resolved.changes.iter().filter(|(_, of)| of.is_unmodelled()) {
            tasks.insert(*node, self.graph.tasks[*node].duration);
        }
        self.share(untraced + self.time(tasks))
    }
}

//! What edits do with the device's time: as much as was traced is changed, kept or taken out, and the rest was added.

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::analysis::busy;
use crate::cost::Provenance;
use crate::graph::{LaneId, NodeId};
use crate::scenario::Resolved;
use crate::sim::Schedule;
use crate::units::{DurNs, TimeNs, share};

use super::recorded::Recorded;

/// Device time of the chosen iteration by what edits do with it, summed over the ranks of the trace.
///
/// Recorded times of tasks are cut nowhere, so tasks side by side count twice. `base_ns = changed_ns + kept_ns + removed_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceTime {
    /// All of the untouched iteration.
    pub base_ns: DurNs,
    /// Of it, what a model or a factor gives other times.
    pub changed_ns: DurNs,
    /// What that takes then.
    pub changed_to_ns: DurNs,
    /// Of what is changed, what follows the roofs of two devices whatever it computes: no model covers it.
    pub by_roofs_ns: DurNs,
    /// Of it, what keeps its time.
    pub kept_ns: DurNs,
    /// Of what is kept, what edits should have changed and no model covers.
    pub not_modelled_ns: DurNs,
    /// Of it, what was taken out.
    pub removed_ns: DurNs,
    /// What was added.
    pub added_ns: DurNs,
}

impl DeviceTime {
    /// All of the edited iteration.
    pub fn after(&self) -> DurNs {
        self.kept_ns + self.changed_to_ns + self.added_ns
    }

    /// Whether edits do anything with it.
    pub(super) fn is_changed(&self) -> bool {
        self.changed_ns + self.removed_ns + self.added_ns > DurNs::ZERO
    }

    /// By which share of all of the untouched iteration edits change it in sum, at most 1.
    pub(super) fn change_share(&self) -> f64 {
        share((self.after() - self.base_ns).abs(), self.base_ns)
    }

    /// Of `resolved` as `schedule` has it.
    ///
    /// # Complexity
    /// O(tasks).
    pub(super) fn of(resolved: &Resolved, schedule: &Schedule, recorded: &Recorded) -> Self {
        let (graph, timed) = (&*resolved.graph, &*resolved.timed);
        let all_lanes = graph.lanes.iter().chain(resolved.added_lanes.iter().map(|(lane, _)| lane));
        let lanes: Vec<Option<usize>> = all_lanes.map(|lane| graph.place_of(lane.rank)).collect();
        let lane_rank = |lane: LaneId| lanes.get(lane.0 as usize).copied().flatten();
        let counts: Vec<f64> = graph.ranks.iter().map(|part| f64::from(part.count())).collect();
        let share = |node: NodeId| recorded.on_devices(node);
        let mut sums = Self::default();
        for node in graph.tasks.node_indices() {
            sums.base_ns += graph.tasks[node].duration.scale(share(node));
        }
        for &node in &resolved.removed {
            sums.removed_ns += graph.tasks[node].duration.scale(share(node));
        }
        sums.add_changes(resolved, share);
        sums.kept_ns = sums.base_ns - sums.changed_ns - sums.removed_ns;
        let simulated: Vec<(TimeNs, TimeNs)> =
            graph.ranks.iter().map(|part| busy::window(part, timed, schedule)).collect();
        for added in resolved.added.iter().filter(|added| added.kind.is_device()) {
            let end = schedule.end(added.task);
            let within = |rank: &usize| simulated[*rank].0 < end && end <= simulated[*rank].1;
            if let Some(rank) = lane_rank(added.lane).filter(within) {
                sums.added_ns += DurNs(timed.durations[added.task.0 as usize]).scale(counts[rank]);
            }
        }
        sums.changed_to_ns = sums.changed_to_ns.min(DurNs::LONGEST);
        sums.added_ns = sums.added_ns.min(DurNs::LONGEST);
        sums
    }

    /// What was changed, and what was left as it was for want of a model: of a task that changed only in part the rest is kept.
    fn add_changes(&mut self, resolved: &Resolved, share: impl Fn(NodeId) -> f64) {
        let mut kept: FxHashMap<NodeId, DurNs> = resolved.kept.iter().copied().collect();
        for &(node, ref of) in &resolved.changes {
            let traced = resolved.graph.tasks[node].duration;
            if of.provenance == Provenance::Unmodelled {
                kept.insert(node, traced);
            } else {
                let rest = kept.get(&node).map_or(DurNs::ZERO, |&kept| kept.min(traced).min(of.duration));
                kept.entry(node).and_modify(|kept| *kept = rest);
                let by_roofs = if of.is_by_roofs() { traced - rest } else { DurNs::ZERO };
                self.by_roofs_ns += by_roofs.scale(share(node));
                self.changed_ns += (traced - rest).scale(share(node));
                self.changed_to_ns += (of.duration - rest).scale(share(node));
            }
        }
        self.not_modelled_ns = kept.into_iter().map(|(node, time)| time.scale(share(node))).sum();
    }
}

//! How busy the devices are: time with any work on a device, and the kernel-only baseline.
//!
//! Works on a schedule; an interval view of tasks in a window, nothing about why they lie where they lie.

use rayon::prelude::*;

use crate::cost::{Prediction, Provenance};
use crate::graph::{Lane, LaneKind, RankPart, TimedGraph};
use crate::scenario::Resolved;
use crate::sim::Schedule;
use crate::units::{DurNs, TimeNs};

use super::replay;

/// Device activity of one rank within its iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busy {
    /// Length of the iteration.
    pub period: DurNs,
    /// Time with at least one task on any stream of the rank.
    pub active: DurNs,
    /// Largest sum of device time on one stream: what the iteration would take without host and waits.
    pub kernel_only: DurNs,
}

impl Busy {
    /// Active share of the period, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.period.0 > 0 { self.active.0 as f64 / self.period.0 as f64 } else { 0.0 }
    }
}

/// The simulated iteration of `part`: from the end of everything before it to the end of all it did.
pub fn window(part: &RankPart, timed: &TimedGraph, schedule: &Schedule) -> (TimeNs, TimeNs) {
    let end = schedule.end(timed.task(part.end));
    (end - replay::period(timed, schedule, part), end)
}

/// Device activity of every rank, in order of the graph's ranks; work that edits added counts too.
///
/// # Complexity
/// O(device tasks · log).
pub fn busy(resolved: &Resolved, schedule: &Schedule) -> Vec<Busy> {
    let (graph, timed) = (&*resolved.graph, &*resolved.timed);
    let windows: Vec<(TimeNs, TimeNs)> = graph.ranks.iter().map(|part| window(part, timed, schedule)).collect();
    let mut per_rank: Vec<Activity> = windows.iter().map(|_| Activity::default()).collect();
    let streams = ranks(resolved, |lane| matches!(lane.kind, LaneKind::Stream { .. }));
    let mut per_lane = vec![DurNs::ZERO; streams.len()];
    let traced = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind.is_device());
    let traced = traced.map(|node| (timed.task(node), graph.tasks[node].lane));
    let added = resolved.added.iter().filter(|added| added.kind.is_device()).map(|added| (added.task, added.lane));
    for (task, lane) in traced.chain(added) {
        let Some(rank) = streams[lane.0 as usize] else { continue };
        let (begin, end) = windows[rank];
        let (from, to) = (schedule.start(timed, task).max(begin), schedule.end(task).min(end));
        if from < to {
            per_rank[rank].intervals.push((from, to));
            per_lane[lane.0 as usize] += to.since(from);
        }
    }
    for (rank, time) in streams.iter().zip(per_lane) {
        if let Some(rank) = *rank {
            per_rank[rank].kernel_only = per_rank[rank].kernel_only.max(time);
        }
    }
    let summed = windows.into_par_iter().zip(per_rank);
    summed.map(|((begin, end), activity)| activity.summed(end.since(begin))).collect()
}

/// Share of the iteration in which at least one task runs whose prediction is `wanted`, a mean over ranks, 0 to 1.
///
/// # Complexity
/// O(changed tasks · log).
pub fn share_of(resolved: &Resolved, schedule: &Schedule, wanted: impl Fn(&Prediction) -> bool) -> f64 {
    let (graph, timed) = (&*resolved.graph, &*resolved.timed);
    let windows: Vec<(TimeNs, TimeNs)> = graph.ranks.iter().map(|part| window(part, timed, schedule)).collect();
    let mut intervals: Vec<Vec<(TimeNs, TimeNs)>> = vec![Vec::new(); windows.len()];
    let lanes = ranks(resolved, |_| true);
    let traced = resolved.changes.iter().map(|(node, of)| (timed.task(*node), graph.tasks[*node].lane, of));
    let added = resolved.added.iter().map(|added| (added.task, added.lane, &added.prediction));
    for (task, lane, _) in traced.chain(added).filter(|(_, _, of)| wanted(of)) {
        let Some(rank) = lanes[lane.0 as usize] else { continue };
        let (begin, end) = windows[rank];
        let (from, to) = (schedule.start(timed, task).max(begin), schedule.end(task).min(end));
        if from < to {
            intervals[rank].push((from, to));
        }
    }
    let ranks = windows.len().max(1) as f64;
    let share =
        |((begin, end), intervals): ((TimeNs, TimeNs), _)| union(intervals).0 as f64 / end.since(begin).0.max(1) as f64;
    windows.into_iter().zip(intervals).map(share).sum::<f64>() / ranks
}

/// Time that edits should have changed and no model covers, as a share of what tasks take: of those of devices, or of all where no
/// device is used. Of the iteration as traced or of the edited one, where it is larger: what keeps its time beside work that grew
/// a thousandfold is a small part of the answer, and none of it is known all the same.
///
/// # Complexity
/// O(tasks), where any is left as it was.
pub fn unmodelled_share(resolved: &Resolved, schedule: &Schedule) -> f64 {
    let is_unmodelled = |of: &Prediction| of.provenance == Provenance::Unmodelled;
    let (graph, timed) = (&*resolved.graph, &*resolved.timed);
    let mut kept: Vec<Option<DurNs>> = vec![None; timed.len()];
    for (node, time) in &resolved.kept {
        kept[timed.task(*node).0 as usize] = Some(*time);
    }
    let changed = resolved.changes.iter().map(|(node, of)| (timed.task(*node), of));
    let added = resolved.added.iter().map(|added| (added.task, &added.prediction));
    for (task, of) in changed.chain(added).filter(|(_, of)| is_unmodelled(of)) {
        kept[task.0 as usize] = Some(of.duration);
    }
    if kept.iter().all(Option::is_none) {
        return 0.0;
    }
    let windows: Vec<(TimeNs, TimeNs)> = graph.ranks.iter().map(|part| window(part, timed, schedule)).collect();
    let lanes = ranks(resolved, |_| true);
    // Of devices first, then of everything else: the time left as it was, and all.
    let (mut sums, mut traced_sums) = ([(DurNs::ZERO, DurNs::ZERO); 2], [(DurNs::ZERO, DurNs::ZERO); 2]);
    for node in graph.tasks.node_indices().filter(|&node| !graph.is_backlog(node)) {
        let task = &graph.tasks[node];
        let sum = &mut traced_sums[usize::from(!task.kind.is_device())];
        sum.0 += kept[timed.task(node).0 as usize].map_or(DurNs::ZERO, |_| task.duration);
        sum.1 += task.duration;
    }
    let traced = graph.tasks.node_indices().map(|node| (timed.task(node), resolved.lane(node), graph.tasks[node].kind));
    let added = resolved.added.iter().map(|added| (added.task, added.lane, added.kind));
    for (task, lane, kind) in traced.chain(added) {
        let Some(rank) = lanes[lane.0 as usize] else { continue };
        let (begin, end) = windows[rank];
        let within = schedule.end(task).min(end).since(schedule.start(timed, task).max(begin)).max(DurNs::ZERO);
        let sum = &mut sums[usize::from(!kind.is_device())];
        sum.0 += kept[task.0 as usize].map_or(DurNs::ZERO, |kept| kept.min(within));
        sum.1 += within;
    }
    let share = |[device, host]: [(DurNs, DurNs); 2]| {
        let (unmodelled, all) = if device.1 > DurNs::ZERO { device } else { host };
        unmodelled.0 as f64 / all.0.max(1) as f64
    };
    share(sums).max(share(traced_sums))
}

/// By lane the position of its rank; `None` for one that is not `wanted`.
fn ranks(resolved: &Resolved, wanted: fn(&Lane) -> bool) -> Vec<Option<usize>> {
    let graph = &*resolved.graph;
    let rank = |lane: &Lane| graph.place_of(lane.rank).filter(|_| wanted(lane));
    let added = resolved.added_lanes.iter().map(|(lane, _)| lane);
    graph.lanes.iter().chain(added).map(rank).collect()
}

#[derive(Debug, Default)]
struct Activity {
    intervals: Vec<(TimeNs, TimeNs)>,
    /// Largest sum of one stream.
    kernel_only: DurNs,
}

impl Activity {
    fn summed(self, period: DurNs) -> Busy {
        Busy { period, active: union(self.intervals), kernel_only: self.kernel_only }
    }
}

/// Total time covered by at least one interval.
pub(super) fn union(mut intervals: Vec<(TimeNs, TimeNs)>) -> DurNs {
    // Lane after lane they come in order, which this kind of sorting takes as it is.
    intervals.sort();
    let mut covered = DurNs::ZERO;
    let mut until = TimeNs(i64::MIN);
    for (from, to) in intervals {
        if to > until {
            covered += to.since(from.max(until));
            until = to;
        }
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_intervals_are_counted_once() {
        let intervals = [(0, 10), (5, 20), (30, 40), (32, 33)].map(|(a, b)| (TimeNs(a), TimeNs(b)));
        assert_eq!(union(intervals.to_vec()), DurNs(30));
    }
}

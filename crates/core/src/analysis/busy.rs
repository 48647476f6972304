//! How busy the devices are: time with any work on a device, and the kernel-only baseline.
//!
//! Works on a schedule; an interval view of tasks in a window, nothing about why they lie where they lie.

use rayon::prelude::*;

use crate::cost::Prediction;
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
    /// Largest device time of one stream: what the iteration would take without host and waits.
    pub kernel_only: DurNs,
    /// Device time of all streams together.
    pub work: DurNs,
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
    let streams = ranks(resolved, |lane| matches!(lane.kind, LaneKind::Stream { .. }));
    let mut per_lane: Vec<Vec<(TimeNs, TimeNs)>> = vec![Vec::new(); streams.len()];
    let traced = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind.is_device());
    let traced = traced.map(|node| (timed.task(node), graph.tasks[node].lane));
    let added = resolved.added.iter().filter(|added| added.kind.is_device()).map(|added| (added.task, added.lane));
    for (task, lane) in traced.chain(added) {
        let Some(rank) = streams[lane.0 as usize] else { continue };
        let (begin, end) = windows[rank];
        let (from, to) = (schedule.start(timed, task).max(begin), schedule.end(task).min(end));
        if from < to {
            per_lane[lane.0 as usize].push((from, to));
        }
    }
    let mut per_rank: Vec<Activity> = windows.iter().map(|_| Activity::default()).collect();
    for (rank, mut intervals) in streams.iter().zip(per_lane) {
        if let Some(rank) = *rank {
            intervals.sort();
            let covered = covered(&intervals);
            per_rank[rank].kernel_only = per_rank[rank].kernel_only.max(covered);
            per_rank[rank].work += covered;
            per_rank[rank].intervals.append(&mut intervals);
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
    /// Largest time of one stream.
    kernel_only: DurNs,
    /// Time of all streams.
    work: DurNs,
}

impl Activity {
    fn summed(self, period: DurNs) -> Busy {
        Busy { period, active: union(self.intervals), kernel_only: self.kernel_only, work: self.work }
    }
}

/// Total time covered by at least one interval.
pub(crate) fn union(mut intervals: Vec<(TimeNs, TimeNs)>) -> DurNs {
    // Lane after lane they come in order, which this kind of sorting takes as it is.
    intervals.sort();
    covered(&intervals)
}

/// Intervals that overlap or touch joined, in order.
pub(crate) fn merged(mut intervals: Vec<(TimeNs, TimeNs)>) -> Vec<(TimeNs, TimeNs)> {
    intervals.sort();
    intervals.dedup_by(|next, last| {
        let joins = next.0 <= last.1;
        if joins {
            last.1 = last.1.max(next.1);
        }
        joins
    });
    intervals
}

/// As [`union`], of intervals in order.
fn covered(intervals: &[(TimeNs, TimeNs)]) -> DurNs {
    let mut covered = DurNs::ZERO;
    let mut until = TimeNs(i64::MIN);
    for &(from, to) in intervals {
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

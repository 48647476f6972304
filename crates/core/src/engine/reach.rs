//! How far off an iteration may be for what keeps its time under edits that should have changed it.

use rustc_hash::FxHashMap;

use crate::analysis::busy;
use crate::cost::Provenance;
use crate::graph::TaskId;
use crate::scenario::Resolved;
use crate::sim::{Schedule, simulate};
use crate::units::DurNs;

use super::decisive::Decisive;
use super::summary::ratio;

/// Kept time that would change by as little as this share of the period is not simulated anew.
const BESIDE_PERIOD: f64 = 0.001;

/// How far below and above its time the iteration may be for what keeps its time: that may change as the rest does, as the batch does
/// where that is another, and by as much as it takes where nothing tells.
///
/// # Complexity
/// O(tasks): one simulation with the kept time changed, since it may matter that did not.
pub(super) fn of_kept(resolved: &Resolved, decisive: &Decisive, period: DurNs) -> (DurNs, DurNs) {
    let kept = kept(resolved);
    if kept.is_empty() {
        return (DurNs::ZERO, DurNs::ZERO);
    }
    let all: DurNs = kept.values().copied().sum();
    let change = |factor: f64| {
        let by_factor = |time: DurNs| time.scale(factor) - time;
        if by_factor(all).abs().0 as f64 > BESIDE_PERIOD * period.0 as f64 {
            return period_with(resolved, &kept, by_factor) - period;
        }
        by_factor(decisive.tasks().iter().filter_map(|task| kept.get(task)).copied().sum())
    };
    let factors: Vec<f64> = [as_the_rest(resolved), as_the_batch(resolved)].into_iter().flatten().collect();
    let (least, most) = match factors.as_slice() {
        [] => (0.0, 2.0),
        known => known.iter().fold((1.0_f64, 1.0_f64), |(least, most), &factor| (least.min(factor), most.max(factor))),
    };
    ((-change(least)).max(DurNs::ZERO), change(most).max(DurNs::ZERO))
}

/// The tasks that keep their time for want of a model or by assumption, each with as much of it as it keeps.
fn kept(resolved: &Resolved) -> FxHashMap<TaskId, DurNs> {
    let timed = &*resolved.timed;
    let on_device = resolved.changes.iter().filter(|(node, _)| resolved.graph.tasks[*node].kind.is_device());
    let unmodelled = on_device.filter(|(_, prediction)| prediction.provenance == Provenance::Unmodelled);
    let mut kept: FxHashMap<TaskId, DurNs> =
        unmodelled.map(|(node, prediction)| (timed.task(*node), prediction.duration)).collect();
    kept.extend(resolved.kept.iter().map(|&(node, time)| (timed.task(node), time)));
    // Another step may have shortened it.
    for (task, time) in &mut kept {
        *time = (*time).min(DurNs(timed.durations[task.0 as usize]));
    }
    kept
}

/// The batch, as a multiple of the recorded one.
fn as_the_batch(resolved: &Resolved) -> Option<f64> {
    resolved.batch.map(|(old, new)| new as f64 / old.max(1) as f64)
}

/// What the modelled device work takes, as a multiple of what it took.
fn as_the_rest(resolved: &Resolved) -> Option<f64> {
    let graph = &*resolved.graph;
    let modelled = resolved.changes.iter().filter(|(_, prediction)| prediction.provenance.is_modelled());
    let on_device = modelled.filter(|(node, _)| graph.tasks[*node].kind.is_device());
    let times = on_device.map(|(node, prediction)| (graph.tasks[*node].duration, prediction.duration));
    let (before, after) = times.fold((DurNs::ZERO, DurNs::ZERO), |sums, times| (sums.0 + times.0, sums.1 + times.1));
    (before > DurNs::ZERO).then(|| ratio(after, before))
}

/// The period if what tasks keep changed by `change` of it.
fn period_with(resolved: &Resolved, kept: &FxHashMap<TaskId, DurNs>, change: impl Fn(DurNs) -> DurNs) -> DurNs {
    let mut durations = resolved.timed.durations.clone();
    for (task, &time) in kept {
        let duration = &mut durations[task.0 as usize];
        *duration = (DurNs(*duration) + change(time)).0;
    }
    let timed = resolved.timed.taking(&durations);
    let mut schedule = Schedule::default();
    simulate(&timed, &mut schedule);
    let windows = resolved.graph.ranks.iter().map(|part| busy::window(part, &timed, &schedule));
    windows.map(|(begin, end)| end.since(begin)).max().unwrap_or_default()
}

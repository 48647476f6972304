//! The simulator: longest path over a timed graph. Sees durations and lags only.

pub mod cycle;
pub mod schedule;
pub mod slack;

pub use cycle::{CarriedEnd, Circuit, Cycle, SteadyPeriod, steady};
pub use schedule::Schedule;
pub use slack::slack;

use crate::graph::timed::{TaskId, TimedGraph};

/// Times saturate here, 2^61 ns or 73 years: far enough from the ends of 64 bits that no sum below can wrap.
const HORIZON: i64 = 1 << 61;

/// Simulates `graph` into `schedule`, whose buffers are reused.
///
/// `start(t) = max(0, max over predecessors p of end(p) + lag)`, `end(t) = start(t) + duration(t)`.
///
/// # Complexity
/// O(tasks), one pass in topological order; times saturate.
pub fn simulate(graph: &TimedGraph, schedule: &mut Schedule) {
    schedule.fit(graph.len());
    pass(graph, schedule, 0);
}

/// Brings `schedule`, a simulation of `graph`, up to date after durations or lags of `first` or tasks behind it changed.
///
/// A schedule of another length is simulated anew.
///
/// # Complexity
/// O(tasks from `first` on).
pub fn resimulate_from(graph: &TimedGraph, first: TaskId, schedule: &mut Schedule) {
    if schedule.len() == graph.len() {
        pass(graph, schedule, first.0 as usize);
    } else {
        simulate(graph, schedule);
    }
}

/// Simulates the tasks from `first` on.
fn pass(graph: &TimedGraph, schedule: &mut Schedule, first: usize) {
    if !longest_path::<false>(graph, schedule, first) {
        // Up to the first time beyond the horizon nothing wrapped; what follows may have.
        longest_path::<true>(graph, schedule, first);
    }
}

/// One pass; whether all its times stayed within the horizon.
///
/// Most tasks have one predecessor, and how many the next has follows a pattern that the processor learns, so slots are
/// asked for by branches. Which predecessor decides is as good as random: that is chosen without. A chain of tasks waits
/// for each sum in turn, so times are bounded only in the pass with `SATURATE`.
fn longest_path<const SATURATE: bool>(graph: &TimedGraph, schedule: &mut Schedule, first: usize) -> bool {
    let tasks = graph.len();
    let end = &mut schedule.end[..tasks];
    let (predecessors, lags, durations) =
        (&graph.predecessors[..tasks], &graph.lags[..tasks], &graph.durations[..tasks]);
    let mut times = 0;
    for task in first..tasks {
        // An unused slot holds the largest index and so no end.
        let ready =
            |slot: usize| Some(end.get(predecessors[task][slot] as usize)?.wrapping_add(i64::from(lags[task][slot])));
        let mut start = 0;
        if let Some(second) = ready(1) {
            start = second.max(0);
            if let Some(third) = ready(2) {
                start = start.max(third);
            }
        }
        if let Some(first) = ready(0) {
            start = start.max(first);
        }
        let duration = if SATURATE { durations[task].clamp(-HORIZON, HORIZON) } else { durations[task] };
        let ended = start.wrapping_add(duration);
        // Both are within the horizon when their sums with it have no bit beyond its double.
        times |= duration.wrapping_add(HORIZON) | ended.wrapping_add(HORIZON);
        end[task] = if SATURATE { ended.min(HORIZON) } else { ended };
    }
    (0..2 * HORIZON).contains(&times)
}

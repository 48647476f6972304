//! The simulator: longest path over a timed graph. Sees durations and lags only.

pub mod schedule;
pub mod slack;
pub mod sweep;

pub use schedule::Schedule;
pub use slack::slack;
pub use sweep::{Outcome, Variant, sweep};

use crate::graph::timed::{TaskId, TimedGraph};
use schedule::NO_SLOT;

/// Times saturate here, 2^61 ns or 73 years: far enough from the ends of 64 bits that no sum below can wrap.
const HORIZON: i64 = 1 << 61;

/// End of the predecessor in an unused slot: it never decides, whatever its lag.
const NEVER: i64 = i64::MIN / 2;

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
    if longest_path::<false>(graph, schedule, first) > HORIZON {
        // The first end beyond the horizon did not wrap; what follows may have.
        longest_path::<true>(graph, schedule, first);
    }
}

/// One pass, and the latest end of its tasks. It is free of branches: whether a slot is used and which predecessor
/// decides is as good as random to the processor. A chain of tasks waits for each sum in turn, so ends are bounded
/// only in the pass with `SATURATE`.
fn longest_path<const SATURATE: bool>(graph: &TimedGraph, schedule: &mut Schedule, first: usize) -> i64 {
    let tasks = graph.len();
    let (predecessors, lags, durations) =
        (&graph.predecessors[..tasks], &graph.lags[..tasks], &graph.durations[..tasks]);
    let (end, critical) = (&mut schedule.end[..=tasks], &mut schedule.critical[..tasks]);
    end[tasks] = NEVER;
    let mut last = 0;
    for task in first..tasks {
        let ready = |slot: usize| {
            // An unused slot holds the largest index and so becomes the entry that never decides.
            let predecessor = (predecessors[task][slot] as usize).min(tasks);
            end[predecessor].wrapping_add(i64::from(lags[task][slot]))
        };
        let (a, b, c) = (ready(0), ready(1), ready(2));
        let (ab, start) = (a.max(b), a.max(b).max(c.max(0)));
        let slot = if a == start { 0 } else { 2 - u8::from(b == start) };
        critical[task] = if ab.max(c) < 0 { NO_SLOT } else { slot };
        let ended = start.wrapping_add(durations[task].clamp(-HORIZON, HORIZON));
        end[task] = if SATURATE { ended.min(HORIZON) } else { ended };
        last = last.max(ended);
    }
    last
}

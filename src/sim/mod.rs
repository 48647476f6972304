//! The simulator: longest path over a timed graph. Sees durations and lags only.

pub mod schedule;

pub use schedule::Schedule;

use crate::graph::timed::{NO_TASK, TimedGraph};

/// Simulates `graph` into `schedule`, whose buffers are reused.
///
/// `start(t) = max(0, max over predecessors p of end(p) + lag)`, `end(t) = start(t) + duration(t)`.
///
/// # Complexity
/// O(tasks), one pass in topological order; times saturate.
pub fn simulate(graph: &TimedGraph, schedule: &mut Schedule) {
    schedule.clear(graph.len());
    for ((predecessors, lags), &duration) in graph.predecessors.iter().zip(&graph.lags).zip(&graph.durations) {
        let (mut start, mut critical) = (0_i64, schedule::NO_SLOT);
        for slot in 0..3 {
            let predecessor = predecessors[slot];
            if predecessor == NO_TASK {
                continue;
            }
            let ready = schedule.end[predecessor as usize].saturating_add(i64::from(lags[slot]));
            if ready > start || (critical == schedule::NO_SLOT && ready == start) {
                (start, critical) = (ready, slot as u8);
            }
        }
        schedule.end.push(start.saturating_add(duration));
        schedule.critical.push(critical);
    }
}

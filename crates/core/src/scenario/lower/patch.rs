//! Changes written into the rows that are there: nothing was added, and every task still comes after all it waits for.

use crate::graph::{TaskId, TimedGraph};
use crate::units::DurNs;

use super::changed::{Changed, Edge};
use super::durations::Durations;

/// Whether no task has to wait for a later one, or for more than its rows hold.
pub(super) fn fits(untouched: &TimedGraph, changed: &Changed) -> bool {
    let fit = |(task, edges): (u32, &[Edge])| {
        untouched.has_room(row(untouched, task), edges.iter().map(|edge| slot(untouched, edge)))
    };
    changed.groups().all(fit)
}

/// The base's rows with other durations and dependencies, which [fit](fits), and the first that differs.
pub(super) fn patch(untouched: &TimedGraph, changed: &Changed, durations: &Durations<'_>) -> (TimedGraph, TaskId) {
    let mut first = durations.first;
    let mut timed = untouched.taking(&durations.rows);
    let mut predecessors = Vec::new();
    for (task, edges) in changed.groups() {
        predecessors.clear();
        predecessors.extend(edges.iter().map(|edge| slot(untouched, edge)));
        predecessors.sort_unstable();
        first = first.min(timed.rewire(row(untouched, task), &predecessors).0);
    }
    (timed, TaskId(first))
}

fn row(untouched: &TimedGraph, task: u32) -> TaskId {
    TaskId(untouched.task_of[task as usize])
}

fn slot(untouched: &TimedGraph, edge: &Edge) -> (TaskId, DurNs) {
    (row(untouched, edge.from), edge.lag)
}

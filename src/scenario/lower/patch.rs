//! Changes written into the rows that are there: nothing was added, and every task still comes after all it waits for.

use crate::graph::{TaskId, TimedGraph};
use crate::scenario::base::Base;
use crate::units::DurNs;

use super::changed::Changed;

/// The base's rows with other durations and dependencies, and the first that differs; `None` where a task has to wait for a
/// later one, or for more than its rows hold.
pub(super) fn patch(base: &Base, changed: &Changed, durations: &[DurNs]) -> Option<(TimedGraph, TaskId)> {
    let untouched = base.timed();
    let tasks = || (0..durations.len() as u32).filter(|&task| changed.contains(task));
    let mut predecessors = Vec::new();
    for task in tasks() {
        collect(untouched, changed, task, &mut predecessors);
        if !untouched.has_room(TaskId(untouched.task_of[task as usize]), &predecessors) {
            return None;
        }
    }
    let mut timed = TimedGraph::clone(untouched);
    let mut first = timed.len() as u32;
    let longer = durations.iter().zip(base.durations()).enumerate().filter(|(_, (new, old))| **new != *old);
    for (node, (new, _)) in longer {
        let row = timed.task_of[node];
        timed.durations[row as usize] = new.0;
        first = first.min(row);
    }
    for task in tasks() {
        collect(untouched, changed, task, &mut predecessors);
        let row = TaskId(timed.task_of[task as usize]);
        first = first.min(timed.rewire(row, &predecessors).0);
    }
    Some((timed, TaskId(first)))
}

/// What `task` waits for, by row of the base.
fn collect(timed: &TimedGraph, changed: &Changed, task: u32, predecessors: &mut Vec<(TaskId, DurNs)>) {
    predecessors.clear();
    let edges = changed.of_task(task).map_or(&[][..], |range| &changed.edges[range]);
    predecessors.extend(edges.iter().map(|edge| (TaskId(timed.task_of[edge.from as usize]), edge.lag)));
    predecessors.sort_unstable();
}

//! Slack: how much longer a task could take before the end it counts towards moves.

use super::Schedule;
use crate::graph::timed::{NO_TASK, TaskId, TimedGraph};
use crate::units::DurNs;

/// The slack of each task with respect to `goal`: how much later it could end without `goal` ending later.
///
/// `slack(goal) = 0`, `slack(p) = min over successors s of slack(s) + start(s) − lag − end(p)`; `None` where no path
/// leads to `goal`. A task of the critical path has slack 0.
///
/// # Complexity
/// O(tasks up to `goal`), one pass against topological order.
pub fn slack(graph: &TimedGraph, schedule: &Schedule, goal: TaskId) -> Vec<Option<DurNs>> {
    const FREE: i64 = i64::MAX;
    let mut slack = vec![FREE; graph.len()];
    slack[goal.0 as usize] = 0;
    for task in (0..=goal.0).rev() {
        let own = slack[task as usize];
        if own == FREE {
            continue;
        }
        let start = schedule.start(graph, TaskId(task)).0;
        let (predecessors, lags) = (graph.predecessors[task as usize], graph.lags[task as usize]);
        for (&predecessor, &lag) in predecessors.iter().zip(&lags).filter(|(it, _)| **it != NO_TASK) {
            // Times held at the horizon are in no order any more: what is there has no room, never less than none.
            let room = start.saturating_sub(i64::from(lag)).saturating_sub(schedule.end(TaskId(predecessor)).0).max(0);
            let through = &mut slack[predecessor as usize];
            *through = (*through).min(own.saturating_add(room));
        }
    }
    slack.into_iter().map(|ns| (ns != FREE).then_some(DurNs(ns))).collect()
}

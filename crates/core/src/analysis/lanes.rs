//! Lanes as intervals: which task occupied each host thread and stream when, as measured or as simulated.

use std::ops::Range;

use crate::graph::{ExecutionGraph, NodeId, RankPart, TimedGraph};
use crate::sim::Schedule;
use crate::units::TimeNs;

use super::density::{Density, Interval};

/// When tasks ran: as the trace has it, or as the simulator says.
#[derive(Clone, Copy, Debug)]
pub enum Times<'a> {
    /// As measured.
    Measured,
    /// As simulated.
    Simulated {
        /// The arrays that were simulated.
        timed: &'a TimedGraph,
        /// The result.
        schedule: &'a Schedule,
    },
}

impl Times<'_> {
    /// Start and end of `node`; both 0 for a node that was not simulated.
    pub fn of(&self, graph: &ExecutionGraph, node: NodeId) -> (TimeNs, TimeNs) {
        match self {
            Self::Measured => (graph.tasks[node].measured_start, graph.tasks[node].measured_end()),
            Self::Simulated { timed, schedule } => match timed.task_if_kept(node) {
                Some(task) => (schedule.start(timed, task), schedule.end(task)),
                None => <(TimeNs, TimeNs)>::default(),
            },
        }
    }
}

impl Times<'_> {
    /// The period of the chosen iteration on one rank: from the end of its begin marker (else the instant its window
    /// begins) to the end of its end marker.
    pub fn period(&self, graph: &ExecutionGraph, part: &RankPart) -> Range<TimeNs> {
        let measured_end = TimeNs(part.window_end.since(part.window_start).0);
        let measured_start = measured_end - part.measured;
        match self {
            Self::Measured => measured_start..measured_end,
            Self::Simulated { .. } => {
                let end = self.of(graph, part.end).1;
                // The step before may outlive this one, which then has no time of its own.
                part.begin.map_or(measured_start, |marker| self.of(graph, marker).1).min(end)..end
            }
        }
    }
}

/// The density of each lane of `graph`, in the order of its lanes; keys are node indices of tasks that take time.
///
/// # Complexity
/// O(tasks).
pub fn densities(graph: &ExecutionGraph, times: Times<'_>) -> Vec<Density> {
    let mut lanes: Vec<Vec<Interval>> = vec![Vec::new(); graph.lanes.len()];
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        if task.kind.is_work() {
            let (start, end) = times.of(graph, node);
            lanes[task.lane.0 as usize].push(Interval { start, end, key: node.index() as u32 });
        }
    }
    lanes.into_iter().map(Density::build).collect()
}

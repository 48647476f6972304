//! The schedule: when each task starts and ends, and which predecessor decided that.

use crate::graph::timed::{TaskId, TimedGraph};
use crate::units::{DurNs, TimeNs};

/// Result of one simulation; index = task of the timed graph.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// End of each task in ns. All else follows from these and the graph.
    pub(super) end: Vec<i64>,
}

impl Schedule {
    /// Makes room for exactly `tasks`, keeping its buffers.
    pub(super) fn fit(&mut self, tasks: usize) {
        self.end.resize(tasks, 0);
    }

    /// How many tasks were simulated.
    pub fn len(&self) -> usize {
        self.end.len()
    }

    /// Whether nothing was simulated.
    pub fn is_empty(&self) -> bool {
        self.end.is_empty()
    }

    /// When `task` ends.
    pub fn end(&self, task: TaskId) -> TimeNs {
        TimeNs(self.end[task.0 as usize])
    }

    /// When `task` starts.
    pub fn start(&self, graph: &TimedGraph, task: TaskId) -> TimeNs {
        self.end(task) - DurNs(graph.durations[task.0 as usize])
    }

    /// The predecessor that decided when `task` starts, of several that end equally late the one in the first slot;
    /// `None` when it could start at once.
    pub fn critical_predecessor(&self, graph: &TimedGraph, task: TaskId) -> Option<TaskId> {
        let (predecessors, lags) = (&graph.predecessors[task.0 as usize], &graph.lags[task.0 as usize]);
        let ready = |slot: usize| Some(self.end.get(predecessors[slot] as usize)? + i64::from(lags[slot]));
        let (mut start, mut decided) = (ready(0)?, predecessors[0]);
        // Most tasks have one predecessor: the way back along a chain of them waits for no end.
        for (slot, &predecessor) in predecessors.iter().enumerate().skip(1) {
            let Some(later) = ready(slot) else { break };
            if later > start {
                (start, decided) = (later, predecessor);
            }
        }
        (start >= 0).then_some(TaskId(decided))
    }

    /// The latest end of all tasks.
    pub fn makespan(&self) -> DurNs {
        DurNs(self.end.iter().copied().max().unwrap_or(0).max(0))
    }
}

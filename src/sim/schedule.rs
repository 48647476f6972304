//! The schedule: when each task starts and ends, and which predecessor decided that.

use crate::graph::timed::{TaskId, TimedGraph};
use crate::units::{DurNs, TimeNs};

/// Marks a task that no predecessor held back.
pub const NO_SLOT: u8 = u8::MAX;

/// Result of one simulation; index = task of the timed graph.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// End of each task in ns.
    pub(crate) end: Vec<i64>,
    /// The predecessor slot that decided its start, or [`NO_SLOT`].
    pub(crate) critical: Vec<u8>,
}

impl Schedule {
    /// Empties it, keeping its buffers, with room for `tasks`.
    pub(crate) fn clear(&mut self, tasks: usize) {
        self.end.clear();
        self.critical.clear();
        self.end.reserve(tasks);
        self.critical.reserve(tasks);
    }

    /// When `task` ends.
    pub fn end(&self, task: TaskId) -> TimeNs {
        TimeNs(self.end[task.0 as usize])
    }

    /// When `task` starts.
    pub fn start(&self, graph: &TimedGraph, task: TaskId) -> TimeNs {
        self.end(task) - DurNs(graph.durations[task.0 as usize])
    }

    /// The predecessor that decided when `task` starts; `None` when it could start at once.
    pub fn critical_predecessor(&self, graph: &TimedGraph, task: TaskId) -> Option<TaskId> {
        let slot = self.critical[task.0 as usize];
        (slot != NO_SLOT).then(|| TaskId(graph.predecessors[task.0 as usize][slot as usize]))
    }

    /// The latest end of all tasks.
    pub fn makespan(&self) -> DurNs {
        DurNs(self.end.iter().copied().max().unwrap_or(0))
    }
}

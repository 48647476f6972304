//! The schedule: when each task starts and ends, and which predecessor decided that.

use crate::graph::timed::{TaskId, TimedGraph};
use crate::units::{DurNs, TimeNs};

/// Marks a task that no predecessor held back.
pub const NO_SLOT: u8 = u8::MAX;

/// Result of one simulation; index = task of the timed graph.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// End of each task in ns, and one entry for the predecessor of an unused slot.
    pub(super) end: Vec<i64>,
    /// The predecessor slot that decided its start, or [`NO_SLOT`].
    pub(super) critical: Vec<u8>,
}

impl Schedule {
    /// Makes room for exactly `tasks`, keeping its buffers.
    pub(super) fn fit(&mut self, tasks: usize) {
        self.end.resize(tasks + 1, 0);
        self.critical.resize(tasks, NO_SLOT);
    }

    /// How many tasks were simulated.
    pub fn len(&self) -> usize {
        self.critical.len()
    }

    /// Whether nothing was simulated.
    pub fn is_empty(&self) -> bool {
        self.critical.is_empty()
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
        DurNs(self.end[..self.len()].iter().copied().max().unwrap_or(0).max(0))
    }
}

//! The work of each task of a graph, an operator's divided among the kernels of one name that it launched.

use rustc_hash::FxHashMap;

use crate::cost::{Part, Work, kernel_parts, reference_kernels, work_of_task};
use crate::graph::{ExecutionGraph, NodeId, Operands, OperatorId};
use crate::scenario::sparse_updates;

/// Looks up the work of tasks.
#[derive(Debug)]
pub struct KernelWork<'a> {
    graph: &'a ExecutionGraph,
    /// By task: its part of its operator's work.
    parts: Vec<Part>,
    /// By kernel whose operator was not recorded: the kernel taken to have done the same.
    references: FxHashMap<NodeId, NodeId>,
    /// By update of rows of a table: its work, where its operator's arguments show the whole table.
    updates: FxHashMap<NodeId, Work>,
}

impl<'a> KernelWork<'a> {
    /// Counts the kernels of every operator.
    ///
    /// # Complexity
    /// O(tasks).
    pub fn of(graph: &'a ExecutionGraph) -> Self {
        Self {
            graph,
            parts: kernel_parts(graph),
            references: reference_kernels(graph),
            updates: sparse_updates(graph).collect(),
        }
    }

    /// The work of a task, as far as known.
    pub fn work(&self, node: NodeId) -> Option<Work> {
        let node = self.references.get(&node).copied().unwrap_or(node);
        if let Some(update) = self.updates.get(&node) {
            return Some(update.clone());
        }
        let (task, part) = (&self.graph.tasks[node], self.parts[node.index()]);
        work_of_task(self.graph, task, part, |id| operands(self.graph, id))
    }
}

fn operands(graph: &ExecutionGraph, id: OperatorId) -> Option<&Operands> {
    graph.operators.get(id.0 as usize)?.operands.and_then(|id| graph.operands.get(id.0 as usize))
}

//! What each task of a scenario has to do: the one reading that models, tables of operators, rooflines and layers share.

use std::sync::Arc;

use crate::cost::{Family, Shape, Work, family_of_task};
use crate::graph::{ExecutionGraph, NodeId, Operands, OperatorId};
use crate::units::Bytes;

use super::work_classes::{Class, Overrides, Sharing, WorkClasses};

/// The work of the tasks of an edited graph, by node: traced ones, then those that edits added.
#[derive(Clone, Debug)]
pub struct KernelWork {
    pub(super) traced: Arc<WorkClasses>,
    /// Class of each traced task; empty while none changed.
    pub(super) class_of: Vec<u32>,
    /// Classes beyond the traced ones.
    pub(super) classes: Vec<Class>,
    /// Traced tasks that were taken out, in order.
    pub(super) removed: Vec<NodeId>,
    /// What added tasks have to do, in order.
    pub(super) added: Vec<Option<Arc<Work>>>,
    /// Arguments of operators that edits changed.
    pub(super) overrides: Overrides,
}

impl KernelWork {
    /// The work of the tasks of `graph`.
    ///
    /// # Complexity
    /// O(tasks + operators).
    pub fn of(graph: &ExecutionGraph) -> Self {
        Self::untouched(Arc::new(WorkClasses::of_graph(graph, Sharing::of_graph(graph))))
    }

    pub(super) fn untouched(traced: Arc<WorkClasses>) -> Self {
        let overrides = Overrides::default();
        Self { traced, class_of: Vec::new(), classes: Vec::new(), removed: Vec::new(), added: Vec::new(), overrides }
    }

    /// The work of a task; `None` where it is not known, or the task was taken out.
    pub fn work(&self, node: NodeId) -> Option<&Work> {
        match node.index().checked_sub(self.traced.of_node.len()) {
            Some(added) => self.added.get(added)?.as_deref(),
            None => self.class(node)?.work.as_deref(),
        }
    }

    /// The family of `node`, a task of `graph`: that of its work, else by names alone.
    pub fn family(&self, graph: &ExecutionGraph, node: NodeId) -> Family {
        let by_name = || family_of_task(graph, &graph.tasks[node]);
        self.work(node).map_or_else(by_name, |work| work.family)
    }

    /// The arguments of an operator of `graph`; `None` where they were not recorded.
    pub fn operands<'a>(&'a self, graph: &'a ExecutionGraph, operator: OperatorId) -> Option<&'a Operands> {
        self.overrides.operands(graph, operator)
    }

    /// What a copy or collective of `graph` carries: by its work, else as recorded, as of tasks that are neither.
    pub fn carried(&self, graph: &ExecutionGraph, node: NodeId) -> Bytes {
        match self.work(node) {
            Some(work) if matches!(work.shape, Shape::Copy { .. } | Shape::Collective { .. }) => work.written,
            _ => graph.tasks[node].bytes,
        }
    }

    /// Whether edits make a task read and write more than any memory holds.
    ///
    /// # Complexity
    /// O(changed kinds of work); where one of them is so large, O(tasks).
    pub(crate) fn is_beyond_memory(&self) -> bool {
        let is_beyond = |work: &Work| work.bytes() > Bytes::MOST;
        let mut added = self.added.iter().flatten();
        let has_class = self.classes.iter().any(|class| class.work.as_deref().is_some_and(is_beyond));
        added.any(|work| is_beyond(work))
            || has_class && (0..self.class_of.len()).any(|node| self.work(NodeId::new(node)).is_some_and(is_beyond))
    }

    /// Whether an edit took a traced task out.
    pub fn is_removed(&self, node: NodeId) -> bool {
        self.removed.binary_search(&node).is_ok()
    }

    fn class(&self, node: NodeId) -> Option<&Class> {
        if self.is_removed(node) {
            return None;
        }
        let of_node = if self.class_of.is_empty() { &self.traced.of_node } else { &self.class_of };
        let class = *of_node.get(node.index())? as usize;
        match class.checked_sub(self.traced.classes.len()) {
            Some(own) => self.classes.get(own),
            None => self.traced.classes.get(class),
        }
    }
}

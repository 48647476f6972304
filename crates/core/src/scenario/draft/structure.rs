//! Tasks, dependencies and lanes that edits add, change or take out.

use petgraph::graph::EdgeIndex;

use crate::graph::{Dependency, Lane, LaneId, NodeId};

use super::{Added, AddedId, Draft, Link, Node};

impl Draft<'_> {
    /// Takes a task out: it takes no time, and what waited for it waits for what it waited for.
    pub fn remove(&mut self, node: NodeId) {
        if self.removed.is_empty() {
            self.removed = vec![false; self.graph().tasks.node_count()];
        }
        self.removed[node.index()] = true;
    }

    /// Whether a task was taken out.
    pub fn is_removed(&self, node: NodeId) -> bool {
        self.removed.get(node.index()).copied().unwrap_or(false)
    }

    /// The traced tasks that were taken out, in order.
    pub fn removed(&self) -> impl Iterator<Item = NodeId> + use<'_> {
        self.removed.iter().enumerate().filter(|(_, removed)| **removed).map(|(at, _)| NodeId::new(at))
    }

    /// Adds a task; it has to be connected besides.
    pub fn add(&mut self, added: Added) -> AddedId {
        self.added.push(added);
        self.dropped.push(false);
        AddedId(self.added.len() as u32 - 1)
    }

    /// Makes room for so many more tasks and dependencies.
    pub fn reserve(&mut self, tasks: usize, dependencies: usize) {
        self.added.reserve(tasks);
        self.dropped.reserve(tasks);
        self.links.reserve(dependencies);
    }

    /// Tasks that edits added, in order.
    pub fn added(&self) -> &[Added] {
        &self.added
    }

    /// An added task, to be changed.
    pub fn added_mut(&mut self, id: AddedId) -> Option<&mut Added> {
        self.added.get_mut(id.0 as usize)
    }

    /// Adds a dependency.
    pub fn connect(&mut self, from: Node, to: Node, dependency: Dependency) {
        let traced = self.graph().tasks.node_count();
        self.links.push(Link { from, to, dependency, is_cut: false }, traced);
    }

    /// Takes out a traced dependency.
    pub fn cut(&mut self, edge: EdgeIndex<u32>) {
        self.cut.insert(edge);
    }

    /// Changes a traced dependency.
    pub fn set_dependency(&mut self, edge: EdgeIndex<u32>, dependency: Dependency) {
        self.changed_edges.insert(edge, dependency);
    }

    /// Adds a lane.
    pub fn add_lane(&mut self, lane: Lane, name: impl Into<String>) -> LaneId {
        self.lanes.push((lane, name.into()));
        LaneId((self.graph().lanes.len() + self.lanes.len() - 1) as u32)
    }

    /// A lane, traced or added.
    pub fn lane(&self, id: LaneId) -> Option<&Lane> {
        let traced = self.graph().lanes.len();
        let at = id.0 as usize;
        self.graph().lanes.get(at).or_else(|| self.lanes.get(at.checked_sub(traced)?).map(|(lane, _)| lane))
    }

    /// Position of the rank of a lane, traced or added.
    pub fn rank_of(&self, lane: LaneId) -> usize {
        self.base.rank_of(lane, &self.lanes)
    }

    /// Whether tasks or dependencies were added, taken out or changed.
    pub fn is_restructured(&self) -> bool {
        !(self.removed.is_empty()
            && self.added.is_empty()
            && self.links.is_empty()
            && self.cut.is_empty()
            && self.changed_edges.is_empty())
    }
}

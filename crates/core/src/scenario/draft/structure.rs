//! Tasks, dependencies and lanes that edits add, change or take out.

use std::collections::BTreeMap;
use std::sync::Arc;

use petgraph::graph::EdgeIndex;
use rustc_hash::FxHashMap;

use crate::graph::{Dependency, Lane, LaneId, NodeId, OperatorId};
use crate::units::Bytes;

use super::cuts::Cuts;
use super::links::Links;
use super::{Added, AddedId, Draft, DraftEdge, Link, Node};

/// More tasks than this are never added.
const MOST_ADDED: usize = 4_000_000;
/// Memory that an added task takes, about: itself, its dependencies, its times, while its scenario is worked out, as it is shown
/// and while another is worked out on top of it.
const PER_ADDED: Bytes = Bytes(2 << 10);

/// Part of the memory that may be held that one scenario may take: the trace is held besides, and while one scenario is shown,
/// others are tried on top of it and compared with it.
const SHARE: u64 = 4;

/// Memory for a scenario that adds so many tasks, about.
pub fn memory_of_added(count: usize) -> Bytes {
    PER_ADDED * count as u64
}

/// How the tasks of a draft and their dependencies differ from those of the base.
#[derive(Clone, Debug, Default)]
pub(in crate::scenario) struct Structure {
    /// By traced task whether it was taken out; empty while none was.
    removed: Vec<bool>,
    pub(in crate::scenario) added: Vec<Added>,
    /// By added task whether it was taken out again.
    pub(in crate::scenario) dropped: Vec<bool>,
    /// Added dependencies.
    pub(in crate::scenario) links: Links,
    /// Traced dependencies that were taken out.
    pub(in crate::scenario) cut: Cuts,
    pub(in crate::scenario) changed_edges: FxHashMap<EdgeIndex<u32>, Dependency>,
    /// Added lanes with their names.
    pub(in crate::scenario) lanes: Vec<(Lane, String)>,
    /// Names of traced tasks that added ones share, as far as any does.
    pub(super) names: Vec<Option<Arc<str>>>,
    /// Traced tasks that run on another lane.
    pub(super) moved: FxHashMap<NodeId, LaneId>,
    /// By operator the traced kernels, and their calls, in whose place it launches other ones on matrix units.
    given_way: BTreeMap<OperatorId, Vec<NodeId>>,
    /// Room to gather dependencies in while they are changed; empty in between.
    pub(super) edges: Vec<DraftEdge>,
}

impl Draft<'_> {
    /// Takes a task out: it takes no time, and what waited for it waits for what it waited for.
    pub fn remove(&mut self, node: NodeId) {
        if self.structure.removed.is_empty() {
            self.structure.removed = vec![false; self.graph().tasks.node_count()];
        }
        self.structure.removed[node.index()] = true;
    }

    /// Undoes [`remove`](Self::remove).
    pub fn put_back(&mut self, node: NodeId) {
        if let Some(removed) = self.structure.removed.get_mut(node.index()) {
            *removed = false;
        }
    }

    /// Remembers that `tasks`, which are taken out, gave way to other kernels of `operator`.
    pub fn give_way(&mut self, operator: OperatorId, tasks: Vec<NodeId>) {
        self.structure.given_way.insert(operator, tasks);
    }

    /// The operators of which tasks [gave way](Self::give_way), with these.
    pub fn given_way(&self) -> impl Iterator<Item = (OperatorId, &[NodeId])> {
        self.structure.given_way.iter().map(|(&operator, tasks)| (operator, &**tasks))
    }

    /// Puts back what gave way to other kernels of `operator`.
    ///
    /// # Returns
    /// The tasks.
    pub fn take_back(&mut self, operator: OperatorId) -> Vec<NodeId> {
        let tasks = self.structure.given_way.remove(&operator).unwrap_or_default();
        for &node in &tasks {
            self.put_back(node);
        }
        tasks
    }

    /// Whether a task was taken out.
    pub fn is_removed(&self, node: NodeId) -> bool {
        self.structure.removed.get(node.index()).copied().unwrap_or(false)
    }

    /// The traced tasks that were taken out, in order.
    pub fn removed(&self) -> impl Iterator<Item = NodeId> + use<'_> {
        self.structure.removed.iter().enumerate().filter(|(_, removed)| **removed).map(|(at, _)| NodeId::new(at))
    }

    /// Adds a task; it has to be connected besides.
    pub fn add(&mut self, added: Added) -> AddedId {
        self.structure.added.push(added);
        self.structure.dropped.push(false);
        AddedId(self.structure.added.len() as u32 - 1)
    }

    /// Makes room for so many more tasks and dependencies.
    pub fn reserve(&mut self, tasks: usize, dependencies: usize) {
        self.structure.added.reserve(tasks);
        self.structure.dropped.reserve(tasks);
        self.structure.links.reserve(dependencies);
    }

    /// Why `more` tasks cannot be added, with the memory that all added ones would need; `None` where there is room.
    pub fn refuses(&self, more: usize, may_hold: Option<Bytes>) -> Option<String> {
        let all = self.structure.added.len().saturating_add(more);
        let needed = memory_of_added(all);
        let is_within = all <= MOST_ADDED && may_hold.is_none_or(|limit| needed.0 <= limit.0 / SHARE);
        let limit =
            may_hold.map_or("too many".to_owned(), |limit| format!("more than a quarter of --max-memory, {limit}"));
        (!is_within).then(|| format!("{all} added tasks would need about {needed}: {limit}"))
    }

    /// Tasks that edits added, in order.
    pub fn added(&self) -> &[Added] {
        &self.structure.added
    }

    /// An added task, to be changed.
    pub fn added_mut(&mut self, id: AddedId) -> Option<&mut Added> {
        self.structure.added.get_mut(id.0 as usize)
    }

    /// Adds a dependency.
    pub fn connect(&mut self, from: Node, to: Node, dependency: Dependency) {
        let traced = self.graph().tasks.node_count();
        self.structure.links.push(Link { from, to, dependency, is_cut: false }, traced);
    }

    /// Takes out a traced dependency.
    pub fn cut(&mut self, edge: EdgeIndex<u32>) {
        self.structure.cut.insert(edge);
    }

    /// Changes a traced dependency.
    pub fn set_dependency(&mut self, edge: EdgeIndex<u32>, dependency: Dependency) {
        self.structure.changed_edges.insert(edge, dependency);
    }

    /// Adds a lane.
    pub fn add_lane(&mut self, lane: Lane, name: impl Into<String>) -> LaneId {
        self.structure.lanes.push((lane, name.into()));
        LaneId((self.graph().lanes.len() + self.structure.lanes.len() - 1) as u32)
    }

    /// A lane, traced or added.
    pub fn lane(&self, id: LaneId) -> Option<&Lane> {
        let traced = self.graph().lanes.len();
        let at = id.0 as usize;
        self.graph().lanes.get(at).or_else(|| self.structure.lanes.get(at.checked_sub(traced)?).map(|(lane, _)| lane))
    }

    /// Position of the rank of a lane, traced or added.
    pub fn rank_of(&self, lane: LaneId) -> usize {
        self.base.rank_of(lane, &self.structure.lanes)
    }

    /// Whether tasks or dependencies were added, taken out or changed.
    pub fn is_restructured(&self) -> bool {
        !(self.structure.removed.is_empty()
            && self.structure.added.is_empty()
            && self.structure.links.is_empty()
            && self.structure.cut.is_empty()
            && self.structure.changed_edges.is_empty())
    }
}

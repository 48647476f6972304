//! Dependencies of a draft as they are now, traced and added alike, and the order of tasks on a lane.

use petgraph::Direction::{self, Incoming, Outgoing};
use petgraph::graph::EdgeIndex;
use petgraph::visit::EdgeRef;

use crate::graph::{CopyStep, Dependency, DependencyKind, TaskKind};
use crate::units::{DurNs, TimeNs};

use super::{Draft, Link, Node};

/// A dependency in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DraftEdge {
    /// The earlier task.
    pub from: Node,
    /// The later task.
    pub to: Node,
    /// How they depend.
    pub dependency: Dependency,
    key: Key,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Key {
    Traced(EdgeIndex<u32>),
    Link(u32),
}

impl DraftEdge {
    /// Why.
    pub fn kind(&self) -> DependencyKind {
        self.dependency.kind
    }
}

/// What keeps tasks like `kind` in order on their lane.
pub fn order_kind(kind: TaskKind) -> DependencyKind {
    if kind.is_device() { DependencyKind::Stream } else { DependencyKind::Program }
}

impl Draft<'_> {
    /// What `node` waits for.
    pub fn edges_into(&self, node: Node) -> impl Iterator<Item = DraftEdge> {
        self.edges_of(node, Incoming)
    }

    /// What waits for `node`.
    pub fn edges_from(&self, node: Node) -> impl Iterator<Item = DraftEdge> {
        self.edges_of(node, Outgoing)
    }

    fn edges_of(&self, node: Node, direction: Direction) -> impl Iterator<Item = DraftEdge> {
        let graph = self.graph();
        let traced = if let Node::Traced(traced) = node { Some(traced) } else { None };
        let edges = traced.into_iter().flat_map(move |traced| graph.tasks.edges_directed(traced, direction));
        let edges = edges.filter(|edge| !self.structure.cut.contains(edge.id())).map(|edge| DraftEdge {
            from: Node::Traced(edge.source()),
            to: Node::Traced(edge.target()),
            dependency: *self.structure.changed_edges.get(&edge.id()).unwrap_or(edge.weight()),
            key: Key::Traced(edge.id()),
        });
        let links = self.structure.links.of(node, direction, graph.tasks.node_count());
        edges.chain(links.map(|(place, link)| {
            let &Link { from, to, dependency, .. } = link;
            DraftEdge { from, to, dependency, key: Key::Link(place) }
        }))
    }

    /// Takes a dependency out.
    pub fn disconnect(&mut self, edge: &DraftEdge) {
        match edge.key {
            Key::Traced(edge) => self.cut(edge),
            Key::Link(place) => self.structure.links.cut(place),
        }
    }

    /// The call from which a piece of device work is launched, if that was recorded.
    pub fn call_of(&self, work: Node) -> Option<Node> {
        if let Node::Traced(node) = work
            && let Some(call) = self.graph().launch_of(node)
        {
            return Some(Node::Traced(call));
        }
        self.edges_into(work).find(|edge| edge.kind() == DependencyKind::Launch).map(|edge| edge.from)
    }

    /// As [`call_of`](Self::call_of), the call itself where work is launched from the end of its wait.
    pub fn own_call_of(&self, work: Node) -> Option<Node> {
        let call = self.call_of(work)?;
        if self.kind_of(call) != TaskKind::Joint {
            return Some(call);
        }
        self.edges_into(call).find(|edge| edge.kind() == DependencyKind::Program).map(|edge| edge.from)
    }

    /// The device work that a call launches, as it does so itself or from the end of its wait; what was taken out among it.
    pub fn launched_by(&self, call: Node) -> impl Iterator<Item = Node> {
        let is_joint = |edge: &DraftEdge| self.kind_of(edge.to) == TaskKind::Joint;
        let wait = self.edges_from(call).find(|edge| edge.kind() == DependencyKind::Program && is_joint(edge));
        let from = std::iter::once(call).chain(wait.map(|edge| edge.to));
        from.flat_map(|from| self.edges_from(from))
            .filter(|edge| edge.kind() == DependencyKind::Launch)
            .map(|edge| edge.to)
    }

    /// Where a task ends in the order of its lane: at the joint behind a call that waits, else with itself.
    pub fn end_of(&self, node: Node) -> Node {
        let order = order_kind(self.kind_of(node));
        let is_wait = |edge: &DraftEdge| matches!(edge.kind(), DependencyKind::HostWait | DependencyKind::LaunchQueue);
        let is_launch = |edge: &DraftEdge| edge.kind() == DependencyKind::Launch;
        let is_end = |&at: &Node| {
            self.kind_of(at) == TaskKind::Joint
                && (self.edges_into(at).any(|edge| is_wait(&edge)) || self.edges_from(at).any(|edge| is_launch(&edge)))
        };
        let next = self.edges_from(node).filter(|edge| edge.kind() == order).map(|edge| edge.to).find(is_end);
        if self.kind_of(node) == TaskKind::Runtime { next.unwrap_or(node) } else { node }
    }

    /// Puts the chain `first` to `last` behind `node`, and what that waits for, in the order of its lane; `lag` lies between them. What
    /// waits for `node` waits for the chain.
    pub fn put_after(&mut self, node: Node, chain: (Node, Node), lag: DurNs) {
        self.put_after_where(node, chain, lag, |_, _| true);
    }

    /// As [`put_after`](Self::put_after) of a chain that is launched in `step` at `launched`: what was waited for before stays what is
    /// waited for, and no step ends with work of a later one.
    pub fn put_after_launched(&mut self, node: Node, chain: (Node, Node), (step, launched): (CopyStep, TimeNs)) {
        let is_later = |draft: &Self, waits: Node| {
            let beside = draft.beside(waits);
            match draft.kind_of(waits) {
                TaskKind::StepEnd => draft.base().copies().step(beside) >= step,
                _ => draft.graph().tasks[beside].measured_start >= launched,
            }
        };
        self.put_after_where(node, chain, DurNs::ZERO, is_later);
    }

    fn put_after_where(
        &mut self,
        node: Node,
        (first, last): (Node, Node),
        lag: DurNs,
        waits: impl Fn(&Self, Node) -> bool,
    ) {
        let (node, order) = (self.end_of(node), order_kind(self.kind_of(node)));
        let is_wait = |kind| matches!(kind, DependencyKind::HostWait | DependencyKind::StepEnd);
        let mut found = std::mem::take(&mut self.structure.edges);
        let follows = |edge: &DraftEdge| edge.kind() == order || (is_wait(edge.kind()) && waits(self, edge.to));
        found.extend(self.edges_from(node).filter(follows));
        for edge in found.drain(..) {
            self.disconnect(&edge);
            self.connect(last, edge.to, edge.dependency);
        }
        self.structure.edges = found;
        self.connect(node, first, Dependency::on_end(order, lag));
    }

    /// Puts the chain `first` to `last` before `node` in the order of its lane; `lag` lies between them.
    pub fn put_before(&mut self, node: Node, (first, last): (Node, Node), lag: DurNs) {
        let order = order_kind(self.kind_of(node));
        let mut found = std::mem::take(&mut self.structure.edges);
        found.extend(self.edges_into(node).filter(|edge| edge.kind() == order));
        for edge in found.drain(..) {
            self.disconnect(&edge);
            self.connect(edge.from, first, edge.dependency);
        }
        self.structure.edges = found;
        self.connect(last, node, Dependency::on_end(order, lag));
    }

    /// Takes the chain `first` to `last` out of the order of its lane: what followed it follows what came before it.
    pub fn unchain(&mut self, first: Node, last: Node) {
        let order = order_kind(self.kind_of(first));
        let before: Vec<DraftEdge> = self.edges_into(first).filter(|edge| edge.kind() == order).collect();
        let after: Vec<DraftEdge> = self.edges_from(last).filter(|edge| edge.kind() == order).collect();
        for edge in before.iter().chain(&after) {
            self.disconnect(edge);
        }
        for next in &after {
            for previous in &before {
                self.connect(previous.from, next.to, Dependency { kind: order, ..previous.dependency });
            }
        }
    }

    /// The lag between neighbours on the stream of `node`, as it was before or behind it.
    pub fn stream_gap(&self, node: Node) -> DurNs {
        let mut found = self.edges_from(node).chain(self.edges_into(node));
        let gap = found.find(|edge| edge.kind() == DependencyKind::Stream).map(|edge| edge.dependency.lag);
        gap.unwrap_or_default().max(DurNs::ZERO)
    }
}

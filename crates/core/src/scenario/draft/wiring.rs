//! Dependencies of a draft as they are now, traced and added alike, and the order of tasks on a lane.

use petgraph::Direction::{self, Incoming, Outgoing};
use petgraph::graph::EdgeIndex;
use petgraph::visit::EdgeRef;

use crate::graph::{Dependency, DependencyKind, TaskKind};
use crate::units::DurNs;

use super::{Draft, Link, Node};

/// A dependency in force.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
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

impl Wire {
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
    pub fn wires_into(&self, node: Node) -> impl Iterator<Item = Wire> {
        self.wires(node, Incoming)
    }

    /// What waits for `node`.
    pub fn wires_from(&self, node: Node) -> impl Iterator<Item = Wire> {
        self.wires(node, Outgoing)
    }

    fn wires(&self, node: Node, direction: Direction) -> impl Iterator<Item = Wire> {
        let graph = self.graph();
        let traced = if let Node::Traced(traced) = node { Some(traced) } else { None };
        let edges = traced.into_iter().flat_map(move |traced| graph.tasks.edges_directed(traced, direction));
        let edges = edges.filter(|edge| !self.cut.contains(edge.id())).map(|edge| Wire {
            from: Node::Traced(edge.source()),
            to: Node::Traced(edge.target()),
            dependency: *self.changed_edges.get(&edge.id()).unwrap_or(edge.weight()),
            key: Key::Traced(edge.id()),
        });
        let links = self.links.of(node, direction, graph.tasks.node_count());
        edges.chain(links.map(|(place, link)| {
            let &Link { from, to, dependency, .. } = link;
            Wire { from, to, dependency, key: Key::Link(place) }
        }))
    }

    /// Takes a dependency out.
    pub fn disconnect(&mut self, wire: &Wire) {
        match wire.key {
            Key::Traced(edge) => self.cut(edge),
            Key::Link(place) => self.links.cut(place),
        }
    }

    /// The call from which a piece of device work is launched, if that was recorded.
    pub fn call_of(&self, work: Node) -> Option<Node> {
        if let Node::Traced(node) = work
            && let Some(call) = self.graph().launch_of(node)
        {
            return Some(Node::Traced(call));
        }
        self.wires_into(work).find(|wire| wire.kind() == DependencyKind::Launch).map(|wire| wire.from)
    }

    /// Puts the chain `first` to `last` behind `node` in the order of its lane; `lag` lies between them.
    pub fn put_after(&mut self, node: Node, (first, last): (Node, Node), lag: DurNs) {
        let order = order_kind(self.kind_of(node));
        let follows = |kind| kind == order || matches!(kind, DependencyKind::HostWait | DependencyKind::StepEnd);
        let mut wires = std::mem::take(&mut self.wires);
        wires.extend(self.wires_from(node).filter(|wire| follows(wire.kind())));
        for wire in wires.drain(..) {
            self.disconnect(&wire);
            self.connect(last, wire.to, wire.dependency);
        }
        self.wires = wires;
        self.connect(node, first, Dependency::on_end(order, lag));
    }

    /// Puts the chain `first` to `last` before `node` in the order of its lane; `lag` lies between them.
    pub fn put_before(&mut self, node: Node, (first, last): (Node, Node), lag: DurNs) {
        let order = order_kind(self.kind_of(node));
        let mut wires = std::mem::take(&mut self.wires);
        wires.extend(self.wires_into(node).filter(|wire| wire.kind() == order));
        for wire in wires.drain(..) {
            self.disconnect(&wire);
            self.connect(wire.from, first, wire.dependency);
        }
        self.wires = wires;
        self.connect(last, node, Dependency::on_end(order, lag));
    }

    /// Takes the chain `first` to `last` out of the order of its lane: what followed it follows what came before it.
    pub fn unchain(&mut self, first: Node, last: Node) {
        let order = order_kind(self.kind_of(first));
        let before: Vec<Wire> = self.wires_into(first).filter(|wire| wire.kind() == order).collect();
        let after: Vec<Wire> = self.wires_from(last).filter(|wire| wire.kind() == order).collect();
        for wire in before.iter().chain(&after) {
            self.disconnect(wire);
        }
        for next in &after {
            for previous in &before {
                self.connect(previous.from, next.to, Dependency { kind: order, ..previous.dependency });
            }
        }
    }

    /// The lag between neighbours on the stream of `node`, as it was before or behind it.
    pub fn stream_gap(&self, node: Node) -> DurNs {
        let mut wires = self.wires_from(node).chain(self.wires_into(node));
        let gap = wires.find(|wire| wire.kind() == DependencyKind::Stream).map(|wire| wire.dependency.lag);
        gap.unwrap_or_default().max(DurNs::ZERO)
    }
}

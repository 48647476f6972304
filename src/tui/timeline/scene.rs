//! All that a frame of the timeline is drawn from.

use crate::analysis::density::Density;
use crate::graph::{ExecutionGraph, NodeId, TaskKind};

use super::item::Item;
use super::picture::{Paints, Picture};
use super::rows::{self, Row, Side};
use super::state::Timeline;

/// Graph, pictures and the user's state, borrowed for a frame or an update.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The graph.
    pub graph: &'a ExecutionGraph,
    /// Measured times.
    pub measured: &'a Picture,
    /// Simulated times.
    pub simulated: &'a Picture,
    /// Colours by kind.
    pub paints: &'a Paints,
    /// Whether the simulated times are not those of the scenario wanted now.
    pub is_stale: bool,
}

impl<'a> Scene<'a> {
    /// The picture of a side; the measured one stands for both.
    pub fn picture(&self, side: Side) -> &'a Picture {
        if side == Side::Simulated { self.simulated } else { self.measured }
    }

    /// Measured and simulated.
    pub fn pictures(&self) -> [&'a Picture; 2] {
        [self.measured, self.simulated]
    }

    /// The rows for a timeline of `height`.
    pub fn rows(&self, state: &Timeline, height: usize) -> Vec<Row> {
        rows::rows(state, self.graph, self.pictures(), height)
    }

    /// What is drawn in `row`.
    pub fn density(&self, row: Row) -> Option<&'a Density> {
        self.picture(row.side).lanes.get(row.lane)?.rows.get(row.depth)
    }

    /// The name of `item`.
    pub fn name(&self, item: Item) -> &'a str {
        self.graph.names.get(item.name(self.graph))
    }

    /// The other end of a launch: the call of a kernel, the kernel of a call.
    pub fn partner(&self, item: Item) -> Option<Item> {
        let Item::Task(node) = item else { return None };
        let task = self.graph.tasks.node_weight(node)?;
        let partner = match task.kind {
            kind if kind.is_device() => self.call_of(self.graph.launch_of(node)?),
            TaskKind::Runtime => self.launched_by(node),
            _ => None,
        };
        partner.map(Item::Task)
    }

    /// The call at `node`, or before it when that is the joint after a call.
    fn call_of(&self, node: NodeId) -> Option<NodeId> {
        let is_call = |&node: &NodeId| self.graph.tasks[node].kind == TaskKind::Runtime;
        let mut before = self.graph.tasks.neighbors_directed(node, petgraph::Direction::Incoming);
        Some(node).filter(is_call).or_else(|| before.find(is_call))
    }

    fn launched_by(&self, call: NodeId) -> Option<NodeId> {
        use crate::graph::DependencyKind::Launch;
        use petgraph::visit::EdgeRef;
        let launches = self.graph.tasks.edges(call).filter(|edge| edge.weight().kind == Launch);
        launches.map(|edge| edge.target()).find(|&node| self.graph.tasks[node].kind.is_device())
    }
}

//! All that a frame of the timeline is drawn from.

use retime_core::analysis::density::Density;
use retime_core::graph::{ExecutionGraph, Lane, LaneId, LaneKind, NodeId, Rank, TaskKind};
use retime_core::scenario::Resolved;
use retime_core::units::{DurNs, TimeNs};

use crate::tui::theme::Paint;

use super::caption;
use super::density::{DensityIndex, Paints};
use super::item::Item;
use super::lane_label::rank_label;
use super::rows::{self, Fold, Row, Side};
use super::search::SearchIndex;
use super::state::Timeline;

/// Graph, densities and the user's state, borrowed for a frame or an update.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The graph.
    pub graph: &'a ExecutionGraph,
    /// Measured times.
    pub measured: &'a DensityIndex,
    /// Simulated times.
    pub simulated: &'a DensityIndex,
    /// Colours by kind.
    pub paints: &'a Paints,
    /// What can be searched for.
    pub index: &'a SearchIndex,
    /// What the scenario changed, added and took out.
    pub resolved: &'a Resolved,
    /// Ranks whose lateness costs the job much.
    pub late: &'a [Rank],
    /// What times before the edits are called: measured, or predicted where nothing was.
    pub origin: &'static str,
    /// Whether anything was edited: without that each lane is drawn once.
    pub is_edited: bool,
    /// Whether the simulated times are not those of the scenario wanted now.
    pub is_stale: bool,
}

impl<'a> Scene<'a> {
    /// The density of a side; the measured one stands for both.
    pub fn side(&self, side: Side) -> &'a DensityIndex {
        if side == Side::Simulated { self.simulated } else { self.measured }
    }

    /// Measured and simulated.
    pub fn densities(&self) -> [&'a DensityIndex; 2] {
        [self.measured, self.simulated]
    }

    /// An instant as drawn, from the left edge of the iteration on.
    pub fn since_begin(&self, at: TimeNs) -> DurNs {
        at.since(self.measured.period.start)
    }

    /// When something of the simulation is, from the left edge of the iteration on.
    pub fn simulated_at(&self, at: TimeNs) -> DurNs {
        self.since_begin(at + self.simulated.shift)
    }

    /// The rows for a timeline of `height`.
    pub fn rows(&self, state: &Timeline, height: usize) -> Vec<Row> {
        rows::rows(state, *self, height)
    }

    /// What is drawn in `row`.
    pub fn density(&self, row: Row) -> Option<&'a Density> {
        match (row.side, row.fold) {
            (Side::Blank, _) => None,
            (side, Some(Fold::Hosts(place))) => self.side(side).hosts.get(place),
            (side, _) => self.side(side).lanes.get(row.lane)?.rows.get(row.depth),
        }
    }

    /// The lanes drawn in `row`: one, or all streams of a rank that is folded.
    pub fn lanes_in(&self, row: Row) -> Vec<usize> {
        let Some(Fold::Rank(place)) = row.fold else { return vec![row.lane] };
        let rank = self.graph.ranks.get(place).map(|part| part.rank);
        let all = self.graph.lanes.len() + self.resolved.added_lanes.len();
        let of_rank = |lane: &usize| self.lane(*lane).map(|lane| lane.rank) == rank && self.is_stream(*lane);
        let lanes: Vec<usize> = (0..all).filter(of_rank).collect();
        if lanes.is_empty() { vec![row.lane] } else { lanes }
    }

    /// Whether a lane is a stream of a device.
    pub fn is_stream(&self, index: usize) -> bool {
        self.lane(index).is_some_and(|lane| matches!(lane.kind, LaneKind::Stream { .. }))
    }

    /// Whether a lane is the stream of its rank that works longest in the measured iteration.
    pub fn is_main_stream(&self, index: usize) -> bool {
        let Some(lane) = self.lane(index).filter(|_| self.is_stream(index)) else { return false };
        let busy = |index: usize| {
            let row = self.measured.lanes.get(index).and_then(|lane| lane.rows.first());
            row.map_or(DurNs::ZERO, |row| row.busy(self.measured.period.clone()))
        };
        let own = busy(index);
        let others = self.graph.lanes.iter().enumerate().filter(|(_, other)| other.rank == lane.rank);
        own > DurNs::ZERO && others.into_iter().all(|(other, _)| busy(other) <= own || !self.is_stream(other))
    }

    /// Whether a lane has work in the iteration, measured or simulated.
    pub fn is_busy(&self, index: usize) -> bool {
        let busy = |density: &DensityIndex| {
            let rows = density.lanes.get(index).map_or(&[][..], |lane| &lane.rows);
            rows.iter().any(|row| row.busy(density.period.clone()) > DurNs::ZERO)
        };
        self.densities().into_iter().any(busy)
    }

    /// How long an item takes, measured and simulated; `None` for one that only one of them has.
    pub fn lengths(&self, item: Item) -> Option<(DurNs, DurNs)> {
        let length = |density: &DensityIndex| density.times(item).map(|(start, end)| end.since(start));
        length(self.measured).zip(length(self.simulated))
    }

    /// Whether an item belongs to the step before the chosen one or to the one after it.
    pub fn is_neighbour(&self, item: Item) -> bool {
        self.paints.is_neighbour(item)
    }

    /// The name of `item`.
    pub fn name(&self, item: Item) -> &'a str {
        let graph = self.graph;
        match item {
            Item::Task(node) => graph.tasks.node_weight(node).map_or("", |task| graph.names.get(task.name)),
            Item::Operator(id) => {
                graph.operators.get(id.0 as usize).map_or("", |operator| graph.names.get(operator.name))
            }
            Item::Added(number) => self.resolved.added.get(number as usize).map_or("", |added| &added.name),
        }
    }

    /// Whether `item` is one of those that were searched for.
    pub fn is_hit(&self, state: &Timeline, item: Item) -> bool {
        if let Some(hits) = &state.hits {
            return hits.binary_search(&item).is_ok();
        }
        let Some(names) = &state.hit_names else { return false };
        let graph = self.graph;
        match item {
            Item::Task(node) => graph.tasks.node_weight(node).is_some_and(|task| names.contains(&task.name)),
            Item::Operator(id) => graph.operators.get(id.0 as usize).is_some_and(|it| names.contains(&it.name)),
            Item::Added(_) => self.name(item).to_lowercase().contains(&state.search),
        }
    }

    /// What is written on the bar of `item`.
    pub fn caption(&self, item: Item) -> String {
        caption::caption(*self, item)
    }

    /// Where `item` runs; `None` for one of another graph.
    pub fn lane_of(&self, item: Item) -> Option<LaneId> {
        match item {
            Item::Task(node) => self.graph.tasks.node_weight(node).map(|task| task.lane),
            Item::Operator(id) => self.graph.operators.get(id.0 as usize).map(|operator| operator.lane),
            Item::Added(number) => self.resolved.added.get(number as usize).map(|added| added.lane),
        }
    }

    /// A lane of the graph, or one that the scenario added.
    pub fn lane(&self, index: usize) -> Option<Lane> {
        let added = || self.resolved.added_lanes.get(index - self.graph.lanes.len()).map(|(lane, _)| *lane);
        self.graph.lanes.get(index).copied().or_else(added)
    }

    /// What a lane is called on the screen.
    pub fn lane_label(&self, index: usize) -> String {
        match (self.lane(index), index.checked_sub(self.graph.lanes.len())) {
            (Some(_), None) => self.paints.labels.get(index).cloned().unwrap_or_default(),
            (Some(lane), Some(added)) => {
                let name = self.resolved.added_lanes.get(added).map_or("", |(_, name)| name);
                let label = rank_label(self.graph, lane.rank);
                if self.graph.rank_count() > 1 { format!("{label} {name}") } else { name.to_owned() }
            }
            (None, _) => String::new(),
        }
    }

    /// Whether a lane is drawn at all.
    pub fn is_drawn(&self, index: usize) -> bool {
        self.lane(index).is_some_and(|lane| lane.kind != LaneKind::Virtual)
    }

    /// How a bar of `item` is painted.
    pub fn paint(&self, item: Item) -> Paint {
        match item {
            Item::Added(number) => self.resolved.added.get(number as usize).map_or(Paint::Other, |added| {
                added.work.as_ref().map_or(Paint::Other, |work| Paint::from(work.family))
            }),
            _ => self.paints.of(item),
        }
    }

    /// The other end of a launch: the call of a kernel, the kernel of a call.
    pub fn partner(&self, item: Item) -> Option<Item> {
        let Item::Task(node) = item else { return None };
        let task = self.graph.tasks.node_weight(node)?;
        let partner = match task.kind {
            kind if kind.is_device() => call_of(self.graph, self.graph.launch_of(node)?),
            TaskKind::Runtime => self.launched_by(node),
            _ => None,
        };
        partner.map(Item::Task)
    }

    fn launched_by(&self, call: NodeId) -> Option<NodeId> {
        use petgraph::visit::EdgeRef;
        use retime_core::graph::DependencyKind::Launch;
        let launches = self.graph.tasks.edges(call).filter(|edge| edge.weight().kind == Launch);
        launches.map(|edge| edge.target()).find(|&node| self.graph.tasks[node].kind.is_device())
    }
}

/// The call at `node`, or before it when that is the joint after a call.
pub fn call_of(graph: &ExecutionGraph, node: NodeId) -> Option<NodeId> {
    let is_call = |&node: &NodeId| graph.tasks[node].kind == TaskKind::Runtime;
    let mut before = graph.tasks.neighbors_directed(node, petgraph::Direction::Incoming);
    Some(node).filter(is_call).or_else(|| before.find(is_call))
}

//! Which step of the program each task belongs to, and where the chosen step does what the step before did: what it takes to
//! close the chosen step into a loop.

use petgraph::Direction::{Incoming, Outgoing};
use petgraph::visit::EdgeRef;

use crate::units::{DurNs, TimeNs};

use super::{DependencyKind, ExecutionGraph, LaneId, LaneKind, NodeId, RankPart, TaskKind};

/// The step of a task, as the host issued it; in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyStep {
    /// None: the start of the recording, which keeps measured times.
    Origin,
    /// Before the chosen one.
    Before,
    /// The chosen one.
    Chosen,
    /// After it: there because it shares the device with the chosen step's work.
    After,
}

/// The tasks of an execution graph by step.
#[derive(Clone, Debug)]
pub struct Copies {
    steps: Vec<CopyStep>,
    /// By task of the step before: the chosen step's task at the same place from the end of the lane.
    counterparts: Vec<Option<NodeId>>,
    /// By rank: the thread that drives the steps.
    mains: Vec<Option<LaneId>>,
}

/// Tasks this near to the same place are looked at for one of the same name.
const NEAR: usize = 16;

impl Copies {
    /// Sorts the tasks of `graph` by step.
    ///
    /// # Complexity
    /// O(tasks + dependencies).
    pub fn of(graph: &ExecutionGraph) -> Self {
        let steps = steps(graph);
        let mut lanes: Vec<[Vec<NodeId>; 2]> = vec![[Vec::new(), Vec::new()]; graph.lanes.len()];
        for node in graph.tasks.node_indices() {
            let lane = graph.tasks[node].lane.0 as usize;
            match steps[node.index()] {
                _ if graph.lanes[lane].kind == LaneKind::Virtual => {}
                CopyStep::Before => lanes[lane][0].push(node),
                CopyStep::Chosen => lanes[lane][1].push(node),
                CopyStep::After | CopyStep::Origin => {}
            }
        }
        let mut counterparts = vec![None; steps.len()];
        for [before, chosen] in &lanes {
            for (place, &node) in before.iter().rev().enumerate() {
                counterparts[node.index()] = alike(graph, chosen, place, node);
            }
        }
        let mains = graph.ranks.iter().map(|part| main(graph, part, &lanes)).collect();
        Self { steps, counterparts, mains }
    }

    /// The step of a task.
    pub fn step(&self, node: NodeId) -> CopyStep {
        self.steps[node.index()]
    }

    /// What the chosen step has where the step before has `node`, counted from the end of its lane.
    pub fn counterpart(&self, node: NodeId) -> Option<NodeId> {
        self.counterparts[node.index()]
    }

    /// The thread that drives the steps of the rank at this position.
    pub fn main(&self, rank: usize) -> Option<LaneId> {
        self.mains.get(rank).copied().flatten()
    }
}

fn steps(graph: &ExecutionGraph) -> Vec<CopyStep> {
    let parts: Vec<Option<&RankPart>> = graph.lanes.iter().map(|lane| graph.part_of(lane.rank)).collect();
    let mut steps = vec![CopyStep::Origin; graph.tasks.node_count()];
    let mut next = vec![TimeNs(i64::MAX); graph.lanes.len()];
    for node in graph.tasks.node_indices().rev() {
        let launched = graph.launched(node, &mut next);
        let Some(part) = parts[graph.tasks[node].lane.0 as usize] else { continue };
        // Arrivals belong to the collective's members, which come later.
        let collective = gathers_for(graph, node).map(|target| steps[target.index()]);
        steps[node.index()] = if is_origin(graph, node) || graph.is_backlog(node) {
            CopyStep::Origin
        } else if node == part.end {
            CopyStep::Chosen
        } else if Some(node) == part.begin {
            CopyStep::Before
        } else if let Some(step) = collective {
            step
        } else if launched < part.iteration_start {
            CopyStep::Before
        } else if launched < part.iteration_end {
            CopyStep::Chosen
        } else {
            CopyStep::After
        };
    }
    steps
}

/// A member of the collective, or the joint before it, for which `node` is an arrival or where all have arrived.
fn gathers_for(graph: &ExecutionGraph, node: NodeId) -> Option<NodeId> {
    let is_joint = graph.tasks[node].kind == TaskKind::Joint;
    let mut edges = graph.tasks.edges_directed(node, Outgoing).filter(|_| is_joint);
    edges.find(|edge| edge.weight().kind == DependencyKind::Collective).map(|edge| edge.target())
}

fn is_origin(graph: &ExecutionGraph, node: NodeId) -> bool {
    let task = &graph.tasks[node];
    let is_first = || graph.tasks.edges_directed(node, Incoming).next().is_none();
    task.kind == TaskKind::Joint && graph.lanes[task.lane.0 as usize].kind == LaneKind::Virtual && is_first()
}

/// The task at `place` from the end of `tasks`, or the nearest to it that is of the same kind and name.
fn alike(graph: &ExecutionGraph, tasks: &[NodeId], place: usize, of: NodeId) -> Option<NodeId> {
    let at = |place: usize| Some(tasks[tasks.len().checked_sub(place + 1)?]);
    let task = &graph.tasks[of];
    let is_alike = |node: &NodeId| {
        let other = &graph.tasks[*node];
        std::mem::discriminant(&other.kind) == std::mem::discriminant(&task.kind) && other.name == task.name
    };
    let near = (0..=NEAR).flat_map(|by| [place.checked_sub(by), Some(place + by)]).flatten();
    near.filter_map(at).find(is_alike).or_else(|| at(place))
}

/// The thread whose work takes longest of those with which the step ends.
fn main(graph: &ExecutionGraph, part: &RankPart, lanes: &[[Vec<NodeId>; 2]]) -> Option<LaneId> {
    let ends = graph.tasks.edges_directed(part.end, Incoming).map(|edge| graph.tasks[edge.source()].lane);
    let threads = ends.filter(|lane| matches!(graph.lanes[lane.0 as usize].kind, LaneKind::Thread { .. }));
    let time =
        |lane: &LaneId| -> DurNs { lanes[lane.0 as usize][1].iter().map(|&node| graph.tasks[node].duration).sum() };
    threads.max_by_key(|lane| (time(lane), std::cmp::Reverse(*lane)))
}

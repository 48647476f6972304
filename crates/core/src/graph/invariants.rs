//! What holds for every execution graph, built or edited; checked in tests and by whoever doubts a graph.
//!
//! Must not know how a graph was made.

use petgraph::visit::EdgeRef;
use thiserror::Error;

use super::{DependencyKind, ExecutionGraph, LaneKind, NodeId, TaskKind};
use crate::units::TimeNs;

/// A broken invariant.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Violation {
    /// A dependency does not go from a smaller to a larger node.
    #[error("dependency {from:?} → {to:?} ({kind:?}) is against the topological order")]
    Backwards {
        /// Its earlier end.
        from: NodeId,
        /// Its later end.
        to: NodeId,
        /// Its kind.
        kind: DependencyKind,
    },
    /// A negative lag on a kind of dependency that cannot overlap.
    #[error("dependency {from:?} → {to:?} ({kind:?}) has a negative lag")]
    NegativeLag {
        /// Its earlier end.
        from: NodeId,
        /// Its later end.
        to: NodeId,
        /// Its kind.
        kind: DependencyKind,
    },
    /// The share of the predecessor that need not have passed is not within 0..=1.
    #[error("dependency {from:?} → {to:?}: share of the predecessor out of range")]
    Share {
        /// Its earlier end.
        from: NodeId,
        /// Its later end.
        to: NodeId,
    },
    /// A task takes a negative time.
    #[error("task {0:?} has a negative duration")]
    NegativeDuration(NodeId),
    /// A task names a lane, an operator or a collective that is not there.
    #[error("task {0:?} refers to something that is not there")]
    DanglingReference(NodeId),
    /// A task stands before one of its lane that was measured earlier.
    #[error("task {0:?} is out of order on its lane")]
    LaneOrder(NodeId),
    /// An operator's parent or subtree does not contain it.
    #[error("operator {0} is not inside its parent")]
    Nesting(u32),
    /// A rank's marker is no step end.
    #[error("node {0:?} should mark the end of a step")]
    Marker(NodeId),
}

/// Checks all invariants.
///
/// # Errors
/// The first violation found.
///
/// # Complexity
/// O(tasks + dependencies + operators).
pub fn check(graph: &ExecutionGraph) -> Result<(), Violation> {
    for edge in graph.tasks.edge_references() {
        let (from, to, dependency) = (edge.source(), edge.target(), edge.weight());
        let kind = dependency.kind;
        if from >= to {
            return Err(Violation::Backwards { from, to, kind });
        }
        if dependency.lag.0 < 0 && !may_overlap(kind) {
            return Err(Violation::NegativeLag { from, to, kind });
        }
        if !(0.0..=1.0).contains(&dependency.of_predecessor) {
            return Err(Violation::Share { from, to });
        }
    }
    tasks(graph)?;
    operators(graph)?;
    let markers = graph.ranks.iter().flat_map(|part| part.begin.into_iter().chain([part.end]));
    let is_marker = |&node: &NodeId| graph.tasks.node_weight(node).is_some_and(|task| task.kind == TaskKind::StepEnd);
    markers.into_iter().find(|node| !is_marker(node)).map_or(Ok(()), |node| Err(Violation::Marker(node)))
}

/// Kinds whose lag may be negative: clocks differ between host and device, kernels overlap, and what is let go by
/// contention may have to be so before a transfer begins.
fn may_overlap(kind: DependencyKind) -> bool {
    use DependencyKind::{Contention, EventWait, HostWait, LateStart, Launch, LaunchQueue, Stream};
    matches!(kind, Launch | Stream | EventWait | HostWait | LateStart | LaunchQueue | Contention)
}

fn tasks(graph: &ExecutionGraph) -> Result<(), Violation> {
    let mut latest = vec![TimeNs(i64::MIN); graph.lanes.len()];
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        if task.duration.0 < 0 {
            return Err(Violation::NegativeDuration(node));
        }
        let known_operator = task.operator.is_none_or(|id| (id.0 as usize) < graph.operators.len());
        let known_collective = match task.kind {
            TaskKind::Collective(id) => (id.0 as usize) < graph.collectives.len(),
            _ => true,
        };
        let Some(lane) = graph.lanes.get(task.lane.0 as usize).filter(|_| known_operator && known_collective) else {
            return Err(Violation::DanglingReference(node));
        };
        let latest = &mut latest[task.lane.0 as usize];
        if lane.kind != LaneKind::Virtual && task.measured_start < *latest {
            return Err(Violation::LaneOrder(node));
        }
        *latest = task.measured_start;
    }
    Ok(())
}

fn operators(graph: &ExecutionGraph) -> Result<(), Violation> {
    for (index, operator) in graph.operators.iter().enumerate() {
        let index = index as u32;
        let own = operator.subtree_end.0 > index && operator.subtree_end.0 as usize <= graph.operators.len();
        let inside = operator.parent.is_none_or(|parent| {
            parent.0 < index && graph.operators[parent.0 as usize].subtree_end >= operator.subtree_end
        });
        if !own || !inside {
            return Err(Violation::Nesting(index));
        }
    }
    Ok(())
}

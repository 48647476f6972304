//! An edited scenario as a graph of its own, so that every analysis of a traced graph serves it too.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::graph::timed::NO_TASK;
use crate::graph::{
    Collective, ExecutionGraph, Lane, NodeId, Operator, OperatorId, Task, TaskId, TaskKind, TimedGraph,
};
use crate::scenario::{AddedTask, KernelWork, Resolved};
use crate::units::{Bytes, DurNs, TimeNs};

/// A graph and its timed graph in which added tasks are nodes like the traced ones.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The traced tasks under their own node indices, then the added ones, in order; lanes likewise. Added tasks have no
    /// dependencies here and no measured length, and topological order does not hold for them.
    pub graph: Arc<ExecutionGraph>,
    /// What was simulated, with the way from added tasks to their nodes and back.
    pub timed: Arc<TimedGraph>,
    /// What its tasks have to do after all edits.
    pub works: Arc<KernelWork>,
}

impl Edited {
    /// The graph of `resolved`. A scenario that added and moved nothing shares what it has.
    ///
    /// # Complexity
    /// O(1) without added tasks, else O(tasks + dependencies).
    pub fn of(resolved: &Resolved) -> Self {
        let works = Arc::clone(&resolved.works);
        if resolved.added.is_empty() && resolved.moved.is_empty() && resolved.replaced.is_empty() {
            return Self { graph: Arc::clone(&resolved.graph), timed: Arc::clone(&resolved.timed), works };
        }
        let (mut graph, mut timed) = (ExecutionGraph::clone(&resolved.graph), TimedGraph::clone(&resolved.timed));
        for (lane, name) in &resolved.added_lanes {
            let name = graph.names.intern(name);
            graph.lanes.push(Lane { name, ..*lane });
        }
        for &(node, prediction) in &resolved.changes {
            graph.tasks[node].duration = prediction.duration;
        }
        for &(node, lane) in &resolved.moved {
            graph.tasks[node].lane = lane;
        }
        for &node in &resolved.removed {
            graph.tasks[node].duration = DurNs::ZERO;
        }
        for (id, name) in &resolved.replaced {
            graph.operators[id.0 as usize].name = graph.names.intern(name);
        }
        let Callers { operators, of_added } = Callers::of(resolved);
        for (operator, name) in operators {
            let name = graph.names.intern(name);
            graph.operators.push(Operator { name, ..operator });
        }
        for (added, operator) in resolved.added.iter().zip(of_added) {
            let task = Task { operator, ..as_task(&mut graph, added) };
            let node = graph.tasks.add_node(task);
            graph.stands_beside.push(added.beside);
            timed.node_of[added.task.0 as usize] = node.index() as u32;
            timed.task_of.resize(node.index() + 1, NO_TASK);
            timed.task_of[node.index()] = added.task.0;
        }
        let node_of = |task: TaskId| timed.node_of.get(task.0 as usize).filter(|&&node| node != NO_TASK);
        let repeats =
            resolved.added.iter().map(|added| added.repeats.and_then(node_of).map(|&node| NodeId::from(node)));
        graph.repeats = repeats.collect();
        repeat_collectives(&mut graph);
        Self { graph: Arc::new(graph), timed: Arc::new(timed), works }
    }
}

/// Whether `resolved` runs a collective more often than it was traced.
pub(crate) fn repeats_collectives(resolved: &Resolved) -> bool {
    let repeats = |added: &AddedTask| added.repeats.is_some() && matches!(added.kind, TaskKind::Collective(_));
    resolved.added.iter().any(repeats)
}

/// Adds the collectives that are run once more, each of the tasks that repeat those of a traced one, its joints among them.
fn repeat_collectives(graph: &mut ExecutionGraph) {
    let first = graph.tasks.node_count() - graph.repeats.len();
    let mut copies: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
    for (place, of) in graph.repeats.iter().enumerate().filter_map(|(place, of)| Some((place, (*of)?))) {
        copies.entry(of).or_default().push(NodeId::new(first + place));
    }
    let copy = |nodes: &[NodeId], number: usize| -> Option<Vec<NodeId>> {
        nodes.iter().map(|node| copies.get(node)?.get(number).copied()).collect()
    };
    let mut repeated = Vec::new();
    for collective in &graph.collectives {
        let of_members = (0..).map_while(|number| Some((number, copy(&collective.members, number)?)));
        repeated.extend(of_members.take_while(|_| !collective.members.is_empty()).map(|(number, members)| {
            Collective {
                members,
                arrivals: copy(&collective.arrivals, number).unwrap_or_default(),
                ..collective.clone()
            }
        }));
    }
    graph.collectives.extend(repeated);
}

/// Operators that edits added.
#[derive(Clone, Debug)]
pub struct Callers<'r> {
    /// Each with its name, numbered on from the traced ones: called where the operator that it stands beside is, with unknown arguments.
    pub operators: Vec<(Operator, &'r str)>,
    /// By added task the operator that it is of, traced or added.
    pub of_added: Vec<Option<OperatorId>>,
}

impl<'r> Callers<'r> {
    /// Those of `resolved`.
    pub fn of(resolved: &'r Resolved) -> Self {
        let traced = &resolved.graph.operators;
        let mut known: BTreeMap<(OperatorId, &str), OperatorId> = BTreeMap::new();
        let mut operators = Vec::new();
        let of_added = resolved.added.iter().map(|added| {
            let (beside, Some(name)) = (added.operator?, added.caller.as_deref()) else { return added.operator };
            Some(*known.entry((beside, name)).or_insert_with(|| {
                let id = OperatorId((traced.len() + operators.len()) as u32);
                let (subtree_end, like) = (OperatorId(id.0 + 1), traced[beside.0 as usize]);
                operators.push((Operator { subtree_end, operands: None, forward: None, ..like }, name));
                id
            }))
        });
        let of_added = of_added.collect();
        Self { operators, of_added }
    }
}

/// The task as if traced, where the work it stands for began.
fn as_task(graph: &mut ExecutionGraph, added: &AddedTask) -> Task {
    let starts = added.members.iter().map(|&node: &NodeId| graph.tasks[node].measured_start);
    let operator = added.operator.and_then(|id| graph.operators.get(id.0 as usize));
    let began = starts.min().or_else(|| operator.map(|operator| operator.start));
    Task {
        kind: added.kind,
        lane: added.lane,
        name: graph.names.intern(&added.name),
        operator: added.operator,
        event: None,
        measured_start: began.unwrap_or(TimeNs(0)),
        measured: DurNs::ZERO,
        duration: added.prediction.duration,
        bytes: added.work.as_ref().map_or(Bytes(0), |work| work.written),
    }
}

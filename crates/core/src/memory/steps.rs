//! The nodes of an execution trace at the times of the chosen iteration's operators: joined by the names of each thread in
//! order, since the two usually recorded different steps.

use rustc_hash::FxHashMap;

use crate::align::common_subsequence;
use crate::graph::{LaneId, OperatorId, Phase};
use crate::intern::NameId;
use crate::trace::ExecutionTrace;
use crate::trace::execution_trace::EtNode;
use crate::units::TimeNs;

use super::callers::operators_of;
use super::sources::Rank;
use super::tensors::counts;

/// A node with where it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) node: EtNode,
    /// Its place in order.
    pub(super) order: usize,
    /// The operator it is in the chosen iteration.
    pub(super) operator: Option<OperatorId>,
    /// That one's start, else that of the one before it on its thread.
    pub(super) start: TimeNs,
    /// The phase of the one before it on its thread.
    pub(super) phase: Phase,
}

/// The nodes in the order in which they began; `None` where hardly any is an operator of the iteration.
pub(super) fn of(rank: Rank<'_>, trace: &ExecutionTrace) -> Option<Vec<Step>> {
    let mut nodes: Vec<&EtNode> = trace.nodes.iter().filter(|node| counts(node)).collect();
    nodes.sort_by_key(|node| node.rf_id);
    let joined = joined(rank, trace, &nodes);
    if 2 * joined.len() < nodes.len() {
        return None;
    }
    let mut last: FxHashMap<u32, (TimeNs, Phase)> = FxHashMap::default();
    let step = |(order, node): (usize, &&EtNode)| {
        let operator = joined.get(&order).copied();
        let last = last.entry(node.tid).or_insert((TimeNs(0), Phase::Other));
        if let Some(operator) = operator.map(|id| &rank.graph.operators[id.0 as usize]) {
            *last = (operator.start, operator.phase);
        }
        Step { node: **node, order, operator, start: last.0, phase: last.1 }
    };
    Some(nodes.iter().enumerate().map(step).collect())
}

/// By place in `nodes` the operator of each, thread by thread, the longest first.
fn joined(rank: Rank<'_>, trace: &ExecutionTrace, nodes: &[&EtNode]) -> FxHashMap<usize, OperatorId> {
    let graph = rank.graph;
    let mut names: FxHashMap<NameId, Option<NameId>> = FxHashMap::default();
    let mut threads: FxHashMap<u32, Vec<(usize, Option<NameId>)>> = FxHashMap::default();
    for (place, node) in nodes.iter().enumerate() {
        let name = *names.entry(node.name).or_insert_with(|| graph.names.find(trace.names.get(node.name)));
        if name.is_some() {
            threads.entry(node.tid).or_default().push((place, name));
        }
    }
    let mut threads: Vec<Vec<(usize, Option<NameId>)>> = threads.into_values().collect();
    threads.sort_by_key(|of_thread| (std::cmp::Reverse(of_thread.len()), of_thread[0].0));
    let mut lanes = lanes(rank);
    let mut joined = FxHashMap::default();
    for of_thread in threads {
        let wanted: Vec<Option<NameId>> = of_thread.iter().map(|&(_, name)| name).collect();
        let alike = |(_, ids): &(LaneId, Vec<OperatorId>)| common(rank, &wanted, ids);
        let Some(best) = (0..lanes.len()).max_by_key(|&at| (alike(&lanes[at]), std::cmp::Reverse(at))) else { break };
        let (_, ids) = lanes.remove(best);
        let recorded: Vec<Option<NameId>> = ids.iter().map(|id| Some(graph.operators[id.0 as usize].name)).collect();
        joined.extend(common_subsequence(&wanted, &recorded).map(|(n, o)| (of_thread[n].0, ids[o])));
    }
    joined
}

/// The rank's operators of the chosen iteration by thread.
fn lanes(rank: Rank<'_>) -> Vec<(LaneId, Vec<OperatorId>)> {
    let Rank { graph, part, .. } = rank;
    let mut lanes: Vec<(LaneId, Vec<OperatorId>)> = Vec::new();
    for id in operators_of(graph, part) {
        let operator = &graph.operators[id.0 as usize];
        if operator.start >= part.iteration_start && operator.start < part.iteration_end {
            match lanes.last_mut() {
                Some((lane, ids)) if *lane == operator.lane => ids.push(id),
                _ => lanes.push((operator.lane, vec![id])),
            }
        }
    }
    lanes
}

/// How many names two lists have in common, each as often as it occurs in both.
fn common(rank: Rank<'_>, names: &[Option<NameId>], ids: &[OperatorId]) -> usize {
    let mut counts: FxHashMap<NameId, usize> = FxHashMap::default();
    for id in ids {
        *counts.entry(rank.graph.operators[id.0 as usize].name).or_default() += 1;
    }
    let mut take = |name: NameId| match counts.get_mut(&name) {
        Some(left @ 1..) => {
            *left -= 1;
            true
        }
        _ => false,
    };
    names.iter().flatten().filter(|&&name| take(name)).count()
}

//! Which runtime calls take what calls of their name usually take on their rank: the first of a kernel loads its code, others wait for a
//! full queue, and neither is what another call would take.

use rustc_hash::FxHashMap;

use crate::graph::{ExecutionGraph, NodeId, Rank, TaskKind};
use crate::intern::NameId;
use crate::units::DurNs;

/// Of calls of one name on one rank.
#[derive(Clone, Copy, Debug)]
struct Typical {
    /// What nine in ten of them do not exceed.
    most: DurNs,
    /// One that takes the median time.
    median: NodeId,
}

/// What calls usually take.
#[derive(Debug)]
pub(super) struct TypicalCalls(FxHashMap<(Rank, NameId), Typical>);

impl TypicalCalls {
    /// Of all runtime calls of the graph.
    ///
    /// # Complexity
    /// O(calls · log).
    pub(super) fn of(graph: &ExecutionGraph) -> Self {
        let mut calls: FxHashMap<(Rank, NameId), Vec<(DurNs, NodeId)>> = FxHashMap::default();
        for node in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Runtime) {
            calls.entry(key(graph, node)).or_default().push((graph.tasks[node].duration, node));
        }
        let typical = |mut of_name: Vec<(DurNs, NodeId)>| {
            of_name.sort_unstable();
            let last = of_name.len() - 1;
            Typical { most: of_name[last * 9 / 10].0, median: of_name[last / 2].1 }
        };
        Self(calls.into_iter().map(|(key, of_name)| (key, typical(of_name))).collect())
    }

    /// The call itself, or one of its name that takes the median time where it is among the slowest tenth.
    pub(super) fn like(&self, graph: &ExecutionGraph, call: NodeId) -> NodeId {
        let typical = self.0.get(&key(graph, call)).filter(|typical| graph.tasks[call].duration > typical.most);
        typical.map_or(call, |typical| typical.median)
    }
}

fn key(graph: &ExecutionGraph, call: NodeId) -> (Rank, NameId) {
    let task = &graph.tasks[call];
    (graph.lanes[task.lane.0 as usize].rank, task.name)
}

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
    /// What half of them do not exceed.
    median: DurNs,
}

/// What calls typically take.
#[derive(Debug)]
pub(super) struct TypicalCalls(FxHashMap<(Rank, NameId), Typical>);

impl TypicalCalls {
    /// Of all runtime calls of the graph.
    ///
    /// # Complexity
    /// O(calls · log).
    pub(super) fn of(graph: &ExecutionGraph) -> Self {
        let mut calls: FxHashMap<(Rank, NameId), Vec<DurNs>> = FxHashMap::default();
        for node in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Runtime) {
            calls.entry(key(graph, node)).or_default().push(graph.tasks[node].duration);
        }
        let typical = |mut of_name: Vec<DurNs>| {
            of_name.sort_unstable();
            let last = of_name.len() - 1;
            Typical { most: of_name[last * 9 / 10], median: of_name[last / 2] }
        };
        Self(calls.into_iter().map(|(key, of_name)| (key, typical(of_name))).collect())
    }

    /// What another call like `call` takes over what that one took: 1, or where it is among the slowest tenth of its name what takes it
    /// to the median.
    pub(super) fn factor(&self, graph: &ExecutionGraph, call: NodeId) -> f64 {
        let own = graph.tasks[call].duration;
        let typical = self.0.get(&key(graph, call)).filter(|typical| own > typical.most);
        typical.map_or(1.0, |typical| typical.median.0 as f64 / own.0 as f64)
    }
}

fn key(graph: &ExecutionGraph, call: NodeId) -> (Rank, NameId) {
    let task = &graph.tasks[call];
    (graph.lanes[task.lane.0 as usize].rank, task.name)
}

//! Which runtime calls take what calls of their name usually take on their rank: the first of a kernel loads its code, others wait for a
//! full queue, and neither is what another call would take.

use petgraph::Direction::Outgoing;
use rustc_hash::FxHashMap;

use crate::graph::{DependencyKind, ExecutionGraph, NodeId, Rank, TaskKind};
use crate::intern::NameId;
use crate::units::DurNs;

/// From so many calls of a name on, how they spread is known.
const SEVERAL: usize = 20;
/// How launches of one name spread on one rank, relative: the median over 50 of traces of 15 devices. Assumed of fewer calls.
const SPREAD_OF_FEW: f64 = 0.3;
/// What one in ten of those 50 stays below: calls that were recorded nearer to one another tell of no other call so exactly.
const LEAST_SPREAD: f64 = 0.1;

/// A launch that took so many times the median of its name loaded code or allocated; no spread of launches reaches as far.
const ONE_OFF: f64 = 10.0;

/// Of calls of one name on one rank.
#[derive(Clone, Copy, Debug)]
struct Typical {
    /// What nine in ten of them do not exceed.
    most: DurNs,
    /// What half of them do not exceed.
    median: DurNs,
    /// How far two in three of them are from that at most, relative.
    spread: f64,
}

impl Typical {
    fn of(mut calls: Vec<DurNs>) -> Self {
        calls.sort_unstable();
        let at = |share: f64| calls[((calls.len() - 1) as f64 * share) as usize];
        let (most, median) = (at(0.9), at(0.5));
        let recorded = (at(5.0 / 6.0) - at(1.0 / 6.0)).0 as f64 / 2.0 / median.0.max(1) as f64;
        let spread = if calls.len() < SEVERAL { SPREAD_OF_FEW } else { recorded.clamp(LEAST_SPREAD, 1.0) };
        Self { most, median, spread }
    }
}

/// What another call like one that was recorded takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    /// Over what that one takes, where that is more than `above`; otherwise as much.
    pub(super) factor: f64,
    /// What few calls of the name exceed.
    pub(super) above: DurNs,
    /// How far off that may be, relative.
    pub(super) error: f64,
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
        Self(calls.into_iter().map(|(key, of_name)| (key, Typical::of(of_name))).collect())
    }

    /// What another call like `call` takes: as much, or where it is among the slowest tenth of its name the median.
    pub(super) fn again(&self, graph: &ExecutionGraph, call: NodeId) -> Again {
        let own = graph.tasks[call].duration;
        let Some(&Typical { most, median, spread }) = self.0.get(&key(graph, call)) else {
            return Again { factor: 1.0, above: DurNs::ZERO, error: SPREAD_OF_FEW };
        };
        let factor = if own > most { median.0 as f64 / own.0 as f64 } else { 1.0 };
        Again { factor, above: most, error: spread }
    }

    /// The same of a launch that took far longer than any other launch would, such as the first of a kernel, which loads its code.
    pub(super) fn one_off(&self, graph: &ExecutionGraph, call: NodeId) -> Option<Again> {
        let task = &graph.tasks[call];
        let is_launch =
            || graph.tasks.edges_directed(call, Outgoing).any(|edge| edge.weight().kind == DependencyKind::Launch);
        let typical = self.0.get(&key(graph, call)).filter(|_| task.kind == TaskKind::Runtime)?;
        let beyond = task.duration.0 as f64 > ONE_OFF * typical.median.0 as f64;
        (beyond && is_launch()).then(|| self.again(graph, call))
    }
}

fn key(graph: &ExecutionGraph, call: NodeId) -> (Rank, NameId) {
    let task = &graph.tasks[call];
    (graph.lanes[task.lane.0 as usize].rank, task.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_tell_of_another_as_exactly_as_they_spread_but_no_more() {
        let spread = |calls: Vec<i64>| Typical::of(calls.into_iter().map(DurNs).collect()).spread;
        assert!((spread((1..=1_000).collect()) - 2.0 / 3.0).abs() < 0.01);
        assert!((spread(vec![100; 1_000]) - LEAST_SPREAD).abs() < f64::EPSILON, "equal ones");
        assert!((spread(vec![100; 3]) - SPREAD_OF_FEW).abs() < f64::EPSILON, "few");
        assert!((spread(vec![0; 1_000]) - LEAST_SPREAD).abs() < f64::EPSILON, "of no time");
    }
}

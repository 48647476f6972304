//! Gradients of a batch are added to those of the batches before it: one kernel for each parameter, which the traced batch, the first
//! since they were set to nothing, had no need of.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::cost::operators::bare;
use crate::graph::{LaneId, NodeId, Operator, OperatorId, RankPart, TaskKind};
use crate::scenario::draft::{AddedId, Draft, Node};
use crate::scenario::transforms::insert_operator::Insertion;
use crate::units::TimeNs;

/// The operator that keeps the gradient of a parameter.
const ACCUMULATES: &str = "torch::autograd::AccumulateGrad";

/// What adds the gradient of a parameter.
const ADD: &str = "aten::add_";

/// What became of the parameters' gradients.
#[derive(Debug, Default)]
pub(super) struct Additions {
    /// Tasks that were added.
    pub(super) tasks: BTreeSet<Node>,
    /// Parameters whose gradients are added.
    pub(super) added: usize,
    /// Parameters whose gradients are sparse, of unknown sizes, or not on a device.
    pub(super) unknown: usize,
}

impl Additions {
    /// Adds to the chosen step the additions that its accumulation of gradients would need in a later batch, each behind the last device
    /// work that its thread launched before.
    pub(super) fn of(draft: &mut Draft<'_>) -> Self {
        let (mut found, launches, host) = (Self::default(), Launches::of(draft), last_on_host(draft));
        let mut insertion = Insertion::of(draft, ADD);
        let first = draft.added().len() as u32;
        for id in (0..draft.graph().operators.len() as u32).map(OperatorId) {
            let operator = &draft.graph().operators[id.0 as usize];
            if draft.graph().names.get(operator.name) != ACCUMULATES {
                continue;
            }
            let part = draft.graph().part_of(draft.graph().lanes[operator.lane.0 as usize].rank);
            let inside = |part: &RankPart| (part.iteration_start..part.iteration_end).contains(&operator.start);
            if !part.is_some_and(inside) {
                continue;
            }
            let last = launches.last_before(operator.lane, operator.start);
            let last = last.filter(|&last| draft.is_in_step(last.into()));
            // Called by the accumulation, as what it calls now.
            let callee = OperatorId(id.0 + u32::from(operator.subtree_end.0 > id.0 + 1));
            let place = last.map(|last| (last.into(), host.get(&id).map(|&node| node.into())));
            let count = match below(draft, id) {
                Below::Adds => continue,
                Below::Dense => place.and_then(|place| insertion.insert(draft, (callee, id), place)),
                Below::Sparse => None,
            };
            let of = if count.is_some() { &mut found.added } else { &mut found.unknown };
            *of += 1;
        }
        found.tasks = (first..draft.added().len() as u32).map(|id| Node::Added(AddedId(id))).collect();
        found
    }
}

/// What an accumulation of gradients does.
enum Below {
    /// It adds them already.
    Adds,
    /// It keeps them as they are.
    Dense,
    /// It keeps rows of them.
    Sparse,
}

fn below(draft: &Draft<'_>, id: OperatorId) -> Below {
    let graph = draft.graph();
    let own: &Operator = &graph.operators[id.0 as usize];
    let inside = graph.operators.get(id.0 as usize + 1..own.subtree_end.0 as usize).unwrap_or_default();
    let calls = |names: &[&str]| inside.iter().any(|operator| names.contains(&bare(graph.names.get(operator.name))));
    match () {
        () if calls(&["add_", "add", "_foreach_add_"]) => Below::Adds,
        () if calls(&["_values", "_indices", "_nnz"]) => Below::Sparse,
        () => Below::Dense,
    }
}

/// By accumulation of a gradient the last host work of it and of what it calls.
fn last_on_host(draft: &Draft<'_>) -> FxHashMap<OperatorId, NodeId> {
    let graph = draft.graph();
    let parent = |id: &OperatorId| graph.operators[id.0 as usize].parent;
    let accumulates = |id: &OperatorId| graph.names.get(graph.operators[id.0 as usize].name) == ACCUMULATES;
    let mut last: FxHashMap<OperatorId, NodeId> = FxHashMap::default();
    for node in graph.tasks.node_indices().filter(|&node| matches!(graph.tasks[node].kind, TaskKind::Host(_))) {
        let own = graph.tasks[node].operator.filter(|_| !draft.is_removed(node));
        let Some(id) = own.and_then(|own| std::iter::successors(Some(own), parent).find(accumulates)) else { continue };
        let known = last.entry(id).or_insert(node);
        if graph.tasks[node].measured_start >= graph.tasks[*known].measured_start {
            *known = node;
        }
    }
    last
}

/// Kernels by the thread that launched them and when, in order.
struct Launches(Vec<(LaneId, TimeNs, NodeId)>);

impl Launches {
    fn of(draft: &Draft<'_>) -> Self {
        let graph = draft.graph();
        let there = |node: &NodeId| graph.tasks[*node].kind == TaskKind::Kernel && !draft.is_removed(*node);
        let launched = |node: NodeId| {
            let call = &graph.tasks[graph.call_of(node)?];
            Some((call.lane, call.measured_start, node))
        };
        let mut launches: Vec<_> = graph.tasks.node_indices().filter(there).filter_map(launched).collect();
        launches.sort_unstable();
        Self(launches)
    }

    fn last_before(&self, lane: LaneId, start: TimeNs) -> Option<NodeId> {
        let at = self.0.partition_point(|&(thread, time, _)| (thread, time) <= (lane, start));
        self.0[..at].last().filter(|(thread, ..)| *thread == lane).map(|&(.., node)| node)
    }
}

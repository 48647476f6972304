//! Added device work with its launch: beside a piece of device work that is there, called right after (or before) its call.
//! Beside a kernel of a captured graph it is one more kernel of that graph, which is launched as a whole.

use std::sync::Arc;

use crate::cost::{Prediction, Work};
use crate::graph::{Dependency, DependencyKind, LaneId, OperatorId, TaskKind, launches_graph};
use crate::scenario::draft::{Added, Draft, Node, Source};
use crate::units::{Bytes, DurNs};

/// A kernel to be added.
#[derive(Clone, Debug)]
pub(super) struct NewKernel {
    pub(super) name: Arc<str>,
    pub(super) operator: Option<OperatorId>,
    pub(super) work: Option<Arc<Work>>,
    pub(super) prediction: Prediction,
    /// What its work follows.
    pub(super) source: Source,
    /// The added operator that launches it, where an edit added one.
    pub(super) caller: Option<Arc<str>>,
    /// The host work next to which its call is, where that is not the neighbour's call.
    pub(super) call_at: Option<Node>,
}

/// On which side of the work that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

/// What was added.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) kernel: Node,
    /// Its own call; `None` where the neighbour's was not recorded, or launches a graph, of which the kernel is a part then.
    pub(super) call: Option<Node>,
}

/// Adds `new` on the stream of `node`, with a call like that of `node` next to it.
pub(super) fn place(draft: &mut Draft<'_>, node: Node, side: Side, new: NewKernel) -> Placed {
    let gap = draft.stream_gap(node);
    let placed = launch(draft, node, side, draft.lane_of(node), new);
    put(draft, node, side, placed.kernel, gap);
    placed
}

/// Adds `new` on `lane`, outside its order, with a call like that of `node` next to it, or by the launch of its graph.
pub(super) fn launch(draft: &mut Draft<'_>, node: Node, side: Side, lane: LaneId, new: NewKernel) -> Placed {
    let launch = draft.edges_into(node).find(|edge| edge.kind() == DependencyKind::Launch);
    let after = draft.beside(node);
    let NewKernel { name, operator, work, prediction, source, caller, call_at } = new;
    let (kind, bytes, members) = (TaskKind::Kernel, Bytes(0), Vec::new());
    let of_call = caller.clone();
    let price = prediction.into();
    let added = Added { name, kind, lane, operator, bytes, work, price, members, source, caller, after };
    let kernel = Node::Added(draft.add(added));
    let call = draft.own_call_of(node).filter(|&call| draft.kind_of(call) == TaskKind::Runtime && !draft.is_gone(call));
    if let (Some(launch), Some(call)) = (launch, call)
        && launches_graph(draft.name_of(call))
    {
        draft.connect(launch.from, kernel, launch.dependency);
        return Placed { kernel, call: None };
    }
    let at_once = Dependency::on_end(DependencyKind::Launch, DurNs::ZERO);
    let launch = launch.map_or(at_once, |edge| edge.dependency);
    let again = call.map(|call| {
        // It takes what that call takes at any moment, so that edits of host time mean both in any order.
        let again = draft.copy_call(call);
        if let Node::Added(id) = again
            && let Some(added) = draft.added_mut(id)
        {
            added.source = Source::Given;
            // A call of an added operator stands beside the one that is there, as its kernel does.
            added.operator = if of_call.is_some() { operator } else { added.operator };
            added.caller = of_call;
        }
        put(draft, call_at.unwrap_or(call), side, again, DurNs::ZERO);
        draft.connect(again, kernel, launch);
        again
    });
    Placed { kernel, call: again }
}

/// Puts `new` next to `node` in the order of its lane.
pub(super) fn put(draft: &mut Draft<'_>, node: Node, side: Side, new: Node, lag: DurNs) {
    match side {
        Side::Before => draft.put_before(node, (new, new), lag),
        Side::After => draft.put_after(node, (new, new), lag),
    }
}

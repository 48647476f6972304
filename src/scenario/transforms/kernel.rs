//! Added device work with its launch: beside a piece of device work that is there, called right after (or before) its call.

use crate::cost::{Prediction, Work};
use crate::graph::{Dependency, DependencyKind, NodeId, OperatorId, TaskKind};
use crate::scenario::draft::{Added, Draft, Node};
use crate::units::{Bytes, DurNs};

/// A kernel to be added.
#[derive(Clone, Debug)]
pub(super) struct NewKernel {
    pub(super) name: String,
    pub(super) operator: Option<OperatorId>,
    pub(super) work: Option<Work>,
    pub(super) prediction: Prediction,
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
    /// Its call; `None` where the neighbour's was not recorded.
    pub(super) call: Option<Node>,
}

/// The traced task beside which what is added to `node` is listed.
pub(super) fn beside(draft: &Draft<'_>, node: Node) -> NodeId {
    match node {
        Node::Traced(node) => node,
        Node::Added(id) => draft.added()[id.0 as usize].after,
    }
}

/// Adds `new` on the stream of `node`, with a call like that of `node` next to it.
pub(super) fn place(draft: &mut Draft<'_>, node: Node, side: Side, new: NewKernel) -> Placed {
    let gap = draft.stream_gap(node);
    let launch = draft.wires_into(node).into_iter().find(|wire| wire.kind() == DependencyKind::Launch);
    let at_once = Dependency::on_end(DependencyKind::Launch, DurNs::ZERO);
    let launch = launch.map_or(at_once, |wire| wire.dependency);
    let (lane, after) = (draft.lane_of(node), beside(draft, node));
    let NewKernel { name, operator, work, prediction } = new;
    let (kind, bytes, members) = (TaskKind::Kernel, Bytes(0), Vec::new());
    let added = Added { name, kind, lane, operator, bytes, work, prediction, members, planned: None, after };
    let kernel = Node::Added(draft.add(added));
    put(draft, node, side, kernel, gap);
    let call = draft.call_of(node).filter(|&call| draft.kind_of(call) == TaskKind::Runtime && !draft.is_gone(call));
    let again = call.map(|call| {
        let again = draft.copy(call, draft.lane_of(call), beside(draft, call));
        put(draft, call, side, again, DurNs::ZERO);
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

//! `parallelize SELECTOR [until SELECTOR]`: a branch runs on a stream of its own beside what follows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::graph::{Dependency, DependencyKind, Lane, LaneId, LaneKind, Operand, OperatorId, Phase, TaskKind};
use crate::intern::NameId;
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, NodeSet};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};
use crate::units::DurNs;

use super::report::{SHARED, count, in_step};

/// Moves the selected device work to another stream.
#[derive(Clone, Debug, PartialEq)]
struct Parallelize {
    /// The branch.
    branch: Selector,
    /// What needs its results; without it what is recorded to use them, else the next phase.
    until: Option<Selector>,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "parallelize",
    help: "runs a branch on a stream of its own, from where it stands until what needs its results",
    example: "parallelize name~embedding_bag until name~cat",
    forms: &[Form {
        arguments: &[Argument::selector(), Argument::selector().after(" until ").optional()],
        build: |given| Some(Arc::new(Parallelize { branch: given.get(0)?, until: given.get(1)? })),
    }],
    knobs: &[],
};

/// Number of the first added stream: one that frameworks do not use.
const FIRST_STREAM: i64 = 10_000;

impl Transform for Parallelize {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let movable = |&node: &Node| {
            let kind = draft.kind_of(node);
            kind.is_device() && !matches!(kind, TaskKind::Collective(_))
        };
        let chosen: NodeSet = self.branch.select_all(draft).into_iter().filter(movable).collect();
        if chosen.is_empty() {
            return StepReport::nothing(format!("no device work matches {}", self.branch));
        }
        let until: Option<NodeSet> = self.until.as_ref().map(|until| until.select_all(draft).into_iter().collect());
        let users = Users::of(draft, &chosen, until);
        let branches = branches(draft, &chosen, &users);
        let moved: Vec<Node> = branches.iter().flat_map(|branch| &branch.nodes).copied().collect();
        let runs: Vec<Node> = branches.iter().filter_map(|branch| branch.nodes.first().copied()).collect();
        let mut lanes: BTreeMap<LaneId, LaneId> = BTreeMap::new();
        for branch in &branches {
            let lane = *lanes.entry(branch.stream).or_insert_with(|| new_stream(draft, branch.stream));
            fork(draft, branch, lane);
        }
        let summary = format!(
            "{} in {} beside the rest",
            count(in_step(draft, &moved), "task"),
            count(in_step(draft, &runs), "run")
        );
        let mut report = StepReport { changed: moved.len(), summary, ..StepReport::default() };
        if self.until.is_none() && !users.is_recorded() {
            let why = "no tensors recorded: taken as needed by nothing until the next phase or step";
            report.say(Effect::assumption(why));
        }
        // Kernels that fill the device gain nothing beside one another.
        report.say(Effect::assumed(SHARED, 1.0));
        report
    }
}

/// What needs the results of a branch.
enum Users {
    Selected(NodeSet),
    /// By operator of the branch: operators that read its results.
    Recorded(BTreeMap<OperatorId, BTreeSet<OperatorId>>),
    NextPhase,
}

impl Users {
    fn of(draft: &Draft<'_>, chosen: &NodeSet, until: Option<NodeSet>) -> Self {
        if let Some(until) = until {
            return Self::Selected(until);
        }
        let recorded = readers(draft, chosen);
        if recorded.is_empty() { Self::NextPhase } else { Self::Recorded(recorded) }
    }

    fn is_recorded(&self) -> bool {
        matches!(self, Self::Recorded(_))
    }

    /// Whether `node` needs what `branch` made.
    fn needs(&self, draft: &Draft<'_>, node: Node, branch: &[Node]) -> bool {
        let phase = |node: Node| draft.phase_of(node).unwrap_or(Phase::Other);
        match self {
            Self::Selected(users) => users.contains(node),
            Self::NextPhase => branch.last().is_some_and(|&last| phase(last) != phase(node)),
            Self::Recorded(readers) => branch.iter().any(|&made| {
                let made = draft.operator_of(made).and_then(|id| readers.get(&id));
                made.zip(draft.operator_of(node)).is_some_and(|(readers, id)| readers.contains(&id))
            }),
        }
    }
}

/// By operator of the branch the operators that take a tensor it made, where execution traces recorded identities.
fn readers(draft: &Draft<'_>, chosen: &NodeSet) -> BTreeMap<OperatorId, BTreeSet<OperatorId>> {
    let graph = draft.graph();
    let made_by: BTreeSet<OperatorId> = chosen.iter().filter_map(|node| draft.operator_of(node)).collect();
    let mut maker: BTreeMap<u64, OperatorId> = BTreeMap::new();
    for &id in &made_by {
        let outputs = draft.operands(id).map(|operands| operands.outputs.as_slice()).unwrap_or_default();
        maker.extend(outputs.iter().flat_map(tensors).map(|tensor| (tensor, id)));
    }
    let mut readers: BTreeMap<OperatorId, BTreeSet<OperatorId>> = BTreeMap::new();
    for id in (0..graph.operators.len() as u32).map(OperatorId).filter(|id| !made_by.contains(id)) {
        let inputs = draft.operands(id).map(|operands| operands.inputs.as_slice()).unwrap_or_default();
        for made in inputs.iter().flat_map(tensors).filter_map(|tensor| maker.get(&tensor)) {
            readers.entry(*made).or_default().insert(id);
        }
    }
    readers
}

fn tensors(operand: &Operand) -> Vec<u64> {
    match operand {
        Operand::Tensor { id, .. } => id.iter().copied().collect(),
        Operand::TensorList(list) => list.iter().flat_map(tensors).collect(),
        Operand::Value(_) => Vec::new(),
    }
}

/// Neighbouring selected tasks of a stream, up to where their results are needed.
struct Branch {
    stream: LaneId,
    nodes: Vec<Node>,
    /// The work before it on the stream.
    before: Option<Node>,
    user: Option<Node>,
}

fn branches(draft: &Draft<'_>, chosen: &NodeSet, users: &Users) -> Vec<Branch> {
    let within = draft.base().iteration_tasks();
    let step = |node: Node| within[draft.beside(node).index()];
    let mut done = Vec::new();
    for (stream, nodes) in draft.in_order(|node| draft.kind_of(node).is_device()) {
        let mut open: Option<Branch> = None;
        let mut before = None;
        for node in nodes {
            let other_step = open.as_ref().is_some_and(|branch| step(branch.nodes[0]) != step(node));
            let is_user = open.as_ref().is_some_and(|branch| other_step || users.needs(draft, node, &branch.nodes));
            if is_user && (other_step || !chosen.contains(node)) {
                done.extend(open.take().map(|branch| Branch { user: Some(node), ..branch }));
            }
            if chosen.contains(node) {
                let new = || Branch { stream, nodes: Vec::new(), before, user: None };
                open.get_or_insert_with(new).nodes.push(node);
            } else {
                before = Some(node);
            }
        }
        done.extend(open);
    }
    done
}

fn new_stream(draft: &mut Draft<'_>, beside: LaneId) -> LaneId {
    let (rank, device) = match draft.lane(beside) {
        Some(&Lane { rank, kind: LaneKind::Stream { device, .. }, .. }) => (rank, device),
        other => (other.map(|lane| lane.rank).unwrap_or_default(), 0),
    };
    let kind = LaneKind::Stream { device, stream: FIRST_STREAM + draft.structure.lanes.len() as i64 };
    draft.add_lane(Lane { rank, kind, name: NameId(0), communication: false }, "branch")
}

/// What runs before `node` on its stream.
fn behind(draft: &Draft<'_>, node: Node) -> Vec<Node> {
    let order = draft.edges_into(node).filter(|edge| edge.kind() == DependencyKind::Stream);
    order.map(|edge| edge.from).collect()
}

/// The ends of steps and the calls that wait for `node` as the last work of its stream: all but the call that launched it, which waits for it
/// alone.
fn waits_of_others(draft: &Draft<'_>, node: Node) -> Vec<(Node, DependencyKind)> {
    let launches: Vec<Node> =
        draft.edges_into(node).filter(|edge| edge.kind() == DependencyKind::Launch).map(|edge| edge.from).collect();
    let is_own = |joint: Node| {
        let mut calls = draft.edges_into(joint).filter(|edge| edge.kind() == DependencyKind::Program);
        launches.contains(&joint) || calls.any(|edge| launches.contains(&edge.from))
    };
    let waits = draft.edges_from(node).filter(|edge| match edge.kind() {
        DependencyKind::StepEnd => true,
        DependencyKind::HostWait => !is_own(edge.to),
        _ => false,
    });
    waits.map(|edge| (edge.to, edge.kind())).collect()
}

/// Takes a branch off its stream: it starts after what came before it, and its user waits for it.
fn fork(draft: &mut Draft<'_>, branch: &Branch, lane: LaneId) {
    let ready = |kind| Dependency::on_end(kind, DurNs::ZERO);
    let gaps: Vec<DurNs> = branch.nodes.iter().map(|&node| draft.stream_gap(node)).collect();
    for &node in &branch.nodes {
        let (ahead, waits) = (behind(draft, node), waits_of_others(draft, node));
        draft.unchain(node, node);
        draft.move_to(node, lane);
        // What waited for all of the stream by waiting for its last work still does.
        for (&from, &(to, kind)) in ahead.iter().flat_map(|from| waits.iter().map(move |wait| (from, wait))) {
            draft.connect(from, to, ready(kind));
        }
    }
    for (pair, &lag) in branch.nodes.windows(2).zip(&gaps) {
        draft.connect(pair[0], pair[1], Dependency::on_end(DependencyKind::Stream, lag));
    }
    let (Some(&first), Some(&last)) = (branch.nodes.first(), branch.nodes.last()) else { return };
    if let Some(before) = branch.before {
        draft.connect(before, first, ready(DependencyKind::EventWait));
    }
    if let Some(user) = branch.user {
        draft.connect(last, user, ready(DependencyKind::EventWait));
    } else if draft.is_in_step(last) {
        // Of a step recorded beside the chosen one the end is not simulated.
        let rank = draft.rank_of(lane);
        let end = draft.graph().ranks[rank].end;
        draft.connect(last, Node::Traced(end), ready(DependencyKind::StepEnd));
    }
}

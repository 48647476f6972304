//! `parallelize SELECTOR [until SELECTOR]`: a branch runs on a stream of its own beside what follows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::graph::{Dependency, DependencyKind, Lane, LaneId, LaneKind, Operand, Phase, TaskKind};
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
    /// What needs its results; without it what takes a tensor of their size, else the next phase.
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
        let users = until.map_or(Users::OfSize, Users::Selected);
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
        if self.until.is_none() {
            let is_sized = branches.iter().all(|branch| !branch.made.is_empty());
            report.say(Effect::assumption(if is_sized { BY_SIZE } else { UNKNOWN }));
        }
        // Kernels that fill the device gain nothing beside one another.
        report.say(Effect::assumed(SHARED, 1.0));
        report
    }
}

/// What is said where a branch's results have known sizes, and where some have not.
const BY_SIZE: &str =
    "what takes a tensor as large as a result is taken to need it, nothing else until the next phase or step";
const UNKNOWN: &str = "sizes not recorded: taken as needed by nothing until the next phase or step";

/// What needs the results of a branch.
enum Users {
    Selected(NodeSet),
    /// By size: what takes a tensor as large as a result of the branch; nothing before the next phase where no sizes are known.
    OfSize,
}

impl Users {
    /// Whether `node` needs what `branch` made.
    fn needs(&self, draft: &Draft<'_>, node: Node, branch: &Branch) -> bool {
        let phase = |node: Node| draft.phase_of(node).unwrap_or(Phase::Other);
        match self {
            Self::Selected(users) => users.contains(node),
            Self::OfSize if branch.nodes.last().is_some_and(|&last| phase(last) != phase(node)) => true,
            Self::OfSize => sizes_taken(draft, node).any(|size| branch.made.contains(&size)),
        }
    }
}

/// Bytes of the tensors that the operator of a task takes.
fn sizes_taken<'d>(draft: &'d Draft<'_>, node: Node) -> impl Iterator<Item = u64> + 'd {
    let operands = draft.operator_of(node).and_then(|id| draft.operands(id));
    let tensors = |operand: &'d Operand| match operand {
        Operand::TensorList(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    operands.into_iter().flat_map(|operands| &operands.inputs).flat_map(tensors).map(|tensor| tensor.bytes().0)
}

/// Neighbouring selected tasks of a stream, up to where their results are needed.
struct Branch {
    stream: LaneId,
    nodes: Vec<Node>,
    /// Bytes of its results, as far as they are known.
    made: BTreeSet<u64>,
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
            let is_user = open.as_ref().is_some_and(|branch| other_step || users.needs(draft, node, branch));
            if is_user && (other_step || !chosen.contains(node)) {
                done.extend(open.take().map(|branch| Branch { user: Some(node), ..branch }));
            }
            if chosen.contains(node) {
                let new = || Branch { stream, nodes: Vec::new(), made: BTreeSet::new(), before, user: None };
                let branch = open.get_or_insert_with(new);
                branch.nodes.push(node);
                branch.made.extend(draft.work_of(node).map(|work| work.written.0).filter(|&bytes| bytes > 0));
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

//! `overlap-comm`: gradients are reduced as soon as they are there, and only the optimizer waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use petgraph::Direction::Incoming;
use petgraph::visit::EdgeRef;

use crate::cost::{Family, Shape};
use crate::graph::{DType, Dependency, DependencyKind, ExecutionGraph, NodeId, OperatorId, Phase, RankPart, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, NodeSet};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Form, Grammar};
use crate::scenario::transform::{StepReport, Transform};
use crate::units::{DurNs, TimeNs, elements};

use super::report::{OVERLAP_DOUBT, SHARED, count};
use super::swap_link::{collectives, untouched};

/// Overlaps the reduction of gradients with the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OverlapComm;

pub(super) const EDIT: Grammar = Grammar {
    name: "overlap-comm",
    help: "reduces gradients as soon as the backward pass made them; only the optimizer waits",
    example: "overlap-comm",
    forms: &[Form { arguments: &[], build: |_| Some(Arc::new(OverlapComm)) }],
    knobs: &[],
};

const AT_ONCE: DurNs = DurNs::ZERO;
/// Why a reduction that nothing holds back is exposed all the same.
const NEEDED: &str = "none waits for more of the backward pass than it needs: what is exposed comes after its last gradient, is launched late or waits for other ranks";
/// What stands in for the recorded accumulation of gradients.
const EVENLY: &str =
    "when a gradient is made is not recorded: taken as evenly over the backward pass's kernels, look-ups aside";
/// Shares of bytes that differ by less are the same: recorded sizes leave out padding.
const TOLERANCE: f64 = 1e-3;

impl Transform for OverlapComm {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let steps = steps(draft);
        if steps.is_empty() {
            let mut told =
                StepReport::nothing("no reduction of gradients on a stream of its own after a backward pass");
            told.effects.extend(untouched(draft, |node| draft.reduces_gradients(node)));
            return told;
        }
        let (mut early, mut late, mut all) = (0, 0, 0);
        let (mut exposed, mut long) = (DurNs::ZERO, DurNs::ZERO);
        for step in &steps {
            all += step.reduces.len();
            let own = step.exposed(draft);
            (exposed, long) = (exposed + own.0, long + own.1);
            let backward: NodeSet = step.backward.iter().copied().collect();
            late += step.reduces.iter().map(|&(node, _)| wait_late(draft, step.user, &backward, node)).sum::<usize>();
            early += start_early(draft, step);
        }
        let exposed = format!("as traced {exposed} of {long} exposed, summed over ranks");
        if early + late == 0 {
            return StepReport::nothing(format!("{}: {exposed}; {NEEDED}", count(all, "all-reduce")));
        }
        let summary =
            format!("{early} of {all} all-reduces start earlier, {late} waits moved to the optimizer; {exposed}");
        let summary = if early == 0 { format!("{summary}; {NEEDED}") } else { summary };
        let mut report = StepReport { changed: early + late, summary, ..StepReport::default() };
        if early > 0 && steps.iter().any(|step| !step.is_recorded) {
            report.say(Effect::assumption(EVENLY));
        }
        report.say(Effect::assumed(SHARED, OVERLAP_DOUBT));
        let untouched = untouched(draft, |node| draft.reduces_gradients(node));
        report.effects.extend(untouched);
        report
    }
}

/// The reductions of one step on one rank, and what they belong between.
#[derive(Debug, Default)]
struct Step {
    /// Kernels of the backward pass (the last one of a step that has several), in order.
    backward: Vec<Node>,
    /// Gradients in order: the place in `backward` of the kernel that finishes each, and what it counts for.
    made: Vec<(usize, f64)>,
    /// Whether their accumulation was recorded.
    is_recorded: bool,
    /// Reductions with their bytes, in order.
    reduces: Vec<(NodeId, u64)>,
    /// When its kernels ran.
    busy: Vec<[TimeNs; 2]>,
    /// The first kernel of the optimizer, or what ends the step.
    user: Option<Node>,
}

impl Step {
    /// How long reductions ran as traced without any other kernel of the rank beside them, and how long in all.
    fn exposed(&self, draft: &Draft<'_>) -> (DurNs, DurNs) {
        let graph = draft.graph();
        let mut busy = self.busy.clone();
        busy.sort_unstable();
        let (mut exposed, mut all) = (DurNs::ZERO, DurNs::ZERO);
        for &(node, _) in &self.reduces {
            let (mut from, end) = (graph.tasks[node].measured_start, graph.tasks[node].measured_end());
            all += end.since(from);
            for &[begins, ends] in busy.iter().take_while(|[begins, _]| *begins < end) {
                if ends > from {
                    exposed += begins.max(from).since(from);
                    from = ends;
                }
            }
            exposed += end.max(from).since(from);
        }
        (exposed, all)
    }

    /// What each reduction counts for: its bytes, where some has none recorded its time.
    fn weights(&self, draft: &Draft<'_>) -> Vec<f64> {
        let is_known = self.reduces.iter().all(|&(_, bytes)| bytes > 0);
        let time = |node: NodeId| draft.price_of(Node::Traced(node)).duration.0.max(1) as f64;
        let weight = |&(node, bytes): &(NodeId, u64)| if is_known { bytes as f64 } else { time(node) };
        self.reduces.iter().map(weight).collect()
    }
}

fn steps(draft: &Draft<'_>) -> Vec<Step> {
    let graph = draft.graph();
    let within = draft.base().iteration_tasks();
    let mut steps: BTreeMap<(usize, bool), Step> = BTreeMap::new();
    let key = |node: Node| (draft.rank_of(draft.lane_of(node)), within[draft.beside(node).index()]);
    let is_own = |node: Node| draft.kind_of(node) == TaskKind::Kernel && draft.repeated(node).is_none();
    for node in draft.in_order(is_own).into_values().flatten() {
        let step = steps.entry(key(node)).or_default();
        let beside = &graph.tasks[draft.beside(node)];
        step.busy.push([beside.measured_start, beside.measured_end()]);
        match draft.phase_of(node) {
            Some(Phase::Backward) => step.backward.push(node),
            Some(Phase::Optimizer) if !step.backward.is_empty() && step.user.is_none() => step.user = Some(node),
            _ => {}
        }
    }
    for node in collectives(draft) {
        let Node::Traced(traced) = node else { continue };
        let bytes = match draft.work(traced).map(|work| (&work.shape, work.read.0)) {
            Some((&Shape::Collective { .. }, bytes)) if draft.reduces_gradients(node) => bytes,
            _ => continue,
        };
        let step = steps.entry(key(node)).or_default();
        let (Some(&first), Some(&last)) = (step.backward.first(), step.backward.last()) else { continue };
        // Where the backward pass launches it or not: what comes after all of it reduces its gradients.
        let in_backward = draft.phase_of(node) != Some(Phase::Forward) && start(draft, node) >= start(draft, first);
        let after = in_backward || start(draft, node) >= start(draft, last);
        if after && draft.lane_of(first) != draft.lane_of(node) {
            step.reduces.push((traced, bytes));
        }
    }
    for (&(rank, chosen), step) in &mut steps {
        step.made = accumulated(draft, &graph.ranks[rank], chosen, &step.backward);
        step.is_recorded = !step.made.is_empty();
        if !step.is_recorded {
            step.made = evenly(draft, &step.backward);
        }
    }
    let end = |rank: usize, chosen: bool| if chosen { Some(graph.ranks[rank].end) } else { graph.ranks[rank].begin };
    for (&(rank, chosen), step) in &mut steps {
        step.user = step.user.or(end(rank, chosen).map(Node::Traced));
    }
    steps.into_values().filter(|step| !step.reduces.is_empty() && step.user.is_some()).collect()
}

/// Gradients as the framework accumulated them: each is there after the last kernel launched before its accumulation was over
/// with all that hooks on it, and counts for its bytes (alike, where some size was not recorded).
fn accumulated(draft: &Draft<'_>, part: &RankPart, is_chosen: bool, backward: &[Node]) -> Vec<(usize, f64)> {
    let graph = draft.graph();
    let operator = |id: OperatorId| &graph.operators[id.0 as usize];
    let mut launched: Vec<(TimeNs, usize)> = Vec::with_capacity(backward.len());
    for (at, &kernel) in backward.iter().enumerate() {
        launched.extend(draft.operator_of(kernel).map(|id| (operator(id).start, at)));
    }
    launched.sort_unstable();
    let mut furthest = 0;
    for (_, at) in &mut launched {
        furthest = furthest.max(*at);
        *at = furthest;
    }
    let begins = if is_chosen { part.iteration_start } else { TimeNs(i64::MIN) };
    let ends = if is_chosen { part.iteration_end } else { part.iteration_start };
    let within = |start: TimeNs| (begins..ends).contains(&start);
    let mut found: Vec<(usize, Option<u64>)> = Vec::new();
    for (id, of) in graph.operators.iter().enumerate() {
        let is_own = graph.lanes[of.lane.0 as usize].rank == part.rank && within(of.start);
        if !is_own || graph.names.get(of.name) != "torch::autograd::AccumulateGrad" {
            continue;
        }
        let id = OperatorId(id as u32);
        let outermost = std::iter::successors(Some(id), |&id| operator(id).parent).last().unwrap_or(id);
        let over = operator(outermost).start + operator(outermost).dur;
        let before = launched.partition_point(|&(start, _)| start < over);
        found.extend(launched[..before].last().map(|&(_, at)| (at, bytes(graph, id))));
    }
    found.sort_unstable();
    let is_known = found.iter().all(|&(_, bytes)| bytes.is_some());
    let weight = |bytes: Option<u64>| if is_known { bytes.unwrap_or(0) as f64 } else { 1.0 };
    found.into_iter().map(|(at, bytes)| (at, weight(bytes))).collect()
}

/// Size of an operator's first argument; `None` where it was not recorded.
fn bytes(graph: &ExecutionGraph, id: OperatorId) -> Option<u64> {
    let operands = graph.operands.get(graph.operators[id.0 as usize].operands?.0 as usize)?;
    let width = operands.dtype().map_or(4, DType::size);
    Some(elements(operands.dims(0)?).saturating_mul(width))
}

/// Gradients taken to be made all along the backward pass, but not by look-ups: their tables are not reduced.
fn evenly(draft: &Draft<'_>, backward: &[Node]) -> Vec<(usize, f64)> {
    let makes = |&(_, &kernel): &(usize, &Node)| draft.family_of(kernel) != Some(Family::Embedding);
    let weight = |kernel: Node| draft.price_of(kernel).duration.0 as f64;
    let made = |kernels: &mut dyn Iterator<Item = (usize, &Node)>| -> Vec<(usize, f64)> {
        kernels.map(|(at, &kernel)| (at, weight(kernel))).collect()
    };
    let without = made(&mut backward.iter().enumerate().filter(makes));
    if without.is_empty() { made(&mut backward.iter().enumerate()) } else { without }
}

/// When a task, or the one beside it, was traced to start.
fn start(draft: &Draft<'_>, node: Node) -> TimeNs {
    draft.graph().tasks[draft.beside(node)].measured_start
}

/// Lets nothing before the optimizer wait for a reduction; how many waits that moved.
fn wait_late(draft: &mut Draft<'_>, user: Option<Node>, backward: &NodeSet, node: NodeId) -> usize {
    let Some(user) = user else { return 0 };
    let mut moved = 0;
    for edge in draft.edges_from(Node::Traced(node)).collect::<Vec<_>>() {
        let waits = matches!(edge.kind(), DependencyKind::EventWait | DependencyKind::LateStart);
        if waits && backward.contains(edge.to) {
            draft.disconnect(&edge);
            draft.connect(edge.from, user, Dependency::on_end(DependencyKind::EventWait, AT_ONCE));
            moved += 1;
        }
    }
    moved
}

/// Lets reductions that came after the whole backward pass start where their share of it is done; how many did.
fn start_early(draft: &mut Draft<'_>, step: &Step) -> usize {
    let graph = draft.graph();
    let Some(&last) = step.backward.last() else { return 0 };
    let over: TimeNs = graph.tasks[draft.beside(last)].measured_end();
    let late: Vec<NodeId> = step
        .reduces
        .iter()
        .map(|&(node, _)| node)
        .filter(|&node| graph.tasks[gate(draft, node)].measured_start.max(graph.tasks[node].measured_start) >= over)
        .collect();
    let weights = step.weights(draft);
    let (total, all) = (weights.iter().sum::<f64>(), step.made.iter().map(|&(_, weight)| weight).sum::<f64>());
    let (mut sent, mut passed, mut at, mut started) = (0.0, 0.0, 0, 0);
    for (&(node, _), weight) in step.reduces.iter().zip(weights) {
        sent += weight;
        let needed = all * (sent / total - TOLERANCE);
        while at + 1 < step.made.len() && passed + step.made[at].1 < needed {
            passed += step.made[at].1;
            at += 1;
        }
        let Some(&(producer, _)) = step.made.get(at).filter(|_| late.contains(&node)) else { continue };
        // Also the last: it waited behind those that no longer wait for the whole backward pass.
        start_after(draft, node, step.backward[producer]);
        started += usize::from(producer + 1 < step.backward.len());
    }
    started
}

/// Where a member of a collective waits for what comes before it: itself, or its arrival where several ranks meet.
pub(super) fn gate(draft: &Draft<'_>, node: NodeId) -> NodeId {
    let graph = draft.graph();
    let rank = |node: NodeId| draft.base().rank_index(graph.tasks[node].lane);
    let into = |node: NodeId| graph.tasks.edges_directed(node, Incoming);
    let join = into(node).find(|edge| edge.weight().kind == DependencyKind::Collective).map(|edge| edge.source());
    let own = join.and_then(|join| into(join).map(|edge| edge.source()).find(|&arrival| rank(arrival) == rank(node)));
    own.unwrap_or(node)
}

fn start_after(draft: &mut Draft<'_>, node: NodeId, producer: Node) {
    let gate = Node::Traced(gate(draft, node));
    let comm = draft.graph().tasks[node].lane;
    for edge in draft.edges_into(gate).collect::<Vec<_>>() {
        let own_stream = edge.kind() == DependencyKind::Stream && draft.lane_of(edge.from) == comm;
        if !own_stream && edge.kind() != DependencyKind::Collective {
            draft.disconnect(&edge);
        }
    }
    draft.connect(producer, gate, Dependency::on_end(DependencyKind::EventWait, AT_ONCE));
}

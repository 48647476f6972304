//! `overlap-comm`: gradients are reduced as soon as they are there, and only the optimizer waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use petgraph::Direction::Incoming;
use petgraph::visit::EdgeRef;

use crate::cost::{CollectiveKind, Shape};
use crate::graph::{Dependency, DependencyKind, NodeId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, NodeSet};
use crate::scenario::transform::{StepReport, Transform, TransformSpec};
use crate::units::{DurNs, TimeNs};

use super::report::{OVERLAP_DOUBT, SHARED, count};
use super::swap_link::collectives;

/// Overlaps the reduction of gradients with the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlapComm;

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "overlap-comm",
    usage: "overlap-comm",
    help: "reduces gradients as soon as the backward pass made them; only the optimizer waits",
    example: "overlap-comm",
    parse: |_| Ok(Arc::new(OverlapComm)),
};

const AT_ONCE: DurNs = DurNs::ZERO;
/// Why a reduction that nothing holds back is exposed all the same.
const LAUNCHED: &str =
    "none waits for more of the backward pass than it needs: launches, other ranks or what follows expose them";

impl Transform for OverlapComm {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn line(&self) -> String {
        SPEC.name.to_owned()
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let steps = steps(draft);
        if steps.is_empty() {
            return StepReport::nothing("no all-reduce on a stream of its own after a backward pass");
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
        if early + late == 0 {
            let all = count(all, "all-reduce");
            let left = "what is exposed comes after the last gradient or waits for other ranks";
            return StepReport::nothing(format!(
                "{all} overlap the backward pass already, {exposed} of {long} exposed: {left}"
            ));
        }
        let summary = format!(
            "{early} of {all} all-reduces start earlier, {late} waits moved to the optimizer; as traced {exposed} of {long} exposed"
        );
        let summary = if early == 0 { format!("{summary}, since {LAUNCHED}") } else { summary };
        let mut report = StepReport { changed: early + late, summary, doubt: OVERLAP_DOUBT, ..StepReport::default() };
        if early > 0 {
            let why = "when a gradient is made is not recorded: taken as evenly over the backward pass's kernels";
            report.unhandled.push(why.to_owned());
        }
        report.unhandled.push(SHARED.to_owned());
        report
    }
}

/// The reductions of one step on one rank, and what they belong between.
#[derive(Debug, Default)]
struct Step {
    /// Kernels of the backward pass (the last one of a step that has several), in order.
    backward: Vec<Node>,
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
    let is_own = |node: Node| draft.kind_of(node) == TaskKind::Kernel && !draft.is_repetition(node);
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
            Some((&Shape::Collective { kind, .. }, bytes)) if reduces(kind) => bytes,
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
    let end = |rank: usize, chosen: bool| if chosen { Some(graph.ranks[rank].end) } else { graph.ranks[rank].begin };
    for (&(rank, chosen), step) in &mut steps {
        step.user = step.user.or(end(rank, chosen).map(Node::Traced));
    }
    steps.into_values().filter(|step| !step.reduces.is_empty() && step.user.is_some()).collect()
}

fn reduces(kind: CollectiveKind) -> bool {
    matches!(kind, CollectiveKind::AllReduce | CollectiveKind::ReduceScatter)
}

/// When a task, or the one beside it, was traced to start.
fn start(draft: &Draft<'_>, node: Node) -> TimeNs {
    draft.graph().tasks[draft.beside(node)].measured_start
}

/// Lets nothing before the optimizer wait for a reduction; how many waits that moved.
fn wait_late(draft: &mut Draft<'_>, user: Option<Node>, backward: &NodeSet, node: NodeId) -> usize {
    let Some(user) = user else { return 0 };
    let mut moved = 0;
    for wire in draft.wires_from(Node::Traced(node)).collect::<Vec<_>>() {
        let waits = matches!(wire.kind(), DependencyKind::EventWait | DependencyKind::LateStart);
        if waits && backward.contains(wire.to) {
            draft.disconnect(&wire);
            draft.connect(wire.from, user, Dependency::on_end(DependencyKind::EventWait, AT_ONCE));
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
    let total: f64 = weights.iter().sum();
    let times: Vec<i64> = step.backward.iter().map(|&node| draft.price_of(node).duration.0).collect();
    let busy: i64 = times.iter().sum();
    let (mut sent, mut passed, mut at, mut started) = (0.0, 0_i64, 0, 0);
    for (&(node, _), weight) in step.reduces.iter().zip(weights) {
        sent += weight;
        let needed = (busy as f64 * (sent / total)).floor() as i64;
        while at + 1 < times.len() && passed + times[at] < needed {
            passed += times[at];
            at += 1;
        }
        if late.contains(&node) {
            // Also the last: it waited behind those that no longer wait for the whole backward pass.
            start_after(draft, node, step.backward[at]);
            started += usize::from(at + 1 < times.len());
        }
    }
    started
}

/// Where a member of a collective waits for what comes before it: itself, or its arrival where several ranks meet.
fn gate(draft: &Draft<'_>, node: NodeId) -> NodeId {
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
    for wire in draft.wires_into(gate).collect::<Vec<_>>() {
        let own_stream = wire.kind() == DependencyKind::Stream && draft.lane_of(wire.from) == comm;
        if !own_stream && wire.kind() != DependencyKind::Collective {
            draft.disconnect(&wire);
        }
    }
    draft.connect(producer, gate, Dependency::on_end(DependencyKind::EventWait, AT_ONCE));
}

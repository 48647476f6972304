//! `checkpoint SELECTOR`: the selected part of the forward pass runs again before its backward pass, and keeps no activations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::graph::{Dependency, DependencyKind, LaneId, NodeId, OperatorId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, Recomputed, order_kind};
use crate::scenario::selector::Selector;
use crate::scenario::step::StepError;
use crate::scenario::text::Words;
use crate::scenario::transform::{StepReport, Transform, TransformSpec};
use crate::units::{Bytes, DurNs};

use super::report::count;

/// Recomputes activations instead of keeping them.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Which part of the forward pass.
    pub selector: Selector,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "checkpoint",
    usage: "checkpoint SELECTOR",
    help: "computes the selected forward operators again before their backward pass and keeps no activations",
    example: "checkpoint name~addmm",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    Ok(Arc::new(Checkpoint { selector: Selector::of_rest(words)? }))
}

impl Transform for Checkpoint {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn selectors(&self) -> Vec<&Selector> {
        vec![&self.selector]
    }

    fn line(&self) -> String {
        format!("{} {}", SPEC.name, self.selector)
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let graph = draft.graph();
        let forward = |&node: &Node| draft.phase_of(node) == Some(Phase::Forward);
        let chosen: BTreeSet<Node> = self.selector.select_all(draft).into_iter().filter(forward).collect();
        let segments = segments(draft, &chosen);
        if segments.is_empty() {
            return StepReport::nothing(format!("no computation of the forward pass matches {}", self.selector));
        }
        let within = graph.iteration_tasks();
        let (mut changed, mut lost, mut freed) = (0, (0, DurNs::ZERO), 0);
        for segment in &segments {
            let Some(gradient) = segment.gradient else {
                lost.0 += segment.work.len();
                lost.1 += segment.work.iter().map(|&node| draft.price_of(node).duration).sum();
                continue;
            };
            changed += recompute(draft, segment, gradient);
            if within[draft.beside(segment.work[0]).index()] {
                let kept = segment.work.iter().rev().skip(1).filter(|&&node| !is_in_place(draft, node));
                let kept = kept.filter_map(|&node| draft.work_of(node));
                freed += kept.map(|work| work.written.0).sum::<u64>();
                let work = segment.work.iter().map(|&node| draft.beside(node)).collect();
                draft.note_recomputed(Recomputed { work, gradient: draft.beside(gradient) });
            }
        }
        let freed = Bytes(freed / graph.ranks.len().max(1) as u64);
        let done = segments.iter().filter(|segment| segment.gradient.is_some()).count();
        let mut report = StepReport { changed, ..StepReport::default() };
        if done > 0 {
            report.summary = format!("{} run again, {freed} written again and not kept", count(done, "segment"));
        }
        if lost.0 > 0 {
            let what = count(lost.0, "task");
            report.unhandled.push(format!("{what}, {}: the trace does not tell their backward pass", lost.1));
            report.unhandled_ns = lost.1;
        }
        report
    }
}

/// Neighbouring selected work of the forward pass with its host tasks.
#[derive(Debug)]
struct Segment {
    work: Vec<Node>,
    host: Vec<Node>,
    /// The first work of its backward pass.
    gradient: Option<Node>,
}

/// Whether a task writes over its argument, so that nothing more is kept for it.
fn is_in_place(draft: &Draft<'_>, node: Node) -> bool {
    let graph = draft.graph();
    callers(draft, draft.operator_of(node)).any(|id| {
        let name = graph.names.get(graph.operators[id.0 as usize].name);
        name.starts_with("aten::") && name.ends_with('_')
    })
}

fn computes(kind: TaskKind) -> bool {
    matches!(kind, TaskKind::Kernel | TaskKind::Compute)
}

fn segments(draft: &mut Draft<'_>, chosen: &BTreeSet<Node>) -> Vec<Segment> {
    let within = draft.graph().iteration_tasks();
    let order = Order::of(draft);
    let mut lanes: BTreeMap<(LaneId, bool), Vec<Node>> = BTreeMap::new();
    for (&lane, nodes) in &order.lanes {
        for &node in nodes.iter().filter(|&&node| computes(draft.kind_of(node))) {
            lanes.entry((lane, within[draft.beside(node).index()])).or_default().push(node);
        }
    }
    let gradients = gradients(draft, lanes.values().flatten());
    let mut segments = Vec::new();
    for nodes in lanes.values() {
        for run in
            nodes.chunk_by(|a, b| chosen.contains(a) == chosen.contains(b)).filter(|run| chosen.contains(&run[0]))
        {
            let gradient = run.iter().filter_map(|&node| gradient_of(draft, &gradients, node)).min_by_key(|g| g.0);
            let host = order.host_of(draft, chosen, run);
            segments.push(Segment { host, work: run.to_vec(), gradient: gradient.map(|(_, node)| node) });
        }
    }
    segments
}

/// A piece of work with its place among those of its step.
type Placed = (usize, Node);

/// By forward operator the first work of its backward pass.
fn gradients<'n>(draft: &Draft<'_>, nodes: impl Iterator<Item = &'n Node>) -> BTreeMap<OperatorId, Placed> {
    let graph = draft.graph();
    let mut first = BTreeMap::new();
    for (place, &node) in nodes.enumerate() {
        for id in callers(draft, draft.operator_of(node)) {
            let operator = &graph.operators[id.0 as usize];
            if let Some(forward) = operator.forward.filter(|_| operator.phase == Phase::Backward) {
                first.entry(forward).or_insert((place, node));
            }
        }
    }
    first
}

/// The first backward work of the operator of `node`, one around it, or one inside it.
fn gradient_of(draft: &Draft<'_>, gradients: &BTreeMap<OperatorId, Placed>, node: Node) -> Option<Placed> {
    let graph = draft.graph();
    let inside = |id: OperatorId| {
        let end = graph.operators[id.0 as usize].subtree_end;
        gradients.range(id..end).map(|(_, &placed)| placed).min_by_key(|placed| placed.0)
    };
    let later = |&(_, gradient): &Placed| draft.beside(gradient) > draft.beside(node);
    callers(draft, draft.operator_of(node)).find_map(inside).filter(later)
}

fn callers<'b>(draft: &Draft<'b>, operator: Option<OperatorId>) -> impl Iterator<Item = OperatorId> + use<'b> {
    let operators = &draft.graph().operators;
    std::iter::successors(operator, |id| operators.get(id.0 as usize)?.parent)
}

/// The lanes' tasks in order, and the place of each among them.
struct Order {
    lanes: BTreeMap<LaneId, Vec<Node>>,
    place: FxHashMap<Node, usize>,
}

impl Order {
    fn of(draft: &Draft<'_>) -> Self {
        let lanes = draft.in_order(|_| true);
        let places = lanes.values().flat_map(|nodes| nodes.iter().enumerate());
        let place = places.map(|(place, &node)| (node, place)).collect();
        Self { lanes, place }
    }

    /// The selected host tasks around the launches of `run`, else those launches; on a host the run itself.
    fn host_of(&self, draft: &mut Draft<'_>, chosen: &BTreeSet<Node>, run: &[Node]) -> Vec<Node> {
        let mut calls = BTreeSet::new();
        for &node in run {
            let call = if draft.kind_of(node) == TaskKind::Compute { Some(node) } else { draft.call_of(node) };
            calls.extend(call.filter(|&call| is_on_host(draft, call)));
        }
        let places = || calls.iter().filter_map(|call| self.place.get(call).copied());
        let (Some(first), Some(last), Some(call)) = (places().min(), places().max(), calls.first()) else {
            return Vec::new();
        };
        let Some(nodes) = self.lanes.get(&draft.lane_of(*call)).filter(|nodes| last < nodes.len()) else {
            return Vec::new();
        };
        // An operator's own time before its first call belongs to it.
        let graph = draft.graph();
        let root = callers(draft, draft.operator_of(nodes[first])).last();
        let root = root.map(|id| graph.operators[id.0 as usize].start);
        let begins = |node: &&Node| root.is_none_or(|start| graph.tasks[draft.beside(**node)].measured_start >= start);
        let before = nodes[..first].iter().rev().take_while(begins).count();
        let is_taken = |node: &Node| calls.contains(node) || (chosen.contains(node) && is_on_host(draft, *node));
        nodes[first - before..=last].iter().copied().filter(is_taken).collect()
    }
}

fn is_on_host(draft: &Draft<'_>, node: Node) -> bool {
    let kind = draft.kind_of(node);
    !kind.is_device() && kind.is_work()
}

/// Puts copies of a segment before its backward pass; how many tasks that added.
fn recompute(draft: &mut Draft<'_>, segment: &Segment, at: Node) -> usize {
    let call = draft.call_of(at).filter(|&call| !draft.kind_of(call).is_device());
    let on_host = draft.kind_of(at) == TaskKind::Compute;
    let host_at = if on_host { Some(at) } else { call };
    let Some(host_at) = host_at else { return 0 };
    let beside = draft.beside(at);
    let copied = chain(draft, &segment.host, host_at, beside, DurNs::ZERO);
    if on_host {
        return copied.len();
    }
    let gap = draft.stream_gap(at);
    let again = chain(draft, &segment.work, at, beside, gap);
    for (&work, &copy) in segment.work.iter().zip(&again) {
        let launch = draft.wires_into(work).into_iter().find(|wire| wire.kind() == DependencyKind::Launch);
        let Some(launch) = launch else { continue };
        if let Some(from) = segment.host.iter().position(|&call| call == launch.from) {
            draft.connect(copied[from], copy, launch.dependency);
        }
    }
    copied.len() + again.len()
}

/// Copies tasks, one after another, and puts them before `at` on its lane.
fn chain(draft: &mut Draft<'_>, of: &[Node], at: Node, beside: NodeId, lag: DurNs) -> Vec<Node> {
    let lane = draft.lane_of(at);
    let copies: Vec<Node> = of.iter().map(|&node| draft.copy(node, lane, beside)).collect();
    let order = order_kind(draft.kind_of(at));
    for pair in copies.windows(2) {
        draft.connect(pair[0], pair[1], Dependency::on_end(order, lag));
    }
    if let (Some(&first), Some(&last)) = (copies.first(), copies.last()) {
        draft.put_before(at, (first, last), lag);
    }
    copies
}

//! `checkpoint SELECTOR`: the selected part of the forward pass runs again before its backward pass, and keeps no activations.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::graph::{Dependency, DependencyKind, LaneId, NodeId, OperatorId, Phase, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, order_kind};
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
    let rest = words.rest();
    Ok(Arc::new(Checkpoint { selector: Selector::parse_at(rest.text, rest.column)? }))
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
        let forward = |&node: &NodeId| {
            let operator = graph.tasks[node].operator;
            operator.is_some_and(|id| graph.operators[id.0 as usize].phase == Phase::Forward)
        };
        let chosen: Vec<NodeId> = self.selector.select_in(draft).into_iter().filter(forward).collect();
        let segments = segments(draft, &chosen);
        if segments.is_empty() {
            return StepReport::nothing(format!("no computation of the forward pass matches {}", self.selector));
        }
        let within = graph.iteration_tasks();
        let (mut changed, mut lost, mut freed) = (0, (0, DurNs::ZERO), 0);
        for segment in &segments {
            let Some(gradient) = segment.gradient else {
                lost.0 += segment.work.len();
                lost.1 += segment.work.iter().map(|&node| draft.price(node).duration).sum();
                continue;
            };
            changed += recompute(draft, segment, gradient);
            if within[segment.work[0].index()] {
                let kept = segment.work.iter().rev().skip(1).filter_map(|&node| draft.work(node));
                freed += kept.map(|work| work.written.0).sum::<u64>();
            }
        }
        let freed = Bytes(freed / graph.ranks.len().max(1) as u64);
        draft.free(freed);
        let done = segments.iter().filter(|segment| segment.gradient.is_some()).count();
        let mut report = StepReport { changed, ..StepReport::default() };
        if done > 0 {
            report.summary = format!("{} run again, {freed} less kept per step", count(done, "segment"));
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
    work: Vec<NodeId>,
    host: Vec<NodeId>,
    /// The first work of its backward pass.
    gradient: Option<NodeId>,
}

fn computes(kind: TaskKind) -> bool {
    matches!(kind, TaskKind::Kernel | TaskKind::Compute)
}

fn segments(draft: &Draft<'_>, chosen: &[NodeId]) -> Vec<Segment> {
    let graph = draft.graph();
    let gradients = gradients(draft);
    let within = graph.iteration_tasks();
    let mut lanes: BTreeMap<(LaneId, bool), Vec<NodeId>> = BTreeMap::new();
    for node in graph.tasks.node_indices().filter(|&node| computes(graph.tasks[node].kind) && !draft.is_removed(node)) {
        lanes.entry((graph.tasks[node].lane, within[node.index()])).or_default().push(node);
    }
    let is_chosen = |node: &NodeId| chosen.binary_search(node).is_ok();
    let mut segments = Vec::new();
    for nodes in lanes.values() {
        for run in nodes.chunk_by(|a, b| is_chosen(a) == is_chosen(b)).filter(|run| is_chosen(&run[0])) {
            let gradient = run.iter().filter_map(|&node| gradient_of(draft, &gradients, node)).min();
            segments.push(Segment { host: host_of(draft, chosen, run), work: run.to_vec(), gradient });
        }
    }
    segments
}

/// By forward operator the first work of its backward pass.
fn gradients(draft: &Draft<'_>) -> BTreeMap<OperatorId, NodeId> {
    let graph = draft.graph();
    let mut first = BTreeMap::new();
    for node in graph.tasks.node_indices().filter(|&node| computes(graph.tasks[node].kind) && !draft.is_removed(node)) {
        for id in callers(draft, graph.tasks[node].operator) {
            let operator = &graph.operators[id.0 as usize];
            if let Some(forward) = operator.forward.filter(|_| operator.phase == Phase::Backward) {
                first.entry(forward).or_insert(node);
            }
        }
    }
    first
}

/// The first backward work of the operator of `node`, one around it, or one inside it.
fn gradient_of(draft: &Draft<'_>, gradients: &BTreeMap<OperatorId, NodeId>, node: NodeId) -> Option<NodeId> {
    let graph = draft.graph();
    let inside = |id: OperatorId| {
        let end = graph.operators[id.0 as usize].subtree_end;
        gradients.range(id..end).map(|(_, &node)| node).min()
    };
    callers(draft, graph.tasks[node].operator).find_map(inside).filter(|&gradient| gradient > node)
}

fn callers<'d>(draft: &'d Draft<'_>, operator: Option<OperatorId>) -> impl Iterator<Item = OperatorId> + use<'d> {
    let operators = &draft.graph().operators;
    std::iter::successors(operator, |id| operators.get(id.0 as usize)?.parent)
}

/// The selected host tasks around the launches of `run`, else those launches; on a host the run itself.
fn host_of(draft: &Draft<'_>, chosen: &[NodeId], run: &[NodeId]) -> Vec<NodeId> {
    let graph = draft.graph();
    let calls: Vec<NodeId> = run
        .iter()
        .map(
            |&node| {
                if graph.tasks[node].kind == TaskKind::Compute { node } else { graph.launch_of(node).unwrap_or(node) }
            },
        )
        .filter(|&call| !graph.tasks[call].kind.is_device() && graph.tasks[call].kind.is_work())
        .collect();
    let (Some(&first), Some(&last)) = (calls.iter().min(), calls.iter().max()) else { return Vec::new() };
    let lane = graph.tasks[first].lane;
    // An operator's own time before its first call belongs to it.
    let root = callers(draft, graph.tasks[first].operator).last().map(|id| graph.operators[id.0 as usize].start);
    let between = chosen.iter().copied().filter(|&node| {
        let task = &graph.tasks[node];
        let begins = root.is_none_or(|start| task.measured_start >= start);
        task.lane == lane && !task.kind.is_device() && node <= last && (node >= first || begins)
    });
    let mut host: Vec<NodeId> = between.chain(calls.iter().copied().filter(|&c| graph.tasks[c].lane == lane)).collect();
    host.sort_unstable();
    host.dedup();
    host
}

/// Puts copies of a segment before its backward pass; how many tasks that added.
fn recompute(draft: &mut Draft<'_>, segment: &Segment, gradient: NodeId) -> usize {
    let at = Node::Traced(gradient);
    let call = draft.call_of(at).filter(|&call| !draft.kind_of(call).is_device());
    let on_host = draft.kind_of(at) == TaskKind::Compute;
    let host_at = if on_host { Some(at) } else { call };
    let Some(host_at) = host_at else { return 0 };
    let host: Vec<Node> = segment.host.iter().map(|&node| Node::Traced(node)).collect();
    let copied = chain(draft, &host, host_at, gradient, DurNs::ZERO);
    if on_host {
        return copied.len();
    }
    let gap = draft.stream_gap(at);
    let work: Vec<Node> = segment.work.iter().map(|&node| Node::Traced(node)).collect();
    let again = chain(draft, &work, at, gradient, gap);
    for (&work, &copy) in work.iter().zip(&again) {
        let launch = draft.wires_into(work).into_iter().find(|wire| wire.kind() == DependencyKind::Launch);
        let Some(launch) = launch else { continue };
        if let Some(from) = host.iter().position(|&call| call == launch.from) {
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

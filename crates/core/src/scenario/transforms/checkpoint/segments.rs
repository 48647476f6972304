//! The runs of selected work, their stages, and the segments that stages make up.

use std::collections::BTreeMap;

use crate::graph::{ExecutionGraph, Lane, LaneId, LaneKind, OperatorId, Phase, TaskKind, launches_graph};
use crate::scenario::draft::{Draft, Node, NodeSet};
use crate::units::TimeNs;

/// Neighbouring selected work of the forward pass with its host tasks.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) work: Vec<Node>,
    pub(super) host: Vec<Node>,
    /// The first work of its backward pass.
    pub(super) gradient: Option<Node>,
    /// Whether it is the last of several, which keeps what it has.
    pub(super) is_kept: bool,
    /// When its host work begins and that of the next does, and when its backward pass does, as measured.
    pub(super) begins: TimeNs,
    pub(super) ends: TimeNs,
    pub(super) again: TimeNs,
}

/// The segments of all runs of chosen work.
///
/// # Arguments
/// `within`: whether each traced task is of the iteration; `wanted`: into how many each run is cut.
pub(super) fn of(draft: &Draft<'_>, chosen: &NodeSet, within: &[bool], wanted: Option<u64>) -> Vec<Segment> {
    let order = Order::of(draft);
    let launched = order.launched(draft);
    let gradients = Gradients::of(draft, launched.iter().flatten());
    let mut segments = Vec::new();
    for nodes in &launched {
        let side = |node: Node| (chosen.contains(node), within[draft.beside(node).index()]);
        let alike = |a: &Node, b: &Node| side(*a) == side(*b);
        for run in nodes.chunk_by(alike).filter(|run| chosen.contains(run[0])) {
            let stages = stages(draft, run);
            let size = stages.len();
            let parts = wanted.map_or(size.isqrt() + usize::from(size.isqrt().pow(2) < size), |wanted| wanted as usize);
            let parts = parts.clamp(1, size.max(1));
            for part in 0..parts {
                let of_part = part * (size / parts)..if part + 1 == parts { size } else { (part + 1) * (size / parts) };
                let (own, next) = (&stages[of_part.clone()], stages.get(of_part.end));
                let last = parts > 1 && part + 1 == parts;
                segments.push(segment(draft, &order, chosen, &gradients, (run, own, next), last));
            }
        }
    }
    segments
}

fn computes(kind: TaskKind) -> bool {
    matches!(kind, TaskKind::Kernel | TaskKind::Compute)
}

fn segment(
    draft: &Draft<'_>,
    order: &Order,
    chosen: &NodeSet,
    gradients: &Gradients,
    (run, stages, next): (&[Node], &[Stage], Option<&Stage>),
    is_kept: bool,
) -> Segment {
    let graph = draft.graph();
    let work = run[stages[0].from..next.map_or(run.len(), |next| next.from)].to_vec();
    let last = graph.tasks[draft.beside(*work.last().unwrap_or(&work[0]))];
    let gradient =
        gradients.of_stages(draft, stages).filter(|&gradient| draft.beside(gradient) > draft.beside(work[0]));
    let begins = begin(draft, stages[0].operator, work[0]);
    let ends = next.map(|next| begin(draft, next.operator, run[next.from]));
    let of_last = || stages.last().and_then(|stage| stage.operator).map(|id| end(graph, id));
    let ends = ends.or_else(of_last).unwrap_or(last.measured_end());
    let again = gradient.map_or(TimeNs(i64::MAX), |gradient| {
        let callers = callers(graph, draft.operator_of(gradient));
        let outermost = callers.filter(|id| graph.operators[id.0 as usize].phase == Phase::Backward).last();
        begin(draft, outermost, gradient)
    });
    let host = order.host_of(draft, chosen, &work, begins);
    Segment { work, host, gradient, is_kept, begins, ends, again }
}

/// When an operator begins, without one the call of its work.
fn begin(draft: &Draft<'_>, operator: Option<OperatorId>, work: Node) -> TimeNs {
    let graph = draft.graph();
    let beside = draft.beside(work);
    let call = || graph.tasks[graph.launch_of(beside).unwrap_or(beside)].measured_start;
    operator.map_or_else(call, |id| graph.operators[id.0 as usize].start)
}

fn end(graph: &ExecutionGraph, id: OperatorId) -> TimeNs {
    graph.operators[id.0 as usize].start + graph.operators[id.0 as usize].dur
}

fn callers(graph: &ExecutionGraph, operator: Option<OperatorId>) -> impl Iterator<Item = OperatorId> + use<'_> {
    std::iter::successors(operator, |id| graph.operators.get(id.0 as usize)?.parent)
}

/// A piece of a run that a user would name: a module, a marked range, else an operator.
#[derive(Debug)]
struct Stage {
    /// Its first work's place in the run.
    from: usize,
    /// The outermost operator that is its alone.
    operator: Option<OperatorId>,
}

/// Something around a piece of work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope<'b> {
    Module(&'b str),
    Operator(OperatorId),
}

/// The stages of a run. What holds more than half of its work is no stage but is looked into; an operator that writes over
/// its argument goes with what made that.
fn stages(draft: &Draft<'_>, run: &[Node]) -> Vec<Stage> {
    let graph = draft.graph();
    let scopes: Vec<Vec<Scope<'_>>> = run.iter().map(|&node| scopes(graph, draft.operator_of(node))).collect();
    let mut stages = Vec::new();
    divide(&scopes, 0..run.len(), 0, &mut stages);
    let stands_alone = |stage: &Stage| stage.from == 0 || !is_in_place(draft, run[stage.from]);
    stages.retain(stands_alone);
    stages
}

/// What is around an operator's work, outermost first.
fn scopes(graph: &ExecutionGraph, operator: Option<OperatorId>) -> Vec<Scope<'_>> {
    let mut around: Vec<OperatorId> = callers(graph, operator).collect();
    around.reverse();
    let module = around.first().map_or("", |id| graph.names.get(graph.operators[id.0 as usize].module));
    // Without modules a trace may tell the line of the source, which says nothing of what belongs together.
    let module = if module.contains(".py(") { "" } else { module };
    let modules = module.split('/').filter(|part| !part.is_empty()).map(Scope::Module);
    modules.chain(around.into_iter().map(Scope::Operator)).collect()
}

fn divide(scopes: &[Vec<Scope<'_>>], range: std::ops::Range<usize>, depth: usize, stages: &mut Vec<Stage>) {
    let mut from = range.start;
    while from < range.end {
        let own = scopes[from].get(depth);
        let alike = scopes[from..range.end].iter().take_while(|scopes| scopes.get(depth) == own).count();
        if own.is_some() && 2 * alike > scopes.len() && alike > 1 {
            divide(scopes, from..from + alike, depth + 1, stages);
        } else {
            let operator = |scope: &Scope<'_>| if let Scope::Operator(id) = scope { Some(*id) } else { None };
            let inside = scopes[from].get(depth..).and_then(|inside| inside.iter().find_map(operator));
            stages.push(Stage { from, operator: inside.or_else(|| scopes[from].iter().rev().find_map(operator)) });
        }
        from += alike;
    }
}

/// Whether a task writes over its argument, so that nothing more is kept for it.
fn is_in_place(draft: &Draft<'_>, node: Node) -> bool {
    let graph = draft.graph();
    callers(graph, draft.operator_of(node)).any(|id| {
        let name = graph.names.get(graph.operators[id.0 as usize].name);
        name.starts_with("aten::") && name.ends_with('_')
    })
}

/// By operator the first work of its backward pass where it is one of the forward pass, with its place among those of its step.
struct Gradients(Vec<Option<(usize, Node)>>);

impl Gradients {
    fn of<'n>(draft: &Draft<'_>, nodes: impl Iterator<Item = &'n Node>) -> Self {
        let graph = draft.graph();
        let mut first = vec![None; graph.operators.len()];
        for (place, &node) in nodes.enumerate().filter(|&(_, &node)| draft.phase_of(node) == Some(Phase::Backward)) {
            for id in callers(graph, draft.operator_of(node)) {
                let operator = &graph.operators[id.0 as usize];
                if let Some(forward) = operator.forward.filter(|_| operator.phase == Phase::Backward) {
                    first[forward.0 as usize].get_or_insert((place, node));
                }
            }
        }
        Self(first)
    }

    /// The first backward work of any of the stages' operators, else of one around them.
    fn of_stages(&self, draft: &Draft<'_>, stages: &[Stage]) -> Option<Node> {
        let graph = draft.graph();
        let operators = || stages.iter().filter_map(|stage| stage.operator);
        let inside = |id: OperatorId| {
            let end = graph.operators[id.0 as usize].subtree_end;
            let subtree = self.0.get(id.0 as usize..end.0 as usize).unwrap_or_default();
            subtree.iter().flatten().copied().min_by_key(|placed| placed.0)
        };
        let around = |id| callers(graph, Some(id)).find_map(|id| self.0[id.0 as usize]);
        let first = operators().filter_map(inside).min_by_key(|placed| placed.0);
        first.or_else(|| operators().find_map(around)).map(|(_, node)| node)
    }
}

/// The lanes' tasks in order, and the place of each among them.
struct Order {
    lanes: BTreeMap<LaneId, Vec<Node>>,
    /// By numbered task one more than its place; 0 for one that is gone.
    place: Vec<u32>,
    traced: usize,
}

impl Order {
    fn of(draft: &Draft<'_>) -> Self {
        let lanes = draft.in_order(|_| true);
        let traced = draft.graph().tasks.node_count();
        let mut place = vec![0; traced + draft.added().len()];
        for (at, node) in lanes.values().flat_map(|nodes| (1..).zip(nodes)) {
            place[node.number(traced) as usize] = at;
        }
        Self { lanes, place, traced }
    }

    /// What computes, in the order in which it was launched: that of all streams of a device, which may take turns in one pass; that of a
    /// stream for itself where calls were not recorded.
    fn launched(&self, draft: &Draft<'_>) -> Vec<Vec<Node>> {
        let graph = draft.graph();
        let start = |node| draft.own_call_of(node).map(|call| graph.tasks[draft.beside(call)].measured_start);
        let (mut together, mut alone) = (BTreeMap::<_, Vec<(TimeNs, Node)>>::new(), Vec::new());
        for (&lane, nodes) in &self.lanes {
            let nodes = || nodes.iter().copied().filter(|&node| computes(draft.kind_of(node)));
            let device = match draft.lane(lane) {
                Some(&Lane { rank, kind: LaneKind::Stream { device, .. }, .. }) => Some((rank, device)),
                _ => None,
            };
            let Some(device) = device.filter(|_| nodes().any(|node| start(node).is_some())) else {
                alone.push(nodes().collect());
                continue;
            };
            // What has no call of its own follows what is before it on its stream.
            let mut latest = TimeNs(i64::MIN);
            let placed = nodes().map(|node| {
                latest = start(node).map_or(latest, |start| start.max(latest));
                (latest, node)
            });
            together.entry(device).or_default().extend(placed);
        }
        let in_order = |mut nodes: Vec<(TimeNs, Node)>| {
            nodes.sort_by_key(|&(start, _)| start);
            nodes.into_iter().map(|(_, node)| node).collect()
        };
        together.into_values().map(in_order).chain(alone).collect()
    }

    fn place(&self, node: Node) -> Option<usize> {
        (self.place[node.number(self.traced) as usize] as usize).checked_sub(1)
    }

    /// The selected host tasks around the launches of `work`, else those launches, from `begins` on; on a host the work itself.
    fn host_of(&self, draft: &Draft<'_>, chosen: &NodeSet, work: &[Node], begins: TimeNs) -> Vec<Node> {
        let call =
            |node: Node| if draft.kind_of(node) == TaskKind::Compute { Some(node) } else { draft.own_call_of(node) };
        // The launch of a captured graph has launched what runs again, too.
        let runs_again = |call: &Node| is_on_host(draft, *call) && !launches_graph(draft.name_of(*call));
        let calls = work.iter().filter_map(|&node| call(node).filter(runs_again));
        let mut calls: Vec<Node> = calls.collect();
        calls.sort_unstable();
        let places = || calls.iter().filter_map(|&call| self.place(call));
        let (Some(first), Some(last), Some(&call)) = (places().min(), places().max(), calls.first()) else {
            return Vec::new();
        };
        let Some(nodes) = self.lanes.get(&draft.lane_of(call)).filter(|nodes| last < nodes.len()) else {
            return Vec::new();
        };
        // An operator's own time before its first call belongs to it.
        let graph = draft.graph();
        let is_own = |node: &&Node| graph.tasks[draft.beside(**node)].measured_start >= begins;
        let before = nodes[..first].iter().rev().take_while(is_own).count();
        let is_call = |node: &Node| calls.binary_search(node).is_ok();
        let is_taken = |node: &Node| is_call(node) || (chosen.contains(*node) && is_on_host(draft, *node));
        nodes[first - before..=last].iter().copied().filter(is_taken).collect()
    }
}

fn is_on_host(draft: &Draft<'_>, node: Node) -> bool {
    let kind = draft.kind_of(node);
    !kind.is_device() && kind.is_work()
}

//! `cuda-graph [SELECTOR]`: one launch of a captured graph instead of one launch per kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cost::{Prediction, Provenance};
use crate::graph::{CopyStep, Dependency, DependencyKind, HostPart, LaneId, NodeId, TaskKind, launches_graph};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, DraftEdge, Node, NodeSet};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{Stage, StepReport, Transform};
use crate::units::{DurNs, TimeNs};

use super::report::count;

/// Replays kernels from a graph.
#[derive(Clone, Debug, PartialEq)]
struct CudaGraph {
    /// Which kernels; all without one.
    selector: Option<Selector>,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "cuda-graph",
    help: "launches what a thread does between two waits for the device as one graph: launches and the host time between them go",
    example: "cuda-graph phase=forward",
    forms: &[Form {
        arguments: &[Argument::selector().optional()],
        build: |given| Some(Arc::new(CudaGraph { selector: given.get(0)? })),
    }],
    knobs: &[],
};

/// Host time of a graph launch: a fixed part, and a part per kernel. CUDA's is between some ns and 0.2 µs by version.
const LAUNCH: DurNs = DurNs(10_000);
const PER_KERNEL: DurNs = DurNs(50);
/// HIP may submit a graph kernel by kernel: 1573 µs for 555 of them (an MI300X). Between drivers this differs tenfold, so a trace that
/// holds launches of graphs tells its own.
const PER_KERNEL_HIP: DurNs = DurNs(2_800);
/// Gap between kernels of a graph on one stream.
const GAP: DurNs = DurNs(600);
/// Longest host time between operators that is taken to be the model's own: what lasts longer does something else.
const LONGEST_BETWEEN: DurNs = DurNs(1_000_000);
/// Share of the gain that is assumed: whether all of the host's time between launches can be captured.
const DOUBT: f32 = 0.25;
/// Relative error of these figures between drivers.
const ERROR: f32 = 0.5;

impl Transform for CudaGraph {
    fn stage(&self) -> Stage {
        Stage::Launch
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let groups = self.groups(draft);
        if groups.is_empty() {
            return StepReport::nothing("no two launched kernels to capture");
        }
        let mut report = StepReport::default();
        let (mut kernels, mut graphs) = (0, 0);
        let measured = measured_per_kernel(draft);
        leave_queue(draft, groups.values().flatten().map(|launch| launch.kernel));
        let lanes = draft.in_order(|node| !draft.kind_of(node).is_device());
        for (Group { lane, step, .. }, launches) in &groups {
            let host = lanes.get(lane).map(Vec::as_slice).unwrap_or_default();
            let (captured, host) = capture(draft, launches, host, measured);
            report.changed += captured + host;
            let is_chosen = *step == CopyStep::Chosen;
            kernels += if is_chosen { captured } else { 0 };
            graphs += usize::from(is_chosen);
        }
        report.say(Effect::assumed("all of the host's time between launches can be captured", DOUBT));
        report.summary = format!("{} in {}", count(kernels, "kernel"), count(graphs, "graph"));
        report.say(Effect::note("memory of the graph's own pool and of inputs at fixed places is not counted"));
        if let Some(cost) = measured {
            let cost = format!(
                "launching the graphs is taken to cost {cost} a kernel, as launches of graphs did in the trace"
            );
            report.say(Effect::assumption(cost));
        }
        if graphs > 1 {
            report.say(Effect::note(format!("{graphs} graphs per step: host waits and threads part them")));
        }
        report
    }
}

/// A kernel and where it is launched.
#[derive(Clone, Copy, Debug)]
struct Launch {
    kernel: Node,
    call: Node,
    /// The call, or the joint after one that may have waited for room in the queue.
    from: Node,
}

impl Launch {
    fn of(draft: &Draft<'_>, kernel: Node) -> Option<Self> {
        let from = draft.call_of(kernel)?;
        let is_graph = |node: Node| launches_graph(draft.name_of(node));
        let is_call = |node: Node| draft.kind_of(node) == TaskKind::Runtime && !draft.is_gone(node) && !is_graph(node);
        let is_before = |edge: &DraftEdge| edge.kind() == DependencyKind::Program && is_call(edge.from);
        let call = match draft.kind_of(from) {
            TaskKind::Joint => draft.edges_into(from).find(is_before)?.from,
            _ => Some(from).filter(|&from| is_call(from))?,
        };
        Some(Self { kernel, call, from })
    }
}

impl CudaGraph {
    /// Kernels with their launches, by the graph that they become part of.
    fn groups(&self, draft: &mut Draft<'_>) -> BTreeMap<Group, Vec<Launch>> {
        let chosen: Option<NodeSet> =
            self.selector.as_ref().map(|selector| selector.select_all(draft).into_iter().collect());
        let is_kernel = |node: &Node| {
            matches!(draft.kind_of(*node), TaskKind::Kernel | TaskKind::Memset)
                && chosen.as_ref().is_none_or(|chosen| chosen.contains(*node))
        };
        let kernels: Vec<Node> = draft.nodes().filter(is_kernel).collect();
        let copies = draft.base().copies();
        let mut groups: BTreeMap<Group, Vec<Launch>> = BTreeMap::new();
        let mut parts: BTreeMap<(LaneId, CopyStep), u32> = BTreeMap::new();
        let mut last_on: BTreeMap<LaneId, (LaneId, CopyStep)> = BTreeMap::new();
        let mut launches: Vec<Launch> = kernels.into_iter().filter_map(|kernel| Launch::of(draft, kernel)).collect();
        launches.sort_by_key(|launch| draft.graph().tasks[draft.beside(launch.call)].measured_start);
        let waits = waits(draft);
        for launch in launches {
            let from @ (lane, step) = (draft.lane_of(launch.call), copies.step(draft.beside(launch.kernel)));
            let part = parts.entry(from).or_default();
            let before = last_on.insert(draft.lane_of(launch.kernel), from);
            *part += u32::from(before.is_some_and(|before| before != from));
            let at = draft.graph().tasks[draft.beside(launch.call)].measured_start;
            let waited = waits.get(&lane).map_or(0, |waits| waits.partition_point(|&wait| wait <= at));
            groups.entry(Group { lane, step, part: *part, waited }).or_default().push(launch);
        }
        groups.retain(|_, launches| launches.len() > 1);
        groups
    }
}

/// A graph: what a thread launches in a step until work that another thread launched comes between on a stream, or the thread waits for the
/// device, which no graph does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    lane: LaneId,
    step: CopyStep,
    part: u32,
    /// How often the thread waited before.
    waited: usize,
}

/// When each thread waited for the device, in order.
fn waits(draft: &Draft<'_>) -> BTreeMap<LaneId, Vec<TimeNs>> {
    let is_wait = |edge: &DraftEdge| matches!(edge.kind(), DependencyKind::HostWait | DependencyKind::HiddenWait);
    let joints = draft.nodes().filter(|&node| draft.kind_of(node) == TaskKind::Joint && !draft.is_gone(node));
    let mut waits: BTreeMap<LaneId, Vec<TimeNs>> = BTreeMap::new();
    for joint in joints.filter(|&joint| draft.edges_into(joint).any(|edge| is_wait(&edge))) {
        let at = draft.graph().tasks[draft.beside(joint)].measured_start;
        waits.entry(draft.lane_of(joint)).or_default().push(at);
    }
    for of_lane in waits.values_mut() {
        of_lane.sort_unstable();
    }
    waits
}

/// Lets no call wait for room in the queue until one of `captured` has run, since their graph takes one place whatever it holds, nor until
/// what was taken out would have.
fn leave_queue(draft: &mut Draft<'_>, captured: impl Iterator<Item = Node>) {
    let all: Vec<Node> = captured.chain(draft.removed().map(Node::Traced)).collect();
    let mut edges: Vec<DraftEdge> = Vec::new();
    for node in all {
        edges.extend(draft.edges_from(node).filter(|edge| edge.kind() == DependencyKind::LaunchQueue));
        edges.drain(..).for_each(|edge| draft.disconnect(&edge));
    }
}

/// Lets `first` launch a kernel, closer to those of `kernels` that are before it on its stream.
///
/// # Arguments
/// `edges`: room to work in.
fn launch_by(draft: &mut Draft<'_>, first: Node, launch: &Launch, kernels: &NodeSet, edges: &mut Vec<DraftEdge>) {
    let &Launch { kernel, call, from } = launch;
    edges.clear();
    if from != call {
        // A graph takes one place in the queue: its kernels wait for none.
        edges.extend(draft.edges_into(from).filter(|edge| edge.kind() == DependencyKind::LaunchQueue));
        edges.drain(..).for_each(|edge| draft.disconnect(&edge));
    }
    edges.extend(draft.edges_into(kernel));
    for edge in &*edges {
        match edge.kind() {
            DependencyKind::Launch | DependencyKind::LaunchQueue => {
                draft.disconnect(edge);
                if edge.from == from {
                    draft.connect(first, kernel, edge.dependency);
                }
            }
            DependencyKind::Stream if kernels.contains(edge.from) && edge.dependency.lag > GAP => {
                draft.disconnect(edge);
                draft.connect(edge.from, kernel, Dependency { lag: GAP, ..edge.dependency });
            }
            _ => {}
        }
    }
}

/// What the trace's own launches of graphs took for each kernel, beyond the fixed part of each; `None` where it has none.
fn measured_per_kernel(draft: &Draft<'_>) -> Option<DurNs> {
    let graph = draft.graph();
    let mut kernels: BTreeMap<NodeId, i64> = BTreeMap::new();
    for node in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel) {
        let call = graph.launch_of(node).filter(|&call| launches_graph(graph.names.get(graph.tasks[call].name)));
        if let Some(call) = call {
            *kernels.entry(call).or_default() += 1;
        }
    }
    let time: DurNs = kernels.keys().map(|&call| (graph.tasks[call].duration - LAUNCH).max(DurNs::ZERO)).sum();
    let launched: i64 = kernels.values().sum();
    (launched > 0).then(|| DurNs(time.0 / launched))
}

/// Replaces the launches by the first of them; how many kernels and how many host tasks that changed.
///
/// # Arguments
/// `host`: the host tasks of the launching lane, in order; `measured`: what a kernel of a graph costs to launch, where the trace tells.
fn capture(draft: &mut Draft<'_>, launches: &[Launch], host: &[Node], measured: Option<DurNs>) -> (usize, usize) {
    let calls: NodeSet = launches.iter().map(|launch| launch.call).collect();
    let kernels: NodeSet = launches.iter().map(|launch| launch.kernel).collect();
    let is_call = |node: &Node| calls.contains(*node);
    let (Some(begin), Some(end)) = (host.iter().position(is_call), host.iter().rposition(is_call)) else {
        return (0, 0);
    };
    let first = host[begin];
    let rank = draft.base().rank_index(draft.lane_of(first));
    let is_hip = draft.device(rank).is_some_and(|device| device.is_amd);
    let per_kernel = measured.unwrap_or(if is_hip { PER_KERNEL_HIP } else { PER_KERNEL });
    let duration = LAUNCH + per_kernel * launches.len() as i64;
    let prediction = Prediction {
        duration,
        provenance: Provenance::Absolute,
        model: "graph-launch",
        error: ERROR,
        extrapolated: false,
    };
    draft.set_price(first, prediction);
    draft.reserve(0, 2 * launches.len());
    let mut edges = Vec::new();
    for launch in launches.iter().filter(|launch| launch.call != first) {
        launch_by(draft, first, launch, &kernels, &mut edges);
    }
    let of_model = |node: &Node| match draft.kind_of(*node) {
        TaskKind::Host(HostPart::Between) => draft.price_of(*node).duration <= LONGEST_BETWEEN,
        TaskKind::Host(_) => draft.operator_of(*node).is_some(),
        _ => false,
    };
    let between = host[begin..=end].iter().copied().filter(|node| *node != first && (is_call(node) || of_model(node)));
    let gone: Vec<Node> = between.collect();
    for &node in &gone {
        draft.take_out(node);
    }
    (launches.len(), gone.len())
}

//! `cuda-graph [SELECTOR]`: one launch of a captured graph instead of one launch per kernel.

use std::collections::BTreeMap;
use std::sync::Arc;

use petgraph::Direction::Incoming;
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashSet;

use crate::cost::{Prediction, Provenance};
use crate::graph::{Dependency, DependencyKind, LaneId, LaneKind, NodeId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::selector::Selector;
use crate::scenario::step::StepError;
use crate::scenario::text::Words;
use crate::scenario::transform::{StepReport, Transform, TransformSpec};
use crate::units::DurNs;

use super::report::count;

/// Replays kernels from a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct CudaGraph {
    /// Which kernels; all without one.
    pub selector: Option<Selector>,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "cuda-graph",
    usage: "cuda-graph [SELECTOR]",
    help: "launches the kernels of a step as one graph per thread: launches and the host time between them go",
    example: "cuda-graph phase=forward",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let rest = words.rest();
    let selector = (!rest.text.is_empty()).then(|| Selector::parse_at(rest.text, rest.column)).transpose()?;
    Ok(Arc::new(CudaGraph { selector }))
}

/// Host time of a graph launch: a fixed part, and a part per kernel.
const LAUNCH: DurNs = DurNs(10_000);
const PER_KERNEL: DurNs = DurNs(50);
/// Gap between kernels of a graph on one stream.
const GAP: DurNs = DurNs(600);
/// Relative error of these figures between drivers.
const ERROR: f32 = 0.5;

impl Transform for CudaGraph {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn selectors(&self) -> Vec<&Selector> {
        self.selector.iter().collect()
    }

    fn line(&self) -> String {
        self.selector.as_ref().map_or_else(|| SPEC.name.to_owned(), |selector| format!("{} {selector}", SPEC.name))
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let groups = self.groups(draft);
        if groups.is_empty() {
            return StepReport::nothing("no two launched kernels to capture");
        }
        let mut report = StepReport::default();
        let (mut kernels, mut graphs) = (0, 0);
        for ((_, step), launches) in &groups {
            let (captured, host) = capture(draft, launches);
            report.changed += captured + host;
            kernels += captured;
            graphs += usize::from(*step);
        }
        report.summary = format!("{} in {}", count(kernels, "kernel"), count(groups.len(), "graph"));
        if graphs > 1 {
            report.unhandled.push(format!("{graphs} graphs per step: host waits and threads part them"));
        }
        report
    }
}

impl CudaGraph {
    /// Kernels with their launches, by launching lane and step.
    fn groups(&self, draft: &Draft<'_>) -> BTreeMap<(LaneId, bool), Vec<(NodeId, NodeId)>> {
        let graph = draft.graph();
        let chosen = self.selector.as_ref().map(|selector| selector.select_in(draft));
        let within = graph.iteration_tasks();
        let mut groups: BTreeMap<_, Vec<(NodeId, NodeId)>> = BTreeMap::new();
        for node in graph.tasks.node_indices().filter(|&node| !draft.is_removed(node)) {
            let is_kernel = matches!(graph.tasks[node].kind, TaskKind::Kernel | TaskKind::Memset);
            let is_chosen = chosen.as_ref().is_none_or(|chosen| chosen.binary_search(&node).is_ok());
            let Some(call) = graph.launch_of(node).filter(|_| is_kernel && is_chosen) else { continue };
            if graph.tasks[call].kind == TaskKind::Runtime && !draft.is_removed(call) {
                let key = (graph.tasks[call].lane, within[node.index()]);
                groups.entry(key).or_default().push((node, call));
            }
        }
        groups.retain(|_, launches| launches.len() > 1);
        groups
    }
}

/// Replaces the launches by the first of them; how many kernels and how many host tasks that changed.
fn capture(draft: &mut Draft<'_>, launches: &[(NodeId, NodeId)]) -> (usize, usize) {
    let graph = draft.graph();
    let Some(first) = launches.iter().map(|&(_, call)| call).min() else { return (0, 0) };
    let calls: FxHashSet<NodeId> = launches.iter().map(|&(_, call)| call).collect();
    let kernels: FxHashSet<NodeId> = launches.iter().map(|&(kernel, _)| kernel).collect();
    let Some(last) = calls.iter().copied().max() else { return (0, 0) };
    let duration = LAUNCH + DurNs(PER_KERNEL.0 * launches.len() as i64);
    let prediction = Prediction {
        duration,
        provenance: Provenance::Absolute,
        model: "graph-launch",
        error: ERROR,
        extrapolated: false,
    };
    draft.set_duration(first, prediction);
    for &(kernel, call) in launches.iter().filter(|&&(_, call)| call != first) {
        for edge in graph.tasks.edges_directed(kernel, Incoming) {
            let dependency = *edge.weight();
            match dependency.kind {
                DependencyKind::Launch | DependencyKind::LaunchQueue => {
                    draft.cut(edge.id());
                    let lag = Dependency { lag: dependency.lag, ..dependency };
                    if edge.source() == call {
                        draft.connect(Node::Traced(first), Node::Traced(kernel), lag);
                    }
                }
                DependencyKind::Stream if kernels.contains(&edge.source()) && dependency.lag > GAP => {
                    draft.set_dependency(edge.id(), Dependency { lag: GAP, ..dependency });
                }
                _ => {}
            }
        }
    }
    let host = between(draft, first, last, &calls);
    for &node in &host {
        draft.remove(node);
    }
    (launches.len(), host.len())
}

/// The host tasks of operators, and the captured launches, from the first launch to the last.
fn between(draft: &Draft<'_>, first: NodeId, last: NodeId, calls: &FxHashSet<NodeId>) -> Vec<NodeId> {
    let graph = draft.graph();
    let lane = graph.tasks[first].lane;
    debug_assert!(matches!(graph.lanes[lane.0 as usize].kind, LaneKind::Thread { .. }));
    let goes = |&node: &NodeId| {
        let task = &graph.tasks[node];
        let of_model = matches!(task.kind, TaskKind::Host(_)) && task.operator.is_some();
        task.lane == lane && node != first && (calls.contains(&node) || of_model) && !draft.is_removed(node)
    };
    let range = first.index()..=last.index();
    range.map(NodeId::new).filter(goes).collect()
}

//! `place-on DEVICE`: a model without measured device times as it would run on a device: a GPU [Lin 2022, Fig. 3], a CPU or a
//! hypothetical one [Kakrannava 2024 §IV].
//!
//! Device work is what the absolute models say. On a GPU host time comes from the overhead database; on any other device operators
//! run one after another and nothing launches them. Nothing of the host's own computation stays.

mod host;
mod inputs;
mod kernels;

use std::sync::Arc;

use petgraph::visit::EdgeRef;

use crate::cost::{Prediction, Provenance, Shape};
use crate::device::{DeviceKind, DeviceProfile};
use crate::graph::{Dependency, DependencyKind, ExecutionGraph, LaneKind, NodeId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::transform::{Stage, StepReport, Transform};
use crate::units::{DurNs, Percent};

use super::report::count;
use super::swap_gpu::SwapGpu;

/// Turns every host computation into the work that a build of the framework for the device makes of it.
#[derive(Clone, Debug, PartialEq)]
struct PlaceOn {
    /// The device, as written.
    device: String,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "place-on",
    help: "runs a model without measured device times on a device: a GPU, a CPU or a hypothetical one, as predicted",
    example: "place-on V100",
    forms: &[Form {
        arguments: &[Argument::new("DEVICE", "the name of a device, e.g. V100", Kind::Device)],
        build: |given| Some(Arc::new(PlaceOn { device: given.get(0)? })),
    }],
    knobs: &[],
};

impl Transform for PlaceOn {
    fn stage(&self) -> Stage {
        Stage::Device
    }

    fn places(&self) -> bool {
        true
    }

    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        let device = match context.catalog.find(&self.device) {
            Ok(device) => device.clone(),
            Err(unknown) => return StepReport::impossible(unknown.to_string()),
        };
        let launches = device.kind == DeviceKind::Gpu;
        let switches = launches != draft.devices().iter().all(|device| device.kind == DeviceKind::Gpu);
        let mut report = match device_work(draft) {
            None => place(draft, &device),
            Some(Placed::Here) if switches => return StepReport::impossible(ONCE),
            Some(Placed::Recorded) if !context.is_placed => return StepReport::impossible(MEASURED),
            Some(_) => SwapGpu { device: device.id.clone(), host: 1.0 }.move_to(draft, &device),
        };
        if switches && context.is_placed {
            report.changed += switch_launches(draft, launches);
        }
        if device.kind != DeviceKind::Gpu && report.changed > 0 {
            let start = device.kernel_start;
            report.say(Effect::assumption(format!(
                "nothing is launched there: operators run one after another, each begun in {start}, no host time between them"
            )));
        }
        report
    }
}

const MEASURED: &str = "its device work was measured: swap-gpu moves it, from measured times, to another device";
const ONCE: &str = "an earlier step placed it on a device of another kind: change the device of that step";

/// Who put the work on the device.
enum Placed {
    /// It is in the file.
    Recorded,
    /// An earlier step.
    Here,
}

/// Takes off what the host does to launch, and copies between its memory and a device's, or lets them take their time again.
///
/// # Returns
/// How many tasks it concerns.
fn switch_launches(draft: &mut Draft<'_>, on: bool) -> usize {
    let graph = draft.graph();
    let copies = host_copies(draft);
    // Those that take nothing were taken out here; others by another step.
    let here = copies.iter().filter(|&&node| draft.price_of(Node::Traced(node)).duration == DurNs::ZERO);
    for node in here.copied().collect::<Vec<_>>() {
        draft.put_back(node);
    }
    let launches = |&node: &NodeId| matches!(graph.tasks[node].kind, TaskKind::Host(_) | TaskKind::Runtime);
    let nodes = graph.tasks.node_indices().filter(launches).chain(copies.iter().copied());
    let nodes: Vec<NodeId> = nodes.filter(|&node| !draft.is_removed(node)).collect();
    for &node in &nodes {
        draft.correct(node, (!on).then_some((0.0, no_launch())));
    }
    for node in copies.into_iter().filter(|_| !on) {
        draft.remove(node);
    }
    for edge in graph.tasks.edge_references() {
        let dependency = *edge.weight();
        if matches!(dependency.kind, DependencyKind::Launch | DependencyKind::HostWait) {
            let at_once = Dependency::on_end(dependency.kind, DurNs::ZERO);
            draft.set_dependency(edge.id(), if on { dependency } else { at_once });
        }
    }
    nodes.len()
}

/// The traced copies between the host's memory and a device's.
fn host_copies(draft: &Draft<'_>) -> Vec<NodeId> {
    let is_of_host = |&node: &NodeId| {
        let shape = draft.work(node).map(|work| &work.shape);
        matches!(shape, Some(Shape::Copy { route, .. }) if route.is_of_host())
    };
    let tasks = &draft.graph().tasks;
    tasks.node_indices().filter(|&node| tasks[node].kind == TaskKind::Memcpy).filter(is_of_host).collect()
}

/// What host time between operators is where nothing is launched.
fn no_launch() -> Prediction {
    let provenance = Provenance::Absolute;
    Prediction { duration: DurNs::ZERO, provenance, model: "no launch", error: 0.0, extrapolated: false }
}

fn device_work(draft: &Draft<'_>) -> Option<Placed> {
    let graph = draft.graph();
    let is_stream = |lane| draft.lane(lane).is_some_and(|lane| matches!(lane.kind, LaneKind::Stream { .. }));
    let traced = graph.tasks.node_weights().any(|task| task.kind.is_device() && is_stream(task.lane));
    let added = draft.added().iter().any(|added| is_stream(added.lane));
    if traced { Some(Placed::Recorded) } else { added.then_some(Placed::Here) }
}

fn place(draft: &mut Draft<'_>, device: &Arc<DeviceProfile>) -> StepReport {
    let graph = draft.graph();
    let computes = |kind| kind == TaskKind::Compute;
    let computing = || graph.tasks.node_indices().filter(|&node| computes(graph.tasks[node].kind));
    let time = |node: NodeId| graph.tasks[node].duration;
    let computed: DurNs = computing().filter(|&node| draft.base().is_recorded(node)).map(time).sum();
    if computing().all(|node| time(node) == DurNs::ZERO) {
        return StepReport::impossible("no operator computes on the host: there is nothing to place");
    }
    draft.set_device(device);
    let mut placement = host::Placement::new(draft);
    placement.write();
    let host::Tally { kernels, calls, changed, inputs, unmodelled } = placement.tally;
    let share = Percent::of(unmodelled.time(), computed);
    let by =
        if device.kind == DeviceKind::Gpu { format!(" by {}", count(calls, "runtime call")) } else { String::new() };
    let summary = format!("{}{by} on {}", count(kernels, "kernel"), device.name);
    let mut report = StepReport { changed, summary, ..StepReport::default() };
    if device.kind == DeviceKind::Gpu {
        say_transfers(&mut report, graph, inputs);
    }
    if !unmodelled.is_empty() {
        report.say(Effect::note(format!("{share} of the host's computing time is in operators without a model")));
    }
    let taken = match device.kind {
        DeviceKind::Gpu => "no model covers it: taken as the shortest kernel there is",
        _ => "no model covers it: time kept",
    };
    unmodelled.list(&mut report, taken);
    let is_collective = |&node: &NodeId| matches!(graph.tasks[node].kind, TaskKind::Collective(_));
    let kept = graph.tasks.node_indices().filter(is_collective).map(|node| (node, graph.tasks[node].duration));
    let kept: Vec<_> = kept.collect();
    if !kept.is_empty() {
        let text = format!("{} of the host backend: times kept", count(kept.len(), "collective"));
        report.say(Effect::kept(text, kept));
    }
    report
}

/// Says what was assumed of copies between host and device.
///
/// # Arguments
/// `(all, shown)`: inputs that were given to the device though the trace shows no copy, and those of the shown step.
fn say_transfers(report: &mut StepReport, graph: &ExecutionGraph, (all, shown): (usize, usize)) {
    let of_pinned =
        graph.operators.iter().filter_map(|operator| operator.transfer).filter(|it| !it.is_waited_for).count();
    if of_pinned > 0 {
        let tensors = count(of_pinned, "tensor");
        let text = format!("{tensors} copied without a wait of the host: taken as from or to pinned memory");
        report.say(Effect::assumption(text));
    }
    if shown > 0 {
        let copies = count(shown, "input");
        report.say(Effect::assumption(format!(
            "{copies} copied from memory that is not pinned, where the first operator reads them: the host waits for each"
        )));
    } else if all == 0 && !graph.ranks.iter().all(|part| part.tells_transfers) {
        report.say(Effect::note("its inputs are not known: none is copied to the device"));
    }
}

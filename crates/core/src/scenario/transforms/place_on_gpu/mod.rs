//! `place-on-gpu DEVICE`: a model traced on a host without device work, as it would run on a GPU [Lin 2022, Fig. 3].
//!
//! Host time comes from the overhead database, kernels from the cost models; nothing of the host's own computation stays.

mod host;
mod kernels;

use std::sync::Arc;

use crate::device::{DeviceKind, DeviceProfile};
use crate::graph::{LaneKind, NodeId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::Draft;
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::transform::{StepReport, Transform};
use crate::units::{DurNs, Percent};

use super::report::count;
use super::swap_gpu::SwapGpu;

/// Turns every host computation into the launches and kernels that a GPU build of the framework makes of it.
#[derive(Clone, Debug, PartialEq)]
struct PlaceOnGpu {
    /// The device, as written.
    device: String,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "place-on-gpu",
    help: "runs a model that was traced on a host on a GPU: launches, kernels and host time as predicted",
    example: "place-on-gpu V100",
    forms: &[Form {
        arguments: &[Argument::new("DEVICE", "the name of a GPU, e.g. V100", Kind::Device)],
        build: |given| Some(Arc::new(PlaceOnGpu { device: given.get(0)? })),
    }],
    knobs: &[],
};

impl Transform for PlaceOnGpu {
    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        let device = match context.catalog.find(&self.device) {
            Ok(device) => device.clone(),
            Err(unknown) => return StepReport::nothing(unknown.to_string()),
        };
        if device.kind != DeviceKind::Gpu {
            return StepReport::nothing(format!("{} is not a GPU", device.name));
        }
        if has_device_work(draft) && context.is_placed {
            return SwapGpu { device: self.device.clone(), host: 1.0 }.apply(draft, context);
        }
        if has_device_work(draft) {
            return StepReport::nothing("there is device work already: swap-gpu moves it to another device");
        }
        place(draft, &device)
    }
}

fn has_device_work(draft: &Draft<'_>) -> bool {
    let graph = draft.graph();
    let is_stream = |lane| draft.lane(lane).is_some_and(|lane| matches!(lane.kind, LaneKind::Stream { .. }));
    let traced = graph.tasks.node_weights().any(|task| task.kind.is_device() && is_stream(task.lane));
    traced || draft.added().iter().any(|added| is_stream(added.lane))
}

fn place(draft: &mut Draft<'_>, device: &Arc<DeviceProfile>) -> StepReport {
    let graph = draft.graph();
    let computes = |kind| kind == TaskKind::Compute;
    let computed: DurNs = graph.tasks.node_weights().filter(|task| computes(task.kind)).map(|task| task.duration).sum();
    if computed == DurNs::ZERO {
        return StepReport::nothing("no operator computes on the host: there is nothing to place");
    }
    for rank in 0..draft.devices().len() {
        draft.set_device(rank, device.clone());
    }
    let mut placement = host::Placement::new(draft);
    placement.write();
    let host::Tally { kernels, calls, changed, unmodelled } = placement.tally;
    let share = Percent::of(unmodelled.time(), computed);
    let summary = format!("{} by {} on {}", count(kernels, "kernel"), count(calls, "runtime call"), device.name);
    let mut report = StepReport { changed, summary, ..StepReport::default() };
    if !unmodelled.is_empty() {
        report.say(Effect::note(format!("{share} of the host's computing time is in operators without a model")));
    }
    unmodelled.list(&mut report, "no model covers it: taken as the shortest kernel there is");
    let is_collective = |&node: &NodeId| matches!(graph.tasks[node].kind, TaskKind::Collective(_));
    let kept = graph.tasks.node_indices().filter(is_collective).map(|node| (node, graph.tasks[node].duration));
    let kept: Vec<_> = kept.collect();
    if !kept.is_empty() {
        let text = format!("{} of the host backend: times kept", count(kept.len(), "collective"));
        report.say(Effect::kept(text, kept));
    }
    report
}

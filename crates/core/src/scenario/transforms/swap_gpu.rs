//! `swap-gpu NAME [host xFACTOR]`: the same kernels on another device.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cost::{Family, Shape, topology};
use crate::device::{DeviceKind, DeviceProfile, Precision};
use crate::graph::{NodeId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::selector::Selector;
use crate::scenario::text::short;
use crate::scenario::transform::{Stage, StepReport, Transform};
use crate::units::DurNs;

use super::conv_units;
use super::report::{count, in_step, survey};
use super::swap_link::note_waiting;

/// Runs kernels and copies on another device, and collectives over its link where that is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SwapGpu {
    /// The device, as written.
    pub(super) device: String,
    /// Factor on host time: another device often comes with another host.
    pub(super) host: f64,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "swap-gpu",
    help: "runs the kernels on another device, with host time multiplied by FACTOR",
    example: "swap-gpu H200",
    forms: &[Form {
        arguments: &[
            Argument::new("DEVICE", "the name of a device, e.g. H200", Kind::Device),
            Argument::new("FACTOR", "xFACTOR", Kind::Factor(1e-3, 1e3)).after(" host ").optional(),
        ],
        build: |given| {
            Some(Arc::new(SwapGpu { device: given.get(0)?, host: given.get::<Option<f64>>(1)?.unwrap_or(1.0) }))
        },
    }],
    knobs: &[],
};

impl Transform for SwapGpu {
    fn stage(&self) -> Stage {
        Stage::Device
    }

    fn multiple(&self) -> Option<(Selector, f64)> {
        Selector::parse(HOST).ok().filter(|_| !self.keeps_host()).map(|host| (host, self.host))
    }

    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        let device = match context.catalog.find(&self.device) {
            Ok(device) => device.clone(),
            Err(unknown) => return StepReport::impossible(unknown.to_string()),
        };
        if device.kind == DeviceKind::Cpu {
            return StepReport::impossible(format!("{} is not a GPU", device.name));
        }
        if let Some(why) = context.unknown_device(draft.graph()).filter(|_| !device_work(draft).is_empty()) {
            return StepReport::impossible(why);
        }
        // What was placed on a processor is launched by no host: a GPU takes it over as it does from a processor.
        if draft.devices().iter().any(|now| now.kind == DeviceKind::Cpu) {
            return StepReport::impossible(format!("the work was placed on a processor: use place-on {}", device.name));
        }
        self.move_to(draft, &device)
    }
}

/// Traced work of devices that is left.
fn device_work(draft: &Draft<'_>) -> Vec<NodeId> {
    let graph = draft.graph();
    let on_device = |&node: &NodeId| graph.tasks[node].kind.is_device();
    graph.tasks.node_indices().filter(on_device).filter(|&node| !draft.is_removed(node)).collect()
}

impl SwapGpu {
    /// Moves all device work to `device`.
    pub(super) fn move_to(&self, draft: &mut Draft<'_>, device: &Arc<DeviceProfile>) -> StepReport {
        let (graph, works) = (draft.graph(), device_work(draft));
        if works.is_empty() && draft.added().is_empty() {
            return StepReport::impossible("no device work to move: use place-on");
        }
        let is_there = !draft.devices().is_empty() && draft.devices().iter().all(|now| now == device);
        if is_there && self.keeps_host() {
            return StepReport::already(format!("the work is on {}", device.name));
        }
        draft.set_device(device);
        draft.choose_units();
        let (collectives, kernels): (Vec<_>, Vec<_>) =
            works.into_iter().partition(|&node| matches!(graph.tasks[node].kind, TaskKind::Collective(_)));
        let added: Vec<Node> = draft.added_nodes().filter(|&node| draft.kind_of(node).is_device()).collect();
        let tasks = in_step(draft, &kernels) + in_step(draft, &added);
        let summary = format!("{} on {}", count(tasks, "task"), device.name);
        let mut report = survey(draft, kernels.iter().copied(), summary);
        report.changed += added.len();
        report.changed += self.scale_host(draft);
        if report.changed > 0 && self.keeps_host() && has_host(draft) {
            report.say(Effect::assumption(SAME_HOST));
            report.assumes_host = true;
        }
        conv_units::settle(draft, &mut report);
        recost_collectives(draft, &collectives, &mut report);
        report.effects.extend(carried_over(draft, device));
        let of_convolutions = kernels.iter().any(|&node| draft.family(node) == Some(Family::Conv));
        if let Some(units) = draft.conv_units().told().filter(|_| of_convolutions) {
            report.say(Effect::assumption(units));
        }
        report.effects.extend(without_units(draft, &kernels, device).into_iter().map(Effect::assumption));
        report
    }

    fn keeps_host(&self) -> bool {
        (self.host - 1.0).abs() < f64::EPSILON
    }

    fn scale_host(&self, draft: &mut Draft<'_>) -> usize {
        let Some((host, factor)) = self.multiple() else { return 0 };
        let chosen = host.select_all(draft);
        for &node in &chosen {
            draft.stretch(node, factor);
        }
        chosen.len()
    }
}

/// That figures which steps before multiplied are multiplied of this device too.
fn carried_over(draft: &Draft<'_>, device: &DeviceProfile) -> Option<Effect> {
    let scaled: Vec<String> = draft
        .scaled_figures()
        .into_iter()
        .map(|(figure, factor)| format!("{} ×{}", figure.name(), short(factor)))
        .collect();
    (!scaled.is_empty())
        .then(|| Effect::note(format!("steps before it hold of {} too: {}", device.id, scaled.join(", "))))
}

/// The precisions of products for which `device` has no units, with those that take their place.
fn without_units(draft: &Draft<'_>, kernels: &[NodeId], device: &DeviceProfile) -> Vec<String> {
    let mut missing: BTreeMap<Precision, Vec<NodeId>> = BTreeMap::new();
    for &node in kernels {
        let precision = draft.work(node).map(|work| work.precision);
        if let Some(lacking) =
            precision.filter(|&precision| precision.is_tensor() && device.unit(precision) != Some(precision))
        {
            missing.entry(lacking).or_default().push(node);
        }
    }
    let told = |(precision, nodes): (Precision, Vec<NodeId>)| {
        let unit = device.unit(precision);
        let instead = unit.map_or("nothing", Precision::type_name);
        let vector = if unit.is_some_and(Precision::is_tensor) { "" } else { " on vector units" };
        let kernels = count(in_step(draft, &nodes), "kernel");
        let lacking = precision.type_name();
        format!("{} has no matrix units for {lacking}: {kernels} taken to compute in {instead}{vector}", device.id)
    };
    missing.into_iter().map(told).collect()
}

/// What is taken for granted where no factor on host time is given.
const SAME_HOST: &str = "the host is taken to be the same, though machines with other GPUs often have another: `host xFACTOR` says how fast";

/// Host time, of the program and of calls into the runtime.
const HOST: &str = "kind=host | kind=runtime";

fn has_host(draft: &Draft<'_>) -> bool {
    draft.nodes().any(|node| matches!(draft.kind_of(node), TaskKind::Host(_) | TaskKind::Runtime))
}

/// Counts the collectives that run over the new device's interconnect, and lists those that keep their times.
fn recost_collectives(draft: &Draft<'_>, collectives: &[NodeId], report: &mut StepReport) {
    let (moved, kept): (Vec<NodeId>, Vec<NodeId>) =
        collectives.iter().partition(|&&node| draft.price(node).provenance.is_modelled());
    report.changed += moved.len();
    let ranks_of = |&node: &NodeId| match draft.work(node)?.shape {
        Shape::Collective { ranks, .. } => Some(ranks),
        _ => None,
    };
    let ranks = moved.iter().filter_map(ranks_of).max().unwrap_or(0);
    if !moved.is_empty() {
        let moved = count(in_step(draft, &moved), "collective");
        let link = format!("{moved} taken to run over the new device's link within one node: swap-link says which");
        report.say(Effect::assumption(link));
        let links = draft.devices().iter().filter_map(|device| draft.context().models.links().of_device(device));
        let doubts: BTreeSet<String> = links.filter_map(|link| topology::doubt(link, ranks)).collect();
        report.effects.extend(doubts.into_iter().map(Effect::assumption));
        note_waiting(draft, report);
    }
    let links = draft.context().models.links();
    // Over a link of the same kind they take what they took.
    let is_other = |node: &NodeId| {
        let rank = draft.base().rank_index(draft.graph().tasks[*node].lane);
        let devices = draft.context().devices.get(rank).zip(draft.device(rank));
        devices.is_some_and(|(traced, now)| {
            let [before, after] = [&traced.profile, now].map(|device| links.of_device(device));
            *now != traced.profile && (before.is_none() || before != after || draft.work(*node).is_none())
        })
    };
    let kept: Vec<NodeId> = kept.into_iter().filter(is_other).collect();
    if !kept.is_empty() {
        let tasks: Vec<_> = kept.iter().map(|&node| (node, draft.graph().tasks[node].duration)).collect();
        let once: Vec<_> = tasks.iter().filter(|(node, _)| draft.base().is_recorded(*node)).collect();
        let time: DurNs = once.iter().map(|(_, time)| *time).sum();
        let why = "link or size not known: they keep their times, swap-link changes the interconnect";
        report.say(Effect::kept(format!("{}, {time}: {why}", count(once.len(), "collective")), tasks));
    }
}

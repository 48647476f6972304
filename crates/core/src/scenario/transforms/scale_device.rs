//! `scale-device FIGURE xFACTOR`: a hypothetical device with other memory bandwidth, arithmetic rates or links.
//!
//! Each task takes its time times the ratio of one model on the device with and without the change; the fits of that very
//! device have no say in it, since they do not know what its figures do.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cost::{Estimate, Work};
use crate::device::{DeviceKind, DeviceProfile, LinkProfile};
use crate::graph::{NodeId, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Layout, Node};
use crate::scenario::grammar::{Argument, Form, Grammar, Kind, Knob};
use crate::scenario::text::short;
use crate::scenario::transform::{StepReport, Transform};

use super::report::{Kept, UNMODELLED, count};

/// A figure of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    /// Memory bandwidth.
    DramBandwidth,
    /// All arithmetic rates.
    Flops,
    /// Bandwidth between devices.
    Link,
    /// Bandwidth to the host.
    HostLink,
}

/// The figures in the order of [`NAMES`].
const FIGURES: [Figure; 4] = [Figure::DramBandwidth, Figure::Flops, Figure::Link, Figure::HostLink];

/// What steps and knobs call the figures.
const NAMES: &[&str] = &["dram_bw", "flops", "link", "host_link"];

impl Figure {
    fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// Multiplies a figure of every device.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ScaleDevice {
    /// Which.
    figure: Figure,
    /// By what.
    factor: f64,
}

const fn knob(name: &'static str, help: &'static str, line: &'static str) -> Knob {
    Knob { name, help, unit: "factor", line, argument: 1, range: "0.25..4x9" }
}

pub(super) const EDIT: Grammar = Grammar {
    name: "scale-device",
    help: "multiplies a figure of the device: memory bandwidth, arithmetic rates, links",
    example: "scale-device dram_bw x2",
    forms: &[Form {
        arguments: &[
            Argument::new("FIGURE", "dram_bw, flops, link or host_link", Kind::Choice("figure", NAMES)),
            Argument::new("FACTOR", "xFACTOR", Kind::Factor(1e-3, 1e3)),
        ],
        build: |given| {
            Some(Arc::new(ScaleDevice { figure: *FIGURES.get(given.get::<usize>(0)?)?, factor: given.get(1)? }))
        },
    }],
    knobs: &[
        knob("dram_bw", "the device's memory bandwidth, as a factor", "scale-device dram_bw x1"),
        knob("flops", "its arithmetic rates", "scale-device flops x1"),
        knob("link", "its links to other devices", "scale-device link x1"),
        knob("host_link", "its link to the host", "scale-device host_link x1"),
    ],
};

impl Transform for ScaleDevice {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let nodes = self.affected(draft);
        if nodes.is_empty() {
            return StepReport::nothing("no device work that this bounds");
        }
        if (self.factor - 1.0).abs() < f64::EPSILON {
            return StepReport::already("a factor of 1 changes nothing");
        }
        let known = self.ratios(draft, &nodes);
        let (mut ratios, mut unknown) = (Vec::new(), Kept::default());
        for &node in &nodes {
            if let Some(ratio) = key(draft, node).and_then(|key| known.get(&key).copied().flatten()) {
                ratios.push((node, ratio));
            } else {
                unknown.add(draft, node, draft.price_of(node).duration);
            }
        }
        let mut report = StepReport::default();
        unknown.list(&mut report, UNMODELLED);
        for (node, ratio) in ratios.into_iter().filter(|(_, ratio)| (ratio - 1.0).abs() > 1e-9) {
            draft.stretch(node, ratio);
            report.changed += 1;
        }
        report.summary = format!("{} ×{}: {}", self.figure.name(), short(self.factor), count(report.changed, "task"));
        report
    }
}

/// What tells a task's ratio: where its work stands, which tasks of a class share, and its rank.
type Key = (usize, usize);

fn key(draft: &Draft<'_>, node: Node) -> Option<Key> {
    Some((address(draft.work_of(node)?), draft.rank_of(draft.lane_of(node))))
}

fn address(work: &Work) -> usize {
    std::ptr::from_ref(work).addr()
}

impl ScaleDevice {
    /// The tasks that the figure may bound.
    fn affected(self, draft: &Draft<'_>) -> Vec<Node> {
        let graph = draft.graph();
        let traced = graph.tasks.node_indices().filter(|&node: &NodeId| !draft.is_removed(node)).map(Node::Traced);
        let is_affected = |&node: &Node| match (draft.kind_of(node), self.figure) {
            (TaskKind::Collective(_), figure) => figure == Figure::Link,
            (TaskKind::Memcpy, Figure::HostLink | Figure::DramBandwidth) => true,
            (kind, Figure::DramBandwidth | Figure::Flops) => kind.is_device(),
            _ => false,
        };
        traced.chain(draft.added_nodes()).filter(is_affected).collect()
    }

    /// By work and rank, what it takes after the change over what it takes before; `None` where no model tells.
    fn ratios(self, draft: &Draft<'_>, nodes: &[Node]) -> FxHashMap<Key, Option<f64>> {
        let mut works: BTreeMap<usize, Vec<&Work>> = BTreeMap::new();
        let mut seen: FxHashMap<Key, Option<f64>> = FxHashMap::default();
        for &node in nodes {
            if let (Some(key), Some(work)) = (key(draft, node), draft.work_of(node))
                && seen.insert(key, None).is_none()
            {
                works.entry(key.1).or_default().push(work);
            }
        }
        for (rank, works) in works {
            let Some(device) = draft.device(rank).filter(|device| device.kind == DeviceKind::Gpu) else { continue };
            let ratios = self.times(draft, &works, device).into_iter().map(|times| self.ratio(times?));
            seen.extend(works.iter().zip(ratios).map(|(work, ratio)| ((address(work), rank), ratio)));
        }
        seen
    }

    /// What works take before and after the change.
    fn times(self, draft: &Draft<'_>, works: &[&Work], device: &DeviceProfile) -> Vec<Option<(f64, f64)>> {
        if self.figure == Figure::Link {
            return works.iter().map(|work| self.link_times(draft, work, device)).collect();
        }
        let on = |factor| draft.context().models.estimates(works, &self.hypothetical(device, factor));
        let time = |estimate: Option<Estimate>| Some(estimate?.duration.0 as f64);
        on(1.0).into_iter().zip(on(self.factor)).map(|(now, then)| Some((time(now)?, time(then)?))).collect()
    }

    /// Between 1 and the reverse of the factor.
    fn ratio(self, (before, after): (f64, f64)) -> Option<f64> {
        let (low, high) = (self.factor.recip().min(1.0), self.factor.recip().max(1.0));
        (before > 0.0).then(|| (after / before).clamp(low, high))
    }

    /// The device with the figure multiplied, under a name of its own so that no fit takes it for the real one.
    fn hypothetical(self, device: &DeviceProfile, factor: f64) -> DeviceProfile {
        let mut changed = device.clone();
        changed.lineage.insert(0, device.id.clone());
        changed.id = format!("{} hypothetical", device.id);
        match self.figure {
            Figure::DramBandwidth => changed.scale_memory_bandwidth(factor),
            Figure::Flops => changed.peak.values_mut().for_each(|rate| rate.0 *= factor),
            Figure::HostLink => changed.host_link.0 *= factor,
            Figure::Link => {}
        }
        changed
    }

    /// A collective's time over its link before and after, in µs.
    fn link_times(self, draft: &Draft<'_>, work: &Work, device: &DeviceProfile) -> Option<(f64, f64)> {
        let own = || draft.context().models.links().of_device(&device.id);
        let link = draft.interconnect().or_else(own)?;
        let between = draft.topology(link, draft.layout()).between.cloned();
        let time = |link: &LinkProfile, between: Option<LinkProfile>| {
            let layout = Layout { link: between, ..draft.layout().clone() };
            Some(draft.topology(link, &layout).transfer(work)?.us)
        };
        let faster = |link: &LinkProfile| faster(link, self.factor);
        Some((time(link, between.clone())?, time(&faster(link), between.as_ref().map(faster))?))
    }
}

/// The link with its bandwidth multiplied; the latency stays.
fn faster(link: &LinkProfile, factor: f64) -> LinkProfile {
    let mut faster = link.clone();
    faster.gb_s *= factor;
    for curve in &mut faster.curves {
        let latency = curve.us.first().copied().unwrap_or(0.0);
        for us in &mut curve.us {
            *us = latency + (*us - latency) / factor;
        }
        curve.fit = curve.fit.map(|fit| fit.scaled(factor));
    }
    faster
}

//! `scale-device FIGURE xFACTOR`: a hypothetical device with other memory bandwidth, arithmetic rates or links.
//!
//! Each task takes its time times the ratio of one model on the device with and without the change.

use std::sync::Arc;

use rayon::prelude::*;

use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Figure, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind, Knob};
use crate::scenario::text::short;
use crate::scenario::transform::{StepReport, Transform};
use crate::units::DurNs;

use super::report::{Kept, UNMODELLED, count, in_step};
use super::swap_link::note_waiting;

/// What steps and knobs call the figures, in order.
const NAMES: &[&str] = &[Figure::ALL[0].name(), Figure::ALL[1].name(), Figure::ALL[2].name(), Figure::ALL[3].name()];

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
            Some(Arc::new(ScaleDevice { figure: *Figure::ALL.get(given.get::<usize>(0)?)?, factor: given.get(1)? }))
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
        let nodes = draft.bounded_by(self.figure);
        if nodes.is_empty() && self.figure == Figure::HostLink && !draft.base().tables().sharded().is_empty() {
            draft.scale_figure(self.figure, self.factor);
            return StepReport::already("only tables that are put behind the host's link follow it");
        }
        if nodes.is_empty() {
            return StepReport::nothing("no device work that this bounds");
        }
        if (self.factor - 1.0).abs() < f64::EPSILON {
            return StepReport::already("a factor of 1 changes nothing");
        }
        draft.predict_figures();
        let before = draft.figure_ratios(&nodes);
        draft.scale_figure(self.figure, self.factor);
        draft.predict_figures();
        let (mut report, mut unknown) = (StepReport::default(), Kept::default());
        let (mut changed, mut unbound) = (Vec::new(), Vec::new());
        for ((&node, before), after) in nodes.iter().zip(before).zip(draft.figure_ratios(&nodes)) {
            if let (Some(before), Some(after)) = (before, after) {
                let is_changed = (after / before - 1.0).abs() > 1e-9;
                if is_changed { &mut changed } else { &mut unbound }.push(node);
            } else {
                unknown.add(draft, node, draft.price_of(node).duration);
            }
        }
        unknown.list(&mut report, UNMODELLED);
        if self.figure == Figure::Link {
            note_waiting(draft, &mut report);
        }
        report.effects.extend(not_bound(draft, &unbound));
        report.changed = changed.len();
        let tasks = count(in_step(draft, &changed), "task");
        report.summary = format!("{} ×{}: {tasks}", self.figure.name(), short(self.factor));
        report
    }
}

/// The tasks that the figure does not bound by the models, and so keep their time.
fn not_bound(draft: &Draft<'_>, unbound: &[Node]) -> Option<Effect> {
    let chosen = unbound.par_iter().filter(|&&node| draft.is_in_step(node));
    let left: DurNs = chosen.map(|&node| draft.price_of(node).duration).sum();
    let tasks = count(in_step(draft, unbound), "task");
    (left > DurNs::ZERO).then(|| Effect::note(format!("not bound by it: {tasks}, {left}, keep their time")))
}

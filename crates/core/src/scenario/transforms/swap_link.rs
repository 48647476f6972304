//! `swap-link NAME`: collectives over another interconnect.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cost::Shape;
use crate::cost::topology;
use crate::graph::TaskKind;
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::roles::Role;
use crate::scenario::transform::{StepReport, Transform};
use crate::units::DurNs;

use super::report::{count, in_step, survey};

/// Runs collectives over another interconnect.
#[derive(Clone, Debug, PartialEq)]
struct SwapLink {
    /// The interconnect, as written.
    link: String,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "swap-link",
    help: "runs the collectives over another interconnect",
    example: "swap-link NVLink4",
    forms: &[Form {
        arguments: &[Argument::new("LINK", "the name of an interconnect, e.g. NVLink4", Kind::Link)],
        build: |given| Some(Arc::new(SwapLink { link: given.get(0)? })),
    }],
    knobs: &[],
};

impl Transform for SwapLink {
    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        let links = context.models.links();
        let Some(link) = links.find(&self.link).cloned() else {
            let known: Vec<&str> = links.iter().map(|link| link.id.as_str()).collect();
            return StepReport::nothing(format!(
                "unknown interconnect `{}`: known are {}",
                self.link,
                known.join(", ")
            ));
        };
        let collectives = collectives(draft);
        if collectives.is_empty() {
            return StepReport::nothing("no collectives");
        }
        let summary = format!("{} over {}", count(in_step(draft, &collectives), "collective"), link.name);
        let ranks_of = |&node: &Node| match draft.work_of(node)?.shape {
            Shape::Collective { ranks, .. } => Some(ranks),
            _ => None,
        };
        let ranks = collectives.iter().filter_map(ranks_of).max().unwrap_or(0);
        let doubt = topology::doubt(&link, ranks);
        let alone = !draft.set_link(link.clone(), ranks) && link.between_nodes;
        let mut report = survey(draft, collectives, summary);
        report.effects.extend(doubt.map(Effect::assumption));
        if alone {
            let what = "each device is taken as a node of its own: scale-ranks N LINK PER-NODE says how many share one";
            report.say(Effect::assumption(what));
        }
        note_waiting(draft, &mut report);
        report
    }
}

/// All collectives that are still there.
pub(super) fn collectives(draft: &Draft<'_>) -> Vec<Node> {
    draft.nodes().filter(|&node| matches!(draft.kind_of(node), TaskKind::Collective(_))).collect()
}

/// The collectives that an edit leaves as they are, by what they carry: a line each, the longest first.
pub(super) fn untouched(draft: &Draft<'_>, is_touched: impl Fn(Node) -> bool) -> Vec<Effect> {
    let within = draft.base().iteration_tasks();
    let mut found: BTreeMap<(&str, Role), (usize, DurNs)> = BTreeMap::new();
    for node in collectives(draft).into_iter().filter(|&node| within[draft.beside(node).index()] && !is_touched(node)) {
        let TaskKind::Collective(id) = draft.kind_of(node) else { continue };
        let Some(one) = draft.graph().collectives.get(id.0 as usize) else { continue };
        let kind = draft.graph().names.get(one.kind);
        let entry = found.entry((kind, draft.role(node))).or_default();
        *entry = (entry.0 + 1, entry.1 + draft.price_of(node).duration);
    }
    let mut rows: Vec<_> = found.into_iter().collect();
    rows.sort_by_key(|&(key, (_, time))| (std::cmp::Reverse(time), key));
    let line = |((kind, role), (count, time)): ((&str, Role), (usize, DurNs))| {
        Effect::note(format!("not touched: {kind} ×{count}, {time}: {}", role.name()))
    };
    rows.into_iter().map(line).collect()
}

/// Says how much of the collectives' times is waiting for ranks that are not loaded.
pub(super) fn note_waiting(draft: &Draft<'_>, report: &mut StepReport) {
    let waiting = |node| if let Node::Traced(node) = node { Some((node, draft.waiting_in(node))) } else { None };
    let kept: Vec<_> =
        collectives(draft).into_iter().filter_map(waiting).filter(|&(_, time)| time > DurNs::ZERO).collect();
    if !kept.is_empty() {
        let once = kept.iter().filter(|(node, _)| draft.base().is_recorded(*node));
        let all: DurNs = once.map(|(_, time)| *time).sum();
        if all == DurNs::ZERO {
            return;
        }
        let what = "of collectives beyond the model's transfer is taken as waiting for ranks that are not loaded: kept";
        report.say(Effect::kept(format!("{all} {what}"), kept));
    }
}

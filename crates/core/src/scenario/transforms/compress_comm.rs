//! `compress-comm RATIO`: collectives send fewer bytes, between a kernel that packs what is sent and one that unpacks what came.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cost::operators::movement_work;
use crate::cost::{Family, Prediction, Work, unmodelled};
use crate::graph::{Dependency, DependencyKind, LaneKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, End, Message, Node, Packed, Source};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::transform::{StepReport, Transform};
use crate::units::{Bytes, DurNs};

use super::kernel::{self, NewKernel, Side};
use super::overlap_comm::gate;
use super::report::{count, in_step, survey};
use super::swap_link::{collectives, note_waiting, untouched};

/// Sends messages in fewer bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CompressComm {
    /// Bytes before over bytes after.
    ratio: f64,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "compress-comm",
    help: "all-reduce, all-to-all, all-gather and reduce-scatter send RATIO times fewer bytes, packed and unpacked by kernels",
    example: "compress-comm 2",
    forms: &[Form {
        arguments: &[Argument::new("RATIO", "RATIO", Kind::Ratio(1.0, 1e4))],
        build: |given| Some(Arc::new(CompressComm { ratio: given.get(0)? })),
    }],
    knobs: &[],
};

/// What the kernels assume.
const STREAMING: &str =
    "packing and unpacking read and write their bytes once, and sums on the way are of packed values";

impl Transform for CompressComm {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let sent = |draft: &Draft<'_>, node| draft.work_of(node).and_then(Message::of);
        let nodes: Vec<Node> = collectives(draft).into_iter().filter(|&node| sent(draft, node).is_some()).collect();
        if (self.ratio - 1.0).abs() < f64::EPSILON {
            return StepReport::already("as many bytes as there are");
        }
        if nodes.is_empty() {
            let mut told = StepReport::nothing("no collective whose messages would be smaller");
            told.effects.extend(untouched(draft, |_| false));
            return told;
        }
        let by_a_step_before = packed_ones(draft);
        let (mut packed, mut bare, mut codecs, mut told) = (0, 0, 0, Vec::new());
        for &node in &nodes {
            let Some((message, work)) = sent(draft, node).zip(draft.work_of(node).cloned()) else { continue };
            if work.lacks().is_some() {
                draft.set_price(node, unmodelled(Some(draft.price_of(node).duration)));
                continue;
            }
            told.push(node);
            let added = self.add_codec(draft, node, message);
            let counts = usize::from(draft.is_in_step(node));
            packed += if added { counts } else { 0 };
            bare += if added { 0 } else { counts };
            codecs += usize::from(added);
            let fewer = |bytes: Bytes| Bytes(self.fewer(bytes.0));
            draft.change_work_of(node, |work| Work {
                read: fewer(work.read),
                written: fewer(work.written),
                ..work.clone()
            });
        }
        draft.take_packed_as_carried();
        let all = count(in_step(draft, &told), "collective");
        let summary = format!("{all} with fewer bytes, {packed} packed and unpacked");
        let mut report = survey(draft, nodes.iter().copied(), summary);
        report.changed += 2 * codecs;
        if packed > 0 {
            report.say(Effect::assumption(STREAMING));
        }
        if bare > 0 {
            let what = format!("{bare} on a host or an unknown device: the time to pack is not added");
            report.say(Effect::assumption(what));
        }
        told.retain(|node| by_a_step_before.contains(node));
        let again = in_step(draft, &told);
        if again > 0 {
            let what = "packed by a step before, and packed again: one step with both ratios packs once";
            report.say(Effect::assumption(format!("{} {what}", count(again, "collective"))));
        }
        let chosen: BTreeSet<Node> = nodes.into_iter().collect();
        report.effects.extend(untouched(draft, |node| chosen.contains(&node)));
        note_waiting(draft, &mut report);
        report
    }
}

/// The collectives that are packed and unpacked.
fn packed_ones(draft: &Draft<'_>) -> BTreeSet<Node> {
    let of = draft.added_tasks().filter_map(|(_, added)| match &added.source {
        Source::Packs(packed) => Some(packed.of),
        _ => None,
    });
    of.collect()
}

impl CompressComm {
    fn fewer(self, bytes: u64) -> u64 {
        ((bytes as f64 / self.ratio).round() as u64).max(1)
    }

    /// Adds the kernels around a collective on its stream; `false` on a host, and where no model tells what they take.
    fn add_codec(self, draft: &mut Draft<'_>, node: Node, message: Message) -> bool {
        let rank = draft.rank_of(draft.lane_of(node));
        let on_stream = matches!(draft.lane(draft.lane_of(node)).map(|lane| lane.kind), Some(LaneKind::Stream { .. }));
        let packing = movement_work(Family::Elementwise, message.sent, self.fewer(message.sent));
        let unpacking = movement_work(Family::Elementwise, self.fewer(message.received), message.received);
        let prices = draft.price_new(&packing, rank).zip(draft.price_new(&unpacking, rank));
        let Some((packs, unpacks)) = prices.filter(|_| on_stream) else { return false };
        let gap = draft.stream_gap(node);
        let first = launch(draft, (node, Side::Before), "pack", packing, packs);
        before(draft, node, first, gap);
        let last = launch(draft, (node, Side::After), "unpack", unpacking, unpacks);
        after(draft, node, last, gap);
        true
    }
}

fn launch(draft: &mut Draft<'_>, (node, side): (Node, Side), name: &str, work: Work, prediction: Prediction) -> Node {
    let end = if side == Side::Before { End::Sent } else { End::Received };
    let source = Source::Packs(Packed { of: node, end, carried: 0, read: work.read, written: work.written });
    let (name, operator, lane) = (Arc::from(name), draft.operator_of(node), draft.lane_of(node));
    let work = Some(Arc::new(work));
    let new = NewKernel { name, operator, work, prediction, source, caller: None, call_at: None };
    kernel::launch(draft, node, side, lane, new).kernel
}

/// Lets `new` wait for what `node`, or its arrival among other ranks, waited for on the device, and that for `new`.
fn before(draft: &mut Draft<'_>, node: Node, new: Node, gap: DurNs) {
    let gate = if let Node::Traced(traced) = node { Node::Traced(gate(draft, traced)) } else { node };
    let waits = |kind| matches!(kind, DependencyKind::Stream | DependencyKind::EventWait | DependencyKind::LateStart);
    for edge in draft.edges_into(gate).filter(|edge| waits(edge.kind())).collect::<Vec<_>>() {
        draft.disconnect(&edge);
        draft.connect(edge.from, new, edge.dependency);
    }
    draft.connect(new, gate, Dependency::on_end(DependencyKind::Stream, gap));
}

/// Lets what waited for `node` wait for `new`, and that for `node`.
fn after(draft: &mut Draft<'_>, node: Node, new: Node, gap: DurNs) {
    for edge in draft.edges_from(node).collect::<Vec<_>>() {
        if !matches!(edge.kind(), DependencyKind::Collective | DependencyKind::Launch) {
            draft.disconnect(&edge);
            draft.connect(new, edge.to, edge.dependency);
        }
    }
    draft.connect(node, new, Dependency::on_end(DependencyKind::Stream, gap));
}

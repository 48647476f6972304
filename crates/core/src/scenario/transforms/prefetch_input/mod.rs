//! `prefetch-input`: the next step's input is fetched and copied while this step computes.

mod loader;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::graph::{Dependency, DependencyKind, Lane, LaneId, LaneKind, TaskKind};
use crate::intern::NameId;
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Form, Grammar};
use crate::scenario::inputs::{SMALLEST, is_input};
use crate::scenario::transform::{StepReport, Transform};
use crate::units::{DurNs, TimeNs};

use super::report::{OVERLAP_DOUBT, count};

pub(super) use loader::loads;

/// Fetches and copies inputs one step ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PrefetchInput;

pub(super) const EDIT: Grammar = Grammar {
    name: "prefetch-input",
    help: "fetches and copies the next step's input on a thread and a stream of its own while this step computes",
    example: "prefetch-input",
    forms: &[Form { arguments: &[], build: |_| Some(Arc::new(PrefetchInput)) }],
    knobs: &[],
};

/// The stream's number: one that frameworks do not use.
const STREAM: i64 = 9_999;

impl Transform for PrefetchInput {
    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let copies = inputs(draft);
        let (mut fetches, mut fetching) = (0, DurNs::ZERO);
        for rank in 0..draft.graph().ranks.len() {
            let (tasks, time) = loader::fetch_ahead(draft, rank);
            (fetches, fetching) = (fetches + tasks, fetching + time);
        }
        if copies.is_empty() && fetches == 0 {
            let why = format!("no loading, and no copies of {SMALLEST} or more to the device on a stream with kernels");
            return StepReport::nothing(why);
        }
        let (mut changed, mut copied, mut time, mut waits) = (0, 0, DurNs::ZERO, 0);
        let within = draft.base().iteration_tasks();
        for (rank, nodes) in &copies {
            let ahead = nodes.iter().filter(|&&node| within[draft.beside(node).index()]);
            let batch = ahead.map(|&node| draft.bytes_of(node)).sum();
            draft.hold(*rank, batch);
            let ahead: Vec<Node> = nodes.iter().copied().filter(|&node| draft.is_in_step(node)).collect();
            changed += nodes.len();
            copied += ahead.len();
            time += ahead.iter().map(|&node| draft.price_of(node).duration).sum();
            waits += move_copies(draft, *rank, nodes);
        }
        let copied = (changed > 0)
            .then(|| format!("{copied} copies, {time}, on a stream of their own; {waits} host waits gone"));
        let fetched = (fetches > 0)
            .then(|| format!("{} of loading, {fetching}, on a thread of their own", count(fetches, "task")));
        let summary = fetched.iter().chain(&copied).cloned().collect::<Vec<_>>().join("; ");
        let mut report = StepReport { changed: changed + fetches, summary, ..StepReport::default() };
        if fetched.is_some() {
            report.say(Effect::note("fetching has a core to itself: it slows nothing that runs beside it"));
        }
        report.say(Effect::assumed("what runs side by side keeps its time", OVERLAP_DOUBT));
        report
    }
}

/// Copies of inputs to the device that share a stream with kernels, by rank, in order.
fn inputs(draft: &Draft<'_>) -> BTreeMap<usize, Vec<Node>> {
    let is_kernel = |node: &Node| draft.kind_of(*node) == TaskKind::Kernel;
    let computing: BTreeSet<LaneId> = draft.nodes().filter(is_kernel).map(|node| draft.lane_of(node)).collect();
    let is_input = |node: Node| {
        let shares = computing.contains(&draft.lane_of(node));
        shares && is_input(draft.kind_of(node), draft.work_of(node), draft.bytes_of(node))
    };
    let mut found: BTreeMap<usize, Vec<Node>> = BTreeMap::new();
    for (lane, nodes) in draft.in_order(is_input) {
        found.entry(draft.rank_of(lane)).or_default().extend(nodes);
    }
    found
}

/// Puts a rank's copies on a stream of their own, a step ahead of their use; how many host waits went with that.
fn move_copies(draft: &mut Draft<'_>, rank: usize, all: &[Node]) -> usize {
    let graph = draft.graph();
    let part = &graph.ranks[rank];
    let kind = LaneKind::Stream { device: i64::from(part.rank.0), stream: STREAM };
    let lane = draft.add_lane(Lane { rank: part.rank, kind, name: NameId(0), communication: false }, "prefetch");
    let mut by_step: BTreeMap<u8, Vec<Node>> = BTreeMap::new();
    // What was launched before the trace begins belongs to no later step than what follows it.
    let mut later = TimeNs(i64::MAX);
    for &copy in all.iter().rev() {
        let beside = draft.beside(copy);
        let call = graph.launch_of(beside).map(|call| graph.tasks[call].measured_start);
        later = call.unwrap_or(graph.tasks[beside].measured_start.min(later));
        let step = u8::from(later >= part.iteration_start) + u8::from(later >= part.iteration_end);
        by_step.entry(step).or_default().insert(0, copy);
    }
    let users = users(draft, &by_step, all);
    let waits = all.iter().map(|&copy| release(draft, copy, lane)).sum();
    for pair in all.windows(2) {
        draft.connect(pair[0], pair[1], Dependency::on_end(DependencyKind::Stream, DurNs::ZERO));
    }
    for (step, users) in users {
        let Some(&ahead) = step.checked_sub(1).and_then(|step| by_step.get(&step)?.last()) else { continue };
        for user in users {
            draft.connect(ahead, user, Dependency::on_end(DependencyKind::EventWait, DurNs::ZERO));
        }
    }
    // A step is over when the input of the next is there.
    for (marker, step) in [(part.begin, 0), (Some(part.end), 1)] {
        if let (Some(marker), Some(&last)) = (marker, by_step.get(&step).and_then(|copies| copies.last())) {
            draft.connect(last, Node::Traced(marker), Dependency::on_end(DependencyKind::StepEnd, DurNs::ZERO));
        }
    }
    waits
}

/// What follows the copies of each step on their streams or waits for them on others.
fn users(draft: &mut Draft<'_>, by_step: &BTreeMap<u8, Vec<Node>>, all: &[Node]) -> BTreeMap<u8, BTreeSet<Node>> {
    let mut users: BTreeMap<u8, BTreeSet<Node>> = BTreeMap::new();
    for (&step, copies) in by_step {
        for &copy in copies {
            let uses = |kind| matches!(kind, DependencyKind::Stream | DependencyKind::EventWait);
            let edges = draft.edges_from(copy).filter(|edge| uses(edge.kind()));
            let following = edges.map(|edge| edge.to).filter(|user| !all.contains(user));
            users.entry(step).or_default().extend(following);
        }
    }
    users
}

/// Takes a copy off its stream; nothing waits for it any more. How many host waits that were.
fn release(draft: &mut Draft<'_>, copy: Node, lane: LaneId) -> usize {
    draft.unchain(copy, copy);
    draft.move_to(copy, lane);
    let mut waits = 0;
    for edge in draft.edges_from(copy).collect::<Vec<_>>() {
        if matches!(edge.kind(), DependencyKind::HostWait | DependencyKind::HiddenWait | DependencyKind::EventWait) {
            waits += usize::from(edge.kind() != DependencyKind::EventWait);
            draft.disconnect(&edge);
        }
    }
    waits
}

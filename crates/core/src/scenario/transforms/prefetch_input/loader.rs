//! Fetching ahead: what the main thread does to load a batch moves to a thread of its own, a step before it is used.

use crate::graph::{CopyStep, Dependency, DependencyKind, Lane, LaneId, LaneKind, Phase, TaskKind};
use crate::intern::NameId;
use crate::scenario::draft::{Draft, Node};
use crate::units::DurNs;

/// The thread's number: one that no system gives.
const THREAD: i64 = -9_999;

/// Shorter loadings only hand over what was fetched elsewhere.
const SHORTEST: DurNs = DurNs(100_000);

/// Loading without a pause.
struct Loading {
    nodes: Vec<Node>,
    step: CopyStep,
}

/// Moves a rank's loading; how many tasks, and what they take.
pub(super) fn fetch_ahead(draft: &mut Draft<'_>, rank: usize) -> (usize, DurNs) {
    let all = loadings(draft, rank);
    let (mut count, mut time) = (0, DurNs::ZERO);
    if all.is_empty() {
        return (count, time);
    }
    let of_rank = draft.graph().ranks[rank].rank;
    let lane = Lane { rank: of_rank, kind: LaneKind::Thread { tid: THREAD }, name: NameId(0), communication: false };
    let lane = draft.add_lane(lane, "loader");
    let users: Vec<Vec<Node>> = all.iter().map(|loading| take_off(draft, loading, lane)).collect();
    for pair in all.windows(2) {
        if let (Some(&before), Some(&after)) = (pair[0].nodes.last(), pair[1].nodes.first()) {
            draft.connect(before, after, Dependency::on_end(DependencyKind::Program, DurNs::ZERO));
        }
    }
    let part = &draft.graph().ranks[rank];
    // A step is over when the input of the next is there.
    for (marker, step) in [(part.begin, CopyStep::Before), (Some(part.end), CopyStep::Chosen)] {
        let last = all.iter().rev().find(|loading| loading.step == step).and_then(|loading| loading.nodes.last());
        if let (Some(marker), Some(&last)) = (marker, last) {
            draft.connect(last, Node::Traced(marker), Dependency::on_end(DependencyKind::StepEnd, DurNs::ZERO));
        }
    }
    for (loading, users) in all.iter().zip(users) {
        let own = loading.nodes.iter().filter(|_| loading.step == CopyStep::Chosen);
        count += own.clone().count();
        time += own.map(|&node| draft.price_of(node).duration).sum();
        // The same loading of the step before fetched what is used here.
        let place = place(&all, loading);
        let earlier = all.iter().filter(|it| is_next(it.step, loading.step)).nth(place);
        let Some(&fetched) = earlier.and_then(|earlier| earlier.nodes.last()) else { continue };
        for user in users {
            draft.connect(fetched, user, Dependency::on_end(DependencyKind::HandOver, DurNs::ZERO));
        }
    }
    (count, time)
}

/// What of a loading's step comes before it.
fn place(all: &[Loading], loading: &Loading) -> usize {
    all.iter().filter(|it| it.step == loading.step).take_while(|it| it.nodes != loading.nodes).count()
}

fn is_next(step: CopyStep, next: CopyStep) -> bool {
    matches!((step, next), (CopyStep::Before, CopyStep::Chosen) | (CopyStep::Chosen, CopyStep::After))
}

/// Takes a loading off the main thread, where it still begins when that gets there; what went on after it.
fn take_off(draft: &mut Draft<'_>, loading: &Loading, lane: LaneId) -> Vec<Node> {
    let (Some(&first), Some(&last)) = (loading.nodes.first(), loading.nodes.last()) else { return Vec::new() };
    let is_order = |kind| kind == DependencyKind::Program;
    let before: Vec<Node> =
        draft.edges_into(first).filter(|edge| is_order(edge.kind())).map(|edge| edge.from).collect();
    let users: Vec<Node> = draft.edges_from(last).filter(|edge| is_order(edge.kind())).map(|edge| edge.to).collect();
    draft.unchain(first, last);
    for before in before {
        draft.connect(before, first, Dependency::on_end(DependencyKind::HandOver, DurNs::ZERO));
    }
    for &node in &loading.nodes {
        draft.move_to(node, lane);
    }
    users
}

/// Loadinges of loading on the thread that drives a rank's steps, in order.
fn loadings(draft: &Draft<'_>, rank: usize) -> Vec<Loading> {
    let copies = draft.base().copies();
    let Some(main) = copies.main(rank) else { return Vec::new() };
    let all = draft.in_order(|node| draft.lane_of(node) == main).remove(&main).unwrap_or_default();
    let mut found: Vec<Loading> = Vec::new();
    let mut open = false;
    for node in all {
        let step = copies.step(draft.beside(node));
        let continues = open && found.last().is_some_and(|loading| loading.step == step);
        open = match loads(draft, node) {
            Some(loads) => loads && step != CopyStep::Origin,
            // A call between two pieces of loading is part of it.
            None => continues,
        };
        match found.last_mut() {
            Some(loading) if open && continues => loading.nodes.push(node),
            _ if open => found.push(Loading { nodes: vec![node], step }),
            _ => {}
        }
    }
    found.retain(|loading| loading.nodes.iter().map(|&node| draft.price_of(node).duration).sum::<DurNs>() >= SHORTEST);
    found
}

/// Whether a host task is of loading; `None` where what is around it tells.
pub(in crate::scenario::transforms) fn loads(draft: &Draft<'_>, node: Node) -> Option<bool> {
    if let Some(operator) = draft.operator_of(node) {
        return Some(draft.base().phases()[operator.0 as usize] == Phase::Data);
    }
    let is_host = matches!(draft.kind_of(node), TaskKind::Host(_));
    is_host.then(|| Phase::of_annotation(draft.name_of(node)) == Some(Phase::Data))
}

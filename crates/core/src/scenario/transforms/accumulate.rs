//! `accumulate K`: K batches go forward and backward before gradients are reduced and the optimizer steps once.

use std::collections::BTreeMap;
use std::sync::Arc;

use petgraph::visit::EdgeRef;

use crate::graph::{Dependency, DependencyKind, ExecutionGraph, LaneId, NodeId, Phase, RankPart, TaskKind};
use crate::scenario::context::Context;
use crate::scenario::draft::{AddedId, Draft, DraftEdge, Node, NodeSet, order_kind};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind, Knob};
use crate::scenario::transform::{Stage, StepReport, Transform};
use crate::units::{DurNs, TimeNs};

use self::gradients::Additions;
use super::report::{self, count};

mod gradients;

/// Accumulates gradients over several batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Accumulate {
    /// Batches per step.
    batches: u32,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "accumulate",
    help: "runs forward and backward K times, each on a batch, per optimizer step and reduction of gradients",
    example: "accumulate 4",
    forms: &[Form {
        arguments: &[Argument::new("K", "the number of batches", Kind::Whole(1, 256))],
        build: |given| Some(Arc::new(Accumulate { batches: given.get(0)? })),
    }],
    knobs: &[Knob {
        name: "accumulate",
        help: "batches between updates",
        unit: "batches",
        line: "accumulate 1",
        argument: 0,
        range: "1..16",
    }],
};

impl Transform for Accumulate {
    fn stage(&self) -> Stage {
        Stage::Batches
    }

    fn batches(&self) -> u32 {
        self.batches
    }

    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        if self.batches == 1 {
            return StepReport::already(match draft.repeats() {
                0 | 1 => "one batch per step is what there is".to_owned(),
                repeats => format!("once as many batches: {repeats} per step stay"),
            });
        }
        let asked = draft.next_batches();
        if draft.repeats() > 1 {
            return self.besides(draft, !asked.is_empty(), context);
        }
        let repeated = repeated(draft);
        if repeated.is_empty() {
            return StepReport::nothing("no backward pass: there are no gradients to accumulate");
        }
        // As many of the steps' batches as there is room for, those of the first at least.
        let mut batches = self.batches;
        let copies_of = |batches: u32| batches as usize - 1;
        if let Some(why) = draft.refuses(repeated.len().saturating_mul(copies_of(batches)), context.max_memory) {
            return StepReport::impossible(why);
        }
        let mut counted = 0;
        for &more in asked.iter().skip(1) {
            let all = batches.saturating_mul(more);
            if draft.refuses(repeated.len().saturating_mul(copies_of(all)), context.max_memory).is_some() {
                break;
            }
            (batches, counted) = (all, counted + 1);
        }
        draft.keep_batches(counted);
        let copies = copies_of(batches);
        let additions = Additions::of(draft);
        let repeated = if additions.tasks.is_empty() { repeated } else { self::repeated(draft) };
        let gone = repeated.iter().filter(|&&node| draft.is_gone(node)).count();
        let once: Vec<bool> = repeated.iter().map(|&node| is_once(draft, node)).collect();
        let reduced = repeated.iter().zip(&once).filter(|&(&node, &once)| once && !draft.is_gone(node)).count();
        let passed: Vec<bool> = repeated.iter().zip(&once).map(|(&node, once)| *once || draft.is_gone(node)).collect();
        let nothing_to_add_to: Vec<bool> =
            repeated.iter().zip(&passed).map(|(node, passed)| *passed || additions.tasks.contains(node)).collect();
        let section = Section::of(draft, repeated);
        let mut before: Vec<Vec<Node>> = Vec::with_capacity(copies);
        draft.reserve(copies * section.nodes.len(), copies * section.inner.len());
        for _ in 0..copies {
            let passed = if before.is_empty() { &nothing_to_add_to } else { &passed };
            let copied = section.copy(draft, before.last(), passed);
            section.follow(draft, before.last(), &copied);
            if before.is_empty() {
                section.hand_on(draft, &copied);
            }
            before.push(copied);
        }
        section.follow(draft, before.last(), &section.nodes);
        draft.repeat(batches);
        let is_named = has_updates(draft);
        let once = if is_named { "the update once" } else { "the update with them" };
        let among = if reduced > 0 { format!("{} among them and ", count(reduced, "task")) } else { String::new() };
        let summary = format!(
            "{} batches per step: {} of forward and backward pass repeated, {among}{once}",
            batches,
            count(section.nodes.len() - reduced - gone, "task"),
        );
        let changed = copies * (section.nodes.len() - reduced - gone);
        let mut effects = vec![Effect::note("the time is that of all batches of a step")];
        effects.extend(report::one_off(draft, &section.nodes));
        if additions.added > 0 {
            let text = format!("{} added to those of the batches before", count(additions.added, "gradient"));
            effects.push(Effect::note(text));
        }
        if additions.unknown > 0 {
            let gradients = count(additions.unknown, "gradient");
            let text = format!(
                "{gradients} sparse, of unknown size or not on a device: adding them up, and an update of more rows"
            );
            effects.push(Effect::not_modelled(text, DurNs::ZERO));
        }
        if !is_named {
            effects.push(Effect::assumption(UNNAMED));
        }
        StepReport { changed, summary, effects, ..StepReport::default() }
    }
}

/// What is assumed where no update is named.
const UNNAMED: &str = "the trace does not name the optimizer's step: its work, if any, is repeated with each batch";

impl Accumulate {
    /// A step behind the first that accumulates: its batches are `counted` among those that this one repeats, or there was no room.
    fn besides(self, draft: &Draft<'_>, counted: bool, context: &Context) -> StepReport {
        let (added, repeats) = (draft.added().len(), draft.repeats() as usize);
        if counted {
            return StepReport::already(format!("its {} are among the {repeats} batches per step", self.batches));
        }
        let more = added / (repeats - 1).max(1) * repeats * (self.batches as usize - 1);
        let why = draft.refuses(more, context.max_memory);
        StepReport::impossible(why.unwrap_or_else(|| "steps before it leave no room for its batches".to_owned()))
    }
}

/// The tasks of the chosen step from its start to the end of its backward pass, in order; those that were taken out among them,
/// which pass on what others wait for.
fn repeated(draft: &Draft<'_>) -> Vec<Node> {
    let (base, graph) = (draft.base(), draft.graph());
    let ends: Vec<Option<TimeNs>> = graph.ranks.iter().map(|part| end_of_backward(draft, part)).collect();
    let within = draft.base().iteration_tasks();
    let is_repeated = |&node: &NodeId| {
        let end = ends.get(base.rank_index(graph.tasks[node].lane)).copied().flatten();
        let inside = within[node.index()] && end.is_some_and(|end| launched(graph, node) < end);
        inside && graph.tasks[node].kind != TaskKind::StepEnd
    };
    let mut chosen: Vec<bool> = graph.tasks.node_indices().map(|node| is_repeated(&node)).collect();
    // Where ranks meet belongs to what they meet for, and arriving to meeting: the later come first.
    for node in graph.tasks.node_indices().rev().filter(|&node| graph.tasks[node].kind == TaskKind::Joint) {
        let meeting = graph.tasks.edges(node).filter(|edge| edge.weight().kind == DependencyKind::Collective);
        let members: Vec<bool> = meeting.map(|edge| chosen[edge.target().index()]).collect();
        if !members.is_empty() {
            chosen[node.index()] = members.contains(&true);
        }
    }
    let traced: Vec<NodeId> = graph.tasks.node_indices().filter(|node| chosen[node.index()]).collect();
    let added = (0..draft.added().len() as u32).map(|id| Node::Added(AddedId(id)));
    let added = added.filter(|&node| traced.binary_search(&draft.beside(node)).is_ok());
    traced.iter().map(|&node| Node::Traced(node)).chain(added).collect()
}

/// When the host issued a task: the start of its launch, else its own.
fn launched(graph: &ExecutionGraph, node: NodeId) -> TimeNs {
    let task = &graph.tasks[node];
    let call = if task.kind.is_device() { graph.launch_of(node) } else { None };
    call.map_or(task.measured_start, |call| graph.tasks[call].measured_start)
}

/// Whether a task is of the time before its rank's chosen step, the end of the step before among it.
fn is_before(draft: &Draft<'_>, node: Node) -> bool {
    let (graph, beside) = (draft.graph(), draft.beside(node));
    let part = &graph.ranks[draft.base().rank_index(graph.tasks[beside].lane)];
    let is_outside = graph.tasks[beside].kind != TaskKind::StepEnd && !draft.base().iteration_tasks()[beside.index()];
    // Work that the step queued behind may run until the host is through with the whole step.
    let is_earlier = || graph.is_backlog(beside) || launched(graph, beside) < part.iteration_end;
    part.begin == Some(beside) || (is_outside && is_earlier())
}

/// When the host is through with the backward pass of a rank's chosen step: where the optimizer begins, else its end.
fn end_of_backward(draft: &Draft<'_>, part: &RankPart) -> Option<TimeNs> {
    let graph = draft.graph();
    let of_rank = |lane: LaneId| graph.lanes[lane.0 as usize].rank == part.rank;
    let inside = |start: TimeNs| start >= part.iteration_start && start < part.iteration_end;
    let operators = || graph.operators.iter().filter(|operator| of_rank(operator.lane) && inside(operator.start));
    let backward = operators().filter(|operator| operator.phase == Phase::Backward);
    let last = backward.map(|operator| operator.start).max()?;
    let updates = operators().filter(|operator| operator.phase == Phase::Optimizer && operator.start > last);
    Some(updates.map(|operator| operator.start).min().unwrap_or(part.iteration_end))
}

/// Whether the chosen step of any rank has an update that the trace names.
fn has_updates(draft: &Draft<'_>) -> bool {
    let graph = draft.graph();
    let inside = draft.base().iteration_tasks();
    let is_update = |&node: &NodeId| {
        let operator = graph.tasks[node].operator.and_then(|id| graph.operators.get(id.0 as usize));
        inside[node.index()] && operator.is_some_and(|operator| operator.phase == Phase::Optimizer)
    };
    graph.tasks.node_indices().any(|node| is_update(&node))
}

/// Whether a task runs once per step however many batches there are: reductions of gradients, and their zeroing.
fn is_once(draft: &Draft<'_>, node: Node) -> bool {
    let operators = &draft.graph().operators;
    let updates = draft.operator_of(node).is_some_and(|id| operators[id.0 as usize].phase == Phase::Optimizer);
    updates || draft.reduces_gradients(node)
}

/// What is repeated, with its inner dependencies.
struct Section {
    nodes: Vec<Node>,
    within: NodeSet,
    /// Dependencies within it, by place in `nodes`.
    inner: Vec<(u32, u32, Dependency)>,
    /// The tasks with which each lane begins and ends.
    ends: Vec<LaneEnds>,
}

impl Section {
    fn of(draft: &Draft<'_>, nodes: Vec<Node>) -> Self {
        let within: NodeSet = nodes.iter().copied().collect();
        let traced = draft.graph().tasks.node_count();
        let mut place = vec![0; traced + draft.added().len()];
        for (at, node) in nodes.iter().enumerate() {
            place[node.number(traced) as usize] = at as u32;
        }
        let mut inner = Vec::with_capacity(2 * nodes.len());
        for (from, &node) in nodes.iter().enumerate() {
            let edges = draft.edges_from(node).filter(|edge| within.contains(edge.to));
            inner.extend(edges.map(|edge| (from as u32, place[edge.to.number(traced) as usize], edge.dependency)));
        }
        let ends = ends(draft, &nodes, &place, &inner);
        Self { nodes, within, inner, ends }
    }

    /// Adds a copy of everything in it but what is `passed` over; like the copy `before` where there is one.
    fn copy(&self, draft: &mut Draft<'_>, before: Option<&Vec<Node>>, passed: &[bool]) -> Vec<Node> {
        let copies: Vec<Node> = match before {
            Some(before) => before.iter().map(|&copy| draft.copy_again(copy)).collect(),
            None => self.nodes.iter().map(|&node| draft.copy(node, draft.lane_of(node), draft.beside(node))).collect(),
        };
        for &(from, to, dependency) in &self.inner {
            draft.connect(copies[from as usize], copies[to as usize], dependency);
        }
        for (&copy, _) in copies.iter().zip(passed).filter(|(_, passed)| **passed) {
            draft.take_out(copy);
        }
        copies
    }

    /// Lets work of the step before that waits for something here (they shared the device) wait for its first copy.
    fn hand_on(&self, draft: &mut Draft<'_>, first: &[Node]) {
        for (&node, &copy) in self.nodes.iter().zip(first) {
            let outer = draft.edges_from(node).filter(|edge| !self.within.contains(edge.to));
            let earlier: Vec<DraftEdge> = outer.filter(|edge| edge.to != copy && is_before(draft, edge.to)).collect();
            for edge in earlier {
                draft.disconnect(&edge);
                draft.connect(copy, edge.to, edge.dependency);
            }
        }
    }

    /// Lets `after` follow `before` on every lane; without one, what the section itself followed of the step before.
    fn follow(&self, draft: &mut Draft<'_>, before: Option<&Vec<Node>>, after: &[Node]) {
        let Some(before) = before else {
            for (&node, &copy) in self.nodes.iter().zip(after) {
                let outer = draft.edges_into(node).filter(|edge| !self.within.contains(edge.from));
                let earlier: Vec<DraftEdge> = outer.filter(|edge| is_before(draft, edge.from)).collect();
                for edge in earlier {
                    draft.connect(edge.from, copy, edge.dependency);
                }
            }
            return;
        };
        for LaneEnds { first, last, heads, tails, order } in &self.ends {
            for &head in heads {
                draft.connect(before[*last], after[head], *order);
            }
            for &tail in tails.iter().filter(|&tail| tail != last) {
                draft.connect(before[tail], after[*first], *order);
            }
        }
    }
}

/// The tasks of a lane behind which the next batch follows, by place among those of a section.
struct LaneEnds {
    /// The first work.
    first: usize,
    /// The last.
    last: usize,
    /// Whatever follows nothing of its lane, joints and what was taken out among it.
    heads: Vec<usize>,
    /// Whatever nothing of its lane follows.
    tails: Vec<usize>,
    /// How the next batch follows.
    order: Dependency,
}

/// Those of all lanes, of what was traced and of what edits added alike.
///
/// # Arguments
/// `place`: the place in `nodes` of each task, by its number; `inner`: the dependencies between `nodes`, by their places.
fn ends(draft: &Draft<'_>, nodes: &[Node], place: &[u32], inner: &[(u32, u32, Dependency)]) -> Vec<LaneEnds> {
    let (mut follows, mut is_followed) = (vec![false; nodes.len()], vec![false; nodes.len()]);
    for &(from, to, _) in inner {
        let (from, to) = (from as usize, to as usize);
        if draft.lane_of(nodes[from]) == draft.lane_of(nodes[to]) {
            (follows[to], is_followed[from]) = (true, true);
        }
    }
    let of_lanes = |ends: &[bool]| {
        let mut of_lane: BTreeMap<LaneId, Vec<usize>> = BTreeMap::new();
        for at in (0..nodes.len()).filter(|&at| !ends[at]) {
            of_lane.entry(draft.lane_of(nodes[at])).or_default().push(at);
        }
        of_lane
    };
    let (mut heads, mut tails) = (of_lanes(&follows), of_lanes(&is_followed));
    let within: NodeSet = nodes.iter().copied().collect();
    let traced = draft.graph().tasks.node_count();
    let at = |node: Node| place[node.number(traced) as usize] as usize;
    let lanes = draft.in_order(|node| within.contains(node) && draft.kind_of(node).is_work());
    let of_lane = |(lane, work): (LaneId, Vec<Node>)| {
        let (&first, &last) = (work.first()?, work.last()?);
        let order = Dependency::on_end(order_kind(draft.kind_of(first)), draft.stream_gap(first));
        let [heads, tails] = [&mut heads, &mut tails].map(|ends| ends.remove(&lane).unwrap_or_default());
        Some(LaneEnds { first: at(first), last: at(last), heads, tails, order })
    };
    lanes.into_iter().filter_map(of_lane).collect()
}

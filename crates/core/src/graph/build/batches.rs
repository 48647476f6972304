//! How many batches the chosen iteration runs on: as many as an exported trace says, as steps are one iteration, or as often as forward
//! and backward pass run one after the other until the parameters are updated; and how large each is, where they differ.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::ops::Range;

use crate::graph::{ExecutionGraph, LaneId, Operator, Pass, Phase, RankPart};
use crate::intern::NameId;
use crate::trace::steps::one_by_one;
use crate::units::TimeNs;

use super::Prepared;

/// Most batches of one iteration that are told apart.
const MOST: usize = 256;

/// Share of the most calls of a forward pass that each of the others has at least: what begins or ends an iteration stands beside one.
const ALIKE: f64 = 0.5;

/// What the passes of the ranks' iterations are.
pub(super) struct Found {
    /// How many batches the iteration of each rank runs on, 1 where nothing tells of more.
    pub(super) counts: Vec<u32>,
    /// When each pass of each rank begins, see [`RankPart::passes`].
    pub(super) begins: Vec<Vec<TimeNs>>,
    /// Passes of the iteration and of the steps beside it, where some of the iteration run on batches of another size, or some ranks on
    /// more of them.
    pub(super) passes: Vec<Pass>,
    /// Whether some pass of the iteration trains nothing, on another number of samples than those that do.
    pub(super) evaluates: bool,
    /// Batches of a rank that may be one, of which the optimizer updates a part; 0 where none may.
    pub(super) may_be_one: u32,
}

/// Finds the passes of the iteration of each of `ranks`.
///
/// # Arguments
/// `alone`: of each operator whether it stands beside what is trained.
///
/// # Complexity
/// O(n log n) in operators.
pub(super) fn find(ranks: &[Prepared<'_>], graph: &ExecutionGraph, alone: &[bool]) -> Found {
    let own = |part: &RankPart| part.iteration_start..part.iteration_end;
    let found: Vec<Calls> = graph.ranks.iter().map(|part| Calls::of(graph, part, own(part))).collect();
    let told = ranks.iter().filter_map(|rank| rank.input.trace.batches).max().map(NonZeroU32::get);
    let of_rank = |(rank, calls): (&Prepared<'_>, &Calls)| {
        let joined = rank.window.batches;
        told.map_or_else(|| calls.batches.max(joined), |told| told.saturating_mul(joined))
    };
    let counts: Vec<u32> = ranks.iter().zip(&found).map(of_rank).collect();
    let each = || graph.ranks.iter().zip(&found).zip(&counts).filter(|((_, calls), count)| calls.batches == **count);
    let mut passes: Vec<Pass> = each().flat_map(|((part, calls), _)| sizes((graph, alone), part, calls)).collect();
    let beside: Vec<Pass> =
        each().flat_map(|((part, calls), _)| calls.untrained((graph, alone), part, &own(part))).collect();
    let has = |batch: u64| passes.iter().any(|pass| pass.batch == batch);
    let evaluates = !passes.is_empty() && beside.iter().any(|pass| !has(pass.batch));
    let is_unlike = passes.windows(2).any(|pair| pair[0].batch != pair[1].batch)
        || counts.windows(2).any(|pair| pair[0] != pair[1]);
    if is_unlike || evaluates {
        let is_by_updates = passes.len() > counts.iter().map(|&count| count as usize).sum();
        passes.extend(beside);
        passes.extend(each().flat_map(|((part, _), _)| of_other_steps((graph, alone), part, is_by_updates)));
        passes.sort_by_key(|pass| (pass.rank, pass.from));
    } else {
        passes.clear();
    }
    let each = ranks.iter().zip(&graph.ranks).zip(&found);
    let begins = each.map(|((rank, part), calls)| begins(rank, part, calls)).collect();
    let of_lists = found.iter().filter(|calls| told.is_none() && calls.may_be_one()).map(|calls| calls.batches);
    let may_be_one = of_lists.max().unwrap_or_default();
    Found { counts, begins, passes, evaluates, may_be_one }
}

/// The passes of a rank's iteration that train: those of one model, or one of each model that is updated before the next one runs, where
/// their batches differ.
fn sizes((graph, alone): (&ExecutionGraph, &[bool]), part: &RankPart, calls: &Calls) -> Vec<Pass> {
    let own = calls.sizes((graph, alone), part, true);
    if calls.batches > 1 || calls.backward.is_empty() {
        return own;
    }
    let within = part.iteration_start..part.iteration_end;
    let each = between_updates((graph, alone), part, (calls, &within), true);
    if each.windows(2).any(|pair| pair[0].batch != pair[1].batch) { each } else { own }
}

/// The passes that train between updates, one of each.
fn between_updates(
    (graph, alone): (&ExecutionGraph, &[bool]),
    part: &RankPart,
    (calls, within): (&Calls, &Range<TimeNs>),
    is_counted: bool,
) -> Vec<Pass> {
    let spans = calls.between_updates(graph, part, within);
    let of = |within: Range<TimeNs>| Calls::of(graph, part, within).sizes((graph, alone), part, is_counted);
    let each: Vec<Vec<Pass>> = spans.into_iter().map(of).collect();
    let is_told = each.len() > 1 && each.iter().all(|passes| passes.len() == 1);
    if is_told { each.concat() } else { Vec::new() }
}

/// The passes of a rank before its iteration and after it.
///
/// # Arguments
/// `is_by_updates`: whether those of the iteration are told apart by updates.
fn of_other_steps((graph, alone): (&ExecutionGraph, &[bool]), part: &RankPart, is_by_updates: bool) -> Vec<Pass> {
    let beside = [TimeNs(i64::MIN)..part.iteration_start, part.iteration_end..TimeNs(i64::MAX)];
    let of = |within: Range<TimeNs>| {
        let calls = Calls::of(graph, part, within.clone());
        let each =
            if is_by_updates { between_updates((graph, alone), part, (&calls, &within), false) } else { Vec::new() };
        let trained = if each.is_empty() { calls.sizes((graph, alone), part, false) } else { each };
        [trained, calls.untrained((graph, alone), part, &within)].concat()
    };
    beside.into_iter().flat_map(of).collect()
}

/// When each pass of a rank begins: its backward pass where there are several, else the step of a turn.
fn begins(rank: &Prepared<'_>, part: &RankPart, calls: &Calls) -> Vec<TimeNs> {
    let (steps, _) = if rank.window.batches > 1 { one_by_one(rank.input.trace) } else { Default::default() };
    let of_window = steps.iter().map(|step| TimeNs(step.start.since(part.window_start).0));
    let own = of_window.filter(|at| (part.iteration_start..part.iteration_end).contains(at));
    if calls.count > 1 { calls.chunks().map(|pass| pass[0].start).collect() } else { own.collect() }
}

/// A call of the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) start: TimeNs,
    name: NameId,
    /// Bytes of the gradient that it adds up, where it does.
    gradient: Option<u64>,
    /// On which thread and when the call of the forward pass ran whose gradient it gives, where that is known.
    pub(super) forward: Option<(LaneId, TimeNs)>,
}

/// Calls of the forward and of the backward pass, in order of time.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The thread that calls most of the forward pass.
    pub(super) main: Option<LaneId>,
    pub(super) forward: Vec<TimeNs>,
    pub(super) backward: Vec<Call>,
    /// How often the backward pass runs.
    pub(super) count: usize,
    /// How many forward passes have a backward pass: fewer where one runs twice over what one forward pass kept.
    pub(super) batches: u32,
}

impl Calls {
    /// Whether only the optimizer's lists tell these passes from one over as many like layers, of which the optimizer updates a part: the
    /// backward pass goes back from call to call.
    fn may_be_one(&self) -> bool {
        let starts = || self.backward.iter().filter_map(|call| Some(call.forward?.1));
        self.batches > 1 && self.count == 1 && starts().zip(starts().skip(1)).all(|(later, earlier)| earlier < later)
    }

    /// Those of a rank within a span of time.
    fn of(graph: &ExecutionGraph, part: &RankPart, within: Range<TimeNs>) -> Self {
        let main = forward_lane(graph, part, &within);
        let of_phase = |phase| of_phase(graph, part, phase, &within);
        let mut forward: Vec<TimeNs> =
            of_phase(Phase::Forward).filter(|(_, operator)| Some(operator.lane) == main).map(starts).collect();
        let mut backward: Vec<Call> = of_phase(Phase::Backward).map(|(at, _)| call(graph, at)).collect();
        forward.sort_unstable();
        backward.sort_by_key(|call| call.start);
        let count = if main.is_some() { passes(&forward, &backward) } else { 1 };
        let mut found = Self { main, forward, backward, count, batches: 1 };
        let updated = || graph.updated_sizes(part, &within);
        found.batches = if count > 1 { found.batches() } else { found.by_updates(&updated()) };
        found
    }

    /// Spans of `within` in each of which a backward pass runs and then the optimizer, before the forward pass goes on.
    fn between_updates(&self, graph: &ExecutionGraph, part: &RankPart, within: &Range<TimeNs>) -> Vec<Range<TimeNs>> {
        let mut updates: Vec<TimeNs> = of_phase(graph, part, Phase::Optimizer, within).map(starts).collect();
        updates.sort_unstable();
        let (mut spans, mut from) = (Vec::new(), within.start);
        for pair in self.forward.windows(2) {
            let before = self.backward.partition_point(|call| call.start < pair[1]);
            let Some(last) = self.backward[..before].last().filter(|call| call.start > from) else { continue };
            let is_updated =
                updates.get(updates.partition_point(|&at| at < last.start)).is_some_and(|&at| at < pair[1]);
            if is_updated {
                spans.push(from..pair[1]);
                from = pair[1];
            }
        }
        spans.push(from..within.end);
        spans
    }

    /// The backward passes.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &[Call]> {
        self.backward.chunks((self.backward.len() / self.count).max(1))
    }

    /// How many forward passes they are of.
    fn batches(&self) -> u32 {
        let latest = |pass: &[Call]| pass.iter().filter_map(|call| Some(call.forward?.1)).max();
        let Some(mut forward) = self.chunks().map(latest).collect::<Option<Vec<TimeNs>>>() else {
            return self.count as u32;
        };
        forward.sort_unstable();
        forward.dedup();
        forward.len().max(1).min(self.count) as u32
    }

    /// How many passes there are in whatever order their calls stand, by gradients that are added up as often as parameters of their size are
    /// updated, times a whole number; 1 where they are not, where some call of the backward pass, as that of a loss, runs less often, or
    /// where backward passes go back over the same calls again.
    fn by_updates(&self, updated: &BTreeMap<u64, usize>) -> u32 {
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        self.backward.iter().filter_map(|call| call.gradient).for_each(|size| *times.entry(size).or_default() += 1);
        let ratio = |(size, &times): (&u64, &usize)| {
            let updated = *updated.get(size)?;
            (updated > 0 && times.is_multiple_of(updated)).then(|| times / updated)
        };
        let mut ratios: Vec<Option<usize>> = times.iter().map(ratio).collect();
        ratios.dedup();
        let mut forward: Vec<TimeNs> = self.backward.iter().filter_map(|call| Some(call.forward?.1)).collect();
        let all = forward.len();
        forward.sort_unstable();
        forward.dedup();
        match ratios[..] {
            [Some(count @ 2..=MOST)] if all > 0 && forward.len() == all && self.all_run_times(count) => count as u32,
            _ => 1,
        }
    }

    /// Whether each operator of the backward pass is called a multiple of `count` times.
    fn all_run_times(&self, count: usize) -> bool {
        let mut calls: BTreeMap<NameId, usize> = BTreeMap::new();
        self.backward.iter().for_each(|call| *calls.entry(call.name).or_default() += 1);
        calls.into_values().all(|calls| calls.is_multiple_of(count))
    }
}

/// How often the backward pass runs: backward passes of one program call the same operators in the same order and give gradients of the
/// same sizes; before each there is a forward pass, or it goes back over what ran after all that the one before went back over.
fn passes(forward: &[TimeNs], backward: &[Call]) -> usize {
    let all = backward.len();
    let does = |call: &Call| (call.name, call.gradient);
    let repeats = |count: &usize| {
        let pass = all / count;
        let is_alike = backward[pass..].iter().zip(backward).all(|(later, before)| does(later) == does(before));
        is_alike && (begin_anew(backward, pass) || have_forward_passes(forward, backward, pass))
    };
    (2..=MOST.min(all)).rev().filter(|count| all.is_multiple_of(*count)).find(repeats).unwrap_or(1)
}

/// Whether each backward pass of `pass` calls begins later in the forward pass than the one before it ended. One pass goes back from
/// call to call, so a call of a later one is of another pass.
fn begin_anew(backward: &[Call], pass: usize) -> bool {
    let ends = |own: &[Call]| {
        let mut known = own.iter().filter_map(|call| Some(call.forward?.1));
        let first = known.next()?;
        Some((first, known.next_back().unwrap_or(first)))
    };
    let ends: Option<Vec<(TimeNs, TimeNs)>> = backward.chunks(pass).map(ends).collect();
    ends.is_some_and(|ends| ends.windows(2).all(|pair| pair[1].0 > pair[0].1))
}

/// Whether a forward pass runs before each backward pass of `pass` calls.
fn have_forward_passes(forward: &[TimeNs], backward: &[Call], pass: usize) -> bool {
    let mut from = 0;
    let calls: Vec<usize> = backward
        .chunks(pass)
        .map(|own| {
            let until = forward.partition_point(|&at| at < own[0].start);
            // Calls among those of a backward pass are of no forward pass.
            let behind = forward.partition_point(|&at| at <= own[own.len() - 1].start);
            let calls = until.saturating_sub(from);
            from = behind;
            calls
        })
        .collect();
    let most = calls.iter().copied().max().unwrap_or_default();
    most > 0 && calls.iter().all(|&calls| calls as f64 >= ALIKE * most as f64)
}

/// The thread of the rank that calls most of the forward pass. Operators stand in the order of their lanes.
fn forward_lane(graph: &ExecutionGraph, part: &RankPart, within: &Range<TimeNs>) -> Option<LaneId> {
    let mut most: Option<(usize, LaneId)> = None;
    let mut of_lane = (0, LaneId(u32::MAX));
    for (_, operator) in of_phase(graph, part, Phase::Forward, within) {
        of_lane = (if of_lane.1 == operator.lane { of_lane.0 + 1 } else { 1 }, operator.lane);
        if most.is_none_or(|(calls, _)| of_lane.0 > calls) {
            most = Some(of_lane);
        }
    }
    most.map(|(_, lane)| lane)
}

fn starts((_, operator): (usize, &Operator)) -> TimeNs {
    operator.start
}

/// Operators of a rank within a span of time that no other one calls, of such a phase.
fn of_phase<'g>(
    graph: &'g ExecutionGraph,
    part: &RankPart,
    phase: Phase,
    within: &Range<TimeNs>,
) -> impl Iterator<Item = (usize, &'g Operator)> {
    let lanes = graph.lanes_of(part.rank);
    let before = |lane: usize| graph.operators.partition_point(|operator| (operator.lane.0 as usize) < lane);
    let (first, last) = (before(lanes.start), before(lanes.end));
    let within = within.clone();
    graph.operators[first..last].iter().enumerate().map(move |(at, operator)| (first + at, operator)).filter(
        move |(_, operator)| operator.parent.is_none() && operator.phase == phase && within.contains(&operator.start),
    )
}

/// A call of a backward pass: what it does is its name and, where it adds up a gradient, how large that is.
fn call(graph: &ExecutionGraph, at: usize) -> Call {
    let operator = &graph.operators[at];
    let below = at..(operator.subtree_end.0 as usize).max(at + 1).min(graph.operators.len());
    let gradient = below.clone().find_map(|at| {
        let operator = &graph.operators[at];
        let accumulates = graph.names.get(operator.name) == "torch::autograd::AccumulateGrad";
        let operands = graph.operands.get(operator.operands.filter(|_| accumulates)?.0 as usize)?;
        Some(operands.inputs.first()?.bytes().0)
    });
    let forward = below.into_iter().find_map(|at| graph.operators[at].forward);
    Call {
        start: operator.start,
        name: operator.name,
        gradient,
        forward: forward.and_then(|id| graph.operators.get(id.0 as usize)).map(|forward| (forward.lane, forward.start)),
    }
}

//! How many batches the chosen iteration runs on: as many as an exported trace says, as steps are one iteration, or as often as forward
//! and backward pass run one after the other until the parameters are updated; and how large each is, where they differ.

use std::num::NonZeroU32;
use std::ops::Range;

use crate::graph::{ExecutionGraph, LaneId, Operator, OperatorId, Pass, Phase, RankPart, batch_size};
use crate::units::TimeNs;

use super::Prepared;

/// Most batches of one iteration that are told apart.
const MOST: usize = 256;

/// Share of the most calls of a forward pass that each of the others has at least: what begins or ends an iteration stands beside one.
const ALIKE: f64 = 0.5;

/// How many batches the iteration of each of `ranks` runs on, 1 where nothing tells of more; and its passes and those of the step before,
/// where some of the iteration run on batches of another size, or some ranks on more of them.
///
/// # Complexity
/// O(n log n) in operators.
pub(super) fn count(ranks: &[Prepared<'_>], graph: &ExecutionGraph) -> (Vec<u32>, Vec<Pass>) {
    let own = |part: &RankPart| part.iteration_start..part.iteration_end;
    let found: Vec<Calls> = graph.ranks.iter().map(|part| Calls::of(graph, part, own(part))).collect();
    let told = ranks.iter().filter_map(|rank| rank.input.trace.batches).max().map(NonZeroU32::get);
    let of_rank = |(rank, calls): (&Prepared<'_>, &Calls)| {
        let joined = rank.window.batches;
        told.map_or_else(|| calls.passes().max(joined), |told| told.saturating_mul(joined))
    };
    let counts: Vec<u32> = ranks.iter().zip(&found).map(of_rank).collect();
    let most = counts.iter().copied().max().unwrap_or(1);
    let mut passes: Vec<Pass> = Vec::new();
    let each = graph.ranks.iter().zip(&found).zip(&counts);
    for ((part, calls), _) in each.filter(|((_, calls), count)| most > 1 && calls.passes() == **count) {
        let before = Calls::of(graph, part, TimeNs(i64::MIN)..part.iteration_start);
        passes.extend(before.sizes(graph, part, false));
        passes.extend(calls.sizes(graph, part, true));
    }
    let mut sizes = passes.iter().filter(|pass| pass.is_chosen).map(|pass| pass.batch);
    let first = sizes.next();
    if sizes.all(|size| Some(size) == first) && counts.iter().all(|&count| count == most) {
        passes.clear();
    }
    (counts, passes)
}

/// Calls of the forward and of the backward pass, in order of time.
#[derive(Debug, Default)]
struct Calls {
    /// The thread that calls most of the forward pass.
    main: Option<LaneId>,
    forward: Vec<TimeNs>,
    backward: Vec<(TimeNs, u64)>,
}

impl Calls {
    /// Those of a rank within a span of time.
    fn of(graph: &ExecutionGraph, part: &RankPart, within: Range<TimeNs>) -> Self {
        let main = forward_lane(graph, part, &within);
        let of_phase = |phase| of_phase(graph, part, phase, &within);
        let mut forward: Vec<TimeNs> =
            of_phase(Phase::Forward).filter(|(_, operator)| Some(operator.lane) == main).map(starts).collect();
        let mut backward: Vec<(TimeNs, u64)> =
            of_phase(Phase::Backward).map(|(at, operator)| (operator.start, call(graph, at))).collect();
        forward.sort_unstable();
        backward.sort_unstable_by_key(|&(start, _)| start);
        Self { main, forward, backward }
    }

    /// How often forward and backward pass run.
    fn passes(&self) -> u32 {
        if self.main.is_some() { passes(&self.forward, &self.backward) } else { 1 }
    }

    /// Each pass with its batch; empty where not each tells one size.
    fn sizes(&self, graph: &ExecutionGraph, part: &RankPart, is_chosen: bool) -> Vec<Pass> {
        let count = self.passes() as usize;
        let Some(main) = self.main.filter(|_| !self.backward.is_empty()) else { return Vec::new() };
        let mut from = 0;
        let pass = |own: &[(TimeNs, u64)]| {
            let (begins, ends) = (*self.forward.get(from)?, own.first()?.0);
            from = self.forward.partition_point(|&at| at <= own[own.len() - 1].0);
            let before = |time: TimeNs| move |it: &Operator| (it.lane, it.start) < (main, time);
            let [first, last] = [begins, ends].map(|time| graph.operators.partition_point(before(time)));
            match batch_size::candidates(graph.operators.get(first..last)?, &graph.operands, &graph.names)[..] {
                [batch] => Some(Pass { rank: part.rank, from: begins, batch, is_chosen }),
                _ => None,
            }
        };
        self.backward.chunks(self.backward.len() / count).map(pass).collect::<Option<Vec<Pass>>>().unwrap_or_default()
    }
}

/// How often forward and backward pass run: backward passes of one program call the same operators in the same order and give
/// gradients of the same sizes, and before each there is a forward pass.
fn passes(forward: &[TimeNs], backward: &[(TimeNs, u64)]) -> u32 {
    let all = backward.len();
    let repeats = |count: &usize| {
        let pass = all / count;
        let is_alike = backward[pass..].iter().zip(backward).all(|((_, later), (_, before))| later == before);
        is_alike && have_forward_passes(forward, backward, pass)
    };
    (2..=MOST.min(all)).rev().filter(|count| all.is_multiple_of(*count)).find(repeats).unwrap_or(1) as u32
}

/// Whether a forward pass runs before each backward pass of `pass` calls.
fn have_forward_passes(forward: &[TimeNs], backward: &[(TimeNs, u64)], pass: usize) -> bool {
    let mut from = 0;
    let calls: Vec<usize> = backward
        .chunks(pass)
        .map(|own| {
            let until = forward.partition_point(|&at| at < own[0].0);
            // Calls among those of a backward pass are of no forward pass.
            let behind = forward.partition_point(|&at| at <= own[own.len() - 1].0);
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

/// What a call of a backward pass does, as a number: its name and, where it adds up a gradient, how large that is.
fn call(graph: &ExecutionGraph, at: usize) -> u64 {
    let operator = &graph.operators[at];
    let below = at..(operator.subtree_end.0 as usize).max(at + 1).min(graph.operators.len());
    let gradient = below.map(|at| OperatorId(at as u32)).find_map(|id| {
        let operator = &graph.operators[id.0 as usize];
        let accumulates = graph.names.get(operator.name) == "torch::autograd::AccumulateGrad";
        let operands = graph.operands.get(operator.operands.filter(|_| accumulates)?.0 as usize)?;
        Some(operands.inputs.first()?.bytes().0)
    });
    u64::from(operator.name.0) ^ gradient.unwrap_or_default().rotate_left(32)
}

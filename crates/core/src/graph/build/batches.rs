//! How many batches the chosen iteration runs on: as many as an exported trace says, as steps are one iteration, or as often as forward
//! and backward pass run one after the other until the parameters are updated.

use std::num::NonZeroU32;

use crate::graph::{ExecutionGraph, LaneId, Operator, OperatorId, Phase, RankPart};
use crate::units::TimeNs;

use super::Prepared;

/// Most batches of one iteration that are told apart.
const MOST: usize = 256;

/// Share of the most calls of a forward pass that each of the others has at least: what begins or ends an iteration stands beside one.
const ALIKE: f64 = 0.5;

/// How many batches the iteration of `ranks` runs on, 1 where nothing tells of more.
///
/// # Complexity
/// O(n log n) in operators.
pub(super) fn count(ranks: &[Prepared<'_>], graph: &ExecutionGraph) -> u32 {
    let joined = ranks.iter().map(|rank| rank.window.batches).max().unwrap_or(1);
    match ranks.iter().filter_map(|rank| rank.input.trace.batches).max() {
        Some(told) => NonZeroU32::get(told).saturating_mul(joined),
        None => graph.ranks.iter().map(|part| passes(graph, part)).fold(joined, u32::max),
    }
}

/// How often forward and backward pass run in the iteration of a rank: backward passes of one program call the same operators in
/// the same order and give gradients of the same sizes, and before each there is a forward pass.
fn passes(graph: &ExecutionGraph, part: &RankPart) -> u32 {
    let Some(main) = forward_lane(graph, part) else { return 1 };
    let mut forward: Vec<TimeNs> =
        of_phase(graph, part, Phase::Forward).filter(|(_, operator)| operator.lane == main).map(starts).collect();
    let mut backward: Vec<(TimeNs, u64)> =
        of_phase(graph, part, Phase::Backward).map(|(at, operator)| (operator.start, call(graph, at))).collect();
    forward.sort_unstable();
    backward.sort_unstable_by_key(|&(start, _)| start);
    let all = backward.len();
    let repeats = |count: &usize| {
        let pass = all / count;
        let is_alike = backward[pass..].iter().zip(&backward).all(|((_, later), (_, before))| later == before);
        is_alike && have_forward_passes(&forward, &backward, pass)
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
fn forward_lane(graph: &ExecutionGraph, part: &RankPart) -> Option<LaneId> {
    let mut most: Option<(usize, LaneId)> = None;
    let mut of_lane = (0, LaneId(u32::MAX));
    for (_, operator) in of_phase(graph, part, Phase::Forward) {
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

/// Operators of the rank's iteration that no other one calls, of such a phase.
fn of_phase<'g>(
    graph: &'g ExecutionGraph,
    part: &RankPart,
    phase: Phase,
) -> impl Iterator<Item = (usize, &'g Operator)> {
    let lanes = graph.lanes_of(part.rank);
    let before = |lane: usize| graph.operators.partition_point(|operator| (operator.lane.0 as usize) < lane);
    let (first, last) = (before(lanes.start), before(lanes.end));
    let within = part.iteration_start..part.iteration_end;
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

//! Idle gaps: when a stream had nothing to do within the iteration, and why.
//!
//! The cause is read off the chain of what decided when the next work of the stream could start, back to where the
//! stream fell idle.

mod cause;
mod steps;

use std::ops::Range;

use crate::graph::{ExecutionGraph, LaneId, LaneKind, NodeId, Rank, TimedGraph};
use crate::sim::Schedule;
use crate::units::{DurNs, TimeNs};

pub use cause::Cause;
pub use steps::candidate_steps;

use super::critical_path::{self, Segment};
use super::density::Density;
use super::lanes::{Times, densities};

/// A stretch of a stream without work.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// Whose stream.
    pub rank: Rank,
    /// The stream.
    pub lane: LaneId,
    /// When it fell idle, or the iteration began.
    pub start: TimeNs,
    /// How long it stayed idle within the iteration.
    pub duration: DurNs,
    /// The work that ended it; `None` when none followed within the iteration.
    pub next: Option<NodeId>,
    /// Why.
    pub cause: Cause,
    /// What decided the end of the gap, in order of time; covers the gap.
    pub chain: Vec<Segment>,
    /// Steps that make it shorter with their gain, largest first: empty until a session has tried
    /// [`candidate_steps`].
    pub closed_by: Vec<(String, DurNs)>,
}

/// All that finding gaps takes.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The graph.
    pub graph: &'a ExecutionGraph,
    /// The arrays that were simulated.
    pub timed: &'a TimedGraph,
    /// What the simulation found: it says what decided what.
    pub schedule: &'a Schedule,
    /// Which times gaps are looked for in.
    pub times: Times<'a>,
}

/// The idle intervals of all streams within the iteration, longest first; of equally long ones the earlier, then the
/// one on the lower lane.
///
/// # Arguments
/// `shortest`: gaps below it are left out.
///
/// # Complexity
/// O(tasks + length of all chains).
pub fn gaps(sources: &Sources<'_>, shortest: DurNs) -> Vec<Gap> {
    let lanes = densities(sources.graph, sources.times);
    let mut found = Vec::new();
    for part in &sources.graph.ranks {
        let period = sources.times.period(sources.graph, part);
        for (lane, density) in lanes.iter().enumerate() {
            let owner = &sources.graph.lanes[lane];
            if owner.rank == part.rank && matches!(owner.kind, LaneKind::Stream { .. }) {
                let idle = idle(density, &period).into_iter();
                let long = idle.filter(|(range, _)| range.end.since(range.start) >= shortest.max(DurNs(1)));
                found.extend(
                    long.map(|(range, next)| explained(sources, part.rank, LaneId(lane as u32), range, next, part.end)),
                );
            }
        }
    }
    found.sort_by_key(|gap| (std::cmp::Reverse(gap.duration), gap.start, gap.lane));
    found
}

/// Where a lane is idle within `period`, each with the work that follows within it.
fn idle(density: &Density, period: &Range<TimeNs>) -> Vec<(Range<TimeNs>, Option<NodeId>)> {
    let mut idle = Vec::new();
    let mut reached = period.start;
    for piece in density.visible(period.clone()) {
        if piece.start > reached {
            idle.push((reached..piece.start, Some(NodeId::new(piece.key as usize))));
        }
        reached = piece.end;
    }
    if reached < period.end {
        idle.push((reached..period.end, None));
    }
    idle
}

/// The gap with its chain and cause. A gap that no work ends lasts until the iteration does, whose marker's chain it has.
fn explained(
    sources: &Sources<'_>,
    rank: Rank,
    lane: LaneId,
    range: Range<TimeNs>,
    next: Option<NodeId>,
    end: NodeId,
) -> Gap {
    let Sources { graph, timed, schedule, times } = *sources;
    let chain = critical_path::chain(graph, timed, schedule, times, next.unwrap_or(end), range.clone());
    let cause = match next {
        Some(_) => cause::of_chain(graph, rank, lane, &chain),
        None => Cause::NothingLeft,
    };
    let duration = range.end.since(range.start);
    Gap { rank, lane, start: range.start, duration, next, cause, chain, closed_by: Vec::new() }
}

#[cfg(test)]
mod tests;

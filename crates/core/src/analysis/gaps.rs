//! Idle gaps: when a stream had nothing to do within the iteration, and why.
//!
//! The cause is read off the chain of what decided when the next work of the stream could start, back to where the
//! stream fell idle.

mod cause;
mod steps;

use std::ops::Range;

use crate::graph::{LaneId, LaneKind, NodeId, Rank, RankPart};
use crate::units::{DurNs, TimeNs};

pub use cause::Cause;
pub use steps::candidate_steps;

use super::critical_path::{self, Segment};
use super::density::Density;
use super::lanes::densities;
use super::sources::Sources;

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
    /// What decided the end of the gap, in order of time; covers the gap, or is empty where it was not examined.
    pub chain: Vec<Segment>,
    /// Steps that make it shorter with their gain, largest first: empty until a session has tried
    /// [`candidate_steps`].
    pub closed_by: Vec<(String, DurNs)>,
}

/// How long a stream does nothing within the iteration, however short the gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleStream {
    /// Whose stream.
    pub rank: Rank,
    /// The stream.
    pub lane: LaneId,
    /// All its gaps together.
    pub idle: DurNs,
    /// How long the iteration is on its rank.
    pub period: DurNs,
}

/// All that is idle within the iteration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// The gaps, longest first; of equally long ones the earlier, then the one on the lower lane.
    pub gaps: Vec<Gap>,
    /// The streams, in the order of ranks and lanes.
    pub streams: Vec<IdleStream>,
}

impl Survey {
    /// The stream of each rank that works longest, where it works at all.
    pub fn main_streams(&self) -> impl Iterator<Item = &IdleStream> {
        let busy = |stream: &IdleStream| stream.period - stream.idle;
        let ranks = self.streams.chunk_by(|a, b| a.rank == b.rank);
        let main = ranks.filter_map(move |streams| streams.iter().rev().max_by_key(|stream| busy(stream)));
        main.filter(move |stream| busy(stream) > DurNs::ZERO)
    }
}

/// The gaps of [`survey`].
pub fn gaps(sources: &Sources<'_>, shortest: DurNs) -> Vec<Gap> {
    survey(sources, shortest, 0).gaps
}

/// The idle intervals of all streams within the iteration.
///
/// # Arguments
/// `shortest`: gaps below it are left out, but for the `least` longest of all.
///
/// # Complexity
/// O(tasks · log tasks): where all chains together are longer than [`LINKS_PER_TASK`] allows, the causes of the shortest
/// gaps are [`Cause::NotExamined`].
pub fn survey(sources: &Sources<'_>, shortest: DurNs, least: usize) -> Survey {
    let lanes = densities(sources.graph, sources.times);
    let (mut found, mut streams) = (Vec::new(), Vec::new());
    for part in &sources.graph.ranks {
        let period = sources.times.period(sources.graph, part);
        for (lane, density) in lanes.iter().enumerate() {
            let owner = &sources.graph.lanes[lane];
            if owner.rank == part.rank && matches!(owner.kind, LaneKind::Stream { .. }) {
                let lane = LaneId(lane as u32);
                let idle = idle(density, &period);
                let length = |(range, _): &(Range<TimeNs>, _)| range.end.since(range.start);
                let (rank, all) = (part.rank, idle.iter().map(length).sum());
                streams.push(IdleStream { rank, lane, idle: all, period: period.end.since(period.start) });
                found.extend(idle.into_iter().map(|(range, next)| Idle { part, lane, range, next }));
            }
        }
    }
    let duration = |idle: &Idle<'_>| idle.range.end.since(idle.range.start);
    let order = |idle: &Idle<'_>| (std::cmp::Reverse(duration(idle)), idle.range.start, idle.lane);
    let is_long = |idle: &&Idle<'_>| duration(idle) >= shortest.max(DurNs(1));
    let shown = found.iter().filter(is_long).count().max(least);
    if shown < found.len() {
        found.select_nth_unstable_by_key(shown, order);
        found.truncate(shown);
    }
    found.retain(|idle| duration(idle) > DurNs::ZERO);
    found.sort_by_key(order);
    let mut links = LINKS_PER_TASK * sources.graph.tasks.node_count();
    let gaps = found.into_iter().map(|idle| explained(sources, idle, &mut links)).collect();
    Survey { gaps, streams }
}

/// Links of chains that are followed, over all gaps, for each task of the graph: far more than recorded streams need, and
/// few enough that thousands of streams with little work each are shown at once.
const LINKS_PER_TASK: usize = 64;

/// A stream without work: of which rank, and the work that ends it.
struct Idle<'a> {
    part: &'a RankPart,
    lane: LaneId,
    range: Range<TimeNs>,
    next: Option<NodeId>,
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
///
/// # Arguments
/// `links`: how many links of chains may still be followed.
fn explained(sources: &Sources<'_>, idle: Idle<'_>, links: &mut usize) -> Gap {
    let Idle { part: &RankPart { rank, end, .. }, lane, range, next } = idle;
    let (start, duration) = (range.start, range.end.since(range.start));
    let is_examined = *links > 0;
    let last = next.unwrap_or(end);
    let chain = if is_examined { critical_path::chain(sources, last, range) } else { Vec::new() };
    *links = links.saturating_sub(chain.len());
    let cause = match next {
        None => Cause::NothingLeft,
        Some(_) if is_examined => cause::of_chain(sources.graph, rank, lane, &chain),
        Some(_) => Cause::NotExamined,
    };
    Gap { rank, lane, start, duration, next, cause, chain, closed_by: Vec::new() }
}

#[cfg(test)]
mod tests;

//! Where the ranks of a job meet: when each arrives at every collective of the iteration, and how long the others wait.
//!
//! Who is late and by how much; why is for [`lateness`](super::stragglers) to say.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::graph::{Collective, CollectiveId, ExecutionGraph, NodeId, Rank, TimedGraph};
use crate::sim::Schedule;
use crate::units::{DurNs, TimeNs};

use super::busy;
use super::lanes::Times;

/// A span of time.
type Span = (TimeNs, TimeNs);

/// One rank's part in a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Whose.
    pub rank: Rank,
    /// How many ranks it stands for.
    pub count: u32,
    /// Its task.
    pub node: NodeId,
    /// What the rank arrives with: the joint before the task, or the task itself where no others were matched.
    pub by: NodeId,
    /// When it was there.
    pub at: TimeNs,
    /// When it left.
    pub end: TimeNs,
}

/// A collective as it was simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedCollective {
    /// Which.
    pub collective: CollectiveId,
    /// When all were there.
    pub began: TimeNs,
    /// In order of time, then of rank; never empty.
    pub arrivals: Vec<Arrival>,
}

impl SimulatedCollective {
    /// The last to arrive and the one before it; `None` where one rank is alone.
    pub fn last_two(&self) -> Option<(&Arrival, &Arrival)> {
        let [.., second, last] = self.arrivals.as_slice() else { return None };
        Some((last, second))
    }

    /// How much later the last arrives than the one before.
    pub fn late(&self) -> DurNs {
        self.last_two().map_or(DurNs::ZERO, |(last, second)| last.at.since(second.at))
    }

    /// Waiting for the last, all ranks together.
    pub fn waited(&self) -> DurNs {
        self.arrivals.iter().map(|arrival| self.wait(arrival) * i64::from(arrival.count)).sum()
    }

    /// How long one rank waits for the last.
    pub fn wait(&self, arrival: &Arrival) -> DurNs {
        self.began.since(arrival.at).max(DurNs::ZERO)
    }

    /// From when all were there to when one rank left.
    pub fn transfer(&self, arrival: &Arrival) -> DurNs {
        arrival.end.since(self.began).max(DurNs::ZERO)
    }

    /// How many ranks took part.
    pub fn ranks(&self) -> u32 {
        self.arrivals.iter().map(|arrival| arrival.count).sum()
    }

    /// The longest transfer of its ranks.
    pub fn longest_transfer(&self) -> DurNs {
        self.arrivals.iter().map(|arrival| self.transfer(arrival)).max().unwrap_or_default()
    }
}

/// What a rank does in the collectives of its iteration: where it is in several at a time, that time counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InCollectives {
    /// Waiting for the last of one, while none transfers.
    pub wait: DurNs,
    /// When at least one transfers: spans in order, apart from each other.
    pub transfers: Vec<Span>,
}

impl InCollectives {
    /// Time in which at least one transfers.
    pub fn transfer(&self) -> DurNs {
        self.transfers.iter().map(|&(start, end)| end.since(start)).sum()
    }
}

/// The iteration of each rank.
pub fn windows(graph: &ExecutionGraph, timed: &TimedGraph, schedule: &Schedule) -> BTreeMap<Rank, Span> {
    graph.ranks.iter().map(|part| (part.rank, busy::window(part, timed, schedule))).collect()
}

/// What of `spans` lies inside `window`.
fn cut(spans: Vec<Span>, (from, to): Span) -> Vec<Span> {
    let inside = spans.into_iter().map(|(start, end)| (start.max(from), end.min(to)));
    inside.filter(|(start, end)| start < end).collect()
}

/// Waiting and transfer of each rank in `calls`, cut at the ends of its iteration.
///
/// # Complexity
/// O(arrivals · log).
pub fn by_rank(calls: &[SimulatedCollective], windows: &BTreeMap<Rank, Span>) -> BTreeMap<Rank, InCollectives> {
    let mut spans: BTreeMap<Rank, [Vec<Span>; 2]> = BTreeMap::new();
    for call in calls {
        for arrival in &call.arrivals {
            let [waits, transfers] = spans.entry(arrival.rank).or_default();
            waits.push((arrival.at, call.began.min(arrival.end)));
            transfers.push((call.began, arrival.end));
        }
    }
    let in_collectives = |(rank, [waits, transfers]): (Rank, [Vec<Span>; 2])| {
        let window = *windows.get(&rank)?;
        let mut found = InCollectives { wait: DurNs::ZERO, transfers: busy::merged(cut(transfers, window)) };
        let all = cut(waits, window).into_iter().chain(found.transfers.iter().copied()).collect();
        found.wait = busy::union(all) - found.transfer();
        Some((rank, found))
    };
    spans.into_iter().filter_map(in_collectives).collect()
}

/// By rank: the time of its iteration in which all others of a collective are there and it is not.
///
/// # Complexity
/// O(collectives · log).
pub fn late(calls: &[SimulatedCollective], windows: &BTreeMap<Rank, Span>) -> BTreeMap<Rank, DurNs> {
    let mut spans: BTreeMap<Rank, Vec<Span>> = BTreeMap::new();
    for (last, second) in calls.iter().filter_map(SimulatedCollective::last_two) {
        spans.entry(last.rank).or_default().push((second.at, last.at));
    }
    let late = |(rank, spans): (Rank, Vec<Span>)| Some((rank, busy::union(cut(spans, *windows.get(&rank)?))));
    spans.into_iter().filter_map(late).collect()
}

/// The collectives of the chosen iteration, by the time they begin; those that edits took away are left out.
///
/// # Complexity
/// O(collectives · ranks · log ranks).
pub fn collectives(graph: &ExecutionGraph, timed: &TimedGraph, schedule: &Schedule) -> Vec<SimulatedCollective> {
    let times = Times::Simulated { timed, schedule };
    let periods: BTreeMap<Rank, Range<TimeNs>> =
        graph.ranks.iter().map(|part| (part.rank, times.period(graph, part))).collect();
    let mut found: Vec<SimulatedCollective> = Vec::new();
    for (index, collective) in graph.collectives.iter().enumerate() {
        let call = simulated(graph, timed, schedule, (CollectiveId(index as u32), collective));
        let Some(last) = call.arrivals.last() else { continue };
        let is_inside = periods.get(&last.rank).is_some_and(|period| period.contains(&call.began));
        let takes_time = call.arrivals.iter().any(|arrival| arrival.end > call.began);
        if is_inside && takes_time {
            found.push(call);
        }
    }
    found.sort_by_key(|call| (call.began, call.collective));
    found
}

fn simulated(
    graph: &ExecutionGraph,
    timed: &TimedGraph,
    schedule: &Schedule,
    (id, collective): (CollectiveId, &Collective),
) -> SimulatedCollective {
    let arrival = |(place, &node): (usize, &NodeId)| {
        let task = timed.task_if_kept(node)?;
        let rank = graph.lanes[graph.tasks[node].lane.0 as usize].rank;
        let joint = collective.arrivals.get(place);
        let joint = joint.and_then(|&joint| Some((joint, schedule.end(timed.task_if_kept(joint)?))));
        let (by, at) = joint.unwrap_or_else(|| (node, schedule.start(timed, task)));
        Some(Arrival { rank, count: graph.count_of(rank), node, by, at, end: schedule.end(task) })
    };
    let mut arrivals: Vec<Arrival> = collective.members.iter().enumerate().filter_map(arrival).collect();
    arrivals.sort_by_key(|arrival| (arrival.at, arrival.rank));
    let began = arrivals.last().map_or(TimeNs(0), |last| last.at);
    SimulatedCollective { collective: id, began, arrivals }
}

//! Where the ranks of a job meet: when each arrives at every collective of the iteration, and how long the others wait.
//!
//! Who is late and by how much; why is for [`lateness`](super::stragglers) to say.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::graph::{Collective, CollectiveId, ExecutionGraph, NodeId, Rank, TimedGraph};
use crate::sim::Schedule;
use crate::units::{DurNs, TimeNs};

use super::lanes::Times;

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

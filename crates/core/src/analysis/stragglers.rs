//! Why a rank comes late to a collective, and how much of a collective's time other work hides.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::graph::{ExecutionGraph, LaneId, NodeId, Rank, TaskKind};
use crate::intern::NameId;
use crate::units::{DurNs, TimeNs};

use super::busy;
use super::collectives::{Arrival, SimulatedCollective};
use super::critical_path::{Segment, Walk};
use super::sources::Sources;

/// What made the last rank later than the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Kind of time, as in critical paths: `T1` to `T5`, a kernel family (`embedding` for look-ups), a wait.
    pub kind: &'static str,
    /// The task or operator of that kind with most of it.
    pub name: NameId,
    /// How much more of that kind lies on the way of the last rank.
    pub more: DurNs,
}

/// Why ranks are late, one collective after another: the ways to them run through the same tasks for the most part.
#[derive(Debug)]
pub struct Reasons<'a> {
    sources: &'a Sources<'a>,
    /// The latest way of each rank.
    ways: BTreeMap<Rank, Way>,
    /// Where a way was: whose, which of its rank's, and how many of its segments are later.
    seen: FxHashMap<Place, (Rank, usize, usize)>,
    /// How many ways were followed.
    count: usize,
}

/// A task of a way with what is covered up to it, and from when on ways are followed.
type Place = ((NodeId, TimeNs), TimeNs);

/// Time by kind and name.
type Sums = BTreeMap<(&'static str, NameId), DurNs>;

/// What decided when a rank arrived.
#[derive(Debug)]
struct Way {
    number: usize,
    /// All of it.
    sums: Sums,
    /// Of what no way before it went through, the latest first.
    segments: Vec<Segment>,
}

impl<'a> Reasons<'a> {
    /// Of no collective yet.
    pub fn of(sources: &'a Sources<'a>) -> Self {
        Self { sources, ways: BTreeMap::new(), seen: FxHashMap::default(), count: 0 }
    }

    /// What the collectives are of.
    pub fn graph(&self) -> &'a ExecutionGraph {
        self.sources.graph
    }

    /// Why the last rank is later: both ways to the collective are followed back to the iteration's start, and what they have
    /// in common cancels. The differences of all kinds add up to how late it is.
    ///
    /// # Complexity
    /// O(length of both ways) for the first collective, then of what is new in them, and O(kinds · names · log) each.
    pub fn reason(&mut self, call: &SimulatedCollective) -> Option<Reason> {
        let (last, second) = call.last_two().filter(|(last, second)| last.at > second.at)?;
        let graph = self.sources.graph;
        let periods = graph.ranks.iter().filter(|part| [last.rank, second.rank].contains(&part.rank));
        let since = periods.map(|part| self.sources.times.period(graph, part).start).min()?;
        let mut sums = self.way(last, since);
        for (key, time) in self.way(second, since) {
            *sums.entry(key).or_default() -= time;
        }
        let mut kinds: BTreeMap<&'static str, DurNs> = BTreeMap::new();
        for (&(kind, _), &time) in &sums {
            *kinds.entry(kind).or_default() += time;
        }
        let (kind, more) = largest(kinds)?;
        let names = sums.into_iter().filter(|((of, _), _)| *of == kind).map(|((_, name), time)| (name, time)).collect();
        let (name, _) = largest(names)?;
        Some(Reason { kind, name, more })
    }

    /// What decided when a rank arrived, from `since` on.
    fn way(&mut self, arrival: &Arrival, since: TimeNs) -> Sums {
        let mut walk = Walk::begin(self.sources, arrival.by, since..arrival.at);
        let mut places = Vec::new();
        let mut sums = loop {
            let place = (walk.place(), since);
            if let Some(known) = self.known(&place) {
                break known;
            }
            if !walk.is_open() {
                break Sums::new();
            }
            places.push((place, walk.segments.len()));
            walk.advance(self.sources);
        };
        for segment in &walk.segments {
            *sums.entry((segment.kind.name(), segment.name)).or_default() += segment.duration;
        }
        self.count += 1;
        let (rank, number) = (arrival.rank, self.count);
        self.seen.extend(places.into_iter().map(|(place, later)| (place, (rank, number, later))));
        self.ways.insert(rank, Way { number, sums: sums.clone(), segments: walk.segments });
        sums
    }

    /// What is before a place that one of the latest ways was at.
    fn known(&self, place: &Place) -> Option<Sums> {
        let &(rank, number, later) = self.seen.get(place)?;
        let way = self.ways.get(&rank).filter(|way| way.number == number)?;
        let mut sums = way.sums.clone();
        for segment in &way.segments[..later] {
            *sums.entry((segment.kind.name(), segment.name)).or_default() -= segment.duration;
        }
        Some(sums)
    }
}

/// As [`Reasons::reason`], of one collective.
pub fn reason(sources: &Sources<'_>, call: &SimulatedCollective) -> Option<Reason> {
    Reasons::of(sources).reason(call)
}

/// The largest of some differences above zero; of equal ones the first.
fn largest<K: Ord>(sums: BTreeMap<K, DurNs>) -> Option<(K, DurNs)> {
    let above = sums.into_iter().filter(|(_, more)| more.0 > 0);
    above.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

/// How much of collectives' transfers other work of the same rank hides.
#[derive(Clone, Debug)]
pub struct Overlap {
    /// Spans of other work, merged and in order, by rank.
    busy: BTreeMap<Rank, Vec<(TimeNs, TimeNs)>>,
}

impl Overlap {
    /// Looks at all work but collectives: on devices, and on host threads that compute.
    ///
    /// # Complexity
    /// O(tasks · log tasks).
    pub fn of(sources: &Sources<'_>) -> Self {
        let (graph, mut busy) = (sources.graph, BTreeMap::<Rank, Vec<(TimeNs, TimeNs)>>::new());
        for node in graph.tasks.node_indices().filter(|&node| hides(graph, node)) {
            let (start, end) = sources.times.of(graph, node);
            if end > start {
                busy.entry(rank(graph, graph.tasks[node].lane)).or_default().push((start, end));
            }
        }
        Self { busy: busy.into_iter().map(|(rank, spans)| (rank, busy::merged(spans))).collect() }
    }

    /// Exposed and overlapped time of one rank's transfer.
    pub fn split(&self, call: &SimulatedCollective, arrival: &Arrival) -> (DurNs, DurNs) {
        self.split_spans(arrival.rank, &[(call.began, arrival.end)])
    }

    /// The same of all transfers of a rank: spans apart from each other.
    pub fn split_spans(&self, rank: Rank, transfers: &[(TimeNs, TimeNs)]) -> (DurNs, DurNs) {
        let busy = self.busy.get(&rank).map_or(&[][..], Vec::as_slice);
        let (mut exposed, mut hidden) = (DurNs::ZERO, DurNs::ZERO);
        // One that left before the last was there, as members do of which some were not matched, transfers nothing beside others.
        for &(from, to) in transfers.iter().filter(|(from, to)| from < to) {
            let first = busy.partition_point(|&(_, end)| end <= from);
            let inside = busy[first..].iter().take_while(|&&(start, _)| start < to);
            let beside: DurNs = inside.map(|&(start, end)| end.min(to).since(start.max(from))).sum();
            (exposed, hidden) = (exposed + to.since(from) - beside, hidden + beside);
        }
        (exposed, hidden)
    }
}

fn hides(graph: &ExecutionGraph, node: NodeId) -> bool {
    let kind = graph.tasks[node].kind;
    matches!(kind, TaskKind::Kernel | TaskKind::Memcpy | TaskKind::Memset | TaskKind::Compute)
}

fn rank(graph: &ExecutionGraph, lane: LaneId) -> Rank {
    graph.lanes[lane.0 as usize].rank
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{CollectiveId, NodeId};

    #[test]
    fn who_leaves_before_the_last_is_there_transfers_nothing() {
        let us = |us: i64| TimeNs(us * 1_000);
        let overlap = Overlap { busy: BTreeMap::from([(Rank(0), vec![(us(0), us(100))])]) };
        let arrival = |end: i64| {
            let node = NodeId::new(0);
            Arrival { rank: Rank(0), count: 1, node, by: node, at: us(1), end: us(end) }
        };
        let call = SimulatedCollective {
            collective: CollectiveId(0),
            began: us(20),
            arrivals: vec![arrival(10), arrival(30)],
        };
        assert_eq!(overlap.split(&call, &arrival(10)), (DurNs::ZERO, DurNs::ZERO));
        assert_eq!(overlap.split(&call, &arrival(30)), (DurNs::ZERO, DurNs(10_000)));
    }
}

//! Where the time of an iteration went, in a form that another iteration's can be held against: by operator in the order
//! of calls and by kind of task, on host and device and along the critical path.
//!
//! Times along the critical path add up to the iteration: the differences of two iterations' operators, or kinds, there
//! add up to the difference of the iterations. All times are means over the ranks, but the path is that of the slowest.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use rustc_hash::FxHashMap;

use crate::graph::{ExecutionGraph, LaneId, LaneKind, NodeId, OperatorId, TaskKind};
use crate::units::DurNs;

use super::breakdown;
use super::busy::union;
use super::critical_path::{CriticalPath, SegmentKind};
use super::sources::Sources;

/// What tasks outside of operators are listed as.
pub const OUTSIDE: &str = "(outside of operators)";
/// The kind of time in which no stream of a device works.
pub const IDLE: &str = "idle";

/// Time on host threads, on streams, and on the critical path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On host threads.
    pub host: DurNs,
    /// On streams; operators' work that overlaps counts each.
    pub device: DurNs,
    /// On the critical path, waits among it.
    pub path: DurNs,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, rhs: Self) {
        self.host += rhs.host;
        self.device += rhs.device;
        self.path += rhs.path;
    }
}

impl Spent {
    fn over(self, ranks: usize) -> Self {
        let mean = |total: DurNs| DurNs(total.0 / ranks.max(1) as i64);
        Self { host: mean(self.host), device: mean(self.device), path: self.path }
    }
}

/// A top-level operator's call, with everything below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The operator.
    pub name: String,
    /// Its time.
    pub spent: Spent,
}

/// Where a kind of time is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// On host threads.
    Host,
    /// On a device.
    Device,
    /// Between tasks.
    Wait,
}

/// The operators of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// Their time, the mean over ranks.
    pub spent: Spent,
    /// Their calls on all ranks.
    pub count: usize,
}

/// Where the time of an iteration went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Top-level operators of each rank in order of threads and time.
    pub calls: Vec<Vec<Call>>,
    /// By name; tasks outside of operators as [`OUTSIDE`].
    pub by_name: BTreeMap<String, Named>,
    /// By kind within the iteration: `T1` to `T5` and `compute` on the host; families, copies, collectives and [`IDLE`] on
    /// the device; waits. A kind's time is in the field of its place.
    pub by_kind: BTreeMap<(Place, &'static str), Spent>,
}

impl Profile {
    /// The profile of the chosen iteration, with the times that `sources` says.
    ///
    /// # Complexity
    /// O(tasks · log).
    pub fn of(sources: &Sources<'_>) -> Self {
        let path = CriticalPath::of_job(sources);
        let (calls, others) = calls(sources, &path);
        let ranks = sources.graph.ranks.len();
        let mut by_name: BTreeMap<String, Named> = BTreeMap::new();
        for call in calls.iter().flatten() {
            let named = by_name.entry(call.name.clone()).or_default();
            named.spent += call.spent;
            named.count += 1;
        }
        for (name, spent) in others {
            by_name.entry(name).or_default().spent += spent;
        }
        for named in by_name.values_mut() {
            named.spent = named.spent.over(ranks);
        }
        Self { calls, by_name, by_kind: kinds(sources, &path) }
    }

    /// Whether any work ran on a device.
    pub fn has_device(&self) -> bool {
        self.by_name.values().any(|named| named.spent.device > DurNs::ZERO)
    }

    /// Time on host threads, streams and the path, of all operators together.
    pub fn total(&self) -> Spent {
        let mut total = Spent::default();
        for named in self.by_name.values() {
            total += named.spent;
        }
        total
    }
}

/// The calls of every rank in order, and what belongs to none of them by name: tasks outside of operators, and on the path
/// operators of the step before.
fn calls(sources: &Sources<'_>, path: &CriticalPath) -> (Vec<Vec<Call>>, BTreeMap<String, Spent>) {
    let graph = sources.graph;
    let tops = graph.top_level_operators();
    let mut sums: FxHashMap<OperatorId, Spent> = FxHashMap::default();
    let mut outside = Spent::default();
    let belongs = graph.iteration_tasks();
    for node in graph.tasks.node_indices().filter(|node| belongs[node.index()]) {
        let task = &graph.tasks[node];
        if matches!(task.kind, TaskKind::Joint | TaskKind::StepEnd) {
            continue;
        }
        let (start, end) = sources.times.of(graph, node);
        let on_device = is_stream(graph, task.lane);
        let spent = match task.operator.and_then(|operator| tops.get(operator.0 as usize)) {
            Some(&top) => sums.entry(top).or_default(),
            None => &mut outside,
        };
        *(if on_device { &mut spent.device } else { &mut spent.host }) += end.since(start);
    }
    let name = |id: OperatorId| graph.names.get(graph.operators[id.0 as usize].name).to_owned();
    let mut others: BTreeMap<String, Spent> = BTreeMap::new();
    for segment in &path.segments {
        let operator = graph.tasks[segment.node].operator;
        let top = operator.and_then(|operator| tops.get(operator.0 as usize).copied());
        let spent = match top {
            Some(top) if sums.contains_key(&top) => sums.entry(top).or_default(),
            Some(top) => others.entry(name(top)).or_default(),
            None => &mut outside,
        };
        spent.path += segment.duration;
    }
    if outside != Spent::default() {
        *others.entry(OUTSIDE.to_owned()).or_default() += outside;
    }
    let mut ordered: Vec<(OperatorId, Spent)> = sums.into_iter().collect();
    ordered.sort_by_key(|&(id, _)| {
        let operator = &graph.operators[id.0 as usize];
        (graph.lanes[operator.lane.0 as usize].rank, operator.lane, operator.start, id)
    });
    let mut calls: Vec<Vec<Call>> = vec![Vec::new(); graph.ranks.len()];
    for (id, spent) in ordered {
        let rank = graph.lanes[graph.operators[id.0 as usize].lane.0 as usize].rank;
        if let Some(own) = graph.place_of(rank) {
            calls[own].push(Call { name: name(id), spent });
        }
    }
    (calls, others)
}

fn kinds(sources: &Sources<'_>, path: &CriticalPath) -> BTreeMap<(Place, &'static str), Spent> {
    let graph = sources.graph;
    let lanes = breakdown::clipped(sources);
    let mut kinds: BTreeMap<(Place, &'static str), Spent> = BTreeMap::new();
    for (lane, intervals) in graph.lanes.iter().zip(&lanes) {
        let on_device = matches!(lane.kind, LaneKind::Stream { .. });
        for interval in intervals {
            let Some(kind) = SegmentKind::of(graph, sources.works, NodeId::new(interval.key as usize)) else {
                continue;
            };
            let place = if on_device { Place::Device } else { Place::Host };
            let spent = kinds.entry((place, kind.name())).or_default();
            *(if on_device { &mut spent.device } else { &mut spent.host }) += interval.end.since(interval.start);
        }
    }
    for part in &graph.ranks {
        let of_rank = graph.lanes.iter().zip(&lanes).filter(|(lane, _)| lane.rank == part.rank);
        let streams = of_rank.filter(|(lane, _)| matches!(lane.kind, LaneKind::Stream { .. }));
        let work: Vec<_> = streams.flat_map(|(_, intervals)| intervals).map(|it| (it.start, it.end)).collect();
        if !work.is_empty() {
            let period = sources.times.period(graph, part);
            kinds.entry((Place::Device, IDLE)).or_default().device += period.end.since(period.start) - union(work);
        }
    }
    for spent in kinds.values_mut() {
        *spent = spent.over(graph.ranks.len());
    }
    for segment in &path.segments {
        let place = match segment.kind {
            SegmentKind::Wait(_) => Place::Wait,
            _ if is_stream(graph, segment.lane) => Place::Device,
            _ => Place::Host,
        };
        kinds.entry((place, segment.kind.name())).or_default().path += segment.duration;
    }
    kinds
}

fn is_stream(graph: &ExecutionGraph, lane: LaneId) -> bool {
    matches!(graph.lanes[lane.0 as usize].kind, LaneKind::Stream { .. })
}

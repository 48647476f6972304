//! The breakdown of an iteration: what each stream and thread did with its time, and how much communication was hidden.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::cost::Family;
use crate::graph::{LaneId, LaneKind, NodeId, Rank, RankPart, TaskKind};
use crate::units::{DurNs, TimeNs};

use super::busy;
use super::critical_path::SegmentKind;
use super::density::Interval;
use super::gaps::gaps;
use super::sources::Sources;

/// One stream's share of an iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamShare {
    /// Whose.
    pub rank: Rank,
    /// Which stream.
    pub lane: LaneId,
    /// Time by kernel family; where tasks were recorded to overlap it is of the one that began first.
    pub by_family: BTreeMap<Family, DurNs>,
    /// Idle time by the name of its cause.
    pub idle: BTreeMap<&'static str, DurNs>,
    /// Time in which at least one task ran.
    pub busy: DurNs,
}

/// One host thread's share of an iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadShare {
    /// Whose.
    pub rank: Rank,
    /// Which thread.
    pub lane: LaneId,
    /// Time by part: `T1` to `T5`, `compute`.
    pub by_part: BTreeMap<&'static str, DurNs>,
}

/// One rank's device as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct RankShare {
    /// Which rank.
    pub rank: Rank,
    /// The iteration.
    pub period: Range<TimeNs>,
    /// Time in which at least one stream was busy.
    pub active: DurNs,
    /// `active` as a share of the iteration.
    pub busy: f64,
    /// Largest over streams of the device time: an iteration in which nothing but kernels took time.
    pub kernel_only: DurNs,
    /// Communication, waiting for other ranks among it, while nothing else ran on the device, or in a job without one on the host.
    pub communication_exposed: DurNs,
    /// Communication while something else ran there.
    pub communication_overlapped: DurNs,
}

/// An iteration by rank, stream and thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breakdown {
    /// In order of rank.
    pub ranks: Vec<RankShare>,
    /// Streams in order of lane.
    pub streams: Vec<StreamShare>,
    /// Host threads in order of lane.
    pub threads: Vec<ThreadShare>,
}

impl Breakdown {
    /// Breaks the chosen iteration down, with the times that `sources` says.
    ///
    /// # Complexity
    /// O(tasks), and what finding the gaps takes.
    pub fn of(sources: &Sources<'_>) -> Self {
        let graph = sources.graph;
        let mut breakdown = Self::default();
        let clipped = clipped(sources);
        for part in &graph.ranks {
            breakdown.ranks.push(rank_share(sources, part, &clipped));
        }
        for (lane, tasks) in clipped.iter().enumerate() {
            let (id, rank) = (LaneId(lane as u32), graph.lanes[lane].rank);
            match graph.lanes[lane].kind {
                LaneKind::Stream { .. } => breakdown.streams.push(stream_share(sources, rank, id, tasks)),
                LaneKind::Thread { .. } => breakdown.threads.push(thread_share(sources, rank, id, tasks)),
                LaneKind::Virtual => {}
            }
        }
        let mut idle: BTreeMap<LaneId, BTreeMap<&'static str, DurNs>> = BTreeMap::new();
        for gap in gaps(sources, DurNs(1)) {
            *idle.entry(gap.lane).or_default().entry(gap.cause.name()).or_default() += gap.duration;
        }
        for stream in &mut breakdown.streams {
            stream.idle = idle.remove(&stream.lane).unwrap_or_default();
        }
        breakdown
    }

    /// Longest period over ranks.
    pub fn period(&self) -> DurNs {
        self.ranks.iter().map(|rank| rank.period.end.since(rank.period.start)).max().unwrap_or_default()
    }

    /// Share of the iteration in which a device works, averaged over ranks.
    pub fn gpu_busy(&self) -> f64 {
        self.ranks.iter().map(|rank| rank.busy).sum::<f64>() / self.ranks.len().max(1) as f64
    }

    /// Time in which a device works: the largest over ranks.
    pub fn gpu_active(&self) -> DurNs {
        self.ranks.iter().map(|rank| rank.active).max().unwrap_or_default()
    }

    /// The kernel-only baseline: largest over ranks and streams of summed device time.
    pub fn kernel_only(&self) -> DurNs {
        self.ranks.iter().map(|rank| rank.kernel_only).max().unwrap_or_default()
    }
}

/// Tasks that take time within their rank's iteration, by lane; keys are node indices.
pub(super) fn clipped(sources: &Sources<'_>) -> Vec<Vec<Interval>> {
    let (graph, times) = (sources.graph, sources.times);
    let periods: BTreeMap<Rank, Range<TimeNs>> =
        graph.ranks.iter().map(|part| (part.rank, times.period(graph, part))).collect();
    let mut lanes = vec![Vec::new(); graph.lanes.len()];
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let lane = task.lane.0 as usize;
        let Some(period) = periods.get(&graph.lanes[lane].rank).filter(|_| task.kind.is_work()) else { continue };
        let (start, end) = times.of(graph, node);
        let (start, end) = (start.max(period.start), end.min(period.end));
        if end > start {
            lanes[lane].push(Interval { start, end, key: node.index() as u32 });
        }
    }
    lanes
}

fn length(interval: &Interval) -> DurNs {
    interval.end.since(interval.start)
}

/// Time in which at least one of the intervals runs.
fn union<'a>(intervals: impl Iterator<Item = &'a Interval>) -> DurNs {
    busy::union(intervals.map(|it| (it.start, it.end)).collect())
}

fn rank_share(sources: &Sources<'_>, part: &RankPart, lanes: &[Vec<Interval>]) -> RankShare {
    let graph = sources.graph;
    let is_own = |lane: &usize| graph.lanes[*lane].rank == part.rank;
    let is_stream = |lane: &usize| matches!(graph.lanes[*lane].kind, LaneKind::Stream { .. });
    let all = || lanes.iter().enumerate().filter(|(lane, _)| is_own(lane));
    let streams = || all().filter(|(lane, _)| is_stream(lane)).map(|(_, tasks)| tasks);
    let kind = |it: &Interval| graph.tasks[NodeId::new(it.key as usize)].kind;
    let communicates = |it: &&Interval| matches!(kind(it), TaskKind::Collective(_));
    // Collectives of a host backend run on threads, beside what others of them compute.
    let hides = |it: &&Interval| !communicates(it) && (kind(it).is_device() || kind(it) == TaskKind::Compute);
    let communication = union(all().flat_map(|(_, tasks)| tasks).filter(communicates));
    let rest = union(all().flat_map(|(_, tasks)| tasks).filter(hides));
    let both = union(all().flat_map(|(_, tasks)| tasks).filter(|it| communicates(it) || hides(it)));
    let active = union(streams().flatten());
    let period = sources.times.period(graph, part);
    let length_of_period = period.end.since(period.start).0.max(1);
    RankShare {
        rank: part.rank,
        active,
        busy: active.0 as f64 / length_of_period as f64,
        kernel_only: streams().map(|tasks| union(tasks.iter())).max().unwrap_or_default(),
        communication_exposed: both - rest,
        communication_overlapped: communication + rest - both,
        period,
    }
}

fn stream_share(sources: &Sources<'_>, rank: Rank, lane: LaneId, tasks: &[Interval]) -> StreamShare {
    let mut by_family = BTreeMap::<Family, DurNs>::new();
    let mut in_order: Vec<&Interval> = tasks.iter().collect();
    in_order.sort_by_key(|interval| interval.start);
    let mut until = TimeNs(i64::MIN);
    for interval in in_order {
        let family = sources.works.family(sources.graph, NodeId::new(interval.key as usize));
        let alone = interval.end.since(interval.start.max(until)).max(DurNs::ZERO);
        *by_family.entry(family).or_default() += alone;
        until = until.max(interval.end);
    }
    StreamShare { rank, lane, by_family, idle: BTreeMap::new(), busy: union(tasks.iter()) }
}

fn thread_share(sources: &Sources<'_>, rank: Rank, lane: LaneId, tasks: &[Interval]) -> ThreadShare {
    let mut by_part = BTreeMap::<&'static str, DurNs>::new();
    for interval in tasks {
        if let Some(kind) = SegmentKind::of(sources.graph, sources.works, NodeId::new(interval.key as usize)) {
            *by_part.entry(kind.name()).or_default() += length(interval);
        }
    }
    ThreadShare { rank, lane, by_part }
}

//! The critical path: the chain of tasks and waits that decided how long an iteration took.
//!
//! What decided is the simulator's word; the times shown are the simulated or the measured ones of the same tasks.

use std::collections::BTreeMap;
use std::ops::Range;

use petgraph::Direction::{Incoming, Outgoing};
use petgraph::visit::EdgeRef;

use crate::cost::Family;
use crate::graph::{
    DependencyKind, ExecutionGraph, HostPart, LaneId, NodeId, Rank, RankPart, Task, TaskKind, TimedGraph,
};
use crate::intern::NameId;
use crate::scenario::KernelWork;
use crate::sim::Schedule;
use crate::units::{DurNs, TimeNs};

use super::lanes::Times;
use super::sources::Sources;

/// What a segment of the path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SegmentKind {
    /// Host time outside runtime calls: T1, T2, T3 or T5.
    Host(HostPart),
    /// A runtime call: T4.
    Runtime,
    /// An operator that computes on the host.
    Compute,
    /// A kernel.
    Kernel(Family),
    /// A copy.
    Memcpy,
    /// A memset.
    Memset,
    /// A collective.
    Collective,
    /// Device work that was not recorded.
    Unrecorded,
    /// Time between two tasks: the lag of what joins them.
    Wait(DependencyKind),
}

impl SegmentKind {
    /// Its name in tables: `T1` to `T5`, `compute`, a kernel family, `memcpy`, `memset`, `collective`, or the wait.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host(part) => part_name(part),
            Self::Runtime => "T4",
            Self::Compute => "compute",
            Self::Kernel(family) => family.name(),
            Self::Memcpy => "memcpy",
            Self::Memset => "memset",
            Self::Collective => "collective",
            Self::Unrecorded => "unrecorded",
            Self::Wait(kind) => wait_name(kind),
        }
    }

    /// What `task` is on a path; `None` for joints and markers.
    pub fn of(graph: &ExecutionGraph, works: &KernelWork, node: NodeId) -> Option<Self> {
        let task = &graph.tasks[node];
        Some(match task.kind {
            TaskKind::Host(part) => Self::Host(part),
            TaskKind::Runtime => Self::Runtime,
            TaskKind::Compute => Self::Compute,
            TaskKind::Kernel => Self::Kernel(works.family(graph, node)),
            TaskKind::Memcpy => Self::Memcpy,
            TaskKind::Memset => Self::Memset,
            TaskKind::Collective(_) => Self::Collective,
            TaskKind::Unrecorded => Self::Unrecorded,
            TaskKind::Joint | TaskKind::StepEnd => return None,
        })
    }
}

/// The overhead that a part of the host's work is.
pub fn part_name(part: HostPart) -> &'static str {
    match part {
        HostPart::Between => "T1",
        HostPart::BeforeLaunch => "T2",
        HostPart::AfterLaunch => "T3",
        HostPart::Inside => "T5",
    }
}

fn wait_name(kind: DependencyKind) -> &'static str {
    match kind {
        DependencyKind::Program => "wait-program",
        DependencyKind::Launch => "launch-latency",
        DependencyKind::Stream => "stream-gap",
        DependencyKind::HostWait => "sync-return",
        DependencyKind::EventWait => "wait-event",
        DependencyKind::HandOver => "hand-over",
        DependencyKind::LaunchQueue => "launch-queue",
        DependencyKind::Collective => "wait-collective",
        DependencyKind::Data => "wait-data",
        DependencyKind::Contention => "contention",
        DependencyKind::LateStart => "late-start",
        DependencyKind::HiddenWait => "hidden-wait",
        DependencyKind::Anchor => "before-window",
        DependencyKind::RankStart => "rank-start",
        DependencyKind::StepEnd => "wait-step-end",
    }
}

/// One piece of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What it is.
    pub kind: SegmentKind,
    /// Name of the task; of a wait, that of the task that waited.
    pub name: NameId,
    /// Whose it is.
    pub rank: Rank,
    /// Where it ran; of a wait, where it was waited.
    pub lane: LaneId,
    /// The task, or the one that waited.
    pub node: NodeId,
    /// What it decided next on the path, and by which dependency; `None` for the last.
    pub decided: Option<(NodeId, DependencyKind)>,
    /// From when it is on the path.
    pub start: TimeNs,
    /// How long it is on the path.
    pub duration: DurNs,
}

/// The kinds of host time, and others whose names say little, in words.
pub fn explained(kind: &str) -> &str {
    match kind {
        "T1" => "between operators (T1)",
        "T2" => "before the first launch (T2)",
        "T3" => "after the last launch (T3)",
        "T4" => "runtime call (T4)",
        "T5" => "between launches (T5)",
        "stream-gap" => "time between kernels",
        "rank-start" => "a later start of the rank's recording",
        "before-window" => "before what was recorded",
        other => other,
    }
}

/// Segments in order of time; they cover the period without gaps or overlaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CriticalPath {
    /// The chain.
    pub segments: Vec<Segment>,
    /// Sum of all segments.
    pub length: DurNs,
}

/// Consecutive segments of one kind and name on one lane, shown as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them, as long as all together.
    pub segment: Segment,
    /// How many segments of its kind and name.
    pub count: usize,
}

impl CriticalPath {
    /// The path of the iteration on the rank of `part`, back from its end marker.
    ///
    /// # Complexity
    /// O(length of the path).
    pub fn of_rank(sources: &Sources<'_>, part: &RankPart) -> Self {
        let segments = chain(sources, part.end, sources.times.period(sources.graph, part));
        let length = segments.iter().map(|segment| segment.duration).sum();
        Self { segments, length }
    }

    /// The path of the iteration on the rank whose period is longest.
    pub fn of_job(sources: &Sources<'_>) -> Self {
        let &Sources { graph, timed, schedule, .. } = sources;
        let simulated = Times::Simulated { timed, schedule };
        let period = |part: &&RankPart| {
            let range = simulated.period(graph, part);
            (range.end.since(range.start), std::cmp::Reverse(part.rank))
        };
        let slowest = graph.ranks.iter().max_by_key(period);
        slowest.map(|part| Self::of_rank(sources, part)).unwrap_or_default()
    }

    /// Time of each kind by name.
    pub fn by_kind(&self) -> BTreeMap<&'static str, DurNs> {
        let mut shares = BTreeMap::new();
        for segment in &self.segments {
            *shares.entry(segment.kind.name()).or_default() += segment.duration;
        }
        shares
    }

    /// Runs of one kind and name on one lane as one; segments shorter than `tiny` go to the run before them.
    pub fn folded(&self, tiny: DurNs) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for &segment in &self.segments {
            let same = |run: &Run| {
                let Segment { kind, name, lane, .. } = run.segment;
                (kind, name, lane) == (segment.kind, segment.name, segment.lane)
            };
            match runs.last_mut() {
                Some(run) if same(run) => {
                    run.segment.duration += segment.duration;
                    run.count += 1;
                }
                Some(run) if segment.duration < tiny => run.segment.duration += segment.duration,
                _ => runs.push(Run { segment, count: 1 }),
            }
        }
        runs
    }
}

/// What decided the end of `last`, back to the start of `range`; segments in order of time, which cover the range up
/// to the end of `last`.
pub(super) fn chain(sources: &Sources<'_>, last: NodeId, range: Range<TimeNs>) -> Vec<Segment> {
    let mut walk = Walk::begin(sources, last, range);
    while walk.is_open() {
        walk.advance(sources);
    }
    walk.segments.reverse();
    walk.segments
}

/// The node that decided when `node` starts; joints added by lowering are passed through.
pub(super) fn deciding(timed: &TimedGraph, schedule: &Schedule, node: NodeId) -> Option<NodeId> {
    let mut task = timed.task_if_kept(node)?;
    loop {
        task = schedule.critical_predecessor(timed, task)?;
        if let Some(before) = timed.node(task) {
            return Some(before);
        }
    }
}

/// The kind of the dependency that reaches furthest from one node to another; where an edit put them one after the
/// other, the kind that fits the two.
pub(super) fn dependency_between(graph: &ExecutionGraph, from: NodeId, to: NodeId) -> DependencyKind {
    let duration = graph.tasks[from].duration;
    // Sought where there are fewer: the marks of an iteration have one for every lane.
    let count = |node, direction| graph.tasks.edges_directed(node, direction).map(drop);
    let is_shorter = count(from, Outgoing).lt(count(to, Incoming));
    let (node, direction) = if is_shorter { (from, Outgoing) } else { (to, Incoming) };
    let edges = graph.tasks.edges_directed(node, direction).filter(|edge| (edge.source(), edge.target()) == (from, to));
    let furthest =
        edges.map(|edge| *edge.weight()).max_by_key(|dependency| (dependency.effective_lag(duration), dependency.kind));
    furthest.map_or_else(|| fitting(&graph.tasks[from], &graph.tasks[to]), |dependency| dependency.kind)
}

fn fitting(from: &Task, to: &Task) -> DependencyKind {
    match (from.kind.is_device(), to.kind.is_device()) {
        (true, true) if from.lane == to.lane => DependencyKind::Stream,
        (true, true) => DependencyKind::EventWait,
        (true, false) => DependencyKind::HostWait,
        (false, true) => DependencyKind::Launch,
        (false, false) => DependencyKind::Program,
    }
}

/// A walk against time; `node` is where it is, `reached` the start of what is covered so far. What it covers from there on follows
/// from these two and `from` alone.
pub(super) struct Walk<'a> {
    node: NodeId,
    graph: &'a ExecutionGraph,
    works: &'a KernelWork,
    times: Times<'a>,
    from: TimeNs,
    reached: TimeNs,
    decides: Option<(NodeId, DependencyKind)>,
    /// The latest first.
    pub(super) segments: Vec<Segment>,
}

impl<'a> Walk<'a> {
    /// From the end of `last`, or that of `range`, back to the start of `range`.
    pub(super) fn begin(sources: &Sources<'a>, last: NodeId, range: Range<TimeNs>) -> Self {
        let &Sources { graph, works, times, .. } = sources;
        let Range { start: from, end: reached } = range;
        let mut walk = Self { node: last, graph, works, times, from, reached, decides: None, segments: Vec::new() };
        walk.task(last);
        walk
    }

    /// Whether anything is left to cover.
    pub(super) fn is_open(&self) -> bool {
        self.reached > self.from
    }

    /// Where it is, and from when on it has covered all.
    pub(super) fn place(&self) -> (NodeId, TimeNs) {
        (self.node, self.reached)
    }

    /// Goes to what decided when the node starts where it is.
    pub(super) fn advance(&mut self, sources: &Sources<'_>) {
        let node = self.node;
        let Some(before) = deciding(sources.timed, sources.schedule, node) else {
            self.wait(node, DependencyKind::Anchor, self.from);
            self.reached = self.from;
            return;
        };
        let kind = dependency_between(self.graph, before, node);
        self.wait(node, kind, self.times.of(self.graph, before).1);
        self.decides = Some((node, kind));
        self.task(before);
        self.node = before;
    }

    fn task(&mut self, node: NodeId) {
        let (start, end) = self.times.of(self.graph, node);
        if let Some(kind) = SegmentKind::of(self.graph, self.works, node) {
            self.cover(kind, node, (start, end), self.decides);
        }
        self.reached = self.reached.min(start);
    }

    /// Covers what lies between `since` and where the walk is.
    fn wait(&mut self, node: NodeId, kind: DependencyKind, since: TimeNs) {
        self.cover(SegmentKind::Wait(kind), node, (since, self.reached), Some((node, kind)));
        self.reached = self.reached.min(since.max(self.from));
    }

    fn cover(
        &mut self,
        kind: SegmentKind,
        node: NodeId,
        (start, end): (TimeNs, TimeNs),
        decided: Option<(NodeId, DependencyKind)>,
    ) {
        let (start, end) = (start.max(self.from), end.min(self.reached));
        if end > start {
            let task = &self.graph.tasks[node];
            let rank = self.graph.lanes[task.lane.0 as usize].rank;
            let duration = end.since(start);
            self.segments.push(Segment {
                kind,
                name: task.name,
                rank,
                lane: task.lane,
                node,
                decided,
                start,
                duration,
            });
        }
    }
}

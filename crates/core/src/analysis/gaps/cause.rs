//! A chain → the cause of a gap.

use std::collections::BTreeMap;

use crate::cost::overhead::LONGEST_GAP;
use crate::graph::{
    DependencyKind, ExecutionGraph, HostPart, LaneId, Operator, OperatorId, Phase, Rank, Task, TaskKind,
};
use crate::intern::NameId;
use crate::units::DurNs;

use crate::analysis::critical_path::{Segment, SegmentKind, explained, part_name};

/// Why a stream was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The host was busy and the launch queue empty.
    LaunchBound {
        /// Which overhead took most of it: `T1` to `T5`, or `compute`.
        part: &'static str,
        /// The operator it belongs to; for T1 the one it comes before, for T4 the runtime call. Empty where none.
        name: NameId,
    },
    /// The host had waited for the device, and launched again only after that.
    Sync {
        /// The call that waited.
        call: NameId,
    },
    /// Waits for work on another stream.
    EventWait {
        /// The work waited for.
        name: NameId,
        /// Where it ran.
        lane: LaneId,
    },
    /// Waits for a collective.
    Collective {
        /// The collective.
        name: NameId,
        /// The rank that kept the others waiting, where it is not this one.
        late: Option<Rank>,
    },
    /// The host was loading data.
    DataLoading {
        /// What loaded it.
        name: NameId,
    },
    /// The host waited for room in the launch queue, which other work kept full.
    LaunchQueue {
        /// The work whose end made room.
        name: NameId,
        /// Where it ran.
        lane: LaneId,
    },
    /// The work was launched and shared the device with work elsewhere, which kept it from starting.
    Contention {
        /// The work elsewhere.
        name: NameId,
        /// Where it ran.
        lane: LaneId,
    },
    /// What held it back lies before the modelled window, or before the recorded step of a rank.
    BeforeWindow,
    /// A constant of the device: launch latency, or the time between two kernels.
    Latency(DependencyKind),
    /// The host's thread shows nothing that took this time.
    NothingRecorded {
        /// The annotation it was in, where there is one.
        within: Option<NameId>,
    },
    /// No work followed on this stream within the iteration.
    NothingLeft,
    /// There are too many gaps to look into this one.
    NotExamined,
}

impl Cause {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::LaunchBound { .. } => "launch-bound",
            Self::Sync { .. } => "sync",
            Self::EventWait { .. } => "event-wait",
            Self::Collective { .. } => "collective",
            Self::DataLoading { .. } => "data-loading",
            Self::LaunchQueue { .. } => "launch-queue",
            Self::Contention { .. } => "contention",
            Self::BeforeWindow => "before-window",
            Self::Latency(_) => "latency",
            Self::NothingRecorded { .. } => "nothing-recorded",
            Self::NothingLeft => "nothing-left",
            Self::NotExamined => "not-examined",
        }
    }

    /// One line for people.
    pub fn describe(self, graph: &ExecutionGraph) -> String {
        self.describe_with(graph, |name| name)
    }

    /// One line for people, names as short as `shorten` makes them.
    pub fn describe_with(self, graph: &ExecutionGraph, shorten: impl Fn(&str) -> &str) -> String {
        let named = |name: NameId| match graph.names.get(name) {
            "" => "the host".to_owned(),
            name => shorten(name).to_owned(),
        };
        match self {
            Self::LaunchBound { part: "T1", name } => {
                format!("launch-bound: {} before {}", explained("T1"), named(name))
            }
            Self::LaunchBound { part, name } => format!("launch-bound: {} of {}", explained(part), named(name)),
            Self::Sync { call } => format!("the host had waited in {}", named(call)),
            Self::Collective { name, late: Some(rank) } => {
                format!("waits for {}, rank {} arrives last", named(name), rank.0)
            }
            Self::EventWait { name, .. } | Self::Collective { name, late: None } => {
                format!("waits for {}", named(name))
            }
            Self::DataLoading { name } => format!("data loading: {}", named(name)),
            Self::LaunchQueue { name, .. } => format!("the launch queue was full until {} had ended", named(name)),
            Self::Contention { name, .. } => format!("the device was taken by {}", named(name)),
            Self::BeforeWindow => "what held it back came before what was recorded".to_owned(),
            Self::Latency(DependencyKind::Launch) => "launch latency".to_owned(),
            Self::Latency(_) => "time between kernels".to_owned(),
            Self::NothingRecorded { within: Some(name) } if !graph.names.get(name).is_empty() => {
                format!("the host ran no recorded operator in {}", named(name))
            }
            Self::NothingRecorded { .. } => "the host ran no recorded operator".to_owned(),
            Self::NothingLeft => "no work left for this stream".to_owned(),
            Self::NotExamined => "one of too many gaps to look into each".to_owned(),
        }
    }
}

/// The cause of a gap on `lane` of `rank`, from the chain that covers it.
pub(super) fn of_chain(graph: &ExecutionGraph, rank: Rank, lane: LaneId, chain: &[Segment]) -> Cause {
    let Some(weightiest) = longest_of_most(chain) else { return Cause::NothingRecorded { within: None } };
    let direct = of_segment(graph, rank, lane, weightiest, chain);
    // A host that had waited for the device could not launch ahead: what it did since is not what to blame.
    let host = matches!(direct, Cause::LaunchBound { .. } | Cause::Latency(_));
    if let Some(full) = chain.iter().rev().find(|it| decides_by(it, DependencyKind::LaunchQueue)).filter(|_| host) {
        return queue_of(graph, full);
    }
    let waited = chain.iter().rev().find(|it| decides_by(it, DependencyKind::HostWait));
    match waited.or_else(|| chain.first().filter(|first| host && blocks(graph, first))) {
        Some(wait) if host => Cause::Sync { call: waiting_call(graph, wait) },
        _ => direct,
    }
}

/// The longest segment of those chosen; of equally long ones the last.
fn longest(chain: &[Segment], chosen: impl Fn(&Segment) -> bool) -> Option<&Segment> {
    chain.iter().filter(|segment| chosen(segment)).max_by_key(|segment| segment.duration)
}

/// The longest segment of the kind that takes most of the chain: many short ones of a kind weigh more than a long one.
fn longest_of_most(chain: &[Segment]) -> Option<&Segment> {
    let mut totals: BTreeMap<SegmentKind, DurNs> = BTreeMap::new();
    for segment in chain {
        *totals.entry(segment.kind).or_default() += segment.duration;
    }
    let (kind, _) = totals.into_iter().max_by_key(|&(_, total)| total)?;
    longest(chain, |segment| segment.kind == kind)
}

/// Whether a segment held back what follows it by a dependency of this kind.
fn decides_by(segment: &Segment, kind: DependencyKind) -> bool {
    segment.decided.is_some_and(|(_, by)| by == kind)
}

/// The work that held back a segment, when the segment is a wait; the segment's own when it is work.
fn holder<'a>(graph: &'a ExecutionGraph, segment: &Segment, kind: DependencyKind) -> &'a Task {
    use petgraph::visit::EdgeRef;
    let own = &graph.tasks[segment.node];
    if !matches!(segment.kind, SegmentKind::Wait(_)) {
        return own;
    }
    let edges = graph.tasks.edges_directed(segment.node, petgraph::Direction::Incoming);
    let before = edges.filter(|edge| edge.weight().kind == kind).map(|edge| &graph.tasks[edge.source()]);
    before.max_by_key(|task| task.measured_end()).unwrap_or(own)
}

fn queue_of(graph: &ExecutionGraph, segment: &Segment) -> Cause {
    let task = holder(graph, segment, DependencyKind::LaunchQueue);
    Cause::LaunchQueue { name: task.name, lane: task.lane }
}

fn contention_of(graph: &ExecutionGraph, segment: &Segment) -> Cause {
    let task = holder(graph, segment, DependencyKind::Contention);
    Cause::Contention { name: task.name, lane: task.lane }
}

/// The call in which the host waited for the device: the one behind what the segment decided.
fn waiting_call(graph: &ExecutionGraph, segment: &Segment) -> NameId {
    match segment.decided {
        Some((joint, DependencyKind::HostWait)) => call_of(graph, &Segment { node: joint, ..*segment }),
        _ => call_of(graph, segment),
    }
}

/// Whether a segment is a call that waits for the device.
fn blocks(graph: &ExecutionGraph, segment: &Segment) -> bool {
    segment.kind == SegmentKind::Runtime && graph.names.get(segment.name).contains("Synchronize")
}

/// The call that a wait for the device ended in: the wait's own task, or the call after it where that is a joint.
fn call_of(graph: &ExecutionGraph, wait: &Segment) -> NameId {
    use petgraph::Direction::{Incoming, Outgoing};
    if graph.tasks[wait.node].kind == TaskKind::Runtime {
        return wait.name;
    }
    let neighbours = [Incoming, Outgoing].into_iter().flat_map(|way| graph.tasks.neighbors_directed(wait.node, way));
    let call = neighbours.map(|node| &graph.tasks[node]).find(|task| task.kind == TaskKind::Runtime);
    call.map_or(wait.name, |task| task.name)
}

fn of_segment(graph: &ExecutionGraph, rank: Rank, lane: LaneId, weightiest: &Segment, chain: &[Segment]) -> Cause {
    use DependencyKind::{
        Anchor, Collective, Contention, HandOver, HiddenWait, HostWait, LateStart, Launch, LaunchQueue, RankStart,
    };
    match weightiest.kind {
        SegmentKind::Collective | SegmentKind::Wait(Collective) => of_collective(graph, rank, weightiest, chain),
        _ if weightiest.rank != rank => of_collective(graph, rank, weightiest, chain),
        SegmentKind::Wait(HostWait | HiddenWait) => Cause::Sync { call: call_of(graph, weightiest) },
        SegmentKind::Wait(Anchor | RankStart) => Cause::BeforeWindow,
        SegmentKind::Wait(LaunchQueue) => queue_of(graph, weightiest),
        SegmentKind::Wait(Contention) => contention_of(graph, weightiest),
        SegmentKind::Wait(LateStart) => {
            let before = holder(graph, weightiest, LateStart);
            Cause::EventWait { name: before.name, lane: before.lane }
        }
        kind if is_device(kind) && decides_by(weightiest, LaunchQueue) => queue_of(graph, weightiest),
        kind if is_device(kind) && decides_by(weightiest, Contention) => contention_of(graph, weightiest),
        SegmentKind::Wait(HandOver) | SegmentKind::Host(_) | SegmentKind::Runtime | SegmentKind::Compute => {
            of_host(graph, weightiest, chain)
        }
        SegmentKind::Wait(kind @ (Launch | DependencyKind::Stream)) => Cause::Latency(kind),
        SegmentKind::Wait(kind) if weightiest.lane == lane => Cause::Latency(kind),
        SegmentKind::Kernel(_)
        | SegmentKind::Memcpy
        | SegmentKind::Memset
        | SegmentKind::Unrecorded
        | SegmentKind::Wait(_) => Cause::EventWait { name: weightiest.name, lane: weightiest.lane },
    }
}

fn is_device(kind: SegmentKind) -> bool {
    matches!(kind, SegmentKind::Kernel(_) | SegmentKind::Memcpy | SegmentKind::Memset | SegmentKind::Unrecorded)
}

/// The rank that kept the others waiting is the one whose work the chain goes through.
fn of_collective(graph: &ExecutionGraph, rank: Rank, weightiest: &Segment, chain: &[Segment]) -> Cause {
    let others = |segment: &Segment| segment.rank != rank && graph.tasks[segment.node].kind.is_work();
    let late = longest(chain, others).map(|segment| segment.rank);
    let member = chain.iter().rev().find(|segment| segment.kind == SegmentKind::Collective);
    Cause::Collective { name: member.unwrap_or(weightiest).name, late }
}

fn of_host(graph: &ExecutionGraph, segment: &Segment, chain: &[Segment]) -> Cause {
    let task = &graph.tasks[segment.node];
    if let Some(name) = loader(graph, task) {
        return Cause::DataLoading { name };
    }
    let name = around(graph, task).next().map_or(task.name, |operator| operator.name);
    match segment.kind {
        SegmentKind::Host(HostPart::Between) if segment.duration > LONGEST_GAP => {
            Cause::NothingRecorded { within: Some(name) }
        }
        SegmentKind::Host(HostPart::Between) => {
            Cause::LaunchBound { part: "T1", name: following(graph, segment, chain) }
        }
        SegmentKind::Host(part) => Cause::LaunchBound { part: part_name(part), name },
        SegmentKind::Compute => Cause::LaunchBound { part: "compute", name },
        SegmentKind::Runtime => Cause::LaunchBound { part: "T4", name: task.name },
        _ => Cause::LaunchBound { part: "T1", name },
    }
}

/// The operators around a task, innermost first.
fn around<'a>(graph: &'a ExecutionGraph, task: &Task) -> impl Iterator<Item = &'a Operator> + use<'a> {
    let operator = |id: OperatorId| graph.operators.get(id.0 as usize);
    std::iter::successors(task.operator.and_then(operator), move |it| it.parent.and_then(operator))
}

/// What loads data, when `task` is part of that.
fn loader(graph: &ExecutionGraph, task: &Task) -> Option<NameId> {
    let names = || around(graph, task).map(|operator| operator.name).chain([task.name]);
    let loads = |name: &NameId| graph.names.get(*name).to_ascii_lowercase().contains("dataloader");
    let in_phase = around(graph, task).any(|operator| operator.phase == Phase::Data);
    names().find(loads).or_else(|| names().next().filter(|_| in_phase))
}

/// The outermost operator that follows a gap between two on its thread, as far as the chain tells.
fn following(graph: &ExecutionGraph, gap: &Segment, chain: &[Segment]) -> NameId {
    let mut later = chain.iter().filter(|segment| segment.start > gap.start);
    let operator = later.find_map(|segment| around(graph, &graph.tasks[segment.node]).last());
    operator.map_or(graph.tasks[gap.node].name, |operator| operator.name)
}

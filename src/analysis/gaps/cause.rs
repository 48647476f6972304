//! A chain → the cause of a gap.

use crate::graph::{DependencyKind, ExecutionGraph, HostPart, LaneId, Phase, Rank, TaskKind};
use crate::intern::NameId;
use crate::units::DurNs;

use crate::analysis::critical_path::{Segment, SegmentKind, part_name};

/// Why a stream was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The host was busy and the launch queue empty.
    LaunchBound {
        /// Which overhead took most of it: `T1` to `T5`, or `compute`.
        part: &'static str,
        /// The operator it belongs to; for T4 the runtime call. Empty where none.
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
    /// A constant of the device: launch latency, or the time between two kernels.
    Latency(DependencyKind),
    /// The trace shows nothing that took this time.
    NothingRecorded,
    /// No work followed on this stream within the iteration.
    NothingLeft,
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
            Self::Latency(_) => "latency",
            Self::NothingRecorded => "nothing-recorded",
            Self::NothingLeft => "nothing-left",
        }
    }

    /// One line for people.
    pub fn describe(self, graph: &ExecutionGraph) -> String {
        let named = |name: NameId| match graph.names.get(name) {
            "" => "the host".to_owned(),
            name => name.to_owned(),
        };
        match self {
            Self::LaunchBound { part, name } => format!("launch-bound: {part} of {}", named(name)),
            Self::Sync { call } => format!("the host had waited in {}", named(call)),
            Self::Collective { name, late: Some(rank) } => {
                format!("waits for {}, rank {} arrives last", named(name), rank.0)
            }
            Self::EventWait { name, .. } | Self::Collective { name, late: None } => {
                format!("waits for {}", named(name))
            }
            Self::DataLoading { name } => format!("data loading: {}", named(name)),
            Self::Latency(DependencyKind::Launch) => "launch latency".to_owned(),
            Self::Latency(_) => "time between kernels".to_owned(),
            Self::NothingRecorded => "nothing recorded".to_owned(),
            Self::NothingLeft => "no work left for this stream".to_owned(),
        }
    }
}

/// A gap of the host's thread beyond this is none of the framework's own making [Lin 2022: not counted as T1].
const LONGEST_BETWEEN: DurNs = DurNs(200_000);

/// The cause of a gap on `lane` of `rank`, from the chain that covers it.
pub(super) fn of_chain(graph: &ExecutionGraph, rank: Rank, lane: LaneId, chain: &[Segment]) -> Cause {
    let Some(longest) = most(chain, |_| true) else { return Cause::NothingRecorded };
    let direct = of_segment(graph, rank, lane, longest, chain);
    // A host that had waited for the device could not launch ahead: what it did since is not what to blame.
    let host = matches!(direct, Cause::LaunchBound { .. } | Cause::Latency(_));
    let waited = chain.iter().rev().find(|it| is_wait(it.kind, DependencyKind::HostWait));
    match waited.or_else(|| chain.first().filter(|first| host && blocks(graph, first))) {
        Some(wait) if host => Cause::Sync { call: call_of(graph, wait) },
        _ => direct,
    }
}

/// The longest segment of those chosen; of equally long ones the last.
fn most(chain: &[Segment], chosen: impl Fn(&Segment) -> bool) -> Option<&Segment> {
    chain.iter().filter(|segment| chosen(segment)).max_by_key(|segment| segment.duration)
}

fn is_wait(kind: SegmentKind, dependency: DependencyKind) -> bool {
    kind == SegmentKind::Wait(dependency)
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

fn of_segment(graph: &ExecutionGraph, rank: Rank, lane: LaneId, longest: &Segment, chain: &[Segment]) -> Cause {
    use DependencyKind::{
        Anchor, Collective, Contention, HandOver, HiddenWait, HostWait, LateStart, Launch, LaunchQueue,
    };
    match longest.kind {
        SegmentKind::Collective | SegmentKind::Wait(Collective) => of_collective(graph, rank, longest, chain),
        _ if longest.rank != rank => of_collective(graph, rank, longest, chain),
        SegmentKind::Wait(HostWait | HiddenWait) => Cause::Sync { call: call_of(graph, longest) },
        SegmentKind::Wait(LateStart | Anchor | Contention | LaunchQueue) => Cause::NothingRecorded,
        SegmentKind::Wait(HandOver) | SegmentKind::Host(_) | SegmentKind::Runtime | SegmentKind::Compute => {
            of_host(graph, longest)
        }
        SegmentKind::Wait(kind @ (Launch | DependencyKind::Stream)) => Cause::Latency(kind),
        SegmentKind::Wait(kind) if longest.lane == lane => Cause::Latency(kind),
        SegmentKind::Kernel(_) | SegmentKind::Memcpy | SegmentKind::Memset | SegmentKind::Wait(_) => {
            Cause::EventWait { name: longest.name, lane: longest.lane }
        }
    }
}

/// The rank that kept the others waiting is the one whose work the chain goes through.
fn of_collective(graph: &ExecutionGraph, rank: Rank, longest: &Segment, chain: &[Segment]) -> Cause {
    let others = |segment: &Segment| segment.rank != rank && SegmentKind::of(graph, segment.node).is_some();
    let late = most(chain, others).map(|segment| segment.rank);
    let member = chain.iter().rev().find(|segment| segment.kind == SegmentKind::Collective);
    Cause::Collective { name: member.unwrap_or(longest).name, late }
}

fn of_host(graph: &ExecutionGraph, segment: &Segment) -> Cause {
    let task = &graph.tasks[segment.node];
    let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
    let name = operator.map_or(task.name, |operator| operator.name);
    let loads = |name: NameId| graph.names.get(name).to_ascii_lowercase().contains("dataloader");
    if operator.is_some_and(|operator| operator.phase == Phase::Data) || loads(name) || loads(task.name) {
        return Cause::DataLoading { name };
    }
    match segment.kind {
        SegmentKind::Host(HostPart::Between) if segment.duration > LONGEST_BETWEEN => Cause::NothingRecorded,
        SegmentKind::Host(part) => Cause::LaunchBound { part: part_name(part), name },
        SegmentKind::Compute => Cause::LaunchBound { part: "compute", name },
        SegmentKind::Runtime => Cause::LaunchBound { part: "T4", name: task.name },
        _ => Cause::LaunchBound { part: "T1", name },
    }
}

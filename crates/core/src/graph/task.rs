//! Tasks and the lanes they run on.

use crate::intern::NameId;
use crate::trace::EventId;
use crate::units::{Bytes, DurNs, TimeNs};

use super::OperatorId;

/// Global rank of a process in its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

/// A row of [`ExecutionGraph::lanes`](super::ExecutionGraph::lanes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u32);

/// What a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// A host thread.
    Thread {
        /// Thread id as recorded.
        tid: i64,
    },
    /// A device stream.
    Stream {
        /// Device number.
        device: i64,
        /// Stream number.
        stream: i64,
    },
    /// Joints and markers, which take no time and are not drawn.
    Virtual,
}

/// A host thread or stream of one rank; its tasks run in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Whose it is.
    pub rank: Rank,
    /// What it is.
    pub kind: LaneKind,
    /// Its recorded name, may be empty.
    pub name: NameId,
    /// Whether collectives dominate it (a communication stream).
    pub communication: bool,
}

/// Which part of the host's work a host task is [Lin 2022 §III-C].
///
/// The unit is the top-level operator on its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostPart {
    /// T1: between two top-level operators.
    Between,
    /// T2: from the start of the operator to its first runtime call.
    BeforeLaunch,
    /// T3: from the last runtime call to the end of the operator.
    AfterLaunch,
    /// T5: between two runtime calls of the operator, or all of an operator without one.
    Inside,
}

/// What a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// Host time outside runtime calls.
    Host(HostPart),
    /// A leaf operator that computes on the host, in a trace without device work.
    Compute,
    /// A runtime call (T4), its blocked part excluded.
    Runtime,
    /// A kernel.
    Kernel,
    /// A copy on a stream.
    Memcpy,
    /// A memset on a stream.
    Memset,
    /// A collective's device work (or host work, for a host backend).
    Collective(CollectiveId),
    /// Device work that must have run and was not recorded: of before the trace, or nodes of a graph.
    Unrecorded,
    /// A point where several dependencies meet; takes no time.
    Joint,
    /// The end of all work of a step; takes no time.
    StepEnd,
}

impl TaskKind {
    /// Whether it occupies a device stream.
    pub fn is_device(self) -> bool {
        matches!(self, Self::Kernel | Self::Memcpy | Self::Memset | Self::Collective(_) | Self::Unrecorded)
    }

    /// Whether it takes time of its own (joints and markers do not).
    pub fn is_work(self) -> bool {
        !matches!(self, Self::Joint | Self::StepEnd)
    }
}

/// A node of the graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// What it is.
    pub kind: TaskKind,
    /// Where it runs.
    pub lane: LaneId,
    /// Its name: of the kernel, the call, or the operator whose host time it is.
    pub name: NameId,
    /// The innermost operator it belongs to: for device work, the one that launched it.
    pub operator: Option<OperatorId>,
    /// The traced event it stands for; host time between events has none.
    pub event: Option<EventId>,
    /// Measured start, from the window's start of its rank.
    pub measured_start: TimeNs,
    /// Measured length, blocked time included.
    pub measured: DurNs,
    /// Its own duration in the replay: `measured` less what its dependencies explain.
    pub duration: DurNs,
    /// Bytes of a copy, memset or collective; 0 elsewhere.
    pub bytes: Bytes,
}

impl Task {
    /// Measured end, from the window's start.
    pub fn measured_end(&self) -> TimeNs {
        self.measured_start + self.measured
    }
}

/// A row of [`ExecutionGraph::collectives`](super::ExecutionGraph::collectives).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectiveId(pub u32);

/// One collective as all its ranks took part in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Kind: `all-reduce`, `all-to-all`, `all-gather`, `reduce-scatter`, `broadcast`, `send-recv`, `barrier`, or its recorded name.
    pub kind: NameId,
    /// Process group; empty where not recorded.
    pub group: NameId,
    /// Ranks in its group as recorded, else as many as the job has; 0 where neither is known.
    pub group_size: u32,
    /// Message size of one rank (the largest over ranks for all-to-all); 0 where unknown.
    pub bytes: Bytes,
    /// Transfer time: the shortest member. With one member that includes waiting. A member's own task may take longer:
    /// from the last rank's arrival to its own measured end.
    pub transfer: DurNs,
    /// How many ranks its members stand for.
    pub loaded: u32,
    /// Its device tasks, one per loaded rank, in the order of ranks.
    pub members: Vec<super::NodeId>,
    /// The joint that each member arrives with, in their order; empty where they do not wait for one another.
    pub arrivals: Vec<super::NodeId>,
}

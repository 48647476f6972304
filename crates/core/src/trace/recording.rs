//! What was recorded of one process: the trace that readers of all formats end with.

use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    CollectiveArgs, CopyArgs, EventId, EventTable, KernelArgs, MemoryArgs, OperatorArgs, SharedTable, SideTable,
    SyncArgs, TensorArgs, Track, Transfer, WorkArgs,
};
use crate::diagnostic::Diagnostics;
use crate::intern::{NameId, NameTable, printable};
use crate::units::{Bytes, TimeNs};

/// One recorded trace of one process: its events in order of start.
#[derive(Debug, PartialEq)]
pub struct Trace {
    /// Where it was read from; for a member of an archive `archive.tar.gz:member`.
    pub path: PathBuf,
    /// What it was read as: a name to show, nothing goes by it.
    pub format: &'static str,
    /// Every distinct text of the trace.
    pub names: NameTable,
    /// The events, ordered by start, then longest first, then as in the file. Times count from `origin`.
    pub events: EventTable,
    /// Host threads and device streams.
    pub tracks: Vec<Track>,
    /// Distinct argument lists of operators (many operators share one).
    pub tensor_args: Vec<TensorArgs>,
    /// Arguments of operators that recorded any.
    pub operators: SideTable<OperatorArgs>,
    /// Operators that launched nothing, in order: they ran on the host beside a device, or copied a tensor onto itself. Only an execution
    /// trace tells, from their tensors.
    pub host_operators: Vec<EventId>,
    /// Operators that copy a tensor between host and device; `None` where nothing tells on which of them tensors lie, or all lie on the
    /// host. Only an execution trace tells.
    pub transfers: Option<SideTable<Transfer>>,
    /// Launch configuration of kernels.
    pub kernels: SharedTable<KernelArgs>,
    /// What an export states of kernels and of operators on the host; `None` where it states that their work is not known.
    pub works: SideTable<Option<WorkArgs>>,
    /// Sizes of copies and memsets.
    pub copies: SideTable<CopyArgs>,
    /// Kernels that launches name themselves, which those do that only made a node of a graph.
    pub launched: SideTable<NameId>,
    /// Collectives: `record_param_comms` operators and the device work that names its collective.
    pub collectives: SideTable<CollectiveArgs>,
    /// `cuda_sync` records.
    pub syncs: SideTable<SyncArgs>,
    /// Allocations and releases (`[memory]` instants).
    pub memory: SideTable<MemoryArgs>,
    /// Absolute time of `TimeNs(0)` of this trace in ns since 1970, or since the clock's own origin;
    /// clocks of the ranks of one host agree on it.
    pub origin: TimeNs,
    /// Whether all times are nominal: nothing was timed, and predictions have to take their place.
    pub untimed: bool,
    /// Rank and world size as recorded.
    pub rank: Option<RankPlace>,
    /// Devices as recorded; empty when the profiler wrote none.
    pub devices: Vec<RecordedDevice>,
    /// What made the times up, in a trace that was exported rather than recorded.
    pub predicted: Option<String>,
    /// How far off its iteration may be then, relative, one standard deviation; `None` where that was not stated.
    pub predicted_error: Option<f64>,
    /// Name of the step that an exported trace is about.
    pub iteration: Option<String>,
    /// How often forward and backward pass run in that step, each on a batch of its own, where it is told.
    pub batches: Option<NonZeroU32>,
    /// What the memory of an exported trace goes by; its pieces are in `memory`.
    pub stated_memory: Option<StatedMemory>,
    /// Whether operator shapes were recorded.
    pub has_shapes: bool,
    /// How many events the file held, the skipped ones included.
    pub events_in_file: u64,
    /// How many could not be used, each counted by reason in `diagnostics`.
    pub skipped_events: u64,
    /// What was odd, and what was done about it.
    pub diagnostics: Diagnostics,
}

/// Where the memory that an exported trace holds came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatedMemory {
    /// How it was known, by its name in tables.
    pub source: String,
    /// What is not in it, a line each.
    pub unknown: Vec<String>,
    /// What is not in it and may be as large as what is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl StatedMemory {
    /// With nothing in it that a terminal would take for a command.
    #[must_use]
    pub fn printable(self) -> Self {
        let lines = |lines: &[String]| lines.iter().map(|line| printable(line)).collect();
        let (unknown, missing) = (lines(&self.unknown), lines(&self.missing));
        Self { source: printable(&self.source), unknown, missing }
    }
}

/// A process's place among the ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankPlace {
    /// Global rank, from 0.
    pub rank: u32,
    /// Number of ranks, when recorded.
    pub world_size: Option<u32>,
}

/// A device as the profiler described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDevice {
    /// Device number on its host, as used in the events.
    pub id: u32,
    /// Marketing name, e.g. `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Device memory.
    pub memory: Bytes,
    /// Streaming multiprocessors (compute units on AMD).
    pub sm_count: u32,
}

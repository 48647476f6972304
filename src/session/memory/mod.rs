//! What an opened job tells of memory: the allocator's calls where the profiler recorded them, else tensors of the
//! execution trace, else arguments of operators; and what a scenario makes of it.

mod callers;
mod parameters;
mod recorded;
mod shapes;
mod steps;
mod summary;
mod tensors;
mod workspaces;

use std::sync::Arc;

use rayon::prelude::*;

use retime_core::device::DeviceProfile;
use retime_core::graph::{ExecutionGraph, NodeId, RankPart, TaskKind};
use retime_core::scenario::Base;
use retime_core::scenario::memory::{JobMemory, MemorySource, RankMemory};
use retime_core::trace::{Job, RankTrace};
use retime_core::units::{Bytes, TimeNs};

pub use summary::{KindBytes, MemorySummary, RankMemorySummary, over_time};

/// What one rank's memory is read from.
#[derive(Clone, Copy)]
struct Rank<'a> {
    base: &'a Base,
    graph: &'a ExecutionGraph,
    part: &'a RankPart,
    /// Its position.
    place: usize,
    of_job: &'a RankTrace,
    /// Copies of all ranks.
    copies: &'a [NodeId],
}

impl Rank<'_> {
    /// The end of the chosen iteration, from the window's start.
    fn part_end(&self) -> TimeNs {
        self.part.iteration_end
    }
}

/// What the job tells of every rank's memory, from the best source it has.
pub fn of_job(job: &Job, base: &Base) -> JobMemory {
    const BEST_FIRST: [MemorySource; 3] = [MemorySource::Allocator, MemorySource::Tensors, MemorySource::Shapes];
    let copies = copies(base.graph());
    let of_rank = |place| BEST_FIRST.into_iter().find_map(|source| told(job, base, place, &copies, source));
    (0..base.graph().ranks.len()).into_par_iter().map(of_rank).collect()
}

/// What one source tells of the memory of the rank at position `place`; `None` where it tells nothing.
pub fn by(job: &Job, base: &Base, place: usize, source: MemorySource) -> Option<RankMemory> {
    told(job, base, place, &copies(base.graph()), source)
}

fn copies(graph: &ExecutionGraph) -> Vec<NodeId> {
    graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Memcpy).collect()
}

fn told(job: &Job, base: &Base, place: usize, copies: &[NodeId], source: MemorySource) -> Option<RankMemory> {
    let graph = base.graph();
    let part = graph.ranks.get(place)?;
    let rank = Rank { base, graph, part, place, of_job: job.ranks.get(part.trace_index)?, copies };
    let memory = match source {
        MemorySource::Allocator => recorded::read(rank),
        MemorySource::Tensors => tensors::read(rank),
        MemorySource::Shapes => shapes::read(rank),
    };
    memory.map(|memory| memory.of_iteration(part.iteration_start, part.iteration_end))
}

/// Whether `bytes` fit every device; `None` where no device's memory is known.
pub fn fits(bytes: Bytes, devices: &[Arc<DeviceProfile>]) -> Option<bool> {
    let smallest = devices.iter().map(|device| device.memory).filter(|memory| memory.0 > 0).min()?;
    Some(bytes <= smallest)
}

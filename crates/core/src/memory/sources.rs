//! What an opened job tells of memory: the allocator's calls where the profiler recorded them, else tensors of the execution
//! trace, else arguments of operators.

use rayon::prelude::*;

use crate::graph::{ExecutionGraph, NodeId, RankPart, TaskKind};
use crate::trace::{Job, RankTrace};
use crate::units::TimeNs;

use super::{JobMemory, MemorySource, RankMemory, recorded, shapes, tensors};

/// What one rank's memory is read from.
#[derive(Clone, Copy)]
pub(super) struct Rank<'a> {
    pub(super) graph: &'a ExecutionGraph,
    pub(super) part: &'a RankPart,
    /// Sizes of the embedding tables on it.
    pub(super) tables: &'a [u64],
    pub(super) of_job: &'a RankTrace,
    /// Copies of all ranks.
    pub(super) copies: &'a [NodeId],
}

impl Rank<'_> {
    /// The end of the chosen iteration, from the window's start.
    pub(super) fn part_end(&self) -> TimeNs {
        self.part.iteration_end
    }
}

/// What the job tells of every rank's memory, from the best source it has.
///
/// # Arguments
/// `tables`: by rank the sizes of the embedding tables on it, in bytes.
pub fn of_job(job: &Job, graph: &ExecutionGraph, tables: &[Vec<u64>]) -> JobMemory {
    const BEST_FIRST: [MemorySource; 3] = [MemorySource::Allocator, MemorySource::Tensors, MemorySource::Shapes];
    let copies = copies(graph);
    let of_rank = |place| {
        let rank = rank(job, graph, tables, place, &copies)?;
        BEST_FIRST.into_iter().find_map(|source| read(rank, source))
    };
    (0..graph.ranks.len()).into_par_iter().map(of_rank).collect()
}

/// What one source tells of the memory of the rank at position `place`; `None` where it tells nothing.
pub fn by(
    job: &Job,
    graph: &ExecutionGraph,
    tables: &[Vec<u64>],
    place: usize,
    source: MemorySource,
) -> Option<RankMemory> {
    read(rank(job, graph, tables, place, &copies(graph))?, source)
}

fn copies(graph: &ExecutionGraph) -> Vec<NodeId> {
    graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Memcpy).collect()
}

fn rank<'a>(
    job: &'a Job,
    graph: &'a ExecutionGraph,
    tables: &'a [Vec<u64>],
    place: usize,
    copies: &'a [NodeId],
) -> Option<Rank<'a>> {
    let part = graph.ranks.get(place)?;
    let tables = tables.get(place).map_or(&[][..], Vec::as_slice);
    Some(Rank { graph, part, tables, of_job: job.ranks.get(part.trace_index)?, copies })
}

fn read(rank: Rank<'_>, source: MemorySource) -> Option<RankMemory> {
    let memory = match source {
        MemorySource::Allocator => recorded::read(rank),
        MemorySource::Tensors => tensors::read(rank),
        MemorySource::Shapes => shapes::read(rank),
    };
    memory.map(|memory| memory.of_iteration(rank.part.iteration_start, rank.part.iteration_end))
}

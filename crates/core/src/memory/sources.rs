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
    /// Its kernels and copies, in order.
    pub(super) device_work: &'a [NodeId],
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
    let device_work = device_work(graph);
    let of_rank = |place| {
        let rank = rank(job, graph, tables, place, &device_work)?;
        let mut memory = BEST_FIRST.into_iter().find_map(|source| read(rank, source))?;
        memory.missing.extend(recorded::beyond(rank));
        Some(memory)
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
    read(rank(job, graph, tables, place, &device_work(graph))?, source)
}

/// What to say of recorded allocations that are left out, of the first rank that has any.
pub fn left_out(job: &Job, graph: &ExecutionGraph) -> Option<String> {
    let device_work = vec![Vec::new(); graph.ranks.len()];
    (0..graph.ranks.len()).find_map(|place| recorded::beyond(rank(job, graph, &[], place, &device_work)?))
}

/// By rank its kernels and copies.
fn device_work(graph: &ExecutionGraph) -> Vec<Vec<NodeId>> {
    let place: Vec<Option<usize>> = graph.lanes.iter().map(|lane| graph.place_of(lane.rank)).collect();
    let mut found = vec![Vec::new(); graph.ranks.len()];
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let is_wanted = matches!(task.kind, TaskKind::Kernel | TaskKind::Memcpy);
        if let Some(place) = place[task.lane.0 as usize].filter(|_| is_wanted) {
            found[place].push(node);
        }
    }
    found
}

fn rank<'a>(
    job: &'a Job,
    graph: &'a ExecutionGraph,
    tables: &'a [Vec<u64>],
    place: usize,
    device_work: &'a [Vec<NodeId>],
) -> Option<Rank<'a>> {
    let part = graph.ranks.get(place)?;
    let tables = tables.get(place).map_or(&[][..], Vec::as_slice);
    Some(Rank { graph, part, tables, of_job: job.ranks.get(part.trace_index)?, device_work: device_work.get(place)? })
}

fn read(rank: Rank<'_>, source: MemorySource) -> Option<RankMemory> {
    let memory = match source {
        MemorySource::Allocator => recorded::read(rank),
        MemorySource::Tensors => tensors::read(rank),
        MemorySource::Shapes => shapes::read(rank),
    };
    let memory = memory?.of_iteration(rank.part.iteration_start, rank.part.iteration_end);
    let reserve = (source == MemorySource::Allocator).then(|| recorded::reserve(rank, memory.peak().bytes)).flatten();
    Some(RankMemory { reserve, ..memory })
}

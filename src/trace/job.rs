//! Which files make a job: traces of the ranks of one run, each with its execution trace.

use super::{ExecutionTrace, Trace};
use crate::diagnostic::Diagnostics;

/// One run: its ranks in order.
#[derive(Debug, Default)]
pub struct Job {
    /// The ranks, in order; never empty.
    pub ranks: Vec<RankTrace>,
}

/// What was recorded of one rank.
#[derive(Debug)]
pub struct RankTrace {
    /// Global rank; 0 for a process that recorded none.
    pub rank: u32,
    /// Number of ranks in the job, when known.
    pub world_size: Option<u32>,
    /// The profiler trace; absent when only an execution trace was given.
    pub trace: Option<Trace>,
    /// The execution trace, when there is one.
    pub execution_trace: Option<ExecutionTrace>,
}

/// Groups traces into jobs and attaches execution traces to their ranks.
pub fn group(traces: Vec<Trace>, execution_traces: Vec<ExecutionTrace>, _diagnostics: &mut Diagnostics) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for trace in traces {
        let rank = RankTrace::of(trace);
        match jobs.iter_mut().find(|job| job.takes(&rank)) {
            Some(job) => job.ranks.push(rank),
            None => jobs.push(Job { ranks: vec![rank] }),
        }
    }
    for job in &mut jobs {
        job.ranks.sort_by_key(|rank| rank.rank);
    }
    jobs.extend(execution_traces.into_iter().map(|execution_trace| Job {
        ranks: vec![RankTrace {
            rank: execution_trace.rank.unwrap_or_default(),
            world_size: None,
            trace: None,
            execution_trace: Some(execution_trace),
        }],
    }));
    jobs
}

impl RankTrace {
    fn of(trace: Trace) -> Self {
        Self {
            rank: trace.rank.map_or(0, |place| place.rank),
            world_size: trace.rank.and_then(|place| place.world_size),
            trace: Some(trace),
            execution_trace: None,
        }
    }
}

impl Job {
    /// Whether `rank` is one of this job's: same world size, and its place is free.
    fn takes(&self, rank: &RankTrace) -> bool {
        rank.world_size.is_some_and(|size| size > 1)
            && self.ranks.iter().all(|mine| mine.world_size == rank.world_size && mine.rank != rank.rank)
    }
}

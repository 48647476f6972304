//! Which files make a job: traces of the ranks of one run, each with its execution trace.
//!
//! Ranks come from what the profiler recorded, else from file names, else from traces that overlap in time and ran the
//! same collectives. Files that do not belong together stay jobs of their own.

use std::collections::BTreeSet;

use super::{ExecutionTrace, RankPlace, Trace, TrackKind, naming, same_sizes, shapes};
use crate::diagnostic::Diagnostics;
use crate::intern::NameId;
use crate::units::TimeNs;

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
pub(super) fn group(
    traces: Vec<Trace>,
    execution_traces: Vec<ExecutionTrace>,
    diagnostics: &mut Diagnostics,
) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for trace in traces {
        let copied = jobs.iter().flat_map(|job| &job.ranks).find_map(|rank| copied(&trace, rank));
        if let Some(original) = copied {
            let (path, original) = (trace.path.display(), original.path.display());
            let text = format!(
                "{path} holds the same events as {original}, at the same times: it is opened as a job of its own"
            );
            diagnostics.warn("repeated-trace", text);
            jobs.push(Job { ranks: vec![RankTrace::new(0, trace)] });
            continue;
        }
        match jobs.iter_mut().find_map(|job| Some((job.place_for(&trace)?, job))) {
            Some((rank, job)) => job.ranks.push(RankTrace::new(rank, trace)),
            None => jobs.push(Job { ranks: vec![RankTrace::new(place(&trace).map_or(0, |p| p.rank), trace)] }),
        }
    }
    for job in &mut jobs {
        job.ranks.sort_by_key(|rank| rank.rank);
        leave_out_empty(job, diagnostics);
    }
    for execution_trace in execution_traces {
        attach(execution_trace, &mut jobs, diagnostics);
    }
    for rank in jobs.iter_mut().flat_map(|job| &mut job.ranks) {
        leave_out_foreign(rank, diagnostics);
        if let (Some(trace), Some(execution_trace)) = (&mut rank.trace, &rank.execution_trace) {
            shapes::adopt(trace, execution_trace);
        }
    }
    jobs
}

/// The trace of `rank`, where `trace` is a copy of it: no two ranks do the same at the same nanosecond, unless they say that they are two.
fn copied<'a>(trace: &Trace, rank: &'a RankTrace) -> Option<&'a Trace> {
    let other = rank.trace.as_ref().filter(|other| other.rank.is_none() && trace.rank.is_none())?;
    let is_same = trace.origin == other.origin
        && trace.events == other.events
        && trace.tensor_args == other.tensor_args
        && trace.names.iter().eq(other.names.iter());
    (is_same && !trace.events.is_empty()).then_some(other)
}

/// Leaves out the execution trace of a rank that ran at other sizes.
fn leave_out_foreign(rank: &mut RankTrace, diagnostics: &mut Diagnostics) {
    let (Some(trace), Some(execution_trace)) = (&rank.trace, &rank.execution_trace) else { return };
    if let Some(why) = same_sizes::contradiction(trace, execution_trace) {
        let (one, other) = (trace.path.display(), execution_trace.path.display());
        diagnostics.warn("different-sizes", format!("{other} is not of the run of {one} and is left out: {why}"));
        rank.execution_trace = None;
    }
}

/// Leaves out the ranks of a job of which no work was recorded, where some was of others.
fn leave_out_empty(job: &mut Job, diagnostics: &mut Diagnostics) {
    let is_empty = |rank: &RankTrace| rank.trace.as_ref().is_some_and(|trace| !has_work(trace));
    if job.ranks.iter().all(is_empty) {
        return;
    }
    for trace in job.ranks.extract_if(.., |rank| is_empty(rank)).filter_map(|rank| rank.trace) {
        let path = trace.path.display();
        let text = format!("{path} is left out: no operator, no runtime call and no device work in it");
        diagnostics.warn("nothing-to-model", text);
    }
}

fn has_work(trace: &Trace) -> bool {
    use super::Category::{Kernel, Memcpy, Memset, Operator, Runtime};
    let is_work = |id| matches!(trace.events.category(id), Operator | Runtime | Kernel | Memcpy | Memset);
    trace.events.ids().any(is_work)
}

/// Rank and world size as recorded, else the rank of the file name.
fn place(trace: &Trace) -> Option<RankPlace> {
    trace.rank.or_else(|| naming::rank(&trace.path).map(|rank| RankPlace { rank, world_size: None }))
}

fn world_size(trace: &Trace) -> Option<u32> {
    trace.rank.and_then(|place| place.world_size)
}

impl RankTrace {
    fn new(rank: u32, trace: Trace) -> Self {
        Self { rank, world_size: world_size(&trace), trace: Some(trace), execution_trace: None }
    }
}

impl Job {
    /// The rank that `trace` has in this job; `None` when it is not of it.
    fn place_for(&self, trace: &Trace) -> Option<u32> {
        let first = self.ranks.first()?.trace.as_ref()?;
        if world_size(trace) != world_size(first) || world_size(trace) == Some(1) {
            return None;
        }
        let together = || naming::family(&trace.path) == naming::family(&first.path) || overlap(trace, first);
        match (place(trace), place(first)) {
            (Some(place), Some(_)) => {
                let is_free = self.ranks.iter().all(|mine| mine.rank != place.rank);
                (is_free && together()).then_some(place.rank)
            }
            (None, None) => {
                let collectives = collective_names(trace);
                let same = !collectives.is_empty() && collectives == collective_names(first);
                (same && overlap(trace, first)).then_some(self.ranks.len() as u32)
            }
            _ => None,
        }
    }
}

impl Job {
    /// Whether an execution trace is that of another rank of this job, which holds nothing else.
    fn takes(&self, other: &ExecutionTrace) -> bool {
        let rank = stated_rank(other);
        let is_alike = |mine: &RankTrace| {
            let execution_trace = mine.execution_trace.as_ref().filter(|_| mine.trace.is_none());
            execution_trace.is_some_and(|mine| {
                stated_rank(mine).is_some_and(|mine| rank.is_some_and(|rank| rank != mine))
                    && naming::family(&mine.path) == naming::family(&other.path)
            })
        };
        self.ranks.iter().all(is_alike)
    }
}

/// Whether two traces were recorded at the same time.
fn overlap(a: &Trace, b: &Trace) -> bool {
    let (a, b) = (span(a), span(b));
    a.0 < b.1 && b.0 < a.1
}

fn span(trace: &Trace) -> (TimeNs, TimeNs) {
    let end = trace.events.ids().map(|id| trace.events.end(id)).max().unwrap_or_default();
    (trace.origin, TimeNs(trace.origin.0.saturating_add(end.0)))
}

/// The names of the communication kernels and of the collectives that a trace recorded.
fn collective_names(trace: &Trace) -> BTreeSet<&str> {
    let recorded = trace.collectives.iter().map(|(_, args)| trace.names.get(args.name));
    let is_communication = |name: &&str| name.starts_with("nccl") || name.starts_with("c10d::");
    let kernels = trace.names.iter().map(|(_, name)| name).filter(is_communication);
    recorded.chain(kernels).filter(|name| !name.is_empty()).collect()
}

/// Gives `execution_trace` to the rank it fits best, else makes it a job of its own.
fn attach(execution_trace: ExecutionTrace, jobs: &mut Vec<Job>, diagnostics: &mut Diagnostics) {
    let ranks = jobs.iter_mut().flat_map(|job| {
        let is_parallel = job.ranks.len() > 1;
        job.ranks.iter_mut().map(move |rank| (is_parallel, rank))
    });
    let best = ranks
        .filter(|(_, rank)| rank.execution_trace.is_none())
        .map(|(is_parallel, rank)| (fit(&execution_trace, rank, is_parallel), rank))
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    if let Some((1.., rank)) = best {
        rank.execution_trace = Some(execution_trace);
        return;
    }
    if !jobs.is_empty() {
        let path = execution_trace.path.display().to_string();
        diagnostics.note("unattached-execution-trace", format!("{path} fits none of the profiler traces"));
    }
    let rank = stated_rank(&execution_trace);
    let job = jobs.iter_mut().find(|job| job.takes(&execution_trace));
    let alone = RankTrace {
        rank: rank.unwrap_or_default(),
        world_size: None,
        trace: None,
        execution_trace: Some(execution_trace),
    };
    match job {
        Some(job) => {
            job.ranks.push(alone);
            job.ranks.sort_by_key(|rank| rank.rank);
        }
        None => jobs.push(Job { ranks: vec![alone] }),
    }
}

/// The rank that an execution trace or its file's name states.
fn stated_rank(execution_trace: &ExecutionTrace) -> Option<u32> {
    execution_trace.rank.or_else(|| naming::rank(&execution_trace.path))
}

/// How much speaks for `execution_trace` being of `rank`: process id, file name, rank, operators; 0 = it is not.
fn fit(execution_trace: &ExecutionTrace, rank: &RankTrace, is_parallel: bool) -> u32 {
    const SAME_PROCESS: u32 = 8;
    const SAME_NAME: u32 = 4;
    const SAME_RANK: u32 = 2;
    let Some(trace) = &rank.trace else { return 0 };
    let is_here = naming::folder(&trace.path) == naming::folder(&execution_trace.path);
    let ran_in =
        |pid: i64| trace.tracks.iter().any(|track| matches!(track.kind, TrackKind::Thread { pid: p, .. } if p == pid));
    let stated = naming::rank(&execution_trace.path).or(execution_trace.rank);
    let mut points = 0;
    if execution_trace.pid.is_some_and(ran_in) {
        points += SAME_PROCESS;
    }
    if naming::recording(&trace.path) == naming::recording(&execution_trace.path) {
        points += SAME_NAME;
    }
    if is_parallel && is_here && stated == Some(rank.rank) {
        points += SAME_RANK;
    }
    let alike = shares_operators(execution_trace, trace);
    if points == 0 && !is_parallel && is_here && alike {
        return 1;
    }
    if alike { points } else { 0 }
}

/// Whether most operators of the execution trace occur in the trace.
fn shares_operators(execution_trace: &ExecutionTrace, trace: &Trace) -> bool {
    let names: BTreeSet<NameId> = execution_trace.nodes.iter().map(|node| node.name).collect();
    let operators: Vec<&str> =
        names.into_iter().map(|name| execution_trace.names.get(name)).filter(|name| name.contains("::")).collect();
    let shared = operators.iter().filter(|name| trace.names.find(name).is_some()).count();
    2 * shared > operators.len()
}

//! What is odd about how files fell into jobs: ranks that are missing, ranks given twice, ranks of different runs.

use std::collections::BTreeSet;

use super::{Job, RankTrace, naming};
use crate::diagnostic::{Diagnostics, Severity};

/// Most ranks named one by one.
const MOST_NAMED: usize = 8;

/// Looks at the jobs of everything that was opened together.
pub(super) fn check(jobs: &[Job], diagnostics: &mut Diagnostics) {
    for job in jobs {
        missing(job, diagnostics);
        impossible(job, diagnostics);
    }
    for (index, job) in jobs.iter().enumerate().filter(|(_, job)| is_incomplete(job)) {
        for other in &jobs[..index] {
            compare(other, job, diagnostics);
        }
    }
}

fn world_size(job: &Job) -> Option<u32> {
    job.ranks.iter().find_map(|rank| rank.world_size).filter(|&size| size > 1)
}

fn is_incomplete(job: &Job) -> bool {
    world_size(job).is_some_and(|size| (within(job, size).len() as u32) < size)
}

fn numbers(job: &Job) -> BTreeSet<u32> {
    job.ranks.iter().map(|rank| rank.rank).collect()
}

/// The ranks of a job that are among `size`.
fn within(job: &Job, size: u32) -> BTreeSet<u32> {
    numbers(job).into_iter().filter(|&rank| rank < size).collect()
}

/// Ranks that a run of the recorded size does not have.
fn impossible(job: &Job, diagnostics: &mut Diagnostics) {
    let beyond = |rank: &&RankTrace| rank.world_size.is_some_and(|size| rank.rank >= size);
    let ranks: Vec<&RankTrace> = job.ranks.iter().filter(beyond).collect();
    if let Some((rank, size)) = ranks.first().and_then(|first| Some((first.rank, first.world_size?))) {
        let text = match size {
            0 => "a job of 0 ranks was recorded: how many there were is not known".to_owned(),
            _ => format!("rank {rank} was recorded of a job of {size}, whose ranks are 0 to {}", size - 1),
        };
        diagnostics.add_many(Severity::Warning, "impossible-rank", "", None, ranks.len() as u64, || text);
    }
}

/// Ranks of the run that are not there. Of one rank alone that is said where its collectives are.
fn missing(job: &Job, diagnostics: &mut Diagnostics) {
    let Some(size) = world_size(job).filter(|_| is_incomplete(job) && job.ranks.len() > 1) else { return };
    let there = within(job, size);
    let absent: Vec<String> =
        (0..size).filter(|rank| !there.contains(rank)).take(MOST_NAMED + 1).map(|rank| rank.to_string()).collect();
    let more = if absent.len() > MOST_NAMED { " and more" } else { "" };
    let named = absent.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join(", ");
    let text = format!("{} of {size} ranks are loaded, not {named}{more}", there.len());
    diagnostics.warn("missing-ranks", format!("{text}: collectives wait only for those that are"));
}

/// Says why two jobs of one world size, of which the second lacks ranks, were not taken as one.
fn compare(a: &Job, b: &Job, diagnostics: &mut Diagnostics) {
    let [first, second] = [a, b].map(|job| job.ranks.first().and_then(|rank| rank.trace.as_ref()));
    let Some((first, second)) = first.zip(second) else { return };
    let (one, other) = (first.path.display(), second.path.display());
    if let (Some(size), Some(other_size)) = (world_size(a), world_size(b))
        && size != other_size
    {
        let text =
            format!("{one} is of a job of {size} ranks, {other} of one of {other_size}: they are opened as two jobs");
        diagnostics.warn("different-jobs", text);
    }
    if world_size(a) != world_size(b) {
        return;
    }
    let shared: Vec<u32> = numbers(a).intersection(&numbers(b)).copied().collect();
    match shared.first() {
        Some(rank) if naming::folder(&first.path) == naming::folder(&second.path) => {
            let twice = a.ranks.iter().find(|mine| mine.rank == *rank).and_then(|mine| mine.trace.as_ref());
            let one = twice.map_or_else(|| one.to_string(), |trace| trace.path.display().to_string());
            let text = format!("{one} and {other} are both of rank {rank}: the second is opened as a job of its own");
            diagnostics.warn("duplicate-rank", text);
        }
        None if is_incomplete(a) => {
            let text = format!("{one} and {other} were not recorded together: they are opened as two jobs");
            diagnostics.warn("different-jobs", text);
        }
        _ => {}
    }
}

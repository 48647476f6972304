//! Traces → [`ExecutionGraph`]: one file per rule of the replay.
//!
//! First a trace is read as the rules see it, over its whole length (`threads`, `activities`, then `launch`, `follow`,
//! `events`, `sync`, `queue` and `late` estimate constants and infer dependencies: `observed`); then the chosen window
//! becomes tasks and edges (`emit*`), ranks are joined (`collectives`), and the draft is ordered (`order`, `draft`).
//! Knows no device model, no cost and no scenario.

mod activities;
mod assemble;
mod batches;
mod calls;
mod captured;
mod clock;
mod collectives;
mod compute;
pub mod constants;
mod convolutions;
mod draft;
mod emit;
mod emit_device;
mod emit_host;
mod emit_step;
mod events;
mod follow;
mod gather;
mod handover;
mod hidden;
mod host;
mod late;
mod launch;
mod lookups;
mod matching;
mod misplaced;
mod observed;
mod operands;
mod operators;
mod optimizers;
mod order;
mod pass_sizes;
mod queue;
mod room;
mod stated;
mod sync;
#[cfg(test)]
mod tests;
mod threads;
mod unlike_steps;
mod unread;
mod unrecorded;

use std::ops::Range;

use rayon::prelude::*;
use thiserror::Error;

use crate::graph::iteration::{self, IterationChoice, MeanStep, Step, Window};
use crate::graph::{ExecutionGraph, Rank, TimedGraph};
use crate::trace::steps::OddRanges;
use crate::trace::{Job, RankClasses, Trace};
use crate::units::TimeNs;

pub use activities::ActivityKind;
pub use calls::launches_graph;
pub use captured::{CAPTURED, Captures};
pub use constants::{Lag, ReplayConstants, WaitKind};
pub use room::memory_needed;

use observed::Observed;

/// What to build of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// The iteration to model.
    pub iteration: IterationChoice,
}

/// Why no graph could be built.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BuildError {
    /// There is no profiler trace among the inputs.
    #[error("no profiler trace: an execution trace alone has no times")]
    NoTrace,
    /// No event of the trace is host or device work.
    #[error("{path}: no operator, no runtime call and no device work in it")]
    NoWork {
        /// The trace.
        path: String,
    },
    /// The asked-for step does not exist.
    #[error("{path}: no iteration {index}; it has {count}, counted from 0")]
    NoIteration {
        /// The trace.
        path: String,
        /// The index asked for, from 0.
        index: usize,
        /// How many there are.
        count: usize,
    },
}

/// One rank of a job to build from.
#[derive(Clone, Copy, Debug)]
pub struct RankInput<'a> {
    /// Global rank.
    pub rank: Rank,
    /// Which trace of the job it is.
    pub trace_index: usize,
    /// Its trace.
    pub trace: &'a Trace,
    /// Global numbers of the ranks it stands for besides itself.
    pub others: &'a [u32],
}

/// Builds the execution graph of the traced iteration of all ranks of a job.
///
/// # Errors
/// See [`BuildError`].
pub fn build(job: &Job, options: &BuildOptions) -> Result<ExecutionGraph, BuildError> {
    build_folded(job, &RankClasses::none(job), options)
}

/// As [`build`], of those ranks only that stand for others or for themselves.
///
/// # Errors
/// See [`BuildError`].
pub fn build_folded(job: &Job, folding: &RankClasses, options: &BuildOptions) -> Result<ExecutionGraph, BuildError> {
    build_lowered(job, folding, options).map(|(graph, _)| graph)
}

/// As [`build_folded`], and the graph lowered, which is done along with it.
///
/// # Errors
/// See [`BuildError`].
pub fn build_lowered(
    job: &Job,
    folding: &RankClasses,
    options: &BuildOptions,
) -> Result<(ExecutionGraph, TimedGraph), BuildError> {
    let ranks = folding.classes.iter().filter_map(|class| {
        let (rank, others) = (job.ranks.get(class.position)?, class.ranks.get(1..)?);
        let trace = rank.trace.as_ref()?;
        Some(RankInput { rank: Rank(rank.rank), trace_index: class.position, trace, others })
    });
    build_all(&ranks.collect::<Vec<_>>(), options, None)
}

/// Builds the execution graph of the traced iteration of all given ranks.
///
/// # Errors
/// See [`BuildError`].
///
/// # Complexity
/// O(events + work · streams · log work).
pub fn build_ranks(inputs: &[RankInput<'_>], options: &BuildOptions) -> Result<ExecutionGraph, BuildError> {
    build_fitted(inputs, options, None)
}

/// As [`build_ranks`], with the replay's constants estimated from some of the steps only: what a constant is worth shows
/// on the steps that it was not estimated from.
///
/// # Arguments
/// `fit`: positions of steps, clipped to those there are; `None` takes the whole trace.
///
/// # Errors
/// See [`BuildError`].
pub fn build_fitted(
    inputs: &[RankInput<'_>],
    options: &BuildOptions,
    fit: Option<&Range<usize>>,
) -> Result<ExecutionGraph, BuildError> {
    build_all(inputs, options, fit).map(|(graph, _)| graph)
}

fn build_all(
    inputs: &[RankInput<'_>],
    options: &BuildOptions,
    fit: Option<&Range<usize>>,
) -> Result<(ExecutionGraph, TimedGraph), BuildError> {
    if inputs.is_empty() {
        return Err(BuildError::NoTrace);
    }
    let recorded = |joined| inputs.par_iter().map(move |input| Recorded::of(input, options, joined)).collect();
    let mut steps: Vec<Recorded> = recorded(true);
    // A job takes turns where all its ranks do.
    if steps.iter().any(|rank| (rank.odd.kinds, rank.steps.len()) != (steps[0].odd.kinds, steps[0].steps.len())) {
        steps = recorded(false);
    }
    let recorded = steps;
    let windows = windows(inputs, &recorded, options)?;
    let ranks = inputs.par_iter().zip(&recorded).zip(windows);
    let mut ranks: Vec<Prepared<'_>> =
        ranks.map(|((input, recorded), window)| prepare(input, recorded, window, fit)).collect();
    extend(&mut ranks);
    let counts: Vec<usize> = inputs.iter().map(|input| 1 + input.others.len()).collect();
    let hidden = hidden::find(&mut ranks.iter_mut().map(|rank| &mut rank.observed).collect::<Vec<_>>(), &counts);
    let lowered = assemble::assemble(&ranks, hidden);
    ranks.into_par_iter().for_each(drop);
    Ok(lowered)
}

/// What a rank recorded, before anything is made of it.
struct Recorded {
    steps: Vec<Step>,
    /// How many of them have too few events to be chosen by default, where that is how one is chosen.
    small: usize,
    /// What was recorded of steps that cannot be.
    odd: OddRanges,
    /// What they take on average, where one is chosen by default.
    mean: Option<MeanStep>,
    /// From the first start to the last end of host and device work.
    span: Option<(TimeNs, TimeNs)>,
}

impl Recorded {
    fn of(input: &RankInput<'_>, options: &BuildOptions, joined: bool) -> Self {
        let ((steps, odd), span) =
            rayon::join(|| iteration::steps_and_odd_ranges(input.trace, joined), || span(input.trace));
        let is_default = options.iteration == IterationChoice::Default && input.trace.iteration.is_none();
        let least = if is_default { iteration::least_events(&steps) } else { 0 };
        let small = steps.iter().filter(|step| step.events < least).count();
        let chosen = iteration::choose(&steps, options.iteration).filter(|_| is_default);
        let mean = chosen.and_then(|chosen| MeanStep::of(&steps, chosen));
        Self { steps, small, odd, mean, span }
    }
}

/// A rank read and ready to be written.
struct Prepared<'a> {
    input: RankInput<'a>,
    /// How many steps it recorded.
    steps: usize,
    /// How many of them have too few events to be chosen by default.
    small: usize,
    odd: OddRanges,
    mean: Option<MeanStep>,
    window: Window,
    observed: Observed<'a>,
}

fn prepare<'a>(input: &RankInput<'a>, recorded: &Recorded, window: Window, fit: Option<&Range<usize>>) -> Prepared<'a> {
    let everything = TimeNs(i64::MIN)..TimeNs(i64::MAX);
    let fit = fit.map_or(everything, |fit| span_of(&recorded.steps, fit));
    let Recorded { steps, small, odd, mean, .. } = recorded;
    let observed = Observed::read(input.trace, fit);
    Prepared { input: *input, steps: steps.len(), small: *small, odd: *odd, mean: *mean, window, observed }
}

/// From the first start to the last end of the steps at these positions.
fn span_of(steps: &[Step], positions: &Range<usize>) -> Range<TimeNs> {
    let chosen = steps.iter().take(positions.end).skip(positions.start);
    let spans = chosen.map(|step| step.start..step.end());
    spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(TimeNs(0)..TimeNs(0))
}

/// The window of every rank: the same step of all, chosen on the first, or the one that an exported trace is about.
fn windows(inputs: &[RankInput<'_>], recorded: &[Recorded], options: &BuildOptions) -> Result<Vec<Window>, BuildError> {
    let exported = inputs.first().and_then(|input| input.trace.iteration.clone());
    let mut name = exported.filter(|_| options.iteration == IterationChoice::Default);
    let mut windows = Vec::with_capacity(inputs.len());
    for (input, Recorded { steps, span, .. }) in inputs.iter().zip(recorded) {
        let same = name.as_ref().and_then(|name| steps.iter().position(|step| step.name == *name));
        let chosen = same.or_else(|| iteration::choose(steps, options.iteration));
        let path = || input.trace.path.display().to_string();
        if let (IterationChoice::Index(index), None) = (options.iteration, chosen)
            && (index > 0 || !steps.is_empty())
        {
            return Err(BuildError::NoIteration { path: path(), index, count: steps.len().max(1) });
        }
        let span = span.ok_or_else(|| BuildError::NoWork { path: path() })?;
        let window = Window::of(steps, chosen, span);
        name.get_or_insert_with(|| window.name.clone());
        windows.push(window);
    }
    Ok(windows)
}

/// From the first start to the last end of host and device work.
fn span(trace: &Trace) -> Option<(TimeNs, TimeNs)> {
    use crate::trace::Category::{Kernel, Memcpy, Memset, Operator, Runtime};
    let activity = trace
        .events
        .ids()
        .filter(|&id| matches!(trace.events.category(id), Operator | Runtime | Kernel | Memcpy | Memset));
    activity.map(|id| (trace.events.start(id), trace.events.end(id))).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Lets the windows reach to where the last rank's device work of the chosen step ends.
fn extend(ranks: &mut [Prepared<'_>]) {
    let zeros = assemble::zeros(ranks);
    let ends = ranks.iter().zip(&zeros).map(|(rank, zero)| {
        let (from, to) = (rank.window.split.unwrap_or(rank.window.start), rank.window.end);
        let activities =
            rank.observed.activities.list.iter().filter(|activity| activity.launched >= from && activity.launched < to);
        activities.map(|activity| activity.end).fold(to, TimeNs::max).since(*zero)
    });
    let end = ends.max().unwrap_or_default();
    for (rank, &zero) in ranks.iter_mut().zip(&zeros).filter(|(rank, _)| rank.window.main.is_some()) {
        rank.window.tail = zero + end;
    }
}

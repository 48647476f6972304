//! Traces → [`ExecutionGraph`]: one file per rule of the replay.
//!
//! First a trace is read as the rules see it, over its whole length (`threads`, `works`, then `launch`, `follow`,
//! `events`, `sync`, `queue` and `late` estimate constants and infer dependencies: `observed`); then the chosen window
//! becomes tasks and edges (`emit*`), ranks are joined (`collectives`), and the draft is ordered (`draft`).
//! Knows no device model, no cost and no scenario.

mod calls;
mod collectives;
mod compute;
pub mod constants;
mod draft;
mod emit;
mod emit_device;
mod emit_host;
mod emit_step;
mod events;
mod follow;
mod handover;
mod host;
mod late;
mod launch;
mod observed;
mod operands;
mod operators;
mod queue;
mod sync;
mod threads;
mod works;

use thiserror::Error;

use crate::diagnostic::Diagnostics;
use crate::graph::iteration::{self, IterationChoice, Window};
use crate::graph::{ExecutionGraph, Rank, RankPart, TaskKind};
use crate::trace::{Job, Trace};
use crate::units::{DurNs, TimeNs};

pub use constants::{Lag, ReplayConstants, WaitKind};
pub use works::WorkKind;

use draft::Ordered;
use emit::{Emission, Emitted, Shared};
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
    #[error("{path}: no iteration {index}; it has {count}")]
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
}

/// Builds the execution graph of the traced iteration of all ranks of a job.
///
/// # Errors
/// See [`BuildError`].
pub fn build(job: &Job, options: &BuildOptions) -> Result<ExecutionGraph, BuildError> {
    let ranks = job.ranks.iter().enumerate().filter_map(|(trace_index, rank)| {
        Some(RankInput { rank: Rank(rank.rank), trace_index, trace: rank.trace.as_ref()? })
    });
    build_ranks(&ranks.collect::<Vec<_>>(), options)
}

/// Builds the execution graph of the traced iteration of all given ranks.
///
/// # Errors
/// See [`BuildError`].
///
/// # Complexity
/// O(events + work · streams · log work).
pub fn build_ranks(inputs: &[RankInput<'_>], options: &BuildOptions) -> Result<ExecutionGraph, BuildError> {
    if inputs.is_empty() {
        return Err(BuildError::NoTrace);
    }
    let windows = windows(inputs, options)?;
    let ranks: Vec<Prepared<'_>> = inputs.iter().zip(windows).map(|(input, window)| prepare(input, window)).collect();
    Ok(assemble(&ranks))
}

/// A rank read and ready to be written.
struct Prepared<'a> {
    input: RankInput<'a>,
    window: Window,
    observed: Observed<'a>,
}

fn prepare<'a>(input: &RankInput<'a>, window: Window) -> Prepared<'a> {
    Prepared { input: *input, window, observed: Observed::read(input.trace) }
}

/// The window of every rank: the same step of all, chosen on the first.
fn windows(inputs: &[RankInput<'_>], options: &BuildOptions) -> Result<Vec<Window>, BuildError> {
    let mut name: Option<String> = None;
    let mut windows = Vec::with_capacity(inputs.len());
    for input in inputs {
        let steps = iteration::steps(input.trace);
        let same = name.as_ref().and_then(|name| steps.iter().position(|step| step.name == *name));
        let chosen = same.or_else(|| iteration::choose(&steps, options.iteration));
        let path = || input.trace.path.display().to_string();
        if let (IterationChoice::Index(index), None) = (options.iteration, chosen)
            && (index > 0 || !steps.is_empty())
        {
            return Err(BuildError::NoIteration { path: path(), index, count: steps.len().max(1) });
        }
        let span = span(input.trace).ok_or_else(|| BuildError::NoWork { path: path() })?;
        let window = Window::of(&steps, chosen, span);
        name.get_or_insert_with(|| window.name.clone());
        windows.push(window);
    }
    Ok(windows)
}

/// From the first start to the last end of host and device work.
fn span(trace: &Trace) -> Option<(TimeNs, TimeNs)> {
    use crate::trace::Category::{Kernel, Memcpy, Memset, Operator, Runtime};
    let work = trace
        .events
        .ids()
        .filter(|&id| matches!(trace.events.category(id), Operator | Runtime | Kernel | Memcpy | Memset));
    work.map(|id| (trace.events.start(id), trace.events.end(id))).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Schedule time 0 of each rank in its trace's time: one instant on a shared clock, before any task of the windows.
fn zeros(ranks: &[Prepared<'_>]) -> Vec<TimeNs> {
    let first = |rank: &Prepared<'_>| {
        let (from, all) = (rank.window.start, rank.window.main.is_none());
        let works = rank.observed.works.list.iter().filter(|work| work.end > from || all);
        works.map(|work| work.start).fold(from, TimeNs::min)
    };
    let origin = |rank: &Prepared<'_>| rank.input.trace.origin.0;
    let earliest = ranks.iter().map(|rank| first(rank).0.saturating_add(origin(rank))).min().unwrap_or_default();
    ranks.iter().map(|rank| TimeNs(earliest.saturating_sub(origin(rank)))).collect()
}

fn assemble(ranks: &[Prepared<'_>]) -> ExecutionGraph {
    let mut diagnostics = Diagnostics::default();
    let zeros = zeros(ranks);
    let members = ranks.iter().enumerate().map(|(i, rank)| collectives::members(&rank.observed, i, zeros[i]));
    let (groups, offsets) = collectives::matched(members.collect());
    let ahead = offsets.iter().copied().max().unwrap_or_default();
    let zeros: Vec<TimeNs> = zeros.iter().zip(&offsets).map(|(&zero, &offset)| zero + offset - ahead).collect();

    let mut shared = Shared::default();
    let mut emitted = Vec::with_capacity(ranks.len());
    let mut virtual_lanes = Vec::with_capacity(ranks.len());
    let mut origin = draft::NONE;
    for (rank, &zero) in ranks.iter().zip(&zeros) {
        let mut emission = Emission::new(&rank.observed, &rank.window, zero, rank.input.rank, origin, &mut shared);
        if origin == draft::NONE {
            origin = emission.joint(emission.virtual_lane, zero);
            emission.origin = origin;
        }
        virtual_lanes.push(emission.virtual_lane);
        emitted.push(emission.run());
    }
    let task_of: Vec<Vec<u32>> = emitted.iter_mut().map(|rank| std::mem::take(&mut rank.works)).collect();
    let drafted = collectives::join(&mut shared, &groups, &task_of, &virtual_lanes);
    note_collectives(&drafted, ranks.len(), &mut diagnostics);
    let Shared { draft, lanes, names, operators } = shared;
    let ordered = draft.order();
    if ordered.dropped > 0 {
        let message = format!("{} inferred dependencies closed a cycle and were left out", ordered.dropped);
        diagnostics.note("cyclic-dependency", message);
    }
    let parts = parts(ranks, &zeros, &emitted, &ordered);
    let collectives = drafted
        .into_iter()
        .map(|mut drafted| {
            drafted.collective.members = drafted.tasks.iter().map(|&task| ordered.node_of[task as usize]).collect();
            drafted.collective
        })
        .collect();
    for rank in ranks {
        diagnostics.merge(&rank.input.trace.diagnostics);
    }
    ExecutionGraph {
        measured: parts.iter().map(|part| part.measured).max().unwrap_or_default(),
        unexplained: emitted.iter().map(|rank| rank.unexplained).sum(),
        tasks: ordered.graph,
        lanes,
        batch_size: operators.batch_size(&names),
        operators: operators.list,
        operands: operators.operands,
        collectives,
        names,
        ranks: parts,
        constants: ranks.iter().map(|rank| rank.observed.constants.clone()).collect(),
        diagnostics,
    }
}

fn note_collectives(drafted: &[collectives::Drafted], ranks: usize, diagnostics: &mut Diagnostics) {
    let alone = drafted.iter().filter(|drafted| drafted.tasks.len() == 1).count();
    if alone > 0 && ranks == 1 {
        diagnostics.note(
            "single-rank-collectives",
            format!(
                "{alone} collectives keep their traced duration, which contains waiting for ranks that are not loaded"
            ),
        );
    } else if alone > 0 {
        let message = format!("{alone} collectives have no partner on another rank and keep their traced duration");
        diagnostics.warn("unmatched-collectives", message);
    }
}

fn parts(ranks: &[Prepared<'_>], zeros: &[TimeNs], emitted: &[Emitted], ordered: &Ordered) -> Vec<RankPart> {
    let node = |task: u32| ordered.node_of[task as usize];
    let part = |((rank, &zero), emitted): ((&Prepared<'_>, &TimeNs), &Emitted)| {
        debug_assert_eq!(ordered.graph[node(emitted.end)].kind, TaskKind::StepEnd);
        RankPart {
            rank: rank.input.rank,
            trace_index: rank.input.trace_index,
            device: device(rank),
            iteration: rank.window.name.clone(),
            window_start: zero,
            window_end: emitted.measured.1.max(rank.window.end),
            begin: emitted.begin.map(node),
            end: node(emitted.end),
            measured: emitted.measured.1.since(emitted.measured.0).max(DurNs::ZERO),
        }
    };
    ranks.iter().zip(zeros).zip(emitted).map(part).collect()
}

/// The device that did most of the rank's work.
fn device(rank: &Prepared<'_>) -> Option<crate::trace::RecordedDevice> {
    let busiest = rank.observed.works.streams.iter().max_by_key(|stream| stream.works.len())?.device;
    let devices = &rank.input.trace.devices;
    let used = devices.iter().find(|device| i64::from(device.id) == busiest);
    used.or_else(|| devices.first()).cloned()
}

//! The figure that edits are compared by: the period at which the chosen step would repeat for ever, where it is known; else the
//! recorded window.

use rustc_hash::FxHashSet;
use serde::Serialize;

use crate::analysis::{busy, replay};
use crate::graph::timed::NO_TASK;
use crate::graph::{ExecutionGraph, NodeId, TaskId, TaskKind, TimedGraph};
use crate::scenario::Resolved;
use crate::sim::{Circuit, Cycle, Schedule, SteadyPeriod, steady};
use crate::units::{DurNs, share};

use super::ErrorBand;

/// Why the steady period is what edits are compared by, or is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SteadyBasis {
    /// The step before was recorded, too: what one step hands to the next is known.
    Repeated,
    /// The step queued behind work of the step before, which was recorded without its launches or only in what it held back, and takes
    /// as long in a row of such steps: they follow one another at once.
    Queued,
    /// One step was recorded, or none: that it repeats at once is an assumption.
    OneStep,
    /// The step began with work from before the trace and takes another time in a row of such steps: how one follows another was not
    /// recorded.
    Backlog,
    /// Too much of the step hangs on what was recorded before it or behind it, and does not repeat.
    LeftOut,
    /// The end of the step waits for nothing of the step before.
    #[default]
    None,
}

/// The steady period of an outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(into = "Told")]
pub struct Steady {
    /// What is known of the job.
    pub basis: SteadyBasis,
    /// Bounds of the period, which are the same but for jobs that are slow to settle.
    pub bounds: Option<ErrorBand>,
    /// Share of the recorded window in which tasks on the critical path waited for what does not repeat.
    pub left_out_share: f64,
}

/// As it is written: each period under what it is.
#[derive(Serialize)]
struct Told {
    basis: SteadyBasis,
    /// Of the period that edits are compared by, where that is known.
    bounds: Option<ErrorBand>,
    /// Of the period if the one recorded step were repeated.
    bounds_if_repeated: Option<ErrorBand>,
    left_out_share: f64,
}

impl From<Steady> for Told {
    fn from(steady: Steady) -> Self {
        let Steady { basis, bounds, left_out_share } = steady;
        let known = bounds.filter(|_| steady.is_compared());
        let assumed = bounds.filter(|_| steady.may_repeat());
        Self { basis, bounds: known, bounds_if_repeated: assumed, left_out_share }
    }
}

/// A step that repeats at once and its recorded window are the same within this share.
const MOST_APART: f64 = 0.01;

/// More than this may not hang on what does not repeat.
const MOST_LEFT_OUT: f64 = 0.02;

impl Steady {
    /// Of the untouched graph, with the circuit that decides it.
    pub(super) fn of_base(graph: &ExecutionGraph, resolved: &Resolved, schedule: &Schedule) -> (Self, Circuit) {
        let Some(period) = period(&resolved.cycle) else { return Default::default() };
        let left_out_share = left_out_share(graph, &resolved.timed, schedule, &resolved.cycle);
        let waits = graph.ranks.iter().any(|part| part.backlog.is_some());
        let is_unrecorded = |node: NodeId| graph.tasks[node].kind == TaskKind::Unrecorded && graph.is_backlog(node);
        let window = graph.ranks.iter().map(|part| replay::period(&resolved.timed, schedule, part)).max();
        // Where the queue in front of the step and the one that it leaves make no other time of it, steps follow one another so.
        let repeats =
            window.is_some_and(|window| share((middle(bounds(&period)) - window).abs(), window) <= MOST_APART);
        let basis = if waits && !repeats && graph.tasks.node_indices().any(is_unrecorded) {
            SteadyBasis::Backlog
        } else if waits {
            SteadyBasis::Queued
        } else if left_out_share > MOST_LEFT_OUT {
            SteadyBasis::LeftOut
        } else if graph.ranks.iter().any(|part| part.begin.is_none()) {
            SteadyBasis::OneStep
        } else {
            SteadyBasis::Repeated
        };
        (Self { basis, bounds: Some(bounds(&period)), left_out_share }, period.circuit)
    }

    /// Of a scenario on the graph of which `self` is known, with the circuit that decides it.
    pub(super) fn of(self, resolved: &Resolved) -> (Self, Circuit) {
        let period = period(&resolved.cycle);
        let steady = Self { bounds: period.as_ref().map(bounds), ..self };
        (steady, period.map(|period| period.circuit).unwrap_or_default())
    }

    /// Whether edits are compared by it.
    pub fn is_compared(&self) -> bool {
        matches!(self.basis, SteadyBasis::Repeated | SteadyBasis::Queued) && self.bounds.is_some()
    }

    /// The figure to compare by, of an iteration whose recorded window takes `window`.
    pub(super) fn compared(&self, window: DurNs) -> DurNs {
        self.bounds.filter(|_| self.is_compared()).map_or(window, middle)
    }

    /// Whether the step may repeat at the period that is known, though it was not recorded how one follows another.
    fn may_repeat(&self) -> bool {
        matches!(self.basis, SteadyBasis::OneStep | SteadyBasis::Backlog)
    }

    /// The period if the one recorded step were repeated.
    pub fn if_repeated(&self) -> Option<DurNs> {
        self.bounds.filter(|_| self.may_repeat()).map(middle)
    }
}

fn period(cycle: &Cycle) -> Option<SteadyPeriod> {
    steady(cycle, &mut Schedule::default())
}

fn bounds(period: &SteadyPeriod) -> ErrorBand {
    // A circuit that was found is exact; the other bound says only that there is no slower one.
    let high_ns = if period.has_met() { period.low } else { period.high };
    ErrorBand { low_ns: period.low, high_ns, ..ErrorBand::default() }
}

fn middle(bounds: ErrorBand) -> DurNs {
    bounds.low_ns + (bounds.high_ns - bounds.low_ns).scale(0.5)
}

/// In which share of the recorded window tasks of the chosen step on its critical path waited for what the cycle leaves out alone.
fn left_out_share(graph: &ExecutionGraph, timed: &TimedGraph, schedule: &Schedule, cycle: &Cycle) -> f64 {
    let windows = graph.ranks.iter().map(|part| (busy::window(part, timed, schedule), part));
    let Some(((begin, end), part)) = windows.max_by_key(|((begin, end), _)| end.since(*begin)) else {
        return 0.0;
    };
    let left_out: FxHashSet<(u32, u8)> = cycle.left_out.iter().copied().collect();
    let (mut sum, mut earliest) = (DurNs::ZERO, end);
    let mut next = Some(timed.task(part.end));
    while let Some(task) = next.filter(|&task| schedule.end(task) > begin) {
        let before = timed.predecessors[task.0 as usize];
        let kept = (0..3).filter(|&slot| before[slot] != NO_TASK && !left_out.contains(&(task.0, slot as u8)));
        let ready = |slot: usize| schedule.end(TaskId(before[slot])) + DurNs(timed.lags[task.0 as usize][slot].into());
        // What waits for nothing else follows its lane's end one copy back.
        if let Some(ready) = kept.map(ready).max() {
            // Tasks that follow one another may have waited at the same time, which counts once.
            sum += schedule.start(timed, task).min(earliest).since(ready.max(begin)).max(DurNs::ZERO);
            earliest = earliest.min(ready.max(begin));
        }
        next = schedule.critical_predecessor(timed, task);
    }
    share(sum, end.since(begin))
}

//! The tasks that decide a figure of the iteration, and what of the figure is host work or uncertain for them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::analysis::busy;
use crate::cost::{Prediction, Provenance};
use crate::graph::{LaneId, TaskId, TaskKind};
use crate::scenario::Resolved;
use crate::sim::{Circuit, Schedule};
use crate::units::{DurNs, TimeNs};

/// The error of each model, in ns: in which all tasks that it predicts err the same way.
pub type Errors = BTreeMap<&'static str, f64>;

/// Relative error of host times on another machine. Of each of the twelve public traces of a GPU since 2022 (B200, H100, MI300X) how fast
/// its host is: the mean over 17 operators, as far as the trace has them five times, of the logarithm of their median time over that of all
/// traces. The error is 1.48 times the median distance of these from their median, what recorders add (stacks, shapes) among it; three of
/// the twelve are a factor of four and more away.
const OTHER_HOST: f64 = 0.30;

/// The tasks whose times a figure is the sum of.
#[derive(Clone, Debug)]
pub(super) struct Decisive {
    tasks: Vec<TaskId>,
    /// Over how many iterations they go.
    iterations: u32,
}

impl Decisive {
    /// The critical path of the slowest rank's recorded iteration, from its end.
    pub(super) fn of_window(resolved: &Resolved, schedule: &Schedule) -> Self {
        let timed = &*resolved.timed;
        let windows = resolved.graph.ranks.iter().map(|part| (busy::window(part, timed, schedule), part));
        let slowest = windows.max_by_key(|((begin, end), _)| end.since(*begin));
        let begin = slowest.map_or(TimeNs(i64::MAX), |((begin, _), _)| begin);
        let end = slowest.map(|(_, part)| timed.task(part.end));
        let within = |&task: &TaskId| schedule.end(task) > begin;
        let before = |&task: &TaskId| schedule.critical_predecessor(timed, task).filter(within);
        Self { tasks: std::iter::successors(end.filter(within), before).collect(), iterations: 1 }
    }

    /// The slowest circuit of the cycle of `resolved`: what its period is the sum of.
    pub(super) fn of_period(resolved: &Resolved, circuit: &Circuit) -> Self {
        let tasks = circuit.tasks.iter().filter_map(|&task| row_of(resolved, task)).collect();
        Self { tasks, iterations: circuit.copies.max(1) }
    }

    /// The tasks, last first.
    pub(super) fn tasks(&self) -> &[TaskId] {
        &self.tasks
    }

    /// Host work among them in one iteration.
    pub(super) fn host(&self, resolved: &Resolved) -> DurNs {
        let (timed, added) = (&*resolved.timed, resolved.added_by_task());
        let is_host = |task: &&TaskId| {
            let traced = timed.node(**task).map(|node| resolved.graph.tasks[node].kind);
            let kind = traced.or_else(|| added.get(*task).map(|added| added.kind));
            matches!(kind, Some(TaskKind::Host(_) | TaskKind::Runtime | TaskKind::Compute))
        };
        let sum: DurNs = self.tasks.iter().filter(is_host).map(|task| DurNs(timed.durations[task.0 as usize])).sum();
        DurNs(sum.0 / i64::from(self.iterations))
    }

    /// `Σ_tasks error·duration` of each model in one iteration.
    pub(super) fn errors(&self, resolved: &Resolved) -> Errors {
        let mut errors = Errors::new();
        if resolved.changes.is_empty() && resolved.added.is_empty() {
            return errors;
        }
        let timed = &*resolved.timed;
        let predicted = predictions(resolved);
        let assumes_host = resolved.reports.iter().any(|report| report.assumes_host);
        let is_host = |task: TaskId| {
            let kind = timed.node(task).map(|node| resolved.graph.tasks[node].kind);
            assumes_host && matches!(kind, Some(TaskKind::Host(_) | TaskKind::Runtime))
        };
        // A measured duration has no error on its own machine.
        for &task in &self.tasks {
            let (model, error) = match predicted[task.0 as usize] {
                Some(of) => (of.model, f64::from(of.error) * of.duration.0 as f64),
                None if is_host(task) => {
                    ("host of another machine", OTHER_HOST * timed.durations[task.0 as usize] as f64)
                }
                None => continue,
            };
            *errors.entry(model).or_default() += error / f64::from(self.iterations);
        }
        errors
    }
}

/// The task of which `task` of the cycle is a copy; `None` of one that stands for work of earlier copies, and of joints.
fn row_of(resolved: &Resolved, task: TaskId) -> Option<TaskId> {
    resolved.cycle.graph.node(task).map(|row| TaskId(row.index() as u32))
}

/// The least and the most that the work of one iteration on one stream takes, by its predictions' errors: no iteration is shorter than
/// that work, also where as predicted other work decides.
///
/// # Complexity
/// O(tasks of the iteration).
pub(super) fn busiest_stream(resolved: &Resolved) -> (DurNs, DurNs) {
    if resolved.changes.is_empty() && resolved.added.is_empty() {
        return (DurNs::ZERO, DurNs::ZERO);
    }
    let (graph, timed) = (&*resolved.graph, &*resolved.timed);
    let (predicted, added) = (predictions(resolved), resolved.added_by_task());
    let mut streams: FxHashMap<LaneId, (DurNs, Errors)> = FxHashMap::default();
    for task in (0..resolved.cycle.graph.len() as u32).filter_map(|task| row_of(resolved, TaskId(task))) {
        let traced = timed.node(task).map(|node| (graph.tasks[node].kind, graph.tasks[node].lane));
        let placed = traced.or_else(|| added.get(&task).map(|added| (added.kind, added.lane)));
        let Some((_, lane)) = placed.filter(|(kind, _)| kind.is_device()) else { continue };
        let (sum, errors) = streams.entry(lane).or_default();
        *sum += DurNs(timed.durations[task.0 as usize]);
        if let Some(of) = predicted[task.0 as usize] {
            *errors.entry(of.model).or_default() += f64::from(of.error) * of.duration.0 as f64;
        }
    }
    let busiest = |sign: f64| streams.values().map(|(sum, errors)| *sum + deviation(errors).scale(sign)).max();
    (busiest(-1.0).unwrap_or_default(), busiest(1.0).unwrap_or_default())
}

/// By task of the timed graph what was predicted of it.
fn predictions(resolved: &Resolved) -> Vec<Option<&Prediction>> {
    let timed = &*resolved.timed;
    let mut predicted = vec![None; timed.len()];
    for added in &resolved.added {
        predicted[added.task.0 as usize] = Some(&added.prediction);
    }
    let is_kept = |of: &Prediction| of.provenance == Provenance::Unmodelled;
    for (node, prediction) in resolved.changes.iter().filter(|(_, prediction)| !is_kept(prediction)) {
        predicted[timed.task(*node).0 as usize] = Some(prediction);
    }
    predicted
}

/// The errors of all together, those of different models taken as independent: `σ² = Σ_models error²`.
pub(super) fn deviation(errors: &Errors) -> DurNs {
    DurNs(errors.values().map(|error| error * error).sum::<f64>().sqrt().round() as i64)
}

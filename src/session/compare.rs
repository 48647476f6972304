//! Two iterations side by side: which is faster beyond what is known to be uncertain, and which operators make the difference.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::align::{Aligned, align};
use crate::analysis::edited::Edited;
use crate::analysis::lanes::Times;
use crate::graph::iteration::steps;
use crate::graph::{ExecutionGraph, LaneKind, OperatorId, TaskKind};
use crate::units::DurNs;

use super::summary::errors_by_model;
use super::{Loaded, Outcome};

/// One of the two.
#[derive(Clone, Debug)]
pub struct Side {
    figures: SideFigures,
    /// Top-level operators in order.
    calls: Vec<Call>,
    /// Time outside of operators.
    rest: Call,
    /// Standard error of the time by model, in ns.
    errors: BTreeMap<&'static str, f64>,
    /// What is uncertain besides: how steps spread, or how far the replay is off, in ns.
    noise_ns: f64,
    /// What tells its trace and iteration from others.
    trace: String,
}

/// What is said of a side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SideFigures {
    /// The trace or scenario.
    pub name: String,
    /// `measured` or `simulated`.
    pub source: &'static str,
    /// Its iteration.
    pub iteration_ns: DurNs,
    /// Where its time may lie.
    pub low_ns: DurNs,
    /// Where its time may lie.
    pub high_ns: DurNs,
}

#[derive(Clone, Debug, Default)]
struct Call {
    name: String,
    host: DurNs,
    device: DurNs,
}

/// Which is faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Faster {
    /// The first, beyond the error.
    AFaster,
    /// The second, beyond the error.
    BFaster,
    /// The difference is within the error.
    CannotTell,
}

/// Time of the operators of one name, or of one call, on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ComparedRow {
    /// The operator.
    pub name: String,
    /// Time on the first side.
    pub a_ns: DurNs,
    /// Time on the second side.
    pub b_ns: DurNs,
    /// Second minus first.
    pub delta_ns: DurNs,
    /// Calls on the first side.
    pub a_count: usize,
    /// Calls on the second side.
    pub b_count: usize,
    /// Calls that stand beside one another in the order of both sides.
    pub matched: usize,
}

/// Both sides held against one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The first.
    pub a: SideFigures,
    /// The second.
    pub b: SideFigures,
    /// Second minus first.
    pub delta_ns: DurNs,
    /// How much of that may be error.
    pub error_ns: DurNs,
    /// Which is faster.
    pub verdict: Faster,
    /// What the times of rows are: `device`, or `host` where no device was used.
    pub time: &'static str,
    /// The rows, the largest difference first.
    pub rows: Vec<ComparedRow>,
}

impl Side {
    /// What was measured. How much its recorded steps differ from one another is its error.
    pub fn measured(loaded: &Loaded, name: String) -> Self {
        let noise_ns = spread_of_steps(loaded).unwrap_or(0.0);
        let iteration = loaded.graph.measured;
        let (calls, rest) = calls(&loaded.graph, Times::Measured);
        let figures = figures(name, "measured", iteration, noise_ns);
        Self { figures, calls, rest, errors: BTreeMap::new(), noise_ns, trace: trace(loaded) }
    }

    /// What was simulated. The models' errors are its own, and how far the untouched replay is off.
    pub fn simulated(loaded: &Loaded, outcome: &Outcome, name: String) -> Self {
        let edited = Edited::of(&outcome.resolved);
        let times = Times::Simulated { timed: &edited.timed, schedule: &outcome.schedule };
        let (calls, rest) = calls(&edited.graph, times);
        let errors = errors_by_model(&outcome.resolved, &outcome.schedule);
        let summary = &outcome.summary;
        let noise_ns = (summary.replay_error * summary.simulated_ns.0 as f64).abs();
        let error = errors.values().map(|error| error * error).sum::<f64>().sqrt();
        let figures = figures(name, "simulated", summary.simulated_ns, error);
        Self { figures, calls, rest, errors, noise_ns, trace: trace(loaded) }
    }

    /// Compares with another side. Two scenarios of one trace share its replay, and err alike where one model speaks for
    /// both: only the difference of its errors counts. Otherwise errors are independent.
    ///
    /// # Arguments
    /// `by_call`: a row per call in order, instead of one per name.
    pub fn compare(&self, other: &Self, by_call: bool) -> Comparison {
        let delta_ns = other.figures.iteration_ns - self.figures.iteration_ns;
        let error_ns = self.error_of_difference(other);
        let is_told = delta_ns.0 != 0 && delta_ns.0.unsigned_abs() as f64 > error_ns;
        let has_device = [self, other].iter().any(|side| side.calls.iter().any(|call| call.device > DurNs::ZERO));
        let time = |call: &Call| if has_device { call.device } else { call.host };
        let rows = if by_call { self.by_call(other, time) } else { self.by_name(other, time) };
        Comparison {
            a: self.figures.clone(),
            b: other.figures.clone(),
            delta_ns,
            error_ns: DurNs(error_ns.round() as i64),
            verdict: match delta_ns.0 {
                1.. if is_told => Faster::AFaster,
                ..=-1 if is_told => Faster::BFaster,
                _ => Faster::CannotTell,
            },
            time: if has_device { "device" } else { "host" },
            rows,
        }
    }

    fn error_of_difference(&self, other: &Self) -> f64 {
        let is_shared = self.trace == other.trace && self.figures.source == other.figures.source;
        let error = |side: &Self, model: &str| side.errors.get(model).copied().unwrap_or(0.0);
        let mut models: Vec<&str> = self.errors.keys().chain(other.errors.keys()).copied().collect();
        models.sort_unstable();
        models.dedup();
        let of_model = |model: &&str| {
            let (a, b) = (error(self, model), error(other, model));
            if is_shared { (a - b).powi(2) } else { a * a + b * b }
        };
        let noise = if is_shared { 0.0 } else { self.noise_ns.powi(2) + other.noise_ns.powi(2) };
        (models.iter().map(of_model).sum::<f64>() + noise).sqrt()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().map(|call| call.name.as_str())
    }

    fn aligned(&self, other: &Self) -> Vec<Aligned> {
        let (a, b): (Vec<&str>, Vec<&str>) = (self.names().collect(), other.names().collect());
        align(&a, &b)
    }

    fn by_call(&self, other: &Self, time: impl Fn(&Call) -> DurNs) -> Vec<ComparedRow> {
        let row = |one: Aligned| {
            let (a, b) = match one {
                Aligned::Both(a, b) => (Some(&self.calls[a]), Some(&other.calls[b])),
                Aligned::First(a) => (Some(&self.calls[a]), None),
                Aligned::Second(b) => (None, Some(&other.calls[b])),
            };
            ComparedRow::of(a, b, &time)
        };
        self.aligned(other).into_iter().map(row).collect()
    }

    fn by_name(&self, other: &Self, time: impl Fn(&Call) -> DurNs) -> Vec<ComparedRow> {
        let mut rows: BTreeMap<String, ComparedRow> = BTreeMap::new();
        let rest = ComparedRow::of(Some(&self.rest), Some(&other.rest), &time);
        for row in self.by_call(other, &time).into_iter().chain([rest]) {
            let sum = rows.entry(row.name.clone()).or_default();
            sum.name = row.name;
            sum.a_ns += row.a_ns;
            sum.b_ns += row.b_ns;
            sum.delta_ns += row.delta_ns;
            sum.a_count += row.a_count;
            sum.b_count += row.b_count;
            sum.matched += row.matched;
        }
        let takes_part = |row: &ComparedRow| row.a_ns.0 != 0 || row.b_ns.0 != 0 || row.a_count != row.b_count;
        let mut rows: Vec<ComparedRow> = rows.into_values().filter(takes_part).collect();
        rows.sort_by(|a, b| b.delta_ns.0.abs().cmp(&a.delta_ns.0.abs()).then_with(|| a.name.cmp(&b.name)));
        rows
    }
}

impl ComparedRow {
    fn of(a: Option<&Call>, b: Option<&Call>, time: &impl Fn(&Call) -> DurNs) -> Self {
        let of = |call: Option<&Call>| call.map_or(DurNs::ZERO, time);
        Self {
            name: a.or(b).map(|call| call.name.clone()).unwrap_or_default(),
            a_ns: of(a),
            b_ns: of(b),
            delta_ns: of(b) - of(a),
            a_count: usize::from(a.is_some()),
            b_count: usize::from(b.is_some()),
            matched: usize::from(a.is_some() && b.is_some()),
        }
    }
}

fn figures(name: String, source: &'static str, iteration_ns: DurNs, error: f64) -> SideFigures {
    let error = DurNs(error.round() as i64);
    let low_ns = (iteration_ns - error).max(DurNs::ZERO);
    SideFigures { name, source, iteration_ns, low_ns, high_ns: iteration_ns + error }
}

fn trace(loaded: &Loaded) -> String {
    crate::scenario::fingerprint(&loaded.graph)
}

/// Standard deviation of the steps that were recorded whole, in ns; `None` of fewer than two.
fn spread_of_steps(loaded: &Loaded) -> Option<f64> {
    let part = loaded.graph.ranks.first()?;
    let steps = steps(loaded.job.ranks.get(part.trace_index)?.trace.as_ref()?);
    let largest = steps.iter().map(|step| step.events).max()?;
    let whole = steps.iter().filter(|step| step.events * 2 >= largest && !step.observed);
    let lengths: Vec<f64> = whole.map(|step| step.dur.0 as f64).collect();
    let mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
    let sum = lengths.iter().map(|length| (length - mean).powi(2)).sum::<f64>();
    (lengths.len() > 1).then(|| (sum / (lengths.len() - 1) as f64).sqrt())
}

/// The top-level operators of the iteration in order, thread by thread, with the time of everything below them; and what
/// belongs to none. Of several ranks one after another.
fn calls(graph: &ExecutionGraph, times: Times<'_>) -> (Vec<Call>, Call) {
    let belongs = graph.iteration_tasks();
    let mut sums: BTreeMap<OperatorId, Call> = BTreeMap::new();
    let mut rest = Call { name: "(outside of operators)".to_owned(), ..Call::default() };
    for node in graph.tasks.node_indices().filter(|node| belongs[node.index()]) {
        let task = &graph.tasks[node];
        if matches!(task.kind, TaskKind::Joint | TaskKind::StepEnd) {
            continue;
        }
        let (start, end) = times.of(graph, node);
        let on_device = matches!(graph.lanes[task.lane.0 as usize].kind, LaneKind::Stream { .. });
        let call = match task.operator {
            Some(operator) => sums.entry(top_level(graph, operator)).or_default(),
            None => &mut rest,
        };
        *(if on_device { &mut call.device } else { &mut call.host }) += end.since(start);
    }
    let order = |id: &OperatorId| {
        let operator = &graph.operators[id.0 as usize];
        (graph.lanes[operator.lane.0 as usize].rank, operator.lane, operator.start, *id)
    };
    let mut calls: Vec<(OperatorId, Call)> = sums.into_iter().collect();
    calls.sort_by_key(|(id, _)| order(id));
    let named = |(id, call): (OperatorId, Call)| {
        let name = graph.names.get(graph.operators[id.0 as usize].name).to_owned();
        Call { name, ..call }
    };
    (calls.into_iter().map(named).collect(), rest)
}

fn top_level(graph: &ExecutionGraph, operator: OperatorId) -> OperatorId {
    let parent = |id: &OperatorId| graph.operators.get(id.0 as usize).and_then(|operator| operator.parent);
    std::iter::successors(Some(operator), parent).last().unwrap_or(operator)
}

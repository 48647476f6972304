//! Iterations side by side: which is faster beyond what is known to be uncertain, and which operators make the difference.

mod rows;
mod score;
mod table;

use std::collections::BTreeMap;

use serde::Serialize;

use retime_core::analysis::edited::Edited;
use retime_core::analysis::lanes::Times;
use retime_core::analysis::profile::Profile;
use retime_core::analysis::sources::Sources;
use retime_core::fnv::Fnv1a;
use retime_core::graph::{BuildOptions, IterationChoice, LaneKind};
use retime_core::scenario::Scenario;
use retime_core::units::{Bytes, DurNs};

use super::{Engine, EngineError, Loaded, Outcome, Summary, chosen_iteration};
use retime_core::engine::{OTHER_RECORDING, TYPICAL_SPREAD, spread_of_steps};

pub use rows::{ComparedKind, ComparedRow, DiffStatus};
pub use score::{Contribution, Score};
pub use table::{Column, ComparisonTable, ComparisonTableRow};

/// An iteration as it is held against others.
#[derive(Clone, Debug)]
pub struct Side {
    figures: SideFigures,
    profile: Profile,
    /// Standard error of the time by model, in ns; and of what no model says.
    errors: BTreeMap<&'static str, f64>,
    /// What is uncertain besides: how steps spread, or how far the replay is off, in ns.
    noise_ns: f64,
    /// The same of edits of one trace, which is none where they change nothing, in ns.
    edited_noise_ns: f64,
    /// What tells its trace and iteration from others.
    trace: String,
    /// Host time on its critical path, where that was recorded.
    host_ns: Option<DurNs>,
    /// What was measured of its trace.
    measured_ns: DurNs,
}

/// The error of what steps assume.
const ASSUMED: &str = "assumed";
/// The error of a period that changed against the end of its step: how far the end of the step before moved.
const CUT: &str = "the step before";

/// What is said of a side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideFigures {
    /// The trace or scenario.
    pub name: String,
    /// `measured`, `predicted` where the times of the trace itself are predictions, or `simulated`.
    pub source: &'static str,
    /// Its iteration.
    pub iteration_ns: DurNs,
    /// What one recorded iteration took, where `iteration_ns` is the period at which it repeats and differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_ns: Option<DurNs>,
    /// Where its time may lie.
    pub low_ns: DurNs,
    /// Where its time may lie.
    pub high_ns: DurNs,
    /// Whether the range comes from this trace: one step does not tell how steps differ, and a usual spread is assumed.
    pub is_range_known: bool,
    /// Samples per iteration of a rank, where the batch size is known.
    pub samples: Option<f64>,
    /// How many ranks.
    pub ranks: usize,
    /// Share of the iteration with work on the device; `None` without a device.
    pub gpu_busy: Option<f64>,
    /// Peak device memory of the fullest rank, where it can be told.
    pub memory_bytes: Option<Bytes>,
    /// Whether it fits the device, where both are known.
    pub fits: Option<bool>,
    /// The steps in force.
    pub steps: Vec<String>,
    /// What they left as it was.
    pub unhandled: Vec<String>,
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

/// How two times differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Second minus first.
    pub delta_ns: DurNs,
    /// How much of that may be error.
    pub error_ns: DurNs,
    /// Which is faster.
    pub verdict: Faster,
}

/// Both sides held against one another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The first.
    pub a: SideFigures,
    /// The second.
    pub b: SideFigures,
    /// How their iterations differ.
    #[serde(flatten)]
    pub difference: Difference,
    /// How their times per sample differ, where their batches do.
    pub per_sample: Option<Difference>,
    /// What the prediction was worth, where the first predicts what the second measured on another trace.
    pub score: Option<Score>,
    /// What the times of rows are: `device`, or `host` where no device was used.
    pub time: &'static str,
    /// By operator, the largest difference first; or by call, in order.
    pub rows: Vec<ComparedRow>,
    /// By kind of task, by place, the largest difference first.
    pub kinds: Vec<ComparedKind>,
}

impl Side {
    /// What was measured; where it is known how a step follows another, the period at which it repeats. How much its recorded steps differ from one another is its error; of times that were predicted, what
    /// the prediction states.
    pub fn measured(loaded: &Loaded, name: String) -> Self {
        let iteration = period(loaded);
        let predicted = loaded.predicted().map(|_| loaded.replay.summary.noise * iteration.0 as f64);
        let spread = predicted.or_else(|| spread_of_steps(&loaded.job, &loaded.graph));
        let noise_ns = spread.unwrap_or(TYPICAL_SPREAD * iteration.0 as f64);
        let (resolved, schedule) = (&loaded.replay.resolved, &loaded.replay.schedule);
        let (graph, works, timed) = (&*loaded.graph, &*resolved.works, &*resolved.timed);
        let sources = Sources { graph, works, timed, schedule, times: Times::Measured };
        let figures = SideFigures {
            source: if predicted.is_some() { "predicted" } else { "measured" },
            recorded_ns: Some(loaded.graph.measured).filter(|&recorded| recorded != iteration),
            is_range_known: spread.is_some(),
            ..figures(loaded, &loaded.replay.summary, name, (iteration, noise_ns))
        };
        Self {
            figures,
            profile: Profile::of(&sources),
            errors: BTreeMap::new(),
            noise_ns,
            edited_noise_ns: 0.0,
            trace: trace(loaded),
            host_ns: predicted.is_none().then_some(loaded.replay.summary.host_path_ns),
            measured_ns: iteration,
        }
    }

    /// What was simulated. The models' errors are its own, what its steps assume, and how far the untouched replay is off, or the
    /// prediction that it starts from.
    pub fn simulated(engine: &Engine, loaded: &Loaded, outcome: &Outcome, name: String) -> Self {
        let edited = Edited::of(&outcome.resolved);
        let (timed, schedule) = (&*edited.timed, &*outcome.schedule);
        let times = Times::Simulated { timed, schedule };
        let sources = Sources { graph: &edited.graph, works: &edited.works, timed, schedule, times };
        let summary = &outcome.summary;
        let noise = if loaded.predicted().is_some() {
            summary.noise
        } else {
            summary.replay_error.map_or(summary.noise, f64::abs)
        };
        let noise_ns = noise * summary.steady_ns.0 as f64;
        let assumed = engine.assumed_change(loaded, outcome, 0);
        let mut band = summary.steady_band;
        // Steps whose gains are known have widened it already.
        if outcome.steps.iter().any(|step| step.enabled && step.marginal_ns.is_none()) {
            band.widen(assumed);
        }
        let mut errors = summary.errors.clone();
        errors.insert(ASSUMED, assumed.0.abs() as f64);
        errors.insert(
            CUT,
            summary.cut.filter(|_| !summary.steady.is_compared()).map_or(0.0, |cut| cut.begin_ns.0.abs() as f64),
        );
        // What predicted times are off by, both sides of one trace are off by.
        let of_edits = if loaded.predicted().is_some() { TYPICAL_SPREAD } else { summary.noise };
        let enabled = outcome.scenario.steps.iter().filter(|step| step.enabled);
        let accounts = outcome.steps.iter().filter(|step| step.enabled);
        let figures = SideFigures {
            steps: enabled.map(ToString::to_string).collect(),
            unhandled: accounts.flat_map(|step| step.unhandled.iter().cloned()).collect(),
            low_ns: band.low_ns,
            high_ns: band.high_ns,
            ..figures(loaded, summary, name, (summary.steady_ns, 0.0))
        };
        Self {
            figures,
            profile: Profile::of(&sources),
            errors,
            noise_ns,
            edited_noise_ns: if summary.is_changed() { of_edits * summary.steady_ns.0 as f64 } else { 0.0 },
            trace: trace(loaded),
            host_ns: loaded.predicted().is_none().then_some(summary.host_path_ns),
            measured_ns: period(loaded),
        }
    }

    /// What a scenario comes to, with those ranks simulated on their own that it tells apart.
    ///
    /// # Returns
    /// The side, and the result that it is of.
    ///
    /// # Errors
    /// The trace cannot be modelled with those ranks.
    pub fn of_scenario(
        engine: &Engine,
        loaded: &Loaded,
        scenario: &Scenario,
        name: String,
    ) -> Result<(Self, Outcome), EngineError> {
        if loaded.refolded(scenario).is_none() {
            let outcome = engine.evaluate(loaded, scenario, 0);
            return Ok((Self::simulated(engine, loaded, &outcome, name), outcome));
        }
        let iteration = chosen_iteration(loaded).map_or(IterationChoice::Default, IterationChoice::Index);
        let unfolded = engine.reopen(loaded, scenario, &BuildOptions { iteration })?;
        let outcome = engine.evaluate(&unfolded, scenario, 0);
        Ok((Self { trace: trace(loaded), ..Self::simulated(engine, &unfolded, &outcome, name) }, outcome))
    }

    /// What is said of it.
    pub fn figures(&self) -> &SideFigures {
        &self.figures
    }

    /// The same under another name.
    #[must_use]
    pub fn renamed(&self, name: &str) -> Self {
        Self { figures: SideFigures { name: name.to_owned(), ..self.figures.clone() }, ..self.clone() }
    }

    /// Whether it was simulated.
    pub fn is_simulated(&self) -> bool {
        self.figures.source == "simulated"
    }

    /// Whether its times were recorded.
    pub fn is_measured(&self) -> bool {
        self.figures.source == "measured"
    }

    /// Compares with another side.
    ///
    /// # Arguments
    /// `by_call`: a row per call in order, instead of one per name.
    ///
    /// # Complexity
    /// Of aligning their calls, see [`align`](retime_core::analysis::align::align).
    pub fn compare(&self, other: &Self, by_call: bool) -> Comparison {
        let has_device = self.profile.has_device() || other.profile.has_device();
        let calls = rows::by_call(&self.profile, &other.profile, has_device);
        let rows = if by_call { calls } else { rows::by_name(&self.profile, &other.profile, &calls, has_device) };
        Comparison {
            a: self.figures.clone(),
            b: other.figures.clone(),
            difference: self.against(other),
            per_sample: self.per_sample(other),
            score: Score::of(self, other),
            time: if has_device { "device" } else { "host" },
            rows,
            kinds: rows::kinds(&self.profile, &other.profile),
        }
    }

    /// How the iteration of another differs from this one's.
    pub fn against(&self, other: &Self) -> Difference {
        self.difference(other, (1.0, 1.0))
    }

    /// The same per sample, where both batches are known and differ.
    fn per_sample(&self, other: &Self) -> Option<Difference> {
        let (own, others) = (self.figures.samples?, other.figures.samples?);
        ((own - others).abs() > 0.0).then(|| self.difference(other, (1.0 / own.max(1.0), 1.0 / others.max(1.0))))
    }

    /// How `other` times its weight differs from this times its own.
    fn difference(&self, other: &Self, weights: (f64, f64)) -> Difference {
        let delta = weights.1 * other.figures.iteration_ns.0 as f64 - weights.0 * self.figures.iteration_ns.0 as f64;
        let error = self.error_of_difference(other, weights);
        let delta_ns = DurNs(delta.round() as i64);
        let verdict = match delta_ns.0 {
            1.. if delta > error => Faster::AFaster,
            ..=-1 if -delta > error => Faster::BFaster,
            _ => Faster::CannotTell,
        };
        Difference { delta_ns, error_ns: DurNs(error.round() as i64), verdict }
    }

    /// How far the band reaches from the iteration, in ns.
    fn reach_ns(&self) -> f64 {
        let SideFigures { iteration_ns, low_ns, high_ns, .. } = self.figures;
        (iteration_ns - low_ns).max(high_ns - iteration_ns).0 as f64
    }

    /// How far the change between two scenarios of one trace may be off at least: as far as one band reaches beyond the other, and
    /// what no model has a part in where they differ at all. Against the untouched trace that is the band of the edits.
    fn least_error(&self, other: &Self, (own, others): (f64, f64)) -> f64 {
        let beyond = (own * self.reach_ns() - others * other.reach_ns()).abs();
        if self.figures.iteration_ns == other.figures.iteration_ns {
            return beyond;
        }
        beyond.max(own * self.edited_noise_ns).max(others * other.edited_noise_ns)
    }

    /// Two scenarios of one trace share its replay, and err alike where one model speaks for both: only the difference of
    /// its errors counts, and at least what their bands say. Otherwise errors are independent.
    fn error_of_difference(&self, other: &Self, (own, others): (f64, f64)) -> f64 {
        let is_shared = self.trace == other.trace && self.is_measured() == other.is_measured();
        let error = |side: &Self, model: &str| side.errors.get(model).copied().unwrap_or(0.0);
        let mut models: Vec<&str> = self.errors.keys().chain(other.errors.keys()).copied().collect();
        models.sort_unstable();
        models.dedup();
        let of_model = |model: &&str| {
            let (a, b) = (own * error(self, model), others * error(other, model));
            if is_shared { (a - b).powi(2) } else { a * a + b * b }
        };
        let noise = if is_shared { 0.0 } else { (own * self.noise_ns).powi(2) + (others * other.noise_ns).powi(2) };
        let recordings = if self.trace == other.trace { 0.0 } else { self.between_recordings(other, (own, others)) };
        let least = if is_shared && self.is_simulated() { self.least_error(other, (own, others)) } else { 0.0 };
        (models.iter().map(of_model).sum::<f64>() + noise + recordings.powi(2)).sqrt().max(least)
    }

    /// How far apart the host's part of two recordings may be though their programs are the same.
    fn between_recordings(&self, other: &Self, (own, others): (f64, f64)) -> f64 {
        let longer = self.host_ns.zip(other.host_ns).map(|(a, b)| (own * a.0 as f64).max(others * b.0 as f64));
        OTHER_RECORDING * longer.unwrap_or_default()
    }
}

/// What a step takes where it is known how the next follows it: the time between their ends. Else what was measured of one.
fn period(loaded: &Loaded) -> DurNs {
    let summary = &loaded.replay.summary;
    if summary.steady.is_compared() { summary.base_steady_ns } else { loaded.graph.measured }
}

/// The figures of a simulated side without steps.
fn figures(loaded: &Loaded, summary: &Summary, name: String, (iteration_ns, error): (DurNs, f64)) -> SideFigures {
    let error = DurNs(error.round() as i64);
    let has_device = loaded.graph.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Stream { .. }));
    SideFigures {
        name,
        source: "simulated",
        iteration_ns,
        recorded_ns: None,
        low_ns: (iteration_ns - error).max(DurNs::ZERO),
        high_ns: iteration_ns + error,
        is_range_known: true,
        samples: summary.known_samples(),
        ranks: loaded.graph.ranks.len(),
        gpu_busy: has_device.then_some(summary.steady_gpu_busy),
        memory_bytes: summary.memory_bytes,
        fits: summary.fits,
        steps: Vec::new(),
        unhandled: Vec::new(),
    }
}

/// A number that tells iterations of traces apart: of their ranks, tasks, operators and measured times.
fn trace(loaded: &Loaded) -> String {
    let graph = &loaded.graph;
    let mut hash = Fnv1a::default();
    for part in &graph.ranks {
        hash.add_i64(part.rank.0.into());
        hash.add(part.iteration.as_bytes());
        hash.add_i64(part.measured.0);
    }
    for task in graph.tasks.node_weights() {
        hash.add_i64(task.measured_start.0);
        hash.add_i64(task.measured.0);
    }
    hash.add_i64(graph.operators.len() as i64);
    format!("{:016x}", hash.finish())
}

//! A sweep at work: what all its points have in common is worked out once, and points are evaluated on all cores.

use rayon::prelude::*;

use retime_core::scenario::{Prefix, Scenario, Step};
use retime_core::units::DurNs;

use super::{Engine, Loaded, Sweep, SweepPoint, sweep};

/// One or more knobs over a scenario.
#[derive(Debug)]
pub struct SweepRun<'a> {
    engine: &'a Engine,
    loaded: &'a Loaded,
    scenario: &'a Scenario,
    sweeps: &'a [Sweep],
    /// The steps before the first that a knob takes the place of, in force.
    prefix: Prefix<'a>,
}

impl<'a> SweepRun<'a> {
    /// Prepares the points of `sweeps` over `scenario`.
    pub fn new(engine: &'a Engine, loaded: &'a Loaded, scenario: &'a Scenario, sweeps: &'a [Sweep]) -> Self {
        let first: Vec<f64> = sweeps.iter().filter_map(|sweep| sweep.values().next()).collect();
        let (example, _) = with_knobs(scenario, sweeps, &first);
        let same = |(a, b): &(&Step, &Step)| a.enabled == b.enabled && a.to_string() == b.to_string();
        let common = scenario.steps.iter().zip(&example.steps).take_while(same).count();
        // A first value may happen to be the one in force: what a knob replaces is no part of what points share.
        let replaced = sweeps.iter().filter_map(|sweep| sweep::place(scenario, sweep)).min().unwrap_or(common);
        let kept = &scenario.steps[..common.min(replaced)];
        Self { engine, loaded, scenario, sweeps, prefix: Prefix::of(&loaded.base, kept, &loaded.context) }
    }

    /// How many points are evaluated at a time.
    pub fn at_once(&self) -> usize {
        self.engine.at_once(self.prefix.added())
    }

    /// Evaluates points, each a value per knob, on all cores; in the order of `points`.
    pub fn points(&self, points: &[Vec<f64>]) -> Vec<SweepPoint> {
        // Rounds cost time where there is memory for all cores.
        let is_narrow = self.at_once() < rayon::current_num_threads();
        let round = if is_narrow { self.at_once() } else { points.len().max(1) };
        let evaluated = |some: &[Vec<f64>]| some.par_iter().map(|values| self.point(values)).collect::<Vec<_>>();
        points.chunks(round).flat_map(evaluated).collect()
    }

    fn point(&self, values: &[f64]) -> SweepPoint {
        let (engine, loaded, sweeps) = (self.engine, self.loaded, self.sweeps);
        let (scenario, mut unhandled) = with_knobs(self.scenario, sweeps, values);
        let resolved = self.prefix.clone().resolve(&scenario.steps);
        let outcome = engine.evaluated(loaded, &scenario, resolved, 0);
        unhandled.extend(outcome.steps.iter().flat_map(|step| step.unhandled.iter().cloned()));
        let summary = &outcome.summary;
        let knobs = sweeps.iter().zip(values).map(|(sweep, &value)| (sweep.knob.clone(), value)).collect();
        if let Some(step) = outcome.steps.iter().find(|step| step.is_impossible) {
            let not_done = Some(format!("`{}`: {}", step.transform, step.no_effect().unwrap_or_default()));
            return SweepPoint { knobs, unhandled, not_done, ..SweepPoint::default() };
        }
        if summary.steady_ns <= DurNs::ZERO {
            let not_done = Some("nothing is left that takes time".to_owned());
            return SweepPoint { knobs, unhandled, not_done, ..SweepPoint::default() };
        }
        SweepPoint {
            knobs,
            simulated_ns: summary.simulated_ns,
            steady_ns: summary.steady_ns,
            steady_band: summary.steady_band,
            throughput: summary.steady_ns.rate_of(summary.job_samples()),
            throughput_per_rank: summary.steady_ns.rate_of(summary.samples()),
            counts_iterations: summary.known_samples().is_none(),
            pass_share: Some(summary.pass_share).filter(|share| (share - 1.0).abs() > 1e-12),
            memory_bytes: summary.memory_bytes,
            fits: summary.fits,
            path_kind: outcome.critical_kind().to_owned(),
            unhandled,
            unhandled_share: outcome.steps.iter().map(|step| step.unhandled_share).fold(0.0, f64::max),
            not_done: None,
        }
    }
}

/// The scenario with each knob at its value, and why a knob's step cannot be read.
fn with_knobs(scenario: &Scenario, sweeps: &[Sweep], values: &[f64]) -> (Scenario, Vec<String>) {
    let (mut scenario, mut unhandled) = (scenario.clone(), Vec::new());
    for (sweep, &value) in sweeps.iter().zip(values) {
        unhandled.extend(sweep::put_value(&mut scenario, sweep, value).err());
    }
    (scenario, unhandled)
}

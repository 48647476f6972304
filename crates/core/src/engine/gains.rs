//! What steps gain: each alone, each on top of those before it, and how much of that is assumed.

use crate::scenario::{self, Scenario, Step};
use crate::units::DurNs;

use super::{Engine, Loaded, Outcome, SoFar, StepOutcome, compared};

impl Engine {
    /// What scenarios are compared by ([`Summary::steady_ns`](super::Summary::steady_ns)), nothing else; `None` where the iteration is
    /// beyond what is computed.
    pub fn period(&self, loaded: &Loaded, scenario: &Scenario) -> Option<DurNs> {
        within(compared(loaded, &scenario::resolve(&loaded.base, scenario, &loaded.context)))
    }

    /// `outcome` with what each enabled step does alone and on top of those before it.
    ///
    /// # Arguments
    /// `known`: steps of an earlier outcome of the same trace. As far as they are those that `outcome` begins with, what they gain is
    /// taken from there.
    ///
    /// # Returns
    /// `None` when `is_overtaken` said that nobody wants the answer any more.
    ///
    /// # Complexity
    /// Two simulations for each step that is not known.
    pub fn with_gains(
        &self,
        loaded: &Loaded,
        mut outcome: Outcome,
        known: &[StepOutcome],
        is_overtaken: &dyn Fn() -> bool,
    ) -> Option<Outcome> {
        let base = outcome.summary.base_steady_ns;
        let same = take_known(&mut outcome.steps, known);
        let known: DurNs = outcome.steps[..same].iter().filter_map(|step| step.marginal_ns).sum();
        let (mut before, mut so_far) = (Some(base + known), SoFar::new(loaded));
        let in_force: Vec<Step> = done(&outcome);
        let is_only = in_force.iter().filter(|step| step.enabled).count() == 1;
        let last = in_force.iter().rposition(|step| step.enabled);
        for index in same..in_force.len() {
            if !outcome.steps[index].enabled {
                continue;
            }
            if is_overtaken() {
                return None;
            }
            let is_last = last.is_none_or(|last| last <= index);
            // Steps behind may bring back what one leads beyond all that is computed.
            let after = if is_last {
                Some(outcome.summary.steady_ns)
            } else {
                period(&mut so_far, loaded, &in_force[..=index])
            };
            let alone = Scenario { steps: vec![outcome.scenario.steps[index].clone()], ..Scenario::default() };
            let alone = if is_only && is_last { after } else { self.period(loaded, &alone) };
            outcome.steps[index].alone_ns = alone.map(|alone| alone - base);
            outcome.steps[index].marginal_ns = after.zip(before).map(|(after, before)| after - before);
            before = after;
        }
        let assumed: DurNs = outcome.steps.iter().filter_map(|step| Some(assumed_of(step, step.marginal_ns?))).sum();
        outcome.summary.error_band.widen(assumed);
        outcome.summary.steady_band.widen(assumed);
        Some(outcome)
    }

    /// What is assumed of the iteration that the steps of `outcome` from number `first` on make; negative where the
    /// iteration may be longer for it. Only steps that assume anything are simulated without their successors.
    pub fn assumed_change(&self, loaded: &Loaded, outcome: &Outcome, first: usize) -> DurNs {
        let steps = done(outcome);
        let prefix = |length: usize| {
            if length == steps.len() {
                return Some(outcome.summary.steady_ns);
            }
            self.period(loaded, &Scenario { steps: steps[..length].to_vec(), ..Scenario::default() })
        };
        let assumed = (first..steps.len()).filter(|&index| outcome.steps[index].assumed_share > 0.0);
        assumed.filter_map(|index| Some(assumed_of(&outcome.steps[index], prefix(index + 1)? - prefix(index)?))).sum()
    }

    /// What one more step takes off the iteration; zero for a line that is no step.
    pub fn gain(&self, loaded: &Loaded, outcome: &Outcome, line: &str) -> DurNs {
        let Ok(step) = scenario::parse_step(line) else { return DurNs::ZERO };
        let mut scenario = outcome.scenario.clone();
        scenario.steps.push(step);
        self.period(loaded, &scenario).map_or(DurNs::ZERO, |period| outcome.summary.steady_ns - period)
    }
}

/// The steps of an outcome; what was not done is not in force.
fn done(outcome: &Outcome) -> Vec<Step> {
    let mut steps = outcome.scenario.steps.clone();
    for (step, told) in steps.iter_mut().zip(&outcome.steps) {
        step.enabled &= !told.is_impossible;
    }
    steps
}

/// Takes over what the first of `steps` gain as far as `known` has the same steps.
///
/// # Returns
/// How many those are.
fn take_known(steps: &mut [StepOutcome], known: &[StepOutcome]) -> usize {
    let is_same = |step: &StepOutcome, known: &StepOutcome| {
        let is_told = !known.enabled || known.marginal_ns.is_some();
        (&step.transform, step.enabled, step.is_impossible) == (&known.transform, known.enabled, known.is_impossible)
            && is_told
    };
    let same = steps.iter().zip(known).take_while(|(step, known)| is_same(step, known)).count();
    for (step, known) in steps[..same].iter_mut().zip(known) {
        (step.alone_ns, step.marginal_ns) = (known.alone_ns, known.marginal_ns);
    }
    same
}

/// What a scenario of `steps` is compared by.
fn period(so_far: &mut SoFar<'_>, loaded: &Loaded, steps: &[Step]) -> Option<DurNs> {
    within(compared(loaded, &so_far.resolve(steps)))
}

fn within(period: DurNs) -> Option<DurNs> {
    (period < DurNs::LONGEST).then_some(period)
}

/// The assumed part of what a step changes.
fn assumed_of(step: &StepOutcome, change: DurNs) -> DurNs {
    change.scale(f64::from(step.assumed_share))
}

//! Steps that lead to an iteration beyond what is computed are not done: the figures of an outcome are always such that hold.

use crate::scenario::{self, EffectKind, Scenario};
use crate::units::{Bytes, DurNs};

use super::{Loaded, Outcome, Told, outcome_of};

/// The outcome of as many of the first steps of `beyond` as lead to an iteration of which figures hold; those behind say why they are
/// not done.
///
/// # Complexity
/// The logarithm of the number of steps, times a simulation.
pub(super) fn bounded(loaded: &Loaded, beyond: Outcome) -> Outcome {
    let Outcome { scenario, revision, .. } = beyond;
    let outcome = |count: usize| {
        let first = first_of(&scenario, count);
        let resolved = scenario::resolve(&loaded.base, &first, &loaded.context);
        outcome_of(resolved, Some(&loaded.replay), &first, revision)
    };
    // The trace itself was opened, so its iteration is within.
    let (mut within, mut too_many) = (0, scenario.steps.len());
    let mut found = outcome(0);
    while too_many - within > 1 {
        let middle = usize::midpoint(within, too_many);
        let tried = outcome(middle);
        if tried.is_beyond_of(&loaded.replay) {
            too_many = middle;
        } else {
            (within, found) = (middle, tried);
        }
    }
    let behind = found.steps.iter_mut().zip(&scenario.steps).skip(within);
    for (told, _) in behind.filter(|(_, step)| step.enabled) {
        let text = format!(
            "tasks would end after {}, or hold more than {}, beyond what is computed: not done",
            DurNs::LONGEST,
            Bytes::MOST
        );
        (told.enabled, told.is_impossible) = (true, true);
        told.unhandled.push(text.clone());
        told.effects.push(Told { kind: EffectKind::NoEffect, text, share: None });
    }
    Outcome { scenario, ..found }
}

/// `scenario` with its first `count` steps in force, as far as they are.
fn first_of(scenario: &Scenario, count: usize) -> Scenario {
    let mut first = scenario.clone();
    first.steps.iter_mut().skip(count).for_each(|step| step.enabled = false);
    first
}

//! What a prediction was worth: a scenario of the old trace against what the new one measured.

use std::collections::BTreeMap;

use serde::Serialize;

use retime_core::analysis::profile::{Place, Profile};
use retime_core::units::DurNs;

use super::{Faster, Side};

/// A smaller change than this share of the iteration is none: the replay itself is off by as much.
const NO_CHANGE: f64 = 0.002;

/// A prediction held against what came true.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Score {
    /// What the trace that was edited had measured.
    pub start_ns: DurNs,
    /// What was predicted.
    pub predicted_ns: DurNs,
    /// What came true.
    pub measured_ns: DurNs,
    /// Predicted minus measured.
    pub error_ns: DurNs,
    /// The same as a share of what was measured.
    pub error: f64,
    /// Whether what came true lies within the prediction's band.
    pub is_within_band: bool,
    /// Whether the error is within the band and what else is known to be uncertain: spread of steps and replay.
    pub is_within_error: bool,
    /// Whether it was right about the iteration becoming longer or shorter; `None` where it predicted no change.
    pub is_direction_right: Option<bool>,
    /// Predicted time of all work on devices, the mean over ranks.
    pub predicted_device_ns: DurNs,
    /// Measured time of all work on devices.
    pub measured_device_ns: DurNs,
    /// Predicted minus measured time on the critical path by operator, the largest first; they add up to the error, but for
    /// the replay's.
    pub by_operator: Vec<Contribution>,
    /// The same by kind of task.
    pub by_kind: Vec<Contribution>,
}

/// A part of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contribution {
    /// The operator, or the kind.
    pub name: String,
    /// Predicted time on the critical path.
    pub predicted_ns: DurNs,
    /// Measured time on the critical path.
    pub measured_ns: DurNs,
    /// Predicted minus measured.
    pub error_ns: DurNs,
}

impl Score {
    /// The score of `predicted` where it was simulated with edits and `measured` was measured on another trace.
    pub(super) fn of(predicted: &Side, measured: &Side) -> Option<Self> {
        let predicts = predicted.is_simulated() && !predicted.figures.steps.is_empty();
        if !predicts || !measured.is_measured() || predicted.trace == measured.trace {
            return None;
        }
        let (band, truth) = (&predicted.figures, measured.figures.iteration_ns);
        let error_ns = band.iteration_ns - truth;
        let start = predicted.measured_ns;
        let change = band.iteration_ns - start;
        let predicts_change = change.0.abs() as f64 > NO_CHANGE * start.0 as f64;
        Some(Self {
            start_ns: start,
            predicted_ns: band.iteration_ns,
            measured_ns: truth,
            error_ns,
            error: error_ns.0 as f64 / truth.0.max(1) as f64,
            is_within_band: (band.low_ns..=band.high_ns).contains(&truth),
            is_within_error: predicted.against(measured).verdict == Faster::CannotTell,
            is_direction_right: predicts_change.then(|| change.0.signum() == (truth - start).0.signum()),
            predicted_device_ns: predicted.profile.total().device,
            measured_device_ns: measured.profile.total().device,
            by_operator: contributions(&predicted.profile, &measured.profile, by_operator),
            by_kind: contributions(&predicted.profile, &measured.profile, by_kind),
        })
    }
}

fn by_operator(profile: &Profile) -> BTreeMap<String, DurNs> {
    profile.by_name.iter().map(|(name, named)| (name.clone(), named.spent.path)).collect()
}

fn by_kind(profile: &Profile) -> BTreeMap<String, DurNs> {
    let name = |place: Place, kind: &str| match place {
        Place::Host => format!("host {kind}"),
        Place::Device => format!("device {kind}"),
        Place::Wait => kind.to_owned(),
    };
    profile.by_kind.iter().map(|(&(place, kind), spent)| (name(place, kind), spent.path)).collect()
}

fn contributions(
    predicted: &Profile,
    measured: &Profile,
    times: impl Fn(&Profile) -> BTreeMap<String, DurNs>,
) -> Vec<Contribution> {
    let mut both: BTreeMap<String, (DurNs, DurNs)> = BTreeMap::new();
    for (name, time) in times(predicted) {
        both.entry(name).or_default().0 = time;
    }
    for (name, time) in times(measured) {
        both.entry(name).or_default().1 = time;
    }
    let mut found: Vec<Contribution> = both
        .into_iter()
        .map(|(name, (predicted_ns, measured_ns))| Contribution {
            name,
            predicted_ns,
            measured_ns,
            error_ns: predicted_ns - measured_ns,
        })
        .filter(|part| part.error_ns != DurNs::ZERO)
        .collect();
    found.sort_by(|a, b| b.error_ns.0.abs().cmp(&a.error_ns.0.abs()).then_with(|| a.name.cmp(&b.name)));
    found
}

//! What a cost model returns: a time, where it comes from, and how wrong it may be.

use serde::Serialize;

use crate::units::DurNs;

use super::roof_ratio::ROOF_RATIO;

/// How a task's duration came about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Provenance {
    /// Nothing about it changed: the traced duration.
    #[default]
    Measured,
    /// The traced duration times the model's ratio of new to old.
    Anchored,
    /// The model alone.
    Absolute,
    /// Changed, but no model covers it: the traced duration kept.
    Unmodelled,
}

impl Provenance {
    /// Whether a model made it another time than the traced one.
    pub fn is_modelled(self) -> bool {
        matches!(self, Self::Anchored | Self::Absolute)
    }
}

/// A model's answer for one piece of work on one device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The time.
    pub duration: DurNs,
    /// Name of the model, e.g. `roofline`, `embedding-enhanced`.
    pub model: &'static str,
    /// Its mean absolute relative error on held-out measurements, or on the nearest family that has any (0.25 = 25 %).
    pub error: f32,
    /// Whether the work lies outside what the model was fitted on.
    pub extrapolated: bool,
}

/// A task's duration in a scenario and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// The duration to simulate with.
    pub duration: DurNs,
    /// How it came about.
    pub provenance: Provenance,
    /// The model asked; empty when measured.
    pub model: &'static str,
    /// Relative error of `duration`: 0 when measured.
    pub error: f32,
    /// Whether a model was asked outside what it was fitted on.
    pub extrapolated: bool,
}

impl Prediction {
    /// A traced duration kept as it is.
    pub fn measured(duration: DurNs) -> Self {
        Self { duration, provenance: Provenance::Measured, model: "", error: 0.0, extrapolated: false }
    }

    /// Whether no model covers the work, though it changed: its time is kept, or follows the roofs of two devices whatever it
    /// computes.
    pub fn is_unmodelled(&self) -> bool {
        self.provenance == Provenance::Unmodelled || self.is_by_roofs()
    }

    /// Where it comes from as files and tables say it: what no model covers is unmodelled, whatever time it takes.
    pub fn source(&self) -> Provenance {
        if self.is_unmodelled() { Provenance::Unmodelled } else { self.provenance }
    }

    /// Whether it follows the roofs of two devices, whatever it computes.
    pub fn is_by_roofs(&self) -> bool {
        self.model == ROOF_RATIO && self.provenance == Provenance::Anchored
    }
}

//! What an edit does: [`Transform`] and its report.

use std::fmt::Debug;

use crate::units::DurNs;

use super::context::Context;
use super::draft::Draft;

/// An edit of a graph. Pure: the same draft and context give the same result.
pub trait Transform: Debug + Send + Sync {
    /// Whether it means one of two ranks and not the other for another reason than its selectors.
    fn tells_apart(&self) -> bool {
        false
    }

    /// Applies it to a working copy.
    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport;
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Tasks changed, added and removed.
    pub changed: usize,
    /// What it did, in one line; empty for a step that took no part.
    pub summary: String,
    /// What it could not handle, one line each, the costliest first.
    pub unhandled: Vec<String>,
    /// Measured time of the tasks that should have changed and could not.
    pub unhandled_ns: DurNs,
    /// Share of what it changes in the iteration that is assumed: neither the trace nor a model's known error covers it.
    pub doubt: f32,
}

impl StepReport {
    /// A step that found nothing to do.
    pub fn nothing(why: impl Into<String>) -> Self {
        Self { unhandled: vec![why.into()], ..Self::default() }
    }
}

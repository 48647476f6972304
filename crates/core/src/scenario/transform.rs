//! What an edit is: [`Transform`], its report, and the table of all edits.

use std::fmt::Debug;
use std::sync::Arc;

use crate::units::DurNs;

use super::context::Context;
use super::draft::Draft;
use super::known::Name;
use super::selector::Selector;
use super::step::StepError;
use super::text::Words;
use super::transforms as edits;

/// An edit of a graph. Pure: the same draft and context give the same result.
pub trait Transform: Debug + Send + Sync {
    /// Its name in the table.
    fn name(&self) -> &'static str;

    /// The whole edit as one line, which [`parse_step`](super::parse_step) reads back.
    fn line(&self) -> String;

    /// The selectors of what it changes.
    fn selectors(&self) -> Vec<&Selector> {
        Vec::new()
    }

    /// The devices and interconnects that it names.
    fn names(&self) -> Vec<Name<'_>> {
        Vec::new()
    }

    /// Whether it means one of two ranks and not the other, so that neither can stand for both.
    fn tells_apart(&self, a: u32, b: u32) -> bool {
        self.selectors().iter().any(|selector| selector.tells_apart(a, b))
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

/// A row of the table of edits: what a palette, completion and documentation need.
#[derive(Debug)]
pub struct TransformSpec {
    /// Its name.
    pub name: &'static str,
    /// Its line with place-holders, e.g. `scale SELECTOR xFACTOR`.
    pub usage: &'static str,
    /// What it does, in one sentence.
    pub help: &'static str,
    /// A line that can be used as it is.
    pub example: &'static str,
    /// Reads what follows the name.
    pub parse: fn(&mut Words<'_>) -> Result<Arc<dyn Transform>, StepError>,
}

/// All edits, in order of use.
pub fn transforms() -> &'static [TransformSpec] {
    &edits::ALL
}

//! `insert kernel NAME TIME [on stream N] after SELECTOR`: a kernel that was not there, with its launch. Operators:
//! `insert_operator`.

use std::sync::Arc;

use crate::cost::{Prediction, Provenance};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, Source};
use crate::scenario::effect::Effect;
use crate::scenario::grammar::{Argument, Form, Grammar, Kind};
use crate::scenario::selector::Selector;
use crate::scenario::transform::{StepReport, Transform};
use crate::units::DurNs;

use super::insert_operator;
use super::kernel::{self, NewKernel, Side};
use super::report::{SHARED, call_of, count, in_step, tell_elsewhere};
use super::stream::Streams;

/// Adds a kernel after each selected one, launched right after it: on its stream, or on another where it waits for it.
#[derive(Clone, Debug, PartialEq)]
struct InsertKernel {
    /// Its name.
    kernel: String,
    /// Its time.
    duration: DurNs,
    /// The kernels after which it runs.
    after: Selector,
    /// The number of its stream; that of the kernel before it without.
    stream: Option<u64>,
}

pub(super) const EDIT: Grammar = Grammar {
    name: "insert",
    help: "adds a kernel of a given time, or an operator with arguments like another's, after each selected one",
    example: "insert kernel my_kernel 35us after name~addmm & kind=kernel",
    forms: &[KERNEL, insert_operator::FORM],
    knobs: &[],
};

/// Stream numbers above are those of edits.
const LARGEST_STREAM: u64 = 9_998;

const KERNEL: Form = Form {
    arguments: &[
        Argument::new("NAME", "the kernel's name", Kind::Name).after(" kernel "),
        Argument::new("TIME", "its time, e.g. 35us", Kind::Time),
        Argument::new("N", "the number of a stream", Kind::Whole(0, LARGEST_STREAM)).after(" on stream ").optional(),
        Argument::selector().after(" after "),
    ],
    build: |given| {
        let (kernel, duration) = (given.get(0)?, given.get(1)?);
        Some(Arc::new(InsertKernel { kernel, duration, stream: given.get(2)?, after: given.get(3)? }))
    },
};

impl Transform for InsertKernel {
    fn apply(&self, draft: &mut Draft<'_>, context: &Context) -> StepReport {
        let chosen = self.after.select_all(draft);
        let places: Vec<Node> = chosen.into_iter().filter(|&node| draft.kind_of(node).is_device()).collect();
        if places.is_empty() {
            return StepReport::nothing(format!("no device work matches {}", self.after));
        }
        if let Some(why) = draft.refuses(2 * places.len(), context.max_memory) {
            return StepReport::impossible(why);
        }
        // A kernel and its call, each in an order, and what joins both.
        draft.reserve(2 * places.len(), 6 * places.len());
        let mut streams = Streams::default();
        let name: Arc<str> = Arc::from(self.kernel.as_str());
        for &node in &places {
            let new = NewKernel {
                name: name.clone(),
                operator: call_of(draft, &self.after, node),
                work: None,
                prediction: self.given(),
                source: Source::Given,
                caller: Some(name.clone()),
                call_at: None,
            };
            match self.stream {
                None => _ = kernel::place(draft, node, Side::After, new),
                Some(number) => streams.place(draft, node, number as i64, new),
            }
        }
        let on = self.stream.map(|stream| format!(" on stream {stream}")).unwrap_or_default();
        let summary = format!("{} of {} inserted{on}", count(in_step(draft, &places), "kernel"), self.duration);
        let mut report = StepReport { changed: places.len(), summary, ..StepReport::default() };
        if self.stream.is_some() {
            report.say(Effect::assumption(SHARED));
        }
        tell_elsewhere(&mut report, draft, &places);
        report
    }
}

impl InsertKernel {
    fn given(&self) -> Prediction {
        let (duration, provenance) = (self.duration, Provenance::Absolute);
        Prediction { duration, provenance, model: "given", error: 0.0, extrapolated: false }
    }
}

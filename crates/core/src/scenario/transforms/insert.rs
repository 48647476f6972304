//! `insert kernel NAME TIME [on stream N] after SELECTOR`: a kernel that was not there, with its launch. Operators:
//! `insert_operator`.

use std::sync::Arc;

use crate::cost::{Prediction, Provenance};
use crate::scenario::context::Context;
use crate::scenario::draft::{Draft, Node, Source};
use crate::scenario::selector::Selector;
use crate::scenario::step::StepError;
use crate::scenario::text::{Word, Words};
use crate::scenario::transform::{StepReport, Transform, TransformSpec};
use crate::units::{DurNs, TIME_UNITS, parse_quantity};

use super::insert_operator;
use super::kernel::{self, NewKernel, Side};
use super::report::{SHARED, count};
use super::stream::Streams;

/// Adds a kernel after each selected one, launched right after it: on its stream, or on another where it waits for it.
#[derive(Clone, Debug, PartialEq)]
pub struct InsertKernel {
    /// Its name.
    pub kernel: String,
    /// Its time.
    pub duration: DurNs,
    /// The kernels after which it runs.
    pub after: Selector,
    /// The number of its stream; that of the kernel before it without.
    pub stream: Option<u64>,
    written: String,
}

pub(super) const SPEC: TransformSpec = TransformSpec {
    name: "insert",
    usage: "insert kernel NAME TIME [on stream N] after SELECTOR | insert OPERATOR after SELECTOR [like SELECTOR]",
    help: "adds a kernel of a given time, or an operator with arguments like another's, after each selected one",
    example: "insert kernel my_kernel 35us after name~addmm & kind=kernel",
    parse,
};

fn parse(words: &mut Words<'_>) -> Result<Arc<dyn Transform>, StepError> {
    let what = words.expect("`kernel`, or an operator such as aten::relu")?;
    if what.text != "kernel" {
        return insert_operator::parse(what, words);
    }
    let kernel = words.expect("the kernel's name")?.text.to_owned();
    let time = words.expect("its time, e.g. 35us")?;
    let duration = duration(time)?;
    let mut keyword = words.expect("`after`")?;
    let mut stream = None;
    if keyword.text == "on" {
        let word = words.expect("`stream`")?;
        if word.text != "stream" {
            return Err(StepError::at(word.column, format!("`{}`: expected `stream`", word.text)));
        }
        stream = Some(words.expect("the number of a stream")?.whole(0..=LARGEST_STREAM)?);
        keyword = words.expect("`after`")?;
    }
    if keyword.text != "after" {
        return Err(StepError::at(keyword.column, format!("`{}`: expected `after`", keyword.text)));
    }
    let after = Selector::of_rest(words)?;
    Ok(Arc::new(InsertKernel { kernel, duration, after, stream, written: time.text.to_owned() }))
}

/// Stream numbers above are those of edits.
const LARGEST_STREAM: u64 = 9_998;

/// A time with its unit.
fn duration(word: Word<'_>) -> Result<DurNs, StepError> {
    let ns = parse_quantity(word.text, TIME_UNITS, None).filter(|ns| (0.0..=1e13).contains(ns));
    ns.map(|ns| DurNs(ns.round() as i64)).ok_or_else(|| {
        let expected = "expected a time from 0s to 10000s with its unit, e.g. 35us";
        StepError::at(word.column, format!("`{}`: {expected}", word.text))
    })
}

impl Transform for InsertKernel {
    fn name(&self) -> &'static str {
        SPEC.name
    }

    fn selectors(&self) -> Vec<&Selector> {
        vec![&self.after]
    }

    fn line(&self) -> String {
        let stream = self.stream.map(|stream| format!(" on stream {stream}")).unwrap_or_default();
        format!("{} kernel {} {}{stream} after {}", SPEC.name, self.kernel, self.written, self.after)
    }

    fn apply(&self, draft: &mut Draft<'_>, _: &Context) -> StepReport {
        let chosen = self.after.select_all(draft);
        let places: Vec<Node> = chosen.into_iter().filter(|&node| draft.kind_of(node).is_device()).collect();
        if places.is_empty() {
            return StepReport::nothing(format!("no device work matches {}", self.after));
        }
        // A kernel and its call, each in an order, and what joins both.
        draft.reserve(2 * places.len(), 6 * places.len());
        let mut streams = Streams::default();
        let name: Arc<str> = Arc::from(self.kernel.as_str());
        for &node in &places {
            let new = NewKernel {
                name: name.clone(),
                operator: draft.operator_of(node),
                work: None,
                prediction: self.given(),
                source: Source::Given,
                caller: Some(name.clone()),
            };
            match self.stream {
                None => _ = kernel::place(draft, node, Side::After, new),
                Some(number) => streams.place(draft, node, number as i64, new),
            }
        }
        let on = self.stream.map(|stream| format!(" on stream {stream}")).unwrap_or_default();
        let summary = format!("{} of {} inserted{on}", count(places.len(), "kernel"), self.duration);
        let mut report = StepReport { changed: places.len(), summary, ..StepReport::default() };
        if self.stream.is_some() {
            report.unhandled.push(SHARED.to_owned());
        }
        report
    }
}

impl InsertKernel {
    fn given(&self) -> Prediction {
        let (duration, provenance) = (self.duration, Provenance::Absolute);
        Prediction { duration, provenance, model: "given", error: 0.0, extrapolated: false }
    }
}

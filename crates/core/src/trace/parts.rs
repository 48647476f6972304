//! Elements and members of a trace's document → builders, by the kind of trace that it turns out to be.

use std::path::Path;

use super::format::Loaded;
use super::json::document::Reader;
use super::json::lex::Stop;
use super::kineto::{self, RawEvent};
use super::{OpenError, execution_trace};
use crate::diagnostic::{Diagnostics, Severity};

/// What the text turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kineto,
    Execution,
}

/// What was read of a document, kept for whichever kind it turns out to be.
#[derive(Default)]
pub(super) struct Parts {
    kind: Option<Kind>,
    scanner: kineto::Scanner,
    kineto: kineto::Builder,
    execution: execution_trace::Builder,
}

impl Parts {
    /// Whether it is a profiler's trace.
    pub(super) fn is_kineto(&self) -> bool {
        self.kind == Some(Kind::Kineto)
    }

    /// Parts without content that read on in the same trace, with what was learnt about how it is written.
    pub(super) fn another(&self) -> Self {
        Self { kind: self.kind, scanner: self.scanner.clone(), ..Self::default() }
    }

    /// Whether these mean the same without what stood before them.
    pub(super) fn stands_alone(&self) -> bool {
        self.kineto.stands_alone()
    }

    /// Takes over what `chunk` read of a profiler's trace, right behind what is here.
    pub(super) fn append(&mut self, chunk: &mut Self, numbers: &mut kineto::Renumbering) {
        self.kineto.append(&mut chunk.kineto, numbers);
    }

    /// Makes room for `times` as many events as there are.
    pub(super) fn reserve(&mut self, times: f64) {
        self.kineto.reserve(times);
    }

    /// Closes the trace called `path`.
    ///
    /// # Errors
    /// When nothing in it can be used.
    pub(super) fn finish(self, path: &Path) -> Result<Loaded, OpenError> {
        match self.kind {
            Some(Kind::Kineto) => self.kineto.finish(path).map(|trace| Loaded::Trace(Box::new(trace))),
            Some(Kind::Execution) => self.execution.finish(path).map(|trace| Loaded::Execution(Box::new(trace))),
            None => Err(OpenError::WrongSchema { path: path.to_owned() }),
        }
    }

    /// How many entries were seen so far.
    pub(super) fn entries(&self) -> u64 {
        self.kineto.entries() + self.execution.entries()
    }

    /// Where oddities are noted.
    pub(super) fn diagnostics(&mut self) -> &mut Diagnostics {
        match self.kind {
            Some(Kind::Execution) => self.execution.diagnostics(),
            _ => self.kineto.diagnostics(),
        }
    }
}

impl Reader for Parts {
    fn streams(&mut self, key: Option<&str>) -> bool {
        match key {
            Some("traceEvents") | None => self.kind = Some(Kind::Kineto),
            Some("nodes") if self.kind.is_none() => self.kind = Some(Kind::Execution),
            _ => return false,
        }
        true
    }

    fn member(&mut self, key: &str, value: &[u8]) {
        self.kineto.member(key, value);
        self.execution.member(key, value);
    }

    #[inline]
    fn element(&mut self, text: &[u8], at: usize, offset: u64) -> Result<usize, Stop> {
        if self.kind == Some(Kind::Execution) {
            return Err(Stop::Unexpected);
        }
        let mut event = RawEvent::default();
        let end = self.scanner.event(text, at, &mut event)?;
        self.kineto.event(&event, offset);
        Ok(end)
    }

    fn whole_element(&mut self, text: &[u8], offset: u64) -> Result<(), String> {
        if self.kind == Some(Kind::Execution) {
            return self.execution.node(text);
        }
        let event: RawEvent<'_> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        self.kineto.event(&event, offset);
        Ok(())
    }

    fn damaged(&mut self, offset: u64, reason: &str) {
        match self.kind {
            Some(Kind::Execution) => self.execution.damaged(offset, reason),
            _ => self.kineto.damaged(offset, reason),
        }
    }

    fn lenient(&mut self, offset: u64, what: &'static str) {
        let place = Some(format!("byte {offset}"));
        self.diagnostics().add(Severity::Note, "lenient-json", "", place, || format!("{what}; it does no harm"));
    }

    fn trailing(&mut self, offset: u64, bytes: u64) {
        let place = Some(format!("byte {offset}"));
        let text = || format!("{bytes} bytes after the end of the JSON document are not read");
        self.diagnostics().add(Severity::Warning, "trailing-text", "", place, text);
    }
}

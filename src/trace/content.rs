//! The text of one trace, window by window → what it is and what is in it.

use std::path::Path;

use super::json::document::{Document, Malformed, Reader};
use super::json::lex::Stop;
use super::kineto::{self, RawEvent};
use super::loader::Loaded;
use super::stream::Consumer;
use super::{OpenError, OpenOptions, execution_trace, sniff};
use crate::diagnostic::{Diagnostics, Severity};

/// Longest single value kept in memory.
const LONGEST_VALUE: usize = 256 << 20;
/// How much of the start is looked at to say what a file is.
const HEAD: usize = 4096;

/// A trace being read.
pub struct Content<'a> {
    path: &'a Path,
    options: &'a OpenOptions,
    document: Document,
    parts: Parts,
    is_first: bool,
    size_hint: usize,
    /// Where reading stopped for good, if it did before the end.
    stopped: Option<Malformed>,
    reported_entries: u64,
}

impl<'a> Content<'a> {
    /// Nothing read yet of the trace called `path`, which is about `size_hint` bytes long (0 = unknown).
    pub fn new(path: &'a Path, options: &'a OpenOptions, size_hint: usize) -> Self {
        Self {
            path,
            options,
            document: Document::default(),
            parts: Parts::default(),
            is_first: true,
            size_hint,
            stopped: None,
            reported_entries: 0,
        }
    }

    /// Notes that unpacking ended early.
    ///
    /// # Errors
    /// When nothing was read by then.
    pub fn broken_archive(&mut self, error: &std::io::Error) -> Result<(), OpenError> {
        if self.parts.entries() == 0 {
            let expected = format!("a complete gzip stream ({error})");
            return Err(OpenError::Damaged { path: self.path.to_owned(), offset: 0, expected });
        }
        self.parts.diagnostics().add(Severity::Warning, "damaged-gzip", "", None, || {
            format!("the compressed data is damaged or cut off ({error}); what came before was read")
        });
        Ok(())
    }

    /// Reads the end of the text and closes the trace.
    ///
    /// # Errors
    /// When nothing in it can be used.
    pub fn finish(mut self, rest: &[u8]) -> Result<Loaded, OpenError> {
        self.check_head(rest)?;
        if self.stopped.is_none() {
            let result = self.document.feed_last(rest, &mut self.parts);
            self.report_entries();
            self.stopped = result.err().or(self.document.missing());
        }
        if let Some(malformed) = self.stopped {
            self.cut_off(malformed)?;
        }
        match self.parts.kind {
            Some(Kind::Kineto) => self.parts.kineto.finish(self.path).map(|trace| Loaded::Trace(Box::new(trace))),
            Some(Kind::Execution) => {
                self.parts.execution.finish(self.path).map(|trace| Loaded::Execution(Box::new(trace)))
            }
            None => Err(OpenError::WrongSchema { path: self.path.to_owned() }),
        }
    }

    fn cut_off(&mut self, malformed: Malformed) -> Result<(), OpenError> {
        let Malformed { offset, expected } = malformed;
        if self.parts.entries() == 0 {
            return Err(OpenError::Damaged { path: self.path.to_owned(), offset, expected: expected.to_owned() });
        }
        let place = Some(format!("byte {offset}"));
        self.parts.diagnostics().add(Severity::Warning, "cut-off", "", place, || {
            format!("the file is damaged or cut off: expected {expected}; what came before was read")
        });
        Ok(())
    }

    fn check_head(&mut self, window: &[u8]) -> Result<(), OpenError> {
        if !std::mem::take(&mut self.is_first) {
            return Ok(());
        }
        if window.trim_ascii().is_empty() {
            return Err(OpenError::Empty { path: self.path.to_owned() });
        }
        match sniff::not_a_trace(&window[..window.len().min(HEAD)], self.path) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Makes room for the whole trace after its first window, so that columns do not grow by copying.
    fn make_room(&mut self, used: usize) {
        let left = std::mem::take(&mut self.size_hint).saturating_sub(used);
        self.parts.kineto.reserve(left as f64 / used as f64);
    }

    fn report_entries(&mut self) {
        let entries = self.parts.entries();
        self.options.progress.add_events(entries - self.reported_entries);
        self.reported_entries = entries;
    }
}

impl Consumer for Content<'_> {
    type Stop = OpenError;

    fn window(&mut self, window: &[u8]) -> Result<usize, OpenError> {
        if self.options.progress.is_cancelled() {
            return Err(OpenError::Cancelled { path: self.path.to_owned() });
        }
        self.check_head(window)?;
        if self.stopped.is_some() {
            return Ok(window.len());
        }
        let result = self.document.feed(window, &mut self.parts);
        self.report_entries();
        if let Ok(used @ 1..) = result {
            self.make_room(used);
        }
        match result {
            Ok(0) if window.len() > LONGEST_VALUE && !self.document.abandon_element(window, &mut self.parts) => {
                let limit = format!("{} MiB for one value", LONGEST_VALUE >> 20);
                Err(OpenError::TooLarge { path: self.path.to_owned(), limit })
            }
            Ok(used) => Ok(used),
            Err(malformed) => {
                self.stopped = Some(malformed);
                Ok(window.len())
            }
        }
    }
}

/// What the text turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Kineto,
    Execution,
}

/// The parts of the document, kept for whichever kind it turns out to be.
#[derive(Default)]
struct Parts {
    kind: Option<Kind>,
    scanner: kineto::Scanner,
    kineto: kineto::Builder,
    execution: execution_trace::Builder,
}

impl Parts {
    fn entries(&self) -> u64 {
        self.kineto.entries() + self.execution.entries()
    }

    fn diagnostics(&mut self) -> &mut Diagnostics {
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
}

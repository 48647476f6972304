//! The text of one trace, window by window → what it is and what is in it.

use std::path::Path;

use super::chunks::{self, Chunks};
use super::format::{Format, HEAD, Loaded, Reading};
use super::json::document::{Document, Malformed};
use super::parts::Parts;
use super::stream::{self, BYTE_ORDER_MARK, Consumer};
use super::{OpenError, OpenOptions, sniff, source};
use crate::diagnostic::Severity;
use crate::units::Bytes;

/// Longest single value kept in memory.
const LONGEST_VALUE: usize = 256 << 20;
/// How much is read in one go before chunks are: how the trace is written, and about how many events it has, show there.
const BEFORE_CHUNKS: usize = 256 << 10;

/// Traces in JSON, and all that no other format takes: this reader says best what is wrong with it.
pub(super) const FORMAT: Format = Format { endings: &[".json", ".et"], is: |_, _| true, reading: Reading::Windows };

/// A trace being read.
pub(super) struct Content<'a> {
    path: &'a Path,
    options: &'a OpenOptions,
    document: Document,
    parts: Parts,
    /// Readers of chunks side by side; `None` where one reading is as good or needed.
    chunks: Option<Chunks>,
    is_first: bool,
    size_hint: usize,
    /// Where reading stopped for good, if it did before the end.
    stopped: Option<Malformed>,
    reported_entries: u64,
}

impl<'a> Content<'a> {
    /// Nothing read yet of the trace called `path`, which is about `size_hint` bytes long (0 = unknown).
    pub(super) fn new(path: &'a Path, options: &'a OpenOptions, size_hint: usize) -> Self {
        Self {
            path,
            options,
            document: Document::default(),
            parts: Parts::default(),
            chunks: (options.in_chunks && rayon::current_num_threads() > 1).then(Chunks::default),
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
    pub(super) fn broken_archive(&mut self, error: &std::io::Error) -> Result<(), OpenError> {
        self.put_together();
        if self.parts.entries() == 0 {
            let expected = stream::expected(error);
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
    pub(super) fn finish(mut self, rest: &[u8]) -> Result<Loaded, OpenError> {
        self.check_head(rest)?;
        self.put_together();
        if self.stopped.is_none() {
            let result = self.document.feed_last(rest, &mut self.parts);
            self.report_entries();
            self.stopped = result.err().or(self.document.missing());
        }
        if let Some(malformed) = self.stopped {
            self.cut_off(malformed)?;
        }
        self.parts.finish(self.path)
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
        if used == 0 {
            return;
        }
        let left = std::mem::take(&mut self.size_hint).saturating_sub(used);
        self.parts.reserve(left as f64 / used as f64);
    }

    /// Reads on in `window`: its start in one go, then in chunks as far as they go, the rest in one go again.
    fn read(&mut self, window: &[u8]) -> Result<usize, Malformed> {
        let is_new = !self.document.is_between_elements();
        let head = if is_new && self.chunks.is_some() { window.len().min(BEFORE_CHUNKS) } else { 0 };
        let mut used = self.document.feed(&window[..head], &mut self.parts)?;
        if self.document.is_between_elements()
            && self.parts.is_kineto()
            && let Some(mut chunks) = self.chunks.take()
        {
            self.make_room(used);
            let (more, goes_on) =
                chunks.read(&window[used..], &mut self.document, &mut self.parts, &self.options.progress);
            used += more;
            let is_enough = goes_on && more > 0 || self.options.progress.is_cancelled();
            if !is_enough {
                chunks.put_together(&mut self.parts);
            }
            self.chunks = goes_on.then_some(chunks);
            if is_enough {
                return Ok(used);
            }
        }
        Ok(used + self.document.feed(&window[used..], &mut self.parts)?)
    }

    fn put_together(&mut self) {
        if let Some(chunks) = &mut self.chunks {
            chunks.put_together(&mut self.parts);
        }
    }

    /// Fails once more memory is held than may be.
    fn check_memory(&self) -> Result<(), OpenError> {
        let Some(limit) = self.options.max_memory else { return Ok(()) };
        match source::resident().filter(|&held| held > limit) {
            None => Ok(()),
            Some(held) => {
                let progress = &self.options.progress;
                let read = progress.bytes_read().max(1) as f64;
                let all = Bytes((held.0 as f64 * (progress.bytes_total() as f64 / read).max(1.0)) as u64);
                Err(OpenError::Memory { path: self.path.to_owned(), needed: format!("about {all}"), limit })
            }
        }
    }

    fn report_entries(&mut self) {
        let entries = self.parts.entries();
        self.options.progress.add_events(entries - self.reported_entries);
        self.reported_entries = entries;
    }
}

impl Consumer for Content<'_> {
    type Stop = OpenError;

    fn wanted(&self) -> usize {
        if self.chunks.is_some() { chunks::WINDOW } else { stream::BUFFER }
    }

    fn window(&mut self, window: &[u8]) -> Result<usize, OpenError> {
        if self.options.progress.is_cancelled() {
            return Err(OpenError::Cancelled { path: self.path.to_owned() });
        }
        if window.is_empty() {
            // Why there is nothing is said at the end: it may be that nothing could be unpacked.
            return Ok(0);
        }
        if self.is_first && window.starts_with(BYTE_ORDER_MARK) {
            return Ok(BYTE_ORDER_MARK.len());
        }
        self.check_head(window)?;
        if self.stopped.is_some() {
            return Ok(window.len());
        }
        let result = self.read(window);
        if self.options.progress.is_cancelled() {
            return Err(OpenError::Cancelled { path: self.path.to_owned() });
        }
        self.report_entries();
        self.check_memory()?;
        if self.reported_entries > u64::from(u32::MAX) {
            return Err(OpenError::TooLarge { path: self.path.to_owned(), limit: format!("{} events", u32::MAX) });
        }
        self.make_room(result.unwrap_or_default());
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

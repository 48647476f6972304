//! Raw events → a [`Trace`]. Both readers end here, so that they differ in how they find text and in nothing else.

use std::path::Path;

use rustc_hash::FxHashMap;

use super::arguments::{self, Narrow, TensorLists};
use super::header::Header;
use super::left_out::LeftOut;
use super::raw::{Key, RawEvent};
use super::tracks::TrackTable;
use super::{category, frame, number};
use crate::diagnostic::{Diagnostics, Severity};
use crate::intern::{NameTable, printable};
use crate::trace::order::{self, DAY};
use crate::trace::{
    Category, CollectiveArgs, CopyArgs, Event, EventId, EventTable, Format, KernelArgs, MemoryArgs, OpenError,
    OperatorArgs, SharedTable, SideTable, SyncArgs, Trace, TrackId,
};
use crate::units::{DurNs, TimeNs};

/// A trace being read.
#[derive(Debug, Default)]
pub struct Builder {
    header: Header,
    pub(super) names: NameTable,
    pub(super) events: EventTable,
    pub(super) tracks: TrackTable,
    pub(super) lists: TensorLists,
    pub(super) correlations: Narrow,
    pub(super) externals: Narrow,
    pub(super) operators: SideTable<OperatorArgs>,
    pub(super) kernels: SharedTable<KernelArgs>,
    pub(super) copies: SideTable<CopyArgs>,
    pub(super) collectives: SideTable<CollectiveArgs>,
    pub(super) syncs: SideTable<SyncArgs>,
    pub(super) memory: SideTable<MemoryArgs>,
    /// Begun and not yet ended, per track (`B` and `E` phases).
    open: FxHashMap<TrackId, Vec<Event>>,
    /// Whether events came as beginnings and ends, which belong together wherever they stand.
    pub(super) pairs_events: bool,
    pub(super) has_shapes: bool,
    pub(super) has_known_category: bool,
    pub(super) in_file: u64,
    pub(super) skipped: u64,
    pub(super) left_out: LeftOut,
    pub(super) diagnostics: Diagnostics,
}

impl Builder {
    /// Takes a member of the top level other than the events.
    pub fn member(&mut self, key: &str, value: &[u8]) {
        self.header.member(key, value, &mut self.diagnostics);
    }

    /// Makes room for `times` as many events as there are.
    pub fn reserve(&mut self, times: f64) {
        self.events.reserve((self.events.len() as f64 * times) as usize);
    }

    /// How many entries were seen so far.
    pub fn entries(&self) -> u64 {
        self.in_file
    }

    /// Where oddities are noted.
    pub fn diagnostics(&mut self) -> &mut Diagnostics {
        &mut self.diagnostics
    }

    /// Takes an event that stood at byte `offset`.
    pub fn event(&mut self, event: &RawEvent<'_>, offset: u64) {
        self.in_file += 1;
        match event[Key::Phase].plain() {
            b"X" => self.complete(event, offset),
            b"i" | b"I" => self.instant(event, offset),
            b"M" => self.metadata(event),
            b"B" => self.begin(event, offset),
            b"E" => self.end(event, offset),
            _ => self.left_out.add(event),
        }
    }

    /// Counts an entry at byte `offset` that is no event.
    pub fn damaged(&mut self, offset: u64, reason: &str) {
        self.in_file += 1;
        self.skip("damaged-event", offset, reason);
    }

    fn skip(&mut self, code: &'static str, offset: u64, reason: &str) {
        self.skipped += 1;
        self.diagnostics
            .add(Severity::Warning, code, "", Some(format!("byte {offset}")), || format!("{reason}; skipped"));
    }

    fn complete(&mut self, event: &RawEvent<'_>, offset: u64) {
        let Some(start) = number::nanoseconds(event[Key::Start].0) else {
            return self.skip("damaged-time", offset, "an event without a start that fits 64 bits of nanoseconds");
        };
        let dur = match event[Key::Dur].get().map(number::nanoseconds) {
            Some(Some(dur)) => dur,
            Some(None) => {
                return self.skip("damaged-time", offset, "an event whose length does not fit 64 bits of nanoseconds");
            }
            None => self.odd_length("missing-duration", offset, "an event has no length"),
        };
        let dur =
            if dur < 0 { self.odd_length("negative-duration", offset, "an event has a negative length") } else { dur };
        let dur = if dur > DAY.0 {
            self.odd_length("endless-duration", offset, "an event is longer than a day, as unfinished ones are written")
        } else {
            dur
        };
        let row = self.row(event, TimeNs(start), DurNs(dur));
        let id = self.events.push(&row);
        self.arguments(id, &row, event);
    }

    fn odd_length(&mut self, code: &'static str, offset: u64, what: &str) -> i64 {
        let place = Some(format!("byte {offset}"));
        self.diagnostics.add(Severity::Warning, code, "", place, || format!("{what}; it was read as 0"));
        0
    }

    fn row(&mut self, event: &RawEvent<'_>, start: TimeNs, dur: DurNs) -> Event {
        let category = self.category(event);
        let name = match category {
            Category::Python => self.names.intern(&frame::shortened(&event[Key::Name].decoded())),
            _ => arguments::decoded(event[Key::Name], &mut self.names),
        };
        Event {
            start,
            dur,
            name,
            category,
            track: self.tracks.of_event(event, category),
            correlation: self.correlations.id(event[Key::Correlation]),
            external: self.externals.id(event[Key::External]),
        }
    }

    fn category(&mut self, event: &RawEvent<'_>) -> Category {
        let text = event[Key::Category].plain();
        let found = if text.is_empty() { category::of_process(event[Key::Pid].0) } else { category::of(text) };
        self.has_known_category |= found.is_some();
        match found {
            Some(Category::Operator) if category::is_annotation_name(event[Key::Name]) => Category::Annotation,
            Some(found) => found,
            None => {
                if !text.is_empty() {
                    self.diagnostics.add(Severity::Note, "unknown-category", "", None, || {
                        format!(
                            "events of category `{}` are kept without a meaning",
                            printable(&String::from_utf8_lossy(text))
                        )
                    });
                }
                Category::Other
            }
        }
    }

    fn arguments(&mut self, id: EventId, row: &Event, event: &RawEvent<'_>) {
        match row.category {
            Category::Operator | Category::Annotation => self.operator(id, row, event),
            Category::Kernel => {
                if let Some(found) = arguments::kernel(event) {
                    self.kernels.push(id, found);
                }
                self.collective(id, event);
            }
            Category::Memcpy | Category::Memset => {
                if let Some(found) = arguments::copy(event) {
                    self.copies.push(id, found);
                }
                self.collective(id, event);
            }
            Category::Sync => self.syncs.push(id, arguments::sync(event, &mut self.names, &mut self.correlations)),
            _ => {}
        }
    }

    fn operator(&mut self, id: EventId, row: &Event, event: &RawEvent<'_>) {
        self.has_shapes |= event[Key::Dims].is_present();
        if let Some(found) = arguments::operator(event, &mut self.names, &mut self.lists) {
            self.operators.push(id, found);
        }
        if event[Key::Collective].is_present() {
            self.collective(id, event);
        } else if self.names.get(row.name) == "record_param_comms" {
            self.collectives.push(id, arguments::positional_collective(event, &mut self.names));
        }
    }

    fn collective(&mut self, id: EventId, event: &RawEvent<'_>) {
        if let Some(found) = arguments::collective(event, &mut self.names) {
            self.collectives.push(id, found);
        }
    }

    fn instant(&mut self, event: &RawEvent<'_>, offset: u64) {
        if event[Key::Name].plain() != b"[memory]" {
            return self.left_out.add(event);
        }
        let Some(at) = number::nanoseconds(event[Key::Start].0).map(TimeNs) else {
            return self.skip(
                "damaged-time",
                offset,
                "a memory record without a time that fits 64 bits of nanoseconds",
            );
        };
        let track = self.tracks.of_event(event, Category::Memory);
        let name = self.names.intern("[memory]");
        let row =
            Event { start: at, dur: DurNs::ZERO, name, category: Category::Memory, track, correlation: 0, external: 0 };
        let id = self.events.push(&row);
        self.memory.push(id, arguments::memory(event, at));
    }

    fn metadata(&mut self, event: &RawEvent<'_>) {
        self.left_out.add(event);
        if event[Key::Name].plain() == b"thread_name" {
            let name = self.names.intern(event[Key::MetadataName].decoded().trim());
            self.tracks.set_name(event, name);
        }
    }

    fn begin(&mut self, event: &RawEvent<'_>, offset: u64) {
        self.pairs_events = true;
        let Some(start) = number::nanoseconds(event[Key::Start].0) else {
            return self.skip("damaged-time", offset, "an event without a start that fits 64 bits of nanoseconds");
        };
        let row = self.row(event, TimeNs(start), DurNs::ZERO);
        self.open.entry(row.track).or_default().push(row);
    }

    fn end(&mut self, event: &RawEvent<'_>, offset: u64) {
        self.pairs_events = true;
        let track = self.tracks.of_event(event, Category::Other);
        let begun = self.open.get_mut(&track).and_then(Vec::pop);
        match (begun, number::nanoseconds(event[Key::Start].0)) {
            (Some(row), Some(at)) => {
                let dur = TimeNs(at).since(row.start).max(DurNs::ZERO);
                self.events.push(&Event { dur, ..row });
            }
            _ => self.skip("unpaired-end", offset, "an end without a beginning or without a time"),
        }
    }

    /// Sorts, rebases and closes the trace that was read from `path`.
    ///
    /// # Errors
    /// [`OpenError::NoEvents`] when nothing could be used.
    pub fn finish(mut self, path: &Path) -> Result<Trace, OpenError> {
        for row in self.open.values().flatten() {
            self.skipped += 1;
            let place = Some(format!("at {} ns", row.start.0));
            self.diagnostics.add(Severity::Warning, "unpaired-begin", "", place, || {
                "a beginning without an end; skipped".to_owned()
            });
        }
        self.left_out.report(&mut self.diagnostics);
        if self.events.is_empty() {
            return Err(OpenError::NoEvents { path: path.to_owned(), in_file: self.in_file, skipped: self.skipped });
        }
        let mut trace = self.into_trace(path);
        order::settle(&mut trace);
        Ok(trace)
    }

    fn into_trace(self, path: &Path) -> Trace {
        Trace {
            path: path.to_owned(),
            format: if self.has_known_category { Format::Kineto } else { Format::Chrome },
            names: self.names,
            events: self.events,
            tracks: self.tracks.finish(),
            tensor_args: self.lists.finish(),
            operators: self.operators,
            host_operators: Vec::new(),
            kernels: self.kernels,
            copies: self.copies,
            collectives: self.collectives,
            syncs: self.syncs,
            memory: self.memory,
            origin: TimeNs(0) + DurNs(self.header.base_ns),
            rank: self.header.rank,
            devices: self.header.devices,
            predicted: self.header.predicted,
            iteration: self.header.iteration,
            has_shapes: self.has_shapes,
            events_in_file: self.in_file,
            skipped_events: self.skipped,
            diagnostics: self.diagnostics,
        }
    }
}

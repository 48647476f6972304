//! Raw events → a [`Trace`]. Both readers end here, so that they differ in how they find text and in nothing else.

use std::path::Path;

use super::arguments;
use super::left_out::LeftOut;
use super::pairs::{Mark, Pairs};
use super::raw::{Key, RawEvent, Text};
use super::{category, frame, header, number, tracks};
use crate::diagnostic::{Diagnostics, Severity};
use crate::intern::printable;
use crate::trace::builder::TraceBuilder;
use crate::trace::narrow_ids::NarrowIds;
use crate::trace::{Category, Event, EventId, OpenError, Trace, TrackId, TrackKind};
use crate::units::{DurNs, TimeNs};

/// Why an end is of no use.
const NO_BEGINNING: &str = "an end without a beginning or without a time";

/// A trace being read.
#[derive(Debug, Default)]
pub struct Builder {
    pub(super) trace: TraceBuilder,
    pub(super) correlations: NarrowIds,
    pub(super) externals: NarrowIds,
    /// Beginnings and ends (`B` and `E` phases).
    pairs: Pairs,
    /// Whether events came as beginnings and ends, which belong together wherever they stand.
    pub(super) pairs_events: bool,
    pub(super) has_known_category: bool,
    pub(super) left_out: LeftOut,
}

impl Builder {
    /// Takes a member of the top level other than the events.
    pub fn member(&mut self, key: &str, value: &[u8]) {
        header::member(key, value, &mut self.trace);
    }

    /// Makes room for `times` as many events as there are.
    pub fn reserve(&mut self, times: f64) {
        let more = self.trace.events.len() as f64 * times;
        self.trace.events.reserve(more as usize);
    }

    /// How many entries were seen so far.
    pub fn entries(&self) -> u64 {
        self.trace.entries
    }

    /// Where oddities are noted.
    pub fn diagnostics(&mut self) -> &mut Diagnostics {
        &mut self.trace.diagnostics
    }

    /// Takes an event that stood at byte `offset`.
    pub fn event(&mut self, event: &RawEvent<'_>, offset: u64) {
        self.trace.entries += 1;
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
        self.trace.entries += 1;
        self.skip("damaged-event", offset, reason);
    }

    fn skip(&mut self, code: &'static str, offset: u64, reason: &str) {
        self.trace.skip(code, format!("byte {offset}"), reason);
    }

    /// Skips an event for a time that is not there, no number, or beyond what is counted.
    fn skip_time(&mut self, offset: u64, what: &str, found: Text<'_>) {
        let reason = match found.get() {
            None => format!("an event without a {what}"),
            Some(text) if number::is_number(text) => {
                format!("an event whose {what} does not fit 64 bits of nanoseconds")
            }
            Some(_) => format!("an event whose {what} is no number of microseconds"),
        };
        self.skip("damaged-time", offset, &reason);
    }

    fn complete(&mut self, event: &RawEvent<'_>, offset: u64) {
        let Some(start) = number::nanoseconds(event[Key::Start].0) else {
            return self.skip_time(offset, "start", event[Key::Start]);
        };
        let dur = event[Key::Dur].get().map(number::nanoseconds);
        if dur == Some(None) {
            return self.skip_time(offset, "length", event[Key::Dur]);
        }
        let dur = self.trace.length(dur.flatten().map(DurNs), || format!("byte {offset}"));
        let row = self.row(event, TimeNs(start), dur);
        let id = self.trace.events.push(&row);
        self.arguments(id, &row, event);
    }

    fn row(&mut self, event: &RawEvent<'_>, start: TimeNs, dur: DurNs) -> Event {
        let category = self.category(event);
        let name = match category {
            Category::Python => self.trace.names.intern(&frame::shortened(&event[Key::Name].decoded())),
            _ => arguments::decoded(event[Key::Name], &mut self.trace.names),
        };
        Event {
            start,
            dur,
            name,
            category,
            track: self.track(event, category),
            correlation: self.correlation(event, category),
            external: self.externals.id(event[Key::External]),
        }
    }

    fn correlation(&mut self, event: &RawEvent<'_>, category: Category) -> u32 {
        let recorded = event[Key::Correlation];
        let id = self.correlations.id(recorded);
        if id == 0 && category.is_device_work() && recorded.get().is_some_and(|text| number::id(text).is_none()) {
            let what =
                || "device work has a correlation id that is none: nothing tells which call launched it".to_owned();
            self.trace.diagnostics.add(Severity::Warning, "missing-launch", "", None, what);
        }
        id
    }

    fn track(&mut self, event: &RawEvent<'_>, category: Category) -> TrackId {
        let kind = tracks::kind(event, category);
        if category.is_device_work() && tracks::lacks_stream(kind, event) {
            let what = || "device work has no stream: it is taken to be on one of its own".to_owned();
            self.trace.diagnostics.add(Severity::Warning, "missing-stream", "", None, what);
        }
        if tracks::has_text(kind) {
            self.name_by_text(kind, event);
        }
        self.trace.tracks.id(kind)
    }

    /// Notes how a thread is written whose process or own id is a text.
    #[cold]
    fn name_by_text(&mut self, kind: TrackKind, event: &RawEvent<'_>) {
        let names = &mut self.trace.names;
        self.trace.tracks.set_text(kind, || names.intern(&tracks::text(event)));
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
                    self.trace.diagnostics.add(Severity::Note, "unknown-category", "", None, || {
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
                    self.trace.kernels.push(id, found);
                }
                self.work(id, event);
                self.collective(id, event);
            }
            Category::Memcpy | Category::Memset => {
                match arguments::copy(event) {
                    Some(found) => self.trace.copies.push(id, found),
                    None if event[Key::Bytes].is_present() => self.trace.damaged_bytes(row.start),
                    None => {}
                }
                self.collective(id, event);
            }
            Category::Runtime if event[Key::Launched].is_present() => {
                let kernel = arguments::decoded(event[Key::Launched], &mut self.trace.names);
                self.trace.launched.push(id, kernel);
            }
            Category::Sync => {
                self.trace.syncs.push(id, arguments::sync(event, &mut self.trace.names, &mut self.correlations));
            }
            _ => {}
        }
    }

    fn operator(&mut self, id: EventId, row: &Event, event: &RawEvent<'_>) {
        if let Some(found) = arguments::operator(event, &mut self.trace.names, &mut self.trace.lists) {
            self.trace.operators.push(id, found);
        }
        self.work(id, event);
        if event[Key::Collective].is_present() {
            self.collective(id, event);
        } else if self.trace.names.get(row.name) == "record_param_comms" {
            self.trace.collectives.push(id, arguments::positional_collective(event, &mut self.trace.names));
        }
    }

    fn work(&mut self, id: EventId, event: &RawEvent<'_>) {
        if !event[Key::Work].is_present() {
            return;
        }
        match arguments::work(event[Key::Work], &mut self.trace.names) {
            Ok(found) => self.trace.works.push(id, found),
            Err(why) => {
                self.trace.diagnostics.add(Severity::Warning, "damaged-work", "", None, || why.to_owned());
            }
        }
    }

    fn collective(&mut self, id: EventId, event: &RawEvent<'_>) {
        if let Some(found) = arguments::collective(event, &mut self.trace.names) {
            self.trace.collectives.push(id, found);
        }
    }

    fn instant(&mut self, event: &RawEvent<'_>, offset: u64) {
        if event[Key::Name].plain() != b"[memory]" {
            return self.left_out.add(event);
        }
        let Some(at) = number::nanoseconds(event[Key::Start].0).map(TimeNs) else {
            return self.skip_time(offset, "start", event[Key::Start]);
        };
        let track = self.track(event, Category::Memory);
        let name = self.trace.names.intern("[memory]");
        let external = self.externals.id(event[Key::External]);
        let row =
            Event { start: at, dur: DurNs::ZERO, name, category: Category::Memory, track, correlation: 0, external };
        let id = self.trace.events.push(&row);
        self.trace.memory.push(id, arguments::memory(event, at, &mut self.trace.names));
    }

    fn metadata(&mut self, event: &RawEvent<'_>) {
        self.left_out.add(event);
        if event[Key::Name].plain() == b"thread_name" {
            let name = self.trace.names.intern(event[Key::MetadataName].decoded().trim());
            if event[Key::Pid].is_present() && event[Key::Tid].is_present() {
                let (process, thread) = tracks::lane(event);
                self.trace.tracks.set_name(process, thread, name);
            }
        }
    }

    fn begin(&mut self, event: &RawEvent<'_>, offset: u64) {
        self.pairs_events = true;
        let Some(start) = number::nanoseconds(event[Key::Start].0) else {
            return self.skip_time(offset, "start", event[Key::Start]);
        };
        // Its length is known once all is read.
        let row = self.row(event, TimeNs(start), DurNs::ZERO);
        let id = self.trace.events.push(&row);
        self.arguments(id, &row, event);
        self.mark(event, TimeNs(start), offset, Some(id));
    }

    fn end(&mut self, event: &RawEvent<'_>, offset: u64) {
        self.pairs_events = true;
        let Some(at) = number::nanoseconds(event[Key::Start].0) else {
            return self.skip("unpaired-end", offset, NO_BEGINNING);
        };
        if event.has_arguments() {
            let what =
                || "arguments of ends of events (phase E) are not read: those of their beginnings tell".to_owned();
            self.trace.diagnostics.add(Severity::Warning, "end-arguments", "", Some(format!("byte {offset}")), what);
        }
        self.mark(event, TimeNs(at), offset, None);
    }

    fn mark(&mut self, event: &RawEvent<'_>, at: TimeNs, offset: u64, begun: Option<EventId>) {
        let name = event[Key::Name].plain();
        let name = if name.is_empty() { 0 } else { tracks::hash(name) };
        self.pairs.add(tracks::lane(event), Mark { at, name, offset, begun });
    }

    /// Gives events that came as beginnings and ends their lengths, and leaves out those without an end.
    fn pair(&mut self) {
        let paired = std::mem::take(&mut self.pairs).close();
        for (id, dur) in paired.lengths {
            let start = self.trace.events.start(id);
            let dur = self.trace.length(Some(dur), || format!("at {} ns", start.0));
            self.trace.events.set_dur(id, dur);
        }
        for offset in paired.loose_ends {
            self.skip("unpaired-end", offset, NO_BEGINNING);
        }
        for &id in &paired.endless {
            let start = self.trace.events.start(id);
            self.trace.skip("unpaired-begin", format!("at {} ns", start.0), "a beginning without an end");
        }
        self.trace.leave_out(&paired.endless);
    }

    /// Sorts, rebases and closes the trace that was read from `path`.
    ///
    /// # Errors
    /// [`OpenError::NoEvents`] when nothing could be used.
    pub fn finish(mut self, path: &Path) -> Result<Trace, OpenError> {
        self.pair();
        self.left_out.report(&mut self.trace.diagnostics);
        self.trace.finish(path.to_owned(), if self.has_known_category { "kineto" } else { "chrome" })
    }
}

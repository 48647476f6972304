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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::trace::kineto::strict;
    use crate::trace::{EventId, Trace, TrackKind, load_bytes};
    use crate::units::{Bytes, DurNs};

    /// The trace of `events`, read by both readers.
    fn read(events: &[&str]) -> Trace {
        let text = format!("{{\"traceEvents\": [{}]}}", events.join(", "));
        let scanned = load_bytes(text.as_bytes(), "a.json").unwrap();
        let strict = strict::read(text.as_bytes(), Path::new("a.json")).unwrap();
        // The strict reader does not know at which byte an event stands.
        let told = |trace: &Trace| -> Vec<(&str, u64)> {
            trace.diagnostics.sorted().into_iter().map(|one| (one.code, one.count)).collect()
        };
        assert_eq!((&scanned.events, told(&scanned)), (&strict.events, told(&strict)));
        scanned
    }

    fn rows(trace: &Trace) -> Vec<(&str, i64, i64)> {
        let name = |id| trace.names.get(trace.events.name(id));
        trace.events.ids().map(|id| (name(id), trace.events.start(id).0, trace.events.dur(id).0)).collect()
    }

    fn dims(trace: &Trace, id: u32) -> Option<&str> {
        let list = trace.operators.get(EventId(id))?.tensors?;
        Some(trace.names.get(trace.tensor_args[list.index()].dims))
    }

    const PRODUCT: &str = r#""Input Dims": [[8, 4], [4, 2]], "Input type": ["float", "float"], "External id": 5"#;

    #[test]
    fn a_beginning_gives_its_event_the_arguments_of_a_whole_one() {
        let mark = |phase: &str, rest: &str| {
            format!(r#"{{"ph": "{phase}", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, {rest}}}"#)
        };
        let launch = r#"{"ph": "X", "cat": "cuda_runtime", "name": "launch", "pid": 1, "tid": 1, "ts": 1, "dur": 1}"#;
        let whole = read(&[&mark("X", &format!(r#""ts": 0, "dur": 9, "args": {{{PRODUCT}}}"#)), launch]);
        let begin = mark("B", &format!(r#""ts": 0, "args": {{{PRODUCT}}}"#));
        for marks in [[&*begin, launch, &mark("E", r#""ts": 9"#)], [&mark("E", r#""ts": 9"#), launch, &begin]] {
            let pair = read(&marks);
            assert_eq!(rows(&pair), rows(&whole));
            assert_eq!((dims(&pair, 0), &pair.operators), (Some("[[8, 4], [4, 2]]"), &whole.operators));
            assert_eq!((pair.events.external(EventId(0)), pair.skipped_events), (whole.events.external(EventId(0)), 0));
        }
        let both = read(&[&begin, &mark("E", r#""ts": 9, "args": {"External id": 7}"#)]);
        assert_eq!(both.diagnostics.count("end-arguments"), 1);
    }

    #[test]
    fn beginnings_and_ends_are_paired_in_order_of_time_and_what_has_no_other_is_left_out_with_its_arguments() {
        let mark = |phase: &str, name: &str, at: i64| {
            format!(
                r#"{{"ph": "{phase}", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1, "ts": {at}, "args": {{"Input Dims": [[{at}]]}}}}"#
            )
        };
        let end = |at: i64| format!(r#"{{"ph": "E", "pid": 1, "tid": 1, "ts": {at}}}"#);
        let unsorted = read(&[&mark("B", "A", 0), &mark("B", "B", 1000), &end(10), &end(1500)]);
        assert_eq!(rows(&unsorted), [("A", 0, 10_000), ("B", 1_000_000, 500_000)]);
        assert_eq!((dims(&unsorted, 0), dims(&unsorted, 1)), (Some("[[0]]"), Some("[[1000]]")));

        let lone = read(&[&mark("B", "lone", 50), &mark("B", "A", 100), &end(20), &end(110), &mark("X", "X", 120)]);
        assert_eq!(rows(&lone), [("A", 0, 10_000), ("X", 20_000, 0)]);
        assert_eq!((dims(&lone, 0), dims(&lone, 1)), (Some("[[100]]"), Some("[[120]]")));
        let counted = ["unpaired-begin", "unpaired-end"].map(|code| lone.diagnostics.count(code));
        assert_eq!((counted, lone.skipped_events, lone.events_in_file), ([1, 1], 2, 5));
    }

    #[test]
    fn sizes_that_are_none_leave_their_operator_without_sizes_and_are_counted() {
        let product = |rows: &str| {
            format!(
                r#"{{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 5, "args": {{"Input Dims": [[{rows}, 4], [4, 2]], "Input type": ["float", "float"]}}}}"#
            )
        };
        for alike in ["8", "\"8\"", "8.0"] {
            let trace = read(&[&product(alike)]);
            assert_eq!(dims(&trace, 0).map(|dims| dims.replace(' ', "")), Some("[[8,4],[4,2]]".to_owned()), "{alike}");
            assert!(trace.has_shapes && trace.diagnostics.is_empty(), "{alike}");
        }
        for none in ["-8", "8.5", "null", "true", "\"many\"", "9223372036854775808", "1e30"] {
            let trace = read(&[&product(none)]);
            assert_eq!((dims(&trace, 0), trace.has_shapes), (None, false), "{none}");
            let code = if none == "-8" { "negative-size" } else { "unreadable-size" };
            assert_eq!(trace.diagnostics.count(code), 1, "{none}");
            let sound = product("8");
            let one = read(&[&product(none), &sound]);
            assert_eq!(
                (dims(&one, 0), dims(&one, 1), one.has_shapes),
                (None, Some("[[8, 4], [4, 2]]"), true),
                "{none}"
            );
        }
    }

    #[test]
    fn operators_of_threads_that_are_named_by_texts_have_each_their_own() {
        let event = |pid: &str, tid: &str, name: &str| {
            format!(
                r#"{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": 0, "dur": 5}}"#
            )
        };
        let named = r#"{"ph": "M", "name": "thread_name", "pid": "p12", "tid": "t4", "args": {"name": "backward"}}"#;
        let trace = read(&[
            &event("\"p12\"", "\"t3\"", "a"),
            &event("\"p12\"", "\"t4\"", "b"),
            &event("12", "\"t3\"", "c"),
            &event("\"p12\"", "\"t3\"", "d"),
            named,
        ]);
        assert!(trace.tracks.iter().all(|track| matches!(track.kind, TrackKind::Thread { .. })), "{:?}", trace.tracks);
        let names: Vec<&str> = trace.tracks.iter().map(|track| trace.names.get(track.name)).collect();
        assert_eq!(names, ["p12 t3", "backward", "t3"]);
    }

    #[test]
    fn sizes_of_copies_that_no_memory_has_are_counted() {
        let copy = |bytes: &str| {
            format!(
                r#"{{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 0, "dur": 5, "args": {{"stream": 7, "bytes": {bytes}}}}}"#
            )
        };
        for (bytes, counted) in [("4096", 0), ("null", 0), ("-5", 1), ("1e30", 1), ("\"abc\"", 1)] {
            let trace = read(&[&copy(bytes)]);
            assert_eq!(trace.diagnostics.count("damaged-bytes"), counted, "{bytes}");
            let found = trace.copies.get(EventId(0)).map(|copy| copy.bytes);
            assert_eq!(found, (bytes == "4096").then_some(Bytes(4096)), "{bytes}");
        }
        assert_eq!(read(&[&copy("1")]).events.dur(EventId(0)), DurNs(5_000));
    }
}

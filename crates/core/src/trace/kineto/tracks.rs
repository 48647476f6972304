//! What an event ran on: process and thread texts of every year → [`TrackKind`].

use super::number;
use super::raw::{Key, RawEvent, Text};
use crate::fnv::Fnv1a;
use crate::trace::{Category, TrackKind};

/// What an event of kind `category` ran on.
pub(super) fn kind(event: &RawEvent<'_>, category: Category) -> TrackKind {
    let (pid, tid) = (process(event[Key::Pid]), thread(event[Key::Tid]));
    let stream = || {
        let device = event[Key::Device].get().and_then(number::integer).or(pid);
        let stream = event[Key::Stream].get().and_then(number::integer).or(tid);
        TrackKind::Stream { device: device.unwrap_or(-1), stream: stream.unwrap_or(-1) }
    };
    let other = TrackKind::Other { pid: pid.unwrap_or(-1), tid: tid.unwrap_or(-1) };
    match category {
        Category::Kernel | Category::Memcpy | Category::Memset | Category::GpuAnnotation => stream(),
        Category::Sync => match stream() {
            TrackKind::Stream { stream: ..0, .. } => other,
            on_stream => on_stream,
        },
        Category::Overhead | Category::CounterRange => other,
        _ => match (pid, tid) {
            (Some(pid @ 0..), Some(tid)) => TrackKind::Thread { pid, tid },
            (Some(..0), _) => other,
            _ if is_of_thread(category) && event[Key::Category].is_present() => by_text(event).unwrap_or(other),
            _ => other,
        },
    }
}

/// Whether events of this kind are always of a host thread.
fn is_of_thread(category: Category) -> bool {
    use Category::{Annotation, Memory, Operator, Python, Runtime};
    matches!(category, Operator | Annotation | Runtime | Python | Memory)
}

/// The thread of an event whose process or thread is a text; `None` where one of them is not there.
fn by_text(event: &RawEvent<'_>) -> Option<TrackKind> {
    let pid = process(event[Key::Pid]).or_else(|| of_text(event[Key::Pid]))?;
    let tid = thread(event[Key::Tid]).or_else(|| of_text(event[Key::Tid]))?;
    Some(TrackKind::Thread { pid, tid })
}

/// Where the numbers begin that stand for texts; those of processes and threads are smaller.
const TEXTS: i64 = 1 << 52;

/// The number that stands for a text, equal for equal ones in every chunk of a file.
fn of_text(text: Text<'_>) -> Option<i64> {
    let text = text.plain();
    (!text.is_empty()).then(|| TEXTS | (hash(text) as i64 & (TEXTS - 1)))
}

/// A hash of a text.
pub(super) fn hash(text: &[u8]) -> u64 {
    let mut hash = Fnv1a::default();
    hash.add(text);
    hash.finish()
}

/// Whether process or thread of a track is a number that stands for a text.
pub(super) fn has_text(kind: TrackKind) -> bool {
    matches!(kind, TrackKind::Thread { pid: TEXTS.., .. } | TrackKind::Thread { tid: TEXTS.., .. })
}

/// How the thread of an event is written.
pub(super) fn text(event: &RawEvent<'_>) -> String {
    let (pid, tid) = (event[Key::Pid].decoded(), event[Key::Tid].decoded());
    if process(event[Key::Pid]).is_some() { tid.into_owned() } else { format!("{pid} {tid}") }
}

/// The process and the thread of an event, or numbers that stand for their texts; -1 for none.
pub(super) fn lane(event: &RawEvent<'_>) -> (i64, i64) {
    let pid = process(event[Key::Pid]).or_else(|| of_text(event[Key::Pid]));
    let tid = thread(event[Key::Tid]).or_else(|| of_text(event[Key::Tid]));
    (pid.unwrap_or(-1), tid.unwrap_or(-1))
}

/// Whether an event on `kind` names no stream, neither as argument nor as thread.
pub(super) fn lacks_stream(kind: TrackKind, event: &RawEvent<'_>) -> bool {
    let is_unknown = matches!(kind, TrackKind::Stream { stream: -1, .. });
    is_unknown && event[Key::Stream].get().and_then(number::integer).or_else(|| thread(event[Key::Tid])).is_none()
}

/// The number of a process.
pub(super) fn process(text: Text<'_>) -> Option<i64> {
    number::integer(text.0)
}

/// The number of a thread or stream: `25738`, `"25738"`, `"stream 7"`.
pub(super) fn thread(text: Text<'_>) -> Option<i64> {
    number::integer(text.0).or_else(|| number::integer(text.plain().strip_prefix(b"stream ")?.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(text: &str, category: Category) -> TrackKind {
        kind(&serde_json::from_str(text).unwrap(), category)
    }

    #[test]
    fn ids_of_every_year_name_the_same_track() {
        let thread = TrackKind::Thread { pid: 25738, tid: 25738 };
        assert_eq!(kind_of(r#"{"pid": 25738, "tid": "25738"}"#, Category::Operator), thread);
        assert_eq!(kind_of(r#"{"pid": 25738, "tid": 25738}"#, Category::Runtime), thread);
        let stream = TrackKind::Stream { device: 0, stream: 7 };
        assert_eq!(kind_of(r#"{"pid": 0, "tid": "stream 7"}"#, Category::Kernel), stream);
        assert_eq!(kind_of(r#"{"pid": 9, "tid": 1, "args": {"device": 0, "stream": 7}}"#, Category::Memcpy), stream);
    }

    #[test]
    fn texts_for_processes_and_threads_are_told_apart_where_operators_run() {
        let of = |pid: &str, tid: &str| {
            kind_of(&format!(r#"{{"cat": "cpu_op", "pid": {pid}, "tid": {tid}}}"#), Category::Operator)
        };
        let written = [
            of("\"p12\"", "\"t3\""),
            of("\"p12\"", "\"t4\""),
            of("\"p13\"", "\"t3\""),
            of("\"p12\"", "3"),
            of("12", "\"t3\""),
        ];
        assert!(written.iter().all(|kind| has_text(*kind)), "{written:?}");
        let distinct: std::collections::BTreeSet<TrackKind> = written.into_iter().collect();
        assert_eq!((distinct.len(), of("\"p12\"", "\"t3\"")), (5, written[0]));
        assert_eq!(of("\"p12\"", "null"), TrackKind::Other { pid: -1, tid: -1 });
        assert_eq!(of("-1", "\"t3\""), TrackKind::Other { pid: -1, tid: -1 });
        let oldest = kind_of(r#"{"pid": "CPU functions", "tid": 1}"#, Category::Operator);
        assert_eq!(oldest, TrackKind::Other { pid: -1, tid: 1 });
    }

    #[test]
    fn spans_overhead_and_device_wide_waits_are_neither_thread_nor_stream() {
        let other = |pid, tid| TrackKind::Other { pid, tid };
        assert_eq!(kind_of(r#"{"pid": "Spans", "tid": "PyTorch Profiler"}"#, Category::Other), other(-1, -1));
        assert_eq!(kind_of(r#"{"pid": -1, "tid": 0}"#, Category::Overhead), other(-1, 0));
        assert_eq!(kind_of(r#"{"pid": 0, "tid": -1, "args": {"stream": -1}}"#, Category::Sync), other(0, -1));
        assert_eq!(
            kind_of(r#"{"pid": 0, "tid": 7, "args": {"stream": 7, "device": 0}}"#, Category::Sync),
            TrackKind::Stream { device: 0, stream: 7 }
        );
    }
}

//! What an event ran on: process and thread texts of every year → [`TrackKind`].

use super::number;
use super::raw::{Key, RawEvent, Text};
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
            _ => other,
        },
    }
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

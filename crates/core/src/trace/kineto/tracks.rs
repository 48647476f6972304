//! Which track an event ran on: process and thread texts of every year → [`TrackKind`] → a row of the track table.

use rustc_hash::FxHashMap;

use super::number;
use super::raw::{Key, RawEvent, Text};
use crate::intern::NameId;
use crate::trace::{Category, Track, TrackId, TrackKind};

/// Tracks in order of first appearance.
#[derive(Debug, Default)]
pub struct TrackTable {
    tracks: Vec<Track>,
    ids: FxHashMap<TrackKind, TrackId>,
    last: Option<(TrackKind, TrackId)>,
    names: FxHashMap<(i64, i64), NameId>,
}

impl TrackTable {
    /// The track of an event of kind `category`.
    pub fn of_event(&mut self, event: &RawEvent<'_>, category: Category) -> TrackId {
        self.id(kind(event, category))
    }

    fn id(&mut self, kind: TrackKind) -> TrackId {
        match self.last {
            Some((last, id)) if last == kind => return id,
            _ => {}
        }
        let id = match self.ids.get(&kind) {
            Some(&id) => id,
            None => self.add(kind),
        };
        self.last = Some((kind, id));
        id
    }

    fn add(&mut self, kind: TrackKind) -> TrackId {
        let next = self.tracks.len() as u32;
        self.tracks.push(Track { kind, name: NameId(0) });
        self.ids.insert(kind, TrackId(next));
        TrackId(next)
    }

    /// Notes the name that metadata gives the thread of `event`.
    pub fn set_name(&mut self, event: &RawEvent<'_>, name: NameId) {
        if let (Some(pid), Some(tid)) = (process(event[Key::Pid]), thread(event[Key::Tid])) {
            self.names.insert((pid, tid), name);
        }
    }

    /// Goes on with `known`, the ids here of the tracks of `other`, for those it has got since, and takes its names.
    pub fn follow(&mut self, other: &mut Self, known: &mut Vec<TrackId>, name: impl Fn(NameId) -> NameId) {
        known.extend(other.tracks[known.len()..].iter().map(|track| self.id(track.kind)));
        self.names.extend(other.names.drain().map(|(thread, own)| (thread, name(own))));
    }

    /// The finished table.
    pub fn finish(mut self) -> Vec<Track> {
        for track in &mut self.tracks {
            let key = match track.kind {
                TrackKind::Thread { pid, tid } | TrackKind::Other { pid, tid } => (pid, tid),
                TrackKind::Stream { device, stream } => (device, stream),
            };
            track.name = self.names.get(&key).copied().unwrap_or_default();
        }
        self.tracks
    }
}

fn kind(event: &RawEvent<'_>, category: Category) -> TrackKind {
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

fn process(text: Text<'_>) -> Option<i64> {
    number::integer(text.0)
}

/// `25738`, `"25738"`, `"stream 7"`.
fn thread(text: Text<'_>) -> Option<i64> {
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

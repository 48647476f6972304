//! Tracks: the host threads and device streams that events ran on, as recorded.

use rustc_hash::FxHashMap;

use crate::intern::NameId;

/// A row of [`Trace::tracks`](super::Trace::tracks).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrackId(pub u32);

/// What a track is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrackKind {
    /// A host thread.
    Thread {
        /// Process id.
        pid: i64,
        /// Thread id.
        tid: i64,
    },
    /// An in-order device queue.
    Stream {
        /// Device number on its host.
        device: i64,
        /// Stream number on its device.
        stream: i64,
    },
    /// Neither: profiler spans, overhead, device-wide synchronisation.
    Other {
        /// Process id, or -1 where that is no number.
        pid: i64,
        /// Thread id, or -1 where that is no number.
        tid: i64,
    },
}

impl TrackKind {
    /// Process and thread, or device and stream.
    fn key(self) -> (i64, i64) {
        match self {
            Self::Thread { pid, tid } | Self::Other { pid, tid } => (pid, tid),
            Self::Stream { device, stream } => (device, stream),
        }
    }
}

/// One track with the name the trace gives it (empty when it gives none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// What it is.
    pub kind: TrackKind,
    /// Its recorded name, e.g. `thread 1234 (pt_autograd_0)`.
    pub name: NameId,
}

/// Tracks in order of first appearance.
#[derive(Debug, Default)]
pub(super) struct TrackTable {
    tracks: Vec<Track>,
    ids: FxHashMap<TrackKind, TrackId>,
    last: Option<(TrackKind, TrackId)>,
    names: FxHashMap<(i64, i64), NameId>,
    /// How threads are written whose ids are texts.
    texts: FxHashMap<(i64, i64), NameId>,
}

impl TrackTable {
    /// The track of this kind, which is added if it is new.
    #[inline]
    pub(super) fn id(&mut self, kind: TrackKind) -> TrackId {
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

    /// Notes the name of a thread, or of a stream by device and number.
    pub(super) fn set_name(&mut self, process: i64, thread: i64, name: NameId) {
        self.names.insert((process, thread), name);
    }

    /// Notes how a thread is written whose id is a text, which is its name where it is given none.
    pub(super) fn set_text(&mut self, kind: TrackKind, text: impl FnOnce() -> NameId) {
        self.texts.entry(kind.key()).or_insert_with(text);
    }

    /// Goes on with `known`, the ids here of the tracks of `other`, for those it has got since, and takes its names.
    pub(super) fn follow(&mut self, other: &mut Self, known: &mut Vec<TrackId>, name: impl Fn(NameId) -> NameId) {
        known.extend(other.tracks[known.len()..].iter().map(|track| self.id(track.kind)));
        self.names.extend(other.names.drain().map(|(thread, own)| (thread, name(own))));
        self.texts.extend(other.texts.drain().map(|(thread, own)| (thread, name(own))));
    }

    /// The finished table.
    pub(super) fn finish(mut self) -> Vec<Track> {
        for track in &mut self.tracks {
            let key = track.kind.key();
            track.name = self.names.get(&key).or_else(|| self.texts.get(&key)).copied().unwrap_or_default();
        }
        self.tracks
    }
}

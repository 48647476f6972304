//! Tracks: the host threads and device streams that events ran on, as recorded.

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

/// One track with the name the trace gives it (empty when it gives none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// What it is.
    pub kind: TrackKind,
    /// Its recorded name, e.g. `thread 1234 (pt_autograd_0)`.
    pub name: NameId,
}

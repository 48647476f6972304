//! Dependencies: why one task could not start before another had ended.

use serde::Serialize;

use crate::units::DurNs;

/// The reason of a dependency. The rules that create each are those of `graph::build`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DependencyKind {
    /// Program order on a host thread.
    Program,
    /// Runtime call → the device work it launched.
    Launch,
    /// In-order execution of a stream.
    Stream,
    /// Device work → the end of the host call that waited for it.
    HostWait,
    /// Device work → device work on another stream that waited for its event.
    EventWait,
    /// One host thread handing over to another (forward thread ↔ autograd thread).
    HandOver,
    /// Device work → launch call held back by the full launch queue.
    LaunchQueue,
    /// A rank's arrival → the transfer of a collective.
    Collective,
    /// A tensor produced → consumed (execution traces).
    Data,
    /// Shares the device: starts when the other is a fraction done.
    Contention,
    /// Started right after the end of work elsewhere, for no recorded reason.
    LateStart,
    /// A wait that no call shows (busy polling).
    HiddenWait,
    /// Measured start kept: work from before the window.
    Anchor,
    /// When a rank's host thread began, where nothing before that was recorded.
    RankStart,
    /// Into the marker of a step's end.
    StepEnd,
}

/// An edge of the graph: the successor starts no earlier than
/// `end(predecessor) + lag − of_predecessor · duration(predecessor)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dependency {
    /// Why.
    pub kind: DependencyKind,
    /// Constant lag; may be negative (overlap, clock skew).
    pub lag: DurNs,
    /// Share of the predecessor's duration that need not have passed: 0 for its end, 1 for its start,
    /// `1 − f` for contention that lets go when the predecessor is the fraction `f` done.
    pub of_predecessor: f32,
}

impl Dependency {
    /// A dependency on the predecessor's end.
    pub fn on_end(kind: DependencyKind, lag: DurNs) -> Self {
        Self { kind, lag, of_predecessor: 0.0 }
    }

    /// A dependency on the predecessor's start.
    pub fn on_start(kind: DependencyKind, lag: DurNs) -> Self {
        Self { kind, lag, of_predecessor: 1.0 }
    }

    /// The lag from the predecessor's end when that takes `duration`.
    pub fn effective_lag(&self, duration: DurNs) -> DurNs {
        if self.of_predecessor == 0.0 { self.lag } else { self.lag - duration.scale(f64::from(self.of_predecessor)) }
    }
}

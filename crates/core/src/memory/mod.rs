//! Memory that an iteration takes: buffers of each rank with what they hold and from when until when they are there, what they
//! are read from, and the most of them together. What edits make of them is in `scenario::memory`.
//!
//! Times are those of the host's calls as measured, since memory is given and taken in the order of the host's program,
//! which edits of durations do not change.

mod callers;
mod exported;
mod given;
mod optimizers;
pub(crate) mod parameters;
pub(crate) mod recomputed;
mod recorded;
mod shapes;
mod sources;
mod steps;
mod summary;
mod tensors;
mod workspaces;

use serde::Serialize;

use crate::graph::OperatorId;
use crate::units::{Bytes, TimeNs};

pub use sources::{by, left_out, of_job};
pub use summary::{HostTimes, KindBytes, MemorySummary, RankMemorySummary, Simulated};

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holds {
    /// Weights, embedding tables among them.
    Parameters,
    /// Gradients of parameters.
    Gradients,
    /// What the optimizer keeps between steps.
    Optimizer,
    /// Results of the forward pass, until nothing needs them any more.
    Activations,
    /// Workspaces, gradients of activations, inputs, and what nothing tells more about.
    Other,
}

impl Holds {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 5] = [Self::Parameters, Self::Gradients, Self::Optimizer, Self::Activations, Self::Other];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Gradients => "gradients",
            Self::Optimizer => "optimizer",
            Self::Activations => "activations",
            Self::Other => "other",
        }
    }
}

/// How a rank's buffers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemorySource {
    /// The allocator's calls, as the profiler recorded them.
    Allocator,
    /// Tensors and storages of the execution trace, from the first use of each to the last.
    Tensors,
    /// Arguments of operators: results as large as the operator's work tells, until what needs them has run.
    Shapes,
}

impl MemorySource {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allocator => "allocator",
            Self::Tensors => "tensors",
            Self::Shapes => "shapes",
        }
    }

    /// The one of that name.
    fn named(name: &str) -> Option<Self> {
        [Self::Allocator, Self::Tensors, Self::Shapes].into_iter().find(|source| source.name() == name)
    }

    /// What it is, in a phrase.
    pub fn described(self) -> &'static str {
        match self {
            Self::Allocator => "the allocator's recorded calls",
            Self::Tensors => "tensors of the execution trace, from first use to last",
            Self::Shapes => "shapes of operators' arguments: an estimate",
        }
    }
}

/// Before the modelled window: such a buffer is there from the start.
pub const BEFORE: TimeNs = TimeNs(i64::MIN);
/// After the modelled window: such a buffer stays.
pub const AFTER: TimeNs = TimeNs(i64::MAX);

/// A piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// What it holds.
    pub holds: Holds,
    /// Its size.
    pub bytes: Bytes,
    /// When the host takes it, from the window's start of its rank; [`BEFORE`] where it is there already.
    pub from: TimeNs,
    /// When the host gives it back; [`AFTER`] where it does not.
    pub until: TimeNs,
    /// The operator whose result it is; of what was there before, one that uses it.
    pub operator: Option<OperatorId>,
}

/// The memory of one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankMemory {
    /// How it is known.
    pub source: MemorySource,
    /// Its pieces.
    pub buffers: Vec<Buffer>,
    /// What is not in it, a line each.
    pub unknown: Vec<String>,
    /// What is not in it and may be as large as what is, a line each: whether all fits a device is not known then.
    pub missing: Vec<String>,
    /// What the allocator holds and no tensor has, as a share of the peak, where that was recorded.
    pub reserve: Option<f64>,
    /// The memory of the device that it is of, where that is another one than the rank's.
    pub device_bytes: Option<Bytes>,
    /// The iteration, of which it is to tell the most: its window may show more of the steps beside it.
    iteration: [TimeNs; 2],
    /// Buffers in the order in which they come and go: twice the place in `buffers`, and 1 where it goes.
    order: Vec<u32>,
}

/// The memory of all ranks, by position; `None` where nothing tells.
pub type JobMemory = Vec<Option<RankMemory>>;

/// The most that a rank holds at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peak {
    /// All together.
    pub bytes: Bytes,
    /// Of each kind, in the order of [`Holds::ALL`].
    pub of: [Bytes; Holds::ALL.len()],
    /// When the host's call brings it about, measured from the window's start of the rank.
    pub at: TimeNs,
}

impl RankMemory {
    /// The memory made of `buffers`, over a window that is the iteration's.
    ///
    /// # Complexity
    /// O(n log n).
    pub fn new(source: MemorySource, buffers: Vec<Buffer>, unknown: Vec<String>) -> Self {
        let (missing, iteration, order) = (Vec::new(), [TimeNs(0), AFTER], Vec::new());
        let (reserve, device_bytes) = (None, None);
        let mut all = Self { source, buffers, unknown, missing, reserve, device_bytes, iteration, order };
        all.put_in_order();
        all
    }

    /// With more pieces.
    #[must_use]
    fn with(mut self, more: Vec<Buffer>) -> Self {
        self.buffers.extend(more);
        self.put_in_order();
        self
    }

    /// With what is not in it and may be as large as what is.
    #[must_use]
    fn without(self, missing: Vec<String>) -> Self {
        Self { missing, ..self }
    }

    /// With an iteration that is a part of the window.
    #[must_use]
    pub fn of_iteration(self, begins: TimeNs, ends: TimeNs) -> Self {
        Self { iteration: [begins, ends], ..self }
    }

    /// Without what is there all the time.
    #[must_use]
    pub fn moving(&self) -> Self {
        let moves = |buffer: &&Buffer| buffer.from != BEFORE || buffer.until != AFTER;
        let [begins, ends] = self.iteration;
        let all = Self::new(self.source, self.buffers.iter().filter(moves).copied().collect(), self.unknown.clone());
        let (reserve, device_bytes) = (self.reserve, self.device_bytes);
        Self { reserve, device_bytes, ..all.without(self.missing.clone()).of_iteration(begins, ends) }
    }

    /// The buffers in the order in which they come and go, and whether each comes.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (usize, bool)> {
        self.order.iter().map(|&edge| (edge as usize / 2, edge.is_multiple_of(2)))
    }

    pub(crate) fn put_in_order(&mut self) {
        // What goes at an instant makes room for what comes then, unless it has only just come.
        let mut edges: Vec<(TimeNs, bool, u32)> = Vec::with_capacity(2 * self.buffers.len());
        for (at, buffer) in (0..).zip(&self.buffers) {
            edges.push((buffer.from, true, 2 * at));
            if buffer.until != AFTER {
                edges.push((buffer.until, buffer.from == buffer.until, 2 * at + 1));
            }
        }
        edges.sort_unstable();
        self.order = edges.into_iter().map(|(.., edge)| edge).collect();
        self.buffers.shrink_to_fit();
    }

    /// Keeps the buffers that `is_kept` holds for, and the order of what is left.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&Buffer) -> bool) {
        const GONE: u32 = u32::MAX;
        let mut count = 0;
        let place = |buffer: &Buffer| {
            let kept = is_kept(buffer);
            count += u32::from(kept);
            if kept { count - 1 } else { GONE }
        };
        let places: Vec<u32> = self.buffers.iter().map(place).collect();
        self.order.retain(|&edge| places[edge as usize / 2] != GONE);
        self.order.iter_mut().for_each(|edge| *edge = 2 * places[*edge as usize / 2] + *edge % 2);
        let mut place = places.iter();
        self.buffers.retain(|_| place.next().is_some_and(|&place| place != GONE));
    }

    /// The most that is held at once within the iteration.
    ///
    /// # Complexity
    /// O(buffers).
    pub fn peak(&self) -> Peak {
        let [begins, ends] = self.iteration;
        let (mut most, mut at_start) = (Peak::default(), Peak::default());
        self.follow(|now| {
            if now.at <= begins {
                at_start = now;
            } else if now.at < ends && now.bytes > most.bytes {
                most = now;
            }
        });
        if at_start.bytes >= most.bytes { Peak { at: begins, ..at_start } } else { most }
    }

    /// What is held from each instant on.
    ///
    /// # Complexity
    /// O(buffers).
    pub fn over_time(&self) -> Vec<(TimeNs, Bytes)> {
        self.kinds_over_time().into_iter().map(|held| (held.at, held.bytes)).collect()
    }

    /// What is held from each instant on, by kind.
    ///
    /// # Complexity
    /// O(buffers).
    pub fn kinds_over_time(&self) -> Vec<Peak> {
        let mut all: Vec<Peak> = Vec::with_capacity(self.order.len());
        self.follow(|now| match all.last_mut() {
            Some(last) if last.at == now.at => *last = now,
            _ => all.push(now),
        });
        all
    }

    /// The pieces that are there at an instant, after what came then and before what went again at once.
    pub fn held_at(&self, at: TimeNs) -> impl Iterator<Item = &Buffer> {
        let is_there = move |it: &&Buffer| it.from <= at && (it.until > at || (it.from, it.until) == (at, at));
        self.buffers.iter().filter(is_there)
    }

    /// Calls `seen` after everything that comes or goes, from the start of the window on.
    fn follow(&self, mut seen: impl FnMut(Peak)) {
        let (mut now, mut of) = (0_u64, [0_u64; Holds::ALL.len()]);
        let mut begun = false;
        let mut tell =
            |bytes, of: &[u64; Holds::ALL.len()], at| seen(Peak { bytes: Bytes(bytes), of: of.map(Bytes), at });
        for (at, comes) in self.in_order() {
            let buffer = &self.buffers[at];
            let time = if comes { buffer.from } else { buffer.until };
            if !begun && time >= TimeNs(0) {
                begun = true;
                tell(now, &of, TimeNs(0));
            }
            let kind = &mut of[buffer.holds as usize];
            if comes {
                (now, *kind) = (now.saturating_add(buffer.bytes.0), kind.saturating_add(buffer.bytes.0));
            } else {
                (now, *kind) = (now.saturating_sub(buffer.bytes.0), kind.saturating_sub(buffer.bytes.0));
            }
            if begun {
                tell(now, &of, time);
            }
        }
        if !begun {
            tell(now, &of, TimeNs(0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(holds: Holds, bytes: u64, from: i64, until: i64) -> Buffer {
        Buffer { holds, bytes: Bytes(bytes), from: TimeNs(from), until: TimeNs(until), operator: None }
    }

    fn memory(buffers: Vec<Buffer>) -> RankMemory {
        RankMemory::new(MemorySource::Tensors, buffers, Vec::new())
    }

    #[test]
    fn the_peak_is_where_most_is_there_at_once() {
        let all = memory(vec![
            buffer(Holds::Parameters, 100, i64::MIN, i64::MAX),
            buffer(Holds::Activations, 30, 10, 50),
            buffer(Holds::Activations, 40, 20, 40),
            buffer(Holds::Gradients, 60, 45, i64::MAX),
        ]);
        let peak = all.peak();
        assert_eq!((peak.bytes, peak.at), (Bytes(190), TimeNs(45)));
        assert_eq!(peak.of, [100, 60, 0, 30, 0].map(Bytes));
        let steps: Vec<(i64, u64)> = all.over_time().into_iter().map(|(at, bytes)| (at.0, bytes.0)).collect();
        assert_eq!(steps, [(0, 100), (10, 130), (20, 170), (40, 130), (45, 190), (50, 160)]);
        assert_eq!(all.kinds_over_time()[4], peak);
        assert_eq!(all.held_at(peak.at).map(|held| held.bytes).sum::<Bytes>(), peak.bytes);
        assert_eq!(all.held_at(TimeNs(50)).map(|held| held.bytes.0).collect::<Vec<_>>(), [100, 60]);
    }

    #[test]
    fn what_goes_at_an_instant_makes_room_for_what_comes_then() {
        let all = memory(vec![buffer(Holds::Other, 70, 0, 10), buffer(Holds::Other, 80, 10, 20)]);
        assert_eq!(all.peak().bytes, Bytes(80));
        let short = memory(vec![buffer(Holds::Other, 70, 5, 5)]);
        assert_eq!(short.peak().bytes, Bytes(70), "even what goes at once was there");
    }

    #[test]
    fn what_came_and_went_before_the_window_does_not_count() {
        let all = memory(vec![buffer(Holds::Other, 500, -20, -10), buffer(Holds::Other, 80, -5, 20)]);
        let peak = all.peak();
        assert_eq!((peak.bytes, peak.at), (Bytes(80), TimeNs(0)));
        assert_eq!(memory(Vec::new()).peak(), Peak::default());
    }
}

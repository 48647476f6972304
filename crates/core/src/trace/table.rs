//! The event columns: 29 bytes per event, arguments that few events have kept aside.
//!
//! Must not know what an event's arguments mean.

use std::cmp::Ordering;
use std::ops::Range;

use rayon::slice::ParallelSliceMut;
use rustc_hash::FxHashMap;

use super::TrackId;
use crate::intern::NameId;
use crate::units::{DurNs, TimeNs};

/// A row of the [`EventTable`]; ids follow the order of start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u32);

/// What kind of thing an event records, whatever its year called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Category {
    /// A framework operator on a host thread (`cpu_op`, `Operator`).
    Operator,
    /// A user annotation on a host thread (`ProfilerStep#3`, `Optimizer.step#SGD.step`).
    Annotation,
    /// A CUDA or HIP runtime or driver call.
    Runtime,
    /// A kernel on a stream.
    Kernel,
    /// A copy on a stream.
    Memcpy,
    /// A memset on a stream.
    Memset,
    /// A user annotation projected on a stream.
    GpuAnnotation,
    /// A recorded device, stream or event synchronisation (`cuda_sync`).
    Sync,
    /// A Python frame.
    Python,
    /// An allocation or release.
    Memory,
    /// Time the profiler itself took.
    Overhead,
    /// A range with hardware counters (`cuda_profiler_range`).
    CounterRange,
    /// Anything else with a time.
    Other,
}

impl Category {
    /// Whether events of this kind occupy a device stream.
    pub fn is_device_work(self) -> bool {
        matches!(self, Self::Kernel | Self::Memcpy | Self::Memset)
    }
}

/// One event, all columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Start, from the trace's origin.
    pub start: TimeNs,
    /// Length; never negative.
    pub dur: DurNs,
    /// Its name.
    pub name: NameId,
    /// Its kind.
    pub category: Category,
    /// The host thread or stream it ran on.
    pub track: TrackId,
    /// Joins device work to the call that launched it; 0 = none. Ids wider than 32 bits are renumbered on
    /// loading, which keeps equal ids equal.
    pub correlation: u32,
    /// The profiler's `External id`; 0 = none. Renumbered like `correlation`.
    pub external: u32,
}

impl Event {
    /// When it ended.
    pub fn end(&self) -> TimeNs {
        self.start + self.dur
    }
}

/// Durations of 2³² ns (4.3 s) and more are kept in `long_durations` and marked so in the column.
const LONG: u32 = u32::MAX;

/// Events as columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventTable {
    start: Vec<TimeNs>,
    dur: Vec<u32>,
    name: Vec<NameId>,
    category: Vec<Category>,
    track: Vec<TrackId>,
    correlation: Vec<u32>,
    external: Vec<u32>,
    long_durations: FxHashMap<u32, DurNs>,
}

impl EventTable {
    /// Appends an event. Order is the caller's business until [`Self::sort_by_start`].
    pub fn push(&mut self, event: &Event) -> EventId {
        let id = self.start.len() as u32;
        self.start.push(event.start);
        let dur = self.column_of(id, event.dur);
        self.dur.push(dur);
        self.name.push(event.name);
        self.category.push(event.category);
        self.track.push(event.track);
        self.correlation.push(event.correlation);
        self.external.push(event.external);
        EventId(id)
    }

    /// Appends the rows of `other` with what `row` makes of each name, track, correlation and external id.
    pub fn append(
        &mut self,
        other: &Self,
        name: impl Fn(NameId) -> NameId,
        track: impl Fn(TrackId) -> TrackId,
        correlation: impl Fn(u32) -> u32,
        external: impl Fn(u32) -> u32,
    ) {
        let first = self.len() as u32;
        self.start.extend_from_slice(&other.start);
        self.dur.extend_from_slice(&other.dur);
        self.name.extend(other.name.iter().map(|&own| name(own)));
        self.category.extend_from_slice(&other.category);
        self.track.extend(other.track.iter().map(|&own| track(own)));
        self.correlation.extend(other.correlation.iter().map(|&own| correlation(own)));
        self.external.extend(other.external.iter().map(|&own| external(own)));
        self.long_durations.extend(other.long_durations.iter().map(|(&id, &dur)| (first + id, dur)));
    }

    /// Takes all rows out and keeps their room.
    pub fn clear(&mut self) {
        self.start.clear();
        self.dur.clear();
        self.name.clear();
        self.category.clear();
        self.track.clear();
        self.correlation.clear();
        self.external.clear();
        self.long_durations.clear();
    }

    /// Makes room for `more` events.
    pub fn reserve(&mut self, more: usize) {
        self.start.reserve(more);
        self.dur.reserve(more);
        self.name.reserve(more);
        self.category.reserve(more);
        self.track.reserve(more);
        self.correlation.reserve(more);
        self.external.reserve(more);
    }

    /// Gives back the room to grow.
    pub fn shrink_to_fit(&mut self) {
        self.start.shrink_to_fit();
        self.dur.shrink_to_fit();
        self.name.shrink_to_fit();
        self.category.shrink_to_fit();
        self.track.shrink_to_fit();
        self.correlation.shrink_to_fit();
        self.external.shrink_to_fit();
        self.long_durations.shrink_to_fit();
    }

    /// Bytes that the columns hold on the heap, room to grow included.
    pub fn heap_bytes(&self) -> usize {
        self.start.capacity() * size_of::<TimeNs>()
            + self.dur.capacity() * size_of::<u32>()
            + self.name.capacity() * size_of::<NameId>()
            + self.category.capacity() * size_of::<Category>()
            + self.track.capacity() * size_of::<TrackId>()
            + self.correlation.capacity() * size_of::<u32>()
            + self.external.capacity() * size_of::<u32>()
            + self.long_durations.capacity() * size_of::<(u32, DurNs)>()
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// All ids in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = EventId> + ExactSizeIterator + use<> {
        (0..self.len() as u32).map(EventId)
    }

    /// The events that start in a span of time.
    pub fn within(&self, span: Range<TimeNs>) -> impl DoubleEndedIterator<Item = EventId> + ExactSizeIterator + use<> {
        let from = |time: TimeNs| self.start.partition_point(|&start| start < time) as u32;
        (from(span.start)..from(span.end).max(from(span.start))).map(EventId)
    }

    /// The whole row.
    pub fn get(&self, id: EventId) -> Event {
        let i = id.0 as usize;
        Event {
            start: self.start[i],
            dur: self.dur(id),
            name: self.name[i],
            category: self.category[i],
            track: self.track[i],
            correlation: self.correlation[i],
            external: self.external[i],
        }
    }

    /// Start of one event.
    pub fn start(&self, id: EventId) -> TimeNs {
        self.start[id.0 as usize]
    }

    /// Length of one event.
    pub fn dur(&self, id: EventId) -> DurNs {
        match self.dur[id.0 as usize] {
            LONG => self.long_durations.get(&id.0).copied().unwrap_or_default(),
            ns => DurNs(i64::from(ns)),
        }
    }

    /// End of one event.
    pub fn end(&self, id: EventId) -> TimeNs {
        self.start(id) + self.dur(id)
    }

    /// Changes the length of one event.
    pub fn set_dur(&mut self, id: EventId, dur: DurNs) {
        self.dur[id.0 as usize] = self.column_of(id.0, dur);
    }

    /// A length as the column has it.
    fn column_of(&mut self, row: u32, dur: DurNs) -> u32 {
        match u32::try_from(dur.0) {
            Ok(ns) if ns != LONG => ns,
            _ => {
                self.long_durations.insert(row, dur);
                LONG
            }
        }
    }

    /// Name of one event.
    pub fn name(&self, id: EventId) -> NameId {
        self.name[id.0 as usize]
    }

    /// Kind of one event.
    pub fn category(&self, id: EventId) -> Category {
        self.category[id.0 as usize]
    }

    /// Track of one event.
    pub fn track(&self, id: EventId) -> TrackId {
        self.track[id.0 as usize]
    }

    /// Correlation id of one event; 0 = none.
    pub fn correlation(&self, id: EventId) -> u32 {
        self.correlation[id.0 as usize]
    }

    /// External id of one event; 0 = none.
    pub fn external(&self, id: EventId) -> u32 {
        self.external[id.0 as usize]
    }

    /// Subtracts `origin` from every start.
    pub fn rebase(&mut self, origin: TimeNs) {
        for start in &mut self.start {
            start.0 = start.0.saturating_sub(origin.0);
        }
    }

    /// Moves the start of the chosen events by `by`; order is the caller's business, as with [`Self::push`].
    pub fn delay(&mut self, by: DurNs, is_chosen: impl Fn(&Self, EventId) -> bool) {
        for id in self.ids() {
            if is_chosen(self, id) {
                let start = &mut self.start[id.0 as usize];
                start.0 = start.0.saturating_add(by.0);
            }
        }
    }

    /// Keeps the rows in `kept`, which are numbered from 0 afterwards.
    pub fn keep(&mut self, kept: Range<usize>) {
        keep(&mut self.start, &kept);
        keep(&mut self.dur, &kept);
        keep(&mut self.name, &kept);
        keep(&mut self.category, &kept);
        keep(&mut self.track, &kept);
        keep(&mut self.correlation, &kept);
        keep(&mut self.external, &kept);
        let long = std::mem::take(&mut self.long_durations).into_iter();
        let long = long.filter(|(id, _)| kept.contains(&(*id as usize)));
        self.long_durations = long.map(|(id, dur)| (id - kept.start as u32, dur)).collect();
    }

    /// Orders the events by start, then longest first, then as pushed.
    ///
    /// # Returns
    /// The old id of each new row, for side tables to follow; `None` when nothing moved.
    pub fn sort_by_start(&mut self) -> Option<Vec<u32>> {
        // A stable sort of keys that carry their row: it keeps the order of equal ones and takes the sorted runs that
        // traces are made of as they are.
        let mut keys: Vec<(TimeNs, std::cmp::Reverse<u32>, u32)> =
            (0..self.len()).map(|i| (self.start[i], std::cmp::Reverse(self.dur[i]), i as u32)).collect();
        let before = |a: &(TimeNs, std::cmp::Reverse<u32>, u32), b: &(TimeNs, std::cmp::Reverse<u32>, u32)| {
            let longest_first = || self.dur(EventId(b.2)).cmp(&self.dur(EventId(a.2)));
            (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| if a.1.0 == LONG { longest_first() } else { Ordering::Equal })
        };
        if keys.is_sorted_by(|a, b| before(a, b).is_le()) {
            return None;
        }
        // On one thread the library's own sort is the faster one.
        if rayon::current_num_threads() > 1 {
            keys.par_sort_by(before);
        } else {
            keys.sort_by(before);
        }
        let order: Vec<u32> = keys.into_iter().map(|(_, _, row)| row).collect();
        let long_durations = std::mem::take(&mut self.long_durations);
        if !long_durations.is_empty() {
            for (new, old) in order.iter().enumerate() {
                if let Some(&dur) = long_durations.get(old) {
                    self.long_durations.insert(new as u32, dur);
                }
            }
        }
        let Self { start, dur, name, category, track, correlation, external, .. } = self;
        rayon::scope(|scope| {
            scope.spawn(|_| permute(start, &order));
            scope.spawn(|_| permute(dur, &order));
            scope.spawn(|_| permute(name, &order));
            scope.spawn(|_| permute(category, &order));
            scope.spawn(|_| permute(track, &order));
            scope.spawn(|_| permute(correlation, &order));
            scope.spawn(|_| permute(external, &order));
        });
        Some(order)
    }
}

fn keep<T>(column: &mut Vec<T>, kept: &Range<usize>) {
    column.truncate(kept.end);
    column.drain(..kept.start);
}

fn permute<T: Copy>(column: &mut Vec<T>, order: &[u32]) {
    *column = order.iter().map(|&old| column[old as usize]).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(start: i64, dur: i64) -> Event {
        Event {
            start: TimeNs(start),
            dur: DurNs(dur),
            name: NameId(0),
            category: Category::Operator,
            track: TrackId(0),
            correlation: 0,
            external: 0,
        }
    }

    #[test]
    fn rows_that_are_kept_are_numbered_anew_with_their_long_durations() {
        let mut table = EventTable::default();
        for (start, dur) in [(0, 1), (1, 5_000_000_000), (2, 3), (3, 6_000_000_000)] {
            table.push(&event(start, dur));
        }
        table.keep(1..3);
        let rows: Vec<(i64, i64)> = table.ids().map(|id| (table.start(id).0, table.dur(id).0)).collect();
        assert_eq!((rows, table.long_durations.len()), (vec![(1, 5_000_000_000), (2, 3)], 1));
    }

    #[test]
    fn sorting_puts_earlier_and_longer_first_and_keeps_long_durations() {
        let mut table = EventTable::default();
        for (start, dur) in [(5, 1), (0, 10), (0, 5_000_000_000), (5, 1)] {
            table.push(&event(start, dur));
        }
        let order = table.sort_by_start();
        assert_eq!(order, Some(vec![2, 1, 0, 3]));
        let rows: Vec<(i64, i64)> = table.ids().map(|id| (table.start(id).0, table.dur(id).0)).collect();
        assert_eq!(rows, [(0, 5_000_000_000), (0, 10), (5, 1), (5, 1)]);
        assert_eq!(table.sort_by_start(), None);
    }
}

//! Density: how busy a lane is in each cell of a row of the screen, exactly, whatever the number of events.
//!
//! A lane's intervals are flattened to disjoint pieces in order; prefix sums of their length give the busy time up to
//! any instant, an index by time finds the piece, and maxima over blocks find the longest piece of a cell.
//! Knows no screen: a cell is a share of a time range.

mod longest;

use std::ops::Range;

use crate::units::{DurNs, TimeNs};

use longest::{FEWEST, Longest, Ranked};

/// Something that occupies a lane from `start` to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// When it starts.
    pub start: TimeNs,
    /// When it ends.
    pub end: TimeNs,
    /// What it is, in the caller's terms (a task, an event).
    pub key: u32,
}

/// One cell of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// Share of the cell's time in which the lane is busy, from 0 to 1.
    pub busy: f32,
    /// Key of the longest piece in the cell; `None` when the lane is idle throughout. Of equally long ones the first.
    /// In a cell of 64 pieces or more up to an eighth of them at each end is not looked at, and lengths count up to 4.3 s.
    pub key: Option<u32>,
}

/// Where a piece starts, and the busy time of all pieces before it. Its length is the next one's `busy` less its own.
#[derive(Clone, Copy, Debug)]
struct Mark {
    start: i64,
    busy: i64,
}

/// An instant: how many pieces start at or before it, and the busy time before it.
#[derive(Clone, Copy, Debug)]
struct Edge {
    time: i64,
    reached: usize,
    busy: i64,
}

/// The pieces of one lane, indexed by time; 22 bytes each.
///
/// Where intervals nest or overlap, a piece belongs to the one that started last, so an outer one shows where no
/// inner one covers it.
#[derive(Clone, Debug, Default)]
pub struct Density {
    /// One per piece, and one that closes the last.
    marks: Vec<Mark>,
    keys: Vec<u32>,
    bins: Bins,
    longest: Longest,
}

/// First piece at or after the start of each bin of time; bins are `2^shift` ns wide.
#[derive(Clone, Debug, Default)]
struct Bins {
    origin: i64,
    shift: u32,
    first: Vec<u32>,
}

/// Times further from 0 than this (73 years) are moved here, so that differences do not overflow.
const FURTHEST: i64 = i64::MAX / 4;

fn bounded(time: TimeNs) -> i64 {
    time.0.clamp(-FURTHEST, FURTHEST)
}

/// Pieces per bin, on average.
const PER_BIN: usize = 4;

impl Density {
    /// Indexes a lane. Intervals may come in any order, nest and overlap; empty ones are left out.
    ///
    /// # Complexity
    /// O(n) when they come in order of start, longest first where equal; else O(n log n).
    pub fn build(intervals: impl IntoIterator<Item = Interval>) -> Self {
        let bounded = |it: Interval| Interval { start: TimeNs(bounded(it.start)), end: TimeNs(bounded(it.end)), ..it };
        let mut intervals: Vec<Interval> = intervals.into_iter().map(bounded).filter(|it| it.end > it.start).collect();
        let order = |it: &Interval| (it.start, std::cmp::Reverse(it.end));
        if !intervals.is_sorted_by_key(order) {
            intervals.sort_by_key(order);
        }
        let mut pieces = Pieces::for_at_least(intervals.len());
        for interval in &intervals {
            pieces.add(*interval);
        }
        let Pieces { marks, keys, .. } = pieces.finish();
        let bins = Bins::new(&marks[..keys.len()]);
        let length = |i: usize| u32::try_from(marks[i + 1].busy - marks[i].busy).unwrap_or(u32::MAX);
        let longest = Longest::new(keys.iter().enumerate().map(|(i, &key)| Ranked { length: length(i), key }));
        Self { marks, keys, bins, longest }
    }

    /// From the start of the first piece to the end of the last; `None` when there is none.
    pub fn span(&self) -> Option<Range<TimeNs>> {
        let last = self.keys.len().checked_sub(1)?;
        Some(self.piece(0).start..self.piece(last).end)
    }

    /// Busy time within `range`.
    pub fn busy(&self, range: Range<TimeNs>) -> DurNs {
        DurNs((self.busy_until(bounded(range.end)) - self.busy_until(bounded(range.start))).max(0))
    }

    /// Divides `range` into `columns` cells and writes them into `cells`, which is emptied first.
    ///
    /// A cell narrower than 1 ns is busy when its instant is.
    ///
    /// # Complexity
    /// O(columns), each with a look-up that costs O(log n) in the worst distribution of events over time.
    pub fn cells(&self, range: Range<TimeNs>, columns: usize, cells: &mut Vec<Cell>) {
        cells.clear();
        let (start, count) = (bounded(range.start), columns.max(1) as i64);
        let span = bounded(range.end) - start;
        let (step, rest) = (span.div_euclid(count), span.rem_euclid(count));
        // Without overflow and exactly: start + span · i / columns.
        let edge = |i: usize| start + step * i as i64 + rest * i as i64 / count;
        // One kind of look-up after another for all edges: those of one kind do not wait for one another's memory.
        let places: Vec<_> = (0..=columns).map(|i| self.bins.around(edge(i), self.keys.len())).collect();
        let edges: Vec<Edge> = places.into_iter().enumerate().map(|(i, place)| self.edge(edge(i), place)).collect();
        cells.extend(edges.windows(2).map(|pair| self.cell(pair[0], pair[1])));
    }

    /// The piece that covers `time`: the innermost of nested intervals.
    pub fn at(&self, time: TimeNs) -> Option<Interval> {
        let piece = self.piece(self.reached(time.0).checked_sub(1)?);
        (piece.end > time).then_some(piece)
    }

    /// The pieces that overlap `range`, in order, whole.
    pub fn visible(&self, range: Range<TimeNs>) -> impl Iterator<Item = Interval> + '_ {
        let first = self.reached(range.start.0);
        let covers = first > 0 && self.piece(first - 1).end > range.start;
        (first - usize::from(covers)..self.keys.len())
            .map(|i| self.piece(i))
            .take_while(move |piece| piece.start < range.end)
    }

    /// The first piece that starts after `time`.
    pub fn next(&self, time: TimeNs) -> Option<Interval> {
        let next = self.reached(time.0);
        (next < self.keys.len()).then(|| self.piece(next))
    }

    /// The last piece that ends at or before `time`.
    pub fn previous(&self, time: TimeNs) -> Option<Interval> {
        let last = self.reached(time.0).checked_sub(1)?;
        let before = if self.piece(last).end <= time { last } else { last.checked_sub(1)? };
        Some(self.piece(before))
    }

    fn piece(&self, i: usize) -> Interval {
        let Mark { start, busy } = self.marks[i];
        let end = start + (self.marks[i + 1].busy - busy);
        Interval { start: TimeNs(start), end: TimeNs(end), key: self.keys[i] }
    }

    /// How many pieces start at or before `time`.
    fn reached(&self, time: i64) -> usize {
        self.reached_within(time, self.bins.around(time, self.keys.len()))
    }

    fn reached_within(&self, time: i64, (low, high): (usize, usize)) -> usize {
        low + self.marks[low..high].partition_point(|mark| mark.start <= time)
    }

    fn busy_until(&self, time: i64) -> i64 {
        self.edge(time, self.bins.around(time, self.keys.len())).busy
    }

    /// An instant, where the number of pieces that start at or before it lies between the bounds `place`.
    fn edge(&self, time: i64, place: (usize, usize)) -> Edge {
        let reached = self.reached_within(time, place);
        let Some(last) = reached.checked_sub(1) else { return Edge { time, reached, busy: 0 } };
        let Mark { start, busy } = self.marks[last];
        Edge { time, reached, busy: (busy + (time - start)).min(self.marks[reached].busy) }
    }

    fn cell(&self, from: Edge, to: Edge) -> Cell {
        if to.time <= from.time {
            let key = self.at(TimeNs(from.time)).map(|piece| piece.key);
            return Cell { busy: if key.is_some() { 1.0 } else { 0.0 }, key };
        }
        let busy = to.busy - from.busy;
        if busy <= 0 {
            return Cell::default();
        }
        let share = busy as f64 / (to.time - from.time) as f64;
        Cell { busy: share as f32, key: self.dominant(from, to) }
    }

    /// Key of the piece with the largest part between two instants.
    fn dominant(&self, from: Edge, to: Edge) -> Option<u32> {
        if to.reached - from.reached >= FEWEST {
            return self.longest.within(from.reached..to.reached);
        }
        let (mut longest, mut found) = (0, None);
        for i in from.reached.saturating_sub(1)..to.reached {
            let Mark { start, busy } = self.marks[i];
            let end = start + (self.marks[i + 1].busy - busy);
            let part = end.min(to.time) - start.max(from.time);
            if part > longest {
                (longest, found) = (part, Some(i));
            }
        }
        found.map(|i| self.keys[i])
    }
}

impl Bins {
    fn new(marks: &[Mark]) -> Self {
        let (Some(first), Some(last)) = (marks.first(), marks.last()) else { return Self::default() };
        let span = last.start.abs_diff(first.start);
        let wanted = (marks.len() / PER_BIN).max(1) as u64;
        let shift = (span / wanted).max(1).ilog2();
        let count = (span >> shift) as usize + 1;
        let mut bins = Self { origin: first.start, shift, first: Vec::with_capacity(count + 1) };
        for (i, mark) in marks.iter().enumerate() {
            let bin = (mark.start.abs_diff(first.start) >> shift) as usize;
            if bins.first.len() <= bin {
                bins.first.resize(bin + 1, i as u32);
            }
        }
        bins.first.push(marks.len() as u32);
        bins
    }

    /// Bounds between which the number of pieces that start at or before `time` lies.
    fn around(&self, time: i64, pieces: usize) -> (usize, usize) {
        if time < self.origin {
            return (0, 0);
        }
        let bin = (time.abs_diff(self.origin) >> self.shift) as usize;
        match (self.first.get(bin), self.first.get(bin + 1)) {
            (Some(&low), Some(&high)) => (low as usize, high as usize),
            _ => (pieces, pieces),
        }
    }
}

/// Flattens intervals that come in order.
#[derive(Default)]
struct Pieces {
    marks: Vec<Mark>,
    keys: Vec<u32>,
    busy: i64,
    /// Up to where all is written.
    written: i64,
    /// Running intervals, the innermost last.
    open: Vec<Interval>,
}

impl Pieces {
    fn for_at_least(count: usize) -> Self {
        Self { marks: Vec::with_capacity(count + 1), keys: Vec::with_capacity(count), ..Self::default() }
    }

    fn add(&mut self, next: Interval) {
        self.close_until(next.start.0);
        self.open.push(next);
        self.written = next.start.0;
    }

    /// Writes what runs before `time`.
    fn close_until(&mut self, time: i64) {
        while let Some(&inner) = self.open.last() {
            self.write(inner.key, inner.end.0.min(time));
            if inner.end.0 > time {
                return;
            }
            self.open.pop();
        }
        self.written = time;
    }

    fn write(&mut self, key: u32, until: i64) {
        if until > self.written {
            self.marks.push(Mark { start: self.written, busy: self.busy });
            self.keys.push(key);
            self.busy = self.busy.saturating_add(until - self.written);
            self.written = until;
        }
    }

    fn finish(mut self) -> Self {
        self.close_until(i64::MAX);
        self.marks.push(Mark { start: i64::MAX, busy: self.busy });
        self
    }
}

#[cfg(test)]
mod tests;

//! Beginnings and ends of events (phases `B` and `E`) → which belong together.
//!
//! Files are not sorted, so pairs are found once all are read: in order of time on each thread, an end closes the youngest event that
//! is open, or the youngest of its name where it has one. Must not know what the events are.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::trace::EventId;
use crate::units::{DurNs, TimeNs};

/// A process and a thread in it.
pub(super) type Lane = (i64, i64);

/// A beginning or an end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// When.
    pub(super) at: TimeNs,
    /// A hash of the event's name; 0 where none is given.
    pub(super) name: u64,
    /// The byte of the file where it stood.
    pub(super) offset: u64,
    /// The event that begins; `None` for an end.
    pub(super) begun: Option<EventId>,
}

/// Marks of all threads, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    lanes: BTreeMap<Lane, Vec<Mark>>,
}

/// What belongs together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Paired {
    /// Events with their lengths.
    pub(super) lengths: Vec<(EventId, DurNs)>,
    /// Events that never end, in order.
    pub(super) endless: Vec<EventId>,
    /// Where the ends of no event stood, in order.
    pub(super) loose_ends: Vec<u64>,
}

impl Pairs {
    /// Takes a mark on a thread.
    pub(super) fn add(&mut self, lane: Lane, mark: Mark) {
        self.lanes.entry(lane).or_default().push(mark);
    }

    /// Pairs the marks of each thread.
    ///
    /// # Complexity
    /// O(marks · log marks).
    pub(super) fn close(self) -> Paired {
        let mut paired = Paired::default();
        for marks in self.lanes.into_values() {
            pair(marks, &mut paired);
        }
        paired.endless.sort_unstable();
        paired.loose_ends.sort_unstable();
        paired
    }
}

/// Pairs the marks of one thread. Those of one time are taken as they stand where the whole thread is in order of time. Elsewhere their
/// order tells nothing: ends of what is open come first, then beginnings, then the ends of what begins just then.
fn pair(mut marks: Vec<Mark>, paired: &mut Paired) {
    let in_order = marks.is_sorted_by_key(|mark| mark.at);
    if !in_order {
        marks.sort_by_key(|mark| mark.at);
    }
    let mut open = Open::default();
    for together in marks.chunk_by(|a, b| a.at == b.at) {
        if in_order {
            for mark in together {
                take(mark, &mut open, paired);
            }
            continue;
        }
        let (begins, ends): (Vec<&Mark>, Vec<&Mark>) = together.iter().partition(|mark| mark.begun.is_some());
        let mut later = Vec::new();
        for end in ends {
            if open.youngest_of(end.name).is_some() { take(end, &mut open, paired) } else { later.push(end) }
        }
        for mark in begins.into_iter().chain(later) {
            take(mark, &mut open, paired);
        }
    }
    paired.endless.extend(open.all.into_iter().flatten().map(|(event, _)| event));
}

/// Opens an event, or closes the one that `mark` ends.
fn take(mark: &Mark, open: &mut Open, paired: &mut Paired) {
    if let Some(event) = mark.begun {
        open.push(event, mark);
        return;
    }
    match open.close(mark.name) {
        Some((event, begin)) => paired.lengths.push((event, mark.at.since(begin.at))),
        None => paired.loose_ends.push(mark.offset),
    }
}

/// The events of a thread that are open, oldest first.
#[derive(Default)]
struct Open {
    /// Each with its beginning; `None` for one that was closed before younger ones.
    all: Vec<Option<(EventId, Mark)>>,
    /// By name where in `all` its events were pushed, in order; what is there may be closed since, or another one.
    of_name: FxHashMap<u64, Vec<usize>>,
}

impl Open {
    fn push(&mut self, event: EventId, begin: &Mark) {
        self.of_name.entry(begin.name).or_default().push(self.all.len());
        self.all.push(Some((event, *begin)));
    }

    /// The place of the youngest one that an end with `name` may close, by its name; of any where it has none.
    fn youngest_of(&mut self, name: u64) -> Option<usize> {
        if name == 0 {
            return self.all.len().checked_sub(1);
        }
        let places = self.of_name.get_mut(&name)?;
        while let Some(&place) = places.last() {
            if self.all.get(place).is_some_and(|there| there.is_some_and(|(_, begin)| begin.name == name)) {
                return Some(place);
            }
            places.pop();
        }
        None
    }

    /// Closes the youngest one of `name`, else the youngest of all.
    fn close(&mut self, name: u64) -> Option<(EventId, Mark)> {
        let place = self.youngest_of(name).or(self.all.len().checked_sub(1))?;
        let closed = self.all[place].take();
        while self.all.last().is_some_and(Option::is_none) {
            self.all.pop();
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs marks such as `A0` (A begins at 0), `.10` (an end without a name) and `/A10` (the end of A).
    fn paired(marks: &str) -> (Vec<(char, i64)>, Vec<char>, Vec<u64>) {
        let (mut pairs, mut names) = (Pairs::default(), Vec::new());
        for (offset, mark) in marks.split_whitespace().enumerate() {
            let is_end = mark.starts_with(['.', '/']);
            let number = mark.trim_start_matches(|c: char| !c.is_ascii_digit());
            let name = mark.trim_start_matches(['.', '/']).chars().next().filter(char::is_ascii_alphabetic);
            let begun = (!is_end).then(|| {
                names.push(name.unwrap());
                EventId(names.len() as u32 - 1)
            });
            let at = TimeNs(number.parse().unwrap());
            let name = name.map_or(0, u64::from);
            pairs.add((1, 1), Mark { at, name, offset: offset as u64, begun });
        }
        let found = pairs.close();
        let of = |id: EventId| names[id.0 as usize];
        let mut lengths: Vec<(char, i64)> = found.lengths.iter().map(|(id, dur)| (of(*id), dur.0)).collect();
        lengths.sort_unstable();
        (lengths, found.endless.into_iter().map(of).collect(), found.loose_ends)
    }

    fn lengths(marks: &str) -> Vec<(char, i64)> {
        let (lengths, endless, loose) = paired(marks);
        assert!(endless.is_empty() && loose.is_empty(), "{marks}: {endless:?} {loose:?}");
        lengths
    }

    #[test]
    fn pairs_are_those_in_order_of_time_wherever_they_stand() {
        assert_eq!(lengths("A0 B1000 .10 .1500"), [('A', 10), ('B', 500)]);
        assert_eq!(lengths(".50 A0 .60 B10"), [('A', 60), ('B', 40)]);
        assert_eq!(lengths("A0 B10 .20 .30"), [('A', 30), ('B', 10)]);
    }

    #[test]
    fn what_begins_where_another_ends_is_not_of_no_length() {
        assert_eq!(lengths("A0 .10 B10 .20"), [('A', 10), ('B', 10)]);
        assert_eq!(lengths(".20 A0 B10 .10"), [('A', 10), ('B', 10)]);
        assert_eq!(lengths("/B10 /A20 A0 B10"), [('A', 20), ('B', 0)], "names tell");
        assert_eq!(lengths("A0 B10 /A10 /B20"), [('A', 10), ('B', 10)], "names tell");
    }

    #[test]
    fn what_is_of_no_length_stays_so_in_a_file_that_is_in_order() {
        assert_eq!(lengths("A0 B10 .10 C10 .10 .20"), [('A', 20), ('B', 0), ('C', 0)]);
    }

    #[test]
    fn ends_before_beginnings_are_of_no_event() {
        assert_eq!(paired("A100 .50"), (vec![], vec!['A'], vec![1]));
        assert_eq!(paired("A0 B1 .5"), (vec![('B', 4)], vec!['A'], vec![]));
    }

    #[test]
    fn ends_of_other_names_close_the_youngest_in_one_pass() {
        assert_eq!(lengths("A0 B1 A2 /C3 /B4 /A5"), [('A', 1), ('A', 5), ('B', 3)]);
        let mut pairs = Pairs::default();
        let count = 400_000;
        for at in 0..2 * count {
            let begun = (at < count).then_some(EventId(at));
            let mark = Mark { at: TimeNs(at.into()), name: 1 + u64::from(at >= count), offset: at.into(), begun };
            pairs.add((1, 1), mark);
        }
        let began = std::time::Instant::now();
        let found = pairs.close();
        // One by one through all that are open it would take 80 billion comparisons.
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
        assert_eq!((found.lengths.len(), found.endless.len(), found.loose_ends.len()), (count as usize, 0, 0));
        assert_eq!(found.lengths[0], (EventId(count - 1), DurNs(1)));
    }
}

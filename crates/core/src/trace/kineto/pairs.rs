//! Beginnings and ends of events (phases `B` and `E`) → which belong together.
//!
//! Files are not sorted, so pairs are found once all are read: in order of time on each thread, an end closes the youngest event that
//! is open, or the youngest of its name where it has one. Must not know what the events are.

use std::collections::BTreeMap;

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
    /// O(marks · log marks), times the depth of nesting where names of ends are not those of the events that are open.
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
    let mut open: Vec<(EventId, Mark)> = Vec::new();
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
            let is_of_open = open.iter().any(|(_, begin)| is_named_alike(begin, end));
            if is_of_open { take(end, &mut open, paired) } else { later.push(end) }
        }
        for mark in begins.into_iter().chain(later) {
            take(mark, &mut open, paired);
        }
    }
    paired.endless.extend(open.into_iter().map(|(event, _)| event));
}

/// Opens an event, or closes the one that `mark` ends.
fn take(mark: &Mark, open: &mut Vec<(EventId, Mark)>, paired: &mut Paired) {
    if let Some(event) = mark.begun {
        open.push((event, *mark));
        return;
    }
    let named = open.iter().rposition(|(_, begin)| is_named_alike(begin, mark));
    match named.or(open.len().checked_sub(1)) {
        Some(at) => {
            let (event, begin) = open.remove(at);
            paired.lengths.push((event, mark.at.since(begin.at)));
        }
        None => paired.loose_ends.push(mark.offset),
    }
}

/// Whether `end` may end `begin` by its name.
fn is_named_alike(begin: &Mark, end: &Mark) -> bool {
    end.name == 0 || end.name == begin.name
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
}

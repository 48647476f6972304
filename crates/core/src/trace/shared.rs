//! Arguments that many events have alike: each distinct value is kept once, and events name it by four bytes.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::{EventId, SideTable};

/// Values for some events, ordered by event.
#[derive(Clone, Debug)]
pub struct SharedTable<T> {
    rows: SideTable<u32>,
    /// Distinct values in order of first appearance.
    values: Vec<T>,
    /// Where each is; empty once the table is finished.
    known: FxHashMap<T, u32>,
}

impl<T> Default for SharedTable<T> {
    fn default() -> Self {
        Self { rows: SideTable::default(), values: Vec::new(), known: FxHashMap::default() }
    }
}

impl<T: PartialEq> PartialEq for SharedTable<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows && self.values == other.values
    }
}

impl<T: Eq> Eq for SharedTable<T> {}

impl<T: Copy + Eq + Hash> SharedTable<T> {
    /// Appends a value. Events must come in rising order, or [`Self::renumber`] must follow.
    pub fn push(&mut self, event: EventId, value: T) {
        let row = self.row(value);
        self.rows.push(event, row);
    }

    fn row(&mut self, value: T) -> u32 {
        *self.known.entry(value).or_insert_with(|| {
            self.values.push(value);
            self.values.len() as u32 - 1
        })
    }

    /// Takes the rows of `other` behind its own: its events are numbered on from `first`.
    pub fn append(&mut self, other: &mut Self, first: u32) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.append(&mut other.rows, first, |row| self.row(other.values[row as usize]));
        self.rows = rows;
    }
}

impl<T> SharedTable<T> {
    /// The value of `event`, found by binary search.
    pub fn get(&self, event: EventId) -> Option<&T> {
        self.values.get(*self.rows.get(event)? as usize)
    }

    /// All rows in order of event.
    pub fn iter(&self) -> impl Iterator<Item = (EventId, &T)> {
        self.rows.iter().map(|(event, &row)| (event, &self.values[row as usize]))
    }

    /// How many events have a value.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether no event has one.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Ends the table, which nothing is added to any more: gives back the room to grow.
    pub fn shrink_to_fit(&mut self) {
        self.rows.shrink_to_fit();
        self.values.shrink_to_fit();
        self.known = FxHashMap::default();
    }

    /// Keeps the rows of the events `kept`, which are numbered from 0 afterwards.
    pub fn keep(&mut self, kept: &std::ops::Range<usize>) {
        self.rows.keep(kept);
    }

    /// Follows a reordering of the events: `new_of_old[old id] = new id`.
    pub fn renumber(&mut self, new_of_old: &[u32]) {
        self.rows.renumber(new_of_old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_kept_once_and_found_by_event_in_either_of_two_parts() {
        let (mut whole, mut piece) = (SharedTable::default(), SharedTable::default());
        for (event, value) in [(0, 'a'), (2, 'b'), (3, 'a')] {
            whole.push(EventId(event), value);
        }
        for (event, value) in [(0, 'c'), (1, 'b')] {
            piece.push(EventId(event), value);
        }
        whole.append(&mut piece, 5);
        assert_eq!(whole.values, ['a', 'b', 'c']);
        let found: Vec<(u32, char)> = whole.iter().map(|(event, &value)| (event.0, value)).collect();
        assert_eq!(found, [(0, 'a'), (2, 'b'), (3, 'a'), (5, 'c'), (6, 'b')]);
        assert_eq!((whole.get(EventId(6)), whole.get(EventId(1)), piece.len()), (Some(&'b'), None, 0));
        piece.push(EventId(0), 'b');
        whole.append(&mut piece, 7);
        assert_eq!((whole.get(EventId(7)), whole.values.len()), (Some(&'b'), 3));
    }
}

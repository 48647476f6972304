//! Rows within rows, of which some are folded away.

use std::collections::BTreeSet;

/// A row that others may lie in.
pub trait Row {
    /// The labels from the root down, which name the row whatever the order.
    fn path(&self) -> &str;
    /// How far it is indented.
    fn depth(&self) -> usize;
    /// One past the last row inside it, in the list of all rows.
    fn end(&self) -> usize;
    /// Whether the rows inside it are shown until told otherwise.
    fn is_open(&self) -> bool;
}

/// All rows of a table and those that are shown.
#[derive(Clone, Debug)]
pub struct Rows<T> {
    /// All of them, each before those inside it.
    pub all: Vec<T>,
    visible: Vec<usize>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { all: Vec::new(), visible: Vec::new() }
    }
}

/// Rows within rows, whatever they are about.
pub trait Tree {
    /// How many are shown.
    fn count(&self) -> usize;
    /// Shows the rows inside those that are open; `toggled` are the paths of rows that are not as at first.
    fn expand(&mut self, toggled: &BTreeSet<String>);
    /// What names the row shown at `row`.
    fn path(&self, row: usize) -> Option<&str>;
    /// Whether there are rows inside that of `row`, and whether they are shown.
    fn nesting(&self, row: usize) -> Option<Nesting>;
    /// The row that the one in `row` lies in.
    fn parent(&self, row: usize) -> Option<usize>;
    /// `toggled` as it is once all rows are open, or all are folded but one that has all others inside it.
    fn retoggled(&self, toggled: &BTreeSet<String>, is_open: bool) -> BTreeSet<String>;
    /// `toggled` as it is once the rows that have `text`, which is lower case, in their label lie in open ones.
    fn opened_to(&self, toggled: &BTreeSet<String>, text: &str) -> BTreeSet<String>;
}

/// What stands between the labels of a path.
const BETWEEN: char = '\u{1f}';

/// Whether there is something inside a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// Nothing.
    Leaf,
    /// Rows that are shown.
    Expanded,
    /// Rows that are not.
    Collapsed,
}

impl<T: Row> Rows<T> {
    /// The rows of `all`, as open as they are at first.
    pub fn new(all: Vec<T>) -> Self {
        let mut rows = Self { all, visible: Vec::new() };
        rows.expand(&BTreeSet::new());
        rows
    }

    /// The row shown at `row`.
    pub fn get(&self, row: usize) -> Option<&T> {
        self.all.get(*self.visible.get(row)?)
    }
}

impl<T: Row> Tree for Rows<T> {
    fn count(&self) -> usize {
        self.visible.len()
    }

    fn expand(&mut self, toggled: &BTreeSet<String>) {
        self.visible.clear();
        let mut index = 0;
        while let Some(row) = self.all.get(index) {
            self.visible.push(index);
            index = if row.is_open() ^ toggled.contains(row.path()) { index + 1 } else { row.end() };
        }
    }

    fn path(&self, row: usize) -> Option<&str> {
        self.get(row).map(Row::path)
    }

    fn nesting(&self, row: usize) -> Option<Nesting> {
        let &index = self.visible.get(row)?;
        let inner = index + 1;
        if self.all[index].end() <= inner {
            return Some(Nesting::Leaf);
        }
        Some(if self.visible.get(row + 1) == Some(&inner) { Nesting::Expanded } else { Nesting::Collapsed })
    }

    fn parent(&self, row: usize) -> Option<usize> {
        let depth = self.get(row)?.depth();
        (0..row).rev().find(|&above| self.get(above).is_some_and(|row| row.depth() < depth))
    }

    fn retoggled(&self, toggled: &BTreeSet<String>, is_open: bool) -> BTreeSet<String> {
        let mut toggled = toggled.clone();
        for row in &self.all {
            if row.is_open() == (is_open || self.is_root(row)) {
                toggled.remove(row.path());
            } else {
                toggled.insert(row.path().to_owned());
            }
        }
        toggled
    }

    fn opened_to(&self, toggled: &BTreeSet<String>, text: &str) -> BTreeSet<String> {
        let mut toggled = toggled.clone();
        let mut around: Vec<&T> = Vec::new();
        for row in &self.all {
            around.truncate(row.depth());
            let label = row.path().rsplit(BETWEEN).next().unwrap_or("");
            if label.to_lowercase().contains(text) {
                for outer in &around {
                    if outer.is_open() {
                        toggled.remove(outer.path());
                    } else {
                        toggled.insert(outer.path().to_owned());
                    }
                }
            }
            around.push(row);
        }
        toggled
    }
}

impl<T: Row> Rows<T> {
    /// Whether `row` is the one that all others lie in.
    fn is_root(&self, row: &T) -> bool {
        row.depth() == 0 && row.end() == self.all.len()
    }
}

//! Dependencies that edits added, each found from the tasks at its ends without a search.

use petgraph::Direction::{self, Incoming};

use super::{Link, Node};

/// Marks the end of a list.
const NONE: u32 = 0;

/// Dependencies in the order they were added, with those of each task as two lists: into it and out of it.
#[derive(Clone, Debug, Default)]
pub(in crate::scenario) struct Links {
    all: Vec<Link>,
    /// By link, one more than the next one into the same task, and out of the same task.
    next: Vec<[u32; 2]>,
    /// By numbered task, one more than its first link and its last, into it and out of it.
    ends: Vec<[[u32; 2]; 2]>,
}

impl Links {
    /// Adds a dependency.
    ///
    /// # Arguments
    /// `traced`: how many traced tasks there are; added ones are numbered after them.
    pub(super) fn push(&mut self, link: Link, traced: usize) {
        self.all.push(link);
        self.next.push([NONE; 2]);
        let new = self.all.len() as u32;
        for (side, node) in [link.to, link.from].into_iter().enumerate() {
            let number = node.number(traced) as usize;
            if self.ends.len() <= number {
                self.ends.resize(traced.max(number + 1), [[NONE; 2]; 2]);
            }
            let [first, last] = &mut self.ends[number][side];
            match *last {
                NONE => *first = new,
                last => self.next[last as usize - 1][side] = new,
            }
            *last = new;
        }
    }

    /// Makes room for `more`.
    pub(super) fn reserve(&mut self, more: usize) {
        self.all.reserve(more);
        self.next.reserve(more);
    }

    /// Whether none was ever added.
    pub(in crate::scenario) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Those in force, in the order they were added.
    pub(in crate::scenario) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.all.iter().filter(|link| !link.is_cut)
    }

    /// Those in force into a task or out of it, with their places, in the order they were added.
    pub(super) fn of(&self, node: Node, direction: Direction, traced: usize) -> impl Iterator<Item = (u32, &Link)> {
        let side = usize::from(direction != Incoming);
        let first = self.ends.get(node.number(traced) as usize).map_or(NONE, |ends| ends[side][0]);
        let known = |link: u32| link.checked_sub(1);
        let next = move |&link: &u32| known(self.next[link as usize][side]);
        std::iter::successors(known(first), next)
            .map(|link| (link, &self.all[link as usize]))
            .filter(|(_, link)| !link.is_cut)
    }

    /// Takes the one at `place` out.
    pub(super) fn cut(&mut self, place: u32) {
        self.all[place as usize].is_cut = true;
    }
}

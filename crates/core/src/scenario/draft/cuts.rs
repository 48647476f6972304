//! Traced dependencies that edits took out.

use petgraph::graph::EdgeIndex;

/// Dependencies, each once: as quick to ask as an array.
#[derive(Clone, Debug, Default)]
pub(in crate::scenario) struct Cuts {
    is_cut: Vec<bool>,
    all: Vec<EdgeIndex<u32>>,
}

impl Cuts {
    /// Takes `edge` out.
    pub(super) fn insert(&mut self, edge: EdgeIndex<u32>) {
        if self.is_cut.len() <= edge.index() {
            self.is_cut.resize(edge.index() + 1, false);
        }
        if !std::mem::replace(&mut self.is_cut[edge.index()], true) {
            self.all.push(edge);
        }
    }

    /// Whether `edge` was taken out.
    pub(in crate::scenario) fn contains(&self, edge: EdgeIndex<u32>) -> bool {
        self.is_cut.get(edge.index()) == Some(&true)
    }

    /// Whether none was taken out.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// All that were taken out, in the order they were.
    pub(in crate::scenario) fn iter(&self) -> impl Iterator<Item = EdgeIndex<u32>> + use<'_> {
        self.all.iter().copied()
    }
}

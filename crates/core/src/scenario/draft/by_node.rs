//! What is known of some of the traced tasks: as quick to ask as an array, as small as a list.

use crate::graph::NodeId;

/// A value for each of some traced tasks.
#[derive(Clone, Debug)]
pub(super) struct ByNode<T> {
    /// By task one more than the place of its value; 0 for one without.
    place: Vec<u32>,
    values: Vec<T>,
}

impl<T> Default for ByNode<T> {
    fn default() -> Self {
        Self { place: Vec::new(), values: Vec::new() }
    }
}

impl<T> ByNode<T> {
    fn place(&self, node: NodeId) -> Option<usize> {
        (*self.place.get(node.index())? as usize).checked_sub(1)
    }

    /// The value of `node`, where it has one.
    pub(super) fn get(&self, node: NodeId) -> Option<&T> {
        self.place(node).map(|place| &self.values[place])
    }

    /// Gives `node` a value, in place of the one it had.
    pub(super) fn insert(&mut self, node: NodeId, value: T) {
        if let Some(place) = self.place(node) {
            self.values[place] = value;
            return;
        }
        if self.place.len() <= node.index() {
            self.place.resize(node.index() + 1, 0);
        }
        self.values.push(value);
        self.place[node.index()] = self.values.len() as u32;
    }

    /// Takes the value of `node` away.
    pub(super) fn remove(&mut self, node: NodeId) {
        if let Some(place) = self.place.get_mut(node.index()) {
            *place = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_its_last_value_until_that_is_taken_away() {
        let mut values = ByNode::default();
        for (node, value) in [(7, 'a'), (2, 'b'), (7, 'c')] {
            values.insert(NodeId::new(node), value);
        }
        values.remove(NodeId::new(2));
        values.remove(NodeId::new(100));
        let found: Vec<_> = (0..9).map(|node| values.get(NodeId::new(node)).copied()).collect();
        assert_eq!(found, [None, None, None, None, None, None, None, Some('c'), None]);
        values.insert(NodeId::new(2), 'd');
        assert_eq!(values.get(NodeId::new(2)), Some(&'d'));
    }
}

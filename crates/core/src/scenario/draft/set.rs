//! A set of a draft's tasks: as quick to ask as an array, gone through in order, traced tasks first.

use crate::graph::NodeId;

use super::{AddedId, Node};

/// Tasks of a draft, each once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSet {
    traced: Vec<bool>,
    added: Vec<bool>,
    count: usize,
}

impl NodeSet {
    /// Whether it holds `node`.
    pub fn contains(&self, node: Node) -> bool {
        let found = match node {
            Node::Traced(node) => self.traced.get(node.index()),
            Node::Added(AddedId(id)) => self.added.get(id as usize),
        };
        found.copied().unwrap_or(false)
    }

    /// Puts `node` in; whether it was not there.
    pub fn insert(&mut self, node: Node) -> bool {
        let (list, at) = match node {
            Node::Traced(node) => (&mut self.traced, node.index()),
            Node::Added(AddedId(id)) => (&mut self.added, id as usize),
        };
        if list.len() <= at {
            list.resize(at + 1, false);
        }
        let is_new = !std::mem::replace(&mut list[at], true);
        self.count += usize::from(is_new);
        is_new
    }

    /// How many it holds.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its tasks: traced ones by node, then added ones by row.
    pub fn iter(&self) -> impl Iterator<Item = Node> {
        let places = |list: &[bool]| (0..list.len()).filter(|&at| list[at]).collect::<Vec<usize>>();
        let traced = places(&self.traced).into_iter().map(|at| Node::Traced(NodeId::new(at)));
        traced.chain(places(&self.added).into_iter().map(|at| Node::Added(AddedId(at as u32))))
    }
}

impl Extend<Node> for NodeSet {
    fn extend<I: IntoIterator<Item = Node>>(&mut self, nodes: I) {
        nodes.into_iter().for_each(|node| _ = self.insert(node));
    }
}

impl FromIterator<Node> for NodeSet {
    fn from_iter<I: IntoIterator<Item = Node>>(nodes: I) -> Self {
        let mut set = Self::default();
        set.extend(nodes);
        set
    }
}

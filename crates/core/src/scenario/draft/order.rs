//! The order of tasks on their lanes as it is now, with what edits added, moved and took out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::graph::LaneId;
use petgraph::visit::EdgeRef;

use super::{AddedId, Draft, Node};

impl Draft<'_> {
    /// The chosen tasks of every lane, as they follow one another.
    ///
    /// # Complexity
    /// O(tasks + dependencies) on the lanes that edits changed, times the logarithm of their number; O(tasks) besides.
    pub fn in_order(&self, chosen: impl Fn(Node) -> bool) -> BTreeMap<LaneId, Vec<Node>> {
        let changed = self.changed_lanes();
        let mut lanes: Vec<Vec<Node>> = vec![Vec::new(); changed.len()];
        let traced = self.graph().tasks.node_indices().map(Node::Traced);
        let added = (0..self.structure.added.len() as u32).map(|id| Node::Added(AddedId(id)));
        for node in traced.chain(added) {
            let lane = self.lane_of(node).0 as usize;
            if changed[lane] || (!self.is_gone(node) && chosen(node)) {
                lanes[lane].push(node);
            }
        }
        let in_order = |(lane, nodes): (usize, Vec<Node>)| {
            let nodes = if changed[lane] {
                self.sorted(nodes).into_iter().filter(|&node| !self.is_gone(node) && chosen(node)).collect()
            } else {
                nodes
            };
            (LaneId(lane as u32), nodes)
        };
        lanes.into_iter().enumerate().map(in_order).filter(|(_, nodes)| !nodes.is_empty()).collect()
    }

    /// By lane whether the traced order may no longer hold.
    fn changed_lanes(&self) -> Vec<bool> {
        let of_links = self.structure.links.iter().filter_map(|link| {
            let lane = self.lane_of(link.to);
            (lane == self.lane_of(link.from)).then_some(lane)
        });
        let of_added = self.structure.added.iter().map(|added| added.lane);
        let mut changed = vec![false; self.graph().lanes.len() + self.structure.lanes.len()];
        let all = of_links.chain(of_added).chain(self.structure.moved.values().copied());
        all.for_each(|lane| changed[lane.0 as usize] = true);
        changed
    }

    /// Where a task would stand if nothing held it back: traced ones as they were, added ones after the one beside them.
    fn place(&self, node: Node) -> (u32, u32) {
        let number = if let Node::Added(AddedId(id)) = node { id + 1 } else { 0 };
        (self.beside(node).index() as u32, number)
    }

    /// `nodes` of one lane, each after those of them that it waits for.
    fn sorted(&self, mut nodes: Vec<Node>) -> Vec<Node> {
        nodes.sort_unstable_by_key(|&node| self.place(node));
        let count = self.graph().tasks.node_count();
        // By numbered task, one more than its place in `nodes`.
        let mut rank = vec![0_u32; count + self.structure.added.len()];
        for (at, node) in nodes.iter().enumerate() {
            rank[node.number(count) as usize] = at as u32 + 1;
        }
        let place = |node: Node| (rank[node.number(count) as usize] as usize).checked_sub(1);
        let mut after: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
        let mut missing = vec![0_u32; nodes.len()];
        let mut connect = |from: Node, to: Node| {
            if let (Some(from), Some(to)) = (place(from), place(to)) {
                after[from].push(to as u32);
                missing[to] += 1;
            }
        };
        for &node in &nodes {
            if let Node::Traced(traced) = node {
                let edges = self.graph().tasks.edges(traced).filter(|edge| !self.structure.cut.contains(edge.id()));
                edges.for_each(|edge| connect(node, Node::Traced(edge.target())));
            }
        }
        self.structure.links.iter().for_each(|link| connect(link.from, link.to));
        run(&nodes, &after, missing)
    }
}

/// Kahn's algorithm, the first in the given order first; where a cycle holds all back, the first of those left goes on.
fn run(nodes: &[Node], after: &[Vec<u32>], mut missing: Vec<u32>) -> Vec<Node> {
    let mut ready: BinaryHeap<Reverse<u32>> =
        (0..nodes.len() as u32).filter(|&at| missing[at as usize] == 0).map(Reverse).collect();
    let mut done = vec![false; nodes.len()];
    let mut order = Vec::with_capacity(nodes.len());
    let mut waiting = 0..nodes.len() as u32;
    loop {
        while let Some(Reverse(at)) = ready.pop() {
            if std::mem::replace(&mut done[at as usize], true) {
                continue;
            }
            order.push(nodes[at as usize]);
            for &next in &after[at as usize] {
                missing[next as usize] = missing[next as usize].saturating_sub(1);
                if missing[next as usize] == 0 {
                    ready.push(Reverse(next));
                }
            }
        }
        let Some(stuck) = waiting.find(|&at| !done[at as usize]) else { return order };
        ready.push(Reverse(stuck));
    }
}

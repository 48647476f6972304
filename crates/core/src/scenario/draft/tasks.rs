//! Tasks of a draft, traced and added alike: what they are now, taking them out, stretching, moving and copying them.

use std::sync::Arc;

use crate::cost::{Family, Work};
use crate::graph::{LaneId, NodeId, OperatorId, Phase, TaskKind};
use crate::units::{Bytes, DurNs};

use super::{Added, AddedId, Draft, Node, Source};
use crate::scenario::typical_calls::Again;

impl Draft<'_> {
    /// All added tasks that are still there.
    pub fn added_nodes(&self) -> impl Iterator<Item = Node> + use<> {
        let there: Vec<bool> = self.structure.dropped.iter().map(|gone| !gone).collect();
        there.into_iter().enumerate().filter(|(_, there)| *there).map(|(id, _)| Node::Added(AddedId(id as u32)))
    }

    /// All added tasks that are still there, each with what it is.
    pub fn added_tasks(&self) -> impl Iterator<Item = (Node, &Added)> {
        let added = self.structure.added.iter().enumerate().zip(&self.structure.dropped);
        added.filter(|(_, gone)| !**gone).map(|((id, added), _)| (Node::Added(AddedId(id as u32)), added))
    }

    /// All tasks that are there, traced ones first.
    pub fn nodes(&self) -> impl Iterator<Item = Node> + use<'_> {
        let traced = self.graph().tasks.node_indices().filter(|&node| !self.is_removed(node)).map(Node::Traced);
        traced.chain(self.added_nodes())
    }

    /// What a task is.
    pub fn kind_of(&self, node: Node) -> TaskKind {
        match node {
            Node::Traced(node) => self.graph().tasks[node].kind,
            Node::Added(AddedId(id)) => self.structure.added[id as usize].kind,
        }
    }

    /// Where a task runs now.
    pub fn lane_of(&self, node: Node) -> LaneId {
        match node {
            Node::Traced(node) => self.structure.moved.get(&node).copied().unwrap_or(self.graph().tasks[node].lane),
            Node::Added(AddedId(id)) => self.structure.added[id as usize].lane,
        }
    }

    /// Its name.
    pub fn name_of(&self, node: Node) -> &str {
        match node {
            Node::Traced(node) => self.graph().names.get(self.graph().tasks[node].name),
            Node::Added(AddedId(id)) => &self.structure.added[id as usize].name,
        }
    }

    /// The operator it belongs to.
    pub fn operator_of(&self, node: Node) -> Option<OperatorId> {
        match node {
            Node::Traced(node) => self.graph().tasks[node].operator,
            Node::Added(AddedId(id)) => self.structure.added[id as usize].operator,
        }
    }

    /// The operator that an edit added and whose task it is.
    pub fn caller_of(&self, node: Node) -> Option<&str> {
        match node {
            Node::Traced(_) => None,
            Node::Added(AddedId(id)) => self.structure.added[id as usize].caller.as_deref(),
        }
    }

    /// The part of training that its operator belongs to.
    pub fn phase_of(&self, node: Node) -> Option<Phase> {
        self.operator_of(node).map(|id| self.graph().operators[id.0 as usize].phase)
    }

    /// The traced task beside which it is listed: itself, or the one that an edit put it next to.
    pub fn beside(&self, node: Node) -> NodeId {
        match node {
            Node::Traced(node) => node,
            Node::Added(AddedId(id)) => self.structure.added[id as usize].after,
        }
    }

    /// What it took as traced; `None` of a task that an edit added.
    pub fn traced_time(&self, node: Node) -> Option<DurNs> {
        let Node::Traced(node) = node else { return None };
        Some(self.graph().tasks[node].duration)
    }

    /// Whether a task, or the traced one that it is listed beside, is of the modelled step: the window holds work of the steps around it
    /// that shares the device.
    pub fn is_in_step(&self, node: Node) -> bool {
        self.base.iteration_tasks()[self.beside(node).index()]
    }

    /// How many of these operators are of the modelled step.
    pub fn operators_in_step(&self, ids: impl Iterator<Item = OperatorId>) -> usize {
        let graph = self.graph();
        let is_inside = |&id: &OperatorId| {
            let operator = &graph.operators[id.0 as usize];
            let part = graph.part_of(graph.lanes[operator.lane.0 as usize].rank);
            part.is_none_or(|part| (part.iteration_start..part.iteration_end).contains(&operator.start))
        };
        ids.filter(is_inside).count()
    }

    /// What it has to do now, where that is known.
    pub fn work_of(&self, node: Node) -> Option<&Work> {
        match node {
            Node::Traced(node) => self.work(node),
            Node::Added(AddedId(id)) => {
                let added = &self.structure.added[id as usize];
                added.price.repeated().map_or(added.work.as_deref(), |of| self.work_of(of))
            }
        }
    }

    pub(super) fn shared_work_of(&self, node: Node) -> Option<Arc<Work>> {
        match node {
            Node::Traced(node) => self.shared_work(node),
            Node::Added(AddedId(id)) => {
                let added = &self.structure.added[id as usize];
                added.price.repeated().map_or_else(|| added.work.clone(), |of| self.shared_work_of(of))
            }
        }
    }

    /// The family of a task that computes or moves something.
    pub fn family_of(&self, node: Node) -> Option<Family> {
        match node {
            Node::Traced(node) => self.family(node),
            Node::Added(AddedId(id)) => match self.structure.added[id as usize].price.repeated() {
                Some(of) => self.family_of(of),
                None => self.work_of(node).map(|work| work.family),
            },
        }
    }

    /// Bytes of a copy or collective.
    pub fn bytes_of(&self, node: Node) -> Bytes {
        match node {
            Node::Traced(node) => self.graph().tasks[node].bytes,
            Node::Added(AddedId(id)) => self.structure.added[id as usize].bytes,
        }
    }

    /// Whether it was taken out.
    pub fn is_gone(&self, node: Node) -> bool {
        match node {
            Node::Traced(node) => self.is_removed(node),
            Node::Added(AddedId(id)) => self.structure.dropped[id as usize],
        }
    }

    /// Takes it out: it takes no time, and what waited for it waits for what it waited for.
    pub fn take_out(&mut self, node: Node) {
        match node {
            Node::Traced(node) => self.remove(node),
            Node::Added(AddedId(id)) => self.structure.dropped[id as usize] = true,
        }
    }

    /// Lets it run on another lane. Its place in the order of both has to be changed besides.
    pub fn move_to(&mut self, node: Node, lane: LaneId) {
        match node {
            Node::Traced(node) => _ = self.structure.moved.insert(node, lane),
            Node::Added(AddedId(id)) => self.structure.added[id as usize].lane = lane,
        }
    }

    /// Traced tasks that run on another lane, by node.
    pub fn moved(&self) -> Vec<(NodeId, LaneId)> {
        let mut moved: Vec<_> = self.structure.moved.iter().map(|(&node, &lane)| (node, lane)).collect();
        moved.sort_unstable();
        moved
    }

    /// Adds a task that does and takes what `of` does and takes, now and after any later edit of `of`, listed after the traced task
    /// `beside`. A launch that loaded code does so once: its copy takes what launches typically take.
    pub fn copy(&mut self, of: Node, lane: LaneId, beside: NodeId) -> Node {
        let caller = match of {
            Node::Traced(_) => None,
            Node::Added(AddedId(id)) => self.structure.added[id as usize].caller.clone(),
        };
        let name = self.shared_name(of);
        let mut price = self.price_repeating(of);
        if let Some(again) = self.one_off_launch(of) {
            price.take_typical(again);
        }
        Node::Added(self.add(Added {
            name,
            kind: self.kind_of(of),
            lane,
            operator: self.operator_of(of),
            bytes: self.bytes_of(of),
            work: None,
            price,
            members: Vec::new(),
            source: Source::Repeats(of),
            caller,
            after: beside,
        }))
    }

    /// What a launch like `of` takes that loads no code, where `of` is recorded and loaded some.
    fn one_off_launch(&self, of: Node) -> Option<Again> {
        let Node::Traced(traced) = of else { return None };
        self.base.one_off_launch(traced)
    }

    /// The launches among `nodes` that loaded code, and the time that they take longer than others would.
    pub fn one_off_launches(&self, nodes: &[Node]) -> (usize, DurNs) {
        let beyond = |&node: &Node| {
            let Again { factor, .. } = self.one_off_launch(node)?;
            Some(self.traced_time(node)?.scale(1.0 - factor))
        };
        let times = nodes.iter().filter(|&&node| !self.is_gone(node)).filter_map(beyond);
        times.fold((0, DurNs::ZERO), |(count, sum), time| (count + 1, sum + time))
    }

    /// Adds a call like `call` next to it, which takes what such calls typically take where `call` took more. That is a prediction: it
    /// is as far off as such calls are apart.
    pub fn copy_call(&mut self, call: Node) -> Node {
        let again = self.copy(call, self.lane_of(call), self.beside(call));
        if let (Node::Traced(traced), Node::Added(AddedId(id))) = (call, again) {
            self.structure.added[id as usize].price.take_typical(self.base.typical_call(traced));
        }
        again
    }

    /// Adds a task that repeats what `copy`, which repeats another, does.
    pub fn copy_again(&mut self, copy: Node) -> Node {
        match copy {
            Node::Traced(node) => self.copy(copy, self.lane_of(copy), node),
            Node::Added(AddedId(id)) => {
                let again = self.structure.added[id as usize].clone();
                Node::Added(self.add(again))
            }
        }
    }

    /// The name of a task, to be kept by others.
    fn shared_name(&mut self, of: Node) -> Arc<str> {
        let graph = self.graph();
        let id = match of {
            Node::Traced(node) => graph.tasks[node].name,
            Node::Added(AddedId(id)) => return self.structure.added[id as usize].name.clone(),
        };
        let at = id.0 as usize;
        if self.structure.names.len() <= at {
            self.structure.names.resize(at + 1, None);
        }
        self.structure.names[at].get_or_insert_with(|| graph.names.get(id).into()).clone()
    }
}

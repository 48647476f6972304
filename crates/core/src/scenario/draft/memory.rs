//! What edits change in memory beyond arguments of operators: how often a step runs its batch, what it computes again,
//! what it holds besides.

use crate::graph::{NodeId, OperatorId};
use crate::units::{Bytes, TimeNs};

use super::merge::Combine;
use super::{Draft, Node, Source};

/// A part of the forward pass that runs again before its backward pass, in the measured time of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recomputed {
    /// Position of its rank.
    pub rank: usize,
    /// When it begins.
    pub begins: TimeNs,
    /// When what follows it begins.
    pub ends: TimeNs,
    /// When its backward pass begins.
    pub again: TimeNs,
}

/// Factors on what a rank keeps of the states of the parameters that ranks share out among them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedStates {
    /// Of parameters.
    pub parameters: f64,
    /// Of gradients.
    pub gradients: f64,
    /// Of the optimizer's state.
    pub optimizer: f64,
}

impl Default for SharedStates {
    fn default() -> Self {
        Self { parameters: 1.0, gradients: 1.0, optimizer: 1.0 }
    }
}

/// What edits change in a step's memory.
#[derive(Clone, Debug)]
pub(super) struct StepMemory {
    /// How often forward and backward pass run in one step.
    repeats: u32,
    /// How often the scenario's steps let them, one by one.
    batches: Vec<u32>,
    /// Parts of the forward pass that run again and keep nothing until then.
    recomputed: Vec<Recomputed>,
    /// Work of the forward pass that a step which lets the rest run again keeps.
    kept: Vec<Node>,
    /// What each rank keeps of states that ranks share out among them.
    shared: SharedStates,
    /// What steps hold all the time besides, by position of the rank.
    held: Vec<(usize, Bytes)>,
}

impl Default for StepMemory {
    fn default() -> Self {
        Self {
            repeats: 1,
            batches: Vec::new(),
            recomputed: Vec::new(),
            kept: Vec::new(),
            shared: SharedStates::default(),
            held: Vec::new(),
        }
    }
}

impl Draft<'_> {
    /// What each rank keeps of states that ranks share out, against what was traced.
    pub fn shared_states(&self) -> SharedStates {
        self.memory.shared
    }

    /// Sets what each rank keeps of states that ranks share out.
    pub fn set_shared_states(&mut self, shared: SharedStates) {
        self.memory.shared = shared;
    }

    /// How often forward and backward pass run in one step.
    pub fn repeats(&self) -> u32 {
        self.memory.repeats
    }

    pub(in crate::scenario) fn ask_for_batches(&mut self, batches: Vec<u32>) {
        self.memory.batches = batches;
    }

    /// How often the next step that says so, and those behind it, let forward and backward pass run in one step of training; the first is
    /// not told again.
    pub fn next_batches(&mut self) -> Vec<u32> {
        let all = self.memory.batches.clone();
        self.memory.batches.drain(..all.len().min(1));
        all
    }

    /// Forgets those of the [`next_batches`](Self::next_batches) behind the next `count`.
    pub fn keep_batches(&mut self, count: usize) {
        self.memory.batches.truncate(count);
    }

    /// Notes that forward and backward pass run `times` as often in one step.
    pub fn repeat(&mut self, times: u32) {
        self.memory.repeats = self.memory.repeats.saturating_mul(times);
    }

    /// Parts of the forward pass that keep nothing until they run again.
    pub fn recomputed(&self) -> &[Recomputed] {
        &self.memory.recomputed
    }

    /// Notes that a part of the forward pass runs again and keeps nothing until then.
    pub fn note_recomputed(&mut self, part: Recomputed) {
        self.memory.recomputed.push(part);
    }

    /// Work that a step leaves as it is, which lets the work before it run again.
    pub fn kept_beside_recomputed(&self) -> &[Node] {
        &self.memory.kept
    }

    /// Notes work as that.
    pub fn note_kept(&mut self, work: &[Node]) {
        self.memory.kept.extend_from_slice(work);
    }

    /// What steps hold all the time besides, by position of the rank.
    pub fn held(&self) -> &[(usize, Bytes)] {
        &self.memory.held
    }

    /// Notes that a step holds `bytes` more on the rank at position `rank`.
    pub fn hold(&mut self, rank: usize, bytes: Bytes) {
        self.memory.held.push((rank, bytes));
    }

    /// Whether arguments of any operator changed.
    pub(in crate::scenario) fn has_operands(&self) -> bool {
        !self.works.overrides.list.is_empty()
    }

    /// The row of an operator's changed arguments; `None` where they are the recorded ones.
    pub(in crate::scenario) fn changed_row(&self, operator: OperatorId) -> Option<u32> {
        self.works.overrides.row(operator)
    }

    /// Tasks whose work one of them, or an added task, does for all, and how it adds up.
    pub(in crate::scenario) fn merged_members(&self) -> impl Iterator<Item = (&[NodeId], Combine)> {
        let merged = self.works.merged.values().map(|merge| (merge.members.as_slice(), merge.combine));
        let added = self.structure.added.iter().map(|added| (added.members.as_slice(), Combine::Batch));
        merged.chain(added).filter(|(members, _)| !members.is_empty())
    }

    /// The traced tasks among those whose work added ones do of traced and added ones.
    pub(in crate::scenario) fn merged_into_added(&self) -> impl Iterator<Item = (Vec<NodeId>, Combine)> {
        let traced = |node: &Node| if let Node::Traced(node) = node { Some(*node) } else { None };
        self.structure.added.iter().filter_map(move |added| match &added.source {
            Source::Merges(members, combine) => Some((members.iter().filter_map(traced).collect(), *combine)),
            _ => None,
        })
    }
}

//! Durations that edits set or stretch, and which tasks may differ from the trace.

use crate::cost::Prediction;
use crate::graph::NodeId;

use super::Draft;
use super::price::Repricing;

impl Draft<'_> {
    /// Multiplies the duration of a task.
    pub fn scale(&mut self, node: NodeId, factor: f64) {
        if self.factors.is_empty() {
            self.factors = vec![1.0; self.graph().tasks.node_count()];
        }
        self.factors[node.index()] *= factor;
        self.touch(node);
    }

    /// Takes a task's duration to be `prediction` from here on, in place of the traced one.
    pub fn set_duration(&mut self, node: NodeId, prediction: Prediction) {
        self.rebased.insert(node, prediction);
        self.touch(node);
    }

    /// Takes a task's duration to be a multiple of what its work tells, or with `None` no longer so.
    ///
    /// # Arguments
    /// `cost`: the factor, and where it is from; the duration in it is not looked at.
    pub fn recost(&mut self, node: NodeId, cost: Option<(f64, Prediction)>) {
        match cost {
            Some((factor, of)) => self.recosted.insert(node, Repricing::Ratio(factor, of)),
            None => self.recosted.remove(node),
        }
        self.touch(node);
    }

    /// As [`recost`](Self::recost), where measurements say what the models' error stood for: only that of `of` is left.
    pub fn learn(&mut self, node: NodeId, factor: f64, of: Prediction) {
        self.recosted.insert(node, Repricing::Instead(factor, of));
        self.touch(node);
    }

    /// Takes a task's duration to be the traced one again.
    pub fn unset_duration(&mut self, node: NodeId) {
        self.rebased.remove(node);
    }

    /// Lets a task take `prediction` whatever it does: what it computed is done elsewhere.
    pub fn fix_duration(&mut self, node: NodeId, prediction: Prediction) {
        self.fixed.insert(node);
        self.set_duration(node, prediction);
    }

    /// Whether a task does the work of others besides its own.
    pub fn is_merged(&self, node: NodeId) -> bool {
        self.merged.contains_key(&node)
    }

    pub(super) fn touch(&mut self, node: NodeId) {
        if self.touched.is_empty() {
            self.touched = vec![false; self.graph().tasks.node_count()];
        }
        self.touched[node.index()] = true;
    }

    pub(super) fn touch_all(&mut self, chosen: impl Fn(&Self, NodeId) -> bool) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.resize(self.graph().tasks.node_count(), false);
        for node in self.graph().tasks.node_indices() {
            touched[node.index()] |= chosen(self, node);
        }
        self.touched = touched;
    }

    /// Whether any edit may have changed what a task takes.
    pub fn is_touched(&self, node: NodeId) -> bool {
        self.touched.get(node.index()).copied().unwrap_or(false)
    }

    pub(in crate::scenario) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }
}

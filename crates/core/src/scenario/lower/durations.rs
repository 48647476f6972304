//! What the tasks of a draft take, as the rows of the base have it.

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::cost::Prediction;
use crate::graph::{ExecutionGraph, NodeId, TimedGraph};
use crate::scenario::draft::{AddedId, Draft, LEAST, Node};
use crate::units::DurNs;

/// Predictions of the tasks of a draft.
pub(in crate::scenario) struct Prices {
    /// Of traced tasks that changed, by node.
    pub(in crate::scenario) changes: Vec<(NodeId, Prediction)>,
    /// Of every added task.
    pub(in crate::scenario) of_added: Vec<Prediction>,
}

impl Prices {
    pub(in crate::scenario) fn of(draft: &Draft<'_>) -> Self {
        let of_added =
            (0..draft.structure.added.len() as u32).map(|id| draft.price_of(Node::Added(AddedId(id)))).collect();
        let mut changes = Vec::new();
        if draft.has_touched() {
            draft.predict_changes();
            let nodes = (0..draft.graph().tasks.node_count()).into_par_iter().with_min_len(LEAST).map(NodeId::new);
            let changed = nodes.filter(|&node| draft.is_touched(node) && !draft.is_removed(node)).filter_map(|node| {
                let prediction = draft.price(node);
                let traced = Prediction::measured(draft.graph().tasks[node].duration);
                (prediction != traced).then_some((node, prediction))
            });
            changes = changed.collect();
        }
        Self { changes, of_added }
    }

    /// How many tasks of `graph` and added ones take another time in `other`, which has the same tasks.
    pub(in crate::scenario) fn differing(&self, other: &Self, graph: &ExecutionGraph) -> usize {
        let took = |prices: &Self| -> FxHashMap<NodeId, DurNs> {
            let changed = prices.changes.iter().map(|(node, of)| (*node, of.duration));
            changed.filter(|(node, took)| graph.tasks[*node].duration != *took).collect()
        };
        let (known, others) = (took(self), took(other));
        let same = others.iter().filter(|(node, took)| known.get(node) == Some(took)).count();
        let of_either = known.len() + others.keys().filter(|node| !known.contains_key(node)).count();
        let added = self.of_added.iter().zip(&other.of_added).filter(|(one, other)| one.duration != other.duration);
        of_either - same + added.count()
    }
}

/// What every task takes.
pub(super) struct Durations<'a> {
    untouched: &'a TimedGraph,
    /// Of every row of the base, in ns; 0 where its task was taken out.
    pub(super) rows: Vec<i64>,
    /// The first row that takes another time; as many as there are rows where none does.
    pub(super) first: u32,
    /// Of every added task; 0 where it was taken out.
    added: Vec<DurNs>,
}

impl<'a> Durations<'a> {
    pub(super) fn of(draft: &Draft<'a>, prices: &Prices) -> Self {
        let untouched = draft.base().timed().as_ref();
        let (mut rows, mut first) = (untouched.durations.clone(), untouched.len() as u32);
        let changed = prices.changes.iter().map(|(node, prediction)| (*node, prediction.duration));
        for (node, duration) in changed.chain(draft.removed().map(|node| (node, DurNs::ZERO))) {
            let row = untouched.task_of[node.index()];
            if std::mem::replace(&mut rows[row as usize], duration.0) != duration.0 {
                first = first.min(row);
            }
        }
        let added = prices.of_added.iter().zip(&draft.structure.dropped);
        let added = added.map(|(price, &gone)| if gone { DurNs::ZERO } else { price.duration }).collect();
        Self { untouched, rows, first, added }
    }

    /// What a numbered task takes.
    pub(super) fn task(&self, task: u32) -> DurNs {
        let task = task as usize;
        match self.untouched.task_of.get(task) {
            Some(&row) => DurNs(self.rows[row as usize]),
            None => self.added[task - self.untouched.task_of.len()],
        }
    }
}

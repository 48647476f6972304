//! Layers that no backward pass goes back over and that give nothing to one that it does: other models of the program, as references and
//! rewards, and what is only evaluated. What they run on is no batch that is trained on.
//!
//! Nothing names tensors, so what a layer gives feeds a later one where that is given as many rows of that width, or samples.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

use crate::units::elements;

use super::batch_size::Layer;
use super::{ExecutionGraph, Operator, OperatorId, Phase, RankPart};

/// Operators that give some rows of what they are given, at their width.
const TAKE_ROWS: &str = "select slice index index_select gather narrow masked_select mean sum split chunk unbind";

/// What later layers are given.
#[derive(Default)]
struct Wanted {
    /// First dimensions.
    samples: BTreeSet<u64>,
    /// Tensors as products of all dimensions but the last, and that.
    rows: BTreeSet<(u64, u64)>,
    /// Rows and width of what the next layer is given, where a backward pass goes over it.
    next: Option<(u64, u64)>,
}

impl Wanted {
    fn add(&mut self, given: &[u64], rows: Option<(u64, u64)>) {
        self.samples.extend(given.first());
        self.rows.extend(rows);
    }

    /// Whether a layer gives what a later one is given. Images lie in memory with their channels first.
    fn has(&self, layer: &Layer<'_>) -> bool {
        let of_image = |samples: u64, channels: u64| {
            let own = self.rows.range((samples, 0)..=(samples, u64::MAX));
            channels > 0 && own.into_iter().any(|(_, width)| width.is_multiple_of(channels))
        };
        match (layer.given.first(), layer.width) {
            (Some(samples), _) if self.samples.contains(samples) => true,
            (Some(&samples), Some(channels)) if layer.has_channels_first => of_image(samples, channels),
            (Some(_), Some(width)) => self.rows.contains(&(layer.rows(), width)),
            _ => false,
        }
    }
}

/// A tensor as rows of a width; `None` for a list of numbers.
fn rows(dims: &[u64]) -> Option<(u64, u64)> {
    let (&width, outer) = dims.split_last().filter(|(_, outer)| !outer.is_empty())?;
    Some((elements(outer), width))
}

impl ExecutionGraph {
    /// Of each operator whether it is, or belongs to, such a layer; empty where there is none, or no backward pass tells what it goes over.
    ///
    /// # Complexity
    /// O(n log n) in operators.
    pub(crate) fn beside_training(&self) -> Vec<bool> {
        let over = self.gone_over();
        let mut beside = Vec::new();
        for part in self.ranks.iter().filter(|_| !over.is_empty()) {
            for id in self.unfed(part, &over) {
                beside.resize(self.operators.len(), false);
                let own = id.0 as usize..self.operators[id.0 as usize].subtree_end.0 as usize;
                beside[own].fill(true);
            }
        }
        beside
    }

    /// The operators at such places but those `beside` what is trained: what tells a batch.
    pub(crate) fn operators_but(&self, places: Range<usize>, beside: &[bool]) -> Cow<'_, [Operator]> {
        let own = self.operators.get(places.clone()).unwrap_or_default();
        if !beside.get(places.clone()).is_some_and(|beside| beside.contains(&true)) {
            return Cow::Borrowed(own);
        }
        Cow::Owned(places.zip(own).filter(|(at, _)| !beside[*at]).map(|(_, operator)| *operator).collect())
    }

    /// Of each operator whether a backward pass goes back over it, over one that it calls or one that calls it; empty where it is told of none.
    pub(crate) fn gone_over(&self) -> Vec<bool> {
        let mut own = vec![false; self.operators.len()];
        for forward in self.operators.iter().filter_map(|operator| operator.forward) {
            own[forward.0 as usize] = true;
        }
        if !own.contains(&true) {
            return Vec::new();
        }
        let mut over = own;
        for at in 0..over.len() {
            let parent = self.operators[at].parent;
            over[at] |= parent.is_some_and(|parent| over[parent.0 as usize]);
        }
        for at in (0..over.len()).rev() {
            if let Some(parent) = self.operators[at].parent.filter(|_| over[at]) {
                over[parent.0 as usize] = true;
            }
        }
        over
    }

    /// The outermost layers of a rank's forward passes that feed none of `over`, which backward passes go back over.
    fn unfed(&self, part: &RankPart, over: &[bool]) -> Vec<OperatorId> {
        let mut all = self.forward_operators(part);
        all.sort_by_key(|&id| std::cmp::Reverse((self.operators[id.0 as usize].start, id)));
        let (mut wanted, mut unfed) = (Wanted::default(), Vec::new());
        for id in all {
            let operator = &self.operators[id.0 as usize];
            let Some(layer) = Layer::of(operator, &self.operands, &self.names) else {
                self.hand_on(operator, &mut wanted);
                continue;
            };
            let is_over = over[id.0 as usize];
            let given = rows(layer.given).filter(|_| !layer.looks_up);
            if is_over || wanted.has(&layer) {
                wanted.add(layer.given, given);
            } else {
                unfed.push(id);
            }
            wanted.next = given.filter(|_| is_over);
        }
        // Without a layer that a backward pass goes over nothing tells what the others are for.
        if wanted.samples.is_empty() { Vec::new() } else { unfed }
    }

    /// What an operator takes rows from that the next layer is given feeds it.
    fn hand_on(&self, operator: &Operator, wanted: &mut Wanted) {
        let name = self.names.get(operator.name).trim_start_matches("aten::");
        let takes = || TAKE_ROWS.split(' ').any(|known| known == name);
        let Some((next, width)) = wanted.next.filter(|_| takes()) else { return };
        let operands = operator.operands.and_then(|row| self.operands.get(row.0 as usize));
        let given = operands.and_then(|operands| operands.dims(0));
        if let Some((given, (rows, own))) = given.and_then(|dims| Some((dims, rows(dims)?)))
            && own == width
            && rows >= next
        {
            wanted.add(given, Some((rows, own)));
        }
    }

    /// Operators of a rank's forward passes, of those that are layers the outermost only.
    fn forward_operators(&self, part: &RankPart) -> Vec<OperatorId> {
        let lanes = self.lanes_of(part.rank);
        let before = |lane: usize| self.operators.partition_point(|operator| (operator.lane.0 as usize) < lane);
        let (mut found, mut until) = (Vec::new(), 0);
        for at in before(lanes.start)..before(lanes.end) {
            let operator = &self.operators[at];
            if at < until || operator.phase != Phase::Forward {
                continue;
            }
            if Layer::of(operator, &self.operands, &self.names).is_some() {
                until = operator.subtree_end.0 as usize;
            }
            found.push(OperatorId(at as u32));
        }
        found
    }
}

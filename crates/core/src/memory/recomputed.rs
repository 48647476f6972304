//! Parts of the forward pass that were recorded to run again within the backward pass, so that what they gave at first was not kept.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::Family;
use crate::cost::operators::operator_family;
use crate::graph::{ExecutionGraph, Operand, OperatorId, Phase};
use crate::intern::NameId;
use crate::units::TimeNs;

use super::callers::{end, operators_of};

/// Fewest operators in a row that are the forward pass once more, and not what a gradient needs by itself.
const FEWEST: usize = 4;
/// How many places of the forward pass, the last first, are tried for an operator of the backward pass.
const TRIED: usize = 64;

/// Which operators run again, and as which.
#[derive(Debug, Default)]
pub(crate) struct Recomputed {
    /// By operator of the backward pass, that of the forward pass which it repeats.
    first: FxHashMap<OperatorId, OperatorId>,
    /// Operators of the forward pass that run again.
    again: FxHashSet<OperatorId>,
    /// By the first operator of a part, when that runs again: until then what the part is given is kept.
    given_until: FxHashMap<OperatorId, TimeNs>,
}

/// An operator, when it starts, and what tells operators alike: its name and the sizes of what it was given, as one number.
type Call = (OperatorId, TimeNs, u32);

impl Recomputed {
    /// Finds rows of operators within one node of the backward pass that are a row of the forward pass before, by names and sizes.
    ///
    /// # Complexity
    /// O(n log n) in operators, and for each at most [`TRIED`] rows.
    pub(super) fn of(graph: &ExecutionGraph, ids: &[OperatorId]) -> Self {
        let mut numbers: FxHashMap<Signature<'_>, u32> = FxHashMap::default();
        let (mut forward, mut nodes) = (Vec::new(), FxHashMap::<OperatorId, Vec<Call>>::default());
        for &id in ids.iter().filter(|&&id| is_outermost(graph, id)) {
            let operator = &graph.operators[id.0 as usize];
            let next = numbers.len() as u32;
            let call = (id, operator.start, *numbers.entry(signature(graph, id)).or_insert(next));
            match operator.phase {
                Phase::Forward => forward.push(call),
                Phase::Backward => nodes.entry(operator.parent.unwrap_or(id)).or_default().push(call),
                _ => {}
            }
        }
        let mut nodes: Vec<Vec<Call>> = nodes.into_values().filter(|row| row.len() >= FEWEST).collect();
        nodes.sort_unstable_by_key(|row| (row[0].1, row[0].0));
        let mut open: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); numbers.len()];
        for (place, &(_, _, number)) in forward.iter().enumerate() {
            open[number as usize].insert(place);
        }
        let mut found = Self::default();
        for row in nodes {
            found.match_row(graph, (&forward, &mut open), &row);
        }
        found
    }

    /// Finds what `row` repeats.
    ///
    /// # Arguments
    /// `open`: by number the places of the operators of the forward pass that nothing repeats yet.
    fn match_row(&mut self, graph: &ExecutionGraph, (forward, open): (&[Call], &mut [BTreeSet<usize>]), row: &[Call]) {
        let mut at = 0;
        while at < row.len() {
            let (_, start, number) = row[at];
            let before = forward.partition_point(|first| first.1 < start);
            let alike = |place: usize| {
                let is_open = |first: &Call| !self.again.contains(&first.0);
                let pairs = row[at..].iter().zip(&forward[place..before]);
                pairs.take_while(|&(again, first)| again.2 == first.2 && is_open(first)).count()
            };
            let tried = open[number as usize].range(..before).rev().take(TRIED);
            let best = tried.map(|&place| (alike(place), place)).max();
            match best.filter(|&(length, _)| length >= FEWEST && computes(graph, &row[at..at + length])) {
                Some((length, place)) => {
                    let first = &forward[place..place + length];
                    self.pair(graph, &row[at..at + length], first);
                    for (place, &(_, _, number)) in (place..).zip(first) {
                        open[number as usize].remove(&place);
                    }
                    at += length;
                }
                None => at += 1,
            }
        }
    }

    fn pair(&mut self, graph: &ExecutionGraph, again: &[Call], first: &[Call]) {
        self.given_until.insert(first[0].0, end(graph, again[0].0));
        for (&(again, ..), &(first, ..)) in again.iter().zip(first) {
            let within = |id: OperatorId| id.0..graph.operators[id.0 as usize].subtree_end.0;
            self.again.extend(within(first).map(OperatorId));
            if within(again).len() == within(first).len() {
                let pairs = within(again).map(OperatorId).zip(within(first).map(OperatorId));
                self.first.extend(pairs);
            } else {
                self.first.insert(again, first);
            }
        }
    }

    /// Those of all ranks.
    pub(crate) fn of_job(graph: &ExecutionGraph) -> Self {
        let mut found = Self::default();
        for part in &graph.ranks {
            let mut ids: Vec<OperatorId> = operators_of(graph, part).collect();
            ids.sort_by_key(|&id| (graph.operators[id.0 as usize].start, id));
            let of_rank = Self::of(graph, &ids);
            found.first.extend(of_rank.first);
            found.again.extend(of_rank.again);
            found.given_until.extend(of_rank.given_until);
        }
        found
    }

    /// Whether `id` is the first pass once more, and no operator around it is.
    pub(crate) fn begins_again(&self, graph: &ExecutionGraph, id: OperatorId) -> bool {
        let parent = graph.operators[id.0 as usize].parent;
        self.first.contains_key(&id) && parent.is_none_or(|parent| !self.first.contains_key(&parent))
    }

    /// The operator of the forward pass that `id` repeats.
    pub(super) fn repeats(&self, id: OperatorId) -> Option<OperatorId> {
        self.first.get(&id).copied()
    }

    /// Whether `id`, of the forward pass, runs again.
    pub(super) fn runs_again(&self, id: OperatorId) -> bool {
        self.again.contains(&id)
    }

    /// Until when what is given to a part that runs again is kept, of its first operator.
    pub(super) fn given_until(&self, id: OperatorId) -> Option<TimeNs> {
        self.given_until.get(&id).copied()
    }
}

/// A name with the sizes of what the operator was given.
type Signature<'a> = (NameId, Vec<&'a [u64]>);

fn signature(graph: &ExecutionGraph, id: OperatorId) -> Signature<'_> {
    let operator = &graph.operators[id.0 as usize];
    let operands = operator.operands.and_then(|row| graph.operands.get(row.0 as usize));
    (operator.name, operands.map_or(Vec::new(), |all| all.inputs.iter().filter_map(Operand::dims).collect()))
}

/// Whether an operator is the framework's own and no other of these called it.
fn is_outermost(graph: &ExecutionGraph, id: OperatorId) -> bool {
    let is_own = |id: OperatorId| graph.names.get(graph.operators[id.0 as usize].name).starts_with("aten::");
    is_own(id) && graph.operators[id.0 as usize].parent.is_none_or(|parent| !is_own(parent))
}

/// Whether one of `row` is of a layer, and none a gradient.
fn computes(graph: &ExecutionGraph, row: &[Call]) -> bool {
    let name = |(id, ..): &Call| graph.names.get(graph.operators[id.0 as usize].name);
    let is_of_layer = |name: &str| {
        matches!(operator_family(name), Some(Family::Gemm | Family::Conv | Family::Norm | Family::Attention))
    };
    row.iter().any(|call| is_of_layer(name(call))) && !row.iter().any(|call| name(call).contains("backward"))
}

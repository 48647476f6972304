//! Parts of the forward pass that were recorded to run again within the backward pass, so that what they gave at first was not kept.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::Family;
use crate::cost::operators::operator_family;
use crate::graph::{ExecutionGraph, Operand, OperatorId, Phase};
use crate::intern::NameId;
use crate::units::TimeNs;

use super::callers::end;

/// Fewest operators in a row that are the forward pass once more, and not what a gradient needs by itself.
const FEWEST: usize = 4;
/// How many places of the forward pass, the last first, are tried for an operator of the backward pass.
const TRIED: usize = 64;

/// Which operators run again, and as which.
#[derive(Debug, Default)]
pub(super) struct Recomputed {
    /// By operator of the backward pass, that of the forward pass which it repeats.
    first: FxHashMap<OperatorId, OperatorId>,
    /// Operators of the forward pass that run again.
    again: FxHashSet<OperatorId>,
    /// By the first operator of a part, when that runs again: until then what the part is given is kept.
    given_until: FxHashMap<OperatorId, TimeNs>,
}

impl Recomputed {
    /// Finds rows of operators within one node of the backward pass that are a row of the forward pass, by names and sizes.
    ///
    /// # Complexity
    /// O(operators), for each at most [`TRIED`] others.
    pub(super) fn of(graph: &ExecutionGraph, ids: &[OperatorId]) -> Self {
        let outermost: Vec<OperatorId> = ids.iter().copied().filter(|&id| is_outermost(graph, id)).collect();
        let in_phase = |phase: Phase| outermost.iter().copied().filter(move |&id| phase_of(graph, id) == phase);
        let forward: Vec<OperatorId> = in_phase(Phase::Forward).collect();
        let mut nodes: FxHashMap<OperatorId, Vec<OperatorId>> = FxHashMap::default();
        for id in in_phase(Phase::Backward) {
            let node = graph.operators[id.0 as usize].parent;
            nodes.entry(node.unwrap_or(id)).or_default().push(id);
        }
        let mut nodes: Vec<Vec<OperatorId>> = nodes.into_values().filter(|row| row.len() >= FEWEST).collect();
        nodes.sort_unstable_by_key(|row| graph.operators[row[0].0 as usize].start);
        let mut found = Self::default();
        if nodes.is_empty() {
            return found;
        }
        let mut places: FxHashMap<Signature<'_>, Vec<usize>> = FxHashMap::default();
        for (place, &id) in forward.iter().enumerate() {
            places.entry(signature(graph, id)).or_default().push(place);
        }
        for row in nodes {
            found.match_row(graph, (&forward, &places), &row);
        }
        found
    }

    fn match_row(
        &mut self,
        graph: &ExecutionGraph,
        (forward, places): (&[OperatorId], &FxHashMap<Signature<'_>, Vec<usize>>),
        row: &[OperatorId],
    ) {
        let mut at = 0;
        while at < row.len() {
            let tried = places.get(&signature(graph, row[at])).into_iter().flatten().rev();
            let open = tried.filter(|&&place| !self.again.contains(&forward[place])).take(TRIED);
            let alike = |&place: &usize| {
                let pairs = row[at..].iter().zip(&forward[place..]);
                pairs.take_while(|&(&a, &b)| signature(graph, a) == signature(graph, b)).count()
            };
            let best = open.map(|place| (alike(place), *place)).max();
            match best.filter(|&(length, _)| length >= FEWEST && computes(graph, &row[at..at + length])) {
                Some((length, place)) => {
                    self.pair(graph, &row[at..at + length], &forward[place..place + length]);
                    at += length;
                }
                None => at += 1,
            }
        }
    }

    fn pair(&mut self, graph: &ExecutionGraph, again: &[OperatorId], first: &[OperatorId]) {
        self.given_until.insert(first[0], end(graph, again[0]));
        for (&again, &first) in again.iter().zip(first) {
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

fn phase_of(graph: &ExecutionGraph, id: OperatorId) -> Phase {
    graph.operators[id.0 as usize].phase
}

/// Whether an operator is the framework's own and no other of these called it.
fn is_outermost(graph: &ExecutionGraph, id: OperatorId) -> bool {
    let is_own = |id: OperatorId| graph.names.get(graph.operators[id.0 as usize].name).starts_with("aten::");
    is_own(id) && graph.operators[id.0 as usize].parent.is_none_or(|parent| !is_own(parent))
}

/// Whether one of `row` is of a layer, and none a gradient.
fn computes(graph: &ExecutionGraph, row: &[OperatorId]) -> bool {
    let name = |id: &OperatorId| graph.names.get(graph.operators[id.0 as usize].name);
    let is_of_layer = |name: &str| {
        matches!(operator_family(name), Some(Family::Gemm | Family::Conv | Family::Norm | Family::Attention))
    };
    row.iter().any(|id| is_of_layer(name(id))) && !row.iter().any(|id| name(id).contains("backward"))
}

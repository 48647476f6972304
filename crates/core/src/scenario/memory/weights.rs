//! What a rank holds of weights whose sizes or types edits changed: read from the arguments of operators as they are in the end, so
//! that the order of edits makes no difference.

use std::collections::BTreeMap;

use crate::cost::Family;
use crate::cost::operators::bare;
use crate::graph::{DType, NodeId, Operand, OperatorId, Phase, TaskKind};
use crate::memory::parameters::{roles, weight_place};
use crate::memory::{AFTER, BEFORE, Buffer, Holds};
use crate::scenario::draft::Draft;
use crate::units::{Bytes, elements};

/// What edits make of the weights of one rank.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedWeights {
    /// By how many bytes parameters grew, in the type that they are kept in.
    pub(super) grown: i64,
    /// By how many bytes they are smaller since products read them in fewer bits.
    pub(super) shrunk: Bytes,
    /// Copies that are held besides.
    pub(super) copies: Vec<Buffer>,
}

/// A weight of a forward operator.
#[derive(Clone, Copy, Debug)]
struct Weight<'d> {
    rank: usize,
    /// The operator whose kernel reads it.
    reader: OperatorId,
    /// As the outermost operator was given it.
    given: &'d Operand,
    /// As the reader was given it when traced.
    traced: &'d Operand,
    /// As it reads it now.
    now: &'d Operand,
    /// Whether it is that of a product or convolution, which autocast narrows.
    is_factor: bool,
}

/// What edits of arguments make of the weights that each rank holds, by position of the rank.
///
/// # Complexity
/// O(tasks).
pub(super) fn changed(draft: &Draft<'_>) -> Vec<ChangedWeights> {
    let graph = draft.graph();
    let mut of_rank = vec![ChangedWeights::default(); graph.ranks.len()];
    if !draft.has_operands() {
        return of_rank;
    }
    let trains = graph.operators.iter().any(|operator| operator.phase == Phase::Backward);
    let tables = vocabularies(draft);
    for weight in weights(draft) {
        if let Some(rank) = of_rank.get_mut(weight.rank) {
            weight.count(rank, trains, &tables);
        }
    }
    of_rank
}

/// The weights among changed arguments in the iteration, each once however deep it is handed down.
fn weights<'d>(draft: &'d Draft<'_>) -> Vec<Weight<'d>> {
    let graph = draft.graph();
    let within = draft.base().iteration_tasks();
    let mut found: BTreeMap<(OperatorId, usize), Weight<'d>> = BTreeMap::new();
    for node in graph.tasks.node_indices().filter(|node| within[node.index()]) {
        let Some(reader) = reader(draft, node) else { continue };
        let is_factor = matches!(draft.family(node), Some(Family::Gemm | Family::Conv));
        let name = |id: OperatorId| bare(graph.names.get(graph.operators[id.0 as usize].name));
        let around = |id: &OperatorId| graph.operators[id.0 as usize].parent;
        let named = std::iter::successors(Some(reader), around).take(super::DEPTH);
        let outer = named.filter(|&id| !roles(name(id)).is_empty() && draft.recorded(id).is_some()).last();
        let own = weight_place(name(reader)).filter(|_| is_factor);
        let (outer, places) = match (outer, own) {
            (Some(outer), _) => (outer, roles(name(outer)).to_vec()),
            (None, Some(place)) => (reader, vec![place]),
            (None, None) => continue,
        };
        let (Some(traced), Some(now), Some(given)) =
            (draft.recorded(reader), draft.operands(reader), draft.recorded(outer))
        else {
            continue;
        };
        for place in places {
            let Some(given) = given.inputs.get(place).filter(|it| it.bytes().0 > 0) else { continue };
            let alike = |&at: &usize| traced.inputs.get(at).is_some_and(|it| sorted(it) == sorted(given));
            let any = own.into_iter().chain(0..traced.inputs.len()).find(alike);
            let Some(at) = any.filter(|_| outer != reader).or(Some(place).filter(|_| outer == reader)) else {
                continue;
            };
            let (Some(traced), Some(now)) = (traced.inputs.get(at), now.inputs.get(at)) else { continue };
            let rank = draft.base().rank_index(graph.tasks[node].lane);
            found.insert((outer, place), Weight { rank, reader, given, traced, now, is_factor });
        }
    }
    found.into_values().collect()
}

/// The forward operator with changed arguments that a task belongs to, where such a task reads weights.
fn reader(draft: &Draft<'_>, node: NodeId) -> Option<OperatorId> {
    let task = &draft.graph().tasks[node];
    let id = task.operator.filter(|&id| draft.changed_row(id).is_some())?;
    let computes = matches!(task.kind, TaskKind::Kernel | TaskKind::Compute);
    let reads = matches!(draft.family(node), Some(Family::Gemm | Family::Conv | Family::Norm | Family::Embedding));
    (computes && reads && draft.graph().operators[id.0 as usize].phase == Phase::Forward).then_some(id)
}

fn sorted(operand: &Operand) -> Vec<u64> {
    let mut dims = operand.dims().map(<[u64]>::to_vec).unwrap_or_default();
    dims.sort_unstable();
    dims
}

fn count(operand: &Operand) -> u64 {
    operand.dims().map_or(0, elements)
}

impl Weight<'_> {
    fn count(self, rank: &mut ChangedWeights, trains: bool, tables: &[(u64, u64)]) {
        let wide = self.given.dtype().unwrap_or_default();
        let (before, after) = (wide.bytes(count(self.traced)).0, wide.bytes(count(self.now)).0);
        let grown = i64::try_from(i128::from(after) - i128::from(before)).unwrap_or(i64::MAX);
        rank.grown = rank.grown.saturating_add(grown);
        let (Some(old), Some(new)) = (self.traced.dtype(), self.now.dtype()) else { return };
        let narrow = new.bytes(count(self.now));
        let copy =
            Buffer { holds: Holds::Other, bytes: narrow, from: BEFORE, until: AFTER, operator: Some(self.reader) };
        let is_matrix = self.now.dims().is_some_and(|dims| dims.len() > 1);
        if new.is_integer() && !old.is_integer() {
            // The backward pass and the update need the wide weights.
            if !trains && is_vocabulary(self.now.dims(), tables) {
                rank.copies.push(copy);
            } else if !trains {
                rank.shrunk += Bytes(after.saturating_sub(narrow.0));
            }
        } else if new.bits() < old.bits() && old == DType::Fp32 && self.is_factor && is_matrix {
            // Autocast keeps the narrow weight until the end of the step.
            rank.copies.push(copy);
        }
    }
}

/// Rows and columns of the embeddings of vocabularies, whose weight small language models give a product, too.
pub(in crate::scenario) fn vocabularies(draft: &Draft<'_>) -> Vec<(u64, u64)> {
    let graph = draft.graph();
    let looks_up = |index: &usize| graph.names.get(graph.operators[*index].name) == "aten::embedding";
    let table = |index: usize| match *draft.operands(OperatorId(index as u32))?.dims(0)? {
        [rows, dim] if rows / 8 >= dim => Some((rows, dim)),
        _ => None,
    };
    (0..graph.operators.len()).filter(looks_up).filter_map(table).collect()
}

/// Whether a weight of such dimensions is one of those.
pub(in crate::scenario) fn is_vocabulary(dims: Option<&[u64]>, tables: &[(u64, u64)]) -> bool {
    matches!(dims, Some(&[a, b]) if tables.contains(&(a.max(b), a.min(b))))
}

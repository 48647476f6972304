//! How large the parameters of a rank are, and what the optimizer keeps beside them, as far as operators tell.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use crate::cost::operators::bare;
use crate::graph::{ExecutionGraph, NodeId, Operand, OperatorId, Phase, RankPart, lookup_total_at};
use crate::intern::{NameId, printable};
use crate::units::{Bytes, TimeNs, elements, total};

use super::callers::operators_of;
use super::optimizers::{self, class, known};
use super::sources::Rank;

/// Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parameters {
    /// Of each parameter.
    pub(super) each: Vec<u64>,
    /// Of each gradient.
    pub(super) gradients: Vec<u64>,
    /// What gives each gradient that holds but some rows of its parameter.
    pub(super) given_by: Vec<Option<OperatorId>>,
    /// When each gradient is accumulated; empty where that was not recorded.
    pub(super) accumulated: Vec<TimeNs>,
    /// The optimizer's state.
    pub(super) optimizer: u64,
    /// Why `optimizer` is not known, where it is not.
    pub(super) unknown_optimizer: Option<String>,
    /// What to say of weights that nothing trains, where there are any.
    pub(super) untrained: Option<String>,
}

impl Parameters {
    pub(super) fn total(&self) -> u64 {
        total(self.each.iter().copied())
    }

    /// Gradients that hold but some rows of their parameter, with when each is accumulated and what gives it.
    pub(super) fn sparse(&self) -> impl Iterator<Item = (u64, TimeNs, OperatorId)> {
        let all = self.gradients.iter().zip(&self.accumulated).zip(&self.given_by);
        all.filter_map(|((&gradient, &at), given)| Some((gradient, at, (*given)?)))
    }
}

/// Reads them from the chosen iteration: gradients that are accumulated, lists that an optimizer updates, tables that are
/// looked up without either, and in a trace without a backward pass the weights that operators were given.
pub(super) fn read(rank: Rank<'_>) -> Parameters {
    let Rank { graph, part, .. } = rank;
    let inside = |id: &OperatorId| {
        let operator = &graph.operators[id.0 as usize];
        operator.start >= part.iteration_start && operator.start < part.iteration_end
    };
    let ids: Vec<OperatorId> = operators_of(graph, part).filter(inside).collect();
    let trains = ids.iter().any(|id| graph.operators[id.0 as usize].phase == Phase::Backward);
    let mut found = if trains { accumulated(graph, part, &ids) } else { Parameters::default() };
    if trains && found.each.is_empty() {
        found.each = updated(graph, part);
        found.gradients.clone_from(&found.each);
    }
    if !trains {
        let (each, at): (Vec<u64>, Vec<TimeNs>) =
            weights(graph, &ids).iter().map(|named| (named.bytes, graph.operators[named.by.0 as usize].start)).unzip();
        let is_kept = once(part, &each, &at);
        found.each = kept(each, &is_kept);
    } else if !found.accumulated.is_empty() {
        let (more, said) = untrained(graph, part, &ids);
        found.each.extend(more);
        found.untrained = said;
    }
    if rank.tables.iter().any(|&bytes| bytes > 0) && !has_dense_tables(graph, &ids) {
        found.each.extend(rank.tables);
    }
    let (states, unknown) = states_per_parameter(graph, part, &ids, rank.device_work);
    let by_lists = optimizers::state_by_lists(&part.optimizers);
    let of_one = optimizers::unknown(&part.optimizers).map(|class| match by_lists {
        Some(_) => format!("what {} keeps is not known", printable(class)),
        None => format!("what {} keeps is not known, and as much is counted as others keep", printable(class)),
    });
    found.unknown_optimizer = of_one.or(unknown.filter(|_| by_lists.is_none())).filter(|_| trains);
    if trains {
        let of_gradients = by_lists.unwrap_or_else(|| total(found.gradients.iter().copied()).saturating_mul(states));
        let of_lookups = ids.iter().flat_map(|&id| states_of_lookup(name(graph, id), arguments(graph, id)));
        found.optimizer = of_gradients.saturating_add(total(of_lookups.map(bytes)));
    }
    found
}

/// Bytes of the parameters that the optimizer updates in the chosen iteration of a rank, as large as their gradients, and of the state
/// that it keeps of them; `None` where that is not known.
pub(crate) fn updated_bytes(graph: &ExecutionGraph, part: &RankPart) -> Option<(u64, u64)> {
    let inside = |id: &OperatorId| {
        let start = graph.operators[id.0 as usize].start;
        start >= part.iteration_start && start < part.iteration_end
    };
    let ids: Vec<OperatorId> = operators_of(graph, part).filter(inside).collect();
    let accumulated = total(accumulated(graph, part, &ids).gradients);
    let parameters = if accumulated > 0 { accumulated } else { total(updated(graph, part)) };
    let device_work: Vec<NodeId> =
        graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind.is_device()).collect();
    let (states, unknown) = states_per_parameter(graph, part, &ids, &device_work);
    let by_lists = optimizers::state_by_lists(&part.optimizers);
    let is_told = unknown.is_none() || by_lists.is_some();
    let is_known = is_told && optimizers::unknown(&part.optimizers).is_none() && parameters > 0;
    is_known.then(|| (parameters, by_lists.unwrap_or_else(|| parameters.saturating_mul(states))))
}

/// State that a look-up which updates its tables itself was given.
fn states_of_lookup<'a>(name: &str, arguments: &'a [Operand]) -> impl Iterator<Item = &'a Operand> {
    arguments.iter().skip(state_place(name).unwrap_or(arguments.len()))
}

/// The place among the arguments of FBGEMM's look-ups from which on tensors are the optimizer's state; `None` for operators that
/// update nothing.
pub(super) fn state_place(name: &str) -> Option<usize> {
    /// Behind a row's elements come seven arguments about indices, and their weights.
    const BEHIND_TOTAL: usize = 8;
    let updates = bare(name).starts_with("split_embedding_codegen_lookup");
    lookup_total_at(bare(name)).filter(|_| updates).map(|at| at + BEHIND_TOTAL)
}

/// Whether an operator of this name makes a tensor that an update begins with and later ones go on with.
pub(crate) fn begins_state(name: &str) -> bool {
    matches!(bare(name), "zeros_like" | "zeros" | "full_like" | "full" | "new_zeros" | "clone")
}

fn name(graph: &ExecutionGraph, id: OperatorId) -> &str {
    graph.names.get(graph.operators[id.0 as usize].name)
}

/// The recorded arguments of an operator.
pub(super) fn arguments(graph: &ExecutionGraph, id: OperatorId) -> &[Operand] {
    let operands = graph.operators[id.0 as usize].operands.and_then(|row| graph.operands.get(row.0 as usize));
    operands.map_or(&[], |operands| operands.inputs.as_slice())
}

pub(super) fn bytes(operand: &Operand) -> u64 {
    operand.bytes().0
}

/// Gradients that the backward pass adds up, one per parameter. A sparse one looks as large as its table; what it holds is
/// what the backward of the look-up wrote.
fn accumulated(graph: &ExecutionGraph, part: &RankPart, ids: &[OperatorId]) -> Parameters {
    let is_accumulation = |id: &&OperatorId| name(graph, **id) == "torch::autograd::AccumulateGrad";
    let found = ids.iter().filter(is_accumulation).filter_map(|&id| Some((bytes(arguments(graph, id).first()?), id)));
    let at = |id: OperatorId| graph.operators[id.0 as usize].start;
    let (each, accumulated): (Vec<u64>, Vec<TimeNs>) =
        found.filter(|&(size, _)| size > 0).map(|(size, id)| (size, at(id))).unzip();
    let mut left: Vec<(u64, u64, OperatorId)> = ids.iter().filter_map(|&id| sparse_gradient(graph, id)).collect();
    let gradient = |&size: &u64| match left.iter().position(|&(table, ..)| table == size) {
        Some(at) => {
            let (_, values, operator) = left.swap_remove(at);
            (values, Some(operator))
        }
        None => (size, None),
    };
    let (gradients, given_by) = each.iter().map(gradient).unzip();
    let mut found = Parameters { each, gradients, given_by, accumulated, ..Parameters::default() };
    let updated = graph.updated_sizes(part, &(part.iteration_start..part.iteration_end));
    let is_kept = once(part, &found.each, &found.accumulated);
    let is_kept = as_updated(&found.each, is_kept, updated);
    found.each = kept(found.each, &is_kept);
    found.gradients = kept(found.gradients, &is_kept);
    found.given_by = kept(found.given_by, &is_kept);
    found.accumulated = kept(found.accumulated, &is_kept);
    found
}

/// Which of the parameters of these sizes, named at these times, are no other's: all passes of an iteration are over one model, which
/// has as many parameters of a size as the pass that names most of them. Where passes are not told apart, those that name the same in
/// the same order are one.
fn once(part: &RankPart, sizes: &[u64], at: &[TimeNs]) -> Vec<bool> {
    if part.passes.len() < 2 {
        let first = in_one_pass(part, sizes);
        return (0..sizes.len()).map(|place| place < first).collect();
    }
    let pass = |at: &TimeNs| part.passes.partition_point(|begins| begins <= at).max(1);
    let mut named: FxHashMap<(usize, u64), usize> = FxHashMap::default();
    let mut known: FxHashMap<u64, usize> = FxHashMap::default();
    let is_new = |(&size, at): (&u64, &TimeNs)| {
        let (in_pass, known) = (named.entry((pass(at), size)).or_default(), known.entry(size).or_default());
        *in_pass += 1;
        let is_new = *in_pass > *known;
        *known = (*known).max(*in_pass);
        is_new
    };
    sizes.iter().zip(at).map(is_new).collect()
}

/// Of those, no more of a size than the optimizer updates, where it updates any.
fn as_updated(sizes: &[u64], is_kept: Vec<bool>, mut updated: BTreeMap<u64, usize>) -> Vec<bool> {
    let mut is_more = |size: u64| match updated.get_mut(&size) {
        Some(left) => std::mem::replace(left, left.saturating_sub(1)) == 0,
        None => false,
    };
    is_kept.into_iter().zip(sizes).map(|(is_kept, &size)| is_kept && !is_more(size)).collect()
}

fn kept<T>(all: Vec<T>, is_kept: &[bool]) -> Vec<T> {
    all.into_iter().zip(is_kept).filter_map(|(one, &is_kept)| is_kept.then_some(one)).collect()
}

/// How many of the sizes are of one pass, where the iteration runs on several batches and each pass has the same.
fn in_one_pass(part: &RankPart, sizes: &[u64]) -> usize {
    let batches = part.batches.max(1) as usize;
    let count = sizes.len() / batches;
    let repeats =
        sizes.len() == count * batches && count > 0 && sizes.chunks(count).all(|pass| pass == &sizes[..count]);
    if repeats { count } else { sizes.len() }
}

/// Bytes of the table and of its gradient's values (its indices are those of the batch), when operator `id` gives a table's sparse gradient.
fn sparse_gradient(graph: &ExecutionGraph, id: OperatorId) -> Option<(u64, u64, OperatorId)> {
    let operator = &graph.operators[id.0 as usize];
    let is_it = name(graph, id).ends_with("_sparse_backward");
    if !is_it || operator.parent.is_some_and(|parent| name(graph, parent).ends_with("_sparse_backward")) {
        return None;
    }
    let arguments = arguments(graph, id);
    let dim = *arguments.first()?.dims()?.last()?;
    let lookups = arguments.iter().skip(1).find_map(|it| it.dims().filter(|dims| dims.len() == 1))?.first().copied()?;
    let rows = arguments.iter().filter_map(|it| match it {
        Operand::Value(text) => text.parse::<u64>().ok(),
        _ => None,
    });
    Some((elements(&[4, dim, rows.max()?]), elements(&[lookups, 4, dim]), id))
}

/// The parameters that optimizers of a rank were given in lists in the chosen iteration.
fn updated(graph: &ExecutionGraph, part: &RankPart) -> Vec<u64> {
    let sizes = graph.updated_sizes(part, &(part.iteration_start..part.iteration_end));
    sizes.into_iter().flat_map(|(size, count)| std::iter::repeat_n(size, count)).collect()
}

/// Weights that nothing trains: those larger than every parameter that has a gradient, which are no part of one; and what to say of them, and
/// of others that are given to layers without gradients.
fn untrained(graph: &ExecutionGraph, part: &RankPart, ids: &[OperatorId]) -> (Vec<u64>, Option<String>) {
    let is_accumulation = |id: &&OperatorId| name(graph, **id) == "torch::autograd::AccumulateGrad";
    let trained: BTreeSet<u64> = ids
        .iter()
        .filter(is_accumulation)
        .filter_map(|&id| Some(arguments(graph, id).first()?.stored_elements()))
        .collect();
    let largest = trained.last().copied().unwrap_or_default();
    let over = graph.gone_over();
    let is_alone = |named: &&Named| !over.is_empty() && !over[named.by.0 as usize];
    let (larger, others): (Vec<Named>, Vec<Named>) =
        weights(graph, ids).into_iter().partition(|named| named.elements > largest);
    let each: Vec<u64> = larger.iter().map(|named| named.bytes).collect();
    let count = in_one_pass(part, &each);
    // Of several batches each pass is given them.
    let is_told = part.batches.max(1) == 1 || count < each.len();
    let (each, alike) = if is_told { (each[..count].to_vec(), Vec::new()) } else { (Vec::new(), larger) };
    let left: u64 = total(others.iter().filter(is_alone).chain(&alike).map(|named| named.bytes));
    let said = match (each.is_empty(), left) {
        (true, 0) => None,
        (false, 0) => Some("weights without gradients other than as operators are given them".to_owned()),
        (_, left) => Some(format!(
            "weights of layers that run without gradients, {} as they are given, if they are not those that are trained",
            Bytes(left)
        )),
    };
    (each, said)
}

/// A weight that an operator is given.
struct Named {
    bytes: u64,
    elements: u64,
    by: OperatorId,
}

/// Weights by their role in the outermost operators that name them. A product's weight with the dimensions of the embedding
/// of a vocabulary is that embedding: small language models, in which it counts, share the two.
fn weights(graph: &ExecutionGraph, ids: &[OperatorId]) -> Vec<Named> {
    let mut counted_until = OperatorId(0);
    let mut each = Vec::new();
    let mut embeddings: Vec<&[u64]> = Vec::new();
    for &id in ids.iter().filter(|id| graph.operators[id.0 as usize].phase == Phase::Forward) {
        let roles = roles(bare(name(graph, id)));
        if id < counted_until || roles.is_empty() {
            continue;
        }
        let arguments = arguments(graph, id);
        let dims = |operand: &Operand| operand.dims().map(<[u64]>::to_vec).unwrap_or_default();
        let is_shared = |operand: &&Operand| {
            let (own, turned) = (dims(operand), dims(operand).into_iter().rev().collect::<Vec<u64>>());
            embeddings.iter().any(|embedding| own == *embedding || turned == *embedding)
        };
        let named = roles.iter().filter_map(|&at| arguments.get(at));
        let is_embedding = bare(name(graph, id)) == "embedding";
        let found = named.filter(|it| (is_embedding || !is_shared(it)) && bytes(it) > 0);
        let before = each.len();
        each.extend(found.map(|it| Named { bytes: bytes(it), elements: it.stored_elements(), by: id }));
        if is_embedding {
            let is_vocabulary = |dims: &&[u64]| matches!(dims, [rows, dim] if rows / 8 >= *dim);
            embeddings.extend(arguments.first().and_then(Operand::dims).filter(is_vocabulary));
        }
        if each.len() > before {
            counted_until = graph.operators[id.0 as usize].subtree_end;
        }
    }
    each
}

/// The arguments of an operator that are weights.
pub(crate) fn roles(name: &str) -> &'static [usize] {
    match name {
        "linear" | "rms_norm" | "group_norm" | "native_group_norm" => &[1, 2],
        "addmm" => &[0, 2],
        "layer_norm" | "native_layer_norm" => &[2, 3],
        "batch_norm" | "native_batch_norm" | "cudnn_batch_norm" | "miopen_batch_norm" => &[1, 2, 3, 4],
        "embedding" | "embedding_bag" | "_embedding_bag" | "_embedding_bag_forward_only" => &[0],
        _ if name.contains("conv") => &[1, 2],
        _ => &[],
    }
}

/// The place of the weight among a product's arguments; `None` for a product of two activations.
pub(crate) fn weight_place(name: &str) -> Option<usize> {
    match name {
        _ if name.contains("bmm") || name.contains("matmul") => None,
        "addmm" | "baddbmm" => Some(2),
        _ => Some(1),
    }
}

/// The place of the bias among the arguments of a product or convolution of the forward pass; `None` where it takes none.
pub(crate) fn bias_place(name: &str) -> Option<usize> {
    match name {
        "addmm" | "addmv" => Some(0),
        "linear" => Some(2),
        _ if name.contains("backward") => None,
        _ => name.contains("conv").then_some(2),
    }
}

fn has_dense_tables(graph: &ExecutionGraph, ids: &[OperatorId]) -> bool {
    let dense = ["embedding", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"];
    ids.iter().any(|&id| dense.contains(&bare(name(graph, id))))
}

/// Numbers kept for each number of a parameter, and why that is not known where it is not: from the optimizer's name, else from what it
/// runs.
fn states_per_parameter(
    graph: &ExecutionGraph,
    part: &RankPart,
    ids: &[OperatorId],
    device_work: &[NodeId],
) -> (u64, Option<String>) {
    let mut runs = vec![false; graph.names.len()];
    for id in ids {
        runs[graph.operators[id.0 as usize].name.0 as usize] = true;
    }
    let own = || part.optimizers.iter().filter_map(|it| class(&it.name));
    let classes = || own().chain(graph.names.iter().filter_map(|(_, name)| class(name)));
    if let Some(states @ 1..) = classes().filter_map(known).max() {
        return (states, None);
    }
    let has = |parts: &[&str]| {
        let mut run = graph.names.iter().zip(&runs).filter(|(_, runs)| **runs);
        run.any(|((_, name), _)| parts.iter().any(|part| name.contains(part)))
    };
    if has(&["_fused_adam", "_foreach_addcdiv_", "addcdiv_"]) {
        return (2, None);
    }
    if has(&["_fused_adagrad"]) {
        return (1, None);
    }
    if let Some(states) = states_of_kernels(graph, device_work) {
        return (states, None);
    }
    if let Some(unknown) = classes().next().filter(|_| classes().all(|class| known(class).is_none())) {
        return (0, Some(format!("what {} keeps is not known", printable(unknown))));
    }
    let is_update = |&id: &OperatorId| graph.operators[id.0 as usize].phase == Phase::Optimizer;
    let updates = ids.iter().any(is_update) || !part.optimizers.is_empty();
    // Momentum is decayed before the gradient is added to it.
    let decays = |&&id: &&OperatorId| {
        let operator = &graph.operators[id.0 as usize];
        let in_step = operator.phase == Phase::Optimizer;
        in_step && matches!(bare(name(graph, id)), "mul_" | "_foreach_mul_" | "_fused_sgd_")
    };
    let unknown = (!updates).then(|| "no update was recorded".to_owned());
    let decays = ids.iter().any(|id| decays(&id)) || part.optimizers.iter().any(|it| it.decays);
    (u64::from(decays), unknown)
}

/// Numbers that the functors of fused updates keep for each number of a parameter: those of PyTorch and apex are named for their
/// optimizer.
fn states_of_kernels(graph: &ExecutionGraph, device_work: &[NodeId]) -> Option<u64> {
    const FUNCTORS: [(&str, u64); 6] = [
        ("adagradfunctor", 1),
        ("rmspropfunctor", 1),
        ("sgdfunctor", 1),
        ("lambstage1functor", 2),
        ("adamfunctor", 2),
        ("adammathfunctor", 2),
    ];
    let of_name = |name: &str| {
        let name = name.to_ascii_lowercase();
        FUNCTORS.iter().find(|(functor, _)| name.contains(functor)).map(|&(_, states)| states)
    };
    let mut names: Vec<NameId> = device_work.iter().map(|&node| graph.tasks[node].name).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter_map(|name| of_name(graph.names.get(name))).max()
}

//! Products and convolutions with a weight, as edits of precision look for them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::cost::operators::{bare, operator_family};
use crate::cost::{Family, Shape};
use crate::graph::{ConvArguments, Operands, OperatorId, Phase, TaskKind, asked_gradients};
use crate::memory::parameters::weight_place;
use crate::scenario::draft::{Draft, Node, Source};

/// A product or convolution with a weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    /// Its first kernel.
    pub(super) kernel: Node,
    pub(super) operator: OperatorId,
    /// The weight among its operator's arguments; `None` where it is not recorded.
    pub(super) weight: Option<u16>,
    pub(super) is_forward: bool,
}

/// The products with a weight, and the added tasks that repeat them.
///
/// # Arguments
/// `chosen`: whether the kernel of an operator is looked at.
pub(super) fn products(draft: &Draft<'_>, chosen: impl Fn(Node, OperatorId) -> bool) -> Vec<Product> {
    let graph = draft.graph();
    let mut seen = vec![false; graph.operators.len()];
    let mut products = Vec::new();
    let planned = planned(draft);
    for kernel in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel) {
        let product = matches!(draft.family(kernel), Some(Family::Gemm | Family::Conv));
        let chosen = |&id: &OperatorId| product && chosen(Node::Traced(kernel), id);
        let Some(id) = graph.tasks[kernel].operator.filter(chosen) else { continue };
        let kernel = if draft.is_removed(kernel) { planned.get(&id).copied() } else { Some(Node::Traced(kernel)) };
        let Some(kernel) = kernel else { continue };
        if !std::mem::replace(&mut seen[id.0 as usize], true) {
            let operator = &graph.operators[id.0 as usize];
            let Some(place) = weight_place(bare(graph.names.get(operator.name))) else { continue };
            let is_matrix = |operands: &Operands| operands.dims(place).is_some_and(|dims| dims.len() > 1);
            let weight = draft.operands(id).is_some_and(is_matrix).then_some(place as u16);
            let is_forward = operator.phase == Phase::Forward;
            products.push(Product { kernel, operator: id, weight, is_forward });
        }
    }
    let of: FxHashMap<Node, Product> = products.iter().map(|product| (product.kernel, *product)).collect();
    let repeated =
        draft.added_nodes().filter_map(|kernel| Some(Product { kernel, ..*of.get(&draft.repeated(kernel)?)? }));
    products.extend(repeated);
    products
}

/// The last of the kernels that an edit had operators launch instead of recorded ones.
fn planned(draft: &Draft<'_>) -> FxHashMap<OperatorId, Node> {
    let planned = draft.added_tasks().filter(|(_, added)| matches!(added.source, Source::Planned(_)));
    planned.filter_map(|(node, added)| Some((added.operator?, node))).collect()
}

/// A backward product or convolution that computes the gradient of a weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightGradient {
    /// Its kernel.
    pub(super) kernel: Node,
    /// The operator among whose arguments the weight stands, and where.
    pub(super) weight: (OperatorId, u16),
}

/// Those of `products` that compute gradients of weights: all other backward ones compute gradients of activations.
pub(super) fn weight_gradients(draft: &Draft<'_>, products: &[Product]) -> Vec<WeightGradient> {
    let weight = |product: &Product| Some((product.operator, product.weight?));
    let weights: BTreeMap<OperatorId, u16> = products.iter().filter(|it| it.is_forward).filter_map(weight).collect();
    let backward = products.iter().filter(|it| !it.is_forward);
    let found: Vec<(Product, (OperatorId, u16))> =
        backward.filter_map(|it| Some((*it, weight_of(draft, it, &weights)?))).collect();
    // Where the gradient of the activation is as large, the weight's comes after it.
    let last: BTreeMap<(OperatorId, u16), OperatorId> =
        found.iter().map(|(it, weight)| (*weight, it.operator)).collect();
    let is_last = |(it, weight): &(Product, (OperatorId, u16))| last.get(weight) == Some(&it.operator);
    found.into_iter().filter(is_last).map(|(it, weight)| WeightGradient { kernel: it.kernel, weight }).collect()
}

/// The weight whose gradient a backward product computes, where it computes one.
fn weight_of(draft: &Draft<'_>, product: &Product, weights: &BTreeMap<OperatorId, u16>) -> Option<(OperatorId, u16)> {
    let operators = &draft.graph().operators;
    let around = || std::iter::successors(Some(product.operator), |id| operators[id.0 as usize].parent);
    // Of Winograd's algorithm the kernel is a matrix product.
    let name = draft.graph().names.get(operators[product.operator.0 as usize].name);
    if operator_family(name) == Some(Family::Conv) {
        return convolution_weight(draft, around());
    }
    // As traced: an edit may have given the one other sizes and not the other.
    let work = match product.kernel {
        Node::Traced(node) => draft.base().work(node),
        added @ Node::Added(_) => draft.work_of(added),
    };
    let Some(&Shape::Gemm { batch: 1, m, n, .. }) = work.map(|work| &work.shape) else { return None };
    let is_it = |&(id, place): &(OperatorId, u16)| {
        let dims = draft.recorded(id).and_then(|operands| operands.dims(place.into()));
        matches!(dims, Some(&[rows, columns]) if (rows, columns) == (m, n) || (columns, rows) == (m, n))
    };
    let forward = operators[product.operator.0 as usize].forward?;
    let below = weights.range(forward..operators[forward.0 as usize].subtree_end).map(|(&id, &place)| (id, place));
    let above = std::iter::successors(operators[forward.0 as usize].parent, |id| operators[id.0 as usize].parent);
    below.chain(above.filter_map(|id| Some((id, *weights.get(&id)?)))).find(is_it)
}

/// The weight among the arguments of the backward convolution that is innermost of `around`, unless it computes only the gradient of
/// its input.
fn convolution_weight(draft: &Draft<'_>, around: impl Iterator<Item = OperatorId>) -> Option<(OperatorId, u16)> {
    for id in around {
        let name = bare(draft.graph().names.get(draft.graph().operators[id.0 as usize].name));
        let Some(operands) = draft.operands(id) else { continue };
        if name.contains("backward_input") || !asked_gradients(operands).1 {
            return None;
        }
        let place = ConvArguments::of(name).filter(|it| it.output.is_some()).map(|it| it.weight);
        if let Some(place) = place.filter(|&place| operands.dims(place).is_some_and(|dims| dims.len() > 1)) {
            return Some((id, place as u16));
        }
    }
    None
}

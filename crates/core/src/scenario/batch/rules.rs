//! The shape rule of each kind of operator: which of its arguments carry the batch, and what its result is.

use crate::cost::Family;
use crate::cost::operators::{bare, operator_family};
use crate::graph::{DType, Operand, Operands, OperatorId, Phase};

use super::carry::Carry;
use super::casts;
use super::environment::Environment;

/// The dimensions of the arguments of operator `id` that carry the batch; notes its result.
pub(super) fn carries(environment: &mut Environment<'_>, id: OperatorId, operands: &Operands) -> Vec<Carry> {
    if environment.is_update() {
        return gradients_of_lookups(environment, operands);
    }
    if casts::is_of_parameter(environment.graph, id, operands) {
        return Vec::new();
    }
    let full = environment.graph.names.get(environment.graph.operators[id.0 as usize].name);
    let name = bare(full);
    match operator_family(full) {
        Some(Family::Gemm) => product(environment, name, operands),
        Some(Family::Conv) => first_dimension(environment, operands, conv_inputs(name)),
        Some(Family::Norm) => first_dimension(environment, operands, norm_inputs(name)),
        Some(Family::Embedding) => lookup(environment, name, operands),
        Some(Family::Elementwise) => {
            let mut found = pointwise(environment, operands);
            found.retain(|&carry| !is_spread(operands, carry));
            let all = found.clone();
            found.retain(|&carry| !all.iter().any(|&other| faces_another(operands, carry, other)));
            found
        }
        _ if is_sparse_feature(name) => lists(environment, operands, 0),
        _ => pointwise(environment, operands),
    }
}

/// What an update of parameters is given of the rows that were looked up, and their indices.
fn gradients_of_lookups(environment: &Environment<'_>, operands: &Operands) -> Vec<Carry> {
    let rows = |operand: &Operand| environment.row_of_lookups(operand.dims()?);
    let indices = |operand: &Operand| environment.indexes_lookups(operand).then_some(0);
    let each = operands.inputs.iter().enumerate();
    each.filter_map(|(at, operand)| Some(Carry::of(at, rows(operand).or_else(|| indices(operand))?))).collect()
}

/// Arguments of convolutions that are activations.
fn conv_inputs(name: &str) -> &'static [usize] {
    match name {
        _ if name.contains("backward_weight") => &[1, 2],
        _ if name.contains("backward") => &[0, 1],
        _ => &[0],
    }
}

/// Arguments of norms that are activations: all others are parameters and statistics.
fn norm_inputs(name: &str) -> &'static [usize] {
    if name.contains("backward") { &[0, 1] } else { &[0] }
}

fn first_dimension(environment: &mut Environment<'_>, operands: &Operands, arguments: &[usize]) -> Vec<Carry> {
    let mut found = Vec::new();
    for &at in arguments {
        let Some(dims) = operands.dims(at).filter(|dims| !dims.is_empty()) else { continue };
        let known = environment.dimension(dims, Some(DType::Fp32));
        // By its role it is no parameter, whatever else has its shape.
        let Some(dim) = known.or_else(|| environment.divides(dims[0]).then_some(0)) else { continue };
        environment.insert(dims.to_vec(), dim);
        found.push(Carry::of(at, dim));
    }
    found
}

/// Element-wise operators and all others without a rule of their own: each tensor by itself, the result like the largest.
fn pointwise(environment: &mut Environment<'_>, operands: &Operands) -> Vec<Carry> {
    let mut found = Vec::new();
    for (at, operand) in operands.inputs.iter().enumerate() {
        match operand {
            Operand::Tensor { dims, dtype, .. } => {
                if let Some(dim) = environment.dimension(dims, *dtype) {
                    found.push(Carry::of(at, dim));
                }
            }
            Operand::TensorList(list) => {
                let carried = list.iter().enumerate().filter_map(|(element, tensor)| {
                    let dim = environment.dimension(tensor.dims()?, tensor.dtype())?;
                    Some(Carry { element: Some(element as u16), ..Carry::of(at, dim) })
                });
                found.extend(carried);
            }
            Operand::Value(_) => {}
        }
    }
    if let Some(first) = found.first().filter(|first| first.element.is_none())
        && environment.phase() == Phase::Forward
        && let Some(dims) = operands.dims(first.argument as usize)
    {
        environment.insert(dims.to_vec(), first.dim as usize);
    }
    found
}

/// Whether the dimension is of one element that is spread over a larger one of another argument: then it is no batch, though the
/// batch is one.
fn is_spread(operands: &Operands, carry: Carry) -> bool {
    let own = operands.dims(carry.argument.into()).filter(|_| carry.element.is_none());
    let Some(dims) = own.filter(|dims| dims.get(usize::from(carry.dim)) == Some(&1)) else { return false };
    let from_right = dims.len() - 1 - usize::from(carry.dim);
    let size = |argument: usize| operands.dims(argument).and_then(|dims| dims.iter().rev().nth(from_right));
    (0..operands.inputs.len()).filter_map(size).any(|&size| size > 1)
}

/// Whether the dimension `carry` meets one of as many elements in a tensor of more dimensions, whose batch is `other` and lies elsewhere:
/// then it is no batch, as that of a weight beside activations.
fn faces_another(operands: &Operands, carry: Carry, other: Carry) -> bool {
    let from_right = |carry: Carry| {
        let dims = operands.dims(carry.argument.into()).filter(|_| carry.element.is_none())?;
        Some((dims, dims.len().checked_sub(1 + usize::from(carry.dim))?))
    };
    let (Some((own, place)), Some((larger, batch))) = (from_right(carry), from_right(other)) else { return false };
    let size = own[usize::from(carry.dim)];
    own.len() < larger.len() && place != batch && size > 1 && larger.iter().rev().nth(place) == Some(&size)
}

/// Matrix products: `[m, k] × [k, n]`, batched or not.
fn product(environment: &mut Environment<'_>, name: &str, operands: &Operands) -> Vec<Carry> {
    if matches!(name, "linear" | "_linear" | "mkldnn_linear") {
        return linear(environment, operands);
    }
    let first = usize::from(matches!(name, "addmm" | "baddbmm" | "addbmm" | "addmv" | "_addmm_activation"));
    let (Some(a), Some(b)) = (operands.dims(first), operands.dims(first + 1)) else {
        return pointwise(environment, operands);
    };
    match (a, b) {
        (&[m, k], &[k2, n]) if k == k2 => matrix(environment, first, [m, k, n]),
        ([batch, ..], [other, ..]) if a.len() > 2 && environment.divides(*batch) => {
            let mut found = vec![Carry::of(first, 0)];
            if a.len() == b.len() && other == batch {
                found.push(Carry::of(first + 1, 0));
            }
            if let (Some(m), Some(n)) = (a.get(1), b.last()) {
                environment.insert(vec![*batch, *m, *n], 0);
            }
            environment.insert(a.to_vec(), 0);
            found
        }
        _ => pointwise(environment, operands),
    }
}

fn linear(environment: &mut Environment<'_>, operands: &Operands) -> Vec<Carry> {
    let found = first_dimension(environment, operands, &[0]);
    if let (Some(carry), Some(dims), Some(weight)) = (found.first(), operands.dims(0), operands.dims(1))
        && let (Some(n), false) = (weight.first(), dims.is_empty())
    {
        let mut result = dims.to_vec();
        result[dims.len() - 1] = *n;
        environment.insert(result, carry.dim as usize);
    }
    found
}

/// Where the batch runs in a product of two matrices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    Rows,
    Columns,
    Inner,
}

fn matrix(environment: &mut Environment<'_>, first: usize, [m, k, n]: [u64; 3]) -> Vec<Carry> {
    let Some(runs) = runs(environment, [m, k, n]) else { return Vec::new() };
    let (found, result) = match runs {
        Runs::Rows => (vec![Carry::of(first, 0)], Some(0)),
        Runs::Columns => (vec![Carry::of(first + 1, 1)], Some(1)),
        Runs::Inner => (vec![Carry::of(first, 1), Carry::of(first + 1, 0)], None),
    };
    if let Some(dim) = result {
        environment.insert(vec![m, n], dim);
    }
    if runs == Runs::Rows {
        environment.insert(vec![m, k], 0);
    }
    found
}

/// Whether rows, columns or the inner dimension carry the batch: the weight is the factor, or in the gradient of a weight
/// the result, that has the shape of a parameter. Where shapes leave it open, a backward product that is the last of its
/// operator is the weight's.
fn runs(environment: &Environment<'_>, [m, k, n]: [u64; 3]) -> Option<Runs> {
    let is_weight = |rows, columns| environment.is_parameter(&[rows, columns]);
    let possible = |runs: Runs| {
        let (carries, weight) = match runs {
            Runs::Rows => (m, is_weight(k, n)),
            Runs::Columns => (n, is_weight(m, k)),
            Runs::Inner => (k, is_weight(m, n)),
        };
        environment.divides(carries) && weight
    };
    let backward = environment.phase() == Phase::Backward;
    let order = if backward && is_last_product(environment) {
        [Runs::Inner, Runs::Rows, Runs::Columns]
    } else {
        [Runs::Rows, Runs::Columns, Runs::Inner]
    };
    let by_weight = order.into_iter().filter(|&runs| backward || runs != Runs::Inner).find(|&runs| possible(runs));
    let by_size = || {
        let exact = |dim: u64| environment.divides(dim);
        match (exact(m), exact(k), exact(n)) {
            (true, _, _) => Some(Runs::Rows),
            (_, true, _) => Some(Runs::Inner),
            (_, _, true) => Some(Runs::Columns),
            _ => None,
        }
    };
    // A factor or result that is a weight leaves the batch one place: in a pass on another number of samples it is there, too.
    let is_told = is_weight(k, n) || (backward && is_weight(m, n));
    by_weight.or_else(|| by_size().filter(|_| !is_told))
}

/// Whether no product follows inside the same parent; false for one without a parent.
fn is_last_product(environment: &Environment<'_>) -> bool {
    let graph = environment.graph;
    let current = &graph.operators[environment.current.0 as usize];
    let Some(parent) = current.parent.map(|parent| &graph.operators[parent.0 as usize]) else { return false };
    let after = current.subtree_end.0 as usize..parent.subtree_end.0 as usize;
    let is_product = |index: usize| operator_family(graph.names.get(graph.operators[index].name)) == Some(Family::Gemm);
    !after.into_iter().any(is_product)
}

/// Lookups: the table is a parameter; indices, offsets and what the bags give grow with the batch.
fn lookup(environment: &mut Environment<'_>, name: &str, operands: &Operands) -> Vec<Carry> {
    match name {
        "embedding" => activations(environment, operands, 1),
        "embedding_bag" | "_embedding_bag" | "_embedding_bag_forward_only" => {
            if let (Some(&[_, dim]), Some(&[bags])) = (operands.dims(0), operands.dims(2)) {
                environment.insert(vec![bags, dim], 0);
            }
            lists(environment, operands, 1)
        }
        _ if name.contains("backward") && !name.contains("codegen") => {
            let mut found = activations(environment, operands, 0);
            found.retain(|carry| carry.argument == 0);
            found.extend(lists(environment, operands, 1));
            found
        }
        _ if name.contains("codegen") || name.contains("Lookup") => {
            let mut found = lists(environment, operands, if name.starts_with("dense") { 7 } else { 11 });
            found.extend(first_matrix(environment, operands));
            found
        }
        _ => activations(environment, operands, 0),
    }
}

/// The gradient of a batched lookup: `[batch, total dimension]` as first argument.
fn first_matrix(environment: &Environment<'_>, operands: &Operands) -> Option<Carry> {
    let &[rows, _] = operands.dims(0)? else { return None };
    environment.divides(rows).then(|| Carry::of(0, 0))
}

fn activations(environment: &Environment<'_>, operands: &Operands, from: usize) -> Vec<Carry> {
    let each = operands.inputs.iter().enumerate().skip(from).filter_map(|(at, operand)| match operand {
        Operand::Tensor { dims, dtype, .. } => environment.dimension(dims, *dtype).map(|dim| Carry::of(at, dim)),
        _ => None,
    });
    each.collect()
}

/// Lists of indices, lengths and offsets (one longer than a multiple of the batch, where they end with the total), from argument `from`.
fn lists(environment: &Environment<'_>, operands: &Operands, from: usize) -> Vec<Carry> {
    let mut found = Vec::new();
    for (at, operand) in operands.inputs.iter().enumerate().skip(from) {
        let Operand::Tensor { dims, dtype, .. } = operand else { continue };
        let extra = |dim: u64| u8::from(!environment.divides(dim) && dim > 1 && environment.divides(dim - 1));
        match dims.as_slice() {
            [length] if *length >= environment.batch => {
                found.push(Carry { extra: extra(*length), ..Carry::of(at, 0) });
            }
            [_, _] => found.extend(environment.dimension(dims, *dtype).map(|dim| Carry::of(at, dim))),
            _ => {}
        }
    }
    found
}

/// Operators on the jagged lists that feed lookups.
pub(super) fn is_sparse_feature(name: &str) -> bool {
    [
        "jagged",
        "permute_2D_sparse",
        "permute_sparse",
        "permute_1D_sparse",
        "bounds_check_indices",
        "complete_cumsum",
        "bucketize_sparse",
    ]
    .iter()
    .any(|part| name.contains(part))
}

//! Casts of parameters, which autocast makes inside the operator that takes them: no activation, whatever else has their shape.

use crate::cost::operators::bare;
use crate::graph::{ExecutionGraph, Operand, Operands, OperatorId};

use super::environment::parameters_of;

/// Whether operator `id` casts a parameter to another type, or, in the backward pass, the gradient of one back.
pub(super) fn is_of_parameter(graph: &ExecutionGraph, id: OperatorId, operands: &Operands) -> bool {
    if !is_cast(graph, id) {
        return false;
    }
    let is_back = |forward: OperatorId| {
        let below = (forward.0..graph.operators[forward.0 as usize].subtree_end.0).map(OperatorId);
        let mut casts = below.filter(|&id| is_cast(graph, id)).filter_map(|id| Some((id, recorded(graph, id)?)));
        casts.any(|(id, cast)| cast.dims(0) == operands.dims(0) && is_inside_its_taker(graph, id, cast))
    };
    let mut back = around(graph, id).filter_map(|id| graph.operators[id.0 as usize].forward);
    is_inside_its_taker(graph, id, operands) || back.any(is_back)
}

fn is_cast(graph: &ExecutionGraph, id: OperatorId) -> bool {
    matches!(name(graph, id), "to" | "_to_copy" | "copy_")
}

fn name(graph: &ExecutionGraph, id: OperatorId) -> &str {
    bare(graph.names.get(graph.operators[id.0 as usize].name))
}

fn recorded(graph: &ExecutionGraph, id: OperatorId) -> Option<&Operands> {
    graph.operands.get(graph.operators[id.0 as usize].operands?.0 as usize)
}

/// The operators around `id`, from the innermost.
fn around(graph: &ExecutionGraph, id: OperatorId) -> impl Iterator<Item = OperatorId> {
    let parent = |id: OperatorId| graph.operators[id.0 as usize].parent;
    std::iter::successors(parent(id), move |&id| parent(id))
}

/// Whether an operator around `id` takes a tensor like the one that it casts as a parameter, and none like it as an activation.
fn is_inside_its_taker(graph: &ExecutionGraph, id: OperatorId, cast: &Operands) -> bool {
    let from = usize::from(name(graph, id) == "copy_");
    let Some((source, to)) = cast.inputs.get(from).zip(cast.inputs.first()) else { return false };
    // On a host the bias is copied to every row of a result, in its own type.
    if from > 0 && (to.dims() != source.dims() || to.dtype() == source.dtype()) {
        return false;
    }
    let is_alike = |one: &Operand| one.dims() == source.dims() && one.dtype() == source.dtype();
    around(graph, id).any(|caller| {
        let Some(taken) = recorded(graph, caller) else { return false };
        let parameters = parameters_of(name(graph, caller), taken, graph.operators[caller.0 as usize].phase);
        let is_it = |dims: &[u64]| parameters.iter().any(|parameter| std::ptr::eq(*parameter, dims));
        let (own, others): (Vec<&Operand>, Vec<&Operand>) =
            taken.inputs.iter().partition(|operand| operand.dims().is_some_and(is_it));
        own.into_iter().any(is_alike) && !others.into_iter().any(is_alike)
    })
}

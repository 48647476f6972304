//! Sparse updates of embedding tables by an optimizer: operators whose arguments show the whole table, while they touch
//! only the rows that were looked up.

use crate::cost::Work;
use crate::cost::operators::{LookupSize, bare, lookup_work};
use crate::graph::{DType, ExecutionGraph, NodeId, OperatorId};

use super::work_classes::has_work;

/// The tasks that update a table sparsely, with their work: as many rows read and written as the gradient has.
pub(super) fn updates(graph: &ExecutionGraph) -> impl Iterator<Item = (NodeId, Work)> {
    let by_operator: Vec<Option<(u64, u64, u64)>> =
        (0..graph.operators.len() as u32).map(|id| sparse_size(graph, OperatorId(id))).collect();
    graph.tasks.node_indices().filter(|&node| has_work(&graph.tasks[node])).filter_map(move |node| {
        let operator = graph.tasks[node].operator?;
        let (rows, count, dim) = by_operator[operator.0 as usize]?;
        let size = LookupSize { batch: count, rows, tables: 1, pooling: 1.0, dim };
        Some((node, lookup_work(&size, true, DType::Fp32, DType::Int64)))
    })
}

/// Rows of the table, rows of the gradient, and their width, when operator `id` adds a sparse gradient to a table.
fn sparse_size(graph: &ExecutionGraph, id: OperatorId) -> Option<(u64, u64, u64)> {
    let operator = &graph.operators[id.0 as usize];
    let name = bare(graph.names.get(operator.name));
    if !name.starts_with("add") {
        return None;
    }
    let dims = |id: u32| {
        let operands = graph.operators[id as usize].operands?;
        graph.operands[operands.0 as usize].dims(0)
    };
    let &[rows, dim] = dims(id.0)? else { return None };
    let inside = id.0 + 1..operator.subtree_end.0;
    let named = |at: u32, wanted: &str| bare(graph.names.get(graph.operators[at as usize].name)) == wanted;
    if !inside.clone().any(|at| named(at, "_values") || named(at, "_nnz")) {
        return None;
    }
    // The values of the gradient are `[rows touched, width]`.
    let values =
        inside.filter_map(dims).find(|dims| matches!(dims, &[count, width] if *width == dim && *count != rows))?;
    Some((rows, values[0], dim))
}

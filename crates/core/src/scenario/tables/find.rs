//! The look-ups of a graph with the work of their forward and backward passes.

use crate::cost::operators::bare;
use crate::cost::{Reuse, Shape, Work};
use crate::graph::{ExecutionGraph, NodeId, Operands, OperatorId, lookup_range};
use crate::scenario::base::Base;
use crate::scenario::work_classes::has_work;
use crate::units::{Bytes, DurNs, elements};

use super::Table;

/// One lookup operator of the chosen iteration with what belongs to it.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    operator: OperatorId,
    pub(super) rank: usize,
    pub(super) in_iteration: bool,
    pub(super) batched: bool,
    pub(super) replicated: bool,
    pub(super) forward: Vec<NodeId>,
    pub(super) backward: Vec<NodeId>,
}

/// Whether an operator of this name looks rows up; `Some(true)` when it serves many tables at once.
fn is_lookup(name: &str) -> Option<bool> {
    match bare(name) {
        "embedding" | "embedding_bag" | "_embedding_bag" | "_embedding_bag_forward_only" => Some(false),
        name if name.starts_with("split_embedding_codegen_lookup") => Some(true),
        name if name.starts_with("dense_embedding_codegen_lookup") => Some(true),
        _ => None,
    }
}

/// The outermost lookup operators, by rank and start, with the tasks of their forward and backward pass.
pub(super) fn lookups(base: &Base) -> Vec<Lookup> {
    let graph = base.graph();
    let kinds: Vec<Option<bool>> = graph.names.iter().map(|(_, name)| is_lookup(name)).collect();
    let shares = graph.collectives.iter().any(|one| graph.names.get(one.kind).contains("to-all"));
    let mut lookups: Vec<Lookup> = Vec::new();
    let mut forward: Vec<Option<u32>> = vec![None; graph.operators.len()];
    for (index, operator) in graph.operators.iter().enumerate() {
        let outer = operator.parent.and_then(|parent| forward[parent.0 as usize]);
        let own = kinds.get(operator.name.0 as usize).copied().flatten();
        forward[index] = outer.or_else(|| {
            let batched = own?;
            let rank = base.rank_index(operator.lane);
            let part = graph.ranks.get(rank)?;
            let dense = bare(graph.names.get(operator.name)).starts_with("dense_");
            lookups.push(Lookup {
                operator: OperatorId(index as u32),
                rank,
                in_iteration: operator.start >= part.iteration_start && operator.start < part.iteration_end,
                batched,
                replicated: dense || !shares,
                forward: Vec::new(),
                backward: Vec::new(),
            });
            Some(lookups.len() as u32 - 1)
        });
    }
    let backward = gradients(graph, &forward);
    assign_tasks(graph, &forward, &backward, &mut lookups);
    lookups.sort_by_key(|lookup| (lookup.rank, graph.operators[lookup.operator.0 as usize].start));
    lookups
}

/// By operator: the lookup whose gradient it works on.
fn gradients(graph: &ExecutionGraph, forward: &[Option<u32>]) -> Vec<Option<u32>> {
    let mut backward: Vec<Option<u32>> = vec![None; graph.operators.len()];
    for (index, operator) in graph.operators.iter().enumerate() {
        let batched = graph.names.get(operator.name).contains("SplitLookupFunction");
        let own = operator.forward.and_then(|id| {
            let nearby = if batched { lookup_range(&graph.operators, id) } else { id.0 as usize..id.0 as usize + 1 };
            forward.get(nearby)?.iter().find_map(|&at| at)
        });
        backward[index] = own.or_else(|| operator.parent.and_then(|parent| backward[parent.0 as usize]));
    }
    backward
}

fn assign_tasks(graph: &ExecutionGraph, forward: &[Option<u32>], backward: &[Option<u32>], lookups: &mut [Lookup]) {
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let Some(id) = task.operator.filter(|_| has_work(task)).map(|id| id.0 as usize) else { continue };
        if let Some(lookup) = forward.get(id).copied().flatten() {
            lookups[lookup as usize].forward.push(node);
        } else if let Some(lookup) = backward.get(id).copied().flatten() {
            lookups[lookup as usize].backward.push(node);
        }
    }
}

fn operands_of(graph: &ExecutionGraph, operator: OperatorId) -> Option<&Operands> {
    let id = graph.operators.get(operator.0 as usize)?.operands?;
    graph.operands.get(id.0 as usize)
}

/// The tables that an operator serves.
pub(super) fn tables_of(base: &Base, lookup: &Lookup) -> Vec<Table> {
    let graph = base.graph();
    let time = |nodes: &[NodeId]| nodes.iter().map(|&node| graph.tasks[node].duration).sum::<DurNs>();
    let work = lookup.forward.iter().find_map(|&node| base.traced_work(node).filter(|work| is_embedding(work)));
    let operands = operands_of(graph, lookup.operator);
    let count = match work.map(|work| &work.shape) {
        Some(&Shape::Embedding { tables, .. }) => tables.max(1),
        _ => 1,
    };
    let share = 1.0 / count as f64;
    let mut table = Table {
        rank: lookup.rank,
        rows: None,
        dim: None,
        pooling: None,
        batch: None,
        bytes: None,
        forward: time(&lookup.forward).scale(share),
        backward: time(&lookup.backward).scale(share),
        is_mean: count > 1,
        replicated: lookup.replicated,
        reuse: Reuse::Uniform,
    };
    if let Some(&Work { shape: Shape::Embedding { batch, rows, pooling, dim, .. }, .. }) = work {
        let elements = operands.filter(|_| lookup.batched).and_then(weights).map(|all| all / count);
        let rows = elements.map_or(rows, |elements| elements / dim);
        let element = operands.and_then(Operands::dtype).map_or(4, crate::graph::DType::size);
        table.rows = Some(rows).filter(|&rows| rows > 0);
        (table.dim, table.pooling, table.batch) = (Some(dim), Some(pooling), Some(batch));
        table.bytes =
            table.rows.map(|rows| Bytes(elements.unwrap_or(rows.saturating_mul(dim)).saturating_mul(element)));
    }
    vec![table; count as usize]
}

fn is_embedding(work: &Work) -> bool {
    matches!(work.shape, Shape::Embedding { .. })
}

/// Elements of the weights of a table-batched lookup: the largest of its memory pools (device, managed).
fn weights(operands: &Operands) -> Option<u64> {
    let pools = (0..3).filter_map(|at| operands.dims(at)).map(elements);
    pools.max().filter(|&elements| elements > 0)
}

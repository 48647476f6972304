//! What an execution trace adds to the profiler trace it is attached to: shapes, types and values of operators that the
//! profiler recorded without.

use super::args::TensorLists;
use super::execution_trace::tensors;
use super::link::{LinkedBy, link};
use super::{ExecutionTrace, Trace};

/// Gives the operators of a trace without shapes those of the nodes they are linked to, and notes how many.
pub(super) fn adopt(trace: &mut Trace, execution_trace: &ExecutionTrace) {
    if trace.has_shapes {
        return;
    }
    let found = link(trace, execution_trace);
    let mut lists = TensorLists::of(std::mem::take(&mut trace.tensor_args));
    let names = &mut trace.names;
    let rows: Vec<_> = found
        .pairs
        .iter()
        .filter_map(|(event, node)| {
            let node = &execution_trace.nodes[node.0 as usize];
            Some((*event, tensors(execution_trace, node, names, &mut lists)?))
        })
        .collect();
    trace.tensor_args = lists.finish();
    if rows.is_empty() {
        return;
    }
    trace.has_shapes = true;
    let how = match found.by {
        LinkedBy::RecordFunction => "record function ids",
        LinkedBy::ExternalId => "operator ids",
        LinkedBy::Names => "names in order, within each step that is alike",
    };
    trace.diagnostics.note(
        "shapes-from-execution-trace",
        format!("{} operators took their shapes from the execution trace, joined by {how}", rows.len()),
    );
    trace.operators.update(rows, |args, list| args.tensors = Some(list));
}

//! What an execution trace adds to the profiler trace it is attached to: shapes, types and values of operators that the
//! profiler recorded without.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::args::{TensorArgsId, TensorLists};
use super::execution_trace::tensors;
use super::link::{LinkedBy, link};
use super::steps::{StepRange, steps};
use super::{EventId, ExecutionTrace, Trace};
use crate::intern::NameId;

/// Gives the operators of a trace without shapes those of the nodes they are linked to, and notes how many; in a trace with shapes those
/// operators that have lists of tensors without sizes: the profiler records none of lists of more than 30.
pub(super) fn adopt(trace: &mut Trace, execution_trace: &ExecutionTrace) {
    let unsized_lists = trace.has_shapes.then(|| with_unsized_lists(trace));
    if unsized_lists.as_ref().is_some_and(FxHashSet::is_empty) {
        return;
    }
    let is_wanted = |event: &EventId| unsized_lists.as_ref().is_none_or(|lists| lists.contains(event));
    let found = link(trace, execution_trace);
    let mut lists = TensorLists::of(std::mem::take(&mut trace.tensor_args));
    let names = &mut trace.names;
    let mut rows: Vec<_> = found
        .pairs
        .iter()
        .filter(|(event, _)| is_wanted(event))
        .filter_map(|(event, node)| {
            let node = &execution_trace.nodes[node.0 as usize];
            Some((*event, tensors(execution_trace, node, names, &mut lists)?))
        })
        .collect();
    if let Some(wanted) = &unsized_lists {
        rows.extend(of_other_steps(trace, wanted, &rows));
    }
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
    let what = if unsized_lists.is_some() { "the sizes of their lists of tensors" } else { "their shapes" };
    trace.diagnostics.note(
        "shapes-from-execution-trace",
        format!("{} operators took {what} from the execution trace, joined by {how}", rows.len()),
    );
    trace.operators.update(rows, |args, list| args.tensors = Some(list));
}

/// An execution trace is of one step. Where a step has as many operators of a name as that one, they were given the same lists in order.
fn of_other_steps(
    trace: &Trace,
    wanted: &FxHashSet<EventId>,
    rows: &[(EventId, TensorArgsId)],
) -> Vec<(EventId, TensorArgsId)> {
    let known: FxHashMap<EventId, TensorArgsId> = rows.iter().copied().collect();
    let mut wanted: Vec<EventId> = wanted.iter().copied().collect();
    wanted.sort_unstable();
    let of_step = |step: &StepRange| -> BTreeMap<NameId, Vec<EventId>> {
        let mut by_name: BTreeMap<NameId, Vec<EventId>> = BTreeMap::new();
        for &id in wanted.iter().filter(|&&id| (step.start..=step.end).contains(&trace.events.start(id))) {
            by_name.entry(trace.events.name(id)).or_default().push(id);
        }
        by_name
    };
    let steps: Vec<_> = steps(trace).iter().map(of_step).collect();
    let mut found = Vec::new();
    let is_known = |events: &&Vec<EventId>| events.iter().all(|id| known.contains_key(id));
    for (name, events) in steps.iter().flatten().filter(|(_, events)| !is_known(events)) {
        let mut alike = steps.iter().filter_map(|step| step.get(name)).filter(is_known);
        if let Some(like) = alike.find(|like| like.len() == events.len()) {
            found.extend(events.iter().zip(like).filter_map(|(&id, like)| Some((id, *known.get(like)?))));
        }
    }
    found.retain(|(id, _)| !known.contains_key(id));
    found
}

/// The operators that were given a list of tensors of which no sizes were recorded.
fn with_unsized_lists(trace: &Trace) -> FxHashSet<EventId> {
    let is_unsized = |dims: &str, types: &str| {
        let dims: Vec<serde_json::Value> = serde_json::from_str(dims).unwrap_or_default();
        let types: Vec<serde_json::Value> = serde_json::from_str(types).unwrap_or_default();
        let is_list = |at: usize| types.get(at).is_some_and(|kind| kind == "TensorList");
        dims.iter().enumerate().any(|(at, dims)| is_list(at) && dims.as_array().is_some_and(Vec::is_empty))
    };
    let text = |id| trace.names.get(id);
    let lists: Vec<bool> = trace.tensor_args.iter().map(|list| is_unsized(text(list.dims), text(list.types))).collect();
    let has_one =
        |tensors: Option<TensorArgsId>| tensors.is_some_and(|id| lists.get(id.index()).copied().unwrap_or(false));
    trace.operators.iter().filter(|(_, args)| has_one(args.tensors)).map(|(event, _)| event).collect()
}

//! Traces without device work: which operators compute on the host themselves.

use crate::units::DurNs;

use super::observed::Observed;
use super::threads::Thread;

/// Operators that only describe or allocate tensors.
const STRUCTURAL: [&str; 30] = [
    "view",
    "_unsafe_view",
    "reshape",
    "_reshape_alias",
    "as_strided",
    "as_strided_",
    "t",
    "transpose",
    "permute",
    "expand",
    "expand_as",
    "select",
    "slice",
    "narrow",
    "split",
    "unbind",
    "unsqueeze",
    "squeeze",
    "detach",
    "detach_",
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "resize_",
    "resolve_conj",
    "resolve_neg",
    "result_type",
    "to",
    "item",
];

/// For each operator of a thread, whether its own time is computation: it calls nothing, or spends half its time or
/// more outside what it calls. Empty when the trace has device work or launches any.
pub(super) fn operators(observed: &Observed<'_>, thread: usize) -> Vec<bool> {
    let on_device = observed.works.list.iter().any(|work| !work.on_host)
        || observed.threads.calls.iter().any(|call| call.class.launches());
    if on_device { Vec::new() } else { computing(observed, &observed.threads.list[thread]) }
}

fn computing(observed: &Observed<'_>, thread: &Thread) -> Vec<bool> {
    let spans = &thread.operators;
    let mut called = vec![DurNs::ZERO; spans.len()];
    let mut leaf = vec![true; spans.len()];
    for span in spans {
        if let Some(parent) = span.parent {
            called[parent as usize] += span.end.since(span.start);
            leaf[parent as usize] = false;
        }
    }
    let computes = spans.iter().zip(called).zip(leaf).map(|((span, called), leaf)| {
        let name = observed.trace.names.get(observed.trace.events.name(span.event));
        let mostly_own = called.0 * 2 <= span.end.since(span.start).0;
        !is_structural(name) && (leaf || mostly_own)
    });
    computes.collect()
}

fn is_structural(name: &str) -> bool {
    match name.split_once("::") {
        Some(("aten", operator)) => STRUCTURAL.contains(&operator),
        Some((space, _)) => space == "autograd" || space == "profiler",
        None => name.ends_with("Backward0") || STRUCTURAL.contains(&name),
    }
}

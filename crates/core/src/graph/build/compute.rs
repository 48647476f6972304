//! Traces without device work: which operators compute on the host themselves.

use crate::units::DurNs;

use super::activities::{Activity, ActivityKind};
use super::calls::CallClass;
use super::observed::Observed;
use super::threads::{Call, Span, Thread};

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
/// more outside what it calls. Empty when the trace has device work, launches any or lacks it.
pub(super) fn operators(observed: &Observed<'_>, thread: usize) -> Vec<bool> {
    let thread = &observed.threads.list[thread];
    if shows_device(observed) || launches(observed) {
        Vec::new()
    } else if observed.trace.untimed {
        untimed(observed, thread)
    } else if names_device(observed) {
        Vec::new()
    } else {
        computing(observed, thread)
    }
}

fn shows_device(observed: &Observed<'_>) -> bool {
    observed.activities.list.iter().any(|activity| !activity.on_host)
}

fn launches(observed: &Observed<'_>) -> bool {
    observed.threads.calls.iter().any(|call| call.class.launches())
}

/// Whether some operator is one that exists on devices only.
fn names_device(observed: &Observed<'_>) -> bool {
    let names = &observed.trace.names;
    let is_of_device = |name: &str| DEVICE_ONLY.iter().any(|beginning| name.starts_with(beginning));
    names.find("aten::record_stream").is_some() || names.iter().any(|(_, name)| is_of_device(name))
}

/// Beginnings of names that only runs on a device have: collectives of GPUs, and operators and calls of NPUs (Ascend's CANN,
/// Gaudi, XLA), whose device work no reader knows.
const DEVICE_ONLY: [&str; 8] = ["nccl:", "hccl", "Hccl", "npu::", "aclnn", "AscendCL@", "hpu::", "xla::"];

/// Whether a profiler recorded the host of a run on a device and nothing of the device: operators took the time of their
/// launches, nobody knows how long they computed.
pub(super) fn lacks_device(observed: &Observed<'_>) -> bool {
    !observed.trace.untimed && !shows_device(observed) && (launches(observed) || names_device(observed))
}

/// Whether kernels were launched and none was recorded, beside copies or memsets that were.
pub(super) fn lacks_kernels(observed: &Observed<'_>) -> bool {
    let is_kernel = |activity: &Activity| matches!(activity.kind, ActivityKind::Kernel | ActivityKind::Collective);
    let name = |call: &Call| observed.trace.names.get(observed.trace.events.name(call.event));
    let launches_kernel = |call: &Call| match call.class {
        CallClass::GraphLaunch => true,
        CallClass::Launch => !name(call).contains("Memset"),
        _ => false,
    };
    !observed.trace.untimed
        && shows_device(observed)
        && !observed.activities.list.iter().any(|activity| !activity.on_host && is_kernel(activity))
        && observed.threads.calls.iter().any(launches_kernel)
}

/// Operators that compute themselves although they call others.
const OWN_WORK: [&str; 11] = [
    "aten::addmm",
    "aten::mm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::addbmm",
    "aten::addmv",
    "aten::sum",
    "aten::mse_loss",
    "aten::smooth_l1_loss",
    "aten::huber_loss",
    "aten::binary_cross_entropy",
];

/// What those call on a host to prepare their results, and not on a device.
const PREPARING: [&str; 3] = ["aten::copy_", "aten::fill_", "aten::zero_"];

/// More operators that launch nothing, which measured traces tell by their time.
const BOOKKEEPING: [&str; 24] = [
    "alias",
    "broadcast_tensors",
    "chunk",
    "conj",
    "contiguous",
    "diagonal",
    "dropout",
    "feature_dropout",
    "flatten",
    "lift",
    "lift_fresh",
    "movedim",
    "numpy_T",
    "record_stream",
    "set_",
    "size",
    "squeeze_",
    "stride",
    "swapaxes",
    "t_",
    "transpose_",
    "unflatten",
    "unsqueeze_",
    "view_as",
];

/// For each operator of a thread without times, whether it computes: nothing that it calls does, or it is known to.
fn untimed(observed: &Observed<'_>, thread: &Thread) -> Vec<bool> {
    let trace = observed.trace;
    let name = |span: &Span| trace.names.get(trace.events.name(span.event));
    let mut computes = vec![false; thread.operators.len()];
    let mut calls_computing = vec![false; thread.operators.len()];
    for (at, span) in thread.operators.iter().enumerate().rev() {
        let is_work = launches_when_alone(name(span)) && trace.host_operators.binary_search(&span.event).is_err();
        computes[at] = is_work && (!calls_computing[at] || OWN_WORK.contains(&name(span)));
        if let Some(parent) = span.parent {
            calls_computing[parent as usize] |= computes[at] || calls_computing[at];
        }
    }
    let mut prepares = vec![false; computes.len()];
    for (at, span) in thread.operators.iter().enumerate() {
        let Some(parent) = span.parent.map(|parent| parent as usize) else { continue };
        let is_own = computes[parent] && OWN_WORK.contains(&name(&thread.operators[parent]));
        prepares[at] = (is_own || prepares[parent]) && PREPARING.contains(&name(span));
        computes[at] &= !prepares[at];
    }
    computes
}

fn launches_when_alone(name: &str) -> bool {
    match name.split_once("::") {
        Some(("aten", operator)) => !STRUCTURAL.contains(&operator) && !BOOKKEEPING.contains(&operator),
        Some((space, _)) => !matches!(space, "autograd" | "torch" | "profiler" | "c10d") && !space.contains(' '),
        None => name.starts_with("triton_"),
    }
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
        let mostly_own = called * 2 <= span.end.since(span.start);
        !is_structural(name) && (leaf || mostly_own)
    });
    computes.collect()
}

/// Whether an operator of PyTorch only describes or allocates tensors.
pub(super) fn is_description(name: &str) -> bool {
    name.strip_prefix("aten::").is_some_and(|operator| STRUCTURAL.contains(&operator))
}

fn is_structural(name: &str) -> bool {
    match name.split_once("::") {
        Some(("aten", _)) => is_description(name),
        Some((space, _)) => space == "autograd" || space == "profiler",
        None => name.ends_with("Backward0") || STRUCTURAL.contains(&name),
    }
}

//! Edits on every trace there is, and every pair of edits.

use std::path::PathBuf;

use retime_core::scenario::{Grammar, parse_step, transforms};

use crate::support::walks::{EDITS, FINDS_ADDED, Pairs, edits_undo_stack_and_ask_for_nothing, never_slower};
use crate::support::{sample, shared};
use crate::traces::{jobs, named};
use crate::{drawn, is_whole, traces};

#[test]
fn edits_undo_stack_and_change_nothing_where_they_ask_for_nothing_on_every_trace() {
    for path in drawn(traces::all()) {
        jobs(&path).iter().for_each(edits_undo_stack_and_ask_for_nothing);
    }
}

/// Samples on which pairs are tried.
const SAMPLES: [&str; 3] = [
    "dlrm-ddp-b64-fp32-cpu.kineto.json.gz",
    "mlp-b256-fp32-cpu.kineto.json.gz",
    "dlrm-ddp-b256-on-v100.predicted.json.gz",
];

/// Shared traces on which pairs are tried.
const COMMUTING: [&str; 5] = [
    "vgg13-h100-train",
    "bert-small-h100-mi300/h100.json.gz",
    "torchrec-v100x4",
    "tiny-mi250",
    "nccl-meta-a100x2-rank0",
];

/// The edit that shares tasks with every other that acts where it does.
const TOUCH_ALL: [&str; 1] = ["place-on"];

/// Every pair of edits of the table on real traces: those that touch different tasks come to the same in either order.
#[test]
fn edits_that_touch_different_tasks_commute_over_the_whole_table() {
    let shared: Vec<PathBuf> = COMMUTING.into_iter().filter_map(shared).collect();
    let has_all = is_whole() && shared.len() == COMMUTING.len();
    let mut pairs = Pairs::default();
    for path in drawn(named(SAMPLES.map(sample).into_iter().chain(shared))) {
        for opened in jobs(&path) {
            pairs.walk(&opened);
        }
    }
    pairs.assert_commute();
    if !has_all {
        return;
    }
    let is_in = |at: usize, spec: &Grammar| parse_step(EDITS[at]).unwrap().name() == spec.name;
    let tried = |spec: &Grammar| pairs.commute.iter().any(|&(a, b)| is_in(a, spec) || is_in(b, spec));
    let alone: Vec<&str> = transforms().iter().filter(|spec| !tried(spec)).map(|spec| spec.name).collect();
    assert_eq!(pairs.found_added.len(), FINDS_ADDED.len(), "named for nothing: {:?}", pairs.found_added);
    assert_eq!(alone, TOUCH_ALL);
}

#[test]
fn a_device_with_more_of_anything_and_tasks_that_take_less_are_never_slower() {
    let traces = [
        "tiny-mi250",
        "recsys-a100x8-rank3",
        "nsfw-vit-h100-mi300",
        "tiny-triton-a100",
        "bert-small-h100-mi300/h100.json.gz",
        "vgg13-h100-train",
        "cpu-captured/dlrm-ddp-b64-fp32-cpu.kineto.json.gz",
        "torchrec-v100x4",
    ];
    for path in drawn(named(traces.into_iter().filter_map(shared))) {
        jobs(&path).iter().for_each(never_slower);
    }
}

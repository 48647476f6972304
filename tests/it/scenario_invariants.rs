//! What must hold of edits, on bundled traces; `tests/slow` takes the same walks over all traces there are.

use retime_core::scenario::transforms;

use crate::support::edits::LINES;
use crate::support::jobs::of_sample;
use crate::support::walks::{EDITS, Pairs, edits_undo_stack_and_ask_for_nothing, never_slower};

const PERCEPTRON: &str = "mlp-b256-fp32-cpu.kineto.json.gz";
const RECOMMENDER: &str = "dlrm-ddp-b128-fp32-cpu-ws2-r0.kineto.json.gz";
const ON_GPU: &str = "dlrm-ddp-b256-on-v100.predicted.json.gz";

#[test]
fn every_edit_of_the_table_is_among_the_lines() {
    for spec in transforms() {
        let is_tried = |lines: &[&str]| lines.iter().any(|line| line.split(' ').next() == Some(spec.name));
        assert!(is_tried(&LINES) && is_tried(&EDITS), "{} is not tried", spec.name);
    }
}

#[test]
fn edits_undo_stack_and_change_nothing_where_they_ask_for_nothing() {
    for name in [PERCEPTRON, RECOMMENDER, ON_GPU] {
        edits_undo_stack_and_ask_for_nothing(of_sample(name));
    }
}

#[test]
fn edits_that_touch_different_tasks_commute() {
    let mut pairs = Pairs::default();
    for name in [PERCEPTRON, ON_GPU] {
        pairs.walk(of_sample(name));
    }
    pairs.assert_commute();
    assert!(pairs.commute.len() > EDITS.len(), "only {} pairs act on different tasks", pairs.commute.len());
}

#[test]
fn a_device_with_more_of_anything_and_tasks_that_take_less_are_never_slower() {
    never_slower(of_sample(ON_GPU));
}

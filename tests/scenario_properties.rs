//! What must hold for any stack of edits: no panic, times stay finite, undoing gives the base, order is kept.
#![expect(clippy::unwrap_used, reason = "a trace that cannot be opened or built should fail its test")]

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use retime::graph::timed::NO_TASK;
use retime::graph::{self, BuildOptions, TimedGraph};
use retime::scenario::{Base, Context, History, Scenario, parse_step, resolve, transforms};
use retime::sim::{Schedule, simulate};
use retime::trace::{self, OpenOptions};

const TRACES: [&str; 4] = [
    "bert-small-h100-mi300/h100.json.gz",
    "vgg13-h100-train/profiler_vgg13-iter41.json.gz",
    "cpu-captured/dlrm-ddp-b64-fp32-cpu.kineto.json.gz",
    "torchrec-v100x4",
];

const LINES: [&str; 22] = [
    "scale kind=kernel x0.5",
    "scale kind=T1 | kind=T5 x2",
    "scale name~relu & phase=forward x0",
    "remove name~relu",
    "remove kind=memset",
    "remove family=norm & !phase=backward",
    "resize-batch 7",
    "resize-batch 100000",
    "fuse-embedding-bags",
    "swap-gpu V100",
    "swap-gpu B200 host x0.7",
    "place-on-gpu H100-SXM",
    "fuse family=elementwise",
    "fuse *",
    "fuse-optimizer",
    "cuda-graph",
    "cuda-graph phase=forward",
    "remove-sync",
    "swap-link NVLink4",
    "scale-ranks 64",
    "bucket-size 1000",
    "compress-comm 4",
];

fn open(path: &str) -> Option<(Base, Context)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces").join(path);
    if !file.exists() {
        eprintln!("skipped: {} is not there", file.display());
        return None;
    }
    let opened = trace::open(&[file], &OpenOptions::default()).unwrap();
    let graph = Arc::new(graph::build(&opened.jobs[0], &BuildOptions::default()).unwrap());
    let context = Context::builtin(&graph).unwrap();
    Some((Base::new(graph), context))
}

fn check_order(timed: &TimedGraph) {
    for (task, predecessors) in timed.predecessors.iter().enumerate() {
        assert!(predecessors.iter().all(|&p| p == NO_TASK || (p as usize) < task));
    }
    assert!(timed.durations.iter().all(|&duration| duration >= 0 || duration > -3_600_000_000_000));
}

#[test]
fn stacks_of_twenty_edits_never_break_the_graph() {
    for path in TRACES {
        let Some((base, context)) = open(path) else { continue };
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let stacks = prop::collection::vec(0..LINES.len(), 1..20);
        for _ in 0..12 {
            let stack = stacks.new_tree(&mut runner).unwrap().current();
            let scenario = Scenario::parse(stack.iter().map(|&line| LINES[line])).unwrap();
            let resolved = resolve(&base, &scenario, &context);
            assert_eq!(resolved.reports.len(), stack.len());
            assert_eq!(resolved.timed.task_of.len(), base.graph().tasks.node_count());
            check_order(&resolved.timed);
            let mut schedule = Schedule::default();
            simulate(&resolved.timed, &mut schedule);
            assert!(schedule.makespan().0 >= 0, "{path} {stack:?}");
        }
    }
}

#[test]
fn undoing_every_edit_gives_the_base_bit_for_bit() {
    for path in TRACES {
        let Some((base, context)) = open(path) else { continue };
        let mut history = History::default();
        for line in LINES {
            history.append(parse_step(line).unwrap());
        }
        let _ = resolve(&base, history.current(), &context);
        while history.undo() {}
        let resolved = resolve(&base, history.current(), &context);
        let lowered = TimedGraph::lower(base.graph());
        assert_eq!((&resolved.timed.predecessors, &resolved.timed.lags), (&lowered.predecessors, &lowered.lags));
        assert_eq!((&resolved.timed.durations, &resolved.timed.task_of), (&lowered.durations, &lowered.task_of));
    }
}

#[test]
fn the_same_batch_changes_nothing() {
    for path in TRACES {
        let Some((base, context)) = open(path) else { continue };
        let Some(batch) = base.graph().batch_size else { continue };
        let scenario = Scenario::parse([format!("resize-batch {batch}").as_str()]).unwrap();
        let resolved = resolve(&base, &scenario, &context);
        assert!(resolved.changes.is_empty(), "{path}: {:?}", resolved.changes.first());
        assert_eq!(resolved.timed.durations, base.timed().durations);
    }
}

#[test]
fn every_edit_of_the_table_has_an_example_that_reads_back() {
    for spec in transforms() {
        let step = parse_step(spec.example).unwrap();
        assert_eq!(step.to_string(), spec.example);
        assert_eq!(step.transform.name(), spec.name);
        assert!(spec.usage.starts_with(spec.name) && !spec.help.is_empty());
    }
}

#[test]
fn errors_name_the_column_and_the_nearest_word() {
    for (line, expected) in [
        ("resise-batch 4", "column 1: unknown transform `resise-batch`; did you mean `resize-batch`?"),
        ("scale fmily=gemm x2", "column 7: unknown field `fmily`; did you mean `family`?"),
        ("scale family=gem x2", "column 14: unknown family `gem`; did you mean `gemm`?"),
        ("resize-batch 0", "column 14: `0`: expected a whole number from 1 to 1073741824"),
        ("scale dur>5 x2", "column 11: `5`: expected a number with a unit (ns, us, µs, ms, s)"),
        ("remove (name~a", "column 8: expected `)`"),
        ("swap-gpu H100 H200", "column 15: `H200`: expected `host xFACTOR`"),
    ] {
        let error = parse_step(line).unwrap_err().to_string();
        if line.starts_with("remove") {
            assert!(error.contains("expected `)`"), "{error}");
        } else {
            assert_eq!(error, expected);
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(line in "\\PC{0,60}") {
        let _ = parse_step(&line);
        let _ = parse_step(&format!("scale {line} x2"));
        let _ = parse_step(&format!("remove {line}"));
    }
}

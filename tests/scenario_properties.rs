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

const LINES: [&str; 37] = [
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
    "overlap-comm",
    "prefetch-input",
    "accumulate 3",
    "checkpoint phase=forward",
    "checkpoint name~linear | name~conv | name~addmm",
    "parallelize name~embedding_bag",
    "parallelize family=elementwise & phase=forward until family=gemm",
    "reorder name~relu before name~conv",
    "reorder family=norm before family=gemm",
    "resize-op family=gemm 1024->2048",
    "insert aten::relu after family=gemm",
    "insert aten::add after name~relu like name~addmm",
    "insert kernel probe 20us after kernel~probe | family=conv",
    "mixed-precision bf16",
    "scale-device dram_bw x2",
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
fn edits_that_change_nothing_are_the_base_bit_for_bit() {
    for path in TRACES {
        let Some((base, context)) = open(path) else { continue };
        let own = &context.devices[0].profile.id;
        let lines = [
            "accumulate 1".to_owned(),
            "scale-device flops x1".to_owned(),
            "scale-device link x1".to_owned(),
            "resize-op * 64->64".to_owned(),
            "scale-ranks 4000000000".to_owned(),
            format!("swap-gpu {own}"),
            "checkpoint phase=backward".to_owned(),
            "parallelize name=nothing".to_owned(),
            "reorder name=nothing before *".to_owned(),
        ];
        for line in lines.iter().filter(|line| parse_step(line).is_ok()) {
            let resolved = resolve(&base, &Scenario::parse([line.as_str()]).unwrap(), &context);
            assert_eq!(resolved.timed.durations, base.timed().durations, "{path} {line}");
            assert_eq!(resolved.timed.predecessors, base.timed().predecessors, "{path} {line}");
            assert_eq!(resolved.timed.lags, base.timed().lags, "{path} {line}");
            if !line.starts_with("swap-gpu") {
                assert!(!resolved.reports[0].unhandled.is_empty(), "{path} {line} says nothing");
            }
        }
    }
}

fn period(base: &Base, context: &Context, lines: &[&str]) -> i64 {
    let resolved = resolve(base, &Scenario::parse(lines.iter().copied()).unwrap(), context);
    let mut schedule = Schedule::default();
    simulate(&resolved.timed, &mut schedule);
    let of_rank = |part| retime::analysis::replay::period(&resolved.timed, &schedule, part).0;
    base.graph().ranks.iter().map(of_rank).max().unwrap()
}

#[test]
fn edits_of_disjoint_tasks_commute() {
    let pairs = [
        ("scale family=gemm x0.5", "scale family=elementwise x3"),
        ("remove name~relu", "scale kind=T1 x2"),
        ("resize-op family=gemm 1024->512", "scale kind=host x0.7"),
        ("insert kernel probe 20us after family=gemm", "scale kind=memcpy x4"),
        ("checkpoint name~relu", "scale kind=collective x0.5"),
        ("overlap-comm", "scale phase=optimizer x2"),
        ("prefetch-input", "scale family=gemm x2"),
        ("parallelize name~relu & phase=forward", "scale phase=backward x0.5"),
    ];
    for path in TRACES {
        let Some((base, context)) = open(path) else { continue };
        for (a, b) in pairs {
            assert_eq!(period(&base, &context, &[a, b]), period(&base, &context, &[b, a]), "{path}: {a}, {b}");
        }
    }
}

#[test]
fn a_device_with_more_of_anything_is_never_slower() {
    for path in TRACES {
        let Some((base, context)) = open(path) else { continue };
        for figure in ["dram_bw", "flops", "link", "host_link"] {
            let time = |factor: &str| period(&base, &context, &[format!("scale-device {figure} {factor}").as_str()]);
            let times: Vec<i64> = ["x0.25", "x0.5", "x1", "x1.1", "x2", "x8"].map(time).to_vec();
            assert!(times.is_sorted_by(|slow, fast| slow >= fast), "{path} {figure}: {times:?}");
        }
        for selector in ["kind=kernel", "kind=host", "kind=collective", "family=gemm"] {
            let time = |factor: &str| period(&base, &context, &[format!("scale {selector} {factor}").as_str()]);
            let times: Vec<i64> = ["x2", "x1", "x0.9", "x0.5", "x0"].map(time).to_vec();
            assert!(times.is_sorted_by(|slow, fast| slow >= fast), "{path} {selector}: {times:?}");
        }
    }
}

#[test]
fn later_steps_reach_what_earlier_ones_added() {
    let Some((base, context)) = open(TRACES[1]) else { return };
    let insert = "insert kernel probe 100us after family=conv";
    let (before, with) = (period(&base, &context, &[]), period(&base, &context, &[insert]));
    assert!(with > before, "{with} {before}");
    let twice = period(&base, &context, &[insert, "scale kernel=probe x2"]);
    assert_eq!(twice, period(&base, &context, &["insert kernel probe 200us after family=conv"]));
    let resolved = resolve(&base, &Scenario::parse([insert, "remove kernel=probe"]).unwrap(), &context);
    assert!(resolved.added.is_empty(), "{} left", resolved.added.len());
    let resolved =
        resolve(&base, &Scenario::parse([insert, "insert kernel next 1us after kernel=probe"]).unwrap(), &context);
    let named = |name: &str| resolved.added.iter().filter(|added| added.name == name).count();
    assert!(named("probe") > 0 && named("probe") == named("next"));
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
        ("scale-device dram x2", "column 14: unknown figure `dram`; did you mean `dram_bw`?"),
        ("scale-device flops x0", "column 20: `x0`: expected a number from 0.001 to 1000"),
        ("accumulate 0", "column 12: `0`: expected a whole number from 1 to 256"),
        ("resize-op name~a 64-128", "column 18: `64-128`: expected sizes as OLD->NEW"),
        ("resize-op name~a 64->x", "column 22: `x`: expected a whole number from 1 to 1099511627776"),
        ("reorder name~a after name~b", "column 28: expected `before`: SELECTOR before SELECTOR"),
        ("reorder name~a before", "column 22: expected what comes after `before`: SELECTOR before SELECTOR"),
        ("reorder name~a befor name~b", "column 16: unknown word `befor`; did you mean `before`?"),
        ("replace name~a wth aten::relu", "column 16: unknown word `wth`; did you mean `with`?"),
        (
            "replace name~a with aten::rleu",
            "column 21: `aten::rleu`: expected an operator with a known cost; did you mean `aten::relu`?",
        ),
        ("parallelize name~a untill name~b", "column 20: unknown word `untill`; did you mean `until`?"),
        (
            "parallelize name~a until",
            "column 25: expected what comes after `until`: parallelize SELECTOR until SELECTOR",
        ),
        ("insert aten::relu after name~b lke name~c", "column 32: unknown word `lke`; did you mean `like`?"),
        ("insert kernel a 35us on strem 7 after name~b", "column 25: `strem`: expected `stream`"),
        (
            "insert kernel a 35us on stream 9999 after name~b",
            "column 32: `9999`: expected a whole number from 0 to 9998",
        ),
        ("insert kernel a 35 after name~b", "column 17: `35`: expected a time with its unit, e.g. 35us"),
        ("scale kind=kernel", "column 18: expected SELECTOR xFACTOR, e.g. `kind=kernel x0.5`"),
        ("scale x2", "column 7: expected SELECTOR xFACTOR, e.g. `kind=kernel x0.5`"),
        ("scale kind=kernel x-1", "column 19: `x-1`: expected a number from 0 to 1000000"),
        ("scale kind=kernel & x2", "column 20: expected a term such as `name~relu`"),
        ("scale kind~kernel x2", "column 11: after `kind` expected one of = !="),
        ("scale rank=one x2", "column 12: `one`: expected a number"),
        ("scale stream=7.5 x2", "column 14: `7.5`: expected a whole number from 0"),
        ("scale name=\"open x2", "column 12: no closing quotation mark"),
        ("scale bytes>5QB x2", "column 13: `5QB`: expected a number with a unit (b, kb, mb, gb, k, kib, mib, gib)"),
        ("scale phase=foward x2", "column 13: unknown phase `foward`; did you mean `forward`?"),
        ("scale predictd x2", "column 7: unknown field `predictd`; did you mean `predicted`?"),
        ("scale name~a b x2", "column 14: `b`: expected `&`, `|` or the end of the selector"),
        (
            "remove xyzzy",
            "column 8: unknown field `xyzzy`: expected one of kind, name, kernel, module, family, phase, rank, device, stream, thread, dtype, dur, bytes, predicted, measured",
        ),
        ("checkpoint", "column 11: expected a selector, e.g. `kind=kernel & name~addmm`"),
        ("scale-ranks 0", "column 13: `0`: expected a whole number from 1 to 65536"),
        ("bucket-size -4", "column 13: `-4`: expected a number from 0.001 to 1000000"),
        ("compress-comm 0.5", "column 15: `0.5`: expected a number from 1 to 10000"),
        ("mixed-precision fp8", "column 17: unknown type `fp8`; did you mean `fp16`?"),
        ("reorder name~a before nme~b", "column 23: unknown field `nme`; did you mean `name`?"),
        ("insert aten::relu befor name~a", "column 19: `befor`: expected `after`"),
        (
            "insert relux after name~a",
            "column 8: `relux`: expected `kernel` or an operator with a known cost, e.g. aten::relu",
        ),
        ("overlap-comm now", "column 14: `now` is too much: overlap-comm"),
        ("swap-gpu H100 H200", "column 15: `H200`: expected `host xFACTOR`"),
    ] {
        let error = parse_step(line).unwrap_err().to_string();
        if line.starts_with("remove (") {
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

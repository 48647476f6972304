//! What must hold on every trace there is: the bundled samples always, the shared ones where they are.
#![expect(clippy::unwrap_used, reason = "a trace that cannot be opened or built should fail its test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use retime::analysis::replay::period;
use retime::graph::timed::NO_TASK;
use retime::graph::{self, BuildOptions, TimedGraph};
use retime::scenario::{Base, Context, History, Resolved, Scenario, parse_step, resolve, transforms};
use retime::sim::{Schedule, simulate};
use retime::trace::{self, OpenOptions};

/// Traces with more tasks than this are left to tests that open them on purpose.
const MOST_TASKS: usize = 30_000;

/// Lines of every edit; those of one edit stand together.
const LINES: [&str; 41] = [
    "resize-batch 7",
    "resize-batch 100000",
    "fuse-embedding-bags",
    "reshard-tables size_greedy",
    "swap-gpu V100",
    "swap-gpu B200 host x0.7",
    "place-on-gpu H100-SXM",
    "overheads mean",
    "scale kind=kernel | kind=compute x0.5",
    "scale kind=T1 | kind=T5 x2",
    "remove name~relu",
    "remove family=norm & !phase=backward",
    "fuse family=elementwise",
    "fuse-optimizer",
    "cuda-graph",
    "cuda-graph phase=forward",
    "remove-sync",
    "mixed-precision bf16",
    "insert kernel probe 20us after kernel~probe | family=conv | family=gemm",
    "insert kernel side 20us on stream 7 after family=gemm | family=elementwise",
    "insert aten::relu after family=gemm",
    "insert aten::add after name~relu like name~addmm",
    "replace name~relu with aten::gelu",
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
    "scale-device dram_bw x2",
    "scale-device flops x0.5",
    "scale-device link x4",
    "scale-device host_link x0.5",
];

struct Opened {
    name: String,
    base: Base,
    context: Context,
}

fn open(path: &Path) -> Vec<Opened> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let Ok(opened) = trace::open(&[path.to_path_buf()], &OpenOptions::default()) else { return Vec::new() };
    let graphs = opened.jobs.iter().filter_map(|job| graph::build(job, &BuildOptions::default()).ok());
    let graphs: Vec<_> = graphs.filter(|graph| graph.tasks.node_count() <= MOST_TASKS).map(Arc::new).collect();
    let opened = graphs.into_iter().map(|graph| {
        let context = Context::builtin(&graph).unwrap();
        Opened { name: name.clone(), base: Base::new(graph), context }
    });
    opened.collect()
}

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: {} is not there", folder.display());
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_dir() || path.to_string_lossy().contains(".json"));
    files.sort();
    files
}

/// Every bundled sample and every shared trace that can be modelled.
fn all() -> impl Iterator<Item = Opened> {
    let samples = files("sample_traces").into_iter().filter(|path| path.to_string_lossy().contains("kineto"));
    let shared = files("../shared/traces").into_iter().filter(|path| !path.ends_with("cpu-captured"));
    let captured = files("../shared/traces/cpu-captured").into_iter().filter(|path| {
        let name = path.to_string_lossy().into_owned();
        name.contains("kineto") && (name.contains("b64") || name.contains("b4-") || name.contains("b2-"))
    });
    samples.chain(shared).chain(captured).flat_map(|path| open(&path))
}

impl Opened {
    fn resolve(&self, lines: &[&str]) -> Resolved {
        resolve(&self.base, &Scenario::parse(lines.iter().copied()).unwrap(), &self.context)
    }

    fn time(&self, lines: &[&str]) -> i64 {
        let resolved = self.resolve(lines);
        let mut schedule = Schedule::default();
        simulate(&resolved.timed, &mut schedule);
        let of_rank = |part| period(&resolved.timed, &schedule, part).0;
        self.base.graph().ranks.iter().map(of_rank).max().unwrap()
    }

    fn check(&self, resolved: &Resolved, stack: &[&str]) {
        let timed = &*resolved.timed;
        assert_eq!(timed.task_of.len(), self.base.graph().tasks.node_count());
        for (task, predecessors) in timed.predecessors.iter().enumerate() {
            let earlier = predecessors.iter().all(|&p| p == NO_TASK || (p as usize) < task);
            assert!(earlier, "{} {stack:?}: task {task} waits for a later one", self.name);
        }
        for &node in &resolved.removed {
            assert_eq!(timed.durations[timed.task(node).0 as usize], 0, "{} {stack:?}: gone and takes time", self.name);
        }
        assert!(resolved.added.iter().all(|added| (added.task.0 as usize) < timed.len()));
        let lanes = self.base.graph().lanes.len() + resolved.added_lanes.len();
        assert!(resolved.added.iter().all(|added| (added.lane.0 as usize) < lanes), "{} {stack:?}", self.name);
        let mut schedule = Schedule::default();
        simulate(timed, &mut schedule);
        assert!(schedule.makespan().0 >= 0, "{} {stack:?}", self.name);
    }
}

#[track_caller]
fn assert_same(a: &TimedGraph, b: &TimedGraph, what: &str) {
    assert!(a.predecessors == b.predecessors && a.lags == b.lags, "{what}: other dependencies");
    assert!(a.durations == b.durations, "{what}: other durations");
    assert!(a.node_of == b.node_of && a.task_of == b.task_of, "{what}: other tasks");
}

#[test]
fn every_edit_of_the_table_is_among_the_lines() {
    for spec in transforms() {
        assert!(LINES.iter().any(|line| line.split(' ').next() == Some(spec.name)), "{} is not tried", spec.name);
    }
}

/// One walk over all traces, since opening them takes longest.
#[test]
fn edits_undo_stack_and_change_nothing_where_they_ask_for_nothing_on_every_trace() {
    let mut tried = 0;
    for opened in all() {
        let lowered = TimedGraph::lower(opened.base.graph());
        undo(&opened, &lowered);
        identities(&opened, &lowered);
        stacks(&opened);
        tried += 1;
    }
    eprintln!("{tried} traces");
    assert!(tried >= 6, "{tried} traces");
}

fn undo(opened: &Opened, lowered: &TimedGraph) {
    let mut history = History::default();
    for line in LINES {
        history.append(parse_step(line).unwrap());
        let resolved = opened.resolve(&[line]);
        opened.check(&resolved, &[line]);
        let report = &resolved.reports[0];
        let silent = report.changed == 0 && report.unhandled.is_empty();
        assert!(!silent || resolved.timed.durations == lowered.durations, "{} {line} says nothing", opened.name);
    }
    while history.undo() {}
    let resolved = resolve(&opened.base, history.current(), &opened.context);
    assert_same(&resolved.timed, lowered, &opened.name);
}

fn identities(opened: &Opened, lowered: &TimedGraph) {
    let mut lines = vec![
        "scale * x1".to_owned(),
        "accumulate 1".to_owned(),
        "scale-device flops x1".to_owned(),
        "scale-device dram_bw x1".to_owned(),
        "scale-device link x1".to_owned(),
        "compress-comm 1".to_owned(),
        "resize-op * 64->64".to_owned(),
        "overheads measured".to_owned(),
        "remove name=nothing".to_owned(),
    ];
    lines.extend(opened.base.graph().batch_size.map(|batch| format!("resize-batch {batch}")));
    lines.extend(opened.context.devices.first().map(|device| format!("swap-gpu {}", device.profile.id)));
    for line in lines {
        let resolved = opened.resolve(&[line.as_str()]);
        assert!(resolved.changes.is_empty(), "{} {line}: {:?}", opened.name, resolved.changes.first());
        assert_same(&resolved.timed, lowered, &format!("{} {line}", opened.name));
    }
}

fn stacks(opened: &Opened) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let stacks = prop::collection::vec(0..LINES.len(), 20..21);
    for _ in 0..if opened.base.graph().tasks.node_count() > 5_000 { 1 } else { 3 } {
        let stack: Vec<&str> = stacks.new_tree(&mut runner).unwrap().current().iter().map(|&at| LINES[at]).collect();
        opened.check(&opened.resolve(&stack), &stack);
    }
}

/// Two edits commute when the tasks that they read or write are disjoint. Each line names here what it reads and writes.
const DISJOINT: [(&str, &str); 14] = [
    ("scale family=gemm x0.5", "gemm"),
    ("scale family=conv x0.5", "conv"),
    ("scale kind=T1 x2", "T1"),
    ("scale kind=T3 x0", "T3"),
    ("remove family=elementwise & phase=forward & kind=memset", "memset"),
    ("scale family=norm x3", "norm"),
    ("resize-op family=softmax 64->128", "softmax"),
    ("replace family=reduction & phase=forward with aten::relu", "reduction"),
    ("scale kind=memcpy x4", "memcpy"),
    ("compress-comm 4", "collective"),
    ("scale family=optimizer x0.1", "optimizer"),
    ("scale family=movement x2", "movement"),
    ("scale kind=runtime x0.5", "runtime"),
    ("scale family=embedding x0.25", "embedding"),
];

#[test]
fn all_pairs_of_edits_of_disjoint_tasks_commute() {
    let samples = files("sample_traces").into_iter().filter(|path| path.to_string_lossy().contains("b64-fp32"));
    let shared = ["vgg13-h100-train", "bert-small-h100-mi300", "torchrec-v100x4"];
    let shared = shared.iter().map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces").join(name));
    for opened in samples.chain(shared).flat_map(|path| open(&path)) {
        for (at, (a, of_a)) in DISJOINT.iter().enumerate() {
            for (b, of_b) in DISJOINT[at + 1..].iter().filter(|(_, of_b)| of_b != of_a) {
                let (ab, ba) = (opened.resolve(&[a, b]), opened.resolve(&[b, a]));
                assert_same(&ab.timed, &ba.timed, &format!("{}: {a} ({of_a}), {b} ({of_b})", opened.name));
            }
        }
    }
}

#[test]
fn a_device_with_more_of_anything_and_tasks_that_take_less_are_never_slower() {
    let samples = files("sample_traces").into_iter().filter(|path| path.to_string_lossy().contains("predicted"));
    let shared = ["tiny-mi250", "recsys-a100x8-rank3", "nsfw-vit-h100-mi300", "tiny-triton-a100"];
    let shared = shared.iter().map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces").join(name));
    for opened in samples.chain(shared).flat_map(|path| open(&path)) {
        let falls = |what: &str, factors: &[&str]| {
            let time = |factor: &&str| opened.time(&[format!("{what} {factor}").as_str()]);
            let times: Vec<i64> = factors.iter().map(time).collect();
            assert!(times.is_sorted_by(|slow, fast| slow >= fast), "{} {what}: {times:?}", opened.name);
        };
        for figure in ["dram_bw", "flops", "link", "host_link"] {
            falls(&format!("scale-device {figure}"), &["x0.5", "x1", "x1.5", "x4"]);
        }
        for selector in ["kind=kernel", "kind=host", "kind=collective", "family=gemm", "phase=backward", "kind=T4"] {
            falls(&format!("scale {selector}"), &["x2", "x1", "x0.5", "x0"]);
        }
        falls("compress-comm", &["1", "2", "8"]);
        // Waiting for less and launching less never takes longer.
        let base = opened.time(&[]);
        for line in ["remove-sync", "remove kind=memset", "remove kind=T1", "scale * x0.9", "overlap-comm"] {
            assert!(opened.time(&[line]) <= base, "{} {line}", opened.name);
        }
    }
}

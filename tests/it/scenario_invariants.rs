//! What must hold on every trace there is: the bundled samples always, the shared ones where they are.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::support::edits::LINES;
use crate::support::scenarios::{Opened, open};
use crate::support::{sample, samples, shared};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use rayon::prelude::*;
use retime_core::graph::timed::NO_TASK;
use retime_core::graph::{NodeId, OperatorId, TaskId, TimedGraph};
use retime_core::scenario::{History, Prefix, Resolved, Step, TransformSpec, parse_step, transforms};
use retime_core::sim::{Schedule, simulate};

/// On traces with more tasks than this single edits are left to other tests: stacks of edits are tried on all.
const MOST_TASKS: usize = 30_000;

fn files(folder: Option<PathBuf>) -> Vec<PathBuf> {
    let entries = folder.into_iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.is_dir() || path.to_string_lossy().contains(".json"));
    files.sort();
    files
}

/// Every bundled sample and every shared trace that can be modelled.
fn all() -> impl Iterator<Item = Opened> {
    let is_profile = |path: &PathBuf| path.is_dir() || !path.to_string_lossy().contains(".et.json");
    let paths = files(Some(samples())).into_iter().chain(files(shared("cpu-captured"))).filter(is_profile);
    let shared = files(shared("")).into_iter().filter(|path| !path.ends_with("cpu-captured"));
    paths.chain(shared).flat_map(|path| open(&path))
}

/// What must hold of a graph under edits.
trait Check {
    fn check(&self, resolved: &Resolved, stack: &[&str]);
}

impl Check for Opened {
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
        if opened.base.graph().tasks.node_count() <= MOST_TASKS {
            undo(&opened, &lowered);
            identities(&opened, &lowered);
        }
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
    }
    LINES.par_iter().for_each(|&line| {
        let resolved = opened.resolve(&[line]);
        opened.check(&resolved, &[line]);
        let report = &resolved.reports[0];
        let silent = report.changed == 0 && report.unhandled.is_empty();
        assert!(!silent || resolved.timed.durations == lowered.durations, "{} {line} says nothing", opened.name);
    });
    while history.undo() {}
    let undone: Vec<String> = history.current().steps.iter().map(ToString::to_string).collect();
    let resolved = opened.resolve(&undone.iter().map(String::as_str).collect::<Vec<_>>());
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
        "checkpoint phase=backward".to_owned(),
        "parallelize name=nothing".to_owned(),
        "reorder name=nothing before *".to_owned(),
    ];
    lines.extend(opened.base.graph().batch_size.map(|batch| format!("resize-batch {batch}")));
    lines.extend(opened.context.devices.first().map(|device| format!("swap-gpu {}", device.profile.id)));
    lines.par_iter().for_each(|line| {
        let resolved = opened.resolve(&[line.as_str()]);
        assert!(resolved.changes.is_empty(), "{} {line}: {:?}", opened.name, resolved.changes.first());
        assert_same(&resolved.timed, lowered, &format!("{} {line}", opened.name));
        let is_said = !resolved.reports[0].unhandled.is_empty();
        assert!(is_said || !line.contains("nothing"), "{} {line} says nothing", opened.name);
    });
}

fn stacks(opened: &Opened) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let stacks = prop::collection::vec(0..LINES.len(), 20..21);
    for _ in 0..if opened.base.graph().tasks.node_count() > 5_000 { 1 } else { 3 } {
        let stack: Vec<&str> = stacks.new_tree(&mut runner).unwrap().current().iter().map(|&at| LINES[at]).collect();
        opened.check(&opened.resolve(&stack), &stack);
    }
}

/// One line of every edit of the table, of some several; each acts on some of the traces on which pairs are tried.
const EDITS: [&str; 33] = [
    "resize-batch 96",
    "fuse-embedding-bags",
    "reshard-tables t0:r1",
    "swap-gpu V100",
    "place-on-gpu H100-SXM",
    "overheads mean",
    "scale family=gemm x0.5",
    "scale kind=T3 x0",
    "remove family=norm & phase=forward",
    "remove kind=memset",
    "fuse family=elementwise",
    "fuse-optimizer",
    "cuda-graph phase=forward",
    "remove-sync",
    "mixed-precision bf16",
    "insert kernel probe 20us after family=reduction",
    "insert aten::relu after family=gemm & phase=forward",
    "replace family=softmax with aten::relu",
    "swap-link NVLink4",
    "scale-ranks 64",
    "bucket-size 1000",
    "compress-comm 4",
    "overlap-comm",
    "prefetch-input",
    "accumulate 3",
    "checkpoint name~relu",
    "parallelize name~embedding_bag",
    "reorder family=norm before family=gemm",
    "resize-op family=gemm 512->256",
    "resize-op family=gemm 4096->2048",
    "scale-device dram_bw x2",
    "scale-device flops x2",
    "scale-device link x2",
];

/// What an edit touches: traced tasks that take another time, wait for others, run elsewhere or go, and all tasks of operators
/// whose work its added tasks do.
fn touched(opened: &Opened, lowered: &TimedGraph, resolved: &Resolved) -> BTreeSet<NodeId> {
    let timed = &resolved.timed;
    let graph = opened.base.graph();
    let waits = |timed: &TimedGraph, node: NodeId| {
        let mut all: Vec<(u32, i64)> = Vec::new();
        let mut rows = vec![timed.task(node).0];
        while let Some(row) = rows.pop() {
            for slot in 0..3 {
                let before = timed.predecessors[row as usize][slot];
                if before == NO_TASK {
                    continue;
                }
                // Rows of no task join more predecessors than one row holds; those of added tasks do too, or are added.
                match timed.node_of[before as usize] {
                    u32::MAX if resolved.added_task(TaskId(before)).is_none() => rows.push(before),
                    of => all.push((of, i64::from(timed.lags[row as usize][slot]))),
                }
            }
        }
        all.sort_unstable();
        all
    };
    let differs = |node: NodeId| {
        let own = timed.durations[timed.task(node).0 as usize] != lowered.durations[lowered.task(node).0 as usize];
        own || resolved.is_removed(node) || waits(timed, node) != waits(lowered, node)
    };
    let mut found: BTreeSet<NodeId> = graph.tasks.node_indices().filter(|&node| differs(node)).collect();
    found.extend(resolved.moved.iter().map(|&(node, _)| node));
    found.extend(resolved.changes.iter().map(|&(node, _)| node));
    found.extend(resolved.added.iter().flat_map(|added| added.members.iter().copied()));
    let done: BTreeSet<OperatorId> = resolved.added.iter().filter_map(|added| added.operator).collect();
    let repeated = |node: &NodeId| graph.tasks[*node].operator.is_some_and(|operator| done.contains(&operator));
    found.extend(graph.tasks.node_indices().filter(repeated));
    found
}

/// When every traced task ends, and name, time and end of all that were added: equal for two orders that come to the same.
type Outcome = (Vec<i64>, Vec<(String, i64, i64)>);

fn outcome(opened: &Opened, resolved: &Resolved) -> Outcome {
    let mut schedule = Schedule::default();
    simulate(&resolved.timed, &mut schedule);
    let end = |task: TaskId| schedule.end(task).0;
    let traced = opened.base.graph().tasks.node_indices().map(|node| end(resolved.timed.task(node)));
    let time = |task: TaskId| resolved.timed.durations[task.0 as usize];
    let mut added: Vec<_> =
        resolved.added.iter().map(|added| (added.name.to_string(), time(added.task), end(added.task))).collect();
    added.sort_unstable();
    (traced.collect(), added)
}

/// Edits whose order matters though they touch other traced tasks: what the second finds is what the first added.
const FINDS_ADDED: [(&str, &str); 3] = [
    ("fuse family=elementwise", "insert aten::relu"),
    ("fuse family=elementwise", "checkpoint name~relu"),
    ("insert aten::relu", "checkpoint name~relu"),
];

/// Every pair of edits of the table on real traces: those that touch different tasks come to the same in either order.
#[test]
fn edits_that_touch_different_tasks_commute_over_the_whole_table() {
    for spec in transforms() {
        assert!(EDITS.iter().any(|line| line.split(' ').next() == Some(spec.name)), "{} is not tried", spec.name);
    }
    let steps: Vec<Step> = EDITS.iter().map(|line| parse_step(line).unwrap()).collect();
    let (mut pairs, mut failed, mut found_added) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    let mut traces = 0;
    for opened in commuting() {
        traces += 1;
        let lowered = TimedGraph::lower(opened.base.graph());
        let touched: Vec<BTreeSet<NodeId>> =
            EDITS.par_iter().map(|line| touched(&opened, &lowered, &opened.resolve(&[line]))).collect();
        let first = |step: &Step| Prefix::of(&opened.base, std::slice::from_ref(step), &opened.context);
        let prefixes: Vec<Prefix<'_>> = steps.iter().map(first).collect();
        let acting: Vec<usize> = (0..EDITS.len()).filter(|&at| !touched[at].is_empty()).collect();
        for (place, &a) in acting.iter().enumerate() {
            for &b in acting[place + 1..].iter().filter(|&&b| touched[a].is_disjoint(&touched[b])) {
                let both = |first: usize, second: usize| {
                    let resolved = prefixes[first].clone().resolve(&[steps[first].clone(), steps[second].clone()]);
                    outcome(&opened, &resolved)
                };
                let (ab, ba) = (both(a, b), both(b, a));
                let known = |(x, y): &&(&str, &str)| EDITS[a].starts_with(x) && EDITS[b].starts_with(y);
                match FINDS_ADDED.iter().find(known) {
                    _ if ab == ba => _ = pairs.insert((a, b)),
                    Some(known) => _ = found_added.insert(*known),
                    None => failed.push(format!(
                        "{}: {}; {}: {}",
                        opened.name,
                        EDITS[a],
                        EDITS[b],
                        difference(&opened, &ab, &ba)
                    )),
                }
            }
        }
    }
    let tried = |spec: &TransformSpec| {
        pairs.iter().any(|&(a, b)| [a, b].iter().any(|&at| steps[at].transform.name() == spec.name))
    };
    let (tried, alone): (Vec<&TransformSpec>, Vec<&TransformSpec>) = transforms().iter().partition(|spec| tried(spec));
    let names = alone.iter().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
    eprintln!("{} pairs of {} edits on {traces} traces; in none: {names}", pairs.len(), tried.len());
    assert!(failed.is_empty(), "{} do not commute:\n{}", failed.len(), failed.join("\n"));
    if traces >= COMMUTING.len() + SAMPLES.len() {
        assert_eq!(found_added.len(), FINDS_ADDED.len(), "named for nothing: {found_added:?}");
        assert_eq!(names, TOUCH_ALL.join(", "));
    }
}

/// Edits that share tasks with every other that acts where they do.
const TOUCH_ALL: [&str; 1] = ["place-on-gpu"];

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

fn commuting() -> impl Iterator<Item = Opened> {
    let samples = SAMPLES.map(|name| Some(sample(name)));
    samples.into_iter().chain(COMMUTING.map(shared)).flatten().flat_map(|path| open(&path))
}

/// Where two orders differ first.
fn difference(opened: &Opened, (ab, in_ab): &Outcome, (ba, in_ba): &Outcome) -> String {
    let graph = opened.base.graph();
    let traced = graph.tasks.node_indices().zip(ab.iter().zip(ba)).find(|(_, (ab, ba))| ab != ba);
    let traced =
        traced.map(|(node, (ab, ba))| format!("{} ends at {ab} or {ba}", graph.names.get(graph.tasks[node].name)));
    let added = in_ab.iter().zip(in_ba).find(|(ab, ba)| ab != ba).map(|(ab, ba)| format!("{ab:?} or {ba:?}"));
    format!("{} {} ({} or {} added)", traced.unwrap_or_default(), added.unwrap_or_default(), in_ab.len(), in_ba.len())
}

#[test]
fn a_device_with_more_of_anything_and_tasks_that_take_less_are_never_slower() {
    let samples = files(Some(samples())).into_iter().filter(|path| path.to_string_lossy().contains("predicted"));
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
    for opened in samples.chain(traces.iter().filter_map(|path| shared(path))).flat_map(|path| open(&path)) {
        let falls = |what: &str, factors: &[&str]| {
            let time = |factor: &&str| opened.time(&[format!("{what} {factor}").as_str()]);
            let times: Vec<i64> = factors.iter().map(time).collect();
            assert!(times.is_sorted_by(|slow, fast| slow >= fast), "{} {what}: {times:?}", opened.name);
        };
        for figure in ["dram_bw", "flops", "link", "host_link"] {
            falls(&format!("scale-device {figure}"), &["x0.25", "x0.5", "x1", "x1.1", "x1.5", "x4", "x8"]);
        }
        for selector in ["kind=kernel", "kind=host", "kind=collective", "family=gemm", "phase=backward", "kind=T4"] {
            falls(&format!("scale {selector}"), &["x2", "x1", "x0.9", "x0.5", "x0"]);
        }
        falls("compress-comm", &["1", "2", "8"]);
        // Waiting for less and launching less never takes longer.
        let base = opened.time(&[]);
        for line in ["remove-sync", "remove kind=memset", "remove kind=T1", "scale * x0.9", "overlap-comm"] {
            assert!(opened.time(&[line]) <= base, "{} {line}", opened.name);
        }
    }
}

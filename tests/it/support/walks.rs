//! What must hold of edits on any trace: quick tests walk bundled traces, slow ones all there are.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use rayon::prelude::*;
use retime_core::graph::timed::NO_TASK;
use retime_core::graph::{NodeId, OperatorId, TaskId, TimedGraph};
use retime_core::scenario::{History, Prefix, Resolved, Step, parse_step};
use retime_core::sim::{Schedule, simulate};

use super::edits::LINES;
use super::jobs::Opened;

/// On traces with more tasks than this single edits are left to other tests: stacks of edits are tried on all.
const MOST_TASKS: usize = 30_000;

/// Every edit alone and undone, edits that ask for nothing, and stacks of edits.
pub fn edits_undo_stack_and_ask_for_nothing(opened: &Opened) {
    let lowered = TimedGraph::lower(opened.graph());
    if opened.graph().tasks.node_count() <= MOST_TASKS {
        undo(opened, &lowered);
        identities(opened, &lowered);
    }
    stacks(opened);
}

impl Opened {
    /// What must hold of a graph under edits.
    fn check(&self, resolved: &Resolved, stack: &[&str]) {
        let timed = &*resolved.timed;
        assert_eq!(timed.task_of.len(), self.graph().tasks.node_count());
        for (task, predecessors) in timed.predecessors.iter().enumerate() {
            let earlier = predecessors.iter().all(|&p| p == NO_TASK || (p as usize) < task);
            assert!(earlier, "{} {stack:?}: task {task} waits for a later one", self.name);
        }
        for &node in &resolved.removed {
            assert_eq!(timed.durations[timed.task(node).0 as usize], 0, "{} {stack:?}: gone and takes time", self.name);
        }
        assert!(resolved.added.iter().all(|added| (added.task.0 as usize) < timed.len()));
        let lanes = self.graph().lanes.len() + resolved.added_lanes.len();
        assert!(resolved.added.iter().all(|added| (added.lane.0 as usize) < lanes), "{} {stack:?}", self.name);
        let mut schedule = Schedule::default();
        simulate(timed, &mut schedule);
        let longest = timed.durations.iter().max().unwrap();
        assert!(schedule.makespan().0 >= *longest, "{} {stack:?}: shorter than its longest task", self.name);
    }
}

#[track_caller]
fn assert_same(a: &TimedGraph, b: &TimedGraph, what: &str) {
    assert!(a.predecessors == b.predecessors && a.lags == b.lags, "{what}: other dependencies");
    assert!(a.durations == b.durations, "{what}: other durations");
    assert!(a.node_of == b.node_of && a.task_of == b.task_of, "{what}: other tasks");
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
        let silent = report.changed == 0 && report.lines().is_empty();
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
    lines.extend(opened.graph().batch_size.map(|batch| format!("resize-batch {batch}")));
    lines.extend(opened.context.devices.first().map(|device| format!("swap-gpu {}", device.profile.id)));
    lines.par_iter().for_each(|line| {
        let resolved = opened.resolve(&[line.as_str()]);
        assert!(resolved.changes.is_empty(), "{} {line}: {:?}", opened.name, resolved.changes.first());
        assert_same(&resolved.timed, lowered, &format!("{} {line}", opened.name));
        let is_said = !resolved.reports[0].lines().is_empty();
        assert!(is_said || !line.contains("nothing"), "{} {line} says nothing", opened.name);
    });
}

fn stacks(opened: &Opened) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let stacks = prop::collection::vec(0..LINES.len(), 20..21);
    for _ in 0..if opened.graph().tasks.node_count() > 5_000 { 1 } else { 3 } {
        let stack: Vec<&str> = stacks.new_tree(&mut runner).unwrap().current().iter().map(|&at| LINES[at]).collect();
        opened.check(&opened.resolve(&stack), &stack);
    }
}

/// More of anything and less to do are never slower.
pub fn never_slower(opened: &Opened) {
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
    // Packing and unpacking take time, so that compressing may cost more than it gains, but never more the smaller it gets.
    falls("compress-comm", &["2", "8"]);
    // Waiting for less and launching less never takes longer.
    let base = opened.time(&[]);
    for line in ["remove-sync", "remove kind=memset", "remove kind=T1", "scale * x0.9", "overlap-comm"] {
        assert!(opened.time(&[line]) <= base, "{} {line}", opened.name);
    }
}

/// One line of every edit of the table, of some several; each acts on some of the traces on which pairs are tried.
pub const EDITS: [&str; 36] = [
    "resize-batch 96",
    "fuse-embedding-bags",
    "reshard-tables t0:r1",
    "swap-gpu V100",
    "place-on H100-SXM",
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
    "quantize-weights int8",
    "conv-algorithm fft",
    "insert kernel probe 20us after family=reduction",
    "insert aten::relu after family=gemm & phase=forward",
    "replace family=softmax with aten::relu",
    "swap-link NVLink4",
    "scale-ranks 64",
    "bucket-size 1000",
    "compress-comm 4",
    "overlap-comm",
    "straggler remove",
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
    let graph = opened.graph();
    let added = resolved.added_by_task();
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
                    u32::MAX if !added.contains_key(&TaskId(before)) => rows.push(before),
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
    let traced = opened.graph().tasks.node_indices().map(|node| end(resolved.timed.task(node)));
    let time = |task: TaskId| resolved.timed.durations[task.0 as usize];
    let mut added: Vec<_> =
        resolved.added.iter().map(|added| (added.name.to_string(), time(added.task), end(added.task))).collect();
    added.sort_unstable();
    (traced.collect(), added)
}

/// Edits whose order matters though they touch other traced tasks: what the second finds is what the first added.
pub const FINDS_ADDED: [(&str, &str); 1] = [("fuse family=elementwise", "insert aten::relu")];

/// What the pairs of edits that touch different tasks came to.
#[derive(Default)]
pub struct Pairs {
    /// Places in [`EDITS`] of pairs that come to the same in either order.
    pub commute: BTreeSet<(usize, usize)>,
    /// Pairs of [`FINDS_ADDED`] that came up.
    pub found_added: BTreeSet<(&'static str, &'static str)>,
    pub failed: Vec<String>,
}

impl Pairs {
    /// Tries every pair on a job.
    pub fn walk(&mut self, opened: &Opened) {
        let steps: Vec<Step> = EDITS.iter().map(|line| parse_step(line).unwrap()).collect();
        let lowered = TimedGraph::lower(opened.graph());
        let touched: Vec<BTreeSet<NodeId>> =
            EDITS.par_iter().map(|line| touched(opened, &lowered, &opened.resolve(&[line]))).collect();
        let first = |step: &Step| Prefix::of(&opened.base, std::slice::from_ref(step), &opened.context);
        let prefixes: Vec<Prefix<'_>> = steps.iter().map(first).collect();
        let acting: Vec<usize> = (0..EDITS.len()).filter(|&at| !touched[at].is_empty()).collect();
        for (place, &a) in acting.iter().enumerate() {
            for &b in acting[place + 1..].iter().filter(|&&b| touched[a].is_disjoint(&touched[b])) {
                let both = |first: usize, second: usize| {
                    let resolved = prefixes[first].clone().resolve(&[steps[first].clone(), steps[second].clone()]);
                    outcome(opened, &resolved)
                };
                let (ab, ba) = (both(a, b), both(b, a));
                let known = |(x, y): &&(&str, &str)| EDITS[a].starts_with(x) && EDITS[b].starts_with(y);
                match FINDS_ADDED.iter().find(known) {
                    _ if ab == ba => _ = self.commute.insert((a, b)),
                    Some(known) => _ = self.found_added.insert(*known),
                    None => {
                        let difference = difference(opened, &ab, &ba);
                        self.failed.push(format!("{}: {}; {}: {difference}", opened.name, EDITS[a], EDITS[b]));
                    }
                }
            }
        }
    }

    pub fn assert_commute(&self) {
        assert!(self.failed.is_empty(), "{} do not commute:\n{}", self.failed.len(), self.failed.join("\n"));
    }
}

/// Where two orders differ first.
fn difference(opened: &Opened, (ab, in_ab): &Outcome, (ba, in_ba): &Outcome) -> String {
    let graph = opened.graph();
    let traced = graph.tasks.node_indices().zip(ab.iter().zip(ba)).find(|(_, (ab, ba))| ab != ba);
    let traced =
        traced.map(|(node, (ab, ba))| format!("{} ends at {ab} or {ba}", graph.names.get(graph.tasks[node].name)));
    let added = in_ab.iter().zip(in_ba).find(|(ab, ba)| ab != ba).map(|(ab, ba)| format!("{ab:?} or {ba:?}"));
    format!("{} {} ({} or {} added)", traced.unwrap_or_default(), added.unwrap_or_default(), in_ab.len(), in_ba.len())
}

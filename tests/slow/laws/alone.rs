//! Laws of one edit: an identity is the base, no task is free, accounts add up, what does nothing says so, nothing predicted is
//! exact, and an exported iteration opens again.

use std::collections::BTreeSet;

use rayon::prelude::*;
use retime::session::{ExportFormat, Exported, Outcome, export};
use retime_core::graph::{BuildOptions, LaneKind, NodeId, TaskId};
use retime_core::scenario::EffectKind;
use retime_core::units::DurNs;

use super::Violation;
use super::subject::{Subject, time};
use crate::support::edits::LINES;

pub const LAWS: &[&str] = &[IDENTITY, FREE, ACCOUNTS, SILENT, BAND, REOPENED];

const IDENTITY: &str = "an edit that asks for what there is changes something";
const FREE: &str = "a task that ran takes no time and was not removed";
const ACCOUNTS: &str = "changed, kept and removed device time is not that of the base";
const SILENT: &str = "an edit changes nothing and does not say so, or says so and changes something";
const BAND: &str = "something was predicted and the band has no width";
const REOPENED: &str = "an exported iteration opens as another";

pub fn violations(subject: &Subject) -> Vec<Violation> {
    let mut found: Vec<Violation> = identities(subject).par_iter().filter_map(|line| identity(subject, line)).collect();
    let of_line = |line: &&str| {
        let outcome = subject.outcome(&[*line]);
        outcome.map_or_else(Vec::new, |outcome| of_edit(subject, line, &outcome))
    };
    found.extend(LINES.par_iter().flat_map_iter(of_line).collect::<Vec<_>>());
    found.extend(reopened(subject));
    found
}

/// Edits that ask for what there is.
fn identities(subject: &Subject) -> Vec<String> {
    let graph = subject.graph();
    let mut lines: Vec<String> = [
        "scale * x1",
        "scale kind=kernel x1",
        "accumulate 1",
        "scale-device flops x1",
        "scale-device dram_bw x1",
        "scale-device link x1",
        "scale-device host_link x1",
        "compress-comm 1",
        "resize-op * 64->64",
        "overheads measured",
    ]
    .map(str::to_owned)
    .into();
    lines.extend(graph.batch_size.map(|batch| format!("resize-batch {batch}")));
    lines.extend(subject.device().map(|device| format!("swap-gpu {device}")));
    lines
}

fn identity(subject: &Subject, line: &str) -> Option<Violation> {
    let outcome = subject.outcome(&[line])?;
    let (edited, base) = (&*outcome.resolved.timed, &**subject.loaded.base.timed());
    let is_same = edited.durations == base.durations
        && edited.predecessors == base.predecessors
        && edited.lags == base.lags
        && edited.task_of == base.task_of
        && outcome.resolved.changes.is_empty();
    if is_same {
        return None;
    }
    let first = outcome.resolved.changes.first();
    let task = first.map_or("other dependencies", |&(node, _)| subject.task_name(node));
    Some(subject.violation(IDENTITY, line, format!("{task}: {} changed", outcome.resolved.changes.len())))
}

fn of_edit(subject: &Subject, line: &str, outcome: &Outcome) -> Vec<Violation> {
    let all = [
        free(subject, line, outcome).map(|shown| (FREE, shown)),
        accounts(subject, outcome).map(|shown| (ACCOUNTS, shown)),
        silent(subject, outcome).map(|shown| (SILENT, shown)),
        band(outcome).map(|shown| (BAND, shown)),
    ];
    all.into_iter().flatten().map(|(law, shown)| subject.violation(law, line, shown)).collect()
}

fn duration(outcome: &Outcome, task: TaskId) -> i64 {
    outcome.resolved.timed.durations[task.0 as usize]
}

/// Device work that takes no time under the edit.
fn free(subject: &Subject, line: &str, outcome: &Outcome) -> Option<String> {
    if line.ends_with("x0") {
        return None; // It asks for no time.
    }
    let (graph, resolved) = (subject.graph(), &outcome.resolved);
    let ran = |node: &NodeId| graph.tasks[*node].kind.is_device() && graph.tasks[*node].duration > DurNs::ZERO;
    let is_free = |node: &NodeId| duration(outcome, resolved.timed.task(*node)) == 0 && !resolved.is_removed(*node);
    let traced: Vec<NodeId> = graph.tasks.node_indices().filter(|node| ran(node) && is_free(node)).collect();
    // What was recorded to take no time may be repeated.
    let none: BTreeSet<&str> = graph
        .tasks
        .node_indices()
        .filter(|&node| graph.tasks[node].duration == DurNs::ZERO)
        .map(|node| subject.task_name(node))
        .collect();
    let mut added = resolved.added.iter().filter(|task| task.kind.is_device() && !none.contains(&*task.name));
    let free = added.find(|task| duration(outcome, task.task) == 0);
    match (traced.first(), free) {
        (Some(&first), _) => Some(format!("{}, {} such tasks", subject.task_name(first), traced.len())),
        (None, Some(task)) => Some(format!("added {}", task.name)),
        (None, None) => None,
    }
}

/// Every device task is one of changed, kept and removed, and the time of each is where that says.
fn accounts(subject: &Subject, outcome: &Outcome) -> Option<String> {
    let (graph, resolved) = (subject.graph(), &outcome.resolved);
    let changed: BTreeSet<NodeId> = resolved.changes.iter().map(|&(node, _)| node).collect();
    for node in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind.is_device()) {
        let (traced, now) = (graph.tasks[node].duration.0, duration(outcome, resolved.timed.task(node)));
        let is_right = match (resolved.is_removed(node), changed.contains(&node)) {
            (true, true) => false,
            (true, false) => now == 0,
            (false, true) => now == resolved.prediction(node).duration.0,
            (false, false) => now == traced,
        };
        if !is_right {
            return Some(format!("{}: {traced} ns traced, {now} now", subject.task_name(node)));
        }
    }
    // What an edit calls kept as a whole takes its recorded time.
    let whole = resolved.kept.iter().find(|&&(node, time)| {
        let is_whole = time == graph.tasks[node].duration;
        is_whole && duration(outcome, resolved.timed.task(node)) != time.0 && graph.tasks[node].kind.is_device()
    });
    whole.map(|&(node, time)| {
        let now = duration(outcome, resolved.timed.task(node));
        format!("{} is called kept: {} ns traced, {now} now", subject.task_name(node), time.0)
    })
}

/// Whether what the step says of its effect is so.
fn silent(subject: &Subject, outcome: &Outcome) -> Option<String> {
    let (edited, base) = (&*outcome.resolved.timed, &**subject.loaded.base.timed());
    let is_base = edited.durations == base.durations
        && edited.predecessors == base.predecessors
        && edited.lags == base.lags
        && outcome.resolved.moved.is_empty();
    let step = &outcome.steps[0];
    let says = step.effects.iter().any(|told| matches!(told.kind, EffectKind::NoEffect | EffectKind::NotModelled));
    // It may ask for what there is; the means of a trace whose calls are means are those.
    let is_met = outcome.resolved.reports[0].is_met || step.transform == "overheads mean";
    // An edit of memory alone leaves times as they are, and tells so in its summary.
    let is_other_memory = outcome.summary.memory_bytes != subject.loaded.replay.summary.memory_bytes;
    match (is_base, step.no_effect()) {
        (true, None) if !says && !is_met && !is_other_memory => Some(format!("nothing changes: {}", step.summary)),
        (false, Some(why)) => Some(format!("something changes: {why}")),
        _ => None,
    }
}

fn band(outcome: &Outcome) -> Option<String> {
    let summary = &outcome.summary;
    let is_other = summary.simulated_ns != summary.base_simulated_ns;
    let is_exact = summary.error_band.low_ns >= summary.error_band.high_ns;
    (is_other && is_exact).then(|| format!("exactly {}", summary.simulated_ns))
}

/// Times of a reopened iteration may differ by this share.
const ROUND_TRIP: f64 = 0.005;

/// The untouched iteration, exported and opened again.
fn reopened(subject: &Subject) -> Option<Violation> {
    let replay = &subject.loaded.replay;
    if subject.graph().ranks.len() > 1 || subject.loaded.folding.folds() {
        return None; // Several ranks become several files: `tests/it` opens those of a bundled job again.
    }
    let exported = Exported { loaded: &subject.loaded, outcome: replay, board: None };
    let bytes = export(&subject.engine, exported, ExportFormat::Chrome).unwrap();
    let again = match subject.engine.load_bytes(&bytes, "again.json", &BuildOptions::default()) {
        Ok(again) => again,
        Err(error) => return Some(subject.violation(REOPENED, "export", error.to_string())),
    };
    let streams = |graph: &retime_core::graph::ExecutionGraph| {
        let is_stream = |kind: LaneKind| matches!(kind, LaneKind::Stream { .. });
        let used: BTreeSet<u32> = graph.tasks.node_weights().map(|task| task.lane.0).collect();
        used.iter().filter(|&&lane| is_stream(graph.lanes[lane as usize].kind)).count()
    };
    let (before, after) = (time(replay), time(&again.replay));
    let is_off = (after / before.max(1.0) - 1.0).abs() > ROUND_TRIP;
    let (own, other) = (streams(subject.graph()), streams(&again.graph));
    let text = format!("{:.3} ms opens as {:.3}, {own} streams as {other}", before / 1e6, after / 1e6);
    (is_off || own != other).then(|| subject.violation(REOPENED, "export", text))
}

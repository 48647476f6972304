//! Laws of one edit: an identity is the base, no task is free, accounts add up, what does nothing says so, nothing predicted is
//! exact.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use retime::session::{Outcome, Side, Sweep, SweepRun};
use retime_core::analysis::roofline::Roofs;
use retime_core::cost::{Family, Shape};
use retime_core::graph::{LaneId, NodeId, TaskId, TaskKind};
use retime_core::scenario::{EffectKind, Resolved, Scenario};
use retime_core::units::DurNs;

use super::Violation;
use super::subject::{NOTHING, Subject, time};
use crate::support::edits::LINES;

pub const LAWS: &[&str] = &[IDENTITY, FREE, ACCOUNTS, SILENT, BAND, ROOF, CROWDED, OUTLASTING, COMPARED];

const IDENTITY: &str = "an edit that asks for what there is changes something";
const FREE: &str = "a task that ran takes no time and was not removed";
const ACCOUNTS: &str = "changed, kept and removed device time is not that of the base";
const SILENT: &str = "an edit changes nothing and does not say so, or says so and changes something";
const BAND: &str = "something was predicted and the band has no width";
const ROOF: &str = "a kernel that a model predicts runs above a theoretical roof";
const CROWDED: &str = "a stream has more work than the iteration has time";
const OUTLASTING: &str = "device work of a step ends after the step";
const COMPARED: &str = "what edits are compared by is far from what was recorded";

pub fn violations(subject: &Subject) -> Vec<Violation> {
    let mut found: Vec<Violation> = identities(subject).par_iter().filter_map(|line| identity(subject, line)).collect();
    let of_line = |line: &&str| {
        let outcome = subject.outcome(&[*line]);
        outcome.map_or_else(Vec::new, |outcome| of_edit(subject, line, &outcome))
    };
    found.extend(LINES.par_iter().flat_map_iter(of_line).collect::<Vec<_>>());
    found.extend(compared(subject));
    found.extend(exact_elsewhere(subject));
    found
}

/// What comparisons and sweeps say of where a predicted time may lie.
fn exact_elsewhere(subject: &Subject) -> Vec<Violation> {
    let (loaded, is_predicted) = (&subject.loaded, subject.loaded.predicted().is_some());
    let side = Side::measured(loaded, String::new());
    let (said, figures) = (loaded.replay.summary.steady_band, side.figures());
    let is_narrower = figures.low_ns > said.low_ns || figures.high_ns < said.high_ns;
    let mut found = Vec::new();
    if is_predicted && (is_narrower || side.is_measured()) {
        let shown = format!("{} from {} to {}", figures.source, figures.low_ns, figures.high_ns);
        found.push(subject.violation(BAND, "compare", shown));
    }
    let Some(batch) = subject.graph().batch_size else { return found };
    let Ok(sweep) = Sweep::new("batch", vec![batch as f64 * 3.0]) else { return found };
    let (scenario, sweeps) = (Scenario::default(), [sweep]);
    for point in SweepRun::new(&subject.engine, loaded, &scenario, &sweeps).points(&[vec![batch as f64 * 3.0]]) {
        let is_exact = point.not_done.is_none() && point.steady_band.low_ns >= point.steady_band.high_ns;
        if is_exact && (is_predicted || point.steady_ns != loaded.replay.summary.steady_ns) {
            found.push(subject.violation(BAND, "sweep", format!("exactly {}", point.steady_ns)));
        }
    }
    found
}

/// A step that repeats takes about as long as the recorded one did: the window's ends jitter, and no more.
fn compared(subject: &Subject) -> Option<Violation> {
    let summary = &subject.loaded.replay.summary;
    let (recorded, repeats) = (summary.measured_ns.0 as f64, summary.base_steady_ns.0 as f64);
    let is_near = (repeats - recorded).abs() <= JITTER * recorded + NOTHING;
    let shown = || format!("{:.3} ms, {:.3} recorded", repeats / 1e6, recorded / 1e6);
    (!is_near).then(|| subject.violation(COMPARED, "", shown()))
}

/// What the ends of a recorded window may be off its period, as a share of it.
const JITTER: f64 = 0.05;

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
        band(subject, outcome).map(|shown| (BAND, shown)),
        roof(subject, line, outcome).map(|shown| (ROOF, shown)),
        crowded(subject, outcome).map(|shown| (CROWDED, shown)),
        outlasting(subject, outcome).map(|shown| (OUTLASTING, shown)),
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
    let (told, base) = (outcome.summary.device_time, subject.loaded.replay.summary.device_time);
    let parts = [told.changed_ns, told.kept_ns, told.removed_ns, told.kept_ns - told.not_modelled_ns];
    let is_whole = told.changed_ns + told.kept_ns + told.removed_ns == base.base_ns && base.kept_ns == base.base_ns;
    if !is_whole || told.base_ns != base.base_ns || parts.iter().any(|&part| part < DurNs::ZERO) {
        return Some(format!("{told:?} of {}", base.base_ns));
    }
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

fn band(subject: &Subject, outcome: &Outcome) -> Option<String> {
    let summary = &outcome.summary;
    let is_predicted = subject.loaded.predicted().is_some() || summary.simulated_ns != summary.base_simulated_ns;
    let bands = [summary.error_band, summary.steady_band];
    let is_exact = bands.iter().any(|band| band.low_ns >= band.high_ns);
    (is_predicted && is_exact).then(|| format!("exactly {}", summary.simulated_ns))
}

/// A stream whose work, one after the other, takes longer than the iteration, though it did not as traced.
fn crowded(subject: &Subject, outcome: &Outcome) -> Option<String> {
    /// Borders of a step lie where its last work ends, on whichever stream.
    const SLACK: f64 = 1.01;
    let (graph, resolved) = (subject.graph(), &outcome.resolved);
    let inside = graph.iteration_tasks();
    let moved: BTreeSet<NodeId> = resolved.moved.iter().map(|&(node, _)| node).collect();
    let mut lanes: BTreeMap<LaneId, (i64, i64)> = BTreeMap::new();
    for node in graph.tasks.node_indices().filter(|node| inside[node.index()] && !moved.contains(node)) {
        let task = &graph.tasks[node];
        if task.kind.is_device() && !matches!(task.kind, TaskKind::Collective(_)) {
            let (before, now) = lanes.entry(task.lane).or_default();
            *before += task.duration.0;
            *now += duration(outcome, resolved.timed.task(node));
        }
    }
    let before = subject.loaded.replay.summary.steady_ns.0;
    let longest = SLACK * time(outcome);
    let is_crowded = |&(_, (was, now)): &(LaneId, (i64, i64))| was <= before && now as f64 > longest;
    let (lane, (_, now)) = lanes.into_iter().find(is_crowded)?;
    Some(format!("{:.3} ms of work on {lane:?} in {:.3} ms", now as f64 / 1e6, time(outcome) / 1e6))
}

/// Device work of the step that ends after the step does, though it did not as traced.
fn outlasting(subject: &Subject, outcome: &Outcome) -> Option<String> {
    let graph = subject.graph();
    let inside = graph.iteration_tasks();
    for part in &graph.ranks {
        let late = |of: &Outcome| {
            let timed = &of.resolved.timed;
            let end = of.schedule.end(timed.task(part.end));
            let own = graph.tasks.node_indices().filter(|&node| {
                let task = &graph.tasks[node];
                inside[node.index()] && task.kind.is_device() && graph.lanes[task.lane.0 as usize].rank == part.rank
            });
            let kept = own.filter(|&node| !of.resolved.is_removed(node));
            let last = kept.max_by_key(|&node| of.schedule.end(timed.task(node)))?;
            Some((of.schedule.end(timed.task(last)).since(end), last))
        };
        let (before, now) = (late(&subject.loaded.replay), late(outcome));
        if let Some((by, node)) = now.filter(|&(by, _)| by > before.map_or(DurNs::ZERO, |it| it.0).max(DurNs(1_000))) {
            return Some(format!("{} ends {by} after its step", subject.task_name(node)));
        }
    }
    None
}

/// What rounding to nanoseconds and figures of vendors may be off by.
const SHARE_OF_ROOF: f64 = 0.99;

/// A kernel predicted to take less than its arithmetic, or its traffic beyond what the cache holds, takes at the device's peak. What
/// was above it when traced has work that is not what was counted, and a multiplied time was asked for.
fn roof(subject: &Subject, line: &str, outcome: &Outcome) -> Option<String> {
    let is_known = subject.loaded.context.devices.iter().all(|device| device.recognised);
    let multiplies = ["scale", "straggler"].iter().any(|edit| line.starts_with(edit));
    if multiplies || !is_known {
        return None;
    }
    let (untouched, resolved) = (&subject.loaded.replay.resolved, &outcome.resolved);
    let traced = |node: NodeId| subject.graph().tasks[node].duration;
    let mut above = resolved.changes.iter().filter_map(|&(node, of)| {
        let least = least_seconds(resolved, node).filter(|&least| of.duration.secs() < least)?;
        let was_above = least_seconds(untouched, node).is_some_and(|least| traced(node).secs() < least);
        (!was_above)
            .then(|| format!("{} by {} in {}, not under {least:.3e} s", subject.task_name(node), of.model, of.duration))
    });
    let first = above.next()?;
    Some(format!("{first}; {} such kernels", above.count() + 1))
}

/// The least that a kernel takes on its device.
fn least_seconds(resolved: &Resolved, node: NodeId) -> Option<f64> {
    let graph = &*resolved.graph;
    let task = &graph.tasks[node];
    let rank = graph.lanes[task.lane.0 as usize].rank;
    let device = resolved.devices.get(graph.ranks.iter().position(|part| part.rank == rank)?)?;
    let work = resolved.works.work(node).filter(|_| task.kind == TaskKind::Kernel)?;
    let roofs = Roofs::of(device, work.computed_with());
    // What functions of an element take is a figure of models; products have theirs by definition.
    let is_product = matches!(work.family, Family::Gemm | Family::Conv | Family::Attention);
    // Algorithms that an edit chose multiply less than the definition does.
    let is_transformed = matches!(resolved.prediction(node).model, "winograd" | "fft");
    if matches!(work.shape, Shape::Embedding { .. }) {
        return None; // Rows that are looked up again come from caches.
    }
    let arithmetic = if is_product && !is_transformed { work.flop.0 / roofs.peak.0 } else { 0.0 };
    let traffic = work.bytes().0.saturating_sub(device.l2.0) as f64 / roofs.memory.0;
    Some(arithmetic.max(traffic) * SHARE_OF_ROOF).filter(|least| least.is_finite())
}

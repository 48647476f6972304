//! Laws of what comes back from a file: an exported iteration opens as the same, and edits of it give what they give of the iteration.

use std::collections::BTreeSet;

use retime::session::{ExportFormat, Exported, Loaded, Outcome, export, export_to};
use retime_core::analysis::edited::Edited;
use retime_core::graph::{BuildOptions, LaneKind};
use retime_core::trace::OpenOptions;

use super::Violation;
use super::subject::{NOTHING, Subject, time};

pub const LAWS: &[&str] = &[REOPENED, EDITED];

const REOPENED: &str = "an exported iteration opens as another";
const EDITED: &str = "an edit of an iteration that was exported gives another time than of the iteration itself";

pub fn violations(subject: &Subject) -> Vec<Violation> {
    let mut found = opened_edited(subject);
    found.extend(edited_again(subject));
    found
}

/// Edits that are tried on the iteration once it was written to files and opened again.
const AGAIN: [&str; 6] = [
    "scale kind=kernel x0.5",
    "scale kind=host x0.5",
    "mixed-precision bf16",
    "swap-gpu H200",
    "remove family=norm",
    "cuda-graph",
];

/// Edits of the untouched iteration of all ranks, and of what its files open as.
fn edited_again(subject: &Subject) -> Vec<Violation> {
    let again = match written_and_opened(subject) {
        Ok(loaded) => Subject { name: subject.name.clone(), engine: subject.engine.clone(), loaded },
        Err(error) => return vec![subject.violation(EDITED, "export", error)],
    };
    let of_line = |line: &str| {
        let (own, other) = (subject.outcome(&[line]), again.outcome(&[line]));
        let (own, other) = (own.as_ref().map(time), other.as_ref().map(time));
        let is_same = match (own, other) {
            (Some(own), Some(other)) => (other - own).abs() <= NOTHING.max(ROUND_TRIP * own),
            (own, other) => own.is_some() == other.is_some(),
        };
        (!is_same)
            .then(|| subject.violation(EDITED, line, format!("{own:.0?} ns, and {other:.0?} of the exported one")))
    };
    AGAIN.into_iter().filter_map(of_line).collect()
}

fn written_and_opened(subject: &Subject) -> Result<Loaded, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let exported = Exported { loaded: &subject.loaded, outcome: &subject.loaded.replay, board: None };
    let into = folder.path().join("again.json");
    export_to(&subject.engine, &into, exported, ExportFormat::Chrome, false).map_err(|error| error.to_string())?;
    let paths = [folder.path().to_owned()];
    let opened = subject.engine.load(&paths, &OpenOptions::default(), &BuildOptions::default());
    let mut jobs = opened.map_err(|error| error.to_string())?;
    if jobs.len() == 1 { Ok(jobs.remove(0)) } else { Err(format!("{} jobs", jobs.len())) }
}

/// Edits that give tasks other work than the arguments of their operators tell.
const OTHER_WORK: [&str; 6] = [
    "accumulate 2",
    "checkpoint kind=kernel & phase=forward",
    "fuse family=elementwise",
    "fuse-optimizer",
    "insert aten::relu after family=gemm",
    "compress-comm 4",
];

/// Times of a reopened iteration may differ by this share.
const ROUND_TRIP: f64 = 0.005;

/// The iteration, untouched and edited, exported and opened again: the same time, work, memory and samples.
fn opened_edited(subject: &Subject) -> Vec<Violation> {
    if subject.graph().ranks.len() > 1 || subject.loaded.folding.folds() {
        return Vec::new(); // Several ranks become several files: see `edited_again`.
    }
    let batch = subject.graph().batch_size.map(|batch| format!("resize-batch {}", 2 * batch));
    let lines = ["mixed-precision bf16", "resize-op family=gemm 1024->2048", "scale-ranks 64"].map(str::to_owned);
    let edited = batch.into_iter().chain(lines).filter_map(|line| {
        let outcome = subject.outcome(&[&line])?;
        reopened_as(subject, &line, &outcome)
    });
    let added = OTHER_WORK.into_iter().filter_map(|line| {
        let outcome = subject.outcome(&[line])?;
        let again = opened_again(subject, &outcome).ok()?;
        let (own, same) = (work_of_iteration(&outcome), work_of_iteration(&again.replay));
        let is_other = |own: f64, same: f64| (same / own.max(1.0) - 1.0).abs() > ROUND_TRIP && own > 0.0;
        let is_other_work = is_other(own.0, same.0) || is_other(own.1, same.1);
        let work = is_other_work.then(|| format!("{own:.4?} FLOP and bytes open as {same:.4?}"));
        work.or_else(|| other_figures(&outcome, &again)).map(|text| subject.violation(REOPENED, line, text))
    });
    reopened_as(subject, "export", &subject.loaded.replay).into_iter().chain(edited).chain(added).collect()
}

fn opened_again(subject: &Subject, outcome: &Outcome) -> Result<Loaded, String> {
    let exported = Exported { loaded: &subject.loaded, outcome, board: None };
    let bytes = export(&subject.engine, exported, ExportFormat::Chrome).unwrap();
    subject.engine.load_bytes(&bytes, "again.json", &BuildOptions::default()).map_err(|error| error.to_string())
}

/// The memory or the samples of a step, where those are others once it was opened again.
fn other_figures(outcome: &Outcome, again: &Loaded) -> Option<String> {
    let held = outcome.summary.memory.as_ref().map(|memory| (memory.source, memory.peak_bytes, memory.kinds));
    let held_again = again.replay.summary.memory.as_ref().map(|it| (it.source, it.peak_bytes, it.kinds));
    let (samples, samples_again) = (outcome.summary.job_samples(), again.replay.summary.job_samples());
    let is_other = samples.total_cmp(&samples_again).is_ne() || (held.is_some() && held != held_again);
    is_other.then(|| format!("{held:?} opens as {held_again:?}, {samples} samples as {samples_again}"))
}

fn reopened_as(subject: &Subject, line: &str, outcome: &Outcome) -> Option<Violation> {
    let again = match opened_again(subject, outcome) {
        Ok(again) => again,
        Err(error) => return Some(subject.violation(REOPENED, line, error)),
    };
    let streams = |graph: &retime_core::graph::ExecutionGraph| {
        let is_stream = |kind: LaneKind| matches!(kind, LaneKind::Stream { .. });
        let used: BTreeSet<u32> = graph.tasks.node_weights().map(|task| task.lane.0).collect();
        used.iter().filter(|&&lane| is_stream(graph.lanes[lane as usize].kind)).count()
    };
    let (before, after) = (time(outcome), time(&again.replay));
    let is_off = (after / before.max(1.0) - 1.0).abs() > ROUND_TRIP;
    let (own, other) = (streams(subject.graph()), streams(&again.graph));
    let (flop, same) = (work_of_iteration(outcome).0, work_of_iteration(&again.replay).0);
    let is_other_work = (same / flop.max(1.0) - 1.0).abs() > ROUND_TRIP && flop > 0.0;
    let others = other_figures(outcome, &again);
    let is_other = own != other || others.is_some();
    let text = format!(
        "{:.3} ms opens as {:.3}, {own} streams as {other}, {flop:.4e} FLOP as {same:.4e} {}",
        before / 1e6,
        after / 1e6,
        others.unwrap_or_default()
    );
    (is_off || is_other || is_other_work).then(|| subject.violation(REOPENED, line, text))
}

/// FLOP and bytes of the iteration, added tasks included.
fn work_of_iteration(outcome: &Outcome) -> (f64, f64) {
    let edited = Edited::of(&outcome.resolved);
    let belongs = edited.graph.iteration_tasks();
    let nodes = edited.graph.tasks.node_indices().filter(|node| belongs[node.index()]);
    let works = nodes.filter_map(|node| edited.works.work(node));
    works.fold((0.0, 0.0), |(flop, bytes), work| (flop + work.flop.0, bytes + work.bytes().0 as f64))
}

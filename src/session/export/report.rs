//! What a report on an edited iteration says, whatever it is written as: figures, steps, path, gaps, sources.

use std::collections::BTreeMap;

use crate::session::{ComparisonTable, Engine, LaneLabels, Loaded, Outcome, StepOutcome, Summary};
use retime_core::analysis::critical_path::explained;
use retime_core::analysis::edited::Edited;
use retime_core::cost::{Prediction, Provenance};
use retime_core::intern::printable;
use retime_core::units::{DurNs, Percent};

use super::{comparison, ribbon};

/// Gaps that a report lists.
const GAPS: usize = 8;
/// Shorter gaps are none.
const SHORTEST: DurNs = DurNs(5_000);

/// A report as a list of blocks.
pub(super) struct Report {
    pub title: String,
    pub blocks: Vec<Block>,
}

/// A piece of a report. All text is plain and has to be escaped by whoever writes it.
pub(super) enum Block {
    Heading(&'static str),
    Text(String),
    Table { header: Vec<String>, rows: Vec<Vec<String>> },
    Code(String),
}

impl Block {
    /// A table under fixed titles.
    pub(super) fn table(header: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self::Table { header: header.iter().map(|&title| title.to_owned()).collect(), rows }
    }
}

/// The report on `outcome`.
pub(super) fn report(engine: &Engine, loaded: &Loaded, outcome: &Outcome, board: Option<&ComparisonTable>) -> Report {
    let outcome = engine.with_gains(loaded, outcome.clone(), &[], &|| false).unwrap_or_else(|| outcome.clone());
    let summary = &outcome.summary;
    let mut blocks = vec![Block::table(&["", ""], figures(loaded, &outcome))];
    if !outcome.steps.is_empty() {
        blocks.extend([Block::Heading("Steps"), steps(&outcome.steps, summary.base_steady_ns)]);
        blocks.extend(unhandled(&outcome.steps));
    }
    blocks.extend(board.into_iter().flat_map(comparison::blocks));
    blocks.extend([Block::Heading("Critical path"), path(&outcome)]);
    blocks.extend([Block::Heading("Largest gaps"), gaps(engine, loaded, &outcome)]);
    blocks.extend([Block::Heading("Where the times come from"), sources(&outcome)]);
    blocks.extend([Block::Heading("Reproduce"), Block::Code(command(loaded, &outcome))]);
    let change = if outcome.steps.iter().any(|step| step.enabled) {
        format!("{} → {} ({})", summary.base_steady_ns, summary.steady_ns, change(summary))
    } else {
        summary.measured_ns.to_string()
    };
    Report { title: format!("{}: iteration {change}", loaded.title), blocks }
}

fn change(summary: &Summary) -> String {
    percent(summary.steady_ns - summary.base_steady_ns, summary.base_steady_ns)
}

/// `part` of `whole` with its sign.
pub(super) fn percent(part: DurNs, whole: DurNs) -> String {
    format!("{:+}", Percent::of(part, whole)).replace('-', "−")
}

fn share(part: DurNs, whole: DurNs) -> String {
    Percent::of(part, whole).to_string()
}

fn figures(loaded: &Loaded, outcome: &Outcome) -> Vec<Vec<String>> {
    let summary = &outcome.summary;
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut add = |name: &str, value: String| rows.push([name.to_owned(), value]);
    let iteration = loaded.graph.ranks.first().map_or("", |part| &part.iteration);
    let kind = loaded.predicted().map_or("measured", |_| "recorded (a prediction itself)");
    add(kind, format!("{} {iteration}", summary.measured_ns));
    let unexplained = Percent(summary.unexplained_share);
    let error = summary.replay_error.map_or_else(|| "–".to_owned(), |error| format!("{:+.2}", Percent(error)));
    add("replayed", format!("{} ({error}, {unexplained} unexplained)", summary.base_simulated_ns));
    if outcome.steps.iter().any(|step| step.enabled) {
        let band = summary.steady_band;
        let simulated = format!("{} ({})", summary.steady_ns, change(summary));
        add("simulated", format!("{simulated}, between {} and {}", band.low_ns, band.high_ns));
    }
    if let Some((before, now)) = summary.batch {
        add("batch", changed(&before.to_string(), &now.to_string()));
    }
    let before = loaded.device_names().join(", ");
    let now: Vec<&str> = outcome.resolved.devices.iter().map(|device| device.id.as_str()).collect();
    let is_same = loaded.context.devices.iter().map(|device| device.profile.id.as_str()).eq(now.iter().copied());
    let now = if is_same { before.clone() } else { dedup(now).join(", ") };
    add("device", changed(&before, &now));
    let busy = |share: f64| format!("{:.0}", Percent(share));
    add("GPU busy", changed(&busy(loaded.replay.summary.steady_gpu_busy), &busy(summary.steady_gpu_busy)));
    if let Some(bytes) = summary.memory_bytes {
        add("device memory", format!("{bytes}{}", summary.verdict()));
    }
    if let Some(late) = summary.straggler {
        add("straggler", format!("rank {}, {} late", late.rank, late.late_ns));
    }
    rows.into_iter().map(Vec::from).collect()
}

fn dedup(mut names: Vec<&str>) -> Vec<&str> {
    names.sort_unstable();
    names.dedup();
    names
}

fn changed(before: &str, now: &str) -> String {
    if before == now { now.to_owned() } else { format!("{before} → {now}") }
}

fn steps(steps: &[StepOutcome], base: DurNs) -> Block {
    let gain = |change: Option<DurNs>| {
        change.map_or("–".to_owned(), |by| format!("{by} ({})", percent(by, base)).replace('-', "−"))
    };
    let row = |(number, step): (usize, &StepOutcome)| {
        let off = if step.enabled { "" } else { " (off)" };
        let name = format!("{}{off}", step.transform);
        vec![(number + 1).to_string(), name, gain(step.alone_ns), gain(step.marginal_ns), step.summary.clone()]
    };
    let rows = steps.iter().enumerate().map(row).collect();
    Block::table(&["", "edit", "alone", "on top of those before", "what it did"], rows)
}

fn unhandled(steps: &[StepOutcome]) -> Vec<Block> {
    let lines = steps
        .iter()
        .filter(|step| step.enabled)
        .flat_map(|step| step.effects.iter().map(|told| Block::Text(format!("{}: {}", step.transform, told.line()))));
    lines.collect()
}

fn path(outcome: &Outcome) -> Block {
    let kinds = ribbon::kinds(outcome);
    let length: DurNs = kinds.iter().map(|&(_, time)| time).sum();
    let row = |(kind, time): (&str, DurNs)| vec![explained(kind).to_owned(), time.to_string(), share(time, length)];
    Block::table(&["kind", "time", "share"], kinds.into_iter().map(row).collect())
}

fn gaps(engine: &Engine, loaded: &Loaded, outcome: &Outcome) -> Block {
    let edited = Edited::of(&outcome.resolved);
    let graph = &*edited.graph;
    let found = engine.gaps(loaded, outcome, SHORTEST, GAPS);
    if found.is_empty() {
        return Block::Text(format!("No stream was idle for {SHORTEST} or more."));
    }
    let labels = LaneLabels::of(graph);
    let row = |gap: &retime_core::analysis::gaps::Gap| {
        let closing: Vec<String> = gap.closed_by.iter().map(|(step, gain)| format!("{step} (−{gain})")).collect();
        let place = format!("rank {} {}", gap.rank.0, labels.label(&graph.lanes[gap.lane.0 as usize]));
        let cause = gap.cause.describe(graph).replace("autograd::engine::evaluate_function: ", "");
        let closing = if closing.is_empty() { "–".to_owned() } else { closing.join("; ") };
        vec![gap.duration.to_string(), place, cause, closing]
    };
    let rows = found.iter().take(GAPS).map(row).collect();
    Block::table(&["length", "where", "cause", "closed by"], rows)
}

/// How much of the critical path each source of durations stands for.
fn sources(outcome: &Outcome) -> Block {
    let resolved = &outcome.resolved;
    let added = resolved.added_by_task();
    let mut by_source: BTreeMap<(Provenance, &str), (DurNs, f64)> = BTreeMap::new();
    for task in outcome.critical_tasks() {
        let prediction = match resolved.timed.node(task) {
            Some(node) => Some(resolved.prediction(node)),
            None => added.get(&task).map(|added| added.prediction),
        };
        if let Some(prediction @ Prediction { duration, model, error, .. }) = prediction {
            let sum = by_source.entry((prediction.source(), model)).or_default();
            sum.0 += duration;
            sum.1 += f64::from(error) * duration.0 as f64;
        }
    }
    let row = |((provenance, model), (time, error)): ((Provenance, &str), (DurNs, f64))| {
        let known = format!("±{:.0}", Percent(error / time.0.max(1) as f64));
        let error = if model.is_empty() { "–".to_owned() } else { known };
        let model = if model.is_empty() { "–" } else { model };
        let source = format!("{provenance:?}").to_lowercase();
        vec![source, model.to_owned(), time.to_string(), share(time, outcome.summary.simulated_ns), error]
    };
    let rows = by_source.into_iter().filter(|(_, (time, _))| *time > DurNs::ZERO).map(row).collect();
    Block::table(&["source", "model", "time on the path", "share", "known error"], rows)
}

/// The command that gives the same figures.
fn command(loaded: &Loaded, outcome: &Outcome) -> String {
    let mut words = vec!["retime simulate".to_owned()];
    let names = loaded.traces().filter_map(|trace| trace.path.file_name());
    words.extend(names.map(|name| quoted(&printable(&name.to_string_lossy()))));
    let steps = outcome.scenario.steps.iter().filter(|step| step.enabled);
    words.extend(steps.map(|step| format!("--step {}", quoted(&step.to_string()))));
    words.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._-/,:".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

//! `info`: what is in a trace.

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{Iteration, TraceArgs};
use crate::session::{Engine, Loaded};
use retime_core::diagnostic::Diagnostic;
use retime_core::graph::RankPart;
use retime_core::graph::iteration::steps;
use retime_core::intern::printable;
use retime_core::trace::{Category, TrackKind};
use retime_core::units::{DurNs, TimeNs};

use super::{input, output};

#[derive(Debug, Serialize)]
struct Info {
    traces: Vec<JobInfo>,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Debug, Serialize)]
struct JobInfo {
    path: String,
    files: Vec<String>,
    format: &'static str,
    ranks: usize,
    /// Ranks that are simulated for others too; empty where every rank is simulated.
    folded: Vec<FoldedInfo>,
    world_size: Option<u32>,
    events: u64,
    skipped_events: u64,
    host_threads: usize,
    streams: usize,
    operators: usize,
    runtime_calls: usize,
    kernels: usize,
    device: Option<String>,
    iterations: Vec<IterationInfo>,
    /// Which recorded steps are one iteration, where several are.
    #[serde(skip)]
    turns: Option<String>,
    chosen_iteration: String,
    measured_ns: DurNs,
    /// What made the times up, where none were measured.
    predicted: Option<String>,
    has_shapes: bool,
    has_execution_trace: bool,
    batch_size: Option<u64>,
    /// What it may be, where the trace leaves open which.
    batch_candidates: Vec<u64>,
    clocks: Vec<ClockInfo>,
}

/// A rank that stands for others which did the same.
#[derive(Debug, Serialize)]
struct FoldedInfo {
    rank: u32,
    /// How many ranks it stands for, itself included.
    count: u32,
    stands_for: Vec<u32>,
}

/// A rank's clock against the first rank's.
#[derive(Debug, Serialize)]
struct ClockInfo {
    rank: u32,
    offset_ns: DurNs,
    drift_ppm: f64,
}

#[derive(Debug, Serialize)]
struct IterationInfo {
    name: String,
    start_ns: TimeNs,
    duration_ns: DurNs,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, or standard output cannot be written.
pub fn run(args: &TraceArgs) -> Result<()> {
    let mut engine = Engine { folds: !args.all_ranks, ..input::engine()? };
    engine.device = args.device.as_deref().map(|name| engine.catalog.find(name).cloned()).transpose()?;
    let jobs = input::open_all(&engine, &args.traces, Iteration::Default)?;
    let info = Info {
        traces: jobs.iter().map(job_info).collect(),
        diagnostics: jobs
            .iter()
            .flat_map(|job| job.diagnostics().sorted().into_iter().cloned().collect::<Vec<_>>())
            .collect(),
    };
    output::write(
        &args.output,
        &info,
        |out| info.traces.iter().try_for_each(|job| describe(job, out)),
        || table(&info),
    )?;
    Ok(())
}

fn job_info(loaded: &Loaded) -> JobInfo {
    let files = input::paths(loaded);
    let count = |wanted: Category| {
        loaded.traces().map(|trace| trace.events.ids().filter(|&id| trace.events.category(id) == wanted).count()).sum()
    };
    let tracks = |wanted: fn(&TrackKind) -> bool| {
        loaded.traces().map(|trace| trace.tracks.iter().filter(|track| wanted(&track.kind)).count()).sum()
    };
    let mut devices: Vec<String> = Vec::new();
    for name in loaded.traces().filter_map(|trace| Some(printable(&trace.devices.first()?.name))) {
        if !devices.contains(&name) {
            devices.push(name);
        }
    }
    let device = (!devices.is_empty()).then(|| devices.join(", "));
    JobInfo {
        path: files.first().cloned().unwrap_or_default(),
        format: loaded.traces().next().map_or("execution-trace", |trace| trace.format),
        files,
        ranks: loaded.job.ranks.len(),
        folded: folded(loaded),
        world_size: loaded.job.ranks.iter().find_map(|rank| rank.world_size),
        events: loaded.traces().map(|trace| trace.events_in_file).sum(),
        skipped_events: loaded.traces().map(|trace| trace.skipped_events).sum(),
        host_threads: tracks(|kind| matches!(kind, TrackKind::Thread { .. })),
        streams: tracks(|kind| matches!(kind, TrackKind::Stream { .. })),
        operators: count(Category::Operator),
        runtime_calls: count(Category::Runtime),
        kernels: count(Category::Kernel),
        device,
        iterations: loaded.traces().next().map(iterations).unwrap_or_default(),
        turns: input::turns(loaded),
        chosen_iteration: loaded.graph.ranks.first().map(|part| part.iteration.clone()).unwrap_or_default(),
        measured_ns: loaded.graph.measured,
        predicted: loaded.predicted().map(str::to_owned),
        has_shapes: loaded.traces().any(|trace| trace.has_shapes),
        has_execution_trace: loaded.job.ranks.iter().any(|rank| rank.execution_trace.is_some()),
        batch_size: loaded.graph.batch_size,
        batch_candidates: loaded.graph.batch_candidates(),
        clocks: clocks(loaded),
    }
}

/// Which ranks are simulated for others.
fn folded(loaded: &Loaded) -> Vec<FoldedInfo> {
    let parts = loaded.graph.ranks.iter().filter(|_| loaded.folding.folds());
    let info = |part: &RankPart| FoldedInfo {
        rank: part.rank.0,
        count: part.count(),
        stands_for: std::iter::once(part.rank).chain(part.others.iter().copied()).map(|rank| rank.0).collect(),
    };
    parts.map(info).collect()
}

/// The clocks of several ranks.
fn clocks(loaded: &Loaded) -> Vec<ClockInfo> {
    let ranks = loaded.graph.ranks.iter().filter(|_| loaded.graph.ranks.len() > 1);
    let clock = |part: &RankPart| ClockInfo {
        rank: part.rank.0,
        offset_ns: part.clock.offset,
        drift_ppm: part.clock.drift_ppm,
    };
    ranks.map(clock).collect()
}

fn iterations(trace: &retime_core::trace::Trace) -> Vec<IterationInfo> {
    let info = |step: retime_core::graph::iteration::Step| IterationInfo {
        name: step.name,
        start_ns: step.start,
        duration_ns: step.dur,
    };
    steps(trace).into_iter().map(info).collect()
}

fn describe(job: &JobInfo, out: &mut dyn std::io::Write) -> std::io::Result<()> {
    let world = job.world_size.map(|size| format!(" of {size}")).unwrap_or_default();
    let yes = |flag: bool| if flag { "yes" } else { "no" };
    writeln!(out, "{}", job.path)?;
    writeln!(out, "  ranks       {}{world}", job.ranks)?;
    if !job.folded.is_empty() {
        let shown: Vec<String> = job.folded.iter().take(8).map(|one| format!("r{} ×{}", one.rank, one.count)).collect();
        let more = if job.folded.len() > 8 { format!(" and {} more", job.folded.len() - 8) } else { String::new() };
        writeln!(out, "  simulated   {} of them: {}{more}", job.folded.len(), shown.join(", "))?;
    }
    writeln!(out, "  device      {}", job.device.as_deref().unwrap_or("none recorded"))?;
    writeln!(out, "  events      {}, {} skipped", job.events, job.skipped_events)?;
    writeln!(out, "  operators   {}, {} runtime calls, {} kernels", job.operators, job.runtime_calls, job.kernels)?;
    writeln!(out, "  lanes       {} host threads, {} streams", job.host_threads, job.streams)?;
    let batch = match (job.batch_size, &job.batch_candidates[..]) {
        (Some(batch), _) => batch.to_string(),
        (None, []) => "unknown".to_owned(),
        (None, several) => several.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "),
    };
    let et = yes(job.has_execution_trace);
    writeln!(out, "  shapes      {}, batch {batch}, execution trace {et}", yes(job.has_shapes))?;
    let apart = job.clocks.iter().map(|clock| clock.offset_ns.0.saturating_abs()).max().map(DurNs);
    if let Some(apart) = apart {
        let drift = job.clocks.iter().map(|clock| clock.drift_ppm.abs()).fold(0.0, f64::max);
        writeln!(out, "  clocks      up to {apart} apart, drifting by up to {drift:.1} ppm: taken out")?;
    }
    for (index, step) in job.iterations.iter().enumerate() {
        let mark = if step.name == job.chosen_iteration { "  ← modelled" } else { "" };
        writeln!(out, "  iteration   {index}: {} {}{mark}", step.name, step.duration_ns)?;
    }
    if let Some(turns) = &job.turns {
        writeln!(out, "  turns       {turns}")?;
    }
    match &job.predicted {
        Some(how) => writeln!(out, "  predicted   {} by {how}, not measured", job.measured_ns),
        None => writeln!(out, "  measured    {}", job.measured_ns),
    }
}

fn table(info: &Info) -> output::Table {
    let mut table = output::Table::new(&[
        "path",
        "ranks",
        "events",
        "skipped_events",
        "host_threads",
        "streams",
        "operators",
        "kernels",
        "device",
        "measured_ns",
    ]);
    for job in &info.traces {
        table.row([
            job.path.clone(),
            job.ranks.to_string(),
            job.events.to_string(),
            job.skipped_events.to_string(),
            job.host_threads.to_string(),
            job.streams.to_string(),
            job.operators.to_string(),
            job.kernels.to_string(),
            job.device.clone().unwrap_or_default(),
            job.measured_ns.0.to_string(),
        ]);
    }
    table
}

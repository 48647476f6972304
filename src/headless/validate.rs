//! `validate`: figures checked against what was measured.

mod models;
mod traced;

use std::io::{self, Write};
use std::path::PathBuf;

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{Iteration, TraceArgs, ValidateWhat};
use crate::session::{Engine, EngineError, LaneLabels, Loaded, folders_of_traces};
use retime_core::analysis::replay::{ReplayReport, ReplayStatus};
use retime_core::graph::{BuildOptions, ExecutionGraph};
use retime_core::trace::{OpenError, OpenOptions};
use retime_core::units::{DurNs, TimeNs};

use super::{input, output};

/// Runs the command.
///
/// # Returns
/// The exit status.
///
/// # Errors
/// Nothing could be opened.
pub fn run(what: &ValidateWhat) -> Result<u8> {
    match what {
        ValidateWhat::Replay(args) => replay(args),
        ValidateWhat::Models(args) => models::run(args),
    }
}

#[derive(Debug, Serialize)]
struct Answer {
    traces: Vec<String>,
    rows: Vec<Row>,
    unreadable: Vec<Unreadable>,
}

#[derive(Debug, Serialize)]
struct Unreadable {
    path: String,
    reason: String,
}

#[derive(Debug, Serialize)]
struct Row {
    check: String,
    source: String,
    status: &'static str,
    iteration: String,
    expected: DurNs,
    got: DurNs,
    error: f64,
    unexplained_ns: DurNs,
    unexplained_share: f64,
    anchored_share: f64,
    unrecorded_share: f64,
    rank_start_share: f64,
    contention_share: f64,
    kernels_x2: f64,
    kernels_x0_5: f64,
    host_x0_5: f64,
    unexplained: Vec<Unexplained>,
}

/// A late start that no rule explains.
#[derive(Debug, Serialize)]
pub(super) struct Unexplained {
    rank: u32,
    lane: String,
    name: String,
    start_ns: TimeNs,
    late_ns: DurNs,
}

/// The late starts of a graph that no rule explains, the latest first.
pub(super) fn unexplained(graph: &ExecutionGraph) -> Vec<Unexplained> {
    let labels = LaneLabels::of(graph);
    let row = |late: &retime_core::graph::LateStart| {
        let task = &graph.tasks[late.node];
        let lane = &graph.lanes[task.lane.0 as usize];
        Unexplained {
            rank: lane.rank.0,
            lane: labels.label(lane),
            name: graph.names.get(task.name).to_owned(),
            start_ns: task.measured_start,
            late_ns: late.by,
        }
    };
    graph.late_starts.iter().map(row).collect()
}

/// Late starts as a table.
pub(super) fn unexplained_table(rows: &[Unexplained]) -> output::Table {
    let mut table = output::Table::new(&["late_ns", "start_ns", "rank", "lane", "name"]);
    for row in rows {
        let (late, start) = (row.late_ns.0.to_string(), row.start_ns.0.to_string());
        table.row([late, start, row.rank.to_string(), row.lane.clone(), row.name.clone()]);
    }
    table
}

/// # Returns
/// The exit status: 1 where nothing could be replayed, or something that was named could not.
fn replay(args: &TraceArgs) -> Result<u8> {
    let engine = input::engine()?;
    let mut answer = Answer { traces: Vec::new(), rows: Vec::new(), unreadable: Vec::new() };
    if args.traces.is_empty() {
        let sample = input::open_all(&engine, &[], Iteration::Default)?;
        answer.rows.extend(sample.iter().map(row));
    }
    for folder in folders_of_traces(&input::expand(&args.traces)?) {
        check(&engine, &folder, &mut answer);
    }
    output::write(&args.output, &answer, |out| describe(&answer, out), || table(&answer.rows))?;
    Ok(u8::from(answer.rows.is_empty() || !answer.unreadable.is_empty()))
}

fn check(engine: &Engine, path: &PathBuf, answer: &mut Answer) {
    let name = path.display().to_string();
    match engine.load(std::slice::from_ref(path), &OpenOptions::default(), &BuildOptions::default()) {
        Ok(jobs) => {
            answer.traces.push(name);
            answer.rows.extend(jobs.iter().map(row));
        }
        // A folder of folders is no trace, and need not be one.
        Err(EngineError::Open(OpenError::NoTraces { .. }))
            if !folders_of_traces(std::slice::from_ref(path))[1..].is_empty() => {}
        Err(error) => answer.unreadable.push(Unreadable { path: name, reason: error.to_string() }),
    }
}

fn row(loaded: &Loaded) -> Row {
    let report = ReplayReport::of(&loaded.graph);
    let share = |part: DurNs| part.0 as f64 / report.measured.0.max(1) as f64;
    let error = share(report.simulated) - 1.0;
    let status = ReplayStatus::of(error, report.path.anchors + report.unexplained_share);
    Row {
        check: format!("replay {}", loaded.title),
        source: input::paths(loaded).into_iter().next().unwrap_or_default(),
        status: status.name(),
        iteration: report.iteration.clone(),
        expected: report.measured,
        got: report.simulated,
        error,
        unexplained_ns: report.unexplained,
        unexplained_share: report.unexplained_share,
        anchored_share: report.path.anchors,
        unrecorded_share: report.path.unrecorded,
        rank_start_share: report.path.rank_starts,
        contention_share: report.path.contention,
        kernels_x2: report.responses.kernels_doubled,
        kernels_x0_5: report.responses.kernels_halved,
        host_x0_5: report.responses.think_halved,
        unexplained: unexplained(&loaded.graph),
    }
}

/// Late starts that people read about, per trace.
const LISTED: usize = 5;

fn describe(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    output::text(&table(&answer.rows), out)?;
    for file in &answer.unreadable {
        writeln!(out, "not a profiler trace: {}", file.reason)?;
    }
    for row in answer.rows.iter().filter(|row| !row.unexplained.is_empty()) {
        let count = row.unexplained.len();
        writeln!(out, "\n{}: {count} late starts unexplained, {}", row.check, row.unexplained_ns)?;
        output::text(&unexplained_table(&row.unexplained[..count.min(LISTED)]), out)?;
    }
    for row in answer.rows.iter().filter(|row| row.status == "pinned") {
        let (anchored, late) = (100.0 * row.anchored_share, 100.0 * row.unexplained_share);
        let what = "the trace lacks what its structure could be read from";
        writeln!(out, "\n{}: {anchored:.0} % anchored, {late:.0} % unexplained: {what}", row.check)?;
    }
    let passed = answer.rows.iter().filter(|row| row.status != "fail").count();
    writeln!(out, "{passed} of {} replay within {:.0} %", answer.rows.len(), 100.0 * ReplayStatus::WITHIN)
}

fn table(rows: &[Row]) -> output::Table {
    let mut table = output::Table::new(&[
        "check",
        "measured",
        "replayed",
        "error %",
        "unexplained %",
        "anchored %",
        "not recorded %",
        "rank start %",
        "kernels ×2",
        "×½",
        "host ×½",
        "status",
    ]);
    for row in rows {
        table.row([
            row.check.clone(),
            row.expected.to_string(),
            row.got.to_string(),
            format!("{:+.3}", 100.0 * row.error),
            format!("{:.2}", 100.0 * row.unexplained_share),
            format!("{:.2}", 100.0 * row.anchored_share),
            format!("{:.2}", 100.0 * row.unrecorded_share),
            format!("{:.2}", 100.0 * row.rank_start_share),
            format!("{:.3}", row.kernels_x2),
            format!("{:.3}", row.kernels_x0_5),
            format!("{:.3}", row.host_x0_5),
            row.status.to_owned(),
        ]);
    }
    table
}

//! `overheads`: host overheads T1 to T5 per operator, saved and merged as JSON databases.

use std::io::{Write, stderr};
use std::path::{Path, PathBuf};

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{Iteration, OverheadsArgs};
use crate::session::{Overwrite, read_overheads, write_new};
use retime_core::cost::overhead::{OverheadKind, OverheadRow, Overheads, ProfilerCost, extract};
use retime_core::intern::printable;
use retime_core::stats;

use super::{input, output};

#[derive(Debug, Serialize)]
struct Answer {
    rows: Vec<Row>,
}

/// A row in ns; saved databases keep µs as published ones do.
///
/// Outliers and the profiler's cost are in the calls as recorded, whose times a trace takes from a database, and not in the mean.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(rename = "type")]
    kind: OverheadKind,
    op: String,
    mean_ns: i64,
    std_ns: i64,
    count: u64,
    /// Mean of the calls as recorded.
    recorded_ns: Option<i64>,
}

fn row(row: OverheadRow) -> Row {
    let ns = |us: f64| (us * 1e3).round() as i64;
    let recorded_ns = stats::mean(&row.calls_us).map(ns);
    Row { kind: row.kind, op: row.op, mean_ns: ns(row.mean_us), std_ns: ns(row.std_us), count: row.count, recorded_ns }
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, or a database cannot be read or written.
pub fn run(args: &OverheadsArgs, iteration: Iteration) -> Result<()> {
    // Databases alone are merged with one another, not with those of the bundled sample.
    let loaded = if args.input.traces.is_empty() && !args.merge.is_empty() {
        None
    } else {
        Some(input::open_one(&input::engine()?, &args.input.traces, iteration)?)
    };
    let extracted = loaded.as_ref().map(|loaded| extract(&loaded.graph, ProfilerCost::default()));
    let mut overheads = extracted.unwrap_or_default();
    for (_, database) in databases(&args.merge)? {
        overheads.merge(&database);
    }
    if let Some(path) = &args.save {
        write_new(path, overheads.to_json().as_bytes(), Overwrite::forced(args.force))?;
    }
    let answer = Answer { rows: overheads.rows().map(row).collect() };
    let json = match &loaded {
        Some(loaded) => input::Envelope::new(loaded, answer),
        None => input::Envelope { traces: Vec::new(), answer, diagnostics: Vec::new() },
    };
    let table = || table(&json.answer.rows);
    output::write(&args.input.output, &json, |out| output::text(&text(&json.answer.rows), out), table)?;
    Ok(())
}

/// The databases at `paths`; that one holds what one before it does is told on standard error.
///
/// # Errors
/// One cannot be read.
fn databases(paths: &[PathBuf]) -> Result<Vec<(&Path, Overheads)>> {
    let mut read: Vec<(&Path, Overheads)> = Vec::new();
    for path in paths {
        let database = read_overheads(path)?;
        if let Some((first, _)) = read.iter().find(|(_, other)| *other == database) {
            let text = format!("{} holds the same calls as {}: they count twice", path.display(), first.display());
            let _ = writeln!(stderr(), "retime: repeated-database: {}", printable(&text));
        }
        read.push((path, database));
    }
    Ok(read)
}

fn text(rows: &[Row]) -> output::Table {
    let mut table = output::Table::new(&["type", "operator", "mean µs", "std µs", "count", "as recorded µs"]);
    for row in rows {
        table.row([
            format!("{:?}", row.kind),
            row.op.clone(),
            format!("{:.2}", row.mean_ns as f64 / 1e3),
            format!("{:.2}", row.std_ns as f64 / 1e3),
            row.count.to_string(),
            row.recorded_ns.map_or(String::new(), |ns| format!("{:.2}", ns as f64 / 1e3)),
        ]);
    }
    table
}

fn table(rows: &[Row]) -> output::Table {
    let mut table = output::Table::new(&["type", "op", "mean_ns", "std_ns", "count", "recorded_ns"]);
    for row in rows {
        let recorded = row.recorded_ns.map_or(String::new(), |ns| ns.to_string());
        let figures = [row.mean_ns.to_string(), row.std_ns.to_string(), row.count.to_string(), recorded];
        table.row([format!("{:?}", row.kind), row.op.clone()].into_iter().chain(figures));
    }
    table
}

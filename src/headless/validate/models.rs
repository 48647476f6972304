//! `validate models`: errors of the cost models on tables of measurements and on kernels of traces.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::TraceArgs;
use crate::cost::validate::{ValidationRow, validate_models};
use crate::headless::{input, output};
use crate::session::read_table;

use super::traced::{self, Traced};

#[derive(Debug, Serialize)]
struct Answer {
    rows: Vec<Row>,
    traced: Traced,
}

#[derive(Debug, Serialize)]
struct Row {
    check: String,
    /// Mean absolute error aimed at.
    expected: Option<f64>,
    /// Mean absolute error on the rows that count.
    got: f64,
    error: f64,
    status: &'static str,
    source: String,
    #[serde(flatten)]
    detail: ValidationRow,
}

/// Runs the command.
///
/// # Errors
/// A table cannot be read as measurements, or nothing among the arguments can be used.
pub fn run(args: &TraceArgs) -> Result<()> {
    let engine = input::engine()?;
    if args.traces.is_empty() {
        return Err(eyre!("name one or more CSV files of measurements, or traces"));
    }
    let (tables, traces): (Vec<PathBuf>, Vec<PathBuf>) =
        input::expand(&args.traces)?.into_iter().partition(|path| is_table(path));
    let mut files = Vec::new();
    for path in tables {
        files.push((path.display().to_string(), read_table(&path)?));
    }
    let rows =
        validate_models(&engine.models, &engine.catalog, &files).map_err(|(file, error)| eyre!("{file}: {error}"))?;
    let traced = traced::compare(&engine, &traces);
    if let (true, true, Some(reason)) = (files.is_empty(), traced.rows.is_empty(), traced.left_out.first()) {
        return Err(eyre!("{reason}"));
    }
    let answer = Answer { rows: rows.into_iter().map(row).collect(), traced };
    let as_csv = || if answer.rows.is_empty() { traced::table(&answer.traced.rows) } else { table(&answer.rows) };
    output::write(&args.output, &answer, |out| describe(&answer, out), as_csv)?;
    Ok(())
}

/// Whether a file is a table by its name; anything else is opened as a trace.
fn is_table(path: &Path) -> bool {
    let is = |name: &Path, ending: &str| name.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending));
    is(path, "csv") || is(path, "gz") && path.file_stem().is_some_and(|name| is(Path::new(name), "csv"))
}

fn row(detail: ValidationRow) -> Row {
    let status = match detail.met {
        Some(true) => "pass",
        Some(false) => "fail",
        None => "reported",
    };
    Row {
        check: format!("{} on {}", detail.family, detail.device),
        expected: detail.target,
        got: detail.kernels.mape,
        error: detail.kernels.mape,
        status,
        source: if detail.held_out { "rows no fit has seen" } else { "device without a fit" }.to_owned(),
        detail,
    }
}

fn describe(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    if !answer.rows.is_empty() {
        describe_tables(&answer.rows, out)?;
    }
    if !answer.traced.rows.is_empty() {
        output::text(&traced::table(&answer.traced.rows), out)?;
        let count = answer.traced.traces.len();
        writeln!(
            out,
            "errors in percent on kernels of {count} traces, none of which a fit has seen; no kernel is anchored"
        )?;
    }
    for reason in &answer.traced.left_out {
        writeln!(out, "left out: {reason}")?;
    }
    Ok(())
}

fn describe_tables(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    output::text(&table(rows), out)?;
    for Row { check, detail, .. } in rows {
        if let Some(reason) = detail.reason {
            writeln!(out, "{check} falls short: {reason}")?;
        }
    }
    writeln!(out, "errors in percent, mean absolute and geometric; `kernels` are rows well above the host's floor")
}

fn table(rows: &[Row]) -> output::Table {
    let mut table = output::Table::new(&[
        "family",
        "device",
        "model",
        "n",
        "MAPE",
        "GMAE",
        "kernels",
        "MAPE",
        "GMAE",
        "bias",
        "structured",
        "MLP",
        "curve",
        "roofline",
        "aim",
        "status",
    ]);
    let percent = |value: f64| format!("{:.1}", 100.0 * value);
    for Row { detail, status, .. } in rows {
        table.row([
            detail.family.clone(),
            detail.device.clone(),
            detail.model.to_owned(),
            detail.all.n.to_string(),
            percent(detail.all.mape),
            percent(detail.all.gmae),
            detail.kernels.n.to_string(),
            percent(detail.kernels.mape),
            percent(detail.kernels.gmae),
            format!("{:+.1}", 100.0 * detail.kernels.bias),
            percent(detail.structured.mape),
            detail.network.map_or("–".to_owned(), percent),
            percent(detail.curve.mape),
            percent(detail.roofline.mape),
            detail.target.map_or("–".to_owned(), percent),
            (*status).to_owned(),
        ]);
    }
    table
}

//! `validate models`: errors of the cost models on tables of measurements.

use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::TraceArgs;
use crate::cost::validate::{ValidationRow, validate_models};
use crate::headless::{input, output};
use crate::session::read_table;

#[derive(Debug, Serialize)]
struct Answer {
    rows: Vec<Row>,
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
/// A file cannot be read as a table of measurements.
pub fn run(args: &TraceArgs) -> Result<()> {
    let engine = input::engine()?;
    if args.traces.is_empty() {
        return Err(eyre!("name one or more CSV files of measurements"));
    }
    let mut files = Vec::new();
    for path in input::expand(&args.traces)? {
        files.push((path.display().to_string(), read_table(&path)?));
    }
    let rows =
        validate_models(&engine.models, &engine.catalog, &files).map_err(|(file, error)| eyre!("{file}: {error}"))?;
    let answer = Answer { rows: rows.into_iter().map(row).collect() };
    output::write(&args.output, &answer, |out| describe(&answer.rows, out), || table(&answer.rows))?;
    Ok(())
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

fn describe(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
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

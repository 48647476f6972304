//! `validate models`: errors of the cost models on tables of measurements and on kernels of traces.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::TraceArgs;
use crate::headless::{input, output};
use crate::session::{read_table, tables_in};
use retime_core::cost::ErrorSummary;
use retime_fit::FitError;
use retime_fit::validate::{Measured, ValidationRow, published_gmae, shipped_errors, validate_models};

use super::traced::{self, Traced};

#[derive(Debug, Serialize)]
struct Answer {
    rows: Vec<Row>,
    traced: Traced,
    /// What was not used, and why.
    unused: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    check: String,
    /// Mean absolute error aimed at.
    expected: Option<f64>,
    /// Mean absolute error on the rows that count.
    got: f64,
    /// Geometric mean of the absolute errors that a paper prints of its own model of such kernels on that GPU, on its own measurements.
    published_gmae: Option<f64>,
    error: f64,
    status: &'static str,
    source: String,
    #[serde(flatten)]
    detail: ValidationRow,
}

/// Runs the command.
///
/// # Returns
/// The exit status: 1 where a table that was named could not be used.
///
/// # Errors
/// Nothing among the arguments can be used.
pub fn run(args: &TraceArgs) -> Result<u8> {
    let engine = input::engine()?;
    if args.traces.is_empty() {
        let rows = shipped_errors(&engine.models).into_iter().map(shipped_row).collect();
        return write(args, &Answer { rows, traced: Traced::default(), unused: Vec::new() }).map(|()| 0);
    }
    let (tables, traces): (Vec<PathBuf>, Vec<PathBuf>) =
        input::expand(&args.traces)?.into_iter().partition(|path| is_table(path));
    let (measured, mut unused, status) = read(&tables);
    if let (true, true, Some(reason)) = (measured.is_empty(), traces.is_empty(), unused.first()) {
        return Err(eyre!("{reason}"));
    }
    let unknown = measured.unknown(&engine.catalog).into_iter();
    unused.extend(unknown.map(|(device, rows)| format!("{rows} rows of `{device}`, which is in no device file")));
    let rows = validate_models(&engine.models, &engine.catalog, measured);
    let traced = traced::compare(&engine, &traces);
    let status = if rows.is_empty() && traced.kernels.rows.is_empty() { 1 } else { status };
    if let (true, true, Some(reason)) = (tables.is_empty(), traced.kernels.rows.is_empty(), traced.left_out.first()) {
        return Err(eyre!("{reason}"));
    }
    write(args, &Answer { rows: rows.into_iter().map(row).collect(), traced, unused })?;
    Ok(status)
}

fn write(args: &TraceArgs, answer: &Answer) -> Result<()> {
    let as_csv =
        || if answer.rows.is_empty() { traced::table(&answer.traced.kernels.rows) } else { table(&answer.rows) };
    Ok(output::write(&args.output, answer, |out| describe(answer, out), as_csv)?)
}

/// Whether it is a table by its name, or a folder with tables in it; anything else is opened as a trace.
fn is_table(path: &Path) -> bool {
    if path.is_dir() {
        return !tables_in(path).is_empty();
    }
    let is = |name: &Path, ending: &str| name.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending));
    is(path, "csv") || is(path, "gz") && path.file_stem().is_some_and(|name| is(Path::new(name), "csv"))
}

/// The measurements in `paths`, what was passed over and why, and the exit status: in folders, files that are no table of
/// measurements are expected.
fn read(paths: &[PathBuf]) -> (Measured, Vec<String>, u8) {
    let (mut measured, mut unused, mut status) = (Measured::default(), Vec::new(), 0);
    for named in paths {
        for path in tables_in(named) {
            let name = path.display();
            let (reason, is_other) = match read_table(&path).map(|text| measured.add(&text)) {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => {
                    let is_other = matches!(error, FitError::UnknownFormat | FitError::Empty) && path != *named;
                    (format!("{name}: {error}"), is_other)
                }
                Err(error) => (error.to_string(), false),
            };
            unused.push(reason);
            status = if is_other { status } else { 1 };
        }
    }
    (measured, unused, status)
}

fn row(detail: ValidationRow) -> Row {
    let status = match detail.met {
        Some(true) => "pass",
        Some(false) => "fail",
        None => "reported",
    };
    // Of nothing there is no error.
    let error = if detail.kernels.n > 0 { detail.kernels.mape } else { f64::NAN };
    Row {
        check: format!("{} on {}", detail.family, detail.device),
        expected: detail.target,
        got: error,
        published_gmae: published_gmae(&detail),
        error,
        status,
        source: if detail.held_out { "rows no fit has seen" } else { "device without a fit" }.to_owned(),
        detail,
    }
}

fn shipped_row(detail: ValidationRow) -> Row {
    Row { source: "held out when the model was fitted".to_owned(), ..row(detail) }
}

fn describe(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    if !answer.rows.is_empty() {
        describe_tables(answer, out)?;
    }
    if !answer.traced.kernels.rows.is_empty() {
        output::text(&traced::table(&answer.traced.kernels.rows), out)?;
        output::text(&traced::copies(&answer.traced.copies), out)?;
        output::text(&traced::errors(&answer.traced.kernels.errors), out)?;
        let held = &answer.traced.kernels.coverage;
        if held.n == 0 {
            writeln!(out, "no kernel tells how often bands as wide as the errors of the other traces hold")?;
        } else {
            writeln!(
                out,
                "{:.0} % of {} kernels (mean over {} traces {:.0} %) lie inside bands as wide as the errors of the other traces, which claim {:.0} %",
                100.0 * held.inside,
                held.n,
                held.traces,
                100.0 * held.by_trace,
                100.0 * held.claimed
            )?;
        }
        let count = answer.traced.traces.len();
        writeln!(
            out,
            "errors in percent on kernels of {count} traces, none of which a fit has seen; no kernel is anchored; `short` are kernels \
             under ten steps of their trace's clock (1 µs until 2022), whose sums alone are compared; `alone` had the device for themselves, `beside others` shared it, which is in their measured times; \
             `in band` counts kernels alone by the errors of the other traces; `unanchored` is the error that 68 % of the kinds of kernel (name and \
             work in a trace) do not exceed: what predictions without a measurement of their own state"
        )?;
    }
    for reason in &answer.traced.left_out {
        writeln!(out, "left out: {reason}")?;
    }
    for unused in &answer.unused {
        writeln!(out, "not used: {unused}")?;
    }
    Ok(())
}

fn describe_tables(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    output::text(&table(&answer.rows), out)?;
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Row { check, detail, .. } in &answer.rows {
        if let Some(reason) = &detail.reason {
            reasons.entry(reason).or_default().push(check);
        }
    }
    for (reason, checks) in reasons {
        let is_aim = answer.rows.iter().any(|row| row.check == checks[0] && row.status == "fail");
        let head = if is_aim { "short of the aim" } else { "counted apart" };
        writeln!(out, "{head}: {}: {reason}", checks.join(", "))?;
    }
    writeln!(
        out,
        "errors in percent: mean absolute, geometric mean, percentiles of the absolute, – where not known; `kernels` are rows well above \
         the host's floor; `paper` is the geometric mean that Lin 2022 and 2024 print of their own models, on measurements of their own"
    )
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
        "p50",
        "p90",
        "structured",
        "MLP",
        "curve",
        "roofline",
        "paper",
        "aim",
        "status",
    ]);
    let known = |value: f64, text: String| if value.is_nan() { "–".to_owned() } else { text };
    let percent = |value: f64| known(value, format!("{:.1}", 100.0 * value));
    let some = |errors: &ErrorSummary, text: String| if errors.n == 0 { "–".to_owned() } else { text };
    let baseline = |errors: &ErrorSummary| some(errors, percent(errors.mape));
    for Row { detail, status, published_gmae, .. } in rows {
        table.row([
            detail.family.clone(),
            detail.device.clone(),
            detail.model.to_owned(),
            detail.all.n.to_string(),
            some(&detail.all, percent(detail.all.mape)),
            some(&detail.all, percent(detail.all.gmae)),
            detail.kernels.n.to_string(),
            some(&detail.kernels, percent(detail.kernels.mape)),
            some(&detail.kernels, percent(detail.kernels.gmae)),
            some(&detail.kernels, known(detail.kernels.bias, format!("{:+.1}", 100.0 * detail.kernels.bias))),
            some(&detail.kernels, percent(detail.kernels.p50)),
            some(&detail.kernels, percent(detail.kernels.p90)),
            baseline(&detail.structured),
            detail.network.map_or("–".to_owned(), percent),
            baseline(&detail.curve),
            baseline(&detail.roofline),
            published_gmae.map_or("–".to_owned(), percent),
            detail.target.map_or("–".to_owned(), percent),
            (*status).to_owned(),
        ]);
    }
    table
}

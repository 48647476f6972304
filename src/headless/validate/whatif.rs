//! `validate whatif`: edits of captures and of published times against what was measured.
//!
//! Owns the rows and their summary; each kind of check has a file of its own.

mod captures;
mod loader;
mod manifest;
mod published;
mod sources;
mod swap;
mod transformer;

use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::TraceArgs;
use crate::headless::{input, output};
use crate::session::Engine;

use sources::Sources;

/// One prediction against its measurement.
#[derive(Clone, Debug, Serialize)]
struct Row {
    check: String,
    /// What it is summed up with.
    family: String,
    /// Measured, in ns.
    expected: f64,
    /// Predicted, in ns.
    got: f64,
    /// `got/expected − 1`.
    error: f64,
    status: &'static str,
    source: String,
}

impl Row {
    /// A row that is to be within `limit` of the measurement.
    fn new(family: impl Into<String>, check: String, (expected, got): (f64, f64), limit: f64, source: &str) -> Self {
        let error = got / expected - 1.0;
        let status = if error.abs() <= limit { "pass" } else { "fail" };
        Self { check, family: family.into(), expected, got, error, status, source: source.to_owned() }
    }
}

/// What the rows of one family come to.
#[derive(Clone, Debug, Serialize)]
struct Summary {
    check: String,
    n: usize,
    /// `exp(mean |ln(got/expected)|) − 1`; for gains the share whose sign and size are right.
    got: f64,
    /// What it is to be.
    expected: f64,
    /// `exp(mean ln(got/expected)) − 1`: which way it leans; absent for gains.
    bias: Option<f64>,
    status: &'static str,
}

/// Rows so far, and what could not be checked.
#[derive(Debug, Default, Serialize)]
struct Answer {
    rows: Vec<Row>,
    summaries: Vec<Summary>,
    not_checked: Vec<String>,
}

impl Answer {
    /// Sums up the rows of `family` as a geometric mean that is to be at most `target`.
    fn sum_up(&mut self, family: &str, target: f64) {
        let rows = self.rows.iter().filter(|row| row.family == family);
        let logs: Vec<f64> = rows.map(|row| (row.got / row.expected).ln()).filter(|log| log.is_finite()).collect();
        self.sum_up_logs(family, &logs, target);
    }

    fn sum_up_logs(&mut self, check: &str, logs: &[f64], target: f64) {
        if logs.is_empty() {
            return;
        }
        let mean = |of: fn(f64) -> f64| logs.iter().map(|&log| of(log)).sum::<f64>() / logs.len() as f64;
        let got = mean(f64::abs).exp_m1();
        self.summaries.push(Summary {
            check: check.to_owned(),
            n: logs.len(),
            got,
            expected: target,
            bias: Some(mean(|log| log).exp_m1()),
            status: if got <= target { "pass" } else { "fail" },
        });
    }
}

/// Runs the command.
///
/// # Errors
/// No file or folder named holds anything that can be checked.
pub fn run(args: &TraceArgs) -> Result<()> {
    let engine = Engine::builtin()?;
    let sources = Sources::find(&input::expand(&args.traces)?);
    if sources.is_empty() {
        return Err(eyre!("name a manifest of captures, or folders with captures, trace pairs or published times"));
    }
    let mut answer = Answer::default();
    for manifest in &sources.manifests {
        captures::check(&engine, manifest, &mut answer)?;
    }
    loader::check(&engine, &sources, &mut answer);
    swap::check(&engine, &sources, &mut answer);
    published::check(&engine, &sources, &mut answer);
    transformer::check(&engine, &sources, &mut answer);
    output::write(&args.output, &answer, |out| describe(&answer, out), || table(&answer.rows))?;
    Ok(())
}

fn describe(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    output::text(&table(&answer.rows), out)?;
    writeln!(out)?;
    let mut table = output::Table::new(&["what", "n", "error %", "leans %", "aim %", "status"]);
    for summary in &answer.summaries {
        table.row([
            summary.check.clone(),
            summary.n.to_string(),
            format!("{:.1}", 100.0 * summary.got),
            summary.bias.map_or("–".to_owned(), |bias| format!("{:+.1}", 100.0 * bias)),
            format!("{:.0}", 100.0 * summary.expected),
            summary.status.to_owned(),
        ]);
    }
    output::text(&table, out)?;
    for what in &answer.not_checked {
        writeln!(out, "not checked: {what}")?;
    }
    Ok(())
}

fn table(rows: &[Row]) -> output::Table {
    let mut table =
        output::Table::new(&["family", "check", "measured ms", "predicted ms", "error %", "status", "source"]);
    for row in rows {
        table.row([
            row.family.clone(),
            row.check.clone(),
            format!("{:.3}", row.expected / 1e6),
            format!("{:.3}", row.got / 1e6),
            format!("{:+.1}", 100.0 * row.error),
            row.status.to_owned(),
            row.source.clone(),
        ]);
    }
    table
}

//! `lab whatif`: edits of captures and of published times against what was measured.
//!
//! Owns the order of the checks and how they are printed; each kind of check has a file of its own.

mod answer;
mod bands;
mod between_chips;
mod captures;
mod fused;
mod learned;
mod loader;
mod manifest;
mod operators;
mod published;
mod reasons;
mod sources;
mod swap;
mod transformer;
mod untimed;
mod variants;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use color_eyre::eyre::{Result, eyre};

use retime::cli::TraceArgs;
use retime::headless::{expand, output};
use retime::session::{Engine, EngineError, Loaded};
use retime_core::graph::{BuildOptions, IterationChoice};
use retime_core::trace::OpenOptions;

pub(crate) use answer::{Answer, SUMMARY, Summary};
use answer::{Constants, ROW, Row};
use sources::Sources;

/// Arguments of `lab whatif`.
#[derive(Args)]
pub(crate) struct WhatifArgs {
    /// What to check and how to write.
    #[command(flatten)]
    traces: TraceArgs,
    /// Where each error comes from: the time of every operator as traced, measured and predicted.
    #[arg(long)]
    operators: bool,
}

/// Runs the command.
///
/// # Errors
/// No file or folder named holds anything that can be checked.
pub(crate) fn run(args: &WhatifArgs) -> Result<()> {
    let answer = answer(&Engine::builtin()?, &args.traces.traces)?;
    let rows = || if args.operators { operators::table(&answer.rows) } else { table(&answer.rows) };
    output::write(&args.traces.output, &answer, |out| describe(&answer, &rows(), out), rows)?;
    Ok(())
}

/// Every check that the manifests and folders in `paths` allow.
///
/// # Errors
/// No file or folder named holds anything that can be checked.
pub(crate) fn answer(engine: &Engine, paths: &[PathBuf]) -> Result<Answer> {
    let sources = Sources::find(&expand(paths)?);
    if sources.is_empty() {
        return Err(eyre!("name a manifest of captures, or folders with captures, trace pairs or published times"));
    }
    let mut answer = Answer::default();
    captures::check(engine, &sources.manifests, &mut answer)?;
    loader::check(engine, &sources, &mut answer);
    swap::check(engine, &sources, &mut answer);
    published::check(engine, &sources, &mut answer);
    transformer::check(engine, &sources, &mut answer);
    between_chips::check(engine, &sources, &mut answer);
    answer.conclude();
    Ok(answer)
}

fn describe(answer: &Answer, rows: &output::Table, out: &mut dyn Write) -> io::Result<()> {
    output::text(rows, out)?;
    writeln!(out)?;
    let mut table = output::Table::new(&SUMMARY);
    for summary in &answer.summaries {
        table.row(summary.cells());
    }
    output::text(&table, out)?;
    for line in answer.coverage() {
        writeln!(out, "{line}")?;
    }
    writeln!(
        out,
        "published times: what the models leave unexplained of the time a prediction starts from stays where a trace has all of the device's work (ResNet-50), else it is taken to grow along; bands reach to the other"
    )?;
    for what in &answer.not_checked {
        writeln!(out, "not checked: {what}")?;
    }
    Ok(())
}

fn table(rows: &[Row]) -> output::Table {
    let mut table = output::Table::new(&ROW);
    for row in rows {
        table.row(row.cells());
    }
    table
}

/// The job in `path`, whose `iteration` is modelled.
fn open(engine: &Engine, path: &Path, iteration: IterationChoice) -> Result<Loaded, EngineError> {
    let mut jobs = engine.load(&[path.to_path_buf()], &OpenOptions::default(), &BuildOptions { iteration })?;
    Ok(jobs.swap_remove(0))
}

/// The middle of `values`, or the mean of both that are; NaN where there are none.
fn median(values: &mut [f64]) -> f64 {
    retime_core::stats::median(values).unwrap_or(f64::NAN)
}

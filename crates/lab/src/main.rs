//! Tools of the maintainers: recordings of what a program answers, figures of papers and measurements checked against the models, and
//! the catalog of fits.

mod accuracy;
mod fit;
mod laboratories;
mod memory;
mod overheads;
mod papers;
mod record;
mod whatif;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use color_eyre::eyre::Result;
use retime::cli::TraceArgs;

/// Exit status where something was compared and is not as it should be.
pub(crate) const FAILED: u8 = 3;

#[derive(Parser)]
#[command(about = "Tools of retime's maintainers")]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a program over traces × commands × edits and keep what it answers.
    Record {
        /// The program.
        program: PathBuf,
        /// Folder to write, one file a trace.
        out: PathBuf,
        /// Traces: files, or folders that are one job each.
        #[arg(required = true)]
        traces: Vec<PathBuf>,
        /// Only edits and commands whose line holds this.
        #[arg(long, default_value = "")]
        only: String,
    },
    /// What differs between two recordings; ends with 3 where anything does.
    Diff {
        /// The recording before.
        before: PathBuf,
        /// The recording after.
        after: PathBuf,
        /// Relative difference of numbers that counts as none.
        #[arg(long, default_value_t = 0.0)]
        tolerance: f64,
        /// Differences named of each answer.
        #[arg(long, default_value_t = 4)]
        most: usize,
    },
    /// The figures of the papers that the models are from, against what the models here give; ends with 3 where one does not come out.
    Papers(papers::PapersArgs),
    /// Edits against measurements: a manifest of captures, or folders with captures, trace pairs and published times.
    Whatif(whatif::WhatifArgs),
    /// Memory by tensors and by shapes against what allocators recorded, and parameters against manifests of captures.
    Memory(TraceArgs),
    /// Host overheads T1 to T5 of traces against the published means.
    Overheads(TraceArgs),
    /// Write docs/accuracy.md to standard output: errors of the built-in models, and of edits where captures are named.
    Accuracy(accuracy::AccuracyArgs),
    /// Fit the built-in cost models to tables of published measurements, and write the catalog: the same bytes every time.
    Fit(fit::FitArgs),
}

fn main() -> ExitCode {
    match run(&Lab::parse().command) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command; its exit status comes back.
fn run(command: &Command) -> Result<u8> {
    match command {
        Command::Record { program, out, traces, only } => record::record(program, out, traces, only)?,
        Command::Diff { before, after, tolerance, most } => {
            let same = record::diff(before, after, *tolerance, *most)?;
            return Ok(if same { 0 } else { FAILED });
        }
        Command::Papers(args) => return papers::run(args),
        Command::Whatif(args) => whatif::run(args)?,
        Command::Memory(args) => memory::run(args)?,
        Command::Overheads(args) => overheads::run(args)?,
        Command::Accuracy(args) => accuracy::run(args)?,
        Command::Fit(args) => fit::run(args)?,
    }
    Ok(0)
}

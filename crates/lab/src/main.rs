//! Tools of the maintainers: recordings of what a program answers, and comparisons of two of them.

mod record;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
}

fn main() -> ExitCode {
    let done = match Lab::parse().command {
        Command::Record { program, out, traces, only } => record::record(&program, &out, &traces, &only).map(|()| true),
        Command::Diff { before, after, tolerance, most } => record::diff(&before, &after, tolerance, most),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::FAILURE
        }
    }
}

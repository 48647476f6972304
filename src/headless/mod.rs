//! The commands without a screen: each opens traces, asks the session, and writes a table, CSV or JSON.

mod advise;
mod breakdown;
mod calibrate;
mod compare;
mod devices;
mod export;
mod gaps;
mod generate;
mod info;
mod input;
mod iterations;
mod layers;
mod opened;
mod ops;
pub mod output;
mod overheads;
mod path;
mod published;
mod ranks;
mod roofline;
mod run;
mod simulate;
mod sweep;
mod tables;
mod transforms;
mod validate;

use color_eyre::eyre::{Result, eyre};

pub use input::{build_options, engine, expand, furnish, limit_memory, max_memory, open_all, take_captures};
pub use published::algorithm;
pub use run::report;

use crate::cli::{Command, Iteration};

/// An argument that cannot be read, which is wrong usage: a step or a range as nobody writes them. What can be read and names something
/// that is not there (a device, a file) is no such error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misuse(pub String);

/// Runs one command. Its output goes to standard output, diagnostics to standard error.
///
/// # Returns
/// The exit status.
///
/// # Errors
/// It could not be done; the message says why in one line.
pub fn run(command: &Command, iteration: Iteration) -> Result<u8> {
    if iteration == Iteration::All {
        return iterations::run(command);
    }
    let done = match command {
        Command::Info(args) => info::run(args),
        Command::Simulate(args) => simulate::run(args, iteration),
        Command::Path(args) => path::run(args, iteration),
        Command::Gaps(args) => gaps::run(args, iteration),
        Command::Ops(args) => ops::run(args, iteration),
        Command::Layers(args) => layers::run(args, iteration),
        Command::Roofline(args) => roofline::run(args, iteration),
        Command::Breakdown(args) => breakdown::run(args, iteration),
        Command::Overheads(args) => overheads::run(args, iteration),
        Command::Advise(args) => advise::run(args, iteration),
        Command::Compare(args) => compare::run(args, iteration),
        Command::Sweep(args) => sweep::run(args, iteration),
        Command::Generate(args) => generate::run(args),
        Command::Tables(args) => tables::run(args, iteration),
        Command::Export(args) => export::run(args, iteration),
        Command::Run(_) => Err(eyre!("this build plays no scripts; build it with the feature `tui`")),
        Command::Devices(args) => devices::run(args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Validate(args) => return validate::run(&args.what),
        Command::Transforms(output) => transforms::run(output),
        Command::Completions { shell } => transforms::completions(*shell),
        Command::Man { command } => transforms::man(command.as_deref()),
    };
    done.map(|()| 0)
}

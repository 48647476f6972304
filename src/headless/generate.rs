//! `generate`: the traces of a made-up multi-rank DLRM job, for trying many ranks out.

use std::io::{Write, stdout};

use color_eyre::eyre::Result;
use retime_core::intern::printable;

use crate::cli::GenerateArgs;
use crate::session::Engine;
use crate::session::synthetic::{JobSpec, Machine, SyntheticJob};

/// Runs the command.
///
/// # Errors
/// The device is unknown or has no link, a file exists or cannot be written.
pub fn run(args: &GenerateArgs) -> Result<()> {
    let engine = Engine::builtin()?;
    let machine = Machine::of(&engine, &args.gpu)?;
    let &GenerateArgs { ranks, tables_per_rank, layers, local_batch, steps, seed, .. } = args;
    let kinds = args.kinds.unwrap_or(ranks);
    let job = SyntheticJob::draw(
        JobSpec { ranks, kinds, tables_per_rank, layers, local_batch, steps, seed },
        machine.device.memory.0,
    );
    job.write(&args.output, machine)?;
    let folder = printable(&args.output.display().to_string());
    let _ = writeln!(stdout(), "{ranks} ranks and {} tables in {folder}", job.tables.len());
    Ok(())
}

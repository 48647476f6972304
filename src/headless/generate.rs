//! `generate`: the traces of a made-up multi-rank DLRM job, for trying many ranks out.

use std::fs;

use color_eyre::eyre::{Result, eyre};

use crate::cli::GenerateArgs;
use crate::session::synthetic::{JobSpec, Machine, SyntheticJob};
use crate::session::{Engine, write_new};

/// Runs the command.
///
/// # Errors
/// The device is unknown or has no link, a file exists or cannot be written.
pub fn run(args: &GenerateArgs) -> Result<()> {
    let engine = Engine::builtin()?;
    let device = engine.catalog.find(&args.gpu)?;
    let link = engine.models.links().of_device(&device.id);
    let link = link.ok_or_else(|| eyre!("{}: no interconnect is known of it", device.id))?;
    let &GenerateArgs { ranks, tables_per_rank, layers, local_batch, steps, seed, .. } = args;
    let kinds = args.kinds.unwrap_or(ranks);
    let job = SyntheticJob::draw(
        JobSpec { ranks, kinds, tables_per_rank, layers, local_batch, steps, seed },
        device.memory.0,
    );
    fs::create_dir_all(&args.output)?;
    for (rank, trace) in job.traces(Machine { models: &engine.models, device, link }).iter().enumerate() {
        write_new(&args.output.join(format!("rank{rank}.pt.trace.json")), trace, false)?;
    }
    write_new(&args.output.join("tables.toml"), job.facts().as_bytes(), false)?;
    println!("{ranks} ranks and {} tables in {}", job.tables.len(), args.output.display());
    Ok(())
}

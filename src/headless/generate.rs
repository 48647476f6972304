//! `generate`: the traces of a made-up multi-rank DLRM job, of tables that are drawn or given, for studies of sharding.

use color_eyre::eyre::{Result, eyre};
use retime_core::cost::Reuse;
use retime_core::intern::printable;
use serde::Serialize;

use crate::cli::GenerateArgs;
use crate::session::synthetic::{JobSpec, Machine, Network, SyntheticJob, measured_reuse};
use crate::session::{Engine, read_table, read_table_facts};

use super::input;
use super::output::{self, Table};

#[derive(Serialize)]
struct Answer {
    folder: String,
    ranks: u32,
    tables: usize,
    batch_size: u64,
}

/// Runs the command.
///
/// # Errors
/// The device is unknown or has no link, a file cannot be read, or one exists or cannot be written.
pub fn run(args: &GenerateArgs) -> Result<()> {
    let engine = Engine::builtin()?;
    let machine = Machine::of(&engine, &args.gpu)?;
    let &GenerateArgs { ranks, tables_per_rank, layers, local_batch, steps, seed, .. } = args;
    let kinds = args.kinds.unwrap_or(ranks);
    let spec = JobSpec { ranks, kinds, tables_per_rank, layers, local_batch, steps, seed };
    let reuse = match &args.reuse {
        Some(path) => measured_reuse(&read_table(path)?).map_err(|reason| eyre!("{}: {reason}", path.display()))?,
        None => Reuse::Uniform,
    };
    let network = Network { dims: args.dim.clone(), bottom: args.bottom.clone(), top: args.top.clone(), reuse };
    let job = match &args.tables {
        Some(path) => SyntheticJob::of_tables(spec, network, &read_table_facts(path)?)
            .map_err(|reason| eyre!("{}: {reason}", path.display()))?,
        None => SyntheticJob::draw(spec, network, machine.device.memory.0),
    };
    let needed = job.memory_needed(machine);
    if let Some(limit) = input::max_memory().filter(|limit| needed > *limit) {
        let less = "give more with --max-memory, or take fewer ranks, layers or steps";
        return Err(eyre!("the job needs about {needed} of memory, {limit} may be used: {less}"));
    }
    job.write(&args.output, machine)?;
    let folder = args.output.display().to_string();
    let answer = Answer { folder, ranks, tables: job.tables.len(), batch_size: job.batch() };
    let Answer { folder, tables, batch_size, .. } = &answer;
    let table = || {
        let mut table = Table::new(&["folder", "ranks", "tables", "batch_size"]);
        table.row([folder.clone(), ranks.to_string(), tables.to_string(), batch_size.to_string()]);
        table
    };
    let folder = printable(folder);
    let next = format!("`retime tables {folder} --sharder all`");
    output::write(
        &args.written,
        &answer,
        |out| writeln!(out, "{ranks} ranks and {tables} tables in {folder}, {batch_size} samples a step: {next}"),
        table,
    )?;
    Ok(())
}

//! `overheads`: host overheads T1 to T5 per operator, saved and merged as JSON databases.

use color_eyre::eyre::{Result, WrapErr};
use serde::Serialize;

use crate::cli::{Iteration, OverheadsArgs};
use crate::cost::Overheads;
use crate::cost::overhead::{OverheadRow, ProfilerCost, extract};
use crate::session::{Engine, read_text, write_new};

use super::{input, output};

#[derive(Debug, Serialize)]
struct Answer {
    rows: Vec<OverheadRow>,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, or a database cannot be read or written.
pub fn run(args: &OverheadsArgs, iteration: Iteration) -> Result<()> {
    let engine = Engine::builtin()?;
    let loaded = input::open_one(&engine, &args.input.traces, iteration)?;
    let mut overheads = extract(&loaded.graph, ProfilerCost::default());
    for path in &args.merge {
        let other = Overheads::from_json(&read_text(path)?).wrap_err_with(|| path.display().to_string())?;
        overheads.merge(&other);
    }
    if let Some(path) = &args.save {
        write_new(path, overheads.to_json().as_bytes(), args.force)?;
    }
    let json = input::Envelope::new(&loaded, Answer { rows: overheads.rows().collect() });
    let table = || table(&json.answer.rows);
    output::write(&args.input.output, &json, |out| output::text(&table(), out), table)?;
    Ok(())
}

fn table(rows: &[OverheadRow]) -> output::Table {
    let mut table = output::Table::new(&["type", "operator", "mean_us", "std_us", "count"]);
    for row in rows {
        table.row([
            format!("{:?}", row.kind),
            row.op.clone(),
            format!("{:.2}", row.mean_us),
            format!("{:.2}", row.std_us),
            row.count.to_string(),
        ]);
    }
    table
}

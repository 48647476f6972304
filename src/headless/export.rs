//! `export`: the (edited) timeline as a file.

use color_eyre::eyre::Result;

use crate::cli::{ExportArgs, ExportFormat, Iteration};
use crate::session::{TaskRow, Timeline, write_new};

use super::opened::Opened;
use super::output;

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, or the file cannot be written.
pub fn run(args: &ExportArgs, iteration: Iteration) -> Result<()> {
    let Opened { loaded, outcome, .. } = Opened::of(&args.common, iteration)?;
    let timeline = Timeline::new(&outcome);
    let bytes = match args.format {
        ExportFormat::Chrome => timeline.chrome(&loaded)?,
        ExportFormat::Json => serde_json::to_vec_pretty(&timeline.rows())?,
        ExportFormat::Csv => table(&timeline.rows()).to_csv()?,
    };
    write_new(&args.out, &bytes, args.common.scenario.force)?;
    eprintln!("wrote {}, {} bytes", args.out.display(), bytes.len());
    Ok(())
}

fn table(rows: &[TaskRow]) -> output::Table {
    let mut table = output::Table::new(&[
        "rank",
        "lane",
        "kind",
        "name",
        "operator",
        "start_ns",
        "duration_ns",
        "measured_ns",
        "source",
        "critical",
    ]);
    for row in rows {
        table.row([
            row.rank.to_string(),
            row.lane.clone(),
            row.kind.clone(),
            row.name.clone(),
            row.operator.clone(),
            row.start_ns.to_string(),
            row.duration_ns.to_string(),
            row.measured_ns.to_string(),
            row.source.clone(),
            row.critical.to_string(),
        ]);
    }
    table
}

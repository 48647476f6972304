//! `export`: the (edited) timeline as a file.

use std::io::{Write, stderr};

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{ExportArgs, ExportKind, Iteration};
use crate::session::{ExportFormat, Exported, export_to, opened_again};
use retime_core::intern::printable;
use retime_core::units::DurNs;

use super::opened::Opened;
use super::output::{self, Table};
use super::{Misuse, input};

#[derive(Serialize)]
struct Answer {
    files: Vec<String>,
    format: &'static str,
    size_bytes: usize,
    simulated_ns: DurNs,
    /// In which figures the iteration is another one when the files are opened again.
    #[serde(skip_serializing_if = "Option::is_none")]
    opened_again: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, or the file cannot be written.
pub fn run(args: &ExportArgs, iteration: Iteration) -> Result<()> {
    if args.out.as_os_str() == "-" {
        return Err(Misuse("-o: a file is written, not standard output: name one".to_owned()).into());
    }
    let Opened { engine, loaded, outcome, .. } = Opened::of(&args.common, iteration)?;
    let exported = Exported { loaded: &loaded, outcome: &outcome, board: None };
    let format = args.format.map_or_else(|| ExportFormat::of_path(&args.out), format);
    let (files, size) = export_to(&engine, &args.out, exported, format, args.common.scenario.force)?;
    let opened_again = opened_again(&engine, &files, &outcome, format);
    let files = files.iter().map(|file| file.display().to_string()).collect();
    let (simulated_ns, size_bytes) = (outcome.summary.simulated_ns, size);
    let answer = Answer { files, format: format.name(), size_bytes, simulated_ns, opened_again };
    let json = input::Envelope::new(&loaded, answer);
    let Answer { files, opened_again, .. } = &json.answer;
    let table = || {
        let mut table = Table::new(&["file"]);
        for file in files {
            table.row([file.clone()]);
        }
        table
    };
    let names = printable(&files.join(", "));
    let said = |_: &mut dyn Write| {
        writeln!(stderr(), "wrote {names}, {size} bytes of {}", format.name())?;
        opened_again.iter().try_for_each(|other| writeln!(stderr(), "{other}"))
    };
    output::write(&args.common.input.output, &json, said, table)?;
    Ok(())
}

fn format(kind: ExportKind) -> ExportFormat {
    match kind {
        ExportKind::Chrome => ExportFormat::Chrome,
        ExportKind::Csv => ExportFormat::Csv,
        ExportKind::Json => ExportFormat::Json,
        ExportKind::Svg => ExportFormat::Svg,
        ExportKind::Markdown => ExportFormat::Markdown,
        ExportKind::Html => ExportFormat::Html,
    }
}

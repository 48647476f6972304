//! `export`: the (edited) timeline as a file.

use std::io::{Write, stderr};

use color_eyre::eyre::Result;

use crate::cli::{ExportArgs, ExportKind, Iteration};
use crate::session::{ExportFormat, Exported, export_to};
use retime_core::intern::printable;

use super::opened::Opened;

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, or the file cannot be written.
pub fn run(args: &ExportArgs, iteration: Iteration) -> Result<()> {
    let Opened { engine, loaded, outcome, .. } = Opened::of(&args.common, iteration)?;
    let exported = Exported { loaded: &loaded, outcome: &outcome, board: None };
    let format = args.format.map_or_else(|| ExportFormat::of_path(&args.out), format);
    let (files, size) = export_to(&engine, &args.out, exported, format, args.common.scenario.force)?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let _ = writeln!(stderr(), "wrote {}, {size} bytes of {}", printable(&names.join(", ")), format.name());
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

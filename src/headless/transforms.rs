//! `transforms`, `completions` and `man`: what the program knows about itself.

use std::io;

use clap::CommandFactory;
use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{Cli, OutputArgs};
use crate::scenario::transforms;

use super::output;

#[derive(Debug, Serialize)]
struct Listed {
    transforms: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    usage: &'static str,
    help: &'static str,
    example: &'static str,
}

/// Lists the edits.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(format: &OutputArgs) -> Result<()> {
    let rows = transforms().iter().map(|spec| Row {
        name: spec.name,
        usage: spec.usage,
        help: spec.help,
        example: spec.example,
    });
    let listed = Listed { transforms: rows.collect() };
    let table = || {
        let mut table = output::Table::new(&["usage", "does", "example"]);
        for row in &listed.transforms {
            table.row([row.usage, row.help, row.example].map(str::to_owned));
        }
        table
    };
    output::write(format, &listed, |out| output::text(&table(), out), table)?;
    Ok(())
}

/// Writes a completion script.
pub fn completions(shell: clap_complete::Shell) {
    clap_complete::generate(shell, &mut Cli::command(), "retime", &mut io::stdout());
}

/// Writes the manual page.
///
/// # Errors
/// Standard output cannot be written.
pub fn man() -> Result<()> {
    clap_mangen::Man::new(Cli::command()).render(&mut io::stdout())?;
    Ok(())
}

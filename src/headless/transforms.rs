//! `transforms`, `completions` and `man`: what the program knows about itself.

use std::io::{self, Write as _};

use clap::CommandFactory;
use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{Cli, OutputArgs};
use retime_core::scenario::transforms;

use super::output;

#[derive(Debug, Serialize)]
struct Listed {
    transforms: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    usage: String,
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
        usage: spec.usage(),
        help: spec.help,
        example: spec.example,
    });
    let listed = Listed { transforms: rows.collect() };
    let table = || {
        let mut table = output::Table::new(&["usage", "does", "example"]);
        for row in &listed.transforms {
            table.row([&row.usage, row.help, row.example].map(str::to_owned));
        }
        table
    };
    output::write(format, &listed, |out| output::text(&table(), out), table)?;
    Ok(())
}

/// Writes a completion script.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "retime", &mut script);
    put(&script)
}

/// Writes the manual page of the program, or of one of its commands.
///
/// # Errors
/// There is no such command, or standard output cannot be written.
pub fn man(name: Option<&str>) -> Result<()> {
    let mut command = Cli::command();
    command.build();
    let wanted = match name {
        None => command,
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            found.ok_or_else(|| eyre!("no command `{name}`; `retime --help` lists them"))?
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(wanted).render(&mut page)?;
    put(&page)
}

/// Writes to standard output; a reader that has gone away is no error.
fn put(bytes: &[u8]) -> Result<()> {
    match io::stdout().write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

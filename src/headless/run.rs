//! `run`: what came of a script's lines.

use std::io::{self, Write, stderr};

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::OutputArgs;
use crate::session::{Played, Status};
use retime_core::intern::printable;

use super::output;

/// Exit status when an expectation failed.
pub(super) const EXPECTATION_FAILED: u8 = 3;

#[derive(Debug, Serialize)]
struct Answer<'a> {
    script: &'a str,
    status: Status,
    lines: &'a [Played],
}

/// Writes what came of each line of `script`; complaints go to standard error, a line each.
///
/// # Returns
/// The exit status: 0, 1 when a line could not be carried out, 3 when an expectation failed.
///
/// # Errors
/// Standard output cannot be written.
pub fn report(script: &str, lines: &[Played], format: &OutputArgs) -> Result<u8> {
    let ended = |status: Status| lines.iter().any(|line| line.status == status);
    let (status, code) = match (ended(Status::Error), ended(Status::Fails)) {
        (true, _) => (Status::Error, 1),
        (false, true) => (Status::Fails, EXPECTATION_FAILED),
        (false, false) => (Status::Done, 0),
    };
    output::write(format, &Answer { script, status, lines }, |out| describe(lines, out), || table(lines))?;
    for complaint in lines.iter().filter_map(Played::complaint) {
        let _ = writeln!(stderr(), "retime: {}, {}", printable(script), printable(&complaint));
    }
    Ok(code)
}

fn describe(lines: &[Played], out: &mut dyn Write) -> io::Result<()> {
    let mut table = output::Table::new(&["line", "", "iteration", "command", "figure"]);
    for line in lines {
        table.row([
            number(line),
            name(line.status).to_owned(),
            line.simulated_ns.map_or("–".to_owned(), |time| time.to_string()),
            line.command.clone(),
            line.got.clone().unwrap_or_default(),
        ]);
    }
    output::text(&table, out)
}

/// The line's number, with the file where another script plays it.
fn number(line: &Played) -> String {
    line.file.as_ref().map_or_else(|| line.line.to_string(), |file| format!("{file}:{}", line.line))
}

fn name(status: Status) -> &'static str {
    match status {
        Status::Done => "done",
        Status::Holds => "holds",
        Status::Fails => "FAILS",
        Status::Error => "ERROR",
    }
}

fn table(lines: &[Played]) -> output::Table {
    let mut table = output::Table::new(&["line", "command", "status", "expected", "got", "message", "simulated_ns"]);
    for line in lines {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        table.row([
            number(line),
            line.command.clone(),
            name(line.status).to_lowercase(),
            text(&line.expected),
            text(&line.got),
            text(&line.message),
            line.simulated_ns.map(|time| time.0.to_string()).unwrap_or_default(),
        ]);
    }
    table
}

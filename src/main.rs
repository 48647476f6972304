//! The `retime` program: arguments in, exit status out.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;
use color_eyre::eyre::{Result, eyre};
use retime::cli::Cli;
use retime::intern::printable;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(stderr(), "retime: {}", printable(&format!("{error:#}")));
            ExitCode::from(1)
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    if let Some(command) = &cli.command {
        return retime::headless::run(command, cli.iteration);
    }
    if !stdout().is_terminal() {
        return Err(eyre!(
            "standard output is no terminal; for results without a screen see `retime --help`, e.g. `retime simulate`"
        ));
    }
    screen(cli)
}

#[cfg(feature = "tui")]
fn screen(_cli: &Cli) -> Result<()> {
    Err(eyre!("no screen yet"))
}

#[cfg(not(feature = "tui"))]
fn screen(_cli: &Cli) -> Result<()> {
    Err(eyre!("this build has no screen; build it with the feature `tui`"))
}

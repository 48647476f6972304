//! The `retime` program: arguments in, exit status out.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;
#[cfg(feature = "tui")]
use std::sync::Arc;

use clap::Parser;
use color_eyre::eyre::{Result, eyre};
use retime::cli::Cli;
#[cfg(feature = "tui")]
use retime::config::Config;
use retime::intern::printable;
#[cfg(feature = "tui")]
use retime::{scenario::Scenario, session::Engine};

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
fn screen(cli: &Cli) -> Result<()> {
    use retime::tui::{Depth, Open, Start, Style, needs_ascii};

    let config = Config::read()?;
    let paths = retime::headless::expand(&cli.traces)?;
    let variable = |name: &str| std::env::var(name).ok();
    retime::tui::run(Start {
        open: if paths.is_empty() { Open::Sample } else { Open::Paths(paths) },
        engine: Arc::new(Engine::with_devices(&config.devices)?),
        build: retime::headless::build_options(cli.iteration),
        scenario: Scenario::default(),
        style: Style {
            theme: cli.theme.clone().unwrap_or_else(|| "dark".to_owned()),
            theme_files: config.themes,
            depth: Depth::detect(variable),
            is_ascii: needs_ascii(variable),
            keymap: config.keymap,
        },
    })
}

#[cfg(not(feature = "tui"))]
fn screen(_cli: &Cli) -> Result<()> {
    Err(eyre!("this build has no screen; build it with the feature `tui`"))
}

//! The `retime` program: arguments in, exit status out.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::process::ExitCode;
#[cfg(feature = "tui")]
use std::sync::Arc;

use clap::Parser;
use color_eyre::eyre::{Result, eyre};
use retime::cli::Cli;
#[cfg(feature = "tui")]
use retime::cli::{Command, RunArgs};
#[cfg(feature = "tui")]
use retime::config::Config;
#[cfg(feature = "tui")]
use retime::session::{Engine, sample};
use retime::session::{log_failure, log_to, return_large_blocks};
#[cfg(feature = "tui")]
use retime::tui::Style;
use retime_core::intern::printable;
use retime_core::log::{self, Level};
#[cfg(feature = "tui")]
use retime_core::scenario::Scenario;

fn main() -> ExitCode {
    return_large_blocks();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(refusal) => return refused(&refusal),
    };
    let ended = run(&cli);
    if let (Ok(_), Some(reason), Some(path)) = (&ended, log_failure(), &cli.log) {
        let path = printable(&path.display().to_string());
        let _ = writeln!(stderr(), "retime: warning: the log {path} lacks lines, which could not be written: {reason}");
    }
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            log::say(Level::Error, &format!("{error:#}"));
            let _ = writeln!(stderr(), "retime: {}", printable(&format!("{error:#}")));
            ExitCode::from(if error.is::<retime::headless::Misuse>() { 2 } else { 1 })
        }
    }
}

/// Says why arguments cannot be used, or the help that they ask for. They may be names of other people's files.
fn refused(refusal: &clap::Error) -> ExitCode {
    if !refusal.use_stderr() {
        return match refusal.print().and_then(|()| stdout().flush()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                let _ = writeln!(stderr(), "retime: cannot write to standard output: {error}");
                ExitCode::from(1)
            }
            _ => ExitCode::SUCCESS,
        };
    }
    for line in refusal.render().to_string().lines() {
        let _ = writeln!(stderr(), "{}", printable(line));
    }
    ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2))
}

fn run(cli: &Cli) -> Result<u8> {
    if let Some(path) = &cli.log {
        log_to(path)?;
    }
    if let Some(size) = &cli.max_memory {
        let bytes = size.parse().map_err(|reason| retime::headless::Misuse(format!("--max-memory {reason}")))?;
        retime::headless::limit_memory(bytes);
    }
    retime::headless::take_captures(&cli.capture);
    if cli.command.is_some() {
        retime::session::let_signals_wait()?;
    }
    #[cfg(feature = "tui")]
    if let Some(Command::Run(args)) = &cli.command {
        return play(cli, args);
    }
    if let Some(command) = &cli.command {
        return retime::headless::run(command, cli.iteration);
    }
    if cli.iteration == retime::cli::Iteration::All {
        return Err(eyre!("--iteration all goes with a command; the screen models one step"));
    }
    if !stdout().is_terminal() {
        return Err(eyre!(
            "standard output is no terminal; for results without a screen see `retime --help`, e.g. `retime simulate`"
        ));
    }
    screen(cli).map(|()| 0)
}

#[cfg(feature = "tui")]
fn screen(cli: &Cli) -> Result<()> {
    use retime::tui::{Depth, Open, Start, needs_ascii};

    let config = Config::read()?;
    let (mut engine, unusable) = Engine::with_usable_devices(&config.devices)?;
    retime::headless::furnish(&mut engine)?;
    let paths = retime::headless::expand(&cli.traces)?;
    let variable = |name: &str| std::env::var(name).ok();
    retime::tui::run(Start {
        open: if paths.is_empty() { Open::Sample(&sample::ALL[0]) } else { Open::Paths(paths) },
        engine: Arc::new(engine),
        build: retime::headless::build_options(cli.iteration),
        scenario: Scenario::default(),
        style: Style {
            theme: cli.theme.clone().unwrap_or_else(|| "dark".to_owned()),
            theme_files: config.themes,
            depth: Depth::detect(variable),
            is_ascii: needs_ascii(variable),
            keymap: config.keymap,
            prices: config.prices,
        },
        sessions: retime::session::Sessions::of_user(),
        is_fresh: cli.fresh,
        algorithm: cli.algorithm.map(retime::headless::algorithm),
        left_out: config.unreadable.into_iter().chain(unusable).collect(),
    })
}

/// Plays a script on a screen that nobody sees, and writes what came of it.
#[cfg(feature = "tui")]
fn play(cli: &Cli, args: &RunArgs) -> Result<u8> {
    use retime::session::{read_text, script_lines};
    use retime::tui::ScriptedScreen;

    let engine = Arc::new(retime::headless::engine()?);
    let script = args.script.display().to_string();
    let text = read_text(&args.script)?;
    let lines = script_lines(&text);
    let opens = lines.iter().any(|line| line.text.starts_with("open "));
    let loaded = if args.traces.is_empty() && opens {
        Vec::new()
    } else {
        retime::headless::open_all(&engine, &args.traces, cli.iteration)?
    };
    let mut screen = ScriptedScreen::new(engine, loaded, &Scenario::default(), &Style::plain(), UNSEEN.into());
    screen.set_build(retime::headless::build_options(cli.iteration));
    let played = screen.source(&script, &text).map_err(|error| eyre!(error))?;
    retime::headless::report(&script, &played, &args.output)
}

/// Size of a screen that nobody sees, in columns and rows.
#[cfg(feature = "tui")]
const UNSEEN: (u16, u16) = (120, 40);

#[cfg(not(feature = "tui"))]
fn screen(_cli: &Cli) -> Result<()> {
    Err(eyre!("this build has no screen; build it with the feature `tui`"))
}

//! Commands that read or write files: traces, exports, scenarios, scripts; and what scripts expect.

use std::path::{Path, PathBuf};

use ratatui::layout::Rect;

use super::{Argument, Command, CommandResult, Kind, Pane};
use crate::session::{
    DrawnOn, Expectation, ExportFormat, Verdict, is_fingerprint, is_same_file, sample, script_lines, why_not_on_screen,
};
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::load::Open;
use crate::tui::message::{Message, NO_TRACE};
use crate::tui::overlay::{Overlay, Picker, Prompt, Purpose};
use crate::tui::picture;
use crate::tui::rows::{self, About, RowFormat};
use crate::tui::runner::{Reading, Request, SavedSteps};
use crate::tui::script::Script;
use crate::tui::theme::{Depth, Role, Theme};
use crate::tui::views::compare::ColumnKind;
use crate::tui::views::{self, Timeline};
use crate::tui::workspace::Workspace;
use retime_core::intern::printable;
use retime_core::scenario::{Fit, SavedScenario};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "open",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "FILE"),
        help: "open another trace",
        keys: &[],
        run: |app, path| {
            let path = readable(path)?;
            Ok(vec![app.open_beside(Open::Paths(vec![path]))?])
        },
    },
    Command {
        name: "samples",
        aliases: &["sample"],
        argument: Argument::Optional(Kind::Text, "NAME"),
        help: "open one of the bundled traces",
        keys: &[],
        run: samples,
    },
    Command {
        name: "export",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "[FORMAT] FILE"),
        help: "write what is looked at: .svg .txt .csv .json .md, .html all",
        keys: &[(Pane::Everywhere, "X")],
        run: |app, argument| export(app, argument, false),
    },
    Command {
        name: "export!",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "[FORMAT] FILE"),
        help: "as export, in place of an existing file",
        keys: &[],
        run: |app, argument| export(app, argument, true),
    },
    Command {
        name: "save",
        aliases: &["write", "w"],
        argument: Argument::Optional(Kind::Text, "FILE"),
        help: "write the steps to a scenario file",
        keys: &[],
        run: |app, path| save(app, path, false),
    },
    Command {
        name: "save!",
        aliases: &["w!"],
        argument: Argument::Optional(Kind::Text, "FILE"),
        help: "as save, in place of an existing file",
        keys: &[],
        run: |app, path| save(app, path, true),
    },
    Command {
        name: "load",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "FILE"),
        help: "put the steps of a scenario file in force",
        keys: &[],
        run: |app, path| read(app, path, Reading::Scenario { force: false }),
    },
    Command {
        name: "load!",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "FILE"),
        help: "as load, even if it was made for another trace",
        keys: &[],
        run: |app, path| read(app, path, Reading::Scenario { force: true }),
    },
    Command {
        name: "source",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "FILE"),
        help: "play a file of commands, one a line",
        keys: &[],
        run: |app, path| read(app, path, Reading::Script),
    },
    Command {
        name: "record",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "FILE"),
        help: "write what is done from now on to a script; again: stop",
        keys: &[],
        run: record,
    },
    Command {
        name: "expect",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "FIGURE < VALUE"),
        help: "check a figure: iteration < 40ms, replay_error within 1%",
        keys: &[],
        run: expect,
    },
];

fn named(path: &str) -> Result<PathBuf, String> {
    if path.is_empty() { Err("name a file after the command".to_owned()) } else { Ok(PathBuf::from(path)) }
}

/// A file or folder to read: no pipe, for waiting until somebody writes to it cannot be ended, and no terminal. What is given when the
/// program starts may be one.
pub(in crate::tui) fn readable(path: &str) -> Result<PathBuf, String> {
    let path = named(path)?;
    match why_not_on_screen(&path) {
        Some(reason) => Err(format!("{}: {reason}", path.display())),
        None => Ok(path),
    }
}

/// By name alone what is looked at: of a view with rows these, as a picture or a text the screen; of the timeline, and
/// with a format before the name, the edited iteration.
fn export(app: &mut App, argument: &str, force: bool) -> CommandResult {
    if argument.is_empty() {
        app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, "export ")));
        return Ok(Vec::new());
    }
    let (first, rest) = argument.split_once(' ').unwrap_or(("", argument));
    let (format, path) = match ExportFormat::parse(first) {
        Ok(format) => (format, named(rest.trim())?),
        Err(error) if !first.is_empty() && !first.contains(['.', '/']) => return Err(error),
        _ => {
            let path = named(argument)?;
            is_free(app, &path)?;
            if let Some(text) = looked_at(app, &path)? {
                app.busy += 1;
                return Ok(vec![Effect::Ask(Request::Write { path, text, force, saves: None })]);
            }
            (ExportFormat::of_path(&path), path)
        }
    };
    is_free(app, &path)?;
    let work = app.workspace().ok_or(NO_TRACE)?;
    if work.is_stale() {
        return Err(COMPUTED.to_owned());
    }
    let is_report = matches!(format, ExportFormat::Markdown | ExportFormat::Html);
    let sources = if is_report { work.sides(&app.workspaces) } else { Vec::new() };
    let (loaded, outcome) = (work.loaded.clone(), work.outcome.clone());
    let effect = Effect::Ask(Request::Export { loaded, outcome, sources, format, path, force });
    app.busy += 1;
    Ok(vec![effect])
}

/// What is not written of an edit whose result is not there yet.
const COMPUTED: &str = "the result is still being computed: once more in a moment";

/// Whether no script is being recorded to that file.
fn is_free(app: &App, path: &Path) -> Result<(), String> {
    let is_it = |recording: &Path| recording == path || is_same_file(recording, path);
    match app.recording.as_ref().filter(|recording| is_it(&recording.path)) {
        Some(recording) => Err(format!("{}: is being recorded to; :record ends that", recording.path.display())),
        None => Ok(()),
    }
}

/// What is looked at, as a file of that name has it; `None` where that is the iteration itself.
fn looked_at(app: &mut App, path: &Path) -> Result<Option<String>, String> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(Some(drawn(app))),
        Some("txt") => Ok(Some(picture::text(&views::draw(app, app.size)))),
        _ if app.shows(&Timeline) => Ok(None),
        _ => RowFormat::of_path(path).map(|format| listed(app, format)).transpose(),
    }
}

/// The screen in all colours of its theme, whatever the terminal shows.
fn drawn(app: &mut App) -> String {
    let coloured = Theme::load(&app.theme.name, &app.theme_files, Depth::True).unwrap_or_else(|_| app.theme.clone());
    let shown = std::mem::replace(&mut app.theme, coloured);
    let text = picture::svg(&views::draw(app, app.size), app.theme.style(Role::Background));
    app.theme = shown;
    text
}

/// The rows of the open view, with all their columns.
fn listed(app: &App, format: RowFormat) -> Result<String, String> {
    const AREA: Rect = Rect { x: 0, y: 0, width: 240, height: 120 };
    let work = app.workspace().ok_or(NO_TRACE)?;
    if !work.is_drawn() || app.view.is_computing(work) {
        return Err(COMPUTED.to_owned());
    }
    let table = app.view.rows(work, AREA).ok_or_else(|| format!("{} has no rows", app.view.name()))?;
    let about = About {
        view: app.view.name(),
        trace: &work.loaded.title,
        steps: work.history.current().steps.iter().filter(|step| step.enabled).map(ToString::to_string).collect(),
        iteration: work.iteration_figures(),
        only: work.listing.filter.as_ref().map(|filter| filter.text.as_str()),
    };
    Ok(rows::text(&table, &about, format))
}

fn save(app: &mut App, path: &str, force: bool) -> CommandResult {
    let path = named(path)?;
    is_free(app, &path)?;
    let work = app.workspace().ok_or(NO_TRACE)?;
    let steps = SavedScenario::new(work.current_scenario(), &work.fingerprint, &work.loaded.graph).to_toml();
    // A scenario is of one trace alone: what else it was made with, its reader is told.
    let beside = DrawnOn::of(&work.loaded);
    let made_after = beside.lines().map(|line| format!("# made after: {}", printable(&line)));
    let text = made_after.chain([steps]).collect::<Vec<_>>().join("\n");
    let saves = Some(SavedSteps { work: work.number, steps: work.step_lines() });
    app.busy += 1;
    Ok(vec![Effect::Ask(Request::Write { path, text, force, saves })])
}

fn read(app: &mut App, path: &str, reading: Reading) -> CommandResult {
    let path = readable(path)?;
    app.busy += 1;
    Ok(vec![Effect::Ask(Request::Read { path, reading })])
}

/// Takes a file that was read.
pub fn take(app: &mut App, file: &str, text: &str, reading: Reading) -> CommandResult {
    match reading {
        Reading::Script => {
            Script::start(app, file.to_owned(), script_lines(text))?;
            Ok(Vec::new())
        }
        Reading::Scenario { force } => {
            let saved = SavedScenario::from_toml(text).map_err(|error| format!("{file}: {error}"))?;
            let work = app.workspace_mut().ok_or(NO_TRACE)?;
            check(work, file, &saved)?;
            let said = fitting(work, file, &saved, force)?;
            work.history.push(saved.scenario);
            work.clamp_step();
            let effects = work.evaluate();
            if let Some(said) = said {
                app.say(Message::note(said));
            }
            Ok(effects)
        }
        Reading::Runs => views::roofline::take_runs(app, file, text),
        Reading::Compared => {
            let saved = SavedScenario::from_toml(text).map_err(|error| format!("{file}: {error}"))?;
            let work = app.workspace_mut().ok_or(NO_TRACE)?;
            check(work, file, &saved)?;
            let said = fitting(work, file, &saved, false)?;
            let stem = Path::new(file).file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
            let name = work.named.add(saved.scenario, &printable(&stem));
            work.compare.chosen = ColumnKind::Scenario(name);
            if let Some(said) = said {
                app.say(Message::note(said));
            }
            Ok(app.start_background())
        }
    }
}

/// Holds a scenario file against what is known.
fn check(work: &Workspace, file: &str, saved: &SavedScenario) -> Result<(), String> {
    saved.check(work.loaded.context.known()).map_err(|error| format!("{file}: {error}"))
}

/// What there is to say about a scenario file that was made elsewhere.
///
/// # Errors
/// It was made for another trace, and `force` is not set.
fn fitting(work: &Workspace, file: &str, saved: &SavedScenario, force: bool) -> Result<Option<String>, String> {
    match saved.fit(|trace| is_fingerprint(trace, &work.loaded), &work.loaded.graph) {
        Fit::Same => Ok(None),
        Fit::OtherIteration(made_on) => Ok(Some(format!("{file} was made on {made_on} of this trace"))),
        Fit::OtherTrace if force => {
            Ok(Some(format!("{file} was made for another trace: each step says what it matched")))
        }
        Fit::OtherTrace => Err(format!("{file}: made for another trace; :load! applies it all the same")),
    }
}

fn record(app: &mut App, path: &str) -> CommandResult {
    let request = match app.recording.take() {
        Some(recording) => Request::EndRecording(recording),
        None => Request::Record(named(path)?),
    };
    app.busy += 1;
    Ok(vec![Effect::Ask(request)])
}

fn expect(app: &mut App, text: &str) -> CommandResult {
    let expectation = Expectation::parse(text)?;
    let work = app.workspace().ok_or(NO_TRACE)?;
    if work.is_stale() {
        return Err("the result is still being computed".to_owned());
    }
    let verdict = expectation.check(&work.outcome);
    app.verdict = Some(verdict.clone());
    let Verdict { expected, got, holds } = verdict;
    if !holds {
        return Err(format!("expected {expected}, got {got}"));
    }
    app.say(Message::note(format!("{expected}: {got}")));
    Ok(Vec::new())
}

/// Opens a bundled trace beside those that are open; without a name it offers them.
fn samples(app: &mut App, name: &str) -> CommandResult {
    if name.is_empty() {
        app.overlay = Some(Overlay::Picker(Picker::samples()));
        return Ok(Vec::new());
    }
    let names = || sample::ALL.iter().map(|sample| sample.name).collect::<Vec<_>>().join(", ");
    let sample = sample::find(name).ok_or_else(|| format!("no sample `{name}`: {}", names()))?;
    Ok(vec![app.open_beside(Open::Sample(sample))?])
}

//! The one table of commands: name, aliases, argument, help, default keys, and what each does.
//!
//! Palette, key help, the `:` prompt with its completion, the keymap and the documentation all come from it.

pub mod compare;
pub(super) mod files;
mod general;
mod inspect;
mod pointer;
mod ribbon;
mod roofline;
mod scenario;
mod search;
mod sweep;
mod tables;
mod timeline;
mod views;

use super::app::App;
use super::effect::Effect;
use super::runner::Request;
use super::views::ALL;

pub use files::take;
pub use pointer::click;
pub use ribbon::choose_family;
pub use search::{Place, mark};
pub use timeline::toggle_family;
pub use views::named;

/// What a command's run gives: effects, or one line that says why not.
pub type CommandResult = Result<Vec<Effect>, String>;

/// A part of the screen with keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pane {
    /// Wherever no overlay is open.
    Everywhere,
    /// The timeline.
    Timeline,
    /// The scenario's steps.
    Scenario,
    /// Any table: critical path, gaps, operators.
    Table,
    /// The roofline.
    Roofline,
    /// The sweep.
    Sweep,
    /// Embedding tables and their ranks.
    Tables,
    /// Scenarios and traces side by side.
    Compare,
    /// The what-if board.
    Board,
}

impl Pane {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Everywhere,
        Self::Timeline,
        Self::Scenario,
        Self::Table,
        Self::Roofline,
        Self::Sweep,
        Self::Tables,
        Self::Compare,
        Self::Board,
    ];

    /// Its name in `keymap.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Everywhere => "everywhere",
            Self::Timeline => "timeline",
            Self::Scenario => "scenario",
            Self::Table => "table",
            Self::Roofline => "roofline",
            Self::Sweep => "sweep",
            Self::Tables => "tables",
            Self::Compare => "compare",
            Self::Board => "board",
        }
    }

    /// The pane of that name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pane| pane.name() == name)
    }

    /// All names, for messages.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

/// What a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing.
    None,
    /// May be left out; the text names it.
    Optional(Kind, &'static str),
}

/// What an argument is, for completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// A step of a scenario.
    Step,
    /// Which tasks.
    Selector,
    /// A batch size.
    Batch,
    /// A device of the catalog.
    Device,
    /// An analysis of layers.
    Analysis,
    /// Machines for the communication roofline, and what is to lie under it.
    System,
    /// A theme.
    Theme,
    /// One of the traces that were opened.
    Trace,
    /// What to do with a scenario, and its name.
    Scenario,
}

/// A row of the table.
#[derive(Debug)]
pub struct Command {
    /// Its name at the prompt.
    pub name: &'static str,
    /// Other names.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub argument: Argument,
    /// What it does, in one line.
    pub help: &'static str,
    /// Its keys, by pane.
    pub keys: &'static [(Pane, &'static str)],
    /// Runs it.
    pub run: fn(&mut App, &str) -> CommandResult,
}

impl Command {
    /// Its name with the argument's, for lists.
    pub fn usage(&self) -> String {
        match self.argument {
            Argument::None => self.name.to_owned(),
            Argument::Optional(_, name) => format!("{} [{name}]", self.name),
        }
    }

    /// What its argument is, if it takes one.
    pub fn kind(&self) -> Option<Kind> {
        match self.argument {
            Argument::None => None,
            Argument::Optional(kind, _) => Some(kind),
        }
    }
}

/// All commands, in the order of lists.
pub fn all() -> impl Iterator<Item = &'static Command> {
    let tables: [&'static [Command]; 11] = [
        views::COMMANDS,
        inspect::COMMANDS,
        roofline::COMMANDS,
        sweep::COMMANDS,
        scenario::COMMANDS,
        compare::COMMANDS,
        tables::COMMANDS,
        timeline::COMMANDS,
        ribbon::COMMANDS,
        files::COMMANDS,
        general::COMMANDS,
    ];
    of_views().chain(tables.into_iter().flatten())
}

/// The commands that belong to views, in their order.
fn of_views() -> impl Iterator<Item = &'static Command> {
    ALL.into_iter().flat_map(|view| std::iter::once(view.opener()).chain(view.commands()))
}

/// The command of that name or alias.
pub fn find(name: &str) -> Option<&'static Command> {
    all().find(|command| command.name == name || command.aliases.contains(&name))
}

/// Runs a line as typed at the prompt: a command with its argument, or a step to add to the scenario.
pub fn run_line(app: &mut App, line: &str) -> CommandResult {
    let line = line.trim();
    let (name, argument) = line.split_once(' ').map_or((line, ""), |(name, rest)| (name, rest.trim()));
    if name.is_empty() {
        return Ok(Vec::new());
    }
    let step = app.workspace().map_or(0, |work| work.step + 1);
    let (mut effects, is_recorded) = match find(name) {
        Some(Command { argument: Argument::None, .. }) if !argument.is_empty() => {
            return Err(format!("{name} takes nothing, not `{argument}`"));
        }
        Some(command) => {
            let before = line.chars().count() - argument.chars().count();
            let ran = (command.run)(app, argument).map_err(|error| moved(error, before as isize))?;
            (ran, is_recorded(app, command, argument))
        }
        None => (scenario::add_line(app, line)?, true),
    };
    if is_recorded && ON_CHOSEN.contains(&name) {
        effects.extend(recorded(app, &format!("choose {step}")));
    }
    if is_recorded {
        effects.extend(recorded(app, line));
    }
    Ok(effects)
}

/// An error with a column, in a line in which what it is about begins `by` characters further on.
pub fn moved(error: String, by: isize) -> String {
    let parts = error.strip_prefix("column ").and_then(|rest| rest.split_once(": "));
    match parts.and_then(|(column, message)| Some((column.parse::<usize>().ok()?, message))) {
        Some((column, message)) => format!("column {}: {message}", column.saturating_add_signed(by).max(1)),
        None => error,
    }
}

/// Commands that act on the chosen step.
const ON_CHOSEN: [&str; 6] = ["toggle", "disable", "enable", "delete", "step-up", "step-down"];
/// Commands that change what is shown for the moment only, or that lead to a command that is recorded itself.
const PASSING: [&str; 5] = ["open-row", "group", "source", "record", "choose"];

/// Whether a recorded session needs this line: those that change the scenario or the view, read or write files; not
/// one that only asked for its argument.
fn is_recorded(app: &App, command: &Command, argument: &str) -> bool {
    let tables = [views::COMMANDS, scenario::COMMANDS, compare::COMMANDS, tables::COMMANDS, files::COMMANDS];
    let inspecting = inspect::COMMANDS.iter().filter(|command| inspect::LASTING.contains(&command.name));
    let is_lasting = of_views().chain(tables.into_iter().flatten()).chain(inspecting);
    let is_passing = [&PASSING[..], &compare::PASSING].iter().any(|names| names.contains(&command.name))
        || tables::LEAD_TO_PLACEMENT.contains(&command.name);
    let has_opened = app.view.name() == command.name;
    let has_asked = command.argument != Argument::None && argument.is_empty() && !has_opened;
    { is_lasting }.any(|lasting| lasting.name == command.name) && !is_passing && !has_asked
}

/// Adds a line to the script that is being recorded.
pub fn recorded(app: &mut App, line: &str) -> Option<Effect> {
    let recording = app.recording.as_mut()?;
    recording.lines.push(line.to_owned());
    Some(Effect::Ask(Request::Append { path: recording.path.clone(), line: line.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_one_name_and_says_what_it_does() {
        let mut names: Vec<&str> = all().flat_map(|c| c.aliases.iter().copied().chain([c.name])).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name twice");
        for command in all() {
            assert!(!command.help.is_empty() && command.help.len() < 70, "{}", command.name);
            assert!(
                retime_core::scenario::transforms()
                    .iter()
                    .all(|spec| spec.name != command.name || spec.name == "swap-gpu")
            );
        }
    }
}

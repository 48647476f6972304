//! Commands on scenarios as wholes: keeping them under names, putting one in force, holding them against each other.

use std::path::Path;

use super::Pane::{Compare as OnColumns, Everywhere};
use super::{Argument, Command, CommandResult, Kind};
use crate::session::sample;
use crate::tui::app::App;
use crate::tui::effect::Effect;
use crate::tui::load::Open;
use crate::tui::message::Message;
use crate::tui::overlay::{Overlay, Picker, Prompt, Purpose};
use crate::tui::runner::{Reading, Request};
use crate::tui::table::TableState;
use crate::tui::views::compare::{By, ColumnKind, Measure, Order};
use crate::tui::views::{Compare, show};
use crate::tui::workspace::Workspace;
use retime_core::scenario::StepError;
use retime_core::scenario::named::UNNAMED;

const NO_TRACE: &str = "no trace is open yet";
/// What can be done with scenarios.
pub const ACTIONS: [(&str, &str); 5] = [
    ("new", "keep the steps in force under a name; of a named one a copy"),
    ("blank", "a scenario without steps"),
    ("switch", "put another in force"),
    ("rename", "give the one in force another name"),
    ("drop", "take one away"),
];

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "scenario",
        aliases: &["scenarios"],
        argument: Argument::Optional(Kind::Scenario, "new|blank|switch|rename|drop NAME"),
        help: "keep the steps under a name, or put another scenario in force",
        keys: &[(Everywhere, "S")],
        run: scenario,
    },
    Command {
        name: "name-scenario",
        aliases: &[],
        argument: Argument::None,
        help: "keep the steps in force under a name",
        keys: &[(OnColumns, "a")],
        run: |app, _| Ok(ask(app, "scenario new ")),
    },
    Command {
        name: "drop-scenario",
        aliases: &[],
        argument: Argument::None,
        help: "take the chosen scenario away",
        keys: &[(OnColumns, "D")],
        run: |app, _| {
            let name = chosen(app, "dropped")?;
            act(app, "drop", &name)
        },
    },
    Command {
        name: "open-column",
        aliases: &[],
        argument: Argument::None,
        help: "put the chosen scenario in force, or show the chosen trace",
        keys: &[(OnColumns, "A")],
        run: open_column,
    },
    Command {
        name: "reference",
        aliases: &["against"],
        argument: Argument::Optional(Kind::Text, "NAME"),
        help: "hold the others against the chosen column",
        keys: &[(OnColumns, "r")],
        run: reference,
    },
    Command {
        name: "compare-by",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "operator|kind"),
        help: "rows are operators, or kinds of tasks",
        keys: &[(OnColumns, "v")],
        run: compare_by,
    },
    Command {
        name: "compare-time",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "device|host|path"),
        help: "rows show device time, host time, or the critical path",
        keys: &[(OnColumns, "c")],
        run: compare_time,
    },
    Command {
        name: "compare-order",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "difference|time|name"),
        help: "sort rows by difference, time or name",
        keys: &[(OnColumns, "s")],
        run: compare_order,
    },
];

/// Commands that only lead to another, or change what is shown for the moment.
pub(super) const PASSING: [&str; 3] = ["name-scenario", "drop-scenario", "open-column"];

fn ask(app: &mut App, line: &str) -> Vec<Effect> {
    app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, line)));
    Vec::new()
}

/// Opens the view; another trace, a bundled sample by its name, or a scenario file, comes beside what is there.
pub fn compare(app: &mut App, path: &str) -> CommandResult {
    // What cannot be opened changes nothing: the view that is asked for must not be left without its answer.
    let opened = if path.is_empty() { Vec::new() } else { open_column_of(app, path)? };
    let mut effects = show(app, &Compare);
    effects.extend(opened);
    Ok(effects)
}

/// Opens what comes beside what is there.
fn open_column_of(app: &mut App, path: &str) -> CommandResult {
    app.workspace().ok_or(NO_TRACE)?;
    if let Some(sample) = sample::find(path) {
        return beside(app, Open::Sample(sample), |trace| sample.has(trace));
    }
    let path = super::files::readable(path)?;
    if path.extension().is_some_and(|ending| ending == "toml") {
        app.busy += 1;
        return Ok(vec![Effect::Ask(Request::Read { path, reading: Reading::Compared })]);
    }
    beside(app, Open::Paths(vec![path.clone()]), |trace| trace == path)
}

/// Opens another trace beside the one shown, to compare them, unless one with a file that `is_of` it is open.
fn beside(app: &mut App, open: Open, is_of: impl Fn(&Path) -> bool) -> CommandResult {
    let is_open = |other: &Workspace| other.loaded.traces().any(|trace| is_of(&trace.path));
    if app.workspace().is_some_and(is_open) {
        return Err("that is the trace shown: keep its edits with `scenario new NAME` to compare them".to_owned());
    }
    if let Some(other) = app.workspaces.iter_mut().find(|other| is_open(other)) {
        other.is_compared = true;
        let other = other.number;
        if let Some(work) = app.workspace_mut() {
            work.compare.chosen = ColumnKind::Trace(other);
        }
        return Ok(app.start_compare());
    }
    let effect = app.open_beside(open)?;
    app.compared_with = Some(app.shown);
    Ok(vec![effect])
}

/// Does what is named; a name alone puts that scenario in force; without any it lists them.
fn scenario(app: &mut App, argument: &str) -> CommandResult {
    let (action, name) = argument.split_once(' ').map_or((argument, ""), |(action, name)| (action, name.trim()));
    let work = app.workspace().ok_or(NO_TRACE)?;
    let is_action = ACTIONS.iter().any(|(known, _)| *known == action);
    match (action, name) {
        ("" | "switch", "") => {
            app.overlay = Some(Overlay::Picker(Picker::scenarios(work)));
            Ok(Vec::new())
        }
        ("drop", "") => {
            let own = shown_name(work.named.current());
            act(app, "drop", &own)
        }
        ("new" | "blank" | "rename", "") => Ok(ask(app, &format!("scenario {action} "))),
        _ if is_action => act(app, action, name),
        _ => {
            let names = work.named.all(work.history.current()).map(|(name, _)| shown_name(name));
            let known: Vec<String> = names.chain(ACTIONS.iter().map(|(action, _)| (*action).to_owned())).collect();
            if known.iter().any(|name| name == argument) {
                return act(app, "switch", argument);
            }
            Err(StepError::unknown(1, "action or scenario", argument, known.iter().map(String::as_str)).message)
        }
    }
}

fn shown_name(name: &str) -> String {
    if name.is_empty() { UNNAMED.to_owned() } else { name.to_owned() }
}

/// Changes the scenarios, and says what is in force now.
fn act(app: &mut App, action: &str, name: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or(NO_TRACE)?;
    let before = work.history.revision();
    let Workspace { named, history, .. } = work;
    let said = match action {
        "new" => {
            named.keep(history, name)?;
            format!("these steps are `{name}` now: edits go there")
        }
        "blank" => {
            named.blank(history, name)?;
            format!("`{name}` has no steps yet")
        }
        "switch" => {
            named.switch(history, name)?;
            format!("`{name}` is in force")
        }
        "rename" => {
            named.rename(name)?;
            format!("it is `{name}` now")
        }
        _ => {
            let steps = named.drop(history, name)?;
            let steps = if steps == 1 { "1 step".to_owned() } else { format!("{steps} steps") };
            format!("`{name}` with {steps} is gone; `{}` is in force", shown_name(named.current()))
        }
    };
    work.clamp_step();
    work.compare.chosen = ColumnKind::Scenario(work.named.current().to_owned());
    let effects = if work.history.revision() == before { Vec::new() } else { work.evaluate() };
    app.say(Message::note(said));
    Ok(if effects.is_empty() { app.start_background() } else { effects })
}

/// The name of the scenario whose column is chosen.
fn chosen(app: &App, what: &str) -> Result<String, String> {
    match &app.workspace().ok_or(NO_TRACE)?.compare.chosen {
        ColumnKind::Scenario(name) => Ok(shown_name(name)),
        ColumnKind::Base => Err(format!("the base is not {what}")),
        ColumnKind::Trace(_) => Err(format!("only scenarios are {what}")),
    }
}

fn open_column(app: &mut App, _: &str) -> CommandResult {
    match app.workspace().ok_or(NO_TRACE)?.compare.chosen.clone() {
        ColumnKind::Scenario(name) => {
            let name = shown_name(&name);
            super::run_line(app, &format!("scenario switch {name}"))
        }
        ColumnKind::Trace(number) => super::run_line(app, &format!("trace {}", number + 1)),
        ColumnKind::Base => Err("the base has no steps: `scenario blank NAME` begins there".to_owned()),
    }
}

/// Makes the chosen column, or the named one, what the others are held against.
fn reference(app: &mut App, name: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or(NO_TRACE)?;
    let kind = match (name, &work.compare.shown) {
        ("", _) => work.compare.chosen.clone(),
        (_, None) => return Err("nothing is compared yet: 8 opens the view".to_owned()),
        (_, Some(shown)) => {
            let names: Vec<&str> = shown.board.columns.iter().map(|column| column.figures.name.as_str()).collect();
            let at = names.iter().position(|known| *known == name);
            let at = at.ok_or_else(|| StepError::unknown(1, "column", name, names.iter().copied()).message)?;
            shown.kind(at)
        }
    };
    work.compare.reference = kind;
    Ok(app.start_compare())
}

fn compare_by(app: &mut App, by: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or(NO_TRACE)?;
    let named = super::views::named(by, &[("operator", By::Operator), ("kind", By::Kind)])?;
    let next = if work.compare.by == By::Operator { By::Kind } else { By::Operator };
    work.compare.by = named.unwrap_or(next);
    work.table = TableState::default();
    Ok(Vec::new())
}

fn compare_time(app: &mut App, measure: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or(NO_TRACE)?;
    let known = [Measure::Device, Measure::Host, Measure::Path].map(|measure| (measure.name(), measure));
    let measure = super::views::named(measure, &known)?.unwrap_or(work.compare.next_measure());
    work.compare.measure = Some(measure);
    work.table = TableState::default();
    Ok(Vec::new())
}

fn compare_order(app: &mut App, order: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or(NO_TRACE)?;
    work.compare.order = super::views::named(order, &Order::ALL)?.unwrap_or(work.compare.order.next());
    work.table = TableState::default();
    Ok(Vec::new())
}

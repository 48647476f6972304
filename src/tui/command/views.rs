//! Commands on the open view and its rows.

use super::{Argument, Command, CommandResult, Kind, Pane};
use crate::tui::app::App;
use crate::tui::overlay::{Overlay, Prompt, Purpose};
use crate::tui::views::{self, View, show};

const NO_TRACE: &str = "no trace is open yet";

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "view",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "NAME"),
        help: "open a view by its name",
        keys: &[],
        run: view,
    },
    Command {
        name: "open-row",
        aliases: &[],
        argument: Argument::None,
        help: "look closer at the chosen row: its event, what is inside it, or why",
        keys: &[
            (Pane::Table, "enter"),
            (Pane::Sweep, "enter"),
            (Pane::Tables, "enter"),
            (Pane::Roofline, "enter"),
            (Pane::Compare, "enter"),
        ],
        run: |app, _| app.open_row(),
    },
    Command {
        name: "add-row",
        aliases: &[],
        argument: Argument::None,
        help: "add the edit that the chosen row proposes",
        keys: &[(Pane::Table, "A"), (Pane::Sweep, "A"), (Pane::Tables, "A")],
        run: |app, _| app.add_row(),
    },
    Command {
        name: "show-row",
        aliases: &[],
        argument: Argument::None,
        help: "show the chosen row on the timeline",
        keys: &[(Pane::Table, "o"), (Pane::Roofline, "o")],
        run: |app, _| app.show_row(),
    },
    Command {
        name: "sort",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "BY"),
        help: "sort the rows by a column, alone by the next one",
        keys: &[(Pane::Table, "s"), (Pane::Tables, "s"), (Pane::Board, "C-s")],
        run: sort,
    },
    Command {
        name: "filter",
        aliases: &["only"],
        argument: Argument::Optional(Kind::Selector, "SELECTOR"),
        help: "narrow path, gaps and operators to a selector; alone shows all",
        keys: &[],
        run: filter,
    },
    Command {
        name: "group",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "BY"),
        help: "group operators or the path by family, layer, kernel, cause …",
        keys: &[(Pane::Table, "v"), (Pane::Sweep, "v")],
        run: group,
    },
    Command {
        name: "unfold-all",
        aliases: &["expand"],
        argument: Argument::None,
        help: "open all rows, down to kernels",
        keys: &[(Pane::Table, "E")],
        run: |app, _| expand_all(app, true),
    },
    Command {
        name: "fold-all",
        aliases: &["collapse"],
        argument: Argument::None,
        help: "fold all rows",
        keys: &[(Pane::Table, "C")],
        run: |app, _| expand_all(app, false),
    },
];

/// Opens a view by the name of its command.
fn view(app: &mut App, name: &str) -> CommandResult {
    if let Some(view) = views::find(name) {
        return Ok(show(app, view));
    }
    Err(retime_core::scenario::StepError::unknown(1, "view", name, views::ALL.map(View::name)).message)
}

/// Sorts by what is named, else by the next in turn.
fn sort(app: &mut App, by: &str) -> CommandResult {
    app.view.sort(app.workspace_mut().ok_or(NO_TRACE)?, by)
}

/// Groups by what is named, else by the next in turn.
fn group(app: &mut App, by: &str) -> CommandResult {
    app.view.group(app.workspace_mut().ok_or(NO_TRACE)?, by)
}

/// The one of that name; `None` when none is named.
pub fn named<T: Copy>(name: &str, known: &[(&'static str, T)]) -> Result<Option<T>, String> {
    let found = known.iter().find(|(known, _)| *known == name).map(|&(_, found)| found);
    let names = || known.iter().map(|&(name, _)| name).collect::<Vec<_>>().join(", ");
    if found.is_none() && !name.is_empty() { Err(format!("no `{name}`: {}", names())) } else { Ok(found) }
}

fn expand_all(app: &mut App, is_open: bool) -> CommandResult {
    app.workspace_mut().ok_or(NO_TRACE)?.expand_all(is_open)?;
    Ok(app.view.vertical(app, 0))
}

/// Narrows the tables; without a selector asks for one, or shows all again when they are narrow.
fn filter(app: &mut App, text: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or(NO_TRACE)?;
    if text.is_empty() && work.filter.is_none() {
        app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, "filter ")));
        return Ok(Vec::new());
    }
    work.narrow(text)
}

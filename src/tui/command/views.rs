//! Commands that open a view.

use super::Pane::Everywhere;
use super::{Argument, Command, Kind, Pane, Ran};
use crate::tui::app::App;
use crate::tui::overlay::{Overlay, Prompt, Purpose};
use crate::tui::table::TableState;
use crate::tui::views::View;

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "timeline",
        aliases: &[],
        argument: Argument::None,
        help: "what ran when, measured and simulated",
        keys: &[(Everywhere, "1")],
        run: |app, _| Ok(show(app, View::Timeline)),
    },
    Command {
        name: "operators",
        aliases: &["ops"],
        argument: Argument::None,
        help: "operators and kernels by time",
        keys: &[(Everywhere, "4")],
        run: |app, _| Ok(show(app, View::Operators)),
    },
    Command {
        name: "gaps",
        aliases: &[],
        argument: Argument::None,
        help: "idle intervals of the streams, and why",
        keys: &[(Everywhere, "3")],
        run: |app, _| Ok(show(app, View::Gaps)),
    },
    Command {
        name: "path",
        aliases: &["critical-path"],
        argument: Argument::None,
        help: "the critical path: what decides the iteration time",
        keys: &[(Everywhere, "2")],
        run: |app, _| Ok(show(app, View::Path)),
    },
    Command {
        name: "sweep",
        aliases: &[],
        argument: Argument::None,
        help: "iteration time and throughput against batch size",
        keys: &[(Everywhere, "6")],
        run: |app, _| Ok(show(app, View::Sweep)),
    },
    Command {
        name: "tables",
        aliases: &[],
        argument: Argument::None,
        help: "embedding tables, what each rank carries, and other placements",
        keys: &[(Everywhere, "7")],
        run: |app, _| Ok(show(app, View::Tables)),
    },
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
        help: "open the chosen row: put its edit in force, or show its event",
        keys: &[(Pane::Table, "enter"), (Pane::Sweep, "enter"), (Pane::Tables, "enter")],
        run: |app, _| app.open_row(),
    },
    Command {
        name: "show-row",
        aliases: &[],
        argument: Argument::None,
        help: "show the chosen row on the timeline",
        keys: &[(Pane::Table, "o")],
        run: |app, _| app.show_row(),
    },
    Command {
        name: "sort",
        aliases: &[],
        argument: Argument::None,
        help: "sort operators by the next column; the path by length",
        keys: &[(Pane::Table, "s")],
        run: |app, _| {
            arrange(app, |table| TableState { order: table.order.next(), is_other: !table.is_other, ..table });
            Ok(Vec::new())
        },
    },
    Command {
        name: "filter",
        aliases: &["only"],
        argument: Argument::Optional(Kind::Text, "SELECTOR"),
        help: "narrow path, gaps and operators to a selector; alone shows all",
        keys: &[(Pane::Table, "/")],
        run: filter,
    },
    Command {
        name: "group",
        aliases: &[],
        argument: Argument::None,
        help: "group by operator, kernel, module, stream or family",
        keys: &[(Pane::Table, "v")],
        run: |app, _| {
            arrange(app, |table| TableState { grouping: table.grouping.next(), is_other: !table.is_other, ..table });
            Ok(Vec::new())
        },
    },
];

/// Opens a view by the name of its command.
fn view(app: &mut App, name: &str) -> Ran {
    let views = || COMMANDS.iter().take_while(|command| command.name != "view");
    if let Some(command) = views().find(|command| command.name == name) {
        return (command.run)(app, "");
    }
    Err(crate::scenario::StepError::unknown(1, "view", name, views().map(|command| command.name)).message)
}

/// Shows the table in another order or grouping, from its first row.
fn arrange(app: &mut App, change: impl FnOnce(TableState) -> TableState) {
    if let Some(work) = app.workspace_mut() {
        work.table = TableState { cursor: 0, scroll: 0, ..change(work.table.clone()) };
        work.relist();
    }
}

/// Narrows the tables; without a selector asks for one, or shows all again when they are narrow.
fn filter(app: &mut App, text: &str) -> Ran {
    let work = app.workspace_mut().ok_or("no trace is open yet")?;
    if text.is_empty() && work.filter.is_none() {
        app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, "filter ")));
        return Ok(Vec::new());
    }
    work.narrow(text)?;
    Ok(Vec::new())
}

fn show(app: &mut App, view: View) -> Vec<crate::tui::effect::Effect> {
    if app.view != view
        && let Some(work) = app.workspace_mut()
    {
        work.table = TableState::default();
    }
    app.view = view;
    app.focus = crate::tui::app::Focus::View;
    app.fit_extent();
    if let Some(work) = app.workspace_mut() {
        work.relist();
    }
    app.start_background()
}

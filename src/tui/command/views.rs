//! Commands that open a view.

use super::Pane::Everywhere;
use super::{Argument, Command, Pane};
use crate::tui::app::App;
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
        run: |app, _| {
            show(app, View::Sweep);
            Ok(app.start_sweep())
        },
    },
    Command {
        name: "view",
        aliases: &[],
        argument: Argument::Optional(super::Kind::Text, "NAME"),
        help: "open a view by its name",
        keys: &[],
        run: view,
    },
    Command {
        name: "open-row",
        aliases: &[],
        argument: Argument::None,
        help: "show the chosen row on the timeline, or put it in force",
        keys: &[(Pane::Table, "enter"), (Pane::Sweep, "enter")],
        run: |app, _| app.open_row(),
    },
    Command {
        name: "group",
        aliases: &[],
        argument: Argument::None,
        help: "the other order or grouping of this table",
        keys: &[(Pane::Table, "v")],
        run: |app, _| {
            regroup(app);
            Ok(Vec::new())
        },
    },
];

/// Opens a view by the name of its command.
fn view(app: &mut App, name: &str) -> super::Ran {
    let views = || COMMANDS.iter().take_while(|command| command.name != "view");
    if let Some(command) = views().find(|command| command.name == name) {
        return (command.run)(app, "");
    }
    Err(crate::scenario::StepError::unknown(1, "view", name, views().map(|command| command.name)).message)
}

/// Switches to the other order or grouping.
fn regroup(app: &mut App) {
    if let Some(work) = app.workspace_mut() {
        work.table = TableState { is_other: !work.table.is_other, ..TableState::default() };
    }
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
    Vec::new()
}

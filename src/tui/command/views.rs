//! Commands that open a view.

use super::Pane::Everywhere;
use super::{Argument, Command, Kind, Pane, Ran};
use crate::session::parse_target;
use crate::tui::app::App;
use crate::tui::listing::{Arrangement, Grouping, Order};
use crate::tui::overlay::{Overlay, Prompt, Purpose};
use crate::tui::table::TableState;
use crate::tui::views::View;

const NO_TRACE: &str = "no trace is open yet";

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
        name: "path",
        aliases: &["critical-path"],
        argument: Argument::None,
        help: "the critical path: what decides the iteration time",
        keys: &[(Everywhere, "2")],
        run: |app, _| Ok(show(app, View::Path)),
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
        name: "operators",
        aliases: &["ops"],
        argument: Argument::None,
        help: "operators and kernels by time",
        keys: &[(Everywhere, "4")],
        run: |app, _| Ok(show(app, View::Operators)),
    },
    Command {
        name: "roofline",
        aliases: &[],
        argument: Argument::None,
        help: "kernels, layers or the model under the device's roofs",
        keys: &[(Everywhere, "5")],
        run: |app, _| Ok(show(app, View::Roofline)),
    },
    Command {
        name: "sweep",
        aliases: &[],
        argument: Argument::None,
        help: "iteration time, throughput and memory against batch or any knob",
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
        name: "compare",
        aliases: &["diff"],
        argument: Argument::Optional(Kind::Text, "TRACE"),
        help: "scenarios side by side; with another trace or scenario file",
        keys: &[(Everywhere, "8")],
        run: super::compare::compare,
    },
    Command {
        name: "advise",
        aliases: &["advice"],
        argument: Argument::None,
        help: "edits worth making, and what the iteration is sensitive to",
        keys: &[(Everywhere, "9")],
        run: |app, _| Ok(show(app, View::Advise)),
    },
    Command {
        name: "goal",
        aliases: &["target"],
        argument: Argument::Optional(Kind::Text, "-20%"),
        help: "what saves that share of the time; alone forgets the goal",
        keys: &[],
        run: goal,
    },
    Command {
        name: "ranks",
        aliases: &["stragglers"],
        argument: Argument::None,
        help: "ranks and collectives: who comes last, why, what it costs the others",
        keys: &[(Everywhere, "R")],
        run: |app, _| Ok(show(app, View::Ranks)),
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
        keys: &[(Pane::Table, "o"), (Pane::Roofline, "o")],
        run: |app, _| app.show_row(),
    },
    Command {
        name: "sort",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "BY"),
        help: "sort operators by the next column; the path by length",
        keys: &[(Pane::Table, "s")],
        run: sort,
    },
    Command {
        name: "filter",
        aliases: &["only"],
        argument: Argument::Optional(Kind::Selector, "SELECTOR"),
        help: "narrow path, gaps and operators to a selector; alone shows all",
        keys: &[(Pane::Table, "/")],
        run: filter,
    },
    Command {
        name: "group",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "BY"),
        help: "group as tree, operator, kernel, module, stream or family",
        keys: &[(Pane::Table, "v")],
        run: group,
    },
    Command {
        name: "unfold-all",
        aliases: &["expand"],
        argument: Argument::None,
        help: "open all rows of the operators down to kernels",
        keys: &[(Pane::Table, "E")],
        run: |app, _| turn_all(app, true),
    },
    Command {
        name: "fold-all",
        aliases: &["collapse"],
        argument: Argument::None,
        help: "fold the rows of the operators",
        keys: &[(Pane::Table, "C")],
        run: |app, _| turn_all(app, false),
    },
];

/// Opens a view by the name of its command.
fn view(app: &mut App, name: &str) -> Ran {
    if let Some(view) = View::find(name) {
        return Ok(show(app, view));
    }
    Err(retime_core::scenario::StepError::unknown(1, "view", name, View::ALL.map(View::name)).message)
}

/// Sorts by what is named, else by the next in turn.
fn sort(app: &mut App, by: &str) -> Ran {
    let (view, work) = (app.view, app.workspace_mut().ok_or(NO_TRACE)?);
    match view {
        View::Path => Ok(work.arrange(|now| Arrangement { path_by_length: !now.path_by_length, ..now })),
        View::Operators => {
            let order = named(by, &Order::ALL.map(|order| (order.name(), order)))?;
            Ok(work.arrange(|now| Arrangement { order: order.unwrap_or(now.order.next()), ..now }))
        }
        _ => Err(format!("the rows of {} have one order", view.name())),
    }
}

/// Groups by what is named, else by the next in turn.
fn group(app: &mut App, by: &str) -> Ran {
    let (view, work) = (app.view, app.workspace_mut().ok_or(NO_TRACE)?);
    match view {
        View::Path => Ok(work.arrange(|now| Arrangement { path_by_length: !now.path_by_length, ..now })),
        View::Operators => {
            let grouping = named(by, &Grouping::ALL.map(|grouping| (grouping.name(), grouping)))?;
            Ok(work.arrange(|now| Arrangement { grouping: grouping.unwrap_or(now.grouping.next()), ..now }))
        }
        View::Advise => {
            work.table = TableState { is_other: !work.table.is_other, ..TableState::default() };
            Ok(Vec::new())
        }
        _ => Err(format!("the rows of {} are not grouped", view.name())),
    }
}

/// The one of that name; `None` when none is named.
pub(super) fn named<T: Copy>(name: &str, known: &[(&'static str, T)]) -> Result<Option<T>, String> {
    let found = known.iter().find(|(known, _)| *known == name).map(|&(_, found)| found);
    let names = || known.iter().map(|&(name, _)| name).collect::<Vec<_>>().join(", ");
    if found.is_none() && !name.is_empty() { Err(format!("no `{name}`: {}", names())) } else { Ok(found) }
}

fn turn_all(app: &mut App, is_open: bool) -> Ran {
    if app.view != View::Operators {
        return Err(format!("the rows of {} lie in no others", app.view.name()));
    }
    let height = app.regions().view.height;
    let work = app.workspace_mut().ok_or(NO_TRACE)?;
    work.turn_all(is_open);
    work.table.move_by(0, work.listing.unfolded.len(), height);
    Ok(Vec::new())
}

/// Keeps the cursor of the table that was open and goes back to where the user was in the one of `view`.
fn change_table(app: &mut App, view: View) {
    let Some(work) = app.workspace_mut().filter(|_| view != View::Timeline) else { return };
    if work.table_of != view {
        let parked = std::mem::replace(&mut work.table, work.parked.remove(view.name()).unwrap_or_default());
        work.parked.insert(work.table_of.name(), parked);
        work.table_of = view;
    }
}

/// Narrows the tables; without a selector asks for one, or shows all again when they are narrow.
fn filter(app: &mut App, text: &str) -> Ran {
    let work = app.workspace_mut().ok_or(NO_TRACE)?;
    if text.is_empty() && work.filter.is_none() {
        app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, "filter ")));
        return Ok(Vec::new());
    }
    work.narrow(text)
}

/// Opens a view.
pub(super) fn show(app: &mut App, view: View) -> Vec<crate::tui::effect::Effect> {
    change_table(app, view);
    app.view = view;
    app.focus = crate::tui::app::Focus::View;
    app.fit_extent();
    app.start_background()
}

fn goal(app: &mut App, share: &str) -> Ran {
    let target = if share.is_empty() { None } else { Some(parse_target(share)?) };
    app.workspace_mut().ok_or("no trace is open yet")?.set_goal(target);
    Ok(show(app, View::Advise))
}

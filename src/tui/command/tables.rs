//! Commands that place embedding tables.

use super::Pane::Tables as OnTables;
use super::{Argument, Command, CommandResult, Kind, run_line};
use crate::tui::app::App;
use crate::tui::table::TableState;
use crate::tui::views::chosen_table;
use crate::tui::workspace::Workspace;
use retime_core::scenario::placements::{moves_of, with_placement, without_plans};
use retime_core::scenario::tables::{Sharder, ShardingType, TablePlacement};
use retime_core::scenario::{Scenario, StepError, parse_step};

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "placement",
        aliases: &["move-table", "seat"],
        argument: Argument::Optional(Kind::Text, "tN:rRANK"),
        help: "put a table on a rank: t3:r1, t3:r0,r1(col), t3:r1(uvm=0.9)",
        keys: &[],
        run: placement,
    },
    Command {
        name: "table-before",
        aliases: &[],
        argument: Argument::None,
        help: "move the chosen table to the rank before",
        keys: &[(OnTables, "<")],
        run: |app, _| re_place(app, |placement, able| shifted(placement, able, able.len() - 1)),
    },
    Command {
        name: "table-after",
        aliases: &[],
        argument: Argument::None,
        help: "move the chosen table to the next rank",
        keys: &[(OnTables, ">")],
        run: |app, _| re_place(app, |placement, able| shifted(placement, able, 1)),
    },
    Command {
        name: "cut-columns",
        aliases: &[],
        argument: Argument::None,
        help: "cut the chosen table by columns over one more rank",
        keys: &[(OnTables, "c")],
        run: |app, _| re_place(app, |placement, able| cut(placement, able, ShardingType::Columns)),
    },
    Command {
        name: "cut-rows",
        aliases: &[],
        argument: Argument::None,
        help: "cut the chosen table by rows over one more rank",
        keys: &[(OnTables, "r")],
        run: |app, _| re_place(app, |placement, able| cut(placement, able, ShardingType::Rows)),
    },
    Command {
        name: "copy-table",
        aliases: &[],
        argument: Argument::None,
        help: "copy the chosen table to all ranks, or keep one copy",
        keys: &[(OnTables, "a")],
        run: |app, _| re_place(app, copied),
    },
    Command {
        name: "whole-table",
        aliases: &[],
        argument: Argument::None,
        help: "keep the chosen table whole, on its first rank",
        keys: &[(OnTables, "w")],
        run: |app, _| re_place(app, |placement, _| whole(placement)),
    },
    Command {
        name: "host-table",
        aliases: &[],
        argument: Argument::None,
        help: "keep the chosen table in host memory, or on the device",
        keys: &[(OnTables, "o")],
        run: |app, _| {
            re_place(app, |placement, _| TablePlacement {
                cached: if placement.cached.is_some() { None } else { Some(0.0) },
                ..placement.clone()
            })
        },
    },
    Command {
        name: "plan",
        aliases: &[],
        argument: Argument::Optional(Kind::Text, "NAME"),
        help: "place all tables as a sharder does, or as traced, or best",
        keys: &[],
        run: plan,
    },
    Command {
        name: "best",
        aliases: &["search-plan"],
        argument: Argument::None,
        help: "search for the placement with the shortest iteration; esc ends",
        keys: &[(OnTables, "B")],
        run: |app, _| app.workspace_mut().ok_or("no trace is open yet")?.start_search(),
    },
    Command {
        name: "plans",
        aliases: &["sharders"],
        argument: Argument::None,
        help: "list the sharders' plans, or the tables",
        keys: &[(OnTables, "v")],
        run: |app, _| {
            let work = app.workspace_mut().ok_or("no trace is open yet")?;
            work.table = TableState { is_other: !work.table.is_other, ..TableState::default() };
            Ok(Vec::new())
        },
    },
];

/// Commands on the chosen table, which are recorded as the `placement` that they lead to.
pub(super) const LEAD_TO_PLACEMENT: [&str; 7] =
    ["table-before", "table-after", "cut-columns", "cut-rows", "copy-table", "whole-table", "host-table"];

/// Puts the chosen table on the placement that `change` makes of its own and of the ranks that look tables up.
fn re_place(app: &mut App, change: impl FnOnce(&TablePlacement, &[usize]) -> TablePlacement) -> CommandResult {
    let work = app.workspace().ok_or("no trace is open yet")?;
    if let Some(why) = work.tables.immovable(work.loaded.graph.ranks.len()) {
        return Err(why.to_owned());
    }
    if work.table.is_other {
        return Err("v lists the tables: choose the one to move there".to_owned());
    }
    let table = chosen_table(work).ok_or("no table is chosen")?;
    let placements = work.placements();
    let placement = placements.get(table).ok_or_else(|| format!("t{table} is on every rank: it does not move"))?;
    let line = format!("placement t{table}:{}", by_numbers(work, &change(placement, &work.tables.able)));
    run_line(app, &line)
}

/// The placement with the ranks' global numbers, as lines have them.
fn by_numbers(work: &Workspace, placement: &TablePlacement) -> TablePlacement {
    let ranks = &work.loaded.graph.ranks;
    let number = |&rank: &usize| ranks.get(rank).map(|part| part.rank.0 as usize);
    TablePlacement { ranks: placement.ranks.iter().filter_map(number).collect(), ..placement.clone() }
}

/// All its ranks `by` further, around the end.
fn shifted(placement: &TablePlacement, able: &[usize], by: usize) -> TablePlacement {
    let place = |rank: &usize| able.iter().position(|one| one == rank).unwrap_or(0);
    let ranks = placement.ranks.iter().map(|rank| able[(place(rank) + by) % able.len()]);
    TablePlacement { ranks: ranks.collect(), ..placement.clone() }
}

/// Cut over one more rank than before; whole again after all of them.
fn cut(placement: &TablePlacement, able: &[usize], cut: ShardingType) -> TablePlacement {
    let before = if placement.cut == cut { placement.clone() } else { whole(placement) };
    let last = before.ranks.last().and_then(|last| able.iter().position(|one| one == last)).unwrap_or(0);
    let around = (1..=able.len()).map(|by| able[(last + by) % able.len()]);
    match around.into_iter().find(|rank| !before.ranks.contains(rank)) {
        Some(next) => {
            let mut ranks = before.ranks;
            ranks.push(next);
            TablePlacement { ranks, cut, cached: placement.cached }
        }
        None => whole(placement),
    }
}

fn copied(placement: &TablePlacement, able: &[usize]) -> TablePlacement {
    match placement.cut {
        ShardingType::Copies => whole(placement),
        _ => TablePlacement { ranks: able.to_vec(), cut: ShardingType::Copies, cached: placement.cached },
    }
}

fn whole(placement: &TablePlacement) -> TablePlacement {
    TablePlacement { ranks: placement.ranks[..1].to_vec(), cut: ShardingType::Whole, cached: placement.cached }
}

/// Puts tables on placements as typed; one after another they are one step.
fn placement(app: &mut App, moves: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or("no trace is open yet")?;
    if let Some(why) = work.tables.immovable(work.loaded.graph.ranks.len()) {
        return Err(why.to_owned());
    }
    let step = parse_step(&format!("reshard-tables {moves}")).map_err(|error| error.message)?;
    let moved = moves_of(&step, &work.loaded.graph.ranks);
    if moved.is_empty() {
        return Err(format!("`{moves}` moves no table to a rank that is loaded: t0:r1 puts table 0 on rank 1"));
    }
    let count = work.tables.tables.sharded().len();
    if let Some((unknown, _)) = moved.iter().find(|(table, _)| *table >= count) {
        return Err(format!("there is no table t{unknown}: t0 to t{} can move", count - 1));
    }
    let mut scenario = Scenario::clone(work.history.current());
    for (table, placement) in moved {
        scenario = with_placement(&scenario, &work.tables.tables, &work.loaded.graph.ranks, table, &placement);
    }
    Ok(in_force(work, scenario))
}

/// Places all tables as a plan has it, in place of every move before.
fn plan(app: &mut App, name: &str) -> CommandResult {
    let work = app.workspace_mut().ok_or("no trace is open yet")?;
    if let Some(why) = work.tables.immovable(work.loaded.graph.ranks.len()) {
        return Err(why.to_owned());
    }
    let line = match (name, work.plans.of(name)) {
        ("traced", _) => String::new(),
        ("best", None) => return Err("no search has ended yet: best starts one".to_owned()),
        ("best", Some(plan)) => plan.step.clone(),
        _ => {
            let names = Sharder::ALL.map(Sharder::name);
            let known = names.iter().map(String::as_str).chain(["traced", "best"]);
            Sharder::parse(name).ok_or_else(|| StepError::unknown(1, "plan", name, known).message)?;
            format!("reshard-tables {name}")
        }
    };
    let mut scenario = without_plans(work.history.current());
    if !line.is_empty() {
        scenario.steps.push(parse_step(&line).map_err(|error| error.message)?);
    }
    Ok(in_force(work, scenario))
}

fn in_force(work: &mut Workspace, scenario: Scenario) -> Vec<crate::tui::effect::Effect> {
    work.last_edit = scenario.steps.last().map(ToString::to_string).or(work.last_edit.take());
    work.step = scenario.steps.len().saturating_sub(1);
    work.history.push(scenario);
    work.evaluate()
}

//! Embedding tables and the ranks they are on: what each rank carries, every table's place, and other placements.

mod plans;

use std::cmp::Reverse;

use ratatui::layout::Rect;

use crate::session::{Pick, RankLoad, SEARCH_BUDGET, ShardingPlan};
use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane, named};
use crate::tui::effect::Effect;
use crate::tui::listing::{Arrangement, TableOrder};
use crate::tui::runner::Finding;
use crate::tui::table::{self, Column, Open, Table, TableRow, TableState, value};
use crate::tui::theme::Role;
use crate::tui::timeline::Item;
use crate::tui::workspace::Workspace;
use retime_core::scenario::tables::{ShardingType, Table as Embedding, TablePlacement};
use retime_core::units::{Bytes, DurNs};

use super::pane;
use super::sweep::{bar, bar_of};
use super::view::{View, show};
use super::why::Why;

pub use plans::Plans;

/// What opens it.
const OPENER: Command = Command {
    name: "tables",
    aliases: &[],
    argument: Argument::None,
    help: "embedding tables, what each rank carries, and other placements",
    keys: &[(Pane::Everywhere, "7")],
    run: |app, _| Ok(show(app, &Tables)),
};

/// The view.
#[derive(Debug)]
pub struct Tables;

impl View for Tables {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn pane(&self) -> Pane {
        Pane::Tables
    }

    fn rows<'a>(&self, work: &'a Workspace, _area: Rect) -> Option<Table<'a>> {
        Some(rows(work))
    }

    fn rows_area(&self, work: &Workspace, area: Rect) -> Rect {
        let parts = Parts::of(work, area.height);
        Rect { y: area.y + parts.ranks, height: parts.list, ..area }
    }

    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        render(work, &rows(work), canvas);
    }

    fn keys(&self, work: &Workspace) -> Vec<(&'static str, String)> {
        let is_fixed = work.loaded.folding.folds() || work.tables.immovable(work.loaded.graph.ranks.len()).is_some();
        let keys = [
            ("< >", "move"),
            ("c r", "columns, rows"),
            ("a", "copies"),
            ("w", "whole"),
            ("o", "host"),
            ("B", "search"),
            ("s", work.arrangement.table_order.next().by()),
            ("v", if work.table.is_other { "tables" } else { "plans" }),
        ];
        keys.into_iter().filter(|_| !is_fixed).map(|(key, what)| (key, what.to_owned())).collect()
    }

    fn sort(&self, work: &mut Workspace, by: &str) -> CommandResult {
        let [number, lookup, size] = TableOrder::ALL.map(|order| (order.name(), order));
        let order = named(by, &[number, lookup, size, (AS_TRACED, TableOrder::LookUp)])?;
        Ok(work.arrange(|now| Arrangement { table_order: order.unwrap_or(now.table_order.next()), ..now }))
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        pane::flow(&chosen(work), canvas);
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        of_table(work, lines);
    }

    fn start(&self, app: &mut App) -> Vec<Effect> {
        app.workspace_mut().map_or_else(Vec::new, Workspace::start_plans)
    }

    fn take(&self, work: &mut Workspace, revision: u64, finding: &Finding) -> Option<String> {
        match finding {
            Finding::Plan(plan) => return work.take_plan(revision, ShardingPlan::clone(plan)),
            Finding::Searched(tried) => work.take_progress(revision, *tried),
            _ => {}
        }
        None
    }
}

/// Up to here every rank has a cell of its own in the row of a table.
const MOST_CELLS: usize = 16;
/// Lines of the list of plans: titles, traced, six sharders, best.
const PLANS: u16 = 9;
/// From this height on plans stand below the tables.
const TALL: u16 = 26;

/// How the lines of the view are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    /// Bars of the ranks, with their titles.
    ranks: u16,
    /// The list that the cursor is in, with summary and titles.
    list: u16,
    /// Plans below the tables.
    plans: u16,
}

impl Parts {
    /// Divides `height` lines.
    fn of(work: &Workspace, height: u16) -> Self {
        let ranks = if work.tables.tables.sharded().is_empty() { 0 } else { work.loaded.graph.ranks.len() as u16 };
        let ranks = if ranks > 0 { 1 + ranks.min((height / 3).saturating_sub(1).max(2)) } else { 0 };
        let has_plans = work.plans.on_top_of.is_some() && !work.table.is_other && height >= TALL;
        let plans = if has_plans { PLANS + 1 } else { 0 };
        Self { ranks, list: height.saturating_sub(ranks + plans), plans }
    }
}

/// Draws the view around its table.
fn render(work: &Workspace, table: &Table<'_>, canvas: &mut Canvas<'_>) {
    let parts = Parts::of(work, canvas.height());
    let width = canvas.width();
    table::render(table, &work.table, &mut canvas.part(0, parts.ranks, width, parts.list));
    ranks(work, &mut canvas.part(0, 0, width, parts.ranks));
    let mut below = canvas.part(0, parts.ranks + parts.list, width, parts.plans);
    if parts.plans > 0 {
        below.rule(0, "placements side by side");
        let state = TableState { cursor: usize::MAX, ..TableState::default() };
        table::render_rows(&plans(work), &state, &mut below.part(0, 1, width, parts.plans - 1), 0);
    }
}

/// Bars of each rank's look-ups, weights and rows to exchange; where there is no room for all, of those that the chosen table
/// is on and was traced on, and of those with most look-ups.
fn ranks(work: &Workspace, canvas: &mut Canvas<'_>) {
    let room = canvas.height().saturating_sub(1) as usize;
    if room == 0 {
        return;
    }
    let mut loads = work.tables.loads(&work.outcome.resolved);
    let (all, its) = (loads.len(), ranks_of_chosen(work));
    if all > room {
        loads.sort_by_key(|load| (!its.contains(&load.rank), Reverse(load.lookup), load.rank));
        loads.truncate(room);
        loads.sort_by_key(|load| (Reverse(load.lookup), load.rank));
    }
    let group = (canvas.width().saturating_sub(RANK) / 3).max(14);
    let titles = ["look-ups", "weights", "rows sent"];
    for (at, title) in titles.iter().enumerate() {
        canvas.text(RANK + at as u16 * group, 0, title, Role::Dim);
    }
    let of_all = if all > room { format!("{room}/{all}") } else { "ranks".to_owned() };
    canvas.text(1, 0, &of_all, Role::Dim);
    for (y, load) in loads.iter().enumerate() {
        if its.contains(&load.rank) {
            canvas.text(RANK - 2, y as u16 + 1, "◂", Role::Accent);
        }
        let count = work.loaded.graph.count_of(retime_core::graph::Rank(load.rank));
        let label = if count > 1 { format!("r{}×{count}", load.rank) } else { format!("r{}", load.rank) };
        rank(load, (&label, &loads), group, &mut canvas.part(0, y as u16 + 1, u16::MAX, 1), work.is_stale());
    }
}

/// The numbers of the ranks that the chosen table is to be on, and of the one it was traced on, where there is one.
fn ranks_of_chosen(work: &Workspace) -> Vec<u32> {
    let Some(table) = chosen_table(work) else { return Vec::new() };
    let wanted = work.placements().into_iter().nth(table).map_or(Vec::new(), |placement| placement.ranks);
    let traced = work.tables.tables.tables.get(table).map(|table| table.rank);
    let ranks = wanted.into_iter().chain(traced);
    ranks.filter_map(|rank| Some(work.loaded.graph.ranks.get(rank)?.rank.0)).collect()
}

/// Columns of a rank's name.
const RANK: u16 = 8;
/// Columns of a figure behind its bar.
const FIGURE: u16 = 11;

fn rank(load: &RankLoad, (label, all): (&str, &[RankLoad]), group: u16, canvas: &mut Canvas<'_>, is_stale: bool) {
    let most = |of: fn(&RankLoad) -> f64| all.iter().map(of).fold(1.0, f64::max);
    let lookup = |load: &RankLoad| load.lookup.0 as f64;
    let sent = |load: &RankLoad| load.sent.map_or(0.0, |sent| sent.0 as f64);
    let held = |load: &RankLoad| load.held.map_or(0.0, |held| held.0 as f64);
    let memory = if load.memory.0 > 0 { load.memory.0 as f64 } else { most(held) };
    let filled = held(load) / memory;
    let known = |bytes: Option<Bytes>| bytes.map_or("–".to_owned(), |bytes| bytes.to_string());
    let is_heaviest = all.len() > 1 && all.iter().all(|other| other.lookup <= load.lookup) && load.lookup.0 > 0;
    let groups = [
        (lookup(load) / most(lookup), load.lookup.to_string(), if is_heaviest { Role::Warn } else { Role::Chart }),
        (filled, known(load.held), if filled > 1.0 { Role::Bad } else { Role::Chart }),
        (sent(load) / most(sent), known(load.sent), Role::Chart),
    ];
    canvas.text(1, 0, label, Role::Text);
    for (at, (share, figure, role)) in groups.into_iter().enumerate() {
        let x = RANK + at as u16 * group;
        let width = group.saturating_sub(FIGURE + 1).clamp(2, 24);
        canvas.text(x, 0, &bar_of(share, width), if is_stale { Role::ChartDim } else { role });
        canvas.text(x + width + 1, 0, &figure, if is_stale { Role::Dim } else { Role::Text });
    }
}

/// The view's list: the tables, or the plans.
fn rows(work: &Workspace) -> Table<'_> {
    if work.table.is_other {
        return plans(work);
    }
    let job = &work.tables;
    let ranks = work.loaded.graph.ranks.len();
    let (wanted, now) = (work.placements(), job.placements(&work.outcome.resolved));
    let order = order(work);
    let longest = job.tables.tables.iter().map(|table| (table.forward + table.backward).0).max().unwrap_or(1).max(1);
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    let cells = if ranks > MOST_CELLS { 0 } else { ranks.max(5) as u16 };
    Table {
        summary: summary(work),
        columns: vec![
            column("table", 5, false, 0),
            column("ranks", cells, false, if cells == 0 { u16::MAX } else { 0 }),
            column("on", 15, false, 0),
            column(if work.is_edited() { AS_TRACED } else { TableOrder::LookUp.name() }, 10, true, 0),
            column("", 18, false, 112),
            column("rows", 9, true, 0),
            column("dim", 5, true, 0),
            column("pooling", 7, true, 70),
            column("size", 9, true, 62),
            column("", 0, false, 92),
        ],
        count: job.tables.tables.len(),
        row: Box::new(move |at| {
            let index = order[at];
            let place = Place { wanted: wanted.get(index), now: now.get(index) };
            row(work, index, &job.tables.tables[index], place, longest)
        }),
    }
}

/// The tables' numbers in the order of the rows.
fn order(work: &Workspace) -> Vec<usize> {
    let tables = &work.tables.tables.tables;
    let mut order: Vec<usize> = (0..tables.len()).collect();
    match work.arrangement.table_order {
        TableOrder::Number => {}
        TableOrder::LookUp => order.sort_by_key(|&at| Reverse(tables[at].forward + tables[at].backward)),
        TableOrder::Size => order.sort_by_key(|&at| Reverse(tables[at].bytes)),
    }
    order
}

/// The number of the table that the cursor is on.
pub fn chosen_table(work: &Workspace) -> Option<usize> {
    order(work).get(work.table.cursor).copied().filter(|_| !work.table.is_other)
}

/// The title of the look-ups once there are edits: what a table takes of its rank's look-ups then is not told apart.
const AS_TRACED: &str = "as traced";

/// Where a table is to be, and where it is; `None` for one on every rank.
#[derive(Clone, Copy)]
struct Place<'a> {
    wanted: Option<&'a TablePlacement>,
    now: Option<&'a TablePlacement>,
}

fn row(work: &Workspace, index: usize, table: &Embedding, place: Place<'_>, longest: i64) -> TableRow {
    let known = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let time = table.forward + table.backward;
    let traced = TablePlacement::whole(table.rank);
    let is_refused = !work.is_stale() && place.wanted != place.now;
    let (note, role) = match place.wanted {
        None => ("every rank has a copy: it does not move".to_owned(), Role::Faint),
        Some(_) if is_refused => ("cannot go there: f2 says why".to_owned(), Role::Bad),
        Some(placement) if *placement != traced => (format!("traced on {}", numbered(work, &traced)), Role::Dim),
        Some(_) if table.is_mean => ("mean of the tables of one operator".to_owned(), Role::Faint),
        Some(_) => (String::new(), Role::Faint),
    };
    let on = place.wanted.map_or("every rank".to_owned(), |placement| numbered(work, placement).to_string());
    let on_role = match place.wanted {
        Some(_) if is_refused => Role::Bad,
        Some(placement) if *placement != traced => Role::Accent,
        _ => Role::Text,
    };
    let lookup = work.tables.first_lookup(table.rank).filter(|_| place.wanted.is_some());
    TableRow {
        values: vec![
            value(format!("t{index}"), Role::Strong),
            value(cells(work.loaded.graph.ranks.len(), place.wanted), on_role),
            value(on, on_role),
            value(time.to_string(), Role::Text),
            value(bar(time.0 as f64 / longest as f64), Role::Chart),
            value(known(table.rows.map(|rows| rows.to_string())), Role::Text),
            value(known(table.dim.map(|dim| dim.to_string())), Role::Text),
            value(known(table.pooling.map(|pooling| format!("{pooling:.1}"))), Role::Text),
            value(known(table.bytes.map(|bytes: Bytes| bytes.to_string())), Role::Text),
            value(note, role),
        ],
        open: lookup.map_or(Open::Nothing, |node| Open::Item(Item::Task(node))),
    }
}

/// A cell per rank: `■` whole, `c` columns, `r` rows, `a` a copy, `o` behind the host's link, `·` nothing.
fn cells(ranks: usize, placement: Option<&TablePlacement>) -> String {
    let sign = |placement: &TablePlacement| match placement.cut {
        _ if placement.cached.is_some() => 'o',
        ShardingType::Whole => '■',
        ShardingType::Columns => 'c',
        ShardingType::Rows => 'r',
        ShardingType::Copies => 'a',
    };
    let cell = |rank: usize| match placement {
        None => 'a',
        Some(placement) if placement.ranks.contains(&rank) => sign(placement),
        Some(_) => '·',
    };
    (0..ranks).map(cell).collect()
}

/// The placement with the ranks' global numbers.
fn numbered(work: &Workspace, placement: &TablePlacement) -> TablePlacement {
    let ranks = &work.loaded.graph.ranks;
    let number = |&rank: &usize| ranks.get(rank).map_or(rank, |part| part.rank.0 as usize);
    TablePlacement { ranks: placement.ranks.iter().map(number).collect(), ..placement.clone() }
}

fn summary(work: &Workspace) -> Vec<(String, Role)> {
    let (job, ranks) = (&work.tables, work.loaded.graph.ranks.len());
    if let Some(why) = job.immovable(ranks) {
        return vec![(why.to_owned(), Role::Warn)];
    }
    let times = job.lookup_times(&work.outcome.resolved);
    let (most, all) = (times.iter().max().copied().unwrap_or_default(), times.iter().copied().sum::<DurNs>());
    let mean = all.0 as f64 / job.able.len().max(1) as f64;
    let mut pieces = vec![(format!("{} tables on {ranks} ranks", job.tables.sharded().len()), Role::Text)];
    if mean > 0.0 {
        pieces.push((" · heaviest rank ".to_owned(), Role::Dim));
        pieces.push((format!("×{:.2}", most.0 as f64 / mean), Role::Strong));
        pieces.push((" of the mean".to_owned(), Role::Dim));
    }
    pieces.extend(progress(work));
    pieces
}

/// How far the search has come, where one runs.
fn progress(work: &Workspace) -> Vec<(String, Role)> {
    let Some(tried) = work.plans.searching else { return Vec::new() };
    vec![
        (" · searching ".to_owned(), Role::Warn),
        (bar_of(tried as f64 / SEARCH_BUDGET as f64, 8), Role::Chart),
        (format!(" {tried} of {SEARCH_BUDGET}, "), Role::Warn),
        ("esc".to_owned(), Role::Key),
        (" ends".to_owned(), Role::Dim),
    ]
}

/// The placements side by side.
fn plans(work: &Workspace) -> Table<'_> {
    let plans = &work.plans;
    let expected = 1 + retime_core::scenario::tables::Sharder::ALL.len();
    let missing = plans.on_top_of.is_some() && plans.known.len() < expected;
    let mut summary = match work.tables.immovable(work.loaded.graph.ranks.len()) {
        Some(why) => vec![(why.to_owned(), Role::Warn)],
        None if missing => vec![(format!("{} of {expected} placements", plans.known.len()), Role::Warn)],
        None => vec![
            ("A".to_owned(), Role::Key),
            (" puts one in force · a good choice: the fastest, or within 10 % of it".to_owned(), Role::Dim),
        ],
    };
    summary.extend(progress(work));
    let longest = plans.known.iter().filter_map(|plan| plan.steady_ns).max().unwrap_or(DurNs(1));
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary,
        columns: vec![
            column("placement", 18, false, 0),
            column("iteration", 11, true, 0),
            column("", 18, false, 84),
            column("choice", 17, false, 0),
            column("most look-ups", 13, true, 0),
            column("", 0, false, 70),
        ],
        count: plans.known.len(),
        row: Box::new(move |index| plan_row(&plans.known[index], longest)),
    }
}

fn plan_row(plan: &ShardingPlan, longest: DurNs) -> TableRow {
    let shown = |time: Option<DurNs>| time.map_or("–".to_owned(), |time| time.to_string());
    let role = match plan.pick {
        Some(Pick::Fastest) => Role::Good,
        Some(Pick::Equal | Pick::Near) => Role::Text,
        Some(Pick::Slower) | None => Role::Dim,
    };
    let share = plan.steady_ns.map_or(0.0, |time| time.0 as f64 / longest.0.max(1) as f64);
    let note = match (plan.pick, plan.unhandled.first()) {
        (None, Some(why)) => why.clone(),
        _ if plan.step.is_empty() => "nothing moves".to_owned(),
        _ if plan.step.split(' ').count() == 2 => "1 table moves".to_owned(),
        _ => format!("{} tables move", plan.step.split(' ').count() - 1),
    };
    TableRow {
        values: vec![
            value(plan.sharder.as_str(), Role::Strong),
            value(shown(plan.steady_ns), role),
            value(bar(share), Role::Chart),
            value(plan.pick.map_or("not possible", Pick::words), role),
            value(shown(plan.max_rank_ns), Role::Text),
            value(note, Role::Dim),
        ],
        open: Open::Line(format!("plan {}", plan.sharder)),
    }
}

/// What the last move did, or why none can be made.
fn chosen(work: &Workspace) -> Vec<(String, Role)> {
    if work.loaded.folding.folds() {
        let all = format!(" simulates each of the {} ranks, so that tables can move", work.loaded.graph.rank_count());
        return vec![(":all-ranks".to_owned(), Role::Key), (all, Role::Dim)];
    }
    if work.tables.immovable(work.loaded.graph.ranks.len()).is_some() {
        return vec![("a job of several ranks with tables on single ranks shows them here".to_owned(), Role::Dim)];
    }
    let moved = last_move(work);
    if moved.is_empty() { of_chosen(work) } else { moved }
}

/// How long the look-ups of the chosen table take.
fn of_chosen(work: &Workspace) -> Vec<(String, Role)> {
    let Some((number, table)) = chosen_table(work).and_then(|at| Some((at, work.tables.tables.tables.get(at)?))) else {
        return Vec::new();
    };
    let time = format!("t{number}: {} forward, {} backward and update, as traced", table.forward, table.backward);
    let mut pieces = vec![(time, Role::Text)];
    if table.is_mean {
        pieces.push((format!(" · {MEAN}"), Role::Faint));
    }
    pieces
}

/// What the last step that moved tables reports.
fn last_move(work: &Workspace) -> Vec<(String, Role)> {
    let steps = work.outcome.scenario.steps.iter().zip(&work.outcome.steps).rev();
    let Some((_, step)) = steps.into_iter().find(|(edit, step)| step.enabled && edit.name() == "reshard-tables") else {
        return Vec::new();
    };
    let mut pieces = vec![(step.summary.clone(), Role::Text)];
    pieces.extend(step.unhandled.iter().take(2).map(|what| (format!(" · {what}"), Role::Warn)));
    pieces
}

/// Why tables of one rank have the same figures.
const MEAN: &str = "one operator serves several tables: of each only the mean is known, or what tables.toml tells";

fn of_table(work: &Workspace, lines: &mut Why) {
    let Some((number, table)) = chosen_table(work).and_then(|at| Some((at, work.tables.tables.tables.get(at)?))) else {
        return;
    };
    lines.push(("", format!("table t{number}"), Role::Title));
    let time = format!("{} forward, {} backward and update, as traced", table.forward, table.backward);
    lines.push(("look-up", time, Role::Text));
    if table.is_mean {
        lines.basis(MEAN.to_owned(), Role::Warn);
    }
    let moved =
        "a rank's look-ups × what the model says of its tables after ÷ before; rows sent by their element count";
    lines.push(("when moved", moved.to_owned(), Role::Text));
}

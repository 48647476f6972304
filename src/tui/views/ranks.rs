//! Ranks and their collectives: who waits for whom, why, and how much of the communication other work hides.

mod each;

use ratatui::layout::Rect;

use crate::session::{CollectiveReport, Communication, LateReason, RankReport};
use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane};
use crate::tui::table::{self, Column, Open, Table, TableRow, TableState, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, short_name};
use crate::tui::workspace::Workspace;
use retime_core::units::DurNs;

use each::RankOrder;

use super::pane;
use super::sweep::bar;
use super::view::{View, show};
use super::why::{Why, of_item};

/// What opens it.
const OPENER: Command = Command {
    name: "ranks",
    aliases: &["stragglers"],
    argument: Argument::None,
    help: "ranks and collectives: who comes last, why, what it costs",
    keys: &[(Pane::Everywhere, "R")],
    run: |app, _| Ok(show(app, &Ranks)),
};

/// What the words in the table mean.
const LATE: &str =
    "late by: after the one before it; costs: what doing as the median rank takes off the iteration, ! from 2 %";

/// The view.
#[derive(Debug)]
pub struct Ranks;

impl View for Ranks {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn is_listed(&self, work: &Workspace) -> bool {
        work.loaded.graph.rank_count() > 1
    }

    fn rows<'a>(&self, work: &'a Workspace, _area: Rect) -> Option<Table<'a>> {
        Some(if work.table.is_other { each::rows(work) } else { rows(work) })
    }

    fn rows_area(&self, work: &Workspace, area: Rect) -> Rect {
        if work.table.is_other {
            return area;
        }
        let parts = Parts::of(work, area.height);
        Rect { y: area.y + parts.ranks, height: parts.list, ..area }
    }

    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        if work.table.is_other {
            return table::render(&each::rows(work), &work.table, canvas);
        }
        render(work, &rows(work), canvas);
    }

    fn keys(&self, work: &Workspace) -> Vec<(&'static str, String)> {
        let mut keys = vec![("enter", "on the timeline".to_owned())];
        keys.push(("v", if work.table.is_other { "collectives" } else { "each rank" }.to_owned()));
        if work.table.is_other {
            keys.push(("s", RankOrder::next_of(work).to_owned()));
        }
        keys
    }

    fn sort(&self, work: &mut Workspace, by: &str) -> CommandResult {
        if !work.table.is_other {
            return Err("collectives stand costliest first; v lists the ranks, which can be sorted".to_owned());
        }
        RankOrder::choose(work, by)
    }

    /// The collectives below the ranks that cost most, or each rank.
    fn group(&self, work: &mut Workspace, _by: &str) -> CommandResult {
        work.table = TableState { is_other: !work.table.is_other, ..TableState::default() };
        Ok(Vec::new())
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        let pieces = if work.table.is_other { each::chosen(work) } else { arrivals(work) };
        let top = pane::flow(&pieces, canvas);
        let (width, room) = (canvas.width(), canvas.height().saturating_sub(top));
        pane::flowing(LATE, Role::Faint, &mut canvas.part(0, top, width, room));
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        of_collective(work, lines);
    }
}

/// How the lines of the view are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    /// The ranks, with their titles.
    ranks: u16,
    /// The collectives, with summary and titles.
    list: u16,
}

/// Lines above the collectives: their summary and titles.
const LIST_HEAD: u16 = 2;

impl Parts {
    /// Divides `height` lines: half for the ranks, and what the collectives leave.
    fn of(work: &Workspace, height: u16) -> Self {
        let found = &work.view_model.communication;
        let listed = u16::try_from(found.collectives.len()).unwrap_or(u16::MAX).saturating_add(LIST_HEAD);
        let room = (height / 2).max(height.saturating_sub(listed)).saturating_sub(1).max(2);
        let ranks = 1 + u16::try_from(found.ranks.len()).unwrap_or(u16::MAX).min(room);
        Self { ranks, list: height.saturating_sub(ranks) }
    }
}

/// Draws the view around its table.
fn render(work: &Workspace, table: &Table<'_>, canvas: &mut Canvas<'_>) {
    let parts = Parts::of(work, canvas.height());
    let width = canvas.width();
    ranks(work, &mut canvas.part(0, 0, width, parts.ranks));
    table::render(table, &work.table, &mut canvas.part(0, parts.ranks, width, parts.list));
}

/// Columns of a rank's name, of its bar, and of a figure.
const NAME: u16 = 9;
const BAR: u16 = 24;
const FIGURE: u16 = 11;

/// A line per rank; where there is no room for all, those that cost others most, then those that wait most.
fn ranks(work: &Workspace, canvas: &mut Canvas<'_>) {
    let found = &work.view_model.communication;
    let (all, room) = (&found.ranks, canvas.height().saturating_sub(1) as usize);
    let order = if all.len() > room { RankOrder::Costs } else { RankOrder::Rank };
    let shown = order.sorted(found).into_iter().take(room);
    let of_all = if all.len() > room { format!("{room} of {}", all.len()) } else { "ranks".to_owned() };
    canvas.text(1, 0, &of_all, Role::Dim);
    let columns = Columns::of(canvas.width());
    if columns.bar > 0 {
        let legend = [("█ own ", Role::ChartDim), ("▓ exposed ", Role::Chart), ("░ waits", Role::Warn)];
        canvas.line(NAME, 0, &legend);
    }
    for (at, title) in columns.titles().enumerate() {
        canvas.part(columns.figure(at), 0, FIGURE - 1, 1).right(0, 0, 0, &[(title, Role::Dim)]);
    }
    canvas.text(columns.last(), 0, "comes last · costs · because of", Role::Dim);
    let longest = all.iter().map(|rank| rank.simulated_ns.0).max().unwrap_or(1).max(1);
    let count = work.view_model.communication.collectives.len();
    for (y, rank) in shown.enumerate() {
        line(rank, (longest, count), columns, &mut canvas.part(0, y as u16 + 1, u16::MAX, 1));
    }
}

/// What there is room for.
#[derive(Clone, Copy)]
struct Columns {
    bar: u16,
    figures: usize,
}

impl Columns {
    const TITLES: [&'static str; 4] = ["waits", "exposed", "overlapped", "iteration"];

    fn of(width: u16) -> Self {
        let (bar, figures) = match width {
            0..=89 => (0, 2),
            90..=119 => (BAR, 2),
            _ => (BAR, 4),
        };
        Self { bar, figures }
    }

    fn titles(self) -> impl Iterator<Item = &'static str> {
        Self::TITLES.into_iter().take(self.figures)
    }

    fn figure(self, at: usize) -> u16 {
        NAME + self.bar + u16::from(self.bar > 0) + at as u16 * FIGURE
    }

    fn last(self) -> u16 {
        self.figure(self.figures) + 1
    }
}

fn line(rank: &RankReport, (longest, count): (i64, usize), columns: Columns, canvas: &mut Canvas<'_>) {
    let is_late = rank.is_late();
    canvas.text(1, 0, &name(rank.rank, rank.count), if is_late { Role::Warn } else { Role::Text });
    if is_late {
        canvas.text(0, 0, "!", Role::Warn);
    }
    let cells = |time: DurNs| (time.0 as f64 / longest as f64 * f64::from(columns.bar)).round() as usize;
    let (exposed, waits) = (cells(rank.exposed_ns), cells(rank.wait_ns));
    let own = cells(rank.simulated_ns).saturating_sub(exposed + waits);
    let pieces = [("█", own, Role::ChartDim), ("▓", exposed, Role::Chart), ("░", waits, Role::Warn)];
    let mut x = NAME;
    for (sign, cells, role) in pieces {
        x = canvas.text(x, 0, &sign.repeat(cells), role);
    }
    let figures = [rank.wait_ns, rank.exposed_ns, rank.overlapped_ns, rank.simulated_ns];
    for (at, figure) in figures.into_iter().take(columns.figures).enumerate() {
        canvas.part(columns.figure(at), 0, FIGURE - 1, 1).right(0, 0, 0, &[(&figure.to_string(), Role::Text)]);
    }
    let x = columns.last();
    if rank.comes_last == 0 {
        canvas.text(x, 0, "never", Role::Faint);
        return;
    }
    let x = canvas.text(x, 0, &format!("{} of {count}", rank.comes_last), Role::Text);
    let role = if is_late { Role::Warn } else { Role::Text };
    let x = canvas.text(x, 0, &format!(" · {}", rank.costs_ns), role);
    if let Some(why) = &rank.why {
        canvas.text(x, 0, &format!(" · {}", because(why)), Role::Dim);
    }
}

/// `r3`, or `r3×16` of a rank that stands for others.
fn name(rank: u32, count: u32) -> String {
    if count > 1 { format!("r{rank}×{count}") } else { format!("r{rank}") }
}

fn because(why: &LateReason) -> String {
    let name = short_name(&why.name);
    format!("{} more: {} {name}", why.more_ns, super::path::explained(why.kind)).trim_end().to_owned()
}

/// The collectives, the costliest first.
fn rows(work: &Workspace) -> Table<'_> {
    let found = &work.view_model.communication;
    let order = found.costliest();
    let cost = |one: &CollectiveReport| (one.waited_ns.0 + one.exposed_ns.0 * i64::from(one.ranks)) as f64;
    let most = found.collectives.iter().map(cost).fold(1.0, f64::max);
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary: summary(found),
        columns: vec![
            column("collective", 14, false, 0),
            column("bytes", 10, true, 72),
            column("", 18, false, 132),
            column("at", 10, true, 110),
            column("last", 8, false, 0),
            column("late by", 10, true, 0),
            column("all wait", 10, true, 0),
            column("transfer", 10, true, 0),
            column("exposed", 10, true, 84),
            column("because of", 0, false, 96),
        ],
        count: order.len(),
        row: Box::new(move |index| row(&found.collectives[order[index]], cost, most)),
    }
}

fn row(one: &CollectiveReport, cost: impl Fn(&CollectiveReport) -> f64, most: f64) -> TableRow {
    let last = one.arrivals.last();
    let waits = if one.waited_ns.0 > one.transfer_ns.0 { Role::Warn } else { Role::Text };
    TableRow {
        values: vec![
            value(one.kind.as_str(), Role::Strong),
            value(one.bytes.map_or("–".to_owned(), |bytes| bytes.to_string()), Role::Text),
            value(bar(cost(one) / most), Role::Chart),
            value(one.start_ns.to_string(), Role::Dim),
            value(
                one.last_rank.map_or("–".to_owned(), |rank| name(rank, last.map_or(1, |last| last.count))),
                Role::Text,
            ),
            value(one.late_ns.to_string(), Role::Text),
            value(one.waited_ns.to_string(), waits),
            value(one.transfer_ns.to_string(), Role::Text),
            value(one.exposed_ns.to_string(), Role::Text),
            value(one.why.as_ref().map_or_else(String::new, because), Role::Dim),
        ],
        open: last.map_or(Open::Nothing, |last| Open::Item(Item::Task(last.node))),
    }
}

fn summary(found: &Communication) -> Vec<(String, Role)> {
    if found.collectives.is_empty() {
        return vec![("no collective in this iteration".to_owned(), Role::Warn)];
    }
    let (waits, exposed, overlapped) = found.means();
    let mut pieces = vec![(format!("{} collectives", found.collectives.len()), Role::Text)];
    for (label, time) in [(" · a rank waits ", waits), (", exposed ", exposed), (", overlapped ", overlapped)] {
        pieces.push((label.to_owned(), Role::Dim));
        pieces.push((time.to_string(), Role::Strong));
    }
    let late = found.ranks.iter().max_by_key(|rank| rank.costs_ns).filter(|rank| rank.costs_ns.0 > 0);
    if let Some(late) = late {
        pieces.push((" · latest ".to_owned(), Role::Dim));
        pieces.push((name(late.rank, late.count), Role::Warn));
        pieces.push((format!(", {}", remedy(late)), Role::Dim));
    }
    pieces
}

/// What takes the lateness of a rank away, and what that saves.
fn remedy(rank: &RankReport) -> String {
    format!("straggler remove {} saves {}", rank.rank, rank.costs_ns)
}

/// When each rank came to the chosen collective, and why the last was last.
fn arrivals(work: &Workspace) -> Vec<(String, Role)> {
    let Some(one) = chosen(work) else { return Vec::new() };
    let group = if one.group.is_empty() { String::new() } else { format!(", group {}", one.group) };
    let ranks = if one.ranks == 1 { "rank" } else { "ranks" };
    let mut pieces = vec![(format!("{} of {} {ranks}{group} ", one.kind, one.ranks), Role::Strong)];
    if one.missing > 0 {
        let text = format!("· {} more not loaded: waiting for them is in the transfer ", one.missing);
        pieces.push((text, Role::Warn));
    }
    let first = one.arrivals.first().map_or(DurNs::ZERO, |first| first.at_ns);
    for (place, arrival) in one.arrivals.iter().enumerate() {
        let late = arrival.at_ns - first;
        let text = if place == 0 {
            format!("· {} first ", name(arrival.rank, arrival.count))
        } else {
            format!("· {} +{late} ", name(arrival.rank, arrival.count))
        };
        let is_last = Some(arrival.rank) == one.last_rank;
        pieces.push((text, if is_last { Role::Warn } else { Role::Text }));
    }
    if let Some(why) = &one.why {
        pieces.push((format!("· because of {} ", because(why)), Role::Dim));
    }
    pieces.push((format!("· transfer {}, {} of it overlapped", one.transfer_ns, one.overlapped_ns), Role::Dim));
    pieces
}

/// The chosen collective.
fn chosen(work: &Workspace) -> Option<&CollectiveReport> {
    let found = Some(&work.view_model.communication).filter(|_| !work.table.is_other)?;
    found.collectives.get(*found.costliest().get(work.table.cursor)?)
}

/// The chosen collective: where its arrivals, waits and transfers come from.
fn of_collective(work: &Workspace, lines: &mut Why) {
    let Some(one) = chosen(work) else { return };
    lines.push(("", one.kind.clone(), Role::Title));
    let arrival = "a rank is there when its stream and its launch let the collective's kernel start";
    lines.push(("arrival", arrival.to_owned(), Role::Text));
    lines.push(("waiting", "from its arrival to the last rank's".to_owned(), Role::Text));
    lines.push((
        "transfer",
        "from the last arrival to when the rank left; measured unless an edit re-costs it".to_owned(),
        Role::Text,
    ));
    let why = "what lies on the last rank's way from the iteration's start and not on that of the one before it";
    lines.push(("because of", why.to_owned(), Role::Text));
    if let Some(last) = one.arrivals.last() {
        of_item(work, Item::Task(last.node), lines);
    }
}

//! Device memory over the iteration by what it holds, before and after, and what the peak consists of.

mod chart;

use ratatui::layout::Rect;

use crate::session::{HeldGroup, MemoryChange, MemoryOverTime};
use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane};
use crate::tui::table::{self, Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Detail, Item, short_name};
use crate::tui::workspace::Workspace;
use retime_core::memory::Holds;
use retime_core::units::{Bytes, DurNs, Percent};

use super::pane;
use super::sweep::bar;
use super::view::{View, show};
use super::why::{Line, Why};

/// What opens it.
const OPENER: Command = Command {
    name: "memory",
    aliases: &["mem"],
    argument: Argument::None,
    help: "device memory over the iteration, and what the peak consists of",
    keys: &[(Pane::Everywhere, "F")],
    run: |app, _| Ok(show(app, &Memory)),
};

/// The view.
#[derive(Debug)]
pub struct Memory;

impl View for Memory {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn brief(&self) -> &'static str {
        "mem"
    }

    fn rows<'a>(&self, work: &'a Workspace, _area: Rect) -> Option<Table<'a>> {
        Some(rows(work))
    }

    fn rows_area(&self, work: &Workspace, area: Rect) -> Rect {
        let table = parts(work, area).1;
        Rect { y: table.y - 1, height: table.height + 1, ..table }
    }

    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        let table = rows(work);
        canvas.line(1, 0, table::fitting(&table.summary, canvas.width().saturating_sub(2) as usize));
        let (chart, list) = parts(work, canvas.area());
        if chart.height > 0 {
            chart::render(work, &mut canvas.part(chart.x, chart.y, chart.width, chart.height));
        }
        let mut lower = canvas.part(list.x, list.y, list.width, list.height);
        table::render_rows(&table, &work.table, &mut lower, 0);
    }

    fn title(&self, work: &Workspace) -> Option<String> {
        chosen(work).map(|group| format!("{} · {}", short_name(&group.label), group.holds.name()))
    }

    fn keys(&self, _work: &Workspace) -> Vec<(&'static str, String)> {
        vec![("enter", "shows the operator on the timeline".to_owned())]
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        pane::labelled(&details(work), canvas);
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        if let Some(title) = self.title(work) {
            lines.push(("", title, Role::Title));
        }
        lines.extend(details(work).into_iter().map(|detail| (detail.label, detail.value, Role::Text)));
        let besides = work.outcome.summary.memory.as_ref().and_then(|it| it.besides.described());
        lines.extend(besides.map(|text| ("", text, Role::Text)));
        lines.extend(work.view_model.memory.after.iter().flat_map(|it| &it.unknown).map(|line| unknown(line)));
    }

    fn open_row(&self, app: &mut App) -> CommandResult {
        app.show_row()
    }
}

fn unknown(line: &str) -> Line {
    ("not in it", line.to_owned(), Role::Warn)
}

/// The parts of a view at `area`, below its summary: the chart, where it is readable, and the table.
fn parts(work: &Workspace, area: Rect) -> (Rect, Rect) {
    const LEAST: u16 = 14;
    let below = area.height.saturating_sub(1);
    let rows = u16::try_from(work.view_model.memory.groups.len()).unwrap_or(u16::MAX).saturating_add(1);
    let is_drawn = area.height >= LEAST && work.view_model.memory.after.is_some();
    let list = if is_drawn { rows.clamp(4, below * 2 / 5) } else { below };
    let chart = Rect { y: area.y + 1, height: below - list, ..area };
    (chart, Rect { y: chart.y + chart.height, height: list, ..area })
}

fn rows(work: &Workspace) -> Table<'_> {
    let compared = if work.is_edited() { 0 } else { u16::MAX };
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    let memory = &work.view_model.memory;
    Table {
        summary: summary(work),
        columns: vec![
            column("at the peak", 0, false, 0),
            column("holds", 12, false, 0),
            column("before", 10, true, compared),
            column(if work.is_edited() { "after" } else { "bytes" }, 10, true, 0),
            column("Δ", 11, true, compared),
            column("share", 7, true, 0),
            column("", 18, false, 110),
            column("pieces", 7, true, 90),
        ],
        count: memory.groups.len(),
        row: Box::new(move |at| row(memory, &memory.groups[at])),
    }
}

fn row(memory: &MemoryChange, group: &HeldGroup) -> TableRow {
    let all = memory.after.as_ref().map_or(0, |after| after.peak.bytes.0);
    let share = group.after.0 as f64 / all.max(1) as f64;
    TableRow {
        values: vec![
            table::name(short_name(&group.label), Role::Text),
            value(group.holds.name(), Role::Dim),
            value(group.before.to_string(), Role::Measured),
            value(group.after.to_string(), Role::Text),
            change(group.before, group.after),
            value(Percent(share).to_string(), Role::Text),
            value(bar(share), Role::Chart),
            value(group.count.to_string(), Role::Dim),
        ],
        open: group.operator.map_or(Open::Nothing, |operator| Open::Item(Item::Operator(operator))),
    }
}

/// What edits changed: less is better.
fn change(before: Bytes, after: Bytes) -> table::Value {
    let by = Bytes(before.0.abs_diff(after.0));
    match after.cmp(&before) {
        std::cmp::Ordering::Equal => value("–", Role::Dim),
        std::cmp::Ordering::Less => value(format!("−{by}"), Role::Good),
        std::cmp::Ordering::Greater => value(format!("+{by}"), Role::Bad),
    }
}

/// The peak, when it is, whether it fits, and how it is known.
fn summary(work: &Workspace) -> Vec<(String, Role)> {
    let memory = &work.view_model.memory;
    let Some(after) = &memory.after else {
        let none = "nothing tells of memory: neither the allocator's calls, nor tensors, nor shapes were recorded";
        return vec![(none.to_owned(), Role::Warn)];
    };
    let mut pieces = Vec::new();
    if work.outcome.resolved.graph.rank_count() > 1 {
        pieces.push((format!("fullest rank {} · ", memory.rank), Role::Dim));
    }
    pieces.push(("peak ".to_owned(), Role::Dim));
    if let Some(before) = memory.before.as_ref().filter(|_| work.is_edited()) {
        pieces.push((format!("{} ▶ ", before.peak.bytes), Role::Text));
    }
    let (role, verdict) = match work.outcome.summary.fits {
        Some(false) => (Role::Bad, " ✗ does not fit"),
        None if memory.after.is_some() => (Role::Warn, work.outcome.summary.verdict()),
        _ => (Role::Strong, ""),
    };
    pieces.push((after.peak.bytes.to_string(), role));
    let limit = work.outcome.summary.memory.as_ref().and_then(|it| it.device_bytes);
    match limit {
        Some(limit) => pieces.extend([(format!(" of {limit}"), Role::Text), (verdict.to_owned(), role)]),
        None => pieces.push((", the device's memory is not known".to_owned(), Role::Warn)),
    }
    pieces.push((format!(" · at {}", DurNs(after.peak.at.0)), Role::Text));
    pieces.push((format!(" · from {}", after.source.described()), Role::Dim));
    if !after.unknown.is_empty() {
        pieces.push((format!(" · {} not in it: W", after.unknown.len()), Role::Warn));
    }
    pieces
}

fn chosen(work: &Workspace) -> Option<&HeldGroup> {
    work.view_model.memory.groups.get(work.table.cursor)
}

/// The peak by kind, what a process takes besides, and what the chosen row is.
fn details(work: &Workspace) -> Vec<Detail> {
    let detail = |label, value: String| Detail { label, value };
    let memory = &work.view_model.memory;
    let mut details = Vec::new();
    if let Some(group) = chosen(work) {
        details.push(detail(
            "at the peak",
            format!("{} in {} piece{}", group.after, group.count, if group.count == 1 { "" } else { "s" }),
        ));
    }
    let of = |side: Option<&MemoryOverTime>, at: usize| side.map_or(Bytes(0), |side| side.peak.of[at]);
    let before = memory.before.as_ref().filter(|_| work.is_edited());
    for (at, holds) in Holds::ALL.into_iter().enumerate() {
        let (was, now) = (of(before, at), of(memory.after.as_ref(), at));
        let text = if was == now || before.is_none() { now.to_string() } else { format!("{was} ▶ {now}") };
        if now.0 > 0 || was.0 > 0 {
            details.push(detail(holds.name(), text));
        }
    }
    if let Some(besides) = work.outcome.summary.memory.as_ref().map(|it| it.besides).filter(|it| it.context_bytes.0 > 0)
    {
        let how = if besides.reserve_is_recorded { "as recorded" } else { "assumed" };
        let text = format!("context {}, reserve {} ({how})", besides.context_bytes, besides.reserve_bytes);
        details.push(detail("besides", text));
    }
    let (_, now) = work.iteration_figures();
    details.push(detail("times", format!("of host calls; the device ends at {now}")));
    details
}

//! The critical path: what decides the iteration time, in groups before and after the edits, or as a chain in order of time.

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::command::{Argument, Command, CommandResult, Pane, named};
use crate::tui::listing::{Arrangement, Nesting, PathGroup, PathGrouping, Tree};
use crate::tui::table::{self, Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, kernel_name, signed};
use crate::tui::workspace::Workspace;
use retime_core::analysis::critical_path::{Run, SegmentKind};
use retime_core::graph::{NodeId, TaskKind};
use retime_core::units::{DurNs, Percent};

use super::pane;
use super::sweep::bar;
use super::view::{View, show};
use super::why::{Why, of_item};

pub use retime_core::analysis::critical_path::explained;

/// Groups named in the summary of the chain.
const MOST_NAMED: usize = 4;

/// What opens it.
const OPENER: Command = Command {
    name: "path",
    aliases: &["critical-path"],
    argument: Argument::None,
    help: "the critical path: what decides the iteration time",
    keys: &[(Pane::Everywhere, "2")],
    run: |app, _| Ok(show(app, &Path)),
};

/// The view.
#[derive(Debug)]
pub struct Path;

impl View for Path {
    fn opener(&self) -> &'static Command {
        &OPENER
    }

    fn rows<'a>(&self, work: &'a Workspace, area: Rect) -> Option<Table<'a>> {
        Some(if is_chain(work) { chain(work, area.width) } else { groups(work) })
    }

    fn rows_area(&self, work: &Workspace, area: Rect) -> Rect {
        if is_chain(work) {
            return area;
        }
        Rect { height: table::height_above(work.listing.path.count(), area.height), ..area }
    }

    fn render(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        let area = self.rows_area(work, canvas.area());
        if let Some(table) = self.rows(work, area) {
            table::render(&table, &work.table, &mut canvas.part(0, 0, area.width, area.height));
        }
        if area.height < canvas.height() {
            table::render_below("in order of time", &chain(work, area.width), area.height, canvas);
        }
    }

    fn keys(&self, work: &Workspace) -> Vec<(&'static str, String)> {
        let Arrangement { path, path_by_change, .. } = work.listing.arrangement;
        let next = match path.next() {
            PathGrouping::Order => "in order of time".to_owned(),
            next => format!("by {}", next.name()),
        };
        if path == PathGrouping::Order {
            return vec![("enter", "shows the row on the timeline".to_owned()), ("v", next)];
        }
        let sort = if path_by_change { "longest first" } else { "most changed" };
        vec![
            ("enter", "opens, folds".to_owned()),
            ("o", "on the timeline".to_owned()),
            ("v", next),
            ("s", sort.to_owned()),
        ]
    }

    fn details(&self, _app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
        if let Some((text, role)) = told(work) {
            pane::flowing(&text, role, canvas);
        }
    }

    fn why(&self, work: &Workspace, lines: &mut Why) {
        if let Some(group) = chosen(work) {
            lines.push(("", group.label.clone(), Role::Title));
            lines.extend(told(work).map(|(text, role)| ("", text, role)));
        }
        if let Some(item) = chosen_node(work).and_then(|node| item(work, node)) {
            of_item(work, item, lines);
        }
    }

    fn sort(&self, work: &mut Workspace, by: &str) -> CommandResult {
        let columns = [
            ("Δ", true),
            ("change", true),
            ("longest", false),
            ("share", false),
            ("simulated", false),
            ("measured", false),
            ("predicted", false),
        ];
        let by = named(by, &columns)?;
        Ok(work.arrange(|now| Arrangement { path_by_change: by.unwrap_or(!now.path_by_change), ..now }))
    }

    fn group(&self, work: &mut Workspace, by: &str) -> CommandResult {
        let grouping = named(by, &PathGrouping::ALL.map(|grouping| (grouping.name(), grouping)))?;
        Ok(work.arrange(|now| Arrangement { path: grouping.unwrap_or(now.path.next()), ..now }))
    }
}

/// Whether the rows shown are the path in order of time.
fn is_chain(work: &Workspace) -> bool {
    work.listing.arrangement.path == PathGrouping::Order
}

/// The chosen group; `None` in the chain.
fn chosen(work: &Workspace) -> Option<&PathGroup> {
    work.listing.path.get(work.table.cursor).filter(|_| !is_chain(work))
}

fn chosen_node(work: &Workspace) -> Option<NodeId> {
    if is_chain(work) {
        return work.listing.runs.get(work.table.cursor).map(|run| run.segment.node);
    }
    chosen(work)?.example
}

/// What there is to say about the chosen row.
fn told(work: &Workspace) -> Option<(String, Role)> {
    let Some(group) = chosen(work) else {
        let run = work.listing.runs.get(work.table.cursor)?;
        return Some((name_of(work, run), Role::Dim));
    };
    if let Some(outside) = group.outside {
        return Some((outside.explained().to_owned(), Role::Dim));
    }
    let node = group.example?;
    let graph = work.listing.view_model.graph(&work.loaded);
    let name = Some(graph.names.get(graph.tasks[node].name)).filter(|name| !name.is_empty());
    let name = name.unwrap_or("outside operators");
    let pieces = if group.count == 1 { "piece" } else { "pieces" };
    Some((format!("{} {pieces} of the path; the longest: {name}", group.count), Role::Dim))
}

/// The groups of the path.
fn groups(work: &Workspace) -> Table<'_> {
    let rows = &work.listing.path;
    let outer = || rows.all.iter().filter(|group| group.depth == 0);
    let before: DurNs = outer().map(|group| group.before).sum();
    let after: DurNs = outer().map(|group| group.after).sum();
    let now = |group: &PathGroup| if work.is_edited() { group.after } else { group.before };
    let longest = outer().map(|group| now(group).0).max().unwrap_or(1).max(1);
    let whole = iteration(work);
    Table {
        summary: summary(work, (before, after)),
        columns: columns(work, work.is_edited()),
        count: rows.count(),
        row: Box::new(move |index| group_row(work, index, (whole, longest))),
    }
}

fn columns(work: &Workspace, is_edited: bool) -> Vec<Column> {
    /// Wider than any terminal: a column that is not shown.
    const NEVER: u16 = u16::MAX;
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    let title = match work.listing.arrangement.path {
        PathGrouping::Layer => "layer › family",
        PathGrouping::Cause => "cause › name",
        PathGrouping::Family | PathGrouping::Order => "family › kernel or cause",
    };
    let compared = if is_edited { 0 } else { NEVER };
    vec![
        column(title, 0, false, 0),
        column(work.origin(), 10, true, 0),
        column("simulated", 10, true, compared),
        column("Δ", 10, true, compared),
        column("share", 7, true, 0),
        column("", 18, false, 104),
        column("pieces", 7, true, 84),
        column("average", 10, true, 160),
        column("longest", 10, true, 128),
        column("the longest", 30, false, 128),
    ]
}

fn summary(work: &Workspace, (before, after): (DurNs, DurNs)) -> Vec<(String, Role)> {
    let mut pieces = vec![(before.to_string(), Role::Measured)];
    if work.is_edited() {
        pieces.push((" ▶ ".to_owned(), Role::Dim));
        pieces.push((after.to_string(), Role::Simulated));
    }
    pieces.push((" on the critical path".to_owned(), Role::Dim));
    pieces.extend(super::narrowed(work));
    let order = if work.listing.arrangement.path_by_change { "most changed first" } else { "longest first" };
    pieces.push((format!(" · {order}"), Role::Dim));
    pieces
}

fn group_row(work: &Workspace, index: usize, (total, longest): (DurNs, i64)) -> TableRow {
    let Some(group) = work.listing.path.get(index) else {
        return TableRow { values: Vec::new(), open: Open::Nothing };
    };
    let now = if work.is_edited() { group.after } else { group.before };
    let sign = match work.listing.path.nesting(index) {
        Some(Nesting::Expanded) => "▾ ",
        Some(Nesting::Collapsed) => "▸ ",
        _ => "  ",
    };
    let name_role = if group.depth == 0 { Role::Strong } else { Role::Text };
    TableRow {
        values: vec![
            table::name(format!("{}{sign}{}", "  ".repeat(group.depth), group.label), name_role),
            value(time(group.before), Role::Text),
            value(time(group.after), Role::Text),
            super::change(group.change(), group.before),
            value(percent(now, total), Role::Text),
            value(bar(now.0 as f64 / longest as f64), Role::Chart),
            value(group.count.to_string(), Role::Dim),
            value(group.average().map_or_else(|| "–".to_owned(), time), Role::Text),
            value(time(group.longest), Role::Text),
            table::name(group.example.map_or_else(String::new, |node| caption_of(work, node)), Role::Dim),
        ],
        open: group.example.and_then(|node| item(work, node)).map_or(Open::Nothing, Open::Item),
    }
}

/// What shares are of: the iteration that is shown.
fn iteration(work: &Workspace) -> DurNs {
    let (before, after) = work.iteration_figures();
    if work.is_edited() { after } else { before }
}

/// The path in order of time.
fn chain(work: &Workspace, width: u16) -> Table<'_> {
    let runs: &[Run] = &work.listing.runs;
    let total = runs.iter().map(|run| run.segment.duration).sum::<DurNs>();
    let whole = iteration(work);
    let longest = runs.iter().map(|run| run.segment.duration.0).max().unwrap_or(1).max(1);
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary: chain_summary(work, total, width),
        columns: vec![
            column("at", 10, true, 84),
            column("takes", 10, true, 0),
            column("share", 7, true, 0),
            column("", 18, false, 116),
            column("kind", 26, false, 66),
            column("where", 16, false, 96),
            column("what", 0, false, 0),
        ],
        count: runs.len(),
        row: Box::new(move |index| row(work, &runs[index], whole, longest)),
    }
}

/// The groups that take the most, as many as there is room for.
fn chain_summary(work: &Workspace, total: DurNs, width: u16) -> Vec<(String, Role)> {
    let now = |group: &PathGroup| if work.is_edited() { group.after } else { group.before };
    let mut pieces = vec![(format!("{total} in order of time"), Role::Strong)];
    pieces.extend(super::narrowed(work));
    let room = width.saturating_sub(2) as usize;
    for group in work.listing.path.all.iter().filter(|group| group.depth == 0).take(MOST_NAMED) {
        let piece = format!(" · {} {}", group.label, percent(now(group), iteration(work)));
        if pieces.iter().map(|(text, _)| text.width()).sum::<usize>() + piece.width() <= room {
            pieces.push((piece, Role::Text));
        }
    }
    pieces
}

/// What is done in a piece of the path, as recorded.
fn name_of(work: &Workspace, run: &Run) -> String {
    let graph = work.listing.view_model.graph(&work.loaded);
    let task = &graph.tasks[run.segment.node];
    let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
    let name = match (task.kind, operator) {
        (TaskKind::Host(_) | TaskKind::Runtime, Some(operator)) => graph.names.get(operator.name),
        _ => graph.names.get(run.segment.name),
    };
    if name.is_empty() { "outside operators".to_owned() } else { name.to_owned() }
}

fn row(work: &Workspace, run: &Run, total: DurNs, longest: i64) -> TableRow {
    let segment = run.segment;
    let graph = work.listing.view_model.graph(&work.loaded);
    let times = if run.count > 1 { format!(" ×{}", run.count) } else { String::new() };
    let is_wait = matches!(segment.kind, SegmentKind::Wait(_));
    let is_device = graph.tasks[segment.node].kind.is_device();
    let name = if is_device { caption_of(work, segment.node) } else { kernel_name(&name_of(work, run)).into_owned() };
    TableRow {
        values: vec![
            value(work.scene().simulated_at(segment.start).to_string(), Role::Dim),
            value(segment.duration.to_string(), Role::Text),
            value(percent(segment.duration, total), Role::Text),
            value(bar(segment.duration.0 as f64 / longest as f64), Role::Chart),
            value(explained(segment.kind.name()), if is_device && !is_wait { Role::Text } else { Role::Dim }),
            value(work.scene().lane_label(segment.lane.0 as usize), Role::Dim),
            table::name(format!("{name}{times}"), Role::Text),
        ],
        open: item(work, segment.node).map_or(Open::Nothing, Open::Item),
    }
}

/// What the bar of a task is labelled with.
fn caption_of(work: &Workspace, node: NodeId) -> String {
    work.scene().caption(super::item_of(work, node))
}

/// What the timeline shows of a task of the path: itself, or the operator that it is host time of.
fn item(work: &Workspace, node: NodeId) -> Option<Item> {
    let graph = work.listing.view_model.graph(&work.loaded);
    let task = graph.tasks.node_weight(node)?;
    match task.kind {
        kind if kind.is_device() || kind == TaskKind::Runtime => Some(super::item_of(work, node)),
        _ => task.operator.map(Item::Operator),
    }
}

/// A time; none as a dash.
fn time(time: DurNs) -> String {
    match time.0 {
        0 => "–".to_owned(),
        ns if ns < 0 => signed(time),
        _ => time.to_string(),
    }
}

fn percent(part: DurNs, total: DurNs) -> String {
    Percent::of(part, total).to_string().replace("-0.0", "0.0").replace('-', "−")
}

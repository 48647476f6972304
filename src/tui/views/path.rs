//! The critical path as a chain: what decides the iteration time, in order or by length.

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use crate::tui::command::{Argument, Command, CommandResult, Pane};
use crate::tui::listing::Arrangement;
use crate::tui::table::{self, Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, telling_name};
use crate::tui::workspace::Workspace;
use retime_core::analysis::critical_path::{Run, SegmentKind};
use retime_core::graph::TaskKind;
use retime_core::units::{DurNs, Percent};

use super::sweep::bar;
use super::view::{View, show};
use super::why::{Line, of_item};

pub use retime_core::analysis::critical_path::explained;

/// Kinds named in the summary.
const MOST_KINDS: usize = 4;

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
        Some(rows(work, area.width))
    }

    fn keys(&self, work: &Workspace) -> Vec<(&'static str, String)> {
        let order = if work.listing.arrangement.path_by_length { "in order" } else { "longest first" };
        let keys = [("enter", "shows the row on the timeline"), ("v", order), ("/", "finds")];
        keys.map(|(key, what)| (key, what.to_owned())).to_vec()
    }

    fn why(&self, work: &Workspace, lines: &mut Vec<Line>) {
        if let Some(run) = work.listing.runs.get(work.table.cursor) {
            of_item(work, Item::Task(run.segment.node), lines);
        }
    }

    fn sort(&self, work: &mut Workspace, _by: &str) -> CommandResult {
        Ok(work.arrange(|now| Arrangement { path_by_length: !now.path_by_length, ..now }))
    }

    fn group(&self, work: &mut Workspace, by: &str) -> CommandResult {
        self.sort(work, by)
    }
}

fn rows(work: &Workspace, width: u16) -> Table<'_> {
    let view_model = &work.listing.view_model;
    let runs: &[Run] = &work.listing.runs;
    let total = DurNs(view_model.path.iter().map(|run| run.segment.duration.0).sum::<i64>().max(1));
    let longest = view_model.path_by_length.first().map_or(1, |run| run.segment.duration.0.max(1));
    let room = width.saturating_sub(2) as usize;
    let variants = [(MOST_KINDS, false), (MOST_KINDS, true), (MOST_KINDS - 1, true), (MOST_KINDS - 2, true)];
    let summaries = variants.map(|(most, is_brief)| summary(work, total, most, is_brief));
    let fits = |pieces: &&Vec<(String, Role)>| pieces.iter().map(|(text, _)| text.width()).sum::<usize>() <= room;
    let summary = summaries.iter().find(fits).or(summaries.last()).cloned().unwrap_or_default();
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary,
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
        row: Box::new(move |index| row(work, &runs[index], total, longest)),
    }
}

/// The kinds that take the most, in full or as short as they are told apart.
fn summary(work: &Workspace, total: DurNs, most: usize, is_brief: bool) -> Vec<(String, Role)> {
    let mut pieces = super::narrowed(work);
    for (index, (kind, taken)) in work.listing.view_model.path_kinds.iter().take(most).enumerate() {
        let comma = if index > 0 { " · " } else { "" };
        let words = explained(kind);
        let name = if is_brief { words.replace("host ", "").replace("operator", "op") } else { words.to_owned() };
        pieces.push((format!("{comma}{name} "), Role::Text));
        pieces.push((percent(*taken, total), Role::Strong));
    }
    pieces
}

fn row(work: &Workspace, run: &Run, total: DurNs, longest: i64) -> TableRow {
    let graph = &work.loaded.graph;
    let segment = run.segment;
    let task = &graph.tasks[segment.node];
    let operator = task.operator.and_then(|id| Some((id, graph.operators.get(id.0 as usize)?)));
    let name = match (task.kind, operator) {
        (TaskKind::Host(_) | TaskKind::Runtime, Some((_, operator))) => graph.names.get(operator.name),
        _ => graph.names.get(segment.name),
    };
    let times = if run.count > 1 { format!(" ×{}", run.count) } else { String::new() };
    let name = if name.is_empty() { "outside operators".into() } else { telling_name(name) };
    let origin = graph.ranks.first().map(|part| part.iteration_start).unwrap_or_default();
    let is_wait = matches!(segment.kind, SegmentKind::Wait(_));
    let role = if task.kind.is_device() && !is_wait { Role::Text } else { Role::Dim };
    let item = match (task.kind, operator) {
        (kind, _) if kind.is_device() || kind == TaskKind::Runtime => Some(Item::Task(segment.node)),
        (_, operator) => operator.map(|(id, _)| Item::Operator(id)),
    };
    TableRow {
        values: vec![
            value(segment.start.since(origin).to_string(), Role::Dim),
            value(segment.duration.to_string(), Role::Text),
            value(percent(segment.duration, total), Role::Text),
            value(bar(segment.duration.0 as f64 / longest as f64), Role::Chart),
            value(explained(segment.kind.name()), role),
            value(work.scene().lane_label(segment.lane.0 as usize), Role::Dim),
            table::name(format!("{name}{times}"), Role::Text),
        ],
        open: item.map_or(Open::Nothing, Open::Item),
    }
}

fn percent(part: DurNs, total: DurNs) -> String {
    Percent::of(part, total).to_string()
}

//! The critical path as a chain: what decides the iteration time, in order.

use crate::graph::TaskKind;
use crate::tui::digest::Segment;
use crate::tui::table::{Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, short_name};
use crate::tui::workspace::Workspace;
use crate::units::DurNs;

use super::sweep::bar;

/// Kinds named in the summary.
const MOST_KINDS: usize = 4;

/// The view as a table.
pub fn table(work: &Workspace) -> Table<'_> {
    let digest = &work.digest;
    let total = DurNs(digest.path.iter().map(|segment| segment.taken.0).sum::<i64>().max(1));
    let longest = digest.path.iter().map(|segment| segment.taken.0).max().unwrap_or(1).max(1);
    let mut summary = vec![(format!("{total} in {} segments: ", digest.path.len()), Role::Dim)];
    for (index, (kind, taken)) in digest.path_kinds.iter().take(MOST_KINDS).enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        summary.push((format!("{comma}{kind} "), Role::Text));
        summary.push((percent(*taken, total), Role::Strong));
    }
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary,
        columns: vec![
            column("at", 10, true, 70),
            column("takes", 10, true, 0),
            column("share", 7, true, 0),
            column("", 18, false, 110),
            column("kind", 28, false, 90),
            column("where", 16, false, 60),
            column("what", 0, false, 0),
        ],
        count: digest.path.len(),
        row: Box::new(move |index| row(work, &digest.path[index], total, longest)),
    }
}

fn row(work: &Workspace, segment: &Segment, total: DurNs, longest: i64) -> TableRow {
    let graph = &work.loaded.graph;
    let task = &graph.tasks[segment.node];
    let operator = task.operator.and_then(|id| Some((id, graph.operators.get(id.0 as usize)?)));
    let name = match (task.kind, operator) {
        (kind, Some((_, operator))) if !kind.is_device() => graph.names.get(operator.name),
        _ => graph.names.get(task.name),
    };
    let times = if segment.count > 1 { format!(" ×{}", segment.count) } else { String::new() };
    let name = if name.is_empty() { "outside operators" } else { short_name(name) };
    let origin = graph.ranks.first().map(|part| part.iteration_start).unwrap_or_default();
    let role = if task.kind.is_device() { Role::Text } else { Role::Dim };
    let item = match (task.kind, operator) {
        (kind, _) if kind.is_device() || kind == TaskKind::Runtime => Some(Item::Task(segment.node)),
        (_, operator) => operator.map(|(id, _)| Item::Operator(id)),
    };
    TableRow {
        values: vec![
            value(segment.start.since(origin).to_string(), Role::Dim),
            value(segment.taken.to_string(), Role::Text),
            value(percent(segment.taken, total), Role::Text),
            value(bar(segment.taken.0 as f64 / longest as f64), Role::Chart),
            value(segment.kind, role),
            value(work.scene().lane_label(task.lane.0 as usize), Role::Dim),
            value(format!("{name}{times}"), Role::Text),
        ],
        open: item.map_or(Open::Nothing, Open::Item),
    }
}

fn percent(part: DurNs, total: DurNs) -> String {
    format!("{:.1} %", part.0 as f64 * 100.0 / total.0.max(1) as f64)
}

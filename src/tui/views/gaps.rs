//! Idle intervals of streams, ranked, each with its cause.

use crate::analysis::gaps::Gap;
use crate::tui::table::{Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, short_name};
use crate::tui::workspace::Workspace;
use crate::units::DurNs;

use super::path::explained;
use super::sweep::bar;

/// The view as a table.
pub fn table(work: &Workspace) -> Table<'_> {
    let gaps = &work.digest.gaps;
    let longest = gaps.first().map_or(1, |gap| gap.duration.0.max(1));
    let total: DurNs = gaps.iter().map(|gap| gap.duration).sum();
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary: vec![
            (format!("{} gaps, ", gaps.len()), Role::Dim),
            (total.to_string(), Role::Strong),
            (" in all".to_owned(), Role::Dim),
            (" · those under a thousandth of the iteration are left out".to_owned(), Role::Faint),
        ],
        columns: vec![
            column("idle", 10, true, 0),
            column("", 18, false, 104),
            column("at", 10, true, 64),
            column("stream", 14, false, 0),
            column("cause", 0, false, 0),
            column("then", 26, false, 116),
        ],
        count: gaps.len(),
        row: Box::new(move |index| row(work, &gaps[index], longest)),
    }
}

fn row(work: &Workspace, gap: &Gap, longest: i64) -> TableRow {
    let graph = &work.loaded.graph;
    let origin = graph.ranks.first().map(|part| part.iteration_start).unwrap_or_default();
    let next = gap.next.map_or("", |node| short_name(graph.names.get(graph.tasks[node].name)));
    TableRow {
        values: vec![
            value(gap.duration.to_string(), Role::Text),
            value(bar(gap.duration.0 as f64 / longest as f64), Role::Warn),
            value(gap.start.since(origin).to_string(), Role::Dim),
            value(work.scene().lane_label(gap.lane.0 as usize), Role::Dim),
            value(gap.cause.describe(graph), Role::Text),
            value(next, Role::Dim),
        ],
        open: gap.next.map_or(Open::Nothing, |node| Open::Item(Item::Task(node))),
    }
}

/// The chain of the chosen gap: what its time went to, the most first, as pieces of lines.
pub fn chain(work: &Workspace) -> Vec<(String, Role)> {
    const MOST: usize = 6;
    let Some(gap) = work.digest.gaps.get(work.table.cursor) else { return Vec::new() };
    let graph = &work.loaded.graph;
    let mut pieces = vec![(format!("{} · ", gap.cause.describe(graph)), Role::Strong)];
    let mut segments = gap.chain.clone();
    segments.sort_by_key(|segment| (std::cmp::Reverse(segment.duration), segment.start));
    for (index, segment) in segments.iter().take(MOST).enumerate() {
        let arrow = if index > 0 { ", " } else { "" };
        let name = short_name(graph.names.get(segment.name));
        pieces.push((format!("{arrow}{} {name} ", explained(segment.kind.name())), Role::Text));
        pieces.push((segment.duration.to_string(), Role::Dim));
    }
    if segments.len() > MOST {
        pieces.push((format!(", {} more", segments.len() - MOST), Role::Faint));
    }
    pieces
}

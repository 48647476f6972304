//! Idle intervals of streams, ranked, each with its cause.

use std::collections::BTreeMap;

use crate::tui::table::{self, Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::{Item, short_name};
use crate::tui::workspace::Workspace;
use retime_core::analysis::critical_path::explained;
use retime_core::analysis::gaps::{Gap, candidate_steps};
use retime_core::intern::NameId;
use retime_core::units::DurNs;

use super::sweep::bar;

/// The view as a table.
pub fn table(work: &Workspace) -> Table<'_> {
    let gaps: Vec<&Gap> = work.listing.gaps().collect();
    let longest = gaps.iter().map(|gap| gap.duration.0).max().unwrap_or(1).max(1);
    let total: DurNs = gaps.iter().map(|gap| gap.duration).sum();
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary: summary(work, gaps.len(), total),
        columns: vec![
            column("idle", 10, true, 0),
            column("", 18, false, 104),
            column("at", 10, true, 64),
            column("stream", 14, false, 0),
            column("cause", 0, false, 0),
            column("then", 22, false, 150),
            column("closed best by", 36, false, 110),
        ],
        count: gaps.len(),
        row: Box::new(move |index| row(work, gaps[index], longest)),
    }
}

fn row(work: &Workspace, gap: &Gap, longest: i64) -> TableRow {
    let graph = &work.loaded.graph;
    let part = graph.ranks.iter().find(|part| part.rank == gap.rank);
    let origin = part.map(|part| part.iteration_start).unwrap_or_default();
    let next = gap.next.map_or("", |node| short_name(graph.names.get(graph.tasks[node].name)));
    let best = work.closing(gap).into_iter().next().map_or(String::new(), |(line, gain)| format!("{line} −{gain}"));
    TableRow {
        values: vec![
            value(gap.duration.to_string(), Role::Text),
            value(bar(gap.duration.0 as f64 / longest as f64), Role::Warn),
            value(gap.start.since(origin).to_string(), Role::Dim),
            value(work.scene().lane_label(gap.lane.0 as usize), Role::Dim),
            table::name(gap.cause.describe_with(graph, short_name), Role::Text),
            value(next, Role::Dim),
            value(best, Role::Good),
        ],
        open: gap.next.map_or(Open::Nothing, |node| Open::Item(Item::Task(node))),
    }
}

fn summary(work: &Workspace, count: usize, total: DurNs) -> Vec<(String, Role)> {
    if !work.has_device() {
        return vec![(
            "no device stream was recorded, so none has gaps: 2 shows what decides the time".to_owned(),
            Role::Warn,
        )];
    }
    let mut pieces = vec![
        (format!("{count} gap{}, ", if count == 1 { "" } else { "s" }), Role::Dim),
        (total.to_string(), Role::Strong),
    ];
    pieces.extend(super::narrowed(work));
    let (tried, expected) = (work.gains.of_line.len(), work.gains.expected);
    if tried < expected {
        pieces.push((format!(" · trying edits against them, {tried} of {expected}"), Role::Warn));
    }
    if count > 0 {
        pieces.push((" · enter".to_owned(), Role::Key));
        pieces.push((" tries the chosen one's best edit".to_owned(), Role::Dim));
    }
    pieces.push((" · under 0.1 % left out".to_owned(), Role::Faint));
    pieces
}

/// The chosen gap.
pub fn chosen(work: &Workspace) -> Option<&Gap> {
    work.listing.gap(work.table.cursor)
}

/// The chosen gap's chain, what its time went to, the most first; then what closes it.
pub fn chain(work: &Workspace) -> Vec<(String, Role)> {
    const MOST: usize = 6;
    let Some(gap) = chosen(work) else { return Vec::new() };
    let graph = &work.loaded.graph;
    let mut pieces = vec![(format!("{} ", gap.cause.describe_with(graph, short_name)), Role::Strong)];
    pieces.extend(closed_by(work, gap));
    let mut totals: BTreeMap<(&str, NameId), (DurNs, usize)> = BTreeMap::new();
    for segment in &gap.chain {
        let total = totals.entry((segment.kind.name(), segment.name)).or_default();
        *total = (total.0 + segment.duration, total.1 + 1);
    }
    let mut totals: Vec<_> = totals.into_iter().collect();
    totals.sort_by_key(|&(key, (taken, _))| (std::cmp::Reverse(taken), key));
    for ((kind, name), (taken, count)) in totals.iter().take(MOST) {
        let name = short_name(graph.names.get(*name));
        let blank = if name.is_empty() { "" } else { " " };
        let times = if *count > 1 { format!(" ×{count}") } else { String::new() };
        pieces.push((format!("· {}{blank}{name}{times} {taken} ", explained(kind)), Role::Dim));
    }
    if totals.len() > MOST {
        pieces.push((format!("· {} more", totals.len() - MOST), Role::Faint));
    }
    pieces
}

/// `closed by, off the iteration: reshard-tables best −0.98 ms · overlap-comm −0.40 ms`.
fn closed_by(work: &Workspace, gap: &Gap) -> Vec<(String, Role)> {
    const MOST: usize = 3;
    let closing = work.closing(gap);
    if closing.is_empty() {
        let is_tried =
            candidate_steps(&work.loaded.graph, gap).iter().all(|line| work.gains.of_line.contains_key(line));
        let text = match (work.gains_are_known(), is_tried) {
            (false, _) => "· trying edits against it … ",
            (true, true) => "· no known edit shortens the iteration here ",
            (true, false) => "· edits are tried against the longest gaps only ",
        };
        return vec![(text.to_owned(), Role::Dim)];
    }
    let mut pieces = vec![("· closed by, off the iteration: ".to_owned(), Role::Dim)];
    for (at, (line, gain)) in closing.into_iter().take(MOST).enumerate() {
        let dot = if at > 0 { "· " } else { "" };
        pieces.push((format!("{dot}{line} "), Role::Text));
        pieces.push((format!("−{gain} "), Role::Good));
    }
    pieces
}

/// The edit that most shortens the iteration at the chosen gap.
pub fn best_step(work: &Workspace) -> Option<String> {
    work.closing(chosen(work)?).into_iter().next().map(|(line, _)| line)
}

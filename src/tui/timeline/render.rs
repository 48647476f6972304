//! Draws the timeline: ruler, minimap, lane labels, rows, marks, the arrow between a launch and its kernel.

use unicode_width::UnicodeWidthStr;

use crate::tui::canvas::Canvas;
use crate::tui::theme::Role;
use retime_core::graph::LaneKind;
use retime_core::units::TimeNs;

use super::arrow;
use super::paint::Painter;
use super::rows::{Row, Side};
use super::ruler;
use super::scene::Scene;
use super::state::Timeline;

/// Rows above the lanes: the ruler, and the minimap where there is room for one.
pub fn head_height(height: u16) -> u16 {
    if height >= 18 { 2 } else { 1 }
}

/// Rows for lanes in a timeline of `height`.
pub fn body_height(height: u16) -> u16 {
    height.saturating_sub(head_height(height))
}

/// Columns of the lane labels in a timeline of `width`.
pub fn label_width(width: u16) -> u16 {
    (width / 6).clamp(14, 22)
}

/// Draws the timeline onto all of `canvas`.
pub fn render(scene: Scene<'_>, state: &Timeline, canvas: &mut Canvas<'_>) {
    let (width, height) = (canvas.width(), canvas.height());
    let (labels, head) = (label_width(width), head_height(height));
    draw_ruler(scene, state, &mut canvas.part(labels, 0, width - labels, 1));
    if head > 1 {
        canvas.text(0, 1, "whole trace", Role::Faint);
        draw_minimap(scene, state, &mut canvas.part(labels, 1, width - labels, 1));
    }
    let body = body_height(height);
    let rows = scene.rows(state, body as usize);
    let first = state.scroll.min(rows.len().saturating_sub(body as usize));
    let shown = &rows[first..rows.len().min(first + body as usize)];
    let mut painter = Painter::new(scene, state.span, state.selected);
    for (y, row) in shown.iter().enumerate() {
        let y = y as u16 + head;
        draw_label(scene, state, canvas, y, *row);
        painter.row(&mut canvas.part(labels, y, width - labels, 1), 0, *row);
    }
    let mut bars = canvas.part(labels, head, width - labels, body);
    draw_boundaries(scene, state, shown, &mut bars);
    arrow::draw(scene, state, (&rows, first), &mut bars);
    draw_more(canvas, first, rows.len(), shown.len());
}

fn origin(scene: Scene<'_>) -> f64 {
    let start = scene.graph.ranks.iter().map(|part| part.iteration_start).min().unwrap_or_default();
    start.0 as f64
}

fn draw_ruler(scene: Scene<'_>, state: &Timeline, canvas: &mut Canvas<'_>) {
    let width = canvas.width();
    canvas.rule(0, "");
    for (x, label) in ruler::ticks(state.span, width, origin(scene)) {
        if x as usize + 1 + label.chars().count() <= width as usize {
            canvas.text(x, 0, "┬", Role::Border);
            canvas.text(x + 1, 0, &label, Role::Dim);
        }
    }
    if let Some(x) = state.span.column_of(state.cursor, width) {
        canvas.text(x, 0, "▼", Role::Accent);
    }
    for &mark in &state.marks {
        if let Some(x) = state.span.column_of(mark.0 as f64, width) {
            canvas.text(x, 0, "◆", Role::Mark);
        }
    }
}

/// All of the time in one row, the part shown bright.
fn draw_minimap(scene: Scene<'_>, state: &Timeline, canvas: &mut Canvas<'_>) {
    const LOWER: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    const MOST_LANES: usize = 8;
    let width = canvas.width();
    let streams =
        (0..scene.graph.lanes.len()).filter(|&lane| matches!(scene.graph.lanes[lane].kind, LaneKind::Stream { .. }));
    let mut lanes: Vec<usize> = streams.take(MOST_LANES).collect();
    if lanes.is_empty() {
        lanes = state.order.iter().copied().take(MOST_LANES).collect();
    }
    let range = TimeNs(state.bounds.from as i64)..TimeNs(state.bounds.to as i64);
    let mut most = vec![0.0_f32; width as usize];
    let mut cells = Vec::new();
    for row in lanes.iter().filter_map(|&lane| scene.simulated.lanes.get(lane)?.rows.first()) {
        row.cells(range.clone(), width as usize, &mut cells);
        most.iter_mut().zip(&cells).for_each(|(most, cell)| *most = most.max(cell.busy));
    }
    let column = |time: f64| state.bounds.column_of(time, width);
    let (from, to) = (column(state.span.from).unwrap_or(0), column(state.span.to).unwrap_or(width));
    for (x, busy) in most.iter().enumerate() {
        let role = if (from..=to).contains(&(x as u16)) { Role::Chart } else { Role::ChartDim };
        let symbol = LOWER[((busy * 8.0).ceil() as usize).min(8)];
        canvas.text(x as u16, 0, symbol, role);
    }
    for (x, edge) in [(from, "▕"), (to, "▏")] {
        canvas.text(x, 0, edge, Role::Accent);
    }
}

fn draw_label(scene: Scene<'_>, state: &Timeline, canvas: &mut Canvas<'_>, y: u16, row: Row) {
    let width = label_width(canvas.width());
    let is_current = row.lane == state.lane;
    let mut label = canvas.part(0, y, width - 1, 1);
    if row.depth > 0 {
        return;
    }
    let role = if is_current { Role::Accent } else { Role::Text };
    match row.side {
        Side::Blank => {}
        Side::Simulated => {
            label.text(0, 0, if is_current { "▌" } else { " " }, Role::Accent);
            label.text(2, 0, "simulated", Role::Simulated);
        }
        Side::Measured | Side::Both => {
            label.text(0, 0, if is_current { "▌" } else { " " }, Role::Accent);
            let pin = if state.pinned.contains(&row.lane) { "• " } else { "" };
            let name = format!("{pin}{}", scene.lane_label(row.lane));
            label.text(1, 0, without_number(&name, width.saturating_sub(2) as usize), role);
        }
    }
}

/// A label that has no room for the number of its thread goes without it.
fn without_number(label: &str, room: usize) -> &str {
    match label.rsplit_once(' ') {
        Some((role, number)) if label.width() > room && number.len() > 3 && number.parse::<u64>().is_ok() => role,
        _ => label,
    }
}

/// Faint lines where the iteration begins and ends, through what is idle there.
fn draw_boundaries(scene: Scene<'_>, state: &Timeline, shown: &[Row], canvas: &mut Canvas<'_>) {
    let width = canvas.width();
    for (y, row) in shown.iter().enumerate() {
        let Some(rank) = scene.lane(row.lane).map(|lane| lane.rank) else { continue };
        let Some(part) = scene.graph.ranks.iter().find(|part| part.rank == rank) else { continue };
        let boundaries = [part.iteration_start.0, part.iteration_end.0];
        for x in boundaries.iter().filter_map(|&time| state.span.column_of(time as f64, width)) {
            if canvas.symbol(x, y as u16) == " " && canvas.is_ground(x, y as u16) {
                canvas.text(x, y as u16, "╎", Role::Faint);
            }
        }
    }
}

/// Says that there are more rows above or below.
fn draw_more(canvas: &mut Canvas<'_>, first: usize, all: usize, shown: usize) {
    let (width, bottom) = (label_width(canvas.width()), canvas.height().saturating_sub(1));
    let below = all.saturating_sub(first + shown);
    if below > 0 {
        let mut label = canvas.part(0, bottom, width - 1, 1);
        label.clear(Role::Background);
        label.text(1, 0, &format!("↓ {below} rows"), Role::Warn);
    }
    if first > 0 {
        canvas.part(0, 0, width - 1, 1).right(0, 0, 0, &[(format!("↑{first}"), Role::Warn)]);
    }
}

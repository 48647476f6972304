//! Draws the timeline: ruler, minimap, lane labels, rows, marks, the arrow between a launch and its kernel.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use crate::tui::canvas::{Canvas, cut};
use crate::tui::theme::Role;
use retime_core::graph::LaneKind;
use retime_core::units::TimeNs;

use super::arrow;
use super::kernels;
use super::lane_label::rank_label;
use super::paint::Painter;
use super::rows::{Fold, Row, Side};
use super::ruler;
use super::scene::Scene;
use super::state::Timeline;

/// Rows that sums of kernels need below the lanes, their title included.
const LEAST_KERNELS: u16 = 3;

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
        canvas.text(1, 1, "whole trace", Role::Faint);
        draw_minimap(scene, state, &mut canvas.part(labels, 1, width - labels, 1));
    }
    let body = body_height(height);
    let rows = scene.rows(state, body as usize);
    let first = state.scroll.min(rows.len().saturating_sub(body as usize));
    let shown = &rows[first..rows.len().min(first + body as usize)];
    let mut painter = Painter::new(scene, state);
    for (y, row) in shown.iter().enumerate() {
        let y = y as u16 + head;
        draw_label(scene, state, canvas, y, *row);
        painter.row(&mut canvas.part(labels, y, width - labels, 1), 0, *row);
    }
    let mut bars = canvas.part(labels, head, width - labels, body);
    draw_idle(scene, state, shown, &mut bars);
    draw_ends(scene, state, shown, &mut bars);
    draw_cursor(state, shown, &mut bars);
    draw_joint(scene, state, shown, &mut bars);
    arrow::draw(scene, state, (&rows, first), &mut bars);
    draw_more(canvas, first, rows.len(), shown.len());
    let (used, spare) = (shown.len() as u16 + 1, body.saturating_sub(shown.len() as u16 + 1));
    if spare >= LEAST_KERNELS && scene.simulated.kernels.len() > 1 {
        kernels::render(scene, state.family, labels, &mut canvas.part(0, head + used, width, spare));
    }
}

/// Where the drawn iteration begins: with the end of the step before.
fn origin(scene: Scene<'_>) -> f64 {
    scene.measured.period.start.0 as f64
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
    if let Some((from, to)) = state.marked_pair() {
        let column = |time: TimeNs| state.span.column_clamped(time.0 as f64, width);
        let selected = canvas.theme().style(Role::Selected);
        canvas.restyle(column(from), 0, (column(to) + 1).saturating_sub(column(from)), selected);
    }
    if let Some(x) = state.span.column_of(state.cursor, width) {
        canvas.text(x, 0, "▼", Role::Accent);
    }
    for &mark in &state.marks {
        if let Some(x) = state.span.column_of(mark.0 as f64, width) {
            let end = canvas.text(x, 0, "◆", Role::Mark);
            if let Some(name) = state.mark_names.get(&mark) {
                const MOST: usize = 20;
                canvas.text(end, 0, &cut(name, MOST), Role::Mark);
            }
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
    if row.depth > 0 || row.side == Side::Blank {
        return;
    }
    if is_current {
        label.text(0, 0, "▌", Role::Accent);
    }
    match (row.side, row.line) {
        (Side::Simulated, 0) => _ = label.text(2, 0, "simulated", Role::Simulated),
        (Side::Measured, 1) => _ = label.text(2, 0, scene.origin, Role::Measured),
        (_, 0) => {
            let pin = if state.pinned.contains(&row.lane) { "• " } else { "" };
            let name = match row.fold {
                Some(fold) => format!("{pin}▸ {}", fold_label(scene, fold)),
                None => format!("{pin}{}", scene.lane_label(row.lane)),
            };
            let is_late = scene.lane(row.lane).is_some_and(|lane| scene.late.contains(&lane.rank));
            let role = match (is_late, is_current) {
                (true, _) => Role::Warn,
                (_, true) => Role::Accent,
                _ => Role::Text,
            };
            let name = if is_late { format!("! {name}") } else { name };
            label.text(1, 0, &shortened(&name, width.saturating_sub(2) as usize), role);
        }
        _ => {}
    }
}

/// What several lanes in one row are called: `CPU 3 threads`, `r3 2 streams`.
fn fold_label(scene: Scene<'_>, fold: Fold) -> String {
    let (Fold::Hosts(place) | Fold::Rank(place)) = fold;
    let Some(rank) = scene.graph.ranks.get(place).map(|part| part.rank) else { return String::new() };
    let label = if scene.graph.rank_count() > 1 { rank_label(scene.graph, rank) } else { String::new() };
    let of_rank = |lane: &usize| {
        scene.lane(*lane).is_some_and(|lane| lane.rank == rank) && scene.is_drawn(*lane) && scene.is_busy(*lane)
    };
    let count = |is_stream: bool| {
        let lanes = (0..scene.graph.lanes.len()).filter(of_rank);
        lanes.filter(|&lane| scene.is_stream(lane) == is_stream).count()
    };
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let text = match fold {
        Fold::Hosts(_) => format!("{label} CPU {}", counted(count(false), "thread")),
        Fold::Rank(_) => format!("{label} {}", counted(count(true), "stream")),
    };
    text.trim().to_owned()
}

/// A label that has no room for the number of its thread goes without it; `3 threads` becomes `×3`.
fn shortened(label: &str, room: usize) -> Cow<'_, str> {
    let Some((front, last)) = label.rsplit_once(' ').filter(|_| label.width() > room) else { return label.into() };
    if last.len() > 3 && last.parse::<u64>().is_ok() {
        return front.into();
    }
    match front.rsplit_once(' ') {
        Some((name, count)) if count.parse::<u64>().is_ok() => format!("{name} ×{count}").into(),
        _ => label.into(),
    }
}

/// Where each drawn iteration begins and ends, with the time of its end.
fn draw_ends(scene: Scene<'_>, state: &Timeline, shown: &[Row], canvas: &mut Canvas<'_>) {
    let width = canvas.width();
    for (y, row) in shown.iter().enumerate().filter(|(_, row)| row.side != Side::Blank) {
        let (y, period) = (y as u16, &scene.side(row.side).period);
        if let Some(x) = state.span.column_of(period.start.0 as f64, width).filter(|&x| canvas.is_blank(x, y)) {
            canvas.text(x, y, "╎", Role::Faint);
        }
        let role = if row.side == Side::Simulated { Role::Simulated } else { Role::Measured };
        let whole = period.end.since(period.start);
        let is_labelled = row.line == 0 && row.depth == 0 && scene.is_main_stream(row.lane);
        let Some(x) = state.span.column_of(period.end.0 as f64, width) else {
            if is_labelled && is_beside_the_other_end(scene, state, row.side) {
                draw_end_outside(canvas, y, (period.end.0 as f64) < state.span.from, (&whole.to_string(), role));
            }
            continue;
        };
        canvas.overlay(x, y, "┊", role);
        if !is_labelled {
            continue;
        }
        // Behind the end, where it has room, else before it, over the bars.
        let labels = [format!(" end {whole}"), format!(" {whole}"), whole.to_string()];
        let room = width.saturating_sub(x + 1) as usize;
        let label = labels.iter().find(|label| label.width() <= room);
        let before = labels[1].width().min(x as usize) as u16;
        let (from, label) = label.map_or((x - before, &labels[1]), |label| (x + 1, label));
        canvas.part(from, y, label.width() as u16, 1).clear(Role::Background);
        canvas.text(from, y, label, role);
        canvas.overlay(x, y, "┊", role);
    }
}

/// Whether the iteration of the other side ends within what is shown, so that the eye looks for this one's end too.
fn is_beside_the_other_end(scene: Scene<'_>, state: &Timeline, side: Side) -> bool {
    let other = if side == Side::Simulated { Side::Measured } else { Side::Simulated };
    let end = scene.side(other).period.end.0 as f64;
    scene.is_edited && (state.span.from..state.span.to).contains(&end)
}

/// Where an end lies that is not in what is shown, at the edge that is nearer to it.
fn draw_end_outside(canvas: &mut Canvas<'_>, y: u16, is_before: bool, (end, role): (&str, Role)) {
    let label = if is_before { format!("◂ end {end} ") } else { format!(" end {end} ▸") };
    let length = label.width() as u16;
    let x = if is_before { 0 } else { canvas.width().saturating_sub(length) };
    canvas.part(x, y, length, 1).clear(Role::Background);
    canvas.text(x, y, &label, role);
}

/// Hatches where the busiest stream of a rank does nothing, within its iteration.
fn draw_idle(scene: Scene<'_>, state: &Timeline, shown: &[Row], canvas: &mut Canvas<'_>) {
    let width = canvas.width();
    for (y, row) in shown.iter().enumerate() {
        let y = y as u16;
        if row.side == Side::Blank || row.line > 0 || !scene.is_main_stream(row.lane) {
            continue;
        }
        let period = &scene.side(row.side).period;
        let column = |time: TimeNs| state.span.column_clamped(time.0 as f64, width);
        for x in column(period.start)..column(period.end) {
            if canvas.is_blank(x, y) {
                canvas.text(x, y, "╱", Role::ChartDim);
            }
        }
    }
}

/// The cursor through all lanes, where they are idle, and an inverted cell in its own.
fn draw_cursor(state: &Timeline, shown: &[Row], canvas: &mut Canvas<'_>) {
    let Some(x) = state.span.column_of(state.cursor, canvas.width()) else { return };
    for (y, row) in shown.iter().enumerate() {
        let y = y as u16;
        let is_here = row.lane == state.lane
            && row.depth == state.depth
            && row.line == 0
            && (row.side == state.side || ![Side::Measured, Side::Simulated].contains(&row.side));
        if is_here && row.side != Side::Blank {
            canvas.invert(x, y);
        } else if canvas.is_blank(x, y) {
            canvas.text(x, y, "│", Role::Faint);
        }
    }
}

/// Joins the selected item to itself on the other side.
fn draw_joint(scene: Scene<'_>, state: &Timeline, shown: &[Row], canvas: &mut Canvas<'_>) {
    let Some(item) = state.selected.filter(|_| scene.is_edited) else { return };
    let Some(lane) = scene.lane_of(item).map(|lane| lane.0 as usize) else { return };
    let row = |side| shown.iter().rposition(|row| row.lane == lane && row.side == side && row.depth == state.depth);
    let middle = |density: &super::density::DensityIndex| {
        let (start, end) = density.times(item)?;
        state.span.column_of(f64::midpoint(start.0 as f64, end.0 as f64), canvas.width())
    };
    let (Some(upper), Some(lower)) = (row(Side::Measured), row(Side::Simulated)) else { return };
    let lower = shown[..=lower].iter().rposition(|row| row.lane == lane && row.line == 0).unwrap_or(lower);
    let (Some(from), Some(to)) = (middle(scene.measured), middle(scene.simulated)) else { return };
    let y = upper as u16;
    for x in from.min(to)..=from.max(to) {
        canvas.overlay(x, y, "┄", Role::Mark);
    }
    canvas.overlay(from, y, "◆", Role::Mark);
    for y in y + 1..lower as u16 {
        canvas.overlay(to, y, "┊", Role::Mark);
    }
    canvas.overlay(to, lower as u16, "▼", Role::Mark);
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

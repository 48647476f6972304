//! The arrow between a launch and its kernel, also where one of them is off the screen.

use crate::tui::canvas::Canvas;
use crate::tui::theme::Role;

use super::item::Item;
use super::rows::{Row, Side, fold_of};
use super::scene::Scene;
use super::state::Timeline;

/// One end of the arrow: a cell of the screen, and in which direction the event lies when it is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    x: u16,
    y: u16,
    beyond: Option<&'static str>,
}

/// Draws the arrow from the launch of the selected kernel (or from the selected call) to the kernel, `rows` being those
/// of the timeline and the first of them on the screen.
pub fn draw(scene: Scene<'_>, state: &Timeline, (rows, first): (&[Row], usize), canvas: &mut Canvas<'_>) {
    let Some((selected, partner)) = state.selected.and_then(|item| Some((item, scene.partner(item)?))) else { return };
    let place = |item| end(scene, state, (rows, first), item, (canvas.width(), canvas.height()));
    let (Some(here), Some(there)) = (place(selected), place(partner)) else { return };
    if here.beyond.is_some() && there.beyond.is_some() {
        return;
    }
    let is_call = matches!(selected, Item::Task(node) if !scene.graph.tasks[node].kind.is_device());
    let (call, kernel) = if is_call { (here, there) } else { (there, here) };
    trace(canvas, call, kernel);
}

/// Where `item` is, or the edge of the screen nearest to it.
fn end(
    scene: Scene<'_>,
    state: &Timeline,
    (rows, first): (&[Row], usize),
    item: Item,
    (width, height): (u16, u16),
) -> Option<End> {
    let lane = scene.lane_of(item)?.0 as usize;
    let density = scene.side(state.side);
    let (start, _) = density.times(item)?;
    let depth = density.depth_of(lane, item)?;
    let of_lane = rows.iter().enumerate().filter(|(_, row)| {
        let holds = row.lane == lane || row.fold.is_some() && row.fold == fold_of(state, scene, lane);
        holds && row.line == 0 && [state.side, Side::Both, Side::Same].contains(&row.side)
    });
    let (row, _) = of_lane.filter(|(_, row)| row.depth <= depth).max_by_key(|(_, row)| row.depth)?;
    let last = height.saturating_sub(1);
    let (y, off_row) = match row.checked_sub(first) {
        None => (0, Some("▲")),
        Some(y) if y > last as usize => (last, Some("▼")),
        Some(y) => (y as u16, None),
    };
    let (x, off_column) = match state.span.column_of(start.0 as f64, width) {
        Some(x) => (x, None),
        None if (start.0 as f64) < state.span.from => (0, Some("◀")),
        None => (width.saturating_sub(1), Some("▶")),
    };
    Some(End { x, y, beyond: off_column.or(off_row) })
}

/// Down (or up) from the call, then along the kernel's row through what is idle.
fn trace(canvas: &mut Canvas<'_>, call: End, kernel: End) {
    for y in call.y.min(kernel.y) + 1..call.y.max(kernel.y) {
        canvas.overlay(call.x, y, "│", Role::Mark);
    }
    let is_down = kernel.y > call.y;
    if kernel.x > call.x {
        if kernel.y != call.y {
            canvas.overlay(call.x, kernel.y, if is_down { "└" } else { "┌" }, Role::Mark);
        }
        for x in call.x + 1..kernel.x.saturating_sub(1) {
            if canvas.symbol(x, kernel.y) == " " && canvas.is_ground(x, kernel.y) {
                canvas.overlay(x, kernel.y, "─", Role::Mark);
            }
        }
        let tip = if kernel.beyond.is_some() { kernel.x } else { kernel.x.saturating_sub(1).max(call.x + 1) };
        canvas.overlay(tip, kernel.y, kernel.beyond.unwrap_or("▶"), Role::Mark);
    } else {
        let tip = if is_down { "▼" } else { "▲" };
        canvas.overlay(kernel.x, kernel.y, kernel.beyond.unwrap_or(tip), Role::Mark);
    }
    canvas.overlay(call.x, call.y, call.beyond.unwrap_or("◆"), Role::Mark);
}

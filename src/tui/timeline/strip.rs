//! An iteration in one row: the busiest stream of the first rank from the left edge on, with the time of its end.

use unicode_width::UnicodeWidthStr;

use crate::tui::canvas::Canvas;
use crate::tui::theme::Role;

use super::paint::Painter;
use super::rows::{Row, Side};
use super::scene::Scene;
use super::span::Span;
use super::state::Timeline;

/// How long the iteration of a side is, in ns; `None` where no stream works in it.
pub fn length(scene: Scene<'_>, side: Side) -> Option<f64> {
    lane(scene)?;
    let period = &scene.side(side).period;
    Some(period.end.since(period.start).0 as f64)
}

/// The stream that is drawn.
fn lane(scene: Scene<'_>) -> Option<usize> {
    (0..scene.graph.lanes.len()).find(|&lane| scene.is_main_stream(lane))
}

/// Draws it in the first line of `canvas`, whose width stands for `whole` ns.
pub fn render(scene: Scene<'_>, state: &Timeline, side: Side, whole: f64, canvas: &mut Canvas<'_>) {
    let (Some(lane), width) = (lane(scene), canvas.width()) else { return };
    let period = &scene.side(side).period;
    let from = period.start.0 as f64;
    let plain = Timeline { selected: None, hits: None, hit_names: None, family: None, ..state.clone() };
    let state = Timeline { span: Span { from, to: from + whole.max(1.0) }, ..plain };
    Painter::new(scene, &state).row(canvas, 0, Row { lane, depth: 0, side, line: 0, lines: 1, fold: None });
    let Some(x) = state.span.column_of(period.end.0 as f64, width) else { return };
    let role = if side == Side::Simulated { Role::Simulated } else { Role::Measured };
    canvas.overlay(x, 0, "┊", role);
    let label = format!(" {}", period.end.since(period.start));
    if x + 1 + label.width() as u16 <= width {
        canvas.part(x + 1, 0, width - x - 1, 1).clear(Role::Background);
        canvas.text(x + 1, 0, &label, role);
    }
}

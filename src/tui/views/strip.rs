//! The batch slider with its strip of points.

use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::overlay::Slider;
use crate::tui::table::{self, TableState};
use crate::tui::theme::Role;

use super::sweep;

/// Draws the slider and as many points around the size in force as there is room for.
pub fn render(app: &App, slider: &Slider, canvas: &mut Canvas<'_>) {
    canvas.clear(Role::Background);
    let Some(work) = app.workspace() else { return };
    let size = if slider.typed.is_empty() { slider.size.to_string() } else { format!("{}_", slider.typed) };
    let mut x = canvas.line(
        1,
        0,
        &[("batch size ", Role::Dim), ("◂ ", Role::Key), (&size, Role::Strong), (" ▸", Role::Key), ("  ", Role::Dim)],
    );
    let keys =
        [("←→", " halve, double  "), ("0-9", " type  "), ("↑↓", " ±1  "), ("enter", " keep  "), ("esc", " back")];
    for (key, what) in keys {
        x = canvas.line(x, 0, &[(key, Role::Key), (what, Role::Dim)]);
    }
    let mut table = sweep::table(work);
    table.summary.clear();
    let height = canvas.height();
    let rows = height.saturating_sub(2) as usize;
    let nearest = work.sweep.points.iter().position(|point| point.value("batch").unwrap_or(0.0) >= slider.size as f64);
    let cursor = nearest.unwrap_or(work.sweep.points.len().saturating_sub(1));
    let most = work.sweep.points.len().saturating_sub(rows);
    let state = TableState { cursor: usize::MAX, scroll: cursor.saturating_sub(rows / 2).min(most), is_other: false };
    let width = canvas.width();
    table::render_rows(&table, &state, &mut canvas.part(0, 1, width, height.saturating_sub(1)), 0);
    if work.sweep.points.is_empty() {
        canvas.text(2, 2, "measuring the curve…", Role::Dim);
    }
}

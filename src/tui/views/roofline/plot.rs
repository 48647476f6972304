//! One plot: points as letters of their family, and where they were before the edits.

use ratatui::style::Modifier;

use crate::tui::canvas::Canvas;
use crate::tui::theme::{Paint, Role};
use retime_core::analysis::roofline::Point;
use retime_core::cost::Family;

use super::axes::Axes;
use super::{Roof, Scene, legend, power_of_ten, roofs};

/// From this share of the time on a point is drawn large.
pub(super) const LARGE: f64 = 0.05;
/// From this share on it is shown where a point was before the edits.
const TOLD: f64 = 0.005;
/// Below this share it is drawn dim.
const SMALL: f64 = 0.005;

/// The letter of a family, so that colours are not the only sign.
pub(super) fn letter(family: Family, is_large: bool) -> &'static str {
    let (large, small) = match family {
        Family::Gemm => ("G", "g"),
        Family::Conv => ("C", "c"),
        Family::Attention => ("A", "a"),
        Family::Embedding => ("B", "b"),
        Family::Norm => ("N", "n"),
        Family::Softmax => ("S", "s"),
        Family::Dropout => ("D", "d"),
        Family::Elementwise => ("E", "e"),
        Family::Reduction => ("R", "r"),
        Family::Pooling => ("P", "p"),
        Family::Movement => ("M", "m"),
        Family::Optimizer => ("O", "o"),
        Family::Transfer => ("T", "t"),
        Family::Collective => ("L", "l"),
        Family::Other => ("X", "x"),
    };
    if is_large { large } else { small }
}

/// Draws the plot.
pub(super) fn render(scene: &Scene<'_>, axes: &Axes, canvas: &mut Canvas<'_>) {
    scales(axes, canvas);
    let mut inner = canvas.part(axes.inner.x, axes.inner.y, axes.inner.width, axes.inner.height);
    let is_moved = scene.moved.factors.iter().zip(scene.now.factors).any(|(moved, now)| Roof::is_moved(moved / now));
    roofs::render(scene, axes, is_moved, &mut inner);
    let placed = scene.points.iter().enumerate().filter_map(|(at, point)| Some((at, point, axes.cell(point)?)));
    let mut placed: Vec<_> = placed.collect();
    let cells: Vec<(u16, u16)> = placed.iter().map(|&(_, _, cell)| cell).collect();
    if placed.is_empty() {
        let none = if axes.slope == Roof::Network {
            "none of these has both FLOP and network traffic: v"
        } else {
            "no work is known: neither operators with shapes nor messages were recorded"
        };
        inner.text(1, axes.inner.height / 2, none, Role::Faint);
    }
    placed.reverse();
    for &(at, point, cell) in &placed {
        if let Some(origin) = scene.origin(at).filter(|_| scene.share(point) >= TOLD || at == scene.chosen) {
            moved(axes, (origin, cell), at == scene.chosen, &mut inner);
        }
    }
    legend::render(scene, axes, &mut inner);
    roofs::names(scene, axes, &cells, &mut inner);
    for &(_, point, (x, y)) in &placed {
        point_at(scene, point, (x, y), &mut inner);
    }
    if let Some(&(_, point, cell)) = placed.iter().find(|(at, ..)| *at == scene.chosen) {
        chosen(scene, axes, (point, cell), &mut inner);
    }
}

fn point_at(scene: &Scene<'_>, point: &Point, (x, y): (u16, u16), inner: &mut Canvas<'_>) {
    let share = scene.share(point);
    let weight = match share {
        share if share >= LARGE => Modifier::BOLD,
        share if share < SMALL => Modifier::DIM,
        _ => Modifier::empty(),
    };
    let ink = inner.theme().ink(Paint::from(point.family)).add_modifier(weight);
    inner.cell(x, y, letter(point.family, share >= LARGE), ink);
}

/// Where a point was before the edits, and the way from there to `cell`; nothing where it stayed.
fn moved(axes: &Axes, (origin, cell): (&Point, (u16, u16)), is_chosen: bool, inner: &mut Canvas<'_>) {
    let Some(from) = axes.cell(origin).filter(|&from| from != cell) else { return };
    let (across, down) = (f64::from(cell.0) - f64::from(from.0), f64::from(cell.1) - f64::from(from.1));
    let steps = across.abs().max(down.abs()) as u16;
    let role = if is_chosen { Role::Accent } else { Role::Dim };
    for step in 1..steps {
        let part = f64::from(step) / f64::from(steps);
        let place = |from: u16, by: f64| (f64::from(from) + by * part).round() as u16;
        inner.overlay(place(from.0, across), place(from.1, down), "·", role);
    }
    inner.cell(from.0, from.1, "○", inner.theme().ink(Paint::from(origin.family)));
}

/// The chosen point, with a line up to what it could attain.
fn chosen(scene: &Scene<'_>, axes: &Axes, (point, (x, y)): (&Point, (u16, u16)), inner: &mut Canvas<'_>) {
    let roof = axes.row(point.under(&scene.moved).attainable).max(0.0) as u16;
    for above in roof + 1..y {
        inner.overlay(x, above, "╎", Role::Accent);
    }
    let style = inner.theme().style(Role::BarSelected);
    inner.cell(x, y, letter(point.family, scene.share(point) >= LARGE), style);
}

/// Decades along both edges.
pub(super) fn scales(axes: &Axes, canvas: &mut Canvas<'_>) {
    let (inner, bottom) = (axes.inner, axes.inner.y + axes.inner.height);
    let mut taken = None;
    for decade in axes.y.0.ceil() as i32..=axes.y.1.floor() as i32 {
        let y = inner.y + axes.row(10f64.powi(decade)).max(0.0) as u16;
        if taken.replace(y) == Some(y) {
            continue;
        }
        let mut labels = canvas.part(axes.frame.x, y, inner.x - axes.frame.x - 1, 1);
        labels.right(0, 0, 0, &[(power_of_ten(decade), Role::Dim)]);
        canvas.text(inner.x - 1, y, "┤", Role::Border);
    }
    canvas.text(axes.frame.x, bottom, "FLOP/s", Role::Dim);
    let unit = if axes.slope == Roof::Network { "FLOP/net B" } else { "FLOP/B" };
    let end = inner.x + inner.width;
    let from = end.saturating_sub(unit.len() as u16);
    let mut free = inner.x;
    for decade in axes.x.0.ceil() as i32..=axes.x.1.floor() as i32 {
        let label = power_of_ten(decade);
        let x = inner.x + axes.column(10f64.powi(decade)) as u16;
        if x >= free && x + (label.len() as u16) < from {
            free = canvas.text(x, bottom, &label, Role::Dim) + 1;
        }
    }
    canvas.text(from, bottom, unit, Role::Dim);
}

//! One plot: roofs as lines of dots, points as letters of their family.

use ratatui::style::Modifier;

use crate::tui::canvas::Canvas;
use crate::tui::theme::{Paint, Role};
use retime_core::analysis::roofline::{Point, Roofs};
use retime_core::cost::Family;

use super::axes::Axes;
use super::{Roof, Scene, power_of_ten, rate, short};

/// From this share of the time on a point is drawn large.
const LARGE: f64 = 0.05;
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
    dots(axes, &scene.roofs, if is_moved { Role::Faint } else { Role::Chart }, &mut inner);
    if is_moved {
        dots(axes, &scene.moved_roofs, Role::Accent, &mut inner);
    }
    let placed = scene.points.iter().enumerate().filter_map(|(at, point)| Some((at, point, axes.cell(point)?)));
    let mut placed: Vec<_> = placed.collect();
    let cells: Vec<(u16, u16)> = placed.iter().map(|&(_, _, cell)| cell).collect();
    names(scene, axes, &cells, &mut inner);
    if placed.is_empty() {
        let none = if axes.slope == Roof::Network {
            "none of these has both FLOP and network traffic: v"
        } else {
            "no work is known: neither operators with shapes nor messages were recorded"
        };
        inner.text(1, axes.inner.height / 2, none, Role::Faint);
    }
    placed.reverse();
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
fn scales(axes: &Axes, canvas: &mut Canvas<'_>) {
    let (inner, bottom) = (axes.inner, axes.inner.y + axes.inner.height);
    for decade in axes.y.0.ceil() as i32..=axes.y.1.floor() as i32 {
        let y = inner.y + axes.row(10f64.powi(decade)).max(0.0) as u16;
        let mut labels = canvas.part(axes.frame.x, y, inner.x - axes.frame.x - 1, 1);
        labels.right(0, 0, 0, &[(power_of_ten(decade), Role::Dim)]);
        canvas.text(inner.x - 1, y, "┤", Role::Border);
    }
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

/// The names of the roofs: the peak above its right end where no point lies, the bandwidth left of its slope.
fn names(scene: &Scene<'_>, axes: &Axes, cells: &[(u16, u16)], inner: &mut Canvas<'_>) {
    let roofs = &scene.moved_roofs;
    let role = |roof: Roof| if scene.roof == roof { Role::Accent } else { Role::Dim };
    let peak = format!("{} {}", rate(roofs.peak.0), scene.precision);
    let row = axes.row(roofs.peak.0);
    let above = (row as u16).saturating_sub(1);
    let from = inner.width().saturating_sub(peak.len() as u16 + 1);
    let is_free = !cells.iter().any(|&(x, y)| y == above && x >= from);
    if row >= 1.0 && is_free {
        inner.right(0, above, 1, &[(peak, role(Roof::Peak))]);
    }
    let bandwidth = if axes.slope == Roof::Network { roofs.network } else { Some(roofs.memory) };
    let Some(bandwidth) = bandwidth else { return };
    let text = format!("{} GB/s", short(bandwidth.0 / 1e9));
    let width = text.len() as f64;
    let ridge = axes.column(axes.ridge(roofs));
    let mut fits = (0..axes.inner.height).map(|y| (y, slope_column(axes, bandwidth.0, f64::from(y) + 0.5)));
    let place = fits.rfind(|&(_, x)| x >= width + 2.0 && x < ridge);
    if let Some((y, x)) = place {
        inner.text((x - width - 1.0) as u16, y, &text, role(axes.slope));
    }
}

/// Where the slope of `bandwidth` crosses a row, in parts of a cell.
fn slope_column(axes: &Axes, bandwidth: f64, row: f64) -> f64 {
    let height = f64::from(axes.inner.height.max(1));
    let rate = axes.y.1 - row / height * (axes.y.1 - axes.y.0);
    axes.column(10f64.powf(rate) / bandwidth)
}

/// Draws what `roofs` allow as a line of dots, 2 × 4 to a cell.
fn dots(axes: &Axes, roofs: &Roofs, role: Role, inner: &mut Canvas<'_>) {
    let (width, height) = (axes.inner.width, axes.inner.height);
    let row = |dot: u32| {
        let intensity = axes.intensity_at(f64::midpoint(f64::from(dot), 0.5));
        (axes.row(axes.attainable(roofs, intensity)) * 4.0).floor()
    };
    let limit = f64::from(height) * 4.0 - 1.0;
    for x in 0..width {
        let mut masks = vec![0_u8; height as usize];
        for half in 0..2_u32 {
            let dot = u32::from(x) * 2 + half;
            let (here, next) = (row(dot), row(dot + 1));
            if here < 0.0 || axes_below(axes, roofs, dot) {
                continue;
            }
            let to = if next < here { (next + 1.0).max(0.0) } else { here };
            let mut at = here.min(limit);
            while at >= to {
                masks[(at / 4.0) as usize] |= mask(half, at as u32 % 4);
                at -= 1.0;
            }
        }
        let style = inner.theme().style(role);
        for (y, &bits) in masks.iter().enumerate().filter(|(_, bits)| **bits > 0) {
            let symbol = char::from_u32(0x2800 + u32::from(bits)).unwrap_or('·');
            inner.cell(x, y as u16, symbol.encode_utf8(&mut [0; 4]), style);
        }
    }
}

/// Whether the roof lies below the plot at a column of dots.
fn axes_below(axes: &Axes, roofs: &Roofs, dot: u32) -> bool {
    let intensity = axes.intensity_at(f64::midpoint(f64::from(dot), 0.5));
    axes.attainable(roofs, intensity).log10() < axes.y.0
}

/// The bit of the dot in column `half`, row `row` of a braille cell.
fn mask(half: u32, row: u32) -> u8 {
    const BITS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
    BITS[half as usize % 2][row as usize % 4]
}

//! The plots: the roofs of all systems over one another, each in its colour with its name, and what lies under them.

use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::tui::canvas::Canvas;
use crate::tui::theme::{Paint, Role};

use super::super::axes::Axes;
use super::super::{Roof, plot, rate, roofs};
use retime_core::analysis::roofline::SystemRoofline;

use super::asked::{Entry, SystemsState};

/// Colours of systems, in their order.
const PAINTS: [Paint; 6] =
    [Paint::Gemm, Paint::Embedding, Paint::Optimizer, Paint::Collective, Paint::Norm, Paint::Attention];

/// The colour of the system at a position.
pub(super) fn ink(at: usize, canvas: &Canvas<'_>) -> Style {
    canvas.theme().ink(PAINTS[at % PAINTS.len()])
}

/// The plots in `area`: under the network where a system has one, and under memory.
pub(super) fn plots(state: &SystemsState, entries: &[Entry<'_>], area: Rect) -> Vec<Axes> {
    const LEAST_WIDTH: u16 = 30;
    let has_network = state.found.iter().any(|found| found.roofs.network.is_some());
    let slopes: &[Roof] = match has_network {
        true if area.width >= 2 * LEAST_WIDTH => &[Roof::Network, Roof::Memory],
        true => &[Roof::Network],
        false => &[Roof::Memory],
    };
    let width = area.width / slopes.len() as u16;
    let frame = |at: usize| Rect { x: area.x + width * at as u16, width, ..area };
    slopes.iter().enumerate().map(|(at, &slope)| axes(state, entries, slope, frame(at))).collect()
}

/// Axes on which all ridges and points have a place.
fn axes(state: &SystemsState, entries: &[Entry<'_>], slope: Roof, frame: Rect) -> Axes {
    let ridges = state.found.iter().filter_map(|found| match slope {
        Roof::Network => found.network_ridge,
        _ => Some(found.ridge),
    });
    let intensities = || entries.iter().filter_map(|entry| intensity(slope, entry));
    let least = ridges.clone().map(|ridge| ridge / 16.0).chain(intensities()).fold(f64::INFINITY, f64::min);
    let most = ridges.map(|ridge| ridge * 8.0).chain(intensities()).fold(0.0, f64::max);
    let peaks = || state.found.iter().map(|found| found.roofs.peak.0);
    let (lowest, highest) = (peaks().fold(f64::INFINITY, f64::min), peaks().fold(0.0, f64::max));
    let rates = entries.iter().map(Entry::rate).filter(|rate| *rate > 0.0);
    let slowest = rates.clone().fold(lowest / 100.0, f64::min).max(lowest * 1e-6);
    Axes::over(slope, frame, (least, most), (slowest, rates.fold(highest, f64::max)))
}

/// The intensity of a point on a plot under `slope`; `None` where it has no place there.
fn intensity(slope: Roof, entry: &Entry<'_>) -> Option<f64> {
    let intensity = if slope == Roof::Network { entry.communication_intensity } else { Some(entry.intensity) };
    intensity.filter(|value| *value > 0.0 && value.is_finite())
}

/// Where a point is drawn.
pub(super) fn cell(axes: &Axes, entry: &Entry<'_>) -> Option<(u16, u16)> {
    Some(axes.cell_at(intensity(axes.slope, entry).filter(|_| entry.rate() > 0.0)?, entry.rate()))
}

/// Draws a plot.
pub(super) fn render(state: &SystemsState, entries: &[Entry<'_>], chosen: usize, axes: &Axes, canvas: &mut Canvas<'_>) {
    plot::scales(axes, canvas);
    let mut inner = canvas.part(axes.inner.x, axes.inner.y, axes.inner.width, axes.inner.height);
    let has_roof = |found: &SystemRoofline| axes.slope == Roof::Memory || found.roofs.network.is_some();
    let roofed = || state.found.iter().enumerate().filter(|(_, found)| has_roof(found));
    for (at, found) in roofed().collect::<Vec<_>>().into_iter().rev() {
        let style = ink(at, &inner);
        roofs::dots(axes, &found.roofs, style, &mut inner);
    }
    let placed: Vec<_> = entries.iter().map(|entry| (entry, cell(axes, entry))).collect();
    let cells: Vec<(u16, u16)> = placed.iter().filter_map(|(_, cell)| *cell).collect();
    for (at, found) in roofed() {
        let style = ink(at, &inner);
        let name = format!("{} {}", found.system, rate(found.roofs.peak.0));
        roofs::name_peak(axes, &found.roofs, (&name, style), &cells, &mut inner);
        roofs::name_slope(axes, &found.roofs, style, &cells, &mut inner);
    }
    legend(entries, &cells, &mut inner);
    let drawn = placed.iter().rev().filter_map(|(entry, cell)| Some((entry, (*cell)?)));
    let (measured, worked_out): (Vec<_>, Vec<_>) = drawn.partition(|(entry, _)| entry.reached.is_some());
    for (entry, (x, y)) in worked_out.into_iter().chain(measured) {
        let style = ink(entry.at, &inner);
        inner.cell(x, y, entry.sign, style);
    }
    if let Some((entry, Some((x, y)))) = placed.get(chosen) {
        mark(entry, axes, (*x, *y), &cells, &mut inner);
    }
}

/// The chosen point with its name, and for a measured one a line up to its roof.
fn mark(entry: &Entry<'_>, axes: &Axes, (x, y): (u16, u16), cells: &[(u16, u16)], inner: &mut Canvas<'_>) {
    let roof = axes.row(entry.attainable).max(0.0) as u16;
    for above in roof + 1..y {
        inner.overlay(x, above, "╎", Role::Accent);
    }
    let style = inner.theme().style(Role::BarSelected);
    inner.cell(x, y, entry.sign, style);
    let text = label(entry);
    let width = text.chars().count() as u16;
    let left = x.saturating_sub(width + 1);
    let places = [(x + 2, y), (x + 2, y + 1), (left, y), (left, y.saturating_sub(1)), (x + 2, y + 2)];
    let fits = |&(x, y): &(u16, u16)| x + width <= inner.width() && y < inner.height();
    let place = places.into_iter().filter(fits).find(|&place| roofs::is_free(place, width, cells, inner));
    if let Some((x, y)) = place {
        inner.text(x, y, &text, Role::Accent);
    }
}

/// A point's name with its size.
pub(super) fn label(entry: &Entry<'_>) -> String {
    match entry.size {
        Some((size, _)) => format!("{} {size}", entry.name),
        None => entry.name.clone(),
    }
}

/// What the signs stand for, with the least and the greatest size where there is room: at the left above the slope.
fn legend(entries: &[Entry<'_>], cells: &[(u16, u16)], inner: &mut Canvas<'_>) {
    let mut y = 0;
    for (sign, name, sizes) in signs(entries) {
        let is_free = |text: &str, inner: &Canvas<'_>| {
            let width = text.chars().count() as u16 + 4;
            let is_inside = y + 2 < inner.height() && width < inner.width();
            is_inside && (0..width).all(|x| inner.is_blank(x, y)) && roofs::is_free((0, y), width, cells, inner)
        };
        let texts = [format!("{name} {sizes}"), name];
        if let Some(text) = texts.iter().map(|text| text.trim_end()).find(|text| is_free(text, inner)) {
            inner.overlay(1, y, sign, Role::Text);
            inner.text(3, y, text, Role::Dim);
            y += 1;
        }
    }
}

/// Each sign with what it stands for and the sizes there are.
fn signs(entries: &[Entry<'_>]) -> Vec<(&'static str, String, String)> {
    let mut signs: Vec<(&str, String, String)> = Vec::new();
    for series in entries.chunk_by(Entry::continues) {
        let (first, last) = (&series[0], &series[series.len() - 1]);
        if signs.iter().any(|(sign, ..)| *sign == first.sign) {
            continue;
        }
        signs.push(match (first.size, last.size) {
            (Some((least, _)), Some((most, _))) if least < most => {
                (first.sign, first.name.clone(), format!("{least} … {most}"))
            }
            (Some((size, _)), _) => (first.sign, first.name.clone(), size.to_string()),
            (None, _) => (first.sign, "measured".to_owned(), String::new()),
        });
    }
    signs
}

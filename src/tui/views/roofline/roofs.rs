//! The roofs of a plot: one per precision in use, as lines of dots, with their names.

use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

use crate::tui::canvas::Canvas;
use crate::tui::theme::Role;
use retime_core::analysis::roofline::{Place, Point, Roofs};
use retime_core::device::Precision;
use retime_core::units::FlopPerSec;

use super::axes::Axes;
use super::{Roof, Scene, rate, short};

/// What the field calls it.
pub(super) fn name(precision: Precision) -> &'static str {
    match precision {
        Precision::Fp64 => "fp64",
        Precision::Fp64Matrix => "fp64 matrix",
        Precision::Fp32 => "fp32",
        Precision::Fp32Matrix => "fp32 matrix",
        Precision::Tf32 => "TF32",
        Precision::Fp16 => "fp16 vector",
        Precision::Fp16Tensor => "fp16",
        Precision::Bf16Tensor => "bf16",
        Precision::Fp8Tensor => "fp8",
        Precision::Int8Tensor => "int8",
    }
}

/// A peak of a device, and the precisions that share it.
pub(super) struct Peak {
    /// In FLOP per second.
    pub rate: f64,
    /// What is computed at it.
    pub precisions: Vec<Precision>,
}

/// The peaks of `place` that points are computed at, or were before the edits where that was on the same device, the highest first.
pub(super) fn peaks(scene: &Scene<'_>, place: &Place<'_>) -> Vec<Peak> {
    let uses = |precision| {
        let is_at = |point: &Point| place.device.units_named(point.computed_with) == precision;
        let origins = scene.origins.iter().flatten().copied().filter(|_| scene.old_device.is_none());
        let mut points = scene.points.iter().chain(origins).filter(|point| point.load.flop > 0.0);
        precision == scene.precision || points.any(is_at)
    };
    let mut peaks: Vec<Peak> = Vec::new();
    for precision in Precision::ALL.into_iter().filter(|&precision| uses(precision)) {
        let rate = place.roofs(precision).peak.0;
        match peaks.iter_mut().find(|peak| (peak.rate / rate - 1.0).abs() < 1e-3) {
            Some(peak) => peak.precisions.push(precision),
            None => peaks.push(Peak { rate, precisions: vec![precision] }),
        }
    }
    peaks.retain(|peak| peak.rate > 0.0);
    peaks.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    peaks
}

/// Draws the roofs, the highest in front, then, where roofs are moved, where they are moved to.
pub(super) fn render(scene: &Scene<'_>, axes: &Axes, is_moved: bool, inner: &mut Canvas<'_>) {
    let style = |role: Role, inner: &Canvas<'_>| inner.theme().style(role);
    if let Some(old) = scene.old_device {
        dots(axes, &Roofs::of(old, scene.precision), style(Role::Faint, inner), inner);
    }
    let own = peaks(scene, &scene.now);
    let at = |roofs: &Roofs, peak: &Peak| {
        let mut roofs = *roofs;
        roofs.peak.0 = peak.rate;
        roofs
    };
    let own_role = if is_moved { Role::Faint } else { Role::Chart };
    for peak in own.iter().rev() {
        dots(axes, &at(&scene.roofs, peak), style(own_role, inner), inner);
    }
    for peak in peaks(scene, &scene.moved).iter().filter(|_| is_moved) {
        dots(axes, &at(&scene.moved_roofs, peak), style(Role::Accent, inner), inner);
    }
}

/// The names of the roofs where nothing else lies: each peak on its roof, as far right as there is room; the bandwidth left of
/// its slope.
pub(super) fn names(scene: &Scene<'_>, axes: &Axes, cells: &[(u16, u16)], inner: &mut Canvas<'_>) {
    let chosen = |roof: Roof, otherwise: Role| if scene.roof == roof { Role::Accent } else { otherwise };
    for peak in &peaks(scene, &scene.moved) {
        let names: Vec<&str> = peak.precisions.iter().map(|&precision| name(precision)).collect();
        let text = format!("{} {}", rate(peak.rate), names.join(", "));
        let role = chosen(Roof::Peak, Role::Text);
        let roofs = Roofs { peak: FlopPerSec(peak.rate), ..scene.moved_roofs };
        name_peak(axes, &roofs, (&text, inner.theme().style(role)), cells, inner);
    }
    let style = inner.theme().style(chosen(axes.slope, Role::Dim));
    name_slope(axes, &scene.moved_roofs, style, cells, inner);
}

/// Writes `text` on the flat part of `roofs`, as far right as there is room.
pub(super) fn name_peak(
    axes: &Axes,
    roofs: &Roofs,
    (text, style): (&str, Style),
    cells: &[(u16, u16)],
    inner: &mut Canvas<'_>,
) {
    let row = axes.row(roofs.peak.0).max(0.0) as u16;
    let ridge = axes.column(axes.ridge(roofs));
    let width = text.width() as u16;
    let last = inner.width().saturating_sub(width + 1);
    let places = ((ridge.max(0.0) as u16 + 1).min(last)..=last).rev();
    let mut places = places.flat_map(|x| [row.checked_sub(1).map(|y| (x, y)), Some((x, row))]).flatten();
    if let Some((x, y)) = places.find(|&place| is_free(place, width, cells, inner)) {
        inner.put(x, y, text, style);
    }
}

/// Writes the bandwidth left of the slope of `roofs`, as far down as there is room.
pub(super) fn name_slope(axes: &Axes, roofs: &Roofs, style: Style, cells: &[(u16, u16)], inner: &mut Canvas<'_>) {
    let bandwidth = if axes.slope == Roof::Network { roofs.network } else { Some(roofs.memory) };
    let Some(bandwidth) = bandwidth else { return };
    let text = format!("{} GB/s", short(bandwidth.0 / 1e9));
    let width = text.len() as u16;
    let ridge = axes.column(axes.ridge(roofs));
    let fits = (0..axes.inner.height).map(|y| (slope_column(axes, bandwidth.0, f64::from(y) + 0.5), y));
    let left = fits.filter(|&(x, _)| x >= f64::from(width) + 2.0 && x < ridge);
    let mut left = left.map(|(x, y)| (x as u16 - width - 1, y)).rev();
    if let Some((x, y)) = left.find(|&place| is_free(place, width, cells, inner)) {
        inner.put(x, y, &text, style);
    }
}

/// Whether nothing but a roof is drawn in so many cells, and none of `cells` lies among them.
pub(super) fn is_free((x, y): (u16, u16), width: u16, cells: &[(u16, u16)], inner: &Canvas<'_>) -> bool {
    let is_dots = |symbol: &str| symbol == " " || symbol.starts_with(|c| ('\u{2800}'..='\u{28ff}').contains(&c));
    let is_point = |&(column, row): &(u16, u16)| row == y && (x..x + width).contains(&column);
    !cells.iter().any(is_point) && (x..x + width).all(|x| is_dots(inner.symbol(x, y)))
}

/// Where the slope of `bandwidth` crosses a row, in parts of a cell.
pub(super) fn slope_column(axes: &Axes, bandwidth: f64, row: f64) -> f64 {
    let height = f64::from(axes.inner.height.max(1));
    let rate = axes.y.1 - row / height * (axes.y.1 - axes.y.0);
    axes.column(10f64.powf(rate) / bandwidth)
}

/// Draws what `roofs` allow as a line of dots, 2 × 4 to a cell.
pub(super) fn dots(axes: &Axes, roofs: &Roofs, style: Style, inner: &mut Canvas<'_>) {
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

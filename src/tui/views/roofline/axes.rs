//! From FLOP per byte and FLOP per second to cells and back, both logarithmic.

use ratatui::layout::Rect;

use retime_core::analysis::roofline::{Point, Roofs};

use super::{Roof, Scene, roofs};

/// Columns left of a plot for its rates.
const LABELS: u16 = 6;

/// A plot: where it is and what its edges stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axes {
    /// All of it.
    pub frame: Rect,
    /// The part with the points.
    pub inner: Rect,
    /// Which roof slopes in it: memory or network.
    pub slope: Roof,
    /// Decimal logarithms of intensity at the left and right edge.
    pub x: (f64, f64),
    /// Decimal logarithms of FLOP per second at the lower and upper edge.
    pub y: (f64, f64),
}

/// Whether a point has a place on a logarithmic plot of memory intensity.
pub(super) fn is_placed(point: &Point) -> bool {
    point.throughput > 0.0 && point.intensity.is_some_and(|value| value > 0.0)
}

/// The intensity of `point` on a plot under `slope`; `None` without such traffic.
fn intensity(slope: Roof, point: &Point) -> Option<f64> {
    let intensity = if slope == Roof::Network { point.communication_intensity } else { point.intensity };
    intensity.filter(|value| *value > 0.0)
}

/// The intensity from which the peak can be reached under `slope`.
fn ridge(slope: Roof, roofs: &Roofs) -> f64 {
    let network = roofs.network_ridge().filter(|_| slope == Roof::Network);
    network.unwrap_or_else(|| roofs.ridge())
}

impl Axes {
    /// Axes on which all points and the ridge have a place, with room above for a roof to be moved.
    pub(super) fn of(scene: &Scene<'_>, slope: Roof, frame: Rect) -> Self {
        let placed = || scene.points.iter().filter(|point| point.throughput > 0.0);
        let placed = || placed().chain(scene.origins.iter().flatten().copied().filter(|point| point.throughput > 0.0));
        let ridge = ridge(slope, &scene.roofs);
        let intensities: Vec<f64> = placed().filter_map(|point| intensity(slope, point)).collect();
        let least = intensities.iter().copied().fold(ridge / 16.0, f64::min);
        let most = intensities.iter().copied().fold(ridge * 8.0, f64::max);
        let peak = scene.roofs.peak.0;
        let slowest = placed().map(|point| point.throughput).fold(peak / 100.0, f64::min).max(peak * 1e-6);
        let peaks =
            [&scene.now, &scene.moved].map(|place| roofs::peaks(scene, place).first().map_or(peak, |it| it.rate));
        let highest = peaks.into_iter().fold(peak * 2.0, f64::max);
        Self::over(slope, frame, (least, most), (slowest, highest))
    }

    /// Axes over intensities from `least` to `most` and rates from `slowest` to `highest`.
    pub(super) fn over(slope: Roof, frame: Rect, (least, most): (f64, f64), (slowest, highest): (f64, f64)) -> Self {
        let inner = Rect {
            x: frame.x + LABELS,
            width: frame.width.saturating_sub(LABELS + 1),
            height: frame.height.saturating_sub(1),
            ..frame
        };
        let (lowest, highest) = ((slowest / 1.5).log10(), highest.log10());
        // A row above the highest roof is for its name.
        let top = highest + 1.2 * (highest - lowest) / f64::from(inner.height.max(2));
        Self { frame, inner, slope, x: ((least / 1.5).log10(), (most * 1.5).log10()), y: (lowest, top) }
    }

    /// The intensity of `point` that this plot is over; `None` without such traffic.
    pub(super) fn intensity(&self, point: &Point) -> Option<f64> {
        intensity(self.slope, point)
    }

    /// The intensity from which the peak can be reached.
    pub(super) fn ridge(&self, roofs: &Roofs) -> f64 {
        ridge(self.slope, roofs)
    }

    /// What `roofs` allow at an intensity, the other kind of traffic left out.
    pub(super) fn attainable(&self, roofs: &Roofs, intensity: f64) -> f64 {
        match self.slope {
            Roof::Network => roofs.attainable(f64::INFINITY, intensity).0,
            _ => roofs.attainable(intensity, f64::INFINITY).0,
        }
    }

    /// Column of an intensity, in parts of a cell from the left edge.
    pub(super) fn column(&self, intensity: f64) -> f64 {
        (intensity.log10() - self.x.0) / (self.x.1 - self.x.0) * f64::from(self.inner.width)
    }

    /// Row of a rate, in parts of a cell from the upper edge; rates below the axis are at it.
    pub(super) fn row(&self, rate: f64) -> f64 {
        let height = f64::from(self.inner.height);
        let share = (rate.max(1e-9).log10() - self.y.0) / (self.y.1 - self.y.0);
        ((1.0 - share) * height).min(height - 0.01)
    }

    /// The intensity at a column, in parts of a cell.
    pub(super) fn intensity_at(&self, column: f64) -> f64 {
        10f64.powf(self.x.0 + column / f64::from(self.inner.width.max(1)) * (self.x.1 - self.x.0))
    }

    fn rate_at(&self, row: f64) -> f64 {
        10f64.powf(self.y.1 - row / f64::from(self.inner.height.max(1)) * (self.y.1 - self.y.0))
    }

    /// The cell of a point within the inner part; `None` where it has no place.
    pub(super) fn cell(&self, point: &Point) -> Option<(u16, u16)> {
        let intensity = self.intensity(point).filter(|_| point.throughput > 0.0)?;
        Some(self.cell_at(intensity, point.throughput))
    }

    /// The cell of an intensity and a rate within the inner part.
    pub(super) fn cell_at(&self, intensity: f64, rate: f64) -> (u16, u16) {
        let column = self.column(intensity).clamp(0.0, f64::from(self.inner.width.saturating_sub(1)));
        (column as u16, self.row(rate).max(0.0) as u16)
    }

    /// The point drawn nearest to a place on the screen, at most a cell away: the longest of several.
    pub(super) fn point_at(&self, scene: &Scene<'_>, x: u16, y: u16) -> Option<usize> {
        let distance = |point: &Point| {
            let (column, row) = self.cell(point)?;
            Some((self.inner.x + column).abs_diff(x).max((self.inner.y + row).abs_diff(y)))
        };
        let near = scene.points.iter().enumerate().filter_map(|(at, point)| Some((distance(point)?, at)));
        near.filter(|(distance, _)| *distance <= 1).min().map(|(_, at)| at)
    }

    /// The moved roof that passes through a place on the screen, or next to it.
    pub(super) fn roof_at(&self, scene: &Scene<'_>, x: u16, y: u16) -> Option<Roof> {
        let column = f64::from(x.checked_sub(self.inner.x)?) + 0.5;
        let intensity = self.intensity_at(column);
        let row = self.row(self.attainable(&scene.moved_roofs, intensity));
        let is_near = (row - f64::from(y.checked_sub(self.inner.y)?) - 0.5).abs() <= 1.0;
        let is_flat = intensity >= self.ridge(&scene.moved_roofs);
        is_near.then_some(if is_flat { Roof::Peak } else { self.slope })
    }

    /// The factor that leads the held roof through a place on the screen.
    pub(super) fn factor_through(&self, scene: &Scene<'_>, x: u16, y: u16) -> Option<f64> {
        let rate = self.rate_at(f64::from(y.checked_sub(self.inner.y)?) + 0.5);
        let intensity = self.intensity_at(f64::from(x.saturating_sub(self.inner.x)) + 0.5);
        Some(match scene.roof {
            Roof::Peak => rate / scene.roofs.peak.0,
            Roof::Memory => rate / intensity / scene.roofs.memory.0,
            Roof::Network => rate / intensity / scene.roofs.network?.0,
        })
    }
}

//! The lowest of the three planes over both intensities: what work attains by its memory and its network traffic.

use ratatui::layout::Rect;

use crate::tui::canvas::Canvas;
use crate::tui::theme::Role;
use retime_core::analysis::roofline::{Limit, Point};

use super::{Scene, plot, power_of_ten, role_of, short};

/// Columns left of the map for communication intensities.
const LABELS: u16 = 8;
/// Octaves below and above a ridge that are shown at least.
const OCTAVES: (i32, i32) = (8, 4);

/// The map: where it is and what its edges stand for.
struct Map {
    inner: Rect,
    /// Decimal logarithms of FLOP per byte of memory traffic, from left to right.
    x: (f64, f64),
    /// Decimal logarithms of FLOP per byte of network traffic, from below.
    y: (f64, f64),
}

impl Map {
    fn of(scene: &Scene<'_>, network_ridge: f64, area: Rect) -> Self {
        let inner = Rect {
            x: area.x + LABELS,
            width: area.width.saturating_sub(LABELS + 1),
            height: area.height.saturating_sub(1),
            ..area
        };
        let axis = |ridge: f64, values: &dyn Fn(&Point) -> Option<f64>| {
            let placed = || scene.points.iter().filter_map(values).filter(|value| *value > 0.0);
            let least = placed().fold(ridge * 2f64.powi(-OCTAVES.0), f64::min);
            let most = placed().fold(ridge * 2f64.powi(OCTAVES.1), f64::max);
            (least.log10(), (most * 1.2).log10())
        };
        let (x, y) = (
            axis(scene.moved_roofs.ridge(), &|point| point.intensity),
            axis(network_ridge, &|point| point.communication_intensity),
        );
        Self { inner, x, y }
    }

    fn intensity(&self, column: u16) -> f64 {
        let share = (f64::from(column) + 0.5) / f64::from(self.inner.width.max(1));
        10f64.powf(self.x.0 + share * (self.x.1 - self.x.0))
    }

    fn communication(&self, row: u16) -> f64 {
        let share = (f64::from(row) + 0.5) / f64::from(self.inner.height.max(1));
        10f64.powf(self.y.1 - share * (self.y.1 - self.y.0))
    }

    fn column(&self, intensity: f64) -> u16 {
        let share = ((intensity.log10() - self.x.0) / (self.x.1 - self.x.0)).clamp(0.0, 0.999_9);
        (share * f64::from(self.inner.width)) as u16
    }

    /// The row of a communication intensity; the upper edge for work that needs no network.
    fn row(&self, communication: Option<f64>) -> u16 {
        let value = communication.map_or(self.y.1, f64::log10);
        let share = ((self.y.1 - value) / (self.y.1 - self.y.0)).clamp(0.0, 0.999_9);
        (share * f64::from(self.inner.height)) as u16
    }
}

/// Draws the map into `area`.
pub(super) fn render(scene: &Scene<'_>, area: Rect, canvas: &mut Canvas<'_>) {
    let Some(network_ridge) = scene.moved_roofs.network_ridge() else {
        let text = format!("{} has no link to other devices: there are two planes only", scene.now.device.id);
        canvas.text(area.x + 1, area.y + 1, &text, Role::Warn);
        return;
    };
    let map = Map::of(scene, network_ridge, area);
    let mut inner = canvas.part(map.inner.x, map.inner.y, map.inner.width, map.inner.height);
    for row in 0..map.inner.height {
        for column in 0..map.inner.width {
            let (intensity, communication) = (map.intensity(column), map.communication(row));
            let share = scene.moved_roofs.attainable(intensity, communication).0 / scene.moved_roofs.peak.0;
            let style = inner.theme().style(role_of(scene.moved_roofs.limit(intensity, communication)));
            inner.cell(column, row, shade(share), style);
        }
    }
    names(scene, &map, &mut inner);
    for (at, point) in scene.points.iter().enumerate().rev().filter(|(_, point)| point.load.flop > 0.0) {
        let column = point.intensity.map_or(map.inner.width.saturating_sub(1), |value| map.column(value));
        let role = if at == scene.chosen { Role::BarSelected } else { Role::BarText };
        let style = if at == scene.chosen { inner.theme().style(role) } else { inner.theme().bar(point.family.into()) };
        inner.cell(column, map.row(point.communication_intensity), plot::letter(point.family, true), style);
    }
    scales(&map, network_ridge, scene, canvas);
}

/// Darker where less of the peak is attained: a step for every two octaves.
fn shade(share: f64) -> &'static str {
    match share {
        share if share >= 0.999 => "█",
        share if share >= 0.25 => "▓",
        share if share >= 0.062_5 => "▒",
        share if share >= 0.015_625 => "░",
        _ => "·",
    }
}

/// What limits in each of the three regions, written in it.
fn names(scene: &Scene<'_>, map: &Map, inner: &mut Canvas<'_>) {
    let (width, height) = (map.inner.width, map.inner.height);
    let places = [
        (Limit::Memory, 2, 1),
        (Limit::Network, width.saturating_sub(20), height.saturating_sub(2)),
        (Limit::Compute, width.saturating_sub(20), 1),
    ];
    for (limit, x, y) in places {
        if scene.moved_roofs.limit(map.intensity(x), map.communication(y)) == limit {
            inner.text(x, y, &format!(" {} limits ", limit.name()), Role::Text);
        }
    }
}

fn scales(map: &Map, network_ridge: f64, scene: &Scene<'_>, canvas: &mut Canvas<'_>) {
    let (inner, bottom) = (map.inner, map.inner.y + map.inner.height);
    for decade in map.y.0.ceil() as i32..=map.y.1.floor() as i32 {
        let y = inner.y + map.row(Some(10f64.powi(decade)));
        let mut labels = canvas.part(inner.x - LABELS, y, LABELS - 1, 1);
        labels.right(0, 0, 0, &[(power_of_ten(decade), Role::Dim)]);
    }
    let ridges = format!(
        "→ FLOP/B, ridge {} · ↑ FLOP per network byte, ridge {}",
        short(scene.moved_roofs.ridge()),
        short(network_ridge)
    );
    let mut free = inner.x;
    for decade in map.x.0.ceil() as i32..=map.x.1.floor() as i32 {
        let label = power_of_ten(decade);
        let x = inner.x + map.column(10f64.powi(decade));
        if x >= free && x + label.len() as u16 + 1 < inner.x + inner.width.saturating_sub(ridges.chars().count() as u16)
        {
            free = canvas.text(x, bottom, &label, Role::Dim) + 1;
        }
    }
    let mut line = canvas.part(inner.x, bottom, inner.width, 1);
    line.right(0, 0, 0, &[(ridges, Role::Dim)]);
}

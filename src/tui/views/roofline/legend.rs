//! What the signs of a plot stand for, in the corner above the slope, where nothing can lie.

use std::collections::BTreeMap;

use unicode_width::UnicodeWidthStr;

use crate::tui::canvas::Canvas;
use crate::tui::theme::{Paint, Role};
use retime_core::units::Percent;

use super::axes::Axes;
use super::{Roof, Scene, plot, roofs};

/// Draws the legend as far as there is room left of the slope.
pub(super) fn render(scene: &Scene<'_>, axes: &Axes, inner: &mut Canvas<'_>) {
    let network = scene.moved_roofs.network.filter(|_| axes.slope == Roof::Network);
    let bandwidth = network.map_or(scene.roofs.memory.0.max(scene.moved_roofs.memory.0), |network| network.0);
    let mut families = BTreeMap::new();
    for point in scene.points.iter().filter(|point| axes.cell(point).is_some()) {
        *families.entry(point.family).or_insert(0.0) += scene.share(point);
    }
    let mut families: Vec<_> = families.into_iter().collect();
    families.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut y = 0;
    let mut put = |letter: &str, paint: Option<Paint>, text: &str, inner: &mut Canvas<'_>| {
        let room = roofs::slope_column(axes, bandwidth, f64::from(y) + 1.0) - 2.0;
        if f64::from(y) + 2.0 < f64::from(inner.height()) && (text.width() + 4) as f64 <= room {
            match paint {
                Some(paint) => inner.cell(1, y, letter, inner.theme().ink(paint)),
                None => inner.overlay(1, y, letter, Role::Text),
            }
            inner.text(3, y, text, Role::Dim);
            y += 1;
        }
    };
    let is_moved = scene.origins.iter().any(Option::is_some);
    if is_moved {
        put("○", None, "before ·· letter: after", inner);
    }
    if let Some(old) = scene.old_device {
        put("⠤", None, &format!("faint: {} before", old.id), inner);
    }
    for (family, _) in families {
        put(plot::letter(family, true), Some(Paint::from(family)), family.name(), inner);
    }
    put("a", None, &format!("small: below {:.0} of the time", Percent(plot::LARGE)), inner);
}

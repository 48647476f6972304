//! Where everything goes, by the size of the terminal, and what gives way as it narrows.
//!
//! In this order: minimap, inspector, device name, scenario list (one line below 100 columns), view bar, gap pane.

use ratatui::layout::{Rect, Size};

/// The least that any view needs.
pub const LEAST: Size = Size { width: 60, height: 16 };
/// From here on the scenario has a list of its own.
const WIDE: u16 = 100;

/// Areas of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions {
    /// Two lines: what is open, and the figures.
    pub header: Rect,
    /// The scenario in one line, where there is no room for a list.
    pub scenario_line: Option<Rect>,
    /// The list of steps.
    pub scenario: Option<Rect>,
    /// The line with the panes' titles.
    pub titles: Rect,
    /// The open view.
    pub view: Rect,
    /// The line above the details.
    pub details_rule: Rect,
    /// What is selected, or the batch slider.
    pub details: Rect,
    /// The views and the keys that help.
    pub bar: Rect,
}

/// The areas for a terminal of `size`; `None` when it is too small. `wants_strip`: the batch slider needs more room.
pub fn regions(size: Size, wants_strip: bool) -> Option<Regions> {
    if size.width < LEAST.width || size.height < LEAST.height {
        return None;
    }
    let row = |y: u16, height: u16| Rect::new(0, y, size.width, height);
    let is_wide = size.width >= WIDE;
    let header = row(0, 2);
    let scenario_line = (!is_wide).then(|| row(2, 1));
    let top = header.height + scenario_line.map_or(0, |line| line.height);
    let details_height = details_height(size, wants_strip);
    let bar = row(size.height - 1, 1);
    let details = row(bar.y - details_height, details_height);
    let details_rule = row(details.y - 1, 1);
    let titles = row(top, 1);
    let list = if is_wide { (size.width * 2 / 7).clamp(28, 44) } else { 0 };
    let height = details_rule.y - top - 1;
    let scenario = is_wide.then(|| Rect::new(0, top + 1, list - 1, height));
    let view = Rect::new(list, top + 1, size.width - list, height);
    Some(Regions { header, scenario_line, scenario, titles, view, details_rule, details, bar })
}

fn details_height(size: Size, wants_strip: bool) -> u16 {
    match size.height {
        20..=27 if wants_strip => 6,
        0..=27 => 2,
        28..=44 if wants_strip => 9,
        28..=44 => 5,
        _ if wants_strip => 12,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_every_size_the_areas_tile_the_screen() {
        for width in 60..=300 {
            for height in 16..=100 {
                for strip in [false, true] {
                    let regions = regions(Size { width, height }, strip).unwrap();
                    let rows = regions.header.height
                        + regions.scenario_line.map_or(0, |line| line.height)
                        + regions.titles.height
                        + regions.view.height
                        + regions.details_rule.height
                        + regions.details.height
                        + regions.bar.height;
                    assert_eq!(rows, height, "{width}×{height}");
                    let columns = regions.view.width + regions.scenario.map_or(0, |list| list.width + 1);
                    assert_eq!(columns, width, "{width}×{height}");
                    assert!(regions.view.height >= 6, "{width}×{height}");
                }
            }
        }
    }

    #[test]
    fn a_terminal_that_is_too_small_is_refused() {
        assert_eq!(regions(Size { width: 59, height: 40 }, false), None);
        assert_eq!(regions(Size { width: 200, height: 15 }, false), None);
    }

    #[test]
    fn the_scenario_has_a_list_from_100_columns_on() {
        assert!(regions(Size { width: 99, height: 30 }, false).is_some_and(|regions| regions.scenario.is_none()));
        assert!(regions(Size { width: 100, height: 30 }, false).is_some_and(|regions| regions.scenario.is_some()));
    }
}

//! Where everything goes, by the size of the terminal, and what gives way as it narrows.
//!
//! In this order: details below the steps, step column (then one line, which `Tab` opens), minimap, inspector, device name,
//! names in the bar. Below [`LEAST`] the views go, below [`BARE`] everything.

use ratatui::layout::{Rect, Size};

/// The least that any view needs.
pub const LEAST: Size = Size { width: 60, height: 16 };
/// The least for header, ribbon and prompt.
pub const BARE: Size = Size { width: 40, height: 10 };
/// From here on the scenario's steps have a column of their own.
const WIDE: u16 = 160;
/// From here on that column leaves room for a view beside it.
const BESIDE: u16 = 100;
/// The least of that column.
const LEAST_LIST: u16 = 20;
/// From here on what is selected stands below the steps, in their column.
const WITH_DETAILS: Size = Size { width: 180, height: 45 };
/// Columns of both, where none were chosen.
const SIDE: u16 = 53;
/// The least of that column.
const LEAST_SIDE: u16 = 40;

/// What is to be shown beside the view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The list of steps, also where it has no column of its own.
    pub steps: bool,
    /// Rows of the ribbon.
    pub ribbon: u16,
    /// Columns of the list of steps, and of what is selected below it, where they were chosen.
    pub list: Option<u16>,
}

/// Areas of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regions {
    /// Two lines: what is open, and the figures.
    pub header: Rect,
    /// What the iteration is made of.
    pub ribbon: Rect,
    /// The list of steps; over the view where there is no room beside it.
    pub scenario: Option<Rect>,
    /// The line with the steps or their title, and the name of the view.
    pub titles: Rect,
    /// The open view.
    pub view: Rect,
    /// The line above the details.
    pub details_rule: Rect,
    /// What is selected.
    pub details: Rect,
    /// The views and the keys that help.
    pub bar: Rect,
    /// Whether there is no room for any view.
    pub is_bare: bool,
}

/// The areas for a terminal of `size`; `None` when it is too small.
pub fn regions(size: Size, wanted: Wanted) -> Option<Regions> {
    if size.width < BARE.width || size.height < BARE.height {
        return None;
    }
    let row = |y: u16, height: u16| Rect::new(0, y, size.width, height);
    let (header, ribbon) = (row(0, 2), row(2, wanted.ribbon));
    let titles = row(ribbon.bottom(), 1);
    let bar = row(size.height - 1, 1);
    let body = row(titles.bottom(), bar.y - titles.bottom());
    if size.width < LEAST.width || size.height < LEAST.height {
        // A table has a summary, titles and the chosen row.
        let said = (body.height - 3).min(2);
        let view = Rect { height: body.height - said, ..body };
        let details = row(view.bottom(), said);
        let details_rule = Rect { height: 0, ..details };
        return Some(Regions {
            header,
            ribbon,
            scenario: None,
            titles,
            view,
            details_rule,
            details,
            bar,
            is_bare: true,
        });
    }
    if size.width >= WITH_DETAILS.width && size.height >= WITH_DETAILS.height {
        let side = wanted.list.unwrap_or(SIDE).clamp(LEAST_SIDE, size.width / 2);
        let list = Rect { width: side - 1, height: body.height / 3, ..body };
        let details_rule = Rect { y: list.bottom(), height: 1, ..list };
        let details = Rect { y: details_rule.bottom(), height: body.bottom() - details_rule.bottom(), ..list };
        let view = Rect { x: side, width: size.width - side, ..body };
        let scenario = Some(list);
        return Some(Regions { header, ribbon, scenario, titles, view, details_rule, details, bar, is_bare: false });
    }
    let details = row(bar.y - details_height(size), details_height(size));
    let details_rule = row(details.y - 1, 1);
    let middle = Rect { height: details_rule.y - body.y, ..body };
    let has_list = size.width >= WIDE || size.width >= BESIDE && wanted.steps;
    let usual = (size.width * 2 / 7).clamp(28, 44);
    let list = has_list.then(|| wanted.list.unwrap_or(usual).clamp(LEAST_LIST, middle.width / 2));
    let view = list.map_or(middle, |list| Rect { x: list, width: middle.width - list, ..middle });
    let scenario = match list {
        Some(list) => Some(Rect { width: list - 1, ..middle }),
        None => wanted.steps.then_some(middle),
    };
    Some(Regions { header, ribbon, scenario, titles, view, details_rule, details, bar, is_bare: false })
}

fn details_height(size: Size) -> u16 {
    match size.height {
        0..=27 => 3,
        28..=44 => 5,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_wanted() -> impl Iterator<Item = Wanted> {
        let flags = [false, true];
        flags.into_iter().flat_map(|steps| [1, 2].map(|ribbon| Wanted { steps, ribbon, list: None }))
    }

    #[test]
    fn at_every_size_the_areas_tile_the_screen() {
        for (width, height) in (40..=300).flat_map(|width| (10..=100).map(move |height| (width, height))) {
            for wanted in all_wanted() {
                let it = regions(Size { width, height }, wanted).unwrap();
                let over = it.scenario.filter(|list| list.x == it.view.x);
                let list = it.scenario.filter(|_| over.is_none());
                let columns = it.view.width + list.map_or(0, |list| list.width + 1);
                assert_eq!(columns, width, "{width}×{height} {wanted:?}");
                let is_beside = it.details.width < it.view.x;
                let pane = it.details_rule.height + it.details.height;
                let beside = list.filter(|_| is_beside).map_or(it.view.height, |list| list.height + pane);
                assert_eq!(beside, it.view.height, "{width}×{height} {wanted:?}");
                let rows =
                    [it.header, it.ribbon, it.titles, it.view, it.bar].map(|area| area.height).iter().sum::<u16>();
                assert_eq!(rows + if is_beside { 0 } else { pane }, height, "{width}×{height} {wanted:?}");
                assert!(it.is_bare || it.view.height >= 6 - u16::from(height < 18), "{width}×{height}");
            }
        }
    }

    #[test]
    fn a_terminal_that_is_too_small_is_refused() {
        assert_eq!(regions(Size { width: 39, height: 40 }, Wanted::default()), None);
        assert_eq!(regions(Size { width: 200, height: 9 }, Wanted::default()), None);
    }

    #[test]
    fn steps_have_a_column_where_there_is_room_and_details_stand_below_them() {
        let at = |width, height| regions(Size { width, height }, Wanted { ribbon: 1, ..Wanted::default() }).unwrap();
        assert!(at(120, 40).scenario.is_none() && at(160, 40).scenario.is_some());
        let (design, large) = (at(120, 40), at(180, 45));
        assert!(design.details.y > design.view.y && large.details.y > large.scenario.unwrap().y);
        assert!(large.view.width > design.view.width && large.view.height > design.view.height);
    }
}

//! What the mouse does, by where it is.

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{Ran, run_line};
use crate::tui::app::{App, Focus, Press};
use crate::tui::layout::Regions;
use crate::tui::overlay::Overlay;
use crate::tui::views::{View, bar, roofline};

/// How much a turn of the wheel zooms.
const WHEEL: f64 = 0.8;
/// Two clicks within this time are a double click.
const DOUBLE_MS: u128 = 400;

/// Anything the mouse does.
pub fn click(app: &mut App, event: MouseEvent) -> Ran {
    if app.overlay.is_some() {
        return Ok(over_overlay(app, event));
    }
    let regions = app.regions();
    let (x, y) = (event.column, event.row);
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => down(app, &regions, x, y),
        MouseEventKind::Drag(MouseButton::Left) => {
            if app.view == View::Roofline
                && let Some(work) = app.workspace_mut()
            {
                roofline::drag(work, regions.view, (x, y));
            }
            if let Some(press) = app.press.filter(|press| press.on_view && app.view == View::Timeline) {
                let columns = i32::from(x) - i32::from(press.x);
                app.with_timeline(|_, extent, timeline| timeline.drag(extent, columns));
                app.press = Some(Press { x, y, is_drag: true, ..press });
            }
            Ok(Vec::new())
        }
        MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => scroll(app, &regions, event),
        MouseEventKind::ScrollLeft => run_line(app, "pan-left"),
        MouseEventKind::ScrollRight => run_line(app, "pan-right"),
        _ => Ok(Vec::new()),
    }
}

fn over_overlay(app: &mut App, event: MouseEvent) -> Vec<crate::tui::effect::Effect> {
    let by = match event.kind {
        MouseEventKind::ScrollUp => -3,
        MouseEventKind::ScrollDown => 3,
        _ => return Vec::new(),
    };
    match &mut app.overlay {
        Some(Overlay::Help { scroll } | Overlay::Messages { scroll } | Overlay::Why { scroll }) => {
            *scroll = scroll.saturating_add_signed(by);
        }
        Some(Overlay::Picker(picker)) => picker.move_by(by.signum()),
        _ => {}
    }
    Vec::new()
}

fn down(app: &mut App, regions: &Regions, x: u16, y: u16) -> Ran {
    let is_double = app.press.is_some_and(|press| {
        (press.x, press.y) == (x, y) && !press.is_drag && press.at.elapsed().as_millis() < DOUBLE_MS
    });
    let inside = |area: ratatui::layout::Rect| area.contains((x, y).into());
    let on_view = inside(regions.view);
    app.press = Some(Press { x, y, on_view, is_drag: false, at: std::time::Instant::now() });
    if let Some(line) = Some(regions.bar).filter(|&area| inside(area)).and_then(|area| bar::command_at(app, area, x)) {
        return run_line(app, line);
    }
    if let Some(area) = regions.scenario.filter(|&area| inside(area)) {
        app.focus = Focus::Scenario;
        app.choose_step((y - area.y) as usize);
        return if is_double { run_line(app, "edit") } else { Ok(Vec::new()) };
    }
    if on_view {
        app.focus = Focus::View;
        let (column, row) = (x - regions.view.x, y - regions.view.y);
        if app.view == View::Timeline {
            app.with_timeline(|scene, extent, timeline| timeline.click(scene, extent, column, row));
            return if is_double { run_line(app, "fit") } else { Ok(Vec::new()) };
        }
        if app.view == View::Roofline {
            let is_on_plots = app.workspace_mut().is_some_and(|work| roofline::press(work, regions.view, (x, y)));
            if !is_on_plots {
                app.choose_row(row as usize);
            }
            return if is_double { run_line(app, "try-roofs") } else { Ok(Vec::new()) };
        }
        app.choose_row(row as usize);
        return if is_double { app.open_row() } else { Ok(Vec::new()) };
    }
    Ok(Vec::new())
}

/// The wheel: zooms at the pointer, scrolls lanes over their names or with a modifier, and lists.
pub fn scroll(app: &mut App, regions: &Regions, event: MouseEvent) -> Ran {
    let is_up = event.kind == MouseEventKind::ScrollUp;
    let on_view = regions.view.contains((event.column, event.row).into());
    if app.view != View::Timeline || !on_view {
        return app.move_vertically(if is_up { -3 } else { 3 });
    }
    let column = event.column - regions.view.x;
    let with_modifier = event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::SHIFT);
    app.with_timeline(|scene, extent, timeline| {
        if with_modifier || column < extent.labels() {
            timeline.scroll_by(scene, extent, if is_up { -3 } else { 3 });
        } else {
            timeline.zoom_at(extent, column, if is_up { WHEEL } else { 1.0 / WHEEL });
        }
    });
    Ok(Vec::new())
}

//! What the mouse does, by where it is.

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use super::{CommandResult, choose_family, run_line, toggle_family};
use crate::tui::app::{App, Focus, MousePress};
use crate::tui::layout::Regions;
use crate::tui::overlay::{Overlay, Prompt, Purpose};
use crate::tui::views::{self, bar, pane, ribbon, steps};

/// Two clicks within this time are a double click.
const DOUBLE_MS: u128 = 400;

/// Anything the mouse does.
pub fn click(app: &mut App, event: MouseEvent) -> CommandResult {
    if app.overlay.is_some() {
        return Ok(over_overlay(app, event));
    }
    let regions = app.regions();
    let (x, y) = (event.column, event.row);
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => down(app, &regions, x, y),
        MouseEventKind::Drag(MouseButton::Left) => {
            if app.press.is_some_and(|press| press.on_splitter) {
                app.list_width = Some(x + 1);
                app.fit_extent();
            } else if let Some(press) = app.press {
                app.view.drag(app, regions.view, press, (x, y));
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

fn down(app: &mut App, regions: &Regions, x: u16, y: u16) -> CommandResult {
    let is_double = app.press.is_some_and(|press| {
        (press.x, press.y) == (x, y) && !press.is_drag && press.at.elapsed().as_millis() < DOUBLE_MS
    });
    let inside = |area: ratatui::layout::Rect| area.contains((x, y).into());
    let on_view = inside(regions.view);
    let list = regions.scenario.filter(|list| list.x < regions.view.x);
    let on_splitter = list.is_some_and(|list| x == list.right() && (list.y..regions.view.bottom()).contains(&y));
    app.press = Some(MousePress { x, y, on_view, on_splitter, is_drag: false, at: std::time::Instant::now() });
    if let Some(line) = Some(regions.bar).filter(|&area| inside(area)).and_then(|area| bar::command_at(app, area, x)) {
        return run_line(app, line);
    }
    if inside(regions.titles) && regions.scenario.is_none() {
        let command = app.workspace().and_then(|work| steps::command_at(work, &app.keymap, x));
        return command.map_or(Ok(Vec::new()), |command| run_line(app, command));
    }
    if inside(regions.ribbon) {
        let at = (x - regions.ribbon.x, y - regions.ribbon.y);
        let part = app.workspace().and_then(|work| ribbon::part_at(work, regions.ribbon.width, at));
        let is_chosen = app.workspace().is_some_and(|work| work.timeline.family == part);
        return choose_family(app, part.filter(|_| !is_chosen));
    }
    if inside(regions.details_rule) {
        let beside =
            app.workspace().and_then(|work| Some((work, pane::beside_title(app, work, regions.details_rule)?)));
        let family =
            beside.and_then(|(work, area)| app.view.family_beside_title(work, x.checked_sub(area.x)?, area.width));
        return family.map_or(Ok(Vec::new()), |family| toggle_family(app, family));
    }
    if inside(regions.details) && !regions.is_bare {
        return on_details(app, regions, (x, y));
    }
    if let Some(area) = regions.scenario.filter(|&area| inside(area)) {
        app.focus = Focus::Scenario;
        let first = app.workspace().map_or(0, |work| steps::first_shown(work, area.height));
        app.choose_step(first + (y - area.y) as usize);
        return if is_double { run_line(app, "edit") } else { Ok(Vec::new()) };
    }
    if on_view {
        app.focus = Focus::View;
        return app.view.press(app, regions.view, (x, y), is_double);
    }
    Ok(Vec::new())
}

/// Does what a key does in the pane that has the keys.
fn press(app: &mut App, key: &str) -> CommandResult {
    let line = key.parse().ok().and_then(|press| app.keymap.get(app.pane(), press)).map(str::to_owned);
    line.map_or(Ok(Vec::new()), |line| run_line(app, &line))
}

/// The keys named there, and on the timeline the families.
fn on_details(app: &mut App, regions: &Regions, at: (u16, u16)) -> CommandResult {
    let Some(work) = app.workspace() else { return Ok(Vec::new()) };
    if let Some(key) = pane::key_at(app, work, regions.details, at) {
        if let Some(line) = key.strip_prefix(':').filter(|line| !line.is_empty()) {
            app.overlay = Some(Overlay::Prompt(Prompt::new(Purpose::Command, &format!("{line} "))));
            return Ok(Vec::new());
        }
        return press(app, &key);
    }
    if !app.shows(&views::Timeline) || app.focus != Focus::View {
        return Ok(Vec::new());
    }
    let family = views::legend_at(work, pane::below_keys(app, work, regions.details), at);
    family.map_or(Ok(Vec::new()), |family| toggle_family(app, family))
}

/// The wheel: what the view makes of it; beside the view as over a list.
pub fn scroll(app: &mut App, regions: &Regions, event: MouseEvent) -> CommandResult {
    if !regions.view.contains((event.column, event.row).into()) {
        return app.move_vertically(if event.kind == MouseEventKind::ScrollUp { -3 } else { 3 });
    }
    let with_modifier = event.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::SHIFT);
    app.view.wheel(app, event.kind, event.column - regions.view.x, with_modifier)
}

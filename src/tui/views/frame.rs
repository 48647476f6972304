//! The whole screen: header, panes, bar, and what lies over them.

use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};

use crate::tui::app::{App, Focus};
use crate::tui::canvas::{Canvas, cut, wrapped};
use crate::tui::command::mark;
use crate::tui::layout::{self, Regions};
use crate::tui::overlay;
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;
use crate::tui::{ascii, loading};

use super::board::WhatIf;
use super::{bar, header, pane, ribbon, steps};

/// Draws all of `app` into `area` of `buffer`.
pub fn render(app: &App, area: Rect, buffer: &mut Buffer) {
    let mut canvas = Canvas::new(buffer, area, &app.theme);
    canvas.clear(Role::Background);
    match app.regions_of(Size { width: area.width, height: area.height }) {
        None => too_small(&mut canvas),
        Some(regions) => draw(app, &regions, &mut canvas),
    }
    if app.is_ascii {
        ascii::flatten(buffer);
    }
}

fn too_small(canvas: &mut Canvas<'_>) {
    let (width, height) = (layout::BARE.width, layout::BARE.height);
    let is = format!("this is {}×{}", canvas.width(), canvas.height());
    let sentence = format!("retime needs {width}×{height} cells; {is}. Make it larger, or press Q.");
    for (y, line) in wrapped(&sentence, canvas.width() as usize, "").iter().enumerate() {
        canvas.text(0, y as u16, line, Role::Warn);
    }
}

fn draw(app: &App, regions: &Regions, canvas: &mut Canvas<'_>) {
    match (&app.loading, app.workspace()) {
        (Some(loading), _) => loading::render(loading, canvas),
        (None, Some(work)) => {
            draw_panes(app, work, regions, canvas);
            if !regions.is_bare {
                bar::render(app, &mut part(canvas, regions.bar));
            }
        }
        (None, None) => {
            canvas.text(1, 1, "nothing is open", Role::Dim);
        }
    }
    overlay::render(app, canvas);
}

fn part<'a>(canvas: &'a mut Canvas<'_>, area: Rect) -> Canvas<'a> {
    canvas.part(area.x, area.y, area.width, area.height)
}

fn draw_panes(app: &App, work: &Workspace, regions: &Regions, canvas: &mut Canvas<'_>) {
    header::render(app, work, &mut part(canvas, regions.header));
    ribbon::render(work, &mut part(canvas, regions.ribbon));
    titles(app, work, regions, canvas);
    if regions.is_bare {
        if app.shows(&WhatIf) {
            app.view.render(app, work, &mut part(canvas, regions.view));
            let keys = app.view.keys(work);
            let keys: Vec<(&str, &str)> = keys.iter().map(|(key, what)| (*key, what.as_str())).collect();
            pane::hints(&keys, 1, &mut part(canvas, regions.bar));
        } else {
            bare(app, work, regions, canvas);
        }
        return bar::status(app, regions, canvas);
    }
    let is_over = regions.scenario.is_some_and(|list| list.x == regions.view.x);
    if !is_over {
        app.view.render(app, work, &mut part(canvas, regions.view));
        mark(app, work, regions.view, canvas);
    }
    if let Some(area) = regions.scenario {
        steps::list(work, &app.keymap, app.focus == Focus::Scenario, &mut part(canvas, area));
        mark(app, work, area, canvas);
        if !is_over {
            part(canvas, Rect { x: area.width, width: 1, ..regions.view }).column_rule(0);
        }
    }
    let mut rule = part(canvas, regions.details_rule);
    rule.rule(0, "");
    pane::title(app, work, &mut rule);
    if regions.details.right() < regions.view.x {
        canvas.text(regions.details.right(), regions.details_rule.y, "┤", Role::Border);
    }
    pane::details(app, work, &mut part(canvas, regions.details));
    bar::status(app, regions, canvas);
}

/// What there is where no view has room: what belongs beside the number, the steps, and what can be done.
fn bare(app: &App, work: &Workspace, regions: &Regions, canvas: &mut Canvas<'_>) {
    /// Lines of keys, below the steps.
    const KEYS: u16 = 2;
    let key = |command: &str| app.keymap.keys_of(command, None).into_iter().next().unwrap_or_default();
    let keys = BARE_COMMANDS.map(|(command, what)| (key(command), what));
    let keys: Vec<(&str, &str)> = keys.iter().map(|(key, what)| (key.as_str(), *what)).collect();
    let mut view = part(canvas, regions.view);
    let (width, height) = (view.width(), view.height());
    let caveats = header::caveats(work, true);
    let told = u16::from(!caveats.is_empty()).min(height.saturating_sub(KEYS));
    view.part(0, 0, width, told).line(1, 0, &caveats);
    let free = height.saturating_sub(told + KEYS);
    let listed = steps::brief_list(work, &mut view.part(0, told, width, free));
    let used = told + listed;
    pane::hints(&keys, height - used, &mut view.part(0, used, width, height - used));
    let (width, height) = (layout::LEAST.width, layout::LEAST.height);
    part(canvas, regions.bar).text(1, 0, &format!("views from {width}×{height} cells on"), Role::Faint);
}

/// The line with the steps, or their title above the list, and the name of the view; the one in focus bright.
fn titles(app: &App, work: &Workspace, regions: &Regions, canvas: &mut Canvas<'_>) {
    let mut line = part(canvas, regions.titles);
    line.rule(0, "");
    let role = |is_focus: bool| if is_focus { Role::Title } else { Role::Dim };
    let name = format!(" {} ", app.view.name());
    let is_view = app.focus == Focus::View;
    let Some(area) = regions.scenario else {
        let name_at = line.width().saturating_sub(name.chars().count() as u16 + 2);
        let room = if regions.is_bare { line.width() } else { name_at.saturating_sub(3) };
        if !regions.is_bare {
            line.text(name_at, 0, &name, role(is_view));
        }
        return steps::line(work, &app.keymap, &mut line.part(0, 0, room, 1));
    };
    line.text(2, 0, &cut(&steps::title(work), area.width.saturating_sub(3) as usize), role(!is_view));
    if area.x < regions.view.x {
        line.text(area.width, 0, "┬", Role::Border);
    }
    let x = if area.x < regions.view.x { regions.view.x + 2 } else { 20 };
    line.text(x, 0, &name, role(is_view));
    if let Some(remark) = app.view.remark(work) {
        line.right(x + 14, 0, 2, &[(&remark, Role::Faint)]);
    }
}

/// What is taken, and shown, where there is no room for a view.
pub const BARE_COMMANDS: [(&str, &str); 6] =
    [("command", "edit"), ("batch", "batch"), ("gpu", "GPU"), ("undo", "undo"), ("redo", "redo"), ("quit", "quit")];

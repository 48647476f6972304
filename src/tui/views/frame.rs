//! The whole screen: header, panes, bar, and what lies over them.

use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};

use crate::tui::app::{App, Focus};
use crate::tui::canvas::{Canvas, cut, wrapped};
use crate::tui::layout::{self, Regions};
use crate::tui::overlay::{self, Overlay};
use crate::tui::theme::Role;
use crate::tui::workspace::Workspace;
use crate::tui::{ascii, loading};

use super::{bar, header, pane, steps};

/// Draws all of `app` into `area` of `buffer`.
pub fn render(app: &App, area: Rect, buffer: &mut Buffer) {
    let mut canvas = Canvas::new(buffer, area, &app.theme);
    canvas.clear(Role::Background);
    let wants_strip = matches!(app.overlay, Some(Overlay::Batch(_)));
    match layout::regions(Size { width: area.width, height: area.height }, wants_strip) {
        None => too_small(&mut canvas),
        Some(regions) => draw(app, &regions, &mut canvas),
    }
    if app.is_ascii {
        ascii::flatten(buffer);
    }
}

fn too_small(canvas: &mut Canvas<'_>) {
    let (width, height) = (layout::LEAST.width, layout::LEAST.height);
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
            bar::render(app, &mut part(canvas, regions.bar));
        }
        (None, None) => {
            canvas.text(1, 1, "nothing is open", Role::Dim);
        }
    }
    overlay::render(app, regions, canvas);
}

fn part<'a>(canvas: &'a mut Canvas<'_>, area: Rect) -> Canvas<'a> {
    canvas.part(area.x, area.y, area.width, area.height)
}

fn draw_panes(app: &App, work: &Workspace, regions: &Regions, canvas: &mut Canvas<'_>) {
    header::render(work, &mut part(canvas, regions.header));
    if let Some(area) = regions.scenario_line {
        steps::line(work, &mut part(canvas, area));
    }
    titles(app, regions, canvas);
    if let Some(area) = regions.scenario {
        steps::list(work, app.focus == Focus::Scenario, &mut part(canvas, area));
        part(canvas, Rect { x: area.width, width: 1, ..area }).column_rule(0);
    }
    app.view.render(app, work, &mut part(canvas, regions.view));
    let mut rule = part(canvas, regions.details_rule);
    rule.rule(0, "");
    if !matches!(app.overlay, Some(Overlay::Batch(_))) {
        pane::title(app, work, &mut rule);
        pane::details(app, work, &mut part(canvas, regions.details));
    }
    bar::status(app, regions, canvas);
}

/// The line with the panes' titles; the one in focus bright.
fn titles(app: &App, regions: &Regions, canvas: &mut Canvas<'_>) {
    let mut line = part(canvas, regions.titles);
    line.rule(0, "");
    let role = |is_focus: bool| if is_focus { Role::Title } else { Role::Dim };
    if let Some(area) = regions.scenario {
        let title = app.workspace().map_or(" scenario ".to_owned(), steps::title);
        line.text(2, 0, &cut(&title, area.width.saturating_sub(3) as usize), role(app.focus == Focus::Scenario));
        line.text(area.width, 0, "┬", Role::Border);
    }
    let x = regions.view.x + 2;
    line.text(x, 0, &format!(" {} ", app.view.name()), role(app.focus == Focus::View));
    if let Some(remark) = app.workspace().and_then(|work| app.view.remark(work)) {
        line.right(x + 14, 0, 2, &[(&remark, Role::Faint)]);
    }
}

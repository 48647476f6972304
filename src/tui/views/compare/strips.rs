//! The reference's iteration above that of the chosen column, both from the left edge on and to one scale.

use crate::tui::app::App;
use crate::tui::canvas::{Canvas, cut};
use crate::tui::theme::Role;
use crate::tui::timeline::{Scene, Side, strip};
use crate::tui::workspace::Workspace;

use super::ColumnKind;

/// From this height of the view on there is room for them.
const FROM_HEIGHT: u16 = 14;
/// Columns behind the longer one, for the time of its end.
const BEHIND: u16 = 13;
/// Most columns of a name.
const NAME: u16 = 20;

/// How many lines they take.
pub fn lines(work: &Workspace, height: u16) -> u16 {
    let columns = work.compare.shown.as_ref().map_or(0, |shown| shown.board.columns.len());
    if height >= FROM_HEIGHT && columns > 1 && work.has_device() { 2 } else { 0 }
}

/// What is drawn of a column: its trace, and which times; `None` for a scenario that is not in force, whose times are not kept.
fn drawn<'a>(app: &'a App, work: &'a Workspace, kind: &ColumnKind) -> Option<(&'a Workspace, Scene<'a>, Side)> {
    match kind {
        ColumnKind::Base => Some((work, work.scene(), Side::Measured)),
        ColumnKind::Scenario(name) if name == work.named.current() => Some((work, work.scene(), Side::Simulated)),
        ColumnKind::Scenario(_) => None,
        ColumnKind::Trace(number) => {
            let other = app.workspaces.get(*number)?;
            Some((other, other.scene(), Side::Measured))
        }
    }
}

/// Draws them, with names of `names` columns.
pub fn render(app: &App, work: &Workspace, names: u16, canvas: &mut Canvas<'_>) {
    let Some(shown) = work.compare.shown.as_ref() else { return };
    let pair = [shown.board.reference, work.compare.column()].map(|at| {
        let title = shown.board.columns.get(at).map_or("", |side| side.figures.name.as_str());
        (title, drawn(app, work, &shown.kind(at)))
    });
    let length =
        |drawn: Option<(&Workspace, Scene<'_>, Side)>| drawn.and_then(|(_, scene, side)| strip::length(scene, side));
    let names = names.min(NAME);
    let (x, width) = (names + 2, canvas.width().saturating_sub(names + 2));
    let longest = pair.iter().filter_map(|&(_, drawn)| length(drawn)).fold(0.0, f64::max);
    let whole = longest * f64::from(width) / f64::from(width.saturating_sub(BEHIND).max(1));
    for (y, &(title, drawn)) in pair.iter().enumerate() {
        canvas.text(1, y as u16, &cut(title, names as usize), if y == 0 { Role::Measured } else { Role::Simulated });
        let mut row = canvas.part(x, y as u16, width, 1);
        match drawn {
            Some((work, scene, side)) if length(drawn).is_some() => {
                strip::render(scene, &work.timeline, side, whole, &mut row);
            }
            Some(_) => _ = row.text(0, 0, "no stream works in it", Role::Faint),
            None => _ = row.text(0, 0, "drawn when it is in force: A", Role::Faint),
        }
    }
}

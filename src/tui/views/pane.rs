//! The pane at the bottom: what is selected, or how to select.

use unicode_width::UnicodeWidthStr;

use crate::tui::app::{App, Focus};
use crate::tui::canvas::{Canvas, cut, wrap};
use crate::tui::theme::Role;
use crate::tui::timeline::Detail;
use crate::tui::workspace::Workspace;

/// From this width on details stand in two columns.
const TWO_COLUMNS: u16 = 100;

/// The title in the rule above the pane: the name of what is selected.
pub fn title(app: &App, work: &Workspace, rule: &mut Canvas<'_>) {
    let Some(name) = app.view.title(work) else { return };
    let room = rule.width().saturating_sub(6) as usize;
    rule.text(2, 0, &format!(" {} ", cut(&name, room)), Role::Strong);
}

/// What keys do to the scenario's steps.
const STEP_KEYS: [(&str, &str); 7] = [
    ("↑↓", "choose a step"),
    ("e", "change it"),
    ("x", "off or on"),
    ("d", "take it out"),
    ("K J", "earlier, later"),
    ("S", "name the steps"),
    ("tab", "to the view"),
];

/// Draws what there is to say about the selection.
pub fn details(app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
    match app.focus {
        Focus::Scenario => _ = hints(&STEP_KEYS, 0, canvas),
        Focus::View => app.view.details(app, work, canvas),
    }
}

/// The keys of a table, and below them what it does not say itself.
pub fn keys(own: &[(&'static str, String)], remark: Option<(String, Role)>, canvas: &mut Canvas<'_>) {
    let why = ("W", "why this number".to_owned());
    let keys: Vec<_> = own.iter().chain([&why]).map(|(key, what)| (*key, what.as_str())).collect();
    let below = hints(&keys, 0, canvas);
    let Some((text, role)) = remark else { return };
    let (width, height) = (canvas.width(), canvas.height().saturating_sub(below));
    flowing(&text, role, &mut canvas.part(0, below, width, height));
}

/// A text over as many lines as there are, cut at the end.
pub fn flowing(text: &str, role: Role, canvas: &mut Canvas<'_>) {
    let (width, room) = (canvas.width().saturating_sub(2) as usize, canvas.height() as usize);
    let mut lines = wrap(text, width);
    if let Some(last) = room.checked_sub(1).filter(|_| lines.len() > room) {
        lines[last] = format!("{} …", cut(&lines[last], width.saturating_sub(2)));
    }
    for (line, y) in lines.iter().take(room).zip(0..) {
        canvas.text(1, y, line, role);
    }
}

/// Labelled values: one per line, or packed where there is little room.
pub fn labelled(details: &[Detail], canvas: &mut Canvas<'_>) {
    if canvas.height() <= 2 { packed(details, canvas) } else { listed(details, canvas) }
}

/// Keys with what they do from line `y` on, over as many lines as they take; the line below.
pub fn hints(keys: &[(&str, &str)], mut y: u16, canvas: &mut Canvas<'_>) -> u16 {
    let mut x = 1_u16;
    for &(key, what) in keys {
        let width = (key.width() + 1 + what.width()) as u16;
        if x > 1 && x + width > canvas.width() {
            (x, y) = (1, y + 1);
        }
        x = canvas.line(x, y, &[(key, Role::Key), (" ", Role::Dim), (what, Role::Dim)]) + 3;
    }
    y + 1
}

/// How many lines [`hints`] takes.
pub fn hint_rows(keys: &[(&str, &str)], width: u16) -> u16 {
    let (mut x, mut y) = (1_u16, 0_u16);
    for &(key, what) in keys {
        let length = (key.width() + 1 + what.width()) as u16;
        if x > 1 && x + length > width {
            (x, y) = (1, y + 1);
        }
        x += length + 3;
    }
    y + 1
}

/// One detail per line, in one or two columns.
fn listed(details: &[Detail], canvas: &mut Canvas<'_>) {
    let columns = if canvas.width() >= TWO_COLUMNS { 2 } else { 1 };
    let width = canvas.width() / columns;
    let rows = details.len().div_ceil(columns as usize).max(1);
    for (index, detail) in details.iter().enumerate() {
        let (column, row) = ((index / rows) as u16, (index % rows) as u16);
        let mut cell = canvas.part(column * width, row, width, 1);
        cell.text(1, 0, detail.label, Role::Dim);
        cell.text(13, 0, &detail.value, Role::Text);
    }
}

/// As many details as fit, one after the other.
fn packed(details: &[Detail], canvas: &mut Canvas<'_>) {
    let (mut x, mut y) = (1_u16, 0_u16);
    for detail in details {
        let width = (detail.label.width() + detail.value.width() + 4) as u16;
        if x > 1 && x + width > canvas.width() {
            (x, y) = (1, y + 1);
        }
        x = canvas.line(x, y, &[(detail.label, Role::Dim), (" ", Role::Dim), (&detail.value, Role::Text)]);
        x += 3;
    }
}

/// Pieces one after the other, over as many lines as they take.
pub fn flow(pieces: &[(String, Role)], canvas: &mut Canvas<'_>) {
    let (mut x, mut y) = (1_u16, 0_u16);
    for (text, role) in pieces {
        if x > 1 && x + text.width() as u16 > canvas.width() {
            (x, y) = (1, y + 1);
        }
        x = canvas.text(x, y, text, *role);
    }
}

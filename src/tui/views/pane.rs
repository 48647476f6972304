//! The pane at the bottom: what is selected, or how to select.

use unicode_width::UnicodeWidthStr;

use crate::session::alike;
use crate::tui::app::{App, Focus};
use crate::tui::canvas::{Canvas, cut};
use crate::tui::theme::{Paint, Role};
use crate::tui::timeline::{Detail, describe};
use crate::tui::workspace::Workspace;

use super::View;
use super::messages::wrap;

/// From this width on details stand in two columns.
const TWO_COLUMNS: u16 = 100;

/// The title in the rule above the pane: the name of what is selected.
pub fn title(app: &App, work: &Workspace, rule: &mut Canvas<'_>) {
    let name = match app.view {
        View::Timeline => work.timeline.selected.map(|item| describe(work.scene(), item, None).0),
        View::Roofline => super::roofline::details(work).map(|(name, _)| name),
        _ => None,
    };
    let Some(name) = name else { return };
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
    match work.timeline.selected {
        _ if app.focus == Focus::Scenario => {
            hints(&STEP_KEYS, 0, canvas);
        }
        _ if app.view == View::Gaps => {
            flow(&super::gaps::chain(work), canvas);
        }
        _ if app.view == View::Compare => {
            flow(&super::compare::chosen(work), canvas);
        }
        _ if app.view == View::Tables => {
            flow(&super::tables::chosen(app, work), canvas);
        }
        _ if app.view == View::Ranks => {
            flow(&super::ranks::chosen(work), canvas);
        }
        _ if app.view == View::Roofline => {
            let details = super::roofline::details(work).map(|(_, details)| details).unwrap_or_default();
            if canvas.height() <= 2 { packed(&details, canvas) } else { listed(&details, canvas) }
        }
        Some(item) if app.view == View::Timeline => {
            let (_, details) = describe(work.scene(), item, work.prediction(item));
            if canvas.height() <= 2 { packed(&details, canvas) } else { listed(&details, canvas) }
        }
        None if app.view == View::Timeline => guide(work, canvas),
        _ => {
            let below = hints(&keys(app, work), 0, canvas);
            let Some((text, role)) = remark(app, work) else { return };
            let (width, room) =
                (canvas.width().saturating_sub(2) as usize, canvas.height().saturating_sub(below) as usize);
            let mut lines = wrap(&text, width);
            if let Some(last) = room.checked_sub(1).filter(|_| lines.len() > room) {
                lines[last] = format!("{} …", cut(&lines[last], width.saturating_sub(2)));
            }
            for (line, y) in lines.iter().take(room).zip(below..) {
                canvas.text(1, y, line, role);
            }
        }
    }
}

/// What stands below the keys: signs that are not explained in the table, or what it has no room for.
fn remark(app: &App, work: &Workspace) -> Option<(String, Role)> {
    const SIGNS: &str = "÷ model: measured over what the cost model says; ~ beyond what the model was fitted on; ▲ slow by more \
                         than the model errs";
    match app.view {
        View::Operators => Some((SIGNS.to_owned(), Role::Faint)),
        View::Advise if !work.table.is_other => {
            let advice = work.advice.advice.as_deref()?;
            let first = *alike(&advice.options).get(work.table.cursor)?.first()?;
            let option = &advice.options[first];
            let goal = advice.goal.as_ref().map(|goal| format!("goal {}", goal.sentence()));
            let steps = option.steps.join(" + ");
            let said: Vec<&str> = goal.iter().chain([&steps]).chain(&option.assumed).map(String::as_str).collect();
            Some((said.join(" · "), Role::Text))
        }
        _ => None,
    }
}

/// What the keys of a table do.
fn keys(app: &App, work: &Workspace) -> Vec<(&'static str, String)> {
    let arrangement = &work.listing.arrangement;
    let own: Vec<(&str, String)> = match app.view {
        View::Sweep if work.sweep.shown.is_none() => return vec![("v", "another knob".to_owned())],
        View::Sweep => vec![
            ("enter", "puts it in force".to_owned()),
            ("v", "another knob".to_owned()),
            ("V", "a second".to_owned()),
            ("r", "range".to_owned()),
            ("+ −", "points".to_owned()),
        ],
        View::Advise => {
            let other = if work.table.is_other { "options" } else { "sensitivity" };
            let goal = (":goal", "−20 %".to_owned());
            vec![("enter", "adds the row's steps".to_owned()), ("v", other.to_owned()), goal]
        }
        View::Operators => vec![
            ("enter", "opens or folds".to_owned()),
            ("o", "shows the longest on the timeline".to_owned()),
            ("v", format!("groups by {}", arrangement.grouping.next().name())),
            ("s", format!("sorts by {}", arrangement.order.next().name())),
            ("/", "filters".to_owned()),
        ],
        View::Path => vec![
            ("enter", "shows the row on the timeline".to_owned()),
            ("v", if arrangement.path_by_length { "in order" } else { "longest first" }.to_owned()),
            ("/", "filters".to_owned()),
        ],
        _ => vec![("enter", "shows the row on the timeline".to_owned())],
    };
    own.into_iter().chain([("W", "why this number".to_owned())]).collect()
}

/// Keys with what they do from line `y` on, over as many lines as they take; the line below.
fn hints<T: AsRef<str>>(keys: &[(&str, T)], mut y: u16, canvas: &mut Canvas<'_>) -> u16 {
    let mut x = 1_u16;
    for (key, what) in keys {
        let width = (key.width() + 1 + what.as_ref().width()) as u16;
        if x > 1 && x + width > canvas.width() {
            (x, y) = (1, y + 1);
        }
        x = canvas.line(x, y, &[(*key, Role::Key), (" ", Role::Dim), (what.as_ref(), Role::Dim)]) + 3;
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
fn flow(pieces: &[(String, Role)], canvas: &mut Canvas<'_>) {
    let (mut x, mut y) = (1_u16, 0_u16);
    for (text, role) in pieces {
        if x > 1 && x + text.width() as u16 > canvas.width() {
            (x, y) = (1, y + 1);
        }
        x = canvas.text(x, y, text, *role);
    }
}

/// What to press, and what the colours mean.
fn guide(work: &Workspace, canvas: &mut Canvas<'_>) {
    let keys: [(&str, &str); 7] = [
        ("←↑↓→", "choose an event"),
        ("w s", "zoom"),
        ("a d", "pan"),
        ("f", "fit"),
        ("0", "all"),
        ("/", "find"),
        ("W", "why"),
    ];
    let below = hints(&keys, 0, canvas);
    let paints: &[Paint] = if work.has_device() {
        &[
            Paint::Gemm,
            Paint::Conv,
            Paint::Attention,
            Paint::Embedding,
            Paint::Norm,
            Paint::Elementwise,
            Paint::Reduction,
            Paint::Movement,
            Paint::Optimizer,
            Paint::Transfer,
            Paint::Collective,
        ]
    } else {
        &[]
    };
    let host = [Paint::Forward, Paint::Backward, Paint::Optimizer, Paint::Host, Paint::Call];
    let (mut x, mut y) = (1_u16, below);
    for &paint in paints.iter().chain(host.iter().filter(|paint| !paints.contains(paint))) {
        let name = paint.key();
        if x + name.len() as u16 + 4 > canvas.width() {
            (x, y) = (1, y + 1);
        }
        let ink = canvas.theme().ink(paint);
        x = canvas.put(x, y, "■ ", ink);
        x = canvas.text(x, y, name, Role::Dim) + 2;
    }
}

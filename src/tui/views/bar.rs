//! The last line: views and keys, or the last message.

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use crate::tui::app::App;
use crate::tui::canvas::Canvas;
use crate::tui::message::{Level, Message};
use crate::tui::theme::Role;

use super::View;

/// A place on the bar: what is written, and the command that a click runs.
struct Spot {
    key: String,
    label: &'static str,
    line: &'static str,
    is_current: bool,
}

/// Draws the bar.
pub fn render(app: &App, canvas: &mut Canvas<'_>) {
    let width = canvas.width();
    let mut x = 1;
    for spot in spots(app, room(app, width)) {
        let role = if spot.is_current { Role::Strong } else { Role::Dim };
        x = canvas.line(x, 0, &[(spot.key.as_str(), Role::Key), (" ", Role::Dim), (spot.label, role)]);
        if spot.is_current {
            let underlined = ratatui::style::Style::new().add_modifier(ratatui::style::Modifier::UNDERLINED);
            canvas.restyle(x - spot.label.width() as u16, 0, spot.label.width() as u16, underlined);
        }
        x += 2;
    }
    if let Some(message) = &app.status {
        let role = if message.level == Level::Error { Role::Bad } else { Role::Accent };
        let text = shown(message);
        let from = width.saturating_sub(text.width() as u16 + 1);
        let start = from.max(1);
        let mut part = canvas.part(start, 0, width - start, 1);
        part.clear(Role::Panel);
        part.text(0, 0, &text, role);
    }
}

/// A message as it stands on the bar.
fn shown(message: &Message) -> String {
    let sign = if message.level == Level::Error { "✗ " } else { "" };
    format!(" {sign}{} ", message.text)
}

/// What a message leaves of the bar.
fn room(app: &App, width: u16) -> u16 {
    width.saturating_sub(app.status.as_ref().map_or(0, |message| shown(message).width() as u16 + 1))
}

/// The command under column `x` of the bar.
pub fn command_at(app: &App, area: Rect, x: u16) -> Option<&'static str> {
    let mut from = area.x + 1;
    for spot in spots(app, room(app, area.width)) {
        let width = (spot.key.width() + 1 + spot.label.width()) as u16;
        if (from..from + width).contains(&x) {
            return Some(spot.line);
        }
        from += width + 2;
    }
    None
}

/// What the bar holds: with less room keys go first, then the names of the views that are not open.
fn spots(app: &App, width: u16) -> Vec<Spot> {
    const KEYS: [(&str, &str); 8] = [
        ("help", "help"),
        ("command", "command"),
        ("palette", "find"),
        ("undo", "undo"),
        ("batch", "batch"),
        ("gpu", "gpu"),
        ("try", "edits"),
        ("quit", "quit"),
    ];
    let key = |command: &str| app.keymap.keys_of(command, None).into_iter().next().unwrap_or_default();
    let spot = |line: &'static str, label: &'static str, is_current| Spot { key: key(line), label, line, is_current };
    let views = |all: bool| {
        let has_ranks = app.workspace().is_some_and(|work| work.loaded.graph.rank_count() > 1);
        View::ALL.into_iter().filter(move |&view| view != View::Ranks || has_ranks).map(move |view| {
            let is_current = view == app.view;
            (view.name(), if all || is_current { view.name() } else { "" }, is_current)
        })
    };
    let build = |all: bool, keys: usize| -> Vec<Spot> {
        let views = views(all).map(|(line, label, is_current)| spot(line, label, is_current));
        views.chain(KEYS.iter().take(keys).map(|&(line, label)| spot(line, label, false))).collect()
    };
    let fits = |spots: &[Spot]| {
        let needed: usize = spots.iter().map(|spot| spot.key.width() + spot.label.width() + 3).sum();
        needed < width as usize
    };
    for (all, keys) in [(true, KEYS.len()), (true, 4), (true, 2), (true, 1), (false, 4), (false, 2), (false, 1)] {
        let spots = build(all, keys);
        if fits(&spots) {
            return spots;
        }
    }
    build(false, 0)
}

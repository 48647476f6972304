//! The pane at the bottom: what is selected, or how to select.

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use crate::tui::app::{App, Focus};
use crate::tui::canvas::{Canvas, cut, wrap};
use crate::tui::command::Pane;
use crate::tui::theme::Role;
use crate::tui::timeline::Detail;
use crate::tui::views::why;
use crate::tui::workspace::Workspace;

/// From this width on details stand in two columns.
const TWO_COLUMNS: u16 = 100;

/// The title in the rule above the pane: the name of what is selected.
pub fn title(app: &App, work: &Workspace, rule: &mut Canvas<'_>) {
    let Some(name) = shown_title(app, work, rule.width()) else { return };
    let end = rule.text(2, 0, &format!(" {name} "), Role::Strong);
    let left = room_beside(app, end, rule.width());
    app.view.beside_title(work, &mut rule.part(end + 2, 0, left, 1));
}

/// The title as far as there is room for it beside the last message.
fn shown_title(app: &App, work: &Workspace, width: u16) -> Option<String> {
    const LEAST: u16 = 12;
    let name = app.view.title(work)?;
    let room = room_beside(app, 2, width).max(LEAST).min(width.saturating_sub(6));
    Some(cut(&name, room as usize).into_owned())
}

/// Columns between `end` and the last message.
fn room_beside(app: &App, end: u16, width: u16) -> u16 {
    let message = app.status.as_ref().map_or(0, |message| message.text.width() as u16 + 6);
    width.saturating_sub(end + 4).saturating_sub(message)
}

/// The part of the rule at `area` that is right of the title.
pub fn beside_title(app: &App, work: &Workspace, area: Rect) -> Option<Rect> {
    let end = 4 + shown_title(app, work, area.width)?.width() as u16;
    Some(Rect { x: area.x + end + 2, width: room_beside(app, end, area.width), ..area })
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

/// The keys that do something where the user is, with what they do.
fn shown_keys(app: &App, work: &Workspace) -> Vec<(String, String)> {
    let own = |(key, what): (&'static str, String)| Some((own_keys(app, key)?, what));
    standard_keys(app, work).into_iter().filter_map(own).collect()
}

/// The keys of a hint as the user's keymap has them; `None` where no key does that.
fn own_keys(app: &App, hint: &'static str) -> Option<String> {
    let mut keys: Vec<String> = Vec::new();
    let tokens = tokens(hint);
    let mut is_own = true;
    for &(_, token) in &tokens {
        let sign = token.chars().next().and_then(|c| SIGNS.iter().find(|(sign, _)| *sign == c));
        let name = sign.map_or(token, |(_, name)| name);
        let is_command = name.len() > 1 && name.starts_with(':');
        let key = if is_command { Some(name.to_owned()) } else { app.keymap.in_place_of(name, app.pane()) };
        is_own &= key.as_deref() == Some(name);
        keys.extend(key);
    }
    let changed = || (!keys.is_empty()).then(|| keys.join(" "));
    if is_own { Some(hint.to_owned()) } else { changed() }
}

/// The same by the commands' own keys.
fn standard_keys(app: &App, work: &Workspace) -> Vec<(&'static str, String)> {
    if app.focus == Focus::Scenario {
        return STEP_KEYS.map(|(key, what)| (key, what.to_owned())).to_vec();
    }
    let mut keys = app.view.keys(work);
    if app.view.pane() == Pane::Board {
        return keys;
    }
    if !work.timeline.search.is_empty() {
        keys.insert(0, ("n N", "next, previous hit".to_owned()));
    }
    if keys.iter().all(|(key, _)| *key != "/") {
        keys.push(("/", "find".to_owned()));
    }
    keys.push(("W", "why".to_owned()));
    keys
}

/// Lines that keys may take in a pane of `height`.
fn most_hint_lines(height: u16) -> u16 {
    match height {
        0..=4 => 1,
        5..=15 => 2,
        _ => 8,
    }
}

/// The part of `area` below the keys.
pub fn below_keys(app: &App, work: &Workspace, area: Rect) -> Rect {
    let keys = shown_keys(app, work);
    let lines = placed(&keys, area.width, most_hint_lines(area.height)).last().map_or(0, |hint| hint.y + 1);
    Rect { y: area.y + lines, height: area.height.saturating_sub(lines), ..area }
}

/// The key that a cell of the pane at `area` names: of several that of the cell, beside them the first.
pub fn key_at(app: &App, work: &Workspace, area: Rect, (x, y): (u16, u16)) -> Option<String> {
    let (x, y) = (x - area.x, y - area.y);
    let keys = shown_keys(app, work);
    let is_there = |hint: &Hint<'_>| hint.y == y && (hint.x..hint.x + hint.width()).contains(&x);
    let hint = placed(&keys, area.width, most_hint_lines(area.height)).into_iter().find(is_there)?;
    let within = (x - hint.x) as usize;
    let tokens = tokens(hint.key);
    let pointed = tokens.iter().rev().find(|(at, _)| *at <= within && within < hint.key.width());
    let (_, name) = pointed.or(tokens.first())?;
    let sign = name.chars().next().and_then(|c| SIGNS.iter().find(|(sign, _)| *sign == c));
    Some(sign.map_or_else(|| (*name).to_owned(), |(_, name)| (*name).to_owned()))
}

/// The keys of a hint, each with its column: words, and signs one by one.
fn tokens(key: &str) -> Vec<(usize, &str)> {
    let mut tokens: Vec<(usize, &str)> = Vec::new();
    let mut ends_word = true;
    for (column, (at, c)) in key.char_indices().enumerate() {
        let is_sign = SIGNS.iter().any(|(sign, _)| *sign == c);
        let from = tokens.last().map_or(at, |(_, word)| word.as_ptr() as usize - key.as_ptr() as usize);
        match c {
            ' ' => ends_word = true,
            _ if ends_word || is_sign => {
                tokens.push((column, &key[at..at + c.len_utf8()]));
                ends_word = is_sign;
            }
            _ => {
                if let Some((_, word)) = tokens.last_mut() {
                    *word = &key[from..at + c.len_utf8()];
                }
            }
        }
    }
    tokens
}

/// Keys that are written by a sign.
const SIGNS: [(char, &str); 6] =
    [('←', "left"), ('→', "right"), ('↑', "up"), ('↓', "down"), ('+', "plus"), ('−', "minus")];

/// Draws the keys, and below them what there is to say about the selection.
pub fn details(app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
    let keys = shown_keys(app, work);
    let keys: Vec<(&str, &str)> = keys.iter().map(|(key, what)| (key.as_str(), what.as_str())).collect();
    let most = most_hint_lines(canvas.height());
    let below = hints(&keys, most, canvas);
    let (width, height) = (canvas.width(), canvas.height().saturating_sub(below));
    if app.focus == Focus::View {
        app.view.details(app, work, &mut canvas.part(0, below, width, height));
    }
    why_below(app, work, canvas);
}

/// Why the chosen number is what it is, where the pane has room below what is said.
fn why_below(app: &App, work: &Workspace, canvas: &mut Canvas<'_>) {
    const LEAST: u16 = 7;
    let is_used = |&y: &u16| (0..canvas.width()).any(|x| !canvas.is_blank(x, y));
    let top = (0..canvas.height()).rev().find(is_used).map_or(0, |y| y + 2);
    let (width, height) = (canvas.width(), canvas.height().saturating_sub(top));
    if height >= LEAST {
        let mut lower = canvas.part(0, top, width, height);
        lower.rule(0, "why");
        why::beyond_details(app, work, &mut lower.part(1, 1, width.saturating_sub(2), height - 1));
    }
}

/// A text over as many lines as there are, cut at the end.
pub fn flowing(text: &str, role: Role, canvas: &mut Canvas<'_>) {
    let (width, room) = (canvas.width().saturating_sub(2) as usize, canvas.height() as usize);
    let mut lines = wrap(text, width);
    if let Some(last) = room.checked_sub(1).filter(|_| lines.len() > room) {
        let longer = format!("{} …", lines[last]);
        lines[last] = if longer.width() > width { cut(&longer, width).into_owned() } else { longer };
    }
    for (line, y) in lines.iter().take(room).zip(0..) {
        canvas.text(1, y, line, role);
    }
}

/// Labelled values: one per line, or packed where there is little room.
pub fn labelled(details: &[Detail], canvas: &mut Canvas<'_>) {
    if canvas.height() <= 2 { packed(details, canvas) } else { listed(details, canvas) }
}

/// A key with what it does, and where that is written.
struct Hint<'a> {
    x: u16,
    y: u16,
    key: &'a str,
    what: &'a str,
}

impl Hint<'_> {
    fn width(&self) -> u16 {
        (self.key.width() + 1 + self.what.width()) as u16
    }
}

/// What stands at the end where there is no room for all keys.
const MORE: (&str, &str) = ("?", "more");
/// Columns between two hints.
const BETWEEN: u16 = 3;

/// Where keys are written, over as many lines as they take and `most` at most; the last tells where the rest is.
fn placed<K: AsRef<str>, T: AsRef<str>>(keys: &[(K, T)], width: u16, most: u16) -> Vec<Hint<'_>> {
    let mut hints = flowed(keys, width);
    if hints.last().is_none_or(|hint| hint.y < most) {
        return hints;
    }
    let last = most.saturating_sub(1);
    let mut more = Hint { x: 1, y: last, key: MORE.0, what: MORE.1 };
    let fits = |hint: &Hint<'_>| hint.y < last || hint.x + hint.width() + BETWEEN + more.width() <= width;
    hints.retain(|hint| hint.y <= last && fits(hint));
    if let Some(before) = hints.last().filter(|hint| hint.y == last) {
        more.x = before.x + before.width() + BETWEEN;
    }
    hints.push(more);
    hints
}

/// Keys one after the other, over as many lines as they take.
fn flowed<'a, K: AsRef<str>, T: AsRef<str>>(keys: &'a [(K, T)], width: u16) -> Vec<Hint<'a>> {
    let (mut x, mut y) = (1_u16, 0_u16);
    let place = |(key, what): &'a (K, T)| {
        let mut hint = Hint { x, y, key: key.as_ref(), what: what.as_ref() };
        if x > 1 && x + hint.width() > width {
            (x, y) = (1, y + 1);
            (hint.x, hint.y) = (x, y);
        }
        x += hint.width() + BETWEEN;
        hint
    };
    keys.iter().map(place).collect()
}

/// Keys with what they do, over as many lines as they take and `most` at most; how many.
pub fn hints(keys: &[(&str, &str)], most: u16, canvas: &mut Canvas<'_>) -> u16 {
    let mut lines = 0;
    for hint in placed(keys, canvas.width(), most) {
        canvas.line(hint.x, hint.y, &[(hint.key, Role::Key), (" ", Role::Dim), (hint.what, Role::Dim)]);
        lines = hint.y + 1;
    }
    lines
}

/// One detail per line, in one or two columns; what is longer goes on in the next line where there is room for all.
fn listed(details: &[Detail], canvas: &mut Canvas<'_>) {
    const LABEL: u16 = 13;
    let columns = if canvas.width() >= TWO_COLUMNS { 2 } else { 1 };
    let width = canvas.width() / columns;
    let parts = |detail: &Detail| wrap(&detail.value, width.saturating_sub(LABEL + 1) as usize);
    let wrapped: Vec<(&str, String)> = details
        .iter()
        .flat_map(|detail| std::iter::once(detail.label).chain(std::iter::repeat("")).zip(parts(detail)))
        .collect();
    let whole = || details.iter().map(|detail| (detail.label, detail.value.clone())).collect();
    let room = usize::from(canvas.height()) * columns as usize;
    // Of a long last one the rest may go.
    let begun = wrapped.len() - details.last().map_or(0, |last| parts(last).len());
    let mut lines: Vec<(&str, String)> = if begun < room { wrapped } else { whole() };
    if lines.len() > room {
        lines.truncate(room);
        if let Some((_, text)) = lines.last_mut() {
            text.push_str(" …");
        }
    }
    let rows = lines.len().div_ceil(columns as usize).max(1);
    for (index, (label, text)) in lines.iter().enumerate() {
        let (column, row) = ((index / rows) as u16, (index % rows) as u16);
        let mut cell = canvas.part(column * width, row, width, 1);
        cell.text(1, 0, label, Role::Dim);
        cell.text(LABEL, 0, text, Role::Text);
    }
}

/// As many details as fit, one after the other.
fn packed(details: &[Detail], canvas: &mut Canvas<'_>) {
    let (mut x, mut y) = (1_u16, 0_u16);
    for detail in details {
        let width = (detail.label.width() + detail.value.width() + 4) as u16;
        if x > 1 && x + width > canvas.width() {
            if y + 1 >= canvas.height() {
                return more(x, y, canvas);
            }
            (x, y) = (1, y + 1);
        }
        x = canvas.line(x, y, &[(detail.label, Role::Dim), (" ", Role::Dim), (&detail.value, Role::Text)]);
        x += 3;
    }
}

/// Says at (`x`, `y`), or where the line ends, that there is more.
fn more(x: u16, y: u16, canvas: &mut Canvas<'_>) {
    canvas.text(x.min(canvas.width().saturating_sub(1)), y, "…", Role::Dim);
}

/// Pieces one after the other, over as many lines as they take; how many.
pub fn flow(pieces: &[(String, Role)], canvas: &mut Canvas<'_>) -> u16 {
    let (mut x, mut y) = (1_u16, 0_u16);
    let width = canvas.width();
    for (text, role) in pieces {
        let is_long = text.width() + 2 > width as usize;
        let parts = if is_long { wrap(text, width.saturating_sub(2) as usize) } else { vec![text.clone()] };
        for part in parts {
            if x > 1 && x + part.width() as u16 > width {
                if y + 1 >= canvas.height() {
                    more(x, y, canvas);
                    return y + 1;
                }
                (x, y) = (1, y + 1);
            }
            x = canvas.text(x, y, &part, *role);
        }
    }
    if pieces.is_empty() { 0 } else { y + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_each_of_its_keys() {
        assert_eq!(tokens("w s"), [(0, "w"), (2, "s")]);
        assert_eq!(tokens("←→"), [(0, "←"), (1, "→")]);
        assert_eq!(tokens("enter"), [(0, "enter")]);
        assert_eq!(tokens("+ −"), [(0, "+"), (2, "−")]);
    }

    #[test]
    fn keys_stand_one_after_the_other_over_as_many_lines_as_they_take() {
        let keys = [("enter", "opens"), ("A", "adds"), ("W", "why")];
        let at = |most| placed(&keys, 22, most).iter().map(|hint| (hint.x, hint.y, hint.key)).collect::<Vec<_>>();
        assert_eq!(at(2), [(1, 0, "enter"), (15, 0, "A"), (1, 1, "W")]);
        // Of one line only the first has room beside the key that shows all.
        let keys = [("enter", "opens"), ("A", "adds"), ("W", "why it is so")];
        let hints = placed(&keys, 25, 1);
        assert_eq!(hints.iter().map(|hint| (hint.x, hint.key)).collect::<Vec<_>>(), [(1, "enter"), (15, "?")]);
    }
}

//! Draws what lies over the screen.

use unicode_width::UnicodeWidthStr;

use crate::tui::app::App;
use crate::tui::canvas::{Canvas, wrap};
use crate::tui::theme::Role;
use crate::tui::views::messages;
use crate::tui::views::{help, why};

use super::{Confirm, Overlay, Picker, Prompt, Purpose, complete};

/// Most completions shown at once.
const MOST_COMPLETIONS: usize = 8;

/// Draws the open overlay, if there is one, over the whole screen.
pub fn render(app: &App, canvas: &mut Canvas<'_>) {
    match &app.overlay {
        None => {}
        Some(Overlay::Prompt(prompt)) => draw_prompt(app, prompt, canvas),
        Some(Overlay::Picker(picker)) => draw_picker(picker, canvas),
        Some(Overlay::Confirm(confirm)) => draw_confirm(confirm, canvas),
        Some(Overlay::Help { scroll }) => {
            let mut area = boxed(canvas, 150, u16::MAX, "keys", "↑↓ scroll · esc closes · C-p finds any command");
            help::render(app, *scroll, &mut area);
        }
        Some(Overlay::Messages { scroll }) => {
            let mut area = boxed(canvas, 110, u16::MAX, "messages", "esc closes");
            messages::render(app, *scroll, &mut area);
        }
        Some(Overlay::Why { scroll }) => {
            let mut area = boxed(canvas, 110, u16::MAX, "why this number", "↑↓ scroll · esc closes");
            why::render(app, *scroll, &mut area);
        }
    }
}

/// A box in the middle, cleared and framed; its inside.
fn boxed<'a>(canvas: &'a mut Canvas<'_>, width: u16, height: u16, title: &str, hint: &str) -> Canvas<'a> {
    let width = width.min(canvas.width().saturating_sub(4));
    let height = height.min(canvas.height().saturating_sub(4));
    let (x, y) = ((canvas.width() - width) / 2, (canvas.height() - height) / 2);
    let mut area = canvas.part(x, y, width, height);
    area.clear(Role::Panel);
    area.frame(title, hint);
    canvas.part(x + 2, y + 1, width.saturating_sub(4), height.saturating_sub(2))
}

fn draw_prompt(app: &App, prompt: &Prompt, canvas: &mut Canvas<'_>) {
    let (width, bottom) = (canvas.width(), canvas.height().saturating_sub(1));
    let completions = if prompt.purpose == Purpose::Search { Vec::new() } else { complete(app, prompt.line()) };
    let shown = completions.len().min(MOST_COMPLETIONS) as u16;
    let error = prompt.error.as_deref().map_or(Vec::new(), |error| wrap(error, width.saturating_sub(4) as usize));
    let extra = error.len() as u16;
    let top = bottom.saturating_sub(shown + extra + 1);
    let mut area = canvas.part(0, top, width, bottom + 1 - top);
    area.clear(Role::Panel);
    let hints = match prompt.purpose {
        Purpose::Search => "↑↓ previous, next · enter keeps · esc goes back",
        _ if shown > 0 => "tab completes · enter runs · esc leaves",
        _ => "enter runs · esc leaves",
    };
    area.rule(0, hints);
    let first = prompt.chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(MOST_COMPLETIONS));
    let widest = completions.iter().map(|completion| completion.label.width()).max().unwrap_or(0).min(44) as u16;
    for (y, (index, completion)) in completions.iter().enumerate().skip(first).take(shown as usize).enumerate() {
        let y = y as u16 + 1;
        area.part(0, y, widest + 3, 1).text(2, 0, &completion.label, Role::Text);
        area.text(widest + 5, y, &completion.help, Role::Dim);
        if prompt.chosen == Some(index) {
            let selected = area.theme().style(Role::Selected);
            area.restyle(0, y, width, selected);
        }
    }
    for (y, line) in error.iter().enumerate() {
        area.text(2, shown + 1 + y as u16, line, Role::Bad);
    }
    draw_input(&mut area, prompt, shown + extra + 1);
}

/// The line with its cursor, scrolled so that the cursor is seen.
fn draw_input(area: &mut Canvas<'_>, prompt: &Prompt, y: u16) {
    let x = area.text(0, y, prompt.sign(), Role::Key);
    let room = area.width().saturating_sub(x + 1) as usize;
    let skipped = prompt.input.visual_scroll(room);
    let text: String = prompt.line().chars().skip(skipped).collect();
    area.text(x, y, &text, Role::Text);
    let cursor = x + (prompt.input.visual_cursor() - skipped) as u16;
    let style = area.theme().style(Role::Text).add_modifier(ratatui::style::Modifier::REVERSED);
    let symbol = area.symbol(cursor, y).to_owned();
    area.cell(cursor, y, &symbol, style);
    area.right(cursor + 2, y, 1, &[(prompt.said.as_str(), Role::Dim)]);
}

fn draw_picker(picker: &Picker, canvas: &mut Canvas<'_>) {
    const WIDTH: u16 = 110;
    let labels = picker.shown().map(|entry| entry.label.width()).max().unwrap_or(0).min(38) as u16;
    let inside = WIDTH.min(canvas.width().saturating_sub(4)).saturating_sub(4);
    let room = |hint: &str| inside.saturating_sub(labels + 5 + hint.width() as u16);
    let is_cut = picker.shown().any(|entry| entry.help.width() as u16 > room(&entry.hint));
    let height = (picker.shown().len() as u16 + if is_cut { 7 } else { 4 }).clamp(8, 26);
    let mut area = boxed(canvas, WIDTH, height, &picker.title, "type to find · ↑↓ choose · enter · esc");
    let width = area.width();
    let x = area.text(0, 0, "› ", Role::Key);
    let x = area.text(x, 0, picker.input.value(), Role::Text);
    let cursor = area.theme().style(Role::Text).add_modifier(ratatui::style::Modifier::REVERSED);
    area.cell(x, 0, " ", cursor);
    let whole = if is_cut { whole_help(picker, &area) } else { Vec::new() };
    let rows = area.height().saturating_sub(1 + whole.len() as u16) as usize;
    for (y, line) in whole.iter().enumerate() {
        area.text(2, 1 + rows as u16 + y as u16, line, Role::Dim);
    }
    let first = (picker.chosen + 1).saturating_sub(rows);
    if picker.shown().len() == 0 {
        area.text(2, 1, "nothing matches", Role::Dim);
    }
    for (y, (index, entry)) in picker.shown().enumerate().skip(first).take(rows).enumerate() {
        let y = y as u16 + 1;
        area.part(0, y, labels + 3, 1).text(2, 0, &entry.label, Role::Text);
        area.part(labels + 4, y, room(&entry.hint), 1).text(0, 0, &entry.help, Role::Dim);
        area.right(0, y, 0, &[(&entry.hint, Role::Key)]);
        if index == picker.chosen {
            area.text(0, y, "▸", Role::Accent);
            let selected = area.theme().style(Role::Selected);
            area.restyle(0, y, width, selected);
        }
    }
}

/// The help of the chosen entry in full, where entries have no room for theirs.
fn whole_help(picker: &Picker, area: &Canvas<'_>) -> Vec<String> {
    const MOST: usize = 3;
    let chosen = picker.shown().nth(picker.chosen).filter(|_| area.height() > MOST as u16 + 2);
    let mut lines = chosen.map_or(Vec::new(), |entry| wrap(&entry.help, area.width().saturating_sub(3) as usize));
    lines.truncate(MOST);
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

fn draw_confirm(confirm: &Confirm, canvas: &mut Canvas<'_>) {
    let width = confirm.question.width() as u16 + 8;
    let mut area = boxed(canvas, width.max(40), 5, "leave", "");
    area.text(1, 1, &confirm.question, Role::Text);
    area.line(1, 2, &[("y", Role::Key), (" leave   ", Role::Dim), ("n", Role::Key), (" stay", Role::Dim)]);
}

//! A part of the screen to write on: text that is clipped, by role.
//!
//! Knows no application state; every view writes through it.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use retime_core::intern::{is_printable, printable};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::theme::{Role, Theme};

/// Marks on one letter; no script has more [UAX #15, Stream-Safe Text Format].
const MOST_MARKS: usize = 30;

/// A rectangle of a buffer, with the theme to write in. Coordinates count from its upper left corner.
pub struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    theme: &'a Theme,
}

impl<'a> Canvas<'a> {
    /// The part of `buffer` inside `area`.
    pub fn new(buffer: &'a mut Buffer, area: Rect, theme: &'a Theme) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, area, theme }
    }

    /// Columns.
    pub fn width(&self) -> u16 {
        self.area.width
    }

    /// Rows.
    pub fn height(&self) -> u16 {
        self.area.height
    }

    /// All of it, in its own coordinates.
    pub fn area(&self) -> Rect {
        Rect::new(0, 0, self.area.width, self.area.height)
    }

    /// The theme.
    pub fn theme(&self) -> &'a Theme {
        self.theme
    }

    /// A part of it, in its own coordinates.
    pub fn part(&mut self, x: u16, y: u16, width: u16, height: u16) -> Canvas<'_> {
        let area = Rect::new(self.area.x.saturating_add(x), self.area.y.saturating_add(y), width, height);
        let area = area.intersection(self.area);
        Canvas { buffer: self.buffer, area, theme: self.theme }
    }

    /// Writes `text` at (`x`, `y`), cut at the right edge with an ellipsis; where the next text may begin.
    pub fn put(&mut self, x: u16, y: u16, text: &str, style: Style) -> u16 {
        if y >= self.area.height || x >= self.area.width {
            return x;
        }
        let room = (self.area.width - x) as usize;
        let text = shown(text);
        let (end, _) = self.buffer.set_stringn(self.area.x + x, self.area.y + y, cut(&text, room), room, style);
        end - self.area.x
    }

    /// Writes `text` in the style of `role`.
    pub fn text(&mut self, x: u16, y: u16, text: &str, role: Role) -> u16 {
        self.put(x, y, text, self.theme.style(role))
    }

    /// Writes pieces one after the other.
    pub fn line<T: AsRef<str>>(&mut self, x: u16, y: u16, pieces: &[(T, Role)]) -> u16 {
        pieces.iter().fold(x, |x, (text, role)| self.text(x, y, text.as_ref(), *role))
    }

    /// Writes pieces so that they end at the right edge less `margin`, when there is room from `from` on.
    pub fn right<T: AsRef<str>>(&mut self, from: u16, y: u16, margin: u16, pieces: &[(T, Role)]) -> bool {
        let width: usize = pieces.iter().map(|(text, _)| text.as_ref().width()).sum();
        let Some(x) = (self.area.width as usize).checked_sub(width + margin as usize) else { return false };
        let fits = x >= from as usize;
        if fits {
            self.line(x as u16, y, pieces);
        }
        fits
    }

    /// One cell.
    pub fn cell(&mut self, x: u16, y: u16, symbol: &str, style: Style) {
        if x < self.area.width && y < self.area.height {
            self.buffer[(self.area.x + x, self.area.y + y)].set_symbol(symbol).set_style(style);
        }
    }

    /// What is written in a cell; blank outside.
    pub fn symbol(&self, x: u16, y: u16) -> &str {
        let is_inside = x < self.area.width && y < self.area.height;
        if is_inside { self.buffer[(self.area.x + x, self.area.y + y)].symbol() } else { " " }
    }

    /// Whether a cell shows the background, not a bar.
    pub fn is_ground(&self, x: u16, y: u16) -> bool {
        if x >= self.area.width || y >= self.area.height {
            return false;
        }
        let cell = &self.buffer[(self.area.x + x, self.area.y + y)];
        let ground = self.theme.style(Role::Background).bg.unwrap_or_default();
        cell.bg == ground && !cell.modifier.contains(Modifier::REVERSED)
    }

    /// Whether nothing is drawn in a cell.
    pub fn is_blank(&self, x: u16, y: u16) -> bool {
        self.symbol(x, y) == " " && self.is_ground(x, y)
    }

    /// Inverts a cell; one that is inverted already, as bars are without colours, is marked by a symbol.
    pub fn invert(&mut self, x: u16, y: u16) {
        if x >= self.area.width || y >= self.area.height {
            return;
        }
        let cell = &mut self.buffer[(self.area.x + x, self.area.y + y)];
        if cell.modifier.contains(Modifier::REVERSED) {
            cell.set_symbol("◆");
        } else {
            cell.modifier.insert(Modifier::REVERSED);
        }
    }

    /// Writes a symbol over what is there, on the ground that is there.
    pub fn overlay(&mut self, x: u16, y: u16, symbol: &str, role: Role) {
        let style = self.theme.style(role);
        self.cell(x, y, symbol, Style { bg: None, ..style });
    }

    /// Adds `style` to what is there in `width` cells from (`x`, `y`).
    pub fn restyle(&mut self, x: u16, y: u16, width: u16, style: Style) {
        let area = Rect::new(self.area.x.saturating_add(x), self.area.y.saturating_add(y), width, 1);
        self.buffer.set_style(area.intersection(self.area), style);
    }

    /// Fills everything with blanks in the style of `role`.
    pub fn clear(&mut self, role: Role) {
        let ground = self.theme.style(Role::Background).patch(self.theme.style(role));
        for y in self.area.top()..self.area.bottom() {
            for x in self.area.left()..self.area.right() {
                self.buffer[(x, y)].reset();
                self.buffer[(x, y)].set_style(ground);
            }
        }
    }

    /// A horizontal line across row `y`, with `title` in it.
    pub fn rule(&mut self, y: u16, title: &str) {
        let style = self.theme.style(Role::Border);
        for x in 0..self.area.width {
            self.cell(x, y, "─", style);
        }
        if !title.is_empty() {
            self.text(2, y, &format!(" {title} "), Role::Dim);
        }
    }

    /// A vertical line at column `x`.
    pub fn column_rule(&mut self, x: u16) {
        let style = self.theme.style(Role::Border);
        for y in 0..self.area.height {
            self.cell(x, y, "│", style);
        }
    }

    /// A box along the edge with a title and, at the bottom, a hint.
    pub fn frame(&mut self, title: &str, hint: &str) {
        let (right, bottom) = (self.area.width.saturating_sub(1), self.area.height.saturating_sub(1));
        let style = self.theme.style(Role::Border);
        for y in [0, bottom] {
            for x in 0..=right {
                self.cell(x, y, "─", style);
            }
        }
        for x in [0, right] {
            for y in 0..=bottom {
                self.cell(x, y, "│", style);
            }
        }
        for (x, y, corner) in [(0, 0, "┌"), (right, 0, "┐"), (0, bottom, "└"), (right, bottom, "┘")] {
            self.cell(x, y, corner, style);
        }
        let mut inner = self.part(1, 0, right.saturating_sub(1), bottom + 1);
        if !title.is_empty() {
            inner.text(1, 0, &format!(" {title} "), Role::Title);
        }
        if !hint.is_empty() {
            inner.text(1, bottom, &format!(" {hint} "), Role::Dim);
        }
    }

    /// Dims `width` cells from (`x`, `y`): what is shown is not the latest.
    pub fn dim(&mut self, x: u16, y: u16, width: u16) {
        self.restyle(x, y, width, Style::new().add_modifier(Modifier::DIM));
    }
}

/// `text` as it may be sent to a terminal: nothing in it is a command, and every cell holds what a cell can hold.
fn shown(text: &str) -> Cow<'_, str> {
    if text.is_ascii() && is_printable(text) {
        return text.into();
    }
    let mut marks = 0;
    let is_kept = |c: &char| {
        marks = if c.width() == Some(0) { marks + 1 } else { 0 };
        marks <= MOST_MARKS
    };
    printable(text).chars().filter(is_kept).collect::<String>().into()
}

/// `text` in at most `room` columns, an ellipsis in place of its middle: names are told apart by both ends.
pub fn cut_middle(text: &str, room: usize) -> Cow<'_, str> {
    if text.width() <= room || room < 4 {
        return cut(text, room);
    }
    let mut end = text.len();
    let mut width = 0;
    for (at, c) in text.char_indices().rev() {
        width += c.width().unwrap_or(0);
        if width > room / 2 {
            break;
        }
        end = at;
    }
    let tail = &text[end..];
    format!("{}{tail}", cut(text, room - tail.width())).into()
}

/// `text` in at most `room` columns, an ellipsis in place of what is cut.
pub fn cut(text: &str, room: usize) -> Cow<'_, str> {
    if text.width() <= room {
        return text.into();
    }
    let mut kept = String::new();
    let mut width = 0;
    for c in text.chars() {
        let wide = c.width().unwrap_or(0);
        if width + wide + 1 > room {
            break;
        }
        width += wide;
        kept.push(c);
    }
    if room > 0 {
        kept.push('…');
    }
    kept.into()
}

/// `text` in lines of at most `width` columns; all but the first indented. A longer word is broken.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    wrapped(text, width, "  ")
}

/// `text` in lines of at most `width` columns, all but the first behind `indent`.
pub fn wrapped(text: &str, width: usize, indent: &str) -> Vec<String> {
    let options = textwrap::Options::new(width)
        .subsequent_indent(indent)
        .break_words(true)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    textwrap::wrap(&text, options).into_iter().map(Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_its_own_edge() {
        assert_eq!(cut("vectorized", 10), "vectorized");
        assert_eq!(cut("vectorized", 5), "vect…");
        assert_eq!(cut("字字字", 4), "字…");
        assert_eq!(cut("a", 0), "");
    }

    #[test]
    fn nothing_is_written_outside_a_part() {
        let theme = Theme::standard(super::super::theme::Depth::True);
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 2));
        let mut canvas = Canvas::new(&mut buffer, Rect::new(0, 0, 8, 2), &theme);
        let mut part = canvas.part(2, 0, 3, 1);
        part.text(1, 0, "long", Role::Text);
        part.text(0, 1, "below", Role::Text);
        part.cell(3, 0, "#", Style::new());
        let row: String = (0..8).map(|x| buffer[(x, 0)].symbol().to_owned()).collect();
        assert_eq!(row, "   l…   ");
        assert_eq!(buffer[(2, 1)].symbol(), " ");
    }
}

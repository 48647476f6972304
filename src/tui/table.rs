//! Tables: rows with columns, a cursor, sorting and a filter. One widget for all list views.

use unicode_width::UnicodeWidthStr;

use super::canvas::{Canvas, cut, cut_middle};
use super::theme::Role;
use super::timeline::Item;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its title.
    pub title: &'static str,
    /// Its width; 0 takes what is left.
    pub width: u16,
    /// Whether values end at the right.
    pub is_number: bool,
    /// Left out when the table is narrower than this.
    pub from_width: u16,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// What is shown.
    pub text: String,
    /// How.
    pub role: Role,
    /// Whether it gives way in the middle where there is no room: a name that its end tells apart.
    pub is_name: bool,
}

/// A row.
#[derive(Clone, Debug)]
pub struct TableRow {
    /// One value per column; one alone takes the whole width.
    pub values: Vec<Value>,
    /// What opening it does.
    pub open: Open,
}

/// What opening a row does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Open {
    /// Nothing.
    Nothing,
    /// Shows an event on the timeline.
    Item(Item),
    /// Runs a command.
    Line(String),
    /// Runs commands, one after another.
    Lines(Vec<String>),
}

/// A table to draw. Rows are made when they are shown.
pub struct Table<'a> {
    /// What it says, in one line above.
    pub summary: Vec<(String, Role)>,
    /// Its columns.
    pub columns: Vec<Column>,
    /// How many rows it has.
    pub count: usize,
    /// Makes a row.
    pub row: Box<dyn Fn(usize) -> TableRow + 'a>,
}

/// A value in the usual style.
pub fn value(text: impl Into<String>, role: Role) -> Value {
    Value { text: text.into(), role, is_name: false }
}

/// A name: its end tells it apart as much as its beginning.
pub fn name(text: impl Into<String>, role: Role) -> Value {
    Value { is_name: true, ..value(text, role) }
}

/// Where the user is in a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableState {
    /// The chosen row.
    pub cursor: usize,
    /// First row shown.
    pub scroll: usize,
    /// Whether the view's other rows are shown.
    pub is_other: bool,
}

/// A column that takes what is left and can be missed is not worth less than that.
const LEAST_REST: u16 = 8;

/// Lines above the rows: the summary and the titles.
pub const HEAD: u16 = 2;

impl TableState {
    /// Goes `by` rows down in a table of `count` rows shown in `height` lines.
    pub fn move_by(&mut self, by: isize, count: usize, height: u16) {
        self.cursor = self.cursor.saturating_add_signed(by).min(count.saturating_sub(1));
        self.keep_in_sight(height);
    }

    /// Scrolls so that the chosen row is one of those shown in `height` lines.
    pub fn keep_in_sight(&mut self, height: u16) {
        let shown = height.saturating_sub(HEAD).max(1) as usize;
        self.scroll = self.scroll.min(self.cursor).max((self.cursor + 1).saturating_sub(shown));
    }

    /// Chooses the row at `line` of the screen.
    pub fn choose_line(&mut self, line: usize, count: usize) {
        if let Some(row) = line.checked_sub(HEAD as usize) {
            self.cursor = (self.scroll + row).min(count.saturating_sub(1));
        }
    }
}

/// Draws `table`.
pub fn render(table: &Table<'_>, state: &TableState, canvas: &mut Canvas<'_>) {
    canvas.line(1, 0, fitting(&table.summary, canvas.width().saturating_sub(2) as usize));
    render_rows(table, state, canvas, 1);
}

/// The figures of a summary that there is room for: none is cut, what follows a separator goes whole.
pub fn fitting(summary: &[(String, Role)], room: usize) -> &[(String, Role)] {
    let begins = |text: &str| [" · ", ", "].iter().any(|separator| text.starts_with(separator));
    let mut width = 0;
    let mut whole = 0;
    for (at, (text, _)) in summary.iter().enumerate() {
        if at > 0 && begins(text) {
            whole = at;
        }
        width += text.width();
        if width > room {
            return &summary[..if whole > 0 { whole } else { summary.len() }];
        }
    }
    summary
}

/// The least rows, with rule and titles, that are worth showing below a table.
const LEAST_BELOW: u16 = 6;

/// How many lines of `height` a table takes that has another one below it.
pub fn height_above(count: usize, height: u16) -> u16 {
    let own = HEAD.saturating_add(count.max(1) as u16);
    if own.saturating_add(LEAST_BELOW) <= height { own } else { height }
}

/// Draws `other` under a rule with a title from line `top` on; its rows are only looked at.
pub fn render_below(title: &str, other: &Table<'_>, top: u16, canvas: &mut Canvas<'_>) {
    let height = canvas.height().saturating_sub(top);
    if height > 0 {
        canvas.rule(top, title);
        let state = TableState { cursor: usize::MAX, ..TableState::default() };
        let width = canvas.width();
        render_rows(other, &state, &mut canvas.part(0, top + 1, width, height - 1), 0);
    }
}

/// Draws the titles in line `top` and the rows below.
pub fn render_rows(table: &Table<'_>, state: &TableState, canvas: &mut Canvas<'_>, top: u16) {
    let columns = placed(table, canvas.width());
    for &(index, x, width) in &columns {
        let column = table.columns[index];
        put(canvas, (x, top), width, column.title, Role::Dim, column.is_number);
    }
    let shown = canvas.height().saturating_sub(top + 1) as usize;
    let scroll = state.scroll.min(table.count.saturating_sub(1));
    for (y, index) in (scroll..table.count).take(shown).enumerate() {
        let row = (table.row)(index);
        let line = y as u16 + top + 1;
        let is_chosen = index == state.cursor;
        for &(index, x, width) in &columns {
            let Some(value) = row.values.get(index) else { continue };
            let width = if row.values.len() == 1 { canvas.width().saturating_sub(x + 1) } else { width };
            let cut = if value.is_name { cut_middle } else { cut };
            let text = cut(&value.text, width as usize);
            put(canvas, (x, line), width, &text, value.role, table.columns[index].is_number);
        }
        if is_chosen {
            canvas.text(0, line, "▸", Role::Accent);
            let width = canvas.width();
            let selected = canvas.theme().style(Role::Selected);
            canvas.restyle(0, line, width, selected);
        }
    }
}

/// Index, place and width of each column that there is room for.
fn placed(table: &Table<'_>, width: u16) -> Vec<(usize, u16, u16)> {
    let shown: Vec<usize> =
        (0..table.columns.len()).filter(|&index| table.columns[index].from_width <= width).collect();
    let fixed: u16 = shown.iter().map(|&index| table.columns[index].width + 1).sum();
    let rest = width.saturating_sub(fixed + 1);
    let mut x = 1;
    let mut places = Vec::new();
    for index in shown {
        let own = table.columns[index].width;
        let wide = if own == 0 { rest } else { own };
        let may_go = own == 0 && table.columns[index].from_width > 0;
        if may_go && rest < LEAST_REST {
            continue;
        }
        places.push((index, x, wide));
        x += wide + 1;
    }
    places
}

/// The title at column `x` of a table of `width`.
pub fn title_at(table: &Table<'_>, width: u16, x: u16) -> Option<&'static str> {
    let places = placed(table, width).into_iter();
    let mut titles = places.filter(|&(_, from, wide)| (from..from + wide).contains(&x));
    titles.next().map(|(index, ..)| table.columns[index].title).filter(|title| !title.is_empty())
}

fn put(canvas: &mut Canvas<'_>, (x, y): (u16, u16), width: u16, text: &str, role: Role, at_right: bool) {
    let mut part = canvas.part(x, y, width, 1);
    let text = cut(text, width as usize);
    if !at_right || !part.right(0, 0, 0, &[(&text, role)]) {
        part.text(0, 0, &text, role);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_leaves_out_whole_figures_where_there_is_no_room() {
        let pieces = ["8 collectives", " · a rank waits ", "5.85 ms", ", exposed ", "196.1 µs"];
        let summary: Vec<(String, Role)> = pieces.iter().map(|text| ((*text).to_owned(), Role::Text)).collect();
        assert_eq!(fitting(&summary, 80), summary);
        assert_eq!(fitting(&summary, 54), summary, "to the last cell");
        assert_eq!(fitting(&summary, 53), &summary[..3]);
        assert_eq!(fitting(&summary, 20), &summary[..1]);
        assert_eq!(fitting(&summary, 3), summary, "the first is cut rather than nothing shown");
    }
}

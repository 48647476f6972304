//! CSV or TOML → rows of named cells, each with its place.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::Wrong;

/// What a row can say.
const KEYS: [&str; 10] =
    ["name", "type", "input", "filters", "kernel", "stride", "padding", "groups", "dtype", "algorithm"];

/// The largest size along a dimension.
const LARGEST: u64 = 1 << 31;

/// A cell with its place, both counted from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    line: usize,
    column: usize,
}

impl Cell {
    /// That this cell cannot be used.
    pub(super) fn wrong(&self, reason: impl Into<String>) -> Wrong {
        Wrong { line: self.line, column: self.column, reason: reason.into() }
    }

    /// Whole numbers above zero (`least` 1) or from zero, joined by `x`: `3`, `1x3x224x224`.
    pub(super) fn numbers(&self, least: u64) -> Result<Vec<u64>, Wrong> {
        let parsed = |part: &str| part.trim().parse::<u64>().ok();
        let number = |part: &str| parsed(part).filter(|value| (least..=LARGEST).contains(value));
        if self.text.split(['x', '×']).filter_map(parsed).any(|value| value > LARGEST) {
            return Err(self.wrong(format!("`{}`: a size beyond {LARGEST}", self.text)));
        }
        let numbers: Option<Vec<u64>> = self.text.split(['x', '×']).map(number).collect();
        numbers.ok_or_else(|| self.wrong(format!("`{}`: expected whole numbers from {least}, joined by x", self.text)))
    }
}

/// A layer as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    line: usize,
    cells: BTreeMap<String, Cell>,
}

impl Row {
    /// The cell called `key`, unless empty.
    pub(super) fn get(&self, key: &str) -> Option<&Cell> {
        self.cells.get(key).filter(|cell| !cell.text.is_empty())
    }

    /// The cell called `key`.
    pub(super) fn need(&self, key: &str) -> Result<&Cell, Wrong> {
        self.get(key).ok_or_else(|| Wrong { line: self.line, column: 1, reason: format!("this layer needs `{key}`") })
    }
}

fn known(key: &str) -> Result<(), String> {
    let expected = || format!("`{key}` is nothing a layer has; expected {}", KEYS.join(", "));
    KEYS.contains(&key).then_some(()).ok_or_else(expected)
}

/// Rows of a CSV with a line of titles; lines that are empty or begin with `#` are left out.
pub(super) fn from_csv(text: &str) -> Result<Vec<Row>, Wrong> {
    let is_content = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let mut lines = text.lines().enumerate().filter(|(_, line)| is_content(line)).map(|(at, line)| cells(at + 1, line));
    let titles = lines.next().unwrap_or_default();
    if !titles.iter().any(|title| title.text == "type") {
        let reason = format!("expected a line of titles with `type` among them; known are {}", KEYS.join(", "));
        return Err(Wrong { line: 1, column: 1, reason });
    }
    for (at, title) in titles.iter().enumerate() {
        known(&title.text).map_err(|reason| title.wrong(reason))?;
        if titles[..at].iter().any(|other| other.text == title.text) {
            return Err(title.wrong(format!("a second column `{}`", title.text)));
        }
    }
    lines.map(|row| row_of(&titles, row)).collect()
}

fn row_of(titles: &[Cell], cells: Vec<Cell>) -> Result<Row, Wrong> {
    if let Some(extra) = cells.get(titles.len()) {
        return Err(extra.wrong(format!("`{}` stands under no title", extra.text)));
    }
    let line = cells.first().map_or(1, |cell| cell.line);
    Ok(Row { line, cells: titles.iter().map(|title| title.text.clone()).zip(cells).collect() })
}

fn cells(line: usize, text: &str) -> Vec<Cell> {
    let mut column = 1;
    let cell = |part: &str| {
        let indent = part.chars().take_while(|c| c.is_whitespace()).count();
        let cell = Cell { text: part.trim().to_owned(), line, column: column + indent };
        column += part.chars().count() + 1;
        cell
    };
    text.split(',').map(cell).collect()
}

/// A `[[layer]]`.
type Layer = Spanned<BTreeMap<Spanned<String>, Spanned<toml::Value>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    layer: Vec<Layer>,
}

/// Rows of a TOML with a `[[layer]]` for each.
pub(super) fn from_toml(text: &str) -> Result<Vec<Row>, Wrong> {
    if text.starts_with("format = \"retime-scenario") {
        let reason = "is a scenario, not a trace: --scenario FILE puts it in force, on the screen :load FILE";
        return Err(wrong_at(text, 0, reason.to_owned()));
    }
    let file: File = toml::from_str(text)
        .map_err(|error| wrong_at(text, error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    let lines = Lines::of(text);
    file.layer.into_iter().map(|layer| layer_row(&lines, layer)).collect()
}

fn layer_row(lines: &Lines<'_>, layer: Layer) -> Result<Row, Wrong> {
    let line = lines.place(layer.span().start).0;
    let mut cells = BTreeMap::new();
    for (key, value) in layer.into_inner() {
        known(key.get_ref()).map_err(|reason| lines.wrong(key.span().start, reason))?;
        let (line, column) = lines.place(value.span().start);
        cells.insert(key.into_inner(), Cell { text: written(value.get_ref()), line, column });
    }
    Ok(Row { line, cells })
}

fn wrong_at(text: &str, byte: usize, reason: String) -> Wrong {
    Lines::of(text).wrong(byte, reason)
}

/// A value as a CSV has it: lists joined by `x`.
fn written(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(list) => list.iter().map(written).collect::<Vec<_>>().join("x"),
        other => other.to_string(),
    }
}

/// A text with where its lines begin.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    /// Line and column of a byte, from 1.
    ///
    /// # Complexity
    /// O(log lines + length of the line).
    fn place(&self, byte: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|&start| start <= byte);
        let start = self.starts[line - 1];
        let before = self.text.get(start..byte).unwrap_or(&self.text[start..]);
        (line, before.chars().count() + 1)
    }

    fn wrong(&self, byte: usize, reason: String) -> Wrong {
        let (line, column) = self.place(byte);
        Wrong { line, column, reason }
    }
}

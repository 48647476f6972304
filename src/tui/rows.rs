//! The rows of the open view as a file: in their order, narrowed and grouped as they are, with the figures of the edited
//! iteration.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::session::csv_field;

use retime_core::intern::printable;
use retime_core::units::DurNs;

use super::table::Table;

/// A form that rows are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// A line for each.
    Csv,
    /// An object for each, with what they are about.
    Json,
    /// A table in a text.
    Markdown,
}

impl RowFormat {
    /// What a file's ending asks for.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "csv" => Some(Self::Csv),
            "json" => Some(Self::Json),
            "md" | "markdown" => Some(Self::Markdown),
            _ => None,
        }
    }
}

/// What the rows are about.
#[derive(Clone, Debug)]
pub struct About<'a> {
    /// The view's name.
    pub view: &'a str,
    /// The trace's title.
    pub trace: &'a str,
    /// The steps in force.
    pub steps: Vec<String>,
    /// The iteration before and after them.
    pub iteration: (DurNs, DurNs),
    /// What the rows are narrowed to.
    pub only: Option<&'a str>,
}

/// Columns and rows as text.
struct Rows {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// All columns that say something: a bar alone is left out.
    fn of(table: &Table<'_>) -> Self {
        let rows: Vec<Vec<String>> = (0..table.count)
            .map(|row| (table.row)(row).values.into_iter().map(|value| value.text.trim().to_owned()).collect())
            .collect();
        let says = |column: usize| {
            let is_said = |row: &Vec<String>| row.get(column).is_some_and(|text| text.contains(char::is_alphanumeric));
            !table.columns[column].title.is_empty() || rows.iter().any(is_said)
        };
        let kept: Vec<usize> = (0..table.columns.len()).filter(|&column| says(column)).collect();
        let mut titles: Vec<String> = Vec::new();
        for &column in &kept {
            let title = Some(table.columns[column].title).filter(|title| !title.is_empty()).unwrap_or("note");
            let same = titles.iter().filter(|known| known.split(" #").next() == Some(title)).count();
            titles.push(if same == 0 { title.to_owned() } else { format!("{title} #{}", same + 1) });
        }
        let cells = |row: &Vec<String>| kept.iter().map(|&at| row.get(at).cloned().unwrap_or_default()).collect();
        Self { titles, rows: rows.iter().map(cells).collect() }
    }

    fn csv(&self) -> String {
        let line = |cells: &[String]| cells.iter().map(|cell| csv_field(cell)).collect::<Vec<_>>().join(",");
        let mut text = String::new();
        for cells in std::iter::once(&self.titles).chain(&self.rows) {
            let _ = writeln!(text, "{}", line(cells));
        }
        text
    }

    fn json(&self, about: &About<'_>) -> String {
        let object = |row: &Vec<String>| -> Map<String, Value> {
            self.titles.iter().cloned().zip(row.iter().map(|cell| Value::from(cell.as_str()))).collect()
        };
        let (before, after) = about.iteration;
        let document = json!({
            "view": about.view,
            "trace": about.trace,
            "steps": about.steps,
            "base_ns": before.0,
            "edited_ns": after.0,
            "only": about.only,
            "rows": self.rows.iter().map(object).collect::<Vec<_>>(),
        });
        format!("{document:#}\n")
    }

    fn markdown(&self, about: &About<'_>) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |", cells.join(" | "))
        };
        let (before, after) = about.iteration;
        let mut text = format!("# {}: {}\n\niteration {before}", about.trace, about.view);
        if !about.steps.is_empty() {
            let _ = write!(text, " ▶ {after} with {}", about.steps.join(" · "));
        }
        if let Some(only) = about.only {
            let _ = write!(text, "; only {only}");
        }
        let _ = write!(text, "\n\n{}\n|{}\n", line(&self.titles), " --- |".repeat(self.titles.len()));
        for row in &self.rows {
            let _ = writeln!(text, "{}", line(row));
        }
        text
    }
}

/// The rows of a table in `format`, safe for a terminal.
pub fn text(table: &Table<'_>, about: &About<'_>, format: RowFormat) -> String {
    let rows = Rows::of(table);
    let text = match format {
        RowFormat::Csv => rows.csv(),
        RowFormat::Json => rows.json(about),
        RowFormat::Markdown => rows.markdown(about),
    };
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

//! Comma-separated measurements: a header, then rows, with quoted fields. Errors name line and column.

use std::collections::HashMap;

use super::FitError;

/// A parsed file.
#[derive(Clone, Debug)]
pub struct Table {
    columns: HashMap<String, usize>,
    rows: Vec<(usize, Vec<String>)>,
}

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table,
    /// Line in the file, from 1.
    pub line: usize,
    fields: &'a [String],
}

impl Table {
    /// Parses `text`.
    ///
    /// # Errors
    /// No header, no rows, or a row with more fields than the header.
    pub fn parse(text: &str) -> Result<Self, FitError> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let Some((_, header)) = lines.next() else { return Err(FitError::Empty) };
        let names = split(header);
        let width = names.len();
        let columns = names.into_iter().enumerate().map(|(at, name)| (name.trim().to_owned(), at)).collect();
        let mut rows = Vec::new();
        for (at, line) in lines {
            let fields = split(line);
            if fields.len() > width {
                return Err(FitError::Width { line: at + 1, fields: fields.len(), columns: width });
            }
            rows.push((at + 1, fields));
        }
        if rows.is_empty() { Err(FitError::Empty) } else { Ok(Self { columns, rows }) }
    }

    /// Whether there is a column `name`.
    pub fn has(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }

    /// The rows in order.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, fields)| Row { table: self, line: *line, fields })
    }

    /// # Errors
    /// One of `names` is not a column.
    pub fn require(&self, names: &[&'static str]) -> Result<(), FitError> {
        match names.iter().find(|name| !self.has(name)) {
            Some(&column) => Err(FitError::MissingColumn { column }),
            None => Ok(()),
        }
    }
}

impl<'a> Row<'a> {
    /// The text in column `name`; empty when there is none.
    pub fn text(&self, name: &str) -> &'a str {
        self.table.columns.get(name).and_then(|&at| self.fields.get(at)).map_or("", |field| field.trim())
    }

    /// The number in column `column`.
    ///
    /// # Errors
    /// Not a finite number from 0.
    pub fn number(&self, column: &'static str) -> Result<f64, FitError> {
        let text = self.text(column);
        let bad = || FitError::BadNumber { line: self.line, column, value: text.to_owned() };
        text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0).ok_or_else(bad)
    }

    /// The number above 0 in column `column`.
    ///
    /// # Errors
    /// Not a finite number above 0.
    pub fn positive(&self, column: &'static str) -> Result<f64, FitError> {
        let bad = || FitError::BadNumber { line: self.line, column, value: self.text(column).to_owned() };
        self.number(column).ok().filter(|value| *value > 0.0).ok_or_else(bad)
    }

    /// The whole number in column `column`, or `default` when it is empty.
    ///
    /// # Errors
    /// Not a finite number from 0.
    pub fn size(&self, column: &'static str, default: u64) -> Result<u64, FitError> {
        if self.text(column).is_empty() { Ok(default) } else { self.number(column).map(|value| value as u64) }
    }
}

/// The fields of a line; inside quotes a comma is text and two quotes are one.
fn split(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            _ => field.push(c),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_may_hold_commas() {
        let table = Table::parse("a,b\n\"x, \"\"y\"\"\",2\n").unwrap();
        let row = table.rows().next().unwrap();
        assert_eq!((row.text("a"), row.number("b").unwrap()), ("x, \"y\"", 2.0));
    }

    #[test]
    fn errors_name_line_and_column() {
        let table = Table::parse("t\n1\nnan\n").unwrap();
        let error = table.rows().nth(1).unwrap().number("t").unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("`t`") && error.contains("nan"), "{error}");
        assert!(Table::parse("a,b\n").is_err());
        assert!(Table::parse("").is_err());
        assert!(Table::parse("a\n1,2\n").unwrap_err().to_string().contains("line 2"));
        assert!(table.require(&["x"]).unwrap_err().to_string().contains("`x`"));
    }
}

//! Comma-separated measurements: a header, then rows, with quoted fields. Errors name line and column.

use std::collections::HashMap;

use csv::{ReaderBuilder, StringRecord, Trim};

use super::FitError;

/// A parsed file.
#[derive(Clone, Debug)]
pub struct Table {
    columns: HashMap<String, usize>,
    /// Line from 1, and fields.
    rows: Vec<(usize, StringRecord)>,
}

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table,
    /// Line in the file, from 1.
    pub line: usize,
    fields: &'a StringRecord,
}

impl Table {
    /// Parses `text`.
    ///
    /// # Errors
    /// No header, no rows, two columns of one name, or a row with more fields than the header.
    pub fn parse(text: &str) -> Result<Self, FitError> {
        let mut reader = ReaderBuilder::new().flexible(true).trim(Trim::All).from_reader(text.as_bytes());
        let header = reader.headers().map_err(|_| FitError::Empty)?;
        let columns: HashMap<String, usize> = header.iter().map(str::to_owned).zip(0..).collect();
        let width = header.len();
        if let Some(column) = repeated(header) {
            return Err(FitError::RepeatedColumn { column: column.to_owned() });
        }
        let (mut rows, mut line, mut counted) = (Vec::new(), 1, 0);
        for row in reader.records() {
            let row = row.map_err(|_| FitError::Empty)?;
            // The reader's own count of lines does not see blank ones before a row.
            let start = row.position().map_or(0, |position| position.byte() as usize);
            let start = text.len() - text[start..].trim_start_matches(['\r', '\n']).len();
            line += text[counted..start].matches('\n').count();
            counted = start;
            if row.len() > width {
                return Err(FitError::Width { line, fields: row.len(), columns: width });
            }
            if row.len() > 1 || !row[0].is_empty() {
                rows.push((line, row));
            }
        }
        if rows.is_empty() { Err(FitError::Empty) } else { Ok(Self { columns, rows }) }
    }

    /// Whether there is a column `name`.
    pub fn has(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }

    /// The names of the columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let mut names: Vec<(&String, &usize)> = self.columns.iter().collect();
        names.sort_by_key(|&(_, at)| at);
        names.into_iter().map(|(name, _)| name.as_str())
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

/// The first name that two columns have. Columns without a name are read by nothing.
fn repeated(header: &StringRecord) -> Option<&str> {
    let is_there = |at: usize, name: &str| !name.is_empty() && header.iter().take(at).any(|other| other == name);
    header.iter().enumerate().find(|&(at, name)| is_there(at, name)).map(|(_, name)| name)
}

impl<'a> Row<'a> {
    /// The names of the table's columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &'a str> {
        self.table.columns()
    }

    /// The text in column `name`; empty when there is none.
    pub fn text(&self, name: &str) -> &'a str {
        self.table.columns.get(name).and_then(|&at| self.fields.get(at)).unwrap_or_default()
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
        self.number(column).ok().filter(|value| *value > 0.0).ok_or_else(|| self.bad(column))
    }

    /// That the value in column `column` cannot be.
    pub fn bad(&self, column: &'static str) -> FitError {
        FitError::BadNumber { line: self.line, column, value: self.text(column).to_owned() }
    }

    /// The whole number in column `column`, or `default` when it is empty.
    ///
    /// # Errors
    /// Not a whole number from 0.
    pub fn size(&self, column: &'static str, default: u64) -> Result<u64, FitError> {
        if self.text(column).is_empty() { Ok(default) } else { self.whole(column, 0) }
    }

    /// The whole number from 1 in column `column`.
    ///
    /// # Errors
    /// Not a whole number from 1.
    pub fn count(&self, column: &'static str) -> Result<u64, FitError> {
        self.whole(column, 1)
    }

    fn whole(&self, column: &'static str, least: u64) -> Result<u64, FitError> {
        let value = self.number(column)?;
        let is_whole = value.fract() == 0.0 && value >= least as f64;
        if is_whole { Ok(value as u64) } else { Err(self.bad(column)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_fields_may_hold_commas_and_blank_lines_are_passed_over() {
        let table = Table::parse("a,b\r\n\r\n  \n\"x, \"\"y\"\"\", 2\r\n\n\n3\n").unwrap();
        let rows: Vec<Row<'_>> = table.rows().collect();
        assert_eq!((rows[0].text("a"), rows[0].number("b").unwrap(), rows[0].line), ("x, \"y\"", 2.0, 4));
        assert_eq!((rows[1].text("a"), rows[1].text("b"), rows.len()), ("3", "", 2));
        assert_eq!(rows[1].line, 7);
    }

    #[test]
    fn errors_name_line_and_column() {
        let table = Table::parse("t\n1\nnan\n").unwrap();
        let error = table.rows().nth(1).unwrap().number("t").unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("`t`") && error.contains("nan"), "{error}");
        assert!(Table::parse("a,b\n").is_err());
        assert!(Table::parse("").is_err());
        assert!(Table::parse("a\n1,2\n").unwrap_err().to_string().contains("line 2"));
        assert!(Table::parse("a,b, a\n1,2,3\n").unwrap_err().to_string().contains("second column `a`"));
        assert!(Table::parse("a,,\n1,,\n").is_ok());
        let table = Table::parse("t\n64.0\n4.9\n0\n").unwrap();
        let counts: Vec<Option<u64>> = table.rows().map(|row| row.count("t").ok()).collect();
        let sizes: Vec<Option<u64>> = table.rows().map(|row| row.size("t", 1).ok()).collect();
        assert_eq!((counts, sizes), (vec![Some(64), None, None], vec![Some(64), None, Some(0)]));
        assert!(table.require(&["x"]).unwrap_err().to_string().contains("`x`"));
    }
}

//! Tables for people, CSV and JSON for programs: one value, three ways to write it.

use std::io::{self, Write};

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::cli::OutputArgs;
use crate::session::{column_for_people, csv_field};
use retime_core::engine::Summary;
use retime_core::intern::{is_printable, printable};

/// Rows under a header; numbers are right-aligned.
#[derive(Clone, Debug, Default)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new<T: AsRef<str>>(header: &[T]) -> Self {
        Self { header: header.iter().map(|cell| printable(cell.as_ref())).collect(), rows: Vec::new() }
    }

    /// Appends a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    /// How many rows there are.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The same with its first `count` rows only.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        Self { header: self.header.clone(), rows: self.rows.iter().take(count).cloned().collect() }
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.header.iter().map(|cell| cell.width()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        widths
    }

    /// The same for people: columns of ns and bytes (`duration_ns`, `memory_bytes`) in the units they are thought in.
    fn for_people(&self) -> Self {
        let mut table = self.clone();
        for (column, header) in table.header.iter_mut().enumerate() {
            let cells = table.rows.iter_mut().filter_map(|row| row.get_mut(column));
            *header = column_for_people(header, cells).to_owned();
        }
        table
    }

    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let widths = self.widths();
        let right: Vec<bool> = (0..widths.len()).map(|column| self.is_numeric(column)).collect();
        for row in std::iter::once(&self.header).chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column].saturating_sub(cell.width()));
                let (before, after) = if right[column] { (pad.as_str(), "") } else { ("", pad.as_str()) };
                line.extend([before, cell, after, "  "]);
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn is_numeric(&self, column: usize) -> bool {
        let numeric = |cell: &String| {
            cell.is_empty() || cell == "–" || cell.starts_with(|c: char| c.is_ascii_digit() || "+-−×≥".contains(c))
        };
        !self.rows.is_empty() && self.rows.iter().all(|row| row.get(column).is_none_or(numeric))
    }

    fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        let line = |cells: Vec<String>| cells.iter().map(|cell| csv_field(cell)).collect::<Vec<_>>().join(",");
        writeln!(out, "{}", line(self.header.clone()))?;
        for row in &self.rows {
            writeln!(out, "{}", line(row.clone()))?;
        }
        Ok(())
    }
}

/// Which names and meanings the fields of JSON have: it grows when one goes or changes, not when one is added.
pub(super) const SCHEMA: u32 = 2;

/// A result as a program reads it.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: u32,
    #[serde(flatten)]
    result: &'a T,
}

/// Writes a result the way it was asked for.
///
/// # Arguments
/// `json`: the whole result, an object; `text`: what people read; `csv`: rows with plain numbers.
///
/// # Errors
/// Standard output cannot be written; a reader that has gone away is no error.
pub fn write(
    output: &OutputArgs,
    json: &impl Serialize,
    text: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    csv: impl FnOnce() -> Table,
) -> io::Result<()> {
    let mut out = Gate { out: io::BufWriter::new(io::stdout().lock()), is_json: output.json };
    let result = if output.json {
        let document = Document { schema: SCHEMA, result: json };
        let mut writer = serde_json::Serializer::with_formatter(&mut out, Numbers);
        document.serialize(&mut writer).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else if output.csv {
        csv().write_csv(&mut out)
    } else {
        text(&mut out)
    };
    match result.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// How JSON has numbers: as usual, but zero without a sign, which sums of nothing have.
struct Numbers;

impl serde_json::ser::Formatter for Numbers {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_f64(writer, value + 0.0)
    }
}

/// What lies between results and a terminal: whatever a file put into them, no control sequence passes.
struct Gate<W> {
    out: W,
    /// Whether such characters are written the way JSON writes them, in place of their pictures.
    is_json: bool,
}

impl<W: Write> Write for Gate<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        for line in text.split_inclusive('\n') {
            let (words, end) = line.strip_suffix('\n').map_or((line, ""), |words| (words, "\n"));
            if is_printable(words) {
                self.out.write_all(words.as_bytes())?;
            } else if self.is_json {
                for c in words.chars() {
                    let mut buffer = [0; 4];
                    let c = c.encode_utf8(&mut buffer);
                    if is_printable(c) {
                        self.out.write_all(c.as_bytes())?;
                    } else {
                        c.encode_utf16().try_for_each(|unit| write!(self.out, "\\u{unit:04x}"))?;
                    }
                }
            } else {
                self.out.write_all(printable(words).as_bytes())?;
            }
            self.out.write_all(end.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Digits behind the point of a rate, at most.
const MOST_DIGITS: f64 = 12.0;

/// A rate with three digits at least.
pub fn rate(of: f64) -> String {
    let whole = if of > 0.0 { of.log10().floor() } else { 0.0 };
    let digits = (2.0 - whole).clamp(0.0, MOST_DIGITS) as usize;
    format!("{of:.digits$}")
}

/// Says below figures of the recorded window that the iteration takes another time as it repeats, where it does.
pub fn window_note(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    summary.window_note().map_or(Ok(()), |note| writeln!(out, "{note}"))
}

/// Writes a table for people.
///
/// # Errors
/// The writer's.
pub fn text(table: &Table, mut out: &mut dyn Write) -> io::Result<()> {
    table.for_people().write_text(&mut out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&["name", "ns"]);
        table.row(["a,\x1b[2J".to_owned(), "12".to_owned()]);
        table.row(["µs".to_owned(), "3".to_owned()]);
        table
    }

    #[test]
    fn columns_align_and_control_characters_do_not_pass() {
        let mut out = Vec::new();
        sample().write_text(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name    ns\na,␛[2J  12\nµs       3\n");
    }

    #[test]
    fn no_control_sequence_passes_in_any_form() {
        let pass = |text: &str, is_json| {
            let mut gate = Gate { out: Vec::new(), is_json };
            gate.write_all(text.as_bytes()).unwrap();
            String::from_utf8(gate.out).unwrap()
        };
        assert_eq!(pass("a\x1b[2J\n\u{9b}µ\u{202e}\n", false), "a␛[2J\n�µ�\n");
        assert_eq!(pass("\"\u{9b}µ\u{202e}\"\n", true), "\"\\u009bµ\\u202e\"\n");
    }

    #[test]
    fn people_read_times_and_sizes_in_their_units() {
        let mut table = Table::new(&["start_ns", "memory_bytes", "name"]);
        table.row(["-1500".to_owned(), "2048".to_owned(), "1500".to_owned()]);
        table.row(["–".to_owned(), "?".to_owned(), "b".to_owned()]);
        let mut out = Vec::new();
        text(&table, &mut out).unwrap();
        let lines = String::from_utf8(out).unwrap();
        assert_eq!(lines, "   start  memory    name\n-1.50 µs  2.00 KiB  1500\n       –  ?         b\n");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let mut out = Vec::new();
        sample().write_csv(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name,ns\n\"a,␛[2J\",12\nµs,3\n");
    }
}

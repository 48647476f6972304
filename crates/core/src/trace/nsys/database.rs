//! An SQLite database in memory, asked table by table. Must not know what the tables mean.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read as _;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

/// Where the header says how the file is journalled, and the value for a file that needs no other beside it.
const JOURNAL: std::ops::Range<usize> = 18..20;
const ROLLBACK: [u8; 2] = [1, 1];

/// A database with its tables and their columns.
pub(super) struct Database {
    connection: Connection,
    tables: BTreeMap<String, Vec<String>>,
}

impl Database {
    /// Opens a database that was read into memory; nothing it says is run.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn open(bytes: &[u8]) -> rusqlite::Result<Self> {
        let mut connection = Connection::open_in_memory()?;
        // A database that was written with a write-ahead log is refused without one, although it is whole.
        let (head, rest) = bytes.split_at(bytes.len().min(JOURNAL.end));
        let journal = if head.len() == JOURNAL.end { &ROLLBACK[..] } else { &[] };
        let head = &head[..head.len().min(JOURNAL.start)];
        connection.deserialize_read_exact("main", head.chain(journal).chain(rest), bytes.len(), true)?;
        connection.execute_batch("PRAGMA trusted_schema = OFF")?;
        let mut tables = BTreeMap::new();
        for table in texts(&connection, "SELECT name FROM sqlite_master WHERE type = ?1", "table")? {
            let columns = texts(&connection, "SELECT name FROM pragma_table_info(?1)", &table)?;
            tables.insert(table, columns);
        }
        Ok(Self { connection, tables })
    }

    /// Whether there is a table of this name.
    pub(super) fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    /// The tables that have a column of this name.
    pub(super) fn with_column<'a>(&'a self, column: &'a str) -> impl Iterator<Item = String> + 'a {
        let has = move |columns: &Vec<String>| columns.iter().any(|name| name == column);
        self.tables.iter().filter(move |(_, columns)| has(columns)).map(|(table, _)| table.clone())
    }

    /// How many rows a table has.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn count(&self, table: &str) -> rusqlite::Result<u64> {
        let count = format!("SELECT count(*) FROM {}", quoted(table));
        self.connection.query_row(&count, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
    }

    /// Hands the rows of a table to `take`, one after the other; none where there is no such table.
    ///
    /// # Arguments
    /// `columns`: what to read of each row, in this order; null where the table has no such column.
    ///
    /// # Errors
    /// The table is damaged; what came before was handed over.
    pub(super) fn each(&self, table: &str, columns: &[&str], mut take: impl FnMut(&Row<'_>)) -> rusqlite::Result<()> {
        let Some(present) = self.tables.get(table) else { return Ok(()) };
        let column = |&name: &&str| if present.iter().any(|it| it == name) { quoted(name) } else { "NULL".to_owned() };
        let list: Vec<String> = columns.iter().map(column).collect();
        let select = format!("SELECT {} FROM {}", list.join(", "), quoted(table));
        let mut statement = self.connection.prepare(&select)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            take(row);
        }
        Ok(())
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn texts(connection: &Connection, select: &str, about: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(select)?;
    statement.query_map([about], |row| row.get(0))?.collect()
}

/// A whole number; `None` for anything else.
pub(super) fn integer(row: &Row<'_>, at: usize) -> Option<i64> {
    match row.get_ref(at) {
        Ok(ValueRef::Integer(number)) => Some(number),
        _ => None,
    }
}

/// The whole number next to what a row says; `None` for anything but a number.
pub(super) fn rounded(row: &Row<'_>, at: usize) -> Option<i64> {
    const EXACT: f64 = (1_u64 << 53) as f64;
    match row.get_ref(at) {
        Ok(ValueRef::Integer(number)) => Some(number),
        Ok(ValueRef::Real(number)) if number.abs() <= EXACT => Some(number.round() as i64),
        _ => None,
    }
}

/// Whether a row says nothing there.
pub(super) fn is_null(row: &Row<'_>, at: usize) -> bool {
    matches!(row.get_ref(at), Ok(ValueRef::Null) | Err(_))
}

/// A text; `None` for anything else.
pub(super) fn text<'a>(row: &'a Row<'_>, at: usize) -> Option<Cow<'a, str>> {
    match row.get_ref(at) {
        Ok(ValueRef::Text(text)) => Some(String::from_utf8_lossy(text)),
        _ => None,
    }
}

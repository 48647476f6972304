//! Tables to read and cells to write; which files of a folder are meant.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use retime_core::engine::read_text_up_to;
use retime_core::reads;
use retime_core::units::{Bytes, DurNs};

use super::{EngineError, name_for_people};

/// Most bytes that a packed table may unpack to.
const TABLE_LIMIT: u64 = 1 << 30;

/// The text of a table, plain or gzip.
///
/// # Errors
/// As [`read_text`].
pub fn read_table(path: &Path) -> Result<String, EngineError> {
    if path.extension().is_none_or(|ending| ending != "gz") {
        return read_text_up_to(path, TABLE_LIMIT);
    }
    let fail = |error: io::Error| EngineError::Read { path: path.display().to_string(), reason: error.to_string() };
    reads::note(path);
    let mut text = String::new();
    let file = fs::File::open(path).map_err(fail)?;
    GzDecoder::new(file).take(TABLE_LIMIT).read_to_string(&mut text).map_err(fail)?;
    Ok(text)
}

/// Whether `path` leads to a pipe, to which nobody may ever write.
pub fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// A cell of a CSV file, in quotes where it needs them. What a spreadsheet would run as a formula begins with an apostrophe.
pub fn csv_field(cell: &str) -> String {
    let begins = cell.trim_start_matches(' ').starts_with(['=', '+', '-', '@', '\t', '\r']);
    let is_formula = begins && cell.trim().parse::<f64>().is_err();
    let cell = if is_formula { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

/// Brings the cells of a column of ns or bytes (`duration_ns`, `memory_bytes`) into the units they are thought in, and those of a
/// column of names into short.
///
/// # Returns
/// Its title without the unit.
pub fn column_for_people<'t, 'c>(title: &'t str, cells: impl Iterator<Item = &'c mut String>) -> &'t str {
    if title == "name" {
        cells.for_each(|cell| *cell = name_for_people(cell).into_owned());
        return title;
    }
    let Some((plain, unit)) = title.rsplit_once('_') else { return title };
    let shown: fn(u64, bool) -> String = match unit {
        "ns" => |value, negative| DurNs(value as i64 * if negative { -1 } else { 1 }).to_string(),
        "bytes" => |value, _| Bytes(value).to_string(),
        _ => return title,
    };
    for cell in cells {
        let digits = cell.trim_start_matches(['-', '−']);
        if let Ok(value) = digits.parse() {
            *cell = shown(value, digits.len() < cell.len());
        }
    }
    plain
}

/// Each file, and for each folder: the folder itself when it holds files, and the same for the folders in it.
pub fn folders_of_traces(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in paths {
        let Ok(entries) = fs::read_dir(path) else {
            found.push(path.clone());
            continue;
        };
        let mut entries: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        entries.sort();
        let (folders, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.is_dir());
        if !files.is_empty() {
            found.push(path.clone());
        }
        found.extend(folders_of_traces(&folders));
    }
    found
}

/// The file at `path`; of a folder the CSV files in it, plain or gzip, and in the folders below, in order.
pub fn tables_in(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_path_buf()];
    }
    let entries = fs::read_dir(path).into_iter().flatten();
    let mut entries: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    let ends = |name: &Path, ending: &str| name.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending));
    let packed = |entry: &Path| ends(entry, "gz") && entry.file_stem().is_some_and(|stem| ends(Path::new(stem), "csv"));
    let is_table = |entry: &PathBuf| ends(entry, "csv") || packed(entry);
    let tables = entries.into_iter().filter(|entry| entry.is_dir() || is_table(entry));
    tables.flat_map(|entry| tables_in(&entry)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_no_formula_unless_it_is_a_number() {
        let cells = ["=1+1", "+12.5", "-3e-4", "-x", "@a,b", "\tb", "a\"b", "−5", " =1"];
        assert_eq!(
            cells.map(csv_field),
            ["'=1+1", "+12.5", "-3e-4", "'-x", "\"'@a,b\"", "'\tb", "\"a\"\"b\"", "−5", "' =1"]
        );
    }
}

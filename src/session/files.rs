//! Writing files: to a temporary neighbour first, then renamed; an existing file is kept unless told otherwise.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use super::{EngineError, SessionError, read_text};

/// Most bytes that a packed table may unpack to.
const TABLE_LIMIT: u64 = 1 << 30;

/// The text of a table, plain or gzip.
///
/// # Errors
/// As [`read_text`].
pub fn read_table(path: &Path) -> Result<String, EngineError> {
    if path.extension().is_none_or(|ending| ending != "gz") {
        return read_text(path);
    }
    let fail = |error: io::Error| EngineError::Read { path: path.display().to_string(), reason: error.to_string() };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(fail)?;
    GzDecoder::new(file).take(TABLE_LIMIT).read_to_string(&mut text).map_err(fail)?;
    Ok(text)
}

/// A cell of a CSV file, in quotes where it needs them.
pub fn csv_field(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
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

/// Adds a line to a file that is there.
///
/// # Errors
/// The system refuses.
pub fn append(path: &Path, line: &str) -> Result<(), SessionError> {
    let written = fs::OpenOptions::new().append(true).open(path).and_then(|mut file| writeln!(file, "{line}"));
    written.map_err(|error| SessionError::Write { path: path.display().to_string(), reason: error.to_string() })
}

/// Why an existing file is not written.
pub(super) const EXISTS: &str =
    "exists already; name another file, or replace it: --force, on the screen `!` after the command's name";

/// Writes `contents` to `path` in one step.
///
/// # Errors
/// The file exists and `replace` is not set, or the system refuses.
pub fn write_new(path: &Path, contents: &[u8], replace: bool) -> Result<(), SessionError> {
    let fail = |reason: String| SessionError::Write { path: path.display().to_string(), reason };
    if !replace && path.exists() {
        return Err(fail(EXISTS.to_owned()));
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = fs::File::create(&part).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&part, path)).map_err(|error| {
        let _ = fs::remove_file(&part);
        fail(format!("cannot write it: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_is_kept_unless_told_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        write_new(&path, b"one", false).unwrap();
        let refused = write_new(&path, b"two", false).unwrap_err().to_string();
        assert!(refused.contains("exists already"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write_new(&path, b"two", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

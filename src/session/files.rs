//! Tables to read and cells to write; which files of a folder are meant.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use retime_core::engine::read_text_up_to;
use retime_core::reads;
use retime_core::units::{Bytes, DurNs};

use super::{EngineError, name_for_people};

/// Most bytes that a packed table may unpack to.
const TABLE_LIMIT: u64 = 1 << 30;

/// The text of a table, plain or gzip.
///
/// # Errors
/// As [`read_text_up_to`], and what is packed is damaged, or followed by what is no gzip.
pub fn read_table(path: &Path) -> Result<String, EngineError> {
    if path.extension().is_none_or(|ending| !ending.eq_ignore_ascii_case("gz")) {
        return read_text_up_to(path, TABLE_LIMIT);
    }
    let fail = |reason: String| EngineError::Read { path: path.display().to_string(), reason };
    reads::note(path);
    let file = fs::File::open(path).map_err(|error| fail(error.to_string()))?;
    unpacked_up_to(file, TABLE_LIMIT).map_err(fail)
}

/// The text that `packed` unpacks to, all members of it.
///
/// # Errors
/// Why it is not had: damage, more than `limit` bytes, or no UTF-8.
fn unpacked_up_to(packed: impl Read, limit: u64) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = MultiGzDecoder::new(packed).take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| format!("damaged gzip, or something behind it that is none: {error}"))?;
    if bytes.len() as u64 > limit {
        return Err(format!("unpacks to more than {}", Bytes(limit)));
    }
    let text = String::from_utf8(bytes).map_err(|_| "this is no text (not UTF-8)".to_owned())?;
    Ok(if let Some(marked) = text.strip_prefix('\u{feff}') { marked.to_owned() } else { text })
}

/// Why `path` is not read while the screen runs: nobody may ever write to a pipe, and a terminal has the keys that are for the screen.
/// `None` for all else.
pub fn why_not_on_screen(path: &Path) -> Option<&'static str> {
    if path.as_os_str() == "-" {
        return Some("standard input can be given when the program starts, not here");
    }
    #[cfg(unix)]
    {
        use std::io::IsTerminal;
        use std::os::unix::fs::FileTypeExt;
        let kind = fs::metadata(path).ok()?.file_type();
        if kind.is_fifo() {
            return Some("a pipe can be given when the program starts, not here");
        }
        if kind.is_char_device() && fs::File::open(path).is_ok_and(|device| device.is_terminal()) {
            return Some("a terminal is no file to read: the keys pressed there are for the screen");
        }
    }
    None
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
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn a_packed_table_is_read_to_its_end_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let read = |bytes: &[u8]| {
            let path = folder.path().join("table.csv.gz");
            fs::write(&path, bytes).unwrap();
            read_table(&path).map_err(|error| error.to_string())
        };
        let members = [gzip("m,n\n1,2\n"), gzip("3,4\n")].concat();
        assert_eq!(read(&members).unwrap(), "m,n\n1,2\n3,4\n", "every member");
        assert_eq!(read(&gzip("\u{feff}m,n\n")).unwrap(), "m,n\n", "without the mark of the byte order");
        let behind = read(&[gzip("m,n\n1,2\n"), b"what is no gzip".to_vec()].concat()).unwrap_err();
        assert!(behind.contains("table.csv.gz") && behind.contains("damaged gzip"), "{behind}");
        assert!(read(&members[..members.len() - 9]).is_err(), "cut off");
    }

    #[test]
    fn a_table_that_unpacks_to_more_than_the_limit_is_refused_and_one_of_the_limit_is_read() {
        let packed = gzip("m,n\n1,2\n");
        assert_eq!(unpacked_up_to(packed.as_slice(), 8).unwrap(), "m,n\n1,2\n");
        assert!(unpacked_up_to(packed.as_slice(), 7).unwrap_err().contains("unpacks to more than 7"));
    }

    #[test]
    fn a_cell_is_no_formula_unless_it_is_a_number() {
        let cells = ["=1+1", "+12.5", "-3e-4", "-x", "@a,b", "\tb", "a\"b", "−5", " =1"];
        assert_eq!(
            cells.map(csv_field),
            ["'=1+1", "+12.5", "-3e-4", "'-x", "\"'@a,b\"", "'\tb", "\"a\"\"b\"", "−5", "' =1"]
        );
    }
}

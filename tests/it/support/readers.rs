//! The scanner and the reference reader on the same text.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use retime_core::trace::{self, OpenError, Trace};

/// Both readers on `text`; `None` where one refuses.
pub fn both(text: &[u8]) -> (Result<Trace, OpenError>, Result<Trace, OpenError>) {
    (trace::load_bytes(text, "case.json"), trace::load_bytes_strictly(text, "case.json"))
}

pub fn assert_equal(scanned: &Trace, strict: &Trace, what: &str) {
    // Told apart column by column, since printing a whole trace helps nobody.
    assert_eq!(scanned.events.len(), strict.events.len(), "{what}");
    for id in scanned.events.ids() {
        assert_eq!(scanned.events.get(id), strict.events.get(id), "{what}: {id:?}");
    }
    assert_eq!(scanned.tracks, strict.tracks, "{what}");
    assert!(scanned.names == strict.names, "{what}: names differ");
    assert!(scanned.operators == strict.operators, "{what}: operators differ");
    assert!(scanned.kernels == strict.kernels && scanned.copies == strict.copies, "{what}: device work differs");
    assert!(scanned.collectives == strict.collectives && scanned.syncs == strict.syncs, "{what}: waits differ");
    assert!(scanned.memory == strict.memory && scanned.tensor_args == strict.tensor_args, "{what}: arguments differ");
    let metadata = |t: &Trace| (t.origin, t.rank, t.devices.clone(), t.has_shapes, t.events_in_file, t.format);
    assert_eq!(metadata(scanned), metadata(strict), "{what}");
    assert_eq!(scanned.skipped_events, strict.skipped_events, "{what}");
}

/// All JSON files below `folder`, plain or packed, in order.
pub fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let is_json = |path: &PathBuf| [".json", ".json.gz"].iter().any(|ending| path.to_string_lossy().ends_with(ending));
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.into_iter().partition(|path| path.is_dir());
    let below = folders.iter().flat_map(|folder| documents(folder));
    files.into_iter().filter(is_json).chain(below).collect()
}

/// Holds both readers to the same trace of a file; `false` where the reference reader refuses it.
pub fn agree(path: &Path) -> bool {
    let mut text = std::fs::read(path).unwrap();
    if text.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut text);
        flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut text).unwrap();
    }
    let (scanned, Ok(strict)) = both(&text) else { return false };
    assert_equal(&scanned.unwrap(), &strict, &path.display().to_string());
    true
}

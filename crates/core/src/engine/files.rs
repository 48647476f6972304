//! Files that the engine reads beside traces.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use crate::reads;
use crate::units::Bytes;

use super::EngineError;

/// Most bytes of a file that people write: scripts, scenarios, device files.
const MOST_TEXT: u64 = 64 << 20;

/// The text of a file that people write.
///
/// # Errors
/// It cannot be read, is no UTF-8, or is larger than 64 MiB.
pub fn read_text(path: &Path) -> Result<String, EngineError> {
    read_text_up_to(path, MOST_TEXT)
}

/// The text of a file of at most `limit` bytes.
///
/// # Errors
/// It cannot be read, is no UTF-8, or is larger.
pub fn read_text_up_to(path: &Path, limit: u64) -> Result<String, EngineError> {
    let fail = |reason: String| EngineError::Read { path: path.display().to_string(), reason };
    reads::note(path);
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(limit.saturating_add(1)).read_to_end(&mut bytes));
    read.map_err(|error| fail(error.to_string()))?;
    if bytes.len() as u64 > limit {
        return Err(fail(format!("larger than {}", Bytes(limit))));
    }
    let text = String::from_utf8(bytes).map_err(|_| fail("this is no text (not UTF-8)".to_owned()))?;
    Ok(if let Some(marked) = text.strip_prefix('\u{feff}') { marked.to_owned() } else { text })
}

/// When a file was last changed; `None` where that is not known.
pub(super) fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|facts| facts.modified()).ok()
}

//! Files that the engine reads beside traces.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use super::EngineError;

/// The text of a file.
///
/// # Errors
/// It cannot be read, or is no UTF-8.
pub fn read_text(path: &Path) -> Result<String, EngineError> {
    fs::read_to_string(path)
        .map_err(|error| EngineError::Read { path: path.display().to_string(), reason: error.to_string() })
}

/// When a file was last changed; `None` where that is not known.
pub(super) fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|facts| facts.modified()).ok()
}

//! What several test files share.

use std::path::{Path, PathBuf};

/// A file or folder among the shared traces; `None`, said loudly, where it is not there.
pub fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces").join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is not here", path.display());
    None
}

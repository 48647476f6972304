//! Which files this process has read. Who writes files asks here, so that nothing that was read is written over.
//!
//! Must not know what was in them, nor touch the file system.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static READ: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// `path` is read.
pub fn note(path: &Path) {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if !read.contains(path) {
        read.insert(path.to_owned());
    }
}

/// `path`, which this process wrote and looked at again, is no input.
pub fn forget(path: &Path) {
    READ.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
}

/// What was read so far, by the paths that it was asked for with.
pub fn all() -> Vec<PathBuf> {
    READ.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
}

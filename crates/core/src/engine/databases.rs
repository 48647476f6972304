//! Databases of host overheads from files: each is read once, and again when the file has changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::cost::Overheads;
use crate::scenario::Databases;

use super::EngineError;
use super::files::{modified, read_text};

/// A source of databases that reads files.
pub(super) fn of_files() -> Databases {
    type Known = BTreeMap<String, (Option<SystemTime>, Arc<Overheads>)>;
    let known: Mutex<Known> = Mutex::default();
    Databases::new(move |file| {
        let changed = modified(Path::new(file));
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, database)) = known.get(file).filter(|(at, _)| *at == changed && changed.is_some()) {
            return Ok(Arc::clone(database));
        }
        let database = Arc::new(read(Path::new(file)).map_err(|error| error.to_string())?);
        known.insert(file.to_owned(), (changed, Arc::clone(&database)));
        Ok(database)
    })
}

/// The database of host overheads in a file.
///
/// # Errors
/// It cannot be read, or is no such database.
pub fn read(path: &Path) -> Result<Overheads, EngineError> {
    let fail = |reason: String| EngineError::Read { path: path.display().to_string(), reason };
    Overheads::from_json(&read_text(path)?).map_err(|error| fail(error.to_string()))
}

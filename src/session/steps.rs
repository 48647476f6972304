//! Scenario files as users write them, held against what the engine knows.

use std::path::Path;

use retime_core::scenario::SavedScenario;

use super::{Engine, EngineError, read_text};

/// A scenario file with the fingerprint of its trace.
///
/// # Errors
/// The file cannot be read, is not of that form, or a step cannot be read.
pub fn read_scenario(engine: &Engine, path: &Path) -> Result<SavedScenario, EngineError> {
    let fail = |reason: String| EngineError::Read { path: path.display().to_string(), reason };
    let saved = SavedScenario::from_toml(&read_text(path)?).map_err(|error| fail(error.to_string()))?;
    saved.check(engine.known()).map_err(|error| fail(error.to_string()))?;
    Ok(saved)
}

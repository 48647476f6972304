//! Steps and scenario files as users write them, held against what the engine knows.

use std::path::Path;

use retime_core::scenario::{Known, SavedScenario, Step, read_step};

use super::{Engine, SessionError, read_text};

impl Engine {
    /// Reads a step that names only what the engine knows.
    ///
    /// # Errors
    /// See [`read_step`].
    pub fn step(&self, line: &str) -> Result<Step, SessionError> {
        Ok(read_step(line, self.known())?)
    }

    fn known(&self) -> Known<'_> {
        Known { catalog: &self.catalog, links: self.models.links(), databases: &self.databases }
    }

    /// A scenario file with the fingerprint of its trace.
    ///
    /// # Errors
    /// The file cannot be read, is not of that form, or a step cannot be read.
    pub fn read_scenario(&self, path: &Path) -> Result<SavedScenario, SessionError> {
        let fail = |reason: String| SessionError::Read { path: path.display().to_string(), reason };
        let saved = SavedScenario::from_toml(&read_text(path)?).map_err(|error| fail(error.to_string()))?;
        saved.check(self.known()).map_err(|error| fail(error.to_string()))?;
        Ok(saved)
    }
}

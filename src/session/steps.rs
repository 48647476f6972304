//! Steps and scenario files as users write them, held against what the engine knows.

use std::path::Path;

use crate::scenario::{SavedScenario, Step, read_step};

use super::{Engine, SessionError, read_overheads, read_text};

impl Engine {
    /// Reads a step and checks that the devices and interconnects it names are known, and a database of overheads can be read.
    ///
    /// # Errors
    /// See [`read_step`]; the database.
    pub fn step(&self, line: &str) -> Result<Step, SessionError> {
        let step = read_step(line, &self.catalog, self.models.links())?;
        let own = step.to_string();
        if let Some(file) = own.strip_prefix("overheads ").filter(|source| !["measured", "mean"].contains(source)) {
            read_overheads(Path::new(file))?;
        }
        Ok(step)
    }

    /// A scenario file with the fingerprint of its trace.
    ///
    /// # Errors
    /// The file cannot be read, is not of that form, or a step cannot be read.
    pub fn read_scenario(&self, path: &Path) -> Result<SavedScenario, SessionError> {
        let fail = |reason: String| SessionError::Read { path: path.display().to_string(), reason };
        let saved = SavedScenario::from_toml(&read_text(path)?).map_err(|error| fail(error.to_string()))?;
        saved.check(&self.catalog, self.models.links()).map_err(|error| fail(error.to_string()))?;
        for step in &saved.scenario.steps {
            self.step(&step.to_string()).map_err(|error| fail(error.to_string()))?;
        }
        Ok(saved)
    }
}

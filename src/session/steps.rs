//! Steps and scenario files as users write them, held against what the engine knows.

use std::path::Path;

use crate::device::UnknownDevice;
use crate::scenario::text::Words;
use crate::scenario::{SavedScenario, Step, StepError, parse_step};

use super::{Engine, SessionError, read_overheads, read_text};

/// Steps whose first argument is a device.
const ON_DEVICE: [&str; 2] = ["swap-gpu", "place-on-gpu"];

impl Engine {
    /// Reads a step and checks that a device it names is known, and a database of overheads can be read.
    ///
    /// # Errors
    /// See [`parse_step`]; an unknown device, with the nearest ones; the database.
    pub fn step(&self, line: &str) -> Result<Step, SessionError> {
        let step = parse_step(line)?;
        let own = step.to_string();
        if let (true, Some(device)) = (ON_DEVICE.contains(&step.transform.name()), own.split_whitespace().nth(1)) {
            let unknown = |error: UnknownDevice| StepError::at(argument_column(line), error.to_string());
            self.catalog.find(device.trim_matches('"')).map_err(unknown)?;
        }
        if let Some(link) = own.strip_prefix("swap-link ").filter(|link| self.models.links().find(link).is_none()) {
            let known = self.models.links().iter().map(|link| link.id.as_str());
            return Err(StepError::unknown(argument_column(line), "interconnect", link, known).into());
        }
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
        for step in &saved.scenario.steps {
            self.step(&step.to_string()).map_err(|error| fail(error.to_string()))?;
        }
        Ok(saved)
    }
}

/// Where the first argument of a step stands.
fn argument_column(line: &str) -> usize {
    let mut words = Words::new(line);
    words.next();
    words.column()
}

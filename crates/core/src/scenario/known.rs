//! What steps name besides tasks: devices, interconnects and files of host overheads, held against those there are.

use crate::device::{Catalog, Links};

use super::context::{Context, Databases};
use super::file::{FileError, SavedScenario};
use super::grammar::{Kind, SOURCES, Value};
use super::step::{Step, parse_placed};
use super::text::StepError;

/// What steps may name.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Devices.
    pub catalog: &'a Catalog,
    /// Interconnects.
    pub links: &'a Links,
    /// Databases of host overheads.
    pub databases: &'a Databases,
}

/// Reads a step that names only what is known.
///
/// # Errors
/// See [`parse_step`](super::parse_step); an unknown device or interconnect, with its column and the nearest; a file that
/// cannot be used.
pub fn read_step(line: &str, known: Known<'_>) -> Result<Step, StepError> {
    let (step, reading) = parse_placed(line)?;
    for (argument, value) in reading.form.arguments.iter().zip(&reading.values) {
        if let Some((Value::Text(name), column)) = value {
            known.check(argument.kind, name, *column)?;
        }
    }
    Ok(step)
}

impl Known<'_> {
    fn check(self, kind: Kind, name: &str, column: usize) -> Result<(), StepError> {
        let Self { catalog, links, databases } = self;
        match kind {
            Kind::Overheads if !SOURCES.contains(&name) => {
                databases.read(name).map_err(|reason| StepError::at(column, reason))?;
            }
            Kind::Device => {
                // Of several words a driver's name might be found in any.
                let is_one = !name.contains(char::is_whitespace);
                let found = if is_one { catalog.find(name) } else { catalog.named(name) };
                found.map_err(|error| StepError::at(column, error.to_string()))?;
            }
            Kind::Link if links.find(name).is_none() => {
                let known = links.iter().map(|link| link.id.as_str());
                return Err(StepError::unknown(column, "interconnect", name, known));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Context {
    /// Reads a step that names only what is known.
    ///
    /// # Errors
    /// See [`read_step`].
    pub fn step(&self, line: &str) -> Result<Step, StepError> {
        read_step(line, self.known())
    }

    /// What steps may name.
    pub fn known(&self) -> Known<'_> {
        Known { catalog: &self.catalog, links: self.models.links(), databases: &self.databases }
    }
}

impl SavedScenario {
    /// Holds the steps against the devices, interconnects and files there are.
    ///
    /// # Errors
    /// The first step that names an unknown one.
    pub fn check(&self, known: Known<'_>) -> Result<(), FileError> {
        for (index, step) in self.scenario.steps.iter().enumerate() {
            let line = step.to_string();
            let bad = |error| FileError::Step { number: index + 1, line: line.clone(), error };
            read_step(&line, known).map_err(bad)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_may_have_spaces_and_unknown_ones_their_column() {
        let (catalog, links) = (Catalog::builtin().unwrap(), Links::builtin().unwrap());
        let databases = Databases::default();
        let known = Known { catalog: &catalog, links: &links, databases: &databases };
        let read = |line: &str| read_step(line, known).map(|step| step.to_string());
        assert_eq!(read("swap-gpu TITAN Xp").unwrap(), "swap-gpu TITAN Xp");
        assert_eq!(read("swap-gpu Quadro RTX 6000 host x0.5").unwrap(), "swap-gpu Quadro RTX 6000 host x0.5");
        assert_eq!(read("place-on RTX 2080 Ti").unwrap(), "place-on RTX 2080 Ti");
        let two = read("swap-gpu H100 H200").unwrap_err().to_string();
        assert!(two.starts_with("column 10: no device `H100 H200`"), "{two}");
        let misspelt = read("swap-gpu H100 hst x0.5").unwrap_err().to_string();
        assert!(misspelt.contains("host"), "{misspelt}");
    }
}

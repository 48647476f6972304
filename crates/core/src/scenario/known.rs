//! What steps name besides tasks: devices, interconnects and files of host overheads, held against those there are.

use crate::device::{Catalog, Links};

use super::context::Databases;
use super::file::{FileError, SavedScenario};
use super::step::{Step, StepError, parse_step};
use super::text::{Word, Words};

/// Something beside the graph, as a step names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// A device of the catalog.
    Device(&'a str),
    /// An interconnect.
    Interconnect(&'a str),
    /// A database of host overheads in a file.
    Overheads(&'a str),
}

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
/// See [`parse_step`]; an unknown device or interconnect, with its column and the nearest; a file that cannot be used.
pub fn read_step(line: &str, known: Known<'_>) -> Result<Step, StepError> {
    let Known { catalog, links, databases } = known;
    let step = parse_step(line)?;
    for name in step.transform.names() {
        match name {
            Name::Overheads(file) => {
                databases.read(file).map_err(|reason| StepError::at(column_of(line, file), reason))?;
            }
            Name::Device(device) => {
                // Of several words a driver's name might be found in any.
                let is_one = !device.contains(char::is_whitespace);
                let found = if is_one { catalog.find(device) } else { catalog.named(device) };
                found.map_err(|error| StepError::at(column_of(line, device), error.to_string()))?;
            }
            Name::Interconnect(link) if links.find(link).is_none() => {
                let known = links.iter().map(|link| link.id.as_str());
                return Err(StepError::unknown(column_of(line, link), "interconnect", link, known));
            }
            Name::Interconnect(_) => {}
        }
    }
    Ok(step)
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

/// Where an argument of a step stands.
fn column_of(line: &str, argument: &str) -> usize {
    let mut arguments = Words::new(line);
    let first = arguments.next().map_or(1, |_| arguments.column());
    let begins = |word: &Word<'_>| argument.split_whitespace().next() == Some(word.text);
    arguments.find(begins).map_or(first, |word| word.column)
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
        assert_eq!(read("place-on-gpu RTX 2080 Ti").unwrap(), "place-on-gpu RTX 2080 Ti");
        let two = read("swap-gpu H100 H200").unwrap_err().to_string();
        assert!(two.starts_with("column 10: no device `H100 H200`"), "{two}");
        let misspelt = read("swap-gpu H100 hst x0.5").unwrap_err().to_string();
        assert!(misspelt.contains("host"), "{misspelt}");
    }
}

//! What can be wrong with device files and device names.

use std::ops::Range;

use thiserror::Error;

/// A device file that cannot be used: where, which key, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CatalogError {
    /// Not TOML, an unknown key, or a value of the wrong kind.
    #[error("{file}:{line}: {message}")]
    Syntax {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What the parser expected.
        message: String,
    },
    /// A figure that no device can have.
    #[error("{file}:{line}: {device}.{key} is {value}: expected {expected}")]
    BadFigure {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The device.
        device: String,
        /// The figure.
        key: String,
        /// As written.
        value: String,
        /// What it has to be.
        expected: Box<str>,
    },
    /// A figure that neither the device nor those it inherits from give.
    #[error("{file}:{line}: {device} has no {key}, and inherits none")]
    MissingFigure {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The device.
        device: String,
        /// The figure.
        key: String,
    },
    /// `inherits` names a device that is in no file.
    #[error("{file}:{line}: {device}.inherits names `{parent}`, which is in no device file; nearest: {}", nearest.join(", "))]
    UnknownParent {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The device.
        device: String,
        /// The name that was not found.
        parent: String,
        /// Up to three names like it, the nearest first.
        nearest: Vec<String>,
    },
    /// Devices inherit from one another in a circle.
    #[error("{file}:{line}: {device}.inherits leads back to itself: {chain}")]
    Cycle {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The device.
        device: String,
        /// The circle, `A → B → A`.
        chain: String,
    },
    /// A device inherits over more others than any family of devices has.
    #[error("{file}:{line}: {device} is inherited over more than {most} devices")]
    Deep {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The device.
        device: String,
        /// How many are allowed.
        most: usize,
    },
}

impl CatalogError {
    /// What the TOML parser says, with the line of `text` it says it about.
    pub(crate) fn syntax(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let (line, message) = (line_of(text, error.span()), error.message());
        let written = text.lines().nth(line - 1).unwrap_or_default();
        let key = written.split_once('=').map(|(key, _)| key.trim());
        let message = match key {
            None if written.trim_start().starts_with("[[") && message.starts_with("invalid type") => {
                format!("{} where a table is named, [NAME] or [NAME.figures]: {message}", written.trim())
            }
            Some(key) if !message.contains(&format!("`{key}`")) => format!("{key}: {message}"),
            _ => message.to_owned(),
        };
        Self::Syntax { file: file.to_owned(), line, message }
    }
}

/// Where an entry of a file stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
    /// Position of its first byte in the text.
    pub(super) start: usize,
}

impl Place<'_> {
    /// The value of `key` in the entry, which is of `device`, cannot be.
    pub(super) fn bad(self, device: &str, key: &str, value: &str, expected: &str) -> CatalogError {
        let (file, device, key, value) = (self.file.to_owned(), device.to_owned(), key.to_owned(), value.to_owned());
        let expected = expected.into();
        CatalogError::BadFigure { line: self.line(&key), file, device, key, value, expected }
    }

    /// The line on which `key` is written, from the entry on; that of the entry where it is written in another way.
    fn line(self, key: &str) -> usize {
        let written =
            |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
        let first = line_of(self.text, Some(self.start..self.start));
        let lines = self.text.lines().skip(first - 1);
        lines.zip(first..).find(|(line, _)| written(line)).map_or(first, |(_, number)| number)
    }

    /// The entry number `at` from this one on whose head ends with `ending`.
    #[must_use]
    pub(super) fn entry(self, ending: &str, at: usize) -> Self {
        let rest = self.text.get(self.start..).unwrap_or_default();
        let heads = rest
            .match_indices("[[")
            .filter(|&(found, _)| rest[found..].lines().next().is_some_and(|line| line.trim_end().ends_with(ending)));
        let found = heads.map(|(found, _)| self.start + found).nth(at);
        Self { start: found.unwrap_or(self.start), ..self }
    }
}

/// The line of `text`, from 1, where `span` starts.
pub(crate) fn line_of(text: &str, span: Option<Range<usize>>) -> usize {
    let end = span.map_or(0, |span| span.start.min(text.len()));
    1 + memchr::memchr_iter(b'\n', &text.as_bytes()[..end]).count()
}

/// A device name that is in no catalog.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no device `{name}`; nearest: {}", nearest.join(", "))]
pub struct UnknownDevice {
    /// What was asked for.
    pub name: String,
    /// Up to three names like it, the nearest first.
    pub nearest: Vec<String>,
}

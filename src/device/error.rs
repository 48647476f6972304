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
        expected: &'static str,
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
    #[error("{file}:{line}: {device}.inherits names `{parent}`, which is in no device file")]
    UnknownParent {
        /// Name of the file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The device.
        device: String,
        /// The name that was not found.
        parent: String,
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
}

impl CatalogError {
    /// What the TOML parser says, with the line of `text` it says it about.
    pub(crate) fn syntax(file: &str, text: &str, error: &toml::de::Error) -> Self {
        Self::Syntax { file: file.to_owned(), line: line_of(text, error.span()), message: error.message().to_owned() }
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

//! One-line messages: the status bar shows the last, `:messages` all.

use retime_core::intern::printable;

/// Why a command that works on a trace does nothing while none is open.
pub const NO_TRACE: &str = "no trace is open yet";

/// How a message is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Worth saying.
    Note,
    /// It did not work.
    Error,
}

/// A line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How it is meant.
    pub level: Level,
    /// The line, safe for a terminal.
    pub text: String,
}

impl Message {
    /// Something worth saying.
    pub fn note(text: impl AsRef<str>) -> Self {
        Self { level: Level::Note, text: printable(text.as_ref()) }
    }

    /// Something that did not work.
    pub fn error(text: impl AsRef<str>) -> Self {
        Self { level: Level::Error, text: printable(text.as_ref()) }
    }
}

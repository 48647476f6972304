//! What lies over the screen and takes the keys: prompt, lists to pick from, help, messages, questions.

mod completion;
mod picker;
mod prompt;
mod render;
mod terms;

pub use completion::complete;
pub use picker::Picker;
pub use prompt::{Prompt, Purpose};
pub use render::render;

/// One of them.
#[derive(Debug)]
pub enum Overlay {
    /// A line to type.
    Prompt(Prompt),
    /// A list to pick from.
    Picker(Picker),
    /// Keys of the view.
    Help {
        /// First line shown.
        scroll: usize,
    },
    /// All messages and diagnostics.
    Messages {
        /// First line shown.
        scroll: usize,
    },
    /// Why a number is what it is.
    Why {
        /// First line shown.
        scroll: usize,
    },
    /// A question.
    Confirm(Confirm),
}

/// A question with yes or no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// What is asked.
    pub question: String,
    /// The command that yes runs.
    pub yes: &'static str,
}

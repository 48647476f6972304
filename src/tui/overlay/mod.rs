//! What lies over the screen and takes the keys: prompt, lists to pick from, help, messages, questions.

mod completion;
mod picker;
mod prompt;
mod render;
mod terms;

use tui_input::Input;

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

/// Characters of a line that is typed or pasted, at most.
pub const LONGEST_LINE: usize = 1000;

/// Puts `text` at the cursor of a line in one go, as much of it as there is room for; false when that is not all.
fn insert(line: &mut Input, text: &str) -> bool {
    let (before, at) = (line.value().chars().count(), line.cursor());
    let taken = text.chars().count().min(LONGEST_LINE.saturating_sub(before));
    let typed = line.value().chars();
    let all = typed.clone().take(at).chain(text.chars().take(taken)).chain(typed.skip(at)).collect();
    *line = Input::new(all).with_cursor(at + taken);
    taken == text.chars().count()
}

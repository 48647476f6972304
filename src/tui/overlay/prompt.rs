//! A line to type: a command, a search, a step to change.

use crossterm::event::KeyEvent;
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use crate::tui::command::Place;

use super::{LONGEST_LINE, insert};

/// What the line is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A command or a new step.
    Command,
    /// A part of a name.
    Search,
    /// Step of this index, to be replaced.
    EditStep(usize),
}

/// The state of the prompt.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// What it is for.
    pub purpose: Purpose,
    /// What is typed.
    pub input: Input,
    /// Why the line was not accepted.
    pub error: Option<String>,
    /// The chosen completion.
    pub chosen: Option<usize>,
    /// How far back in what was typed before.
    pub back: usize,
    /// Of a search where the user was.
    pub began: Option<Box<Place>>,
    /// Of a search how it goes.
    pub said: String,
}

impl Prompt {
    /// A prompt with `text` in it.
    pub fn new(purpose: Purpose, text: &str) -> Self {
        Self {
            purpose,
            input: Input::new(text.to_owned()),
            error: None,
            chosen: None,
            back: 0,
            began: None,
            said: String::new(),
        }
    }

    /// A prompt for what to search for.
    pub fn search(began: Place) -> Self {
        Self { began: Some(Box::new(began)), ..Self::new(Purpose::Search, "") }
    }

    /// What stands before the line.
    pub fn sign(&self) -> &'static str {
        match self.purpose {
            Purpose::Command => ":",
            Purpose::Search => "/",
            Purpose::EditStep(_) => "step ",
        }
    }

    /// The line.
    pub fn line(&self) -> &str {
        self.input.value()
    }

    /// Replaces the line.
    pub fn set(&mut self, line: &str) {
        self.input = Input::new(line.to_owned());
        self.error = None;
        self.chosen = None;
    }

    /// Lets the line editor have a key.
    pub fn type_key(&mut self, key: KeyEvent) {
        self.input.handle_event(&crossterm::event::Event::Key(key));
        self.error = None;
        self.chosen = None;
    }

    /// Puts `text` at the cursor; says so where it is too long for the line.
    pub fn paste(&mut self, text: &str) {
        let fits = insert(&mut self.input, text);
        self.error = (!fits).then(|| format!("cut off: a line has {LONGEST_LINE} characters at most"));
        self.chosen = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pasted_stands_at_the_cursor_and_what_is_cut_off_is_said() {
        let mut prompt = Prompt::new(Purpose::Command, "scale  x0.5");
        prompt.input = Input::new(prompt.line().to_owned()).with_cursor("scale ".len());
        prompt.paste("kind=kernel");
        assert_eq!((prompt.line(), prompt.error.as_deref()), ("scale kind=kernel x0.5", None));
        prompt.type_key(crossterm::event::KeyCode::Char('s').into());
        assert_eq!(prompt.line(), "scale kind=kernels x0.5");
        (0..2).for_each(|_| prompt.paste(&"é".repeat(900)));
        assert_eq!(prompt.line().chars().count(), LONGEST_LINE);
        assert!(prompt.error.is_some_and(|error| error.starts_with("cut off")));
    }
}

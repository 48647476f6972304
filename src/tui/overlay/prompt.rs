//! A line to type: a command, a search, a step to change.

use crossterm::event::KeyEvent;
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use crate::tui::command::Place;

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
}

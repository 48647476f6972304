//! The screen program: event → action → update → effects; views are pure functions of the state.
//!
//! Nothing uses it but the binary; colours are named in `theme` only.

mod app;
mod arrange;
mod ascii;
mod canvas;
mod command;
mod composition;
mod effect;
mod inbox;
mod input;
mod key;
mod layout;
mod listing;
mod load;
mod loading;
mod message;
mod moving;
mod overlay;
mod picture;
mod program;
mod rows;
mod runner;
mod script;
mod scripted;
mod states;
mod table;
mod terminal;
mod theme;
mod timeline;
mod update;
mod view_model;
mod views;
mod workspace;

pub use app::{App, Style};
pub use ascii::is_needed as needs_ascii;
pub use load::Open;
pub use program::{Start, run};
pub use scripted::ScriptedScreen;
pub use terminal::Screen;
pub use theme::{Depth, Theme};

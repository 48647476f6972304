//! Keys: their names, and which command each runs in which pane.

mod map;
mod press;

pub use map::Keymap;
pub use press::KeyPress;

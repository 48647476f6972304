//! Keys: their names, and which command each runs in which pane.

mod changed;
mod map;
mod press;

pub use changed::{CHANGED, ChangedKey};
pub use map::Keymap;
pub use press::KeyPress;

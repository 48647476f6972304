//! What an update asks of the world outside.

use super::runner::Request;

/// Done by the program after an update, never by the update.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Leave.
    Quit,
    /// Give the terminal back and stop until continued.
    Suspend,
    /// Forget what is on the screen and draw all of it.
    Redraw,
    /// Capture the mouse, or leave it to the terminal.
    Mouse(bool),
    /// Put text on the clipboard (OSC 52).
    Copy(String),
    /// Compute, read or write something.
    Ask(Request),
}

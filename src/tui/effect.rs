//! What an update asks of the world outside.

use std::sync::Arc;

use crate::scenario::Scenario;
use crate::session::Sweep;

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
    /// Stop loading.
    CancelLoading,
    /// Re-time a scenario of trace `work`.
    Evaluate {
        /// Which trace.
        work: usize,
        /// Comes back with the result.
        revision: u64,
        /// What to evaluate.
        scenario: Arc<Scenario>,
    },
    /// Evaluate a scenario over the values of a knob.
    Sweep {
        /// Which trace.
        work: usize,
        /// Comes back with each point.
        revision: u64,
        /// What the knob is applied to.
        scenario: Arc<Scenario>,
        /// The knob.
        sweep: Sweep,
    },
}

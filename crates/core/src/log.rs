//! What the program says of its own work: a line for each piece of it, with how long it took. Nothing where nobody listens.
//!
//! Where lines go is for the listener; no figure depends on it.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It could not be done.
    Error,
    /// It was done, but for something.
    Warning,
    /// A piece of work.
    Info,
    /// A piece of work that is done many times over.
    Debug,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        })
    }
}

/// What takes a line: its level, what it says, and how long that took.
pub type Listener = dyn Fn(Level, &str, Option<Duration>) + Send + Sync;

static LISTENER: OnceLock<Box<Listener>> = OnceLock::new();

/// Sends lines to `listener` from now on; the first one keeps them.
pub fn listen(listener: Box<Listener>) {
    let _ = LISTENER.set(listener);
}

/// Says `text`.
pub fn say(level: Level, text: &str) {
    if let Some(listener) = LISTENER.get() {
        listener(level, text, None);
    }
}

/// Does `work`, which is called `name`, and says how long it took.
pub fn timed<T>(level: Level, name: &str, work: impl FnOnce() -> T) -> T {
    let Some(listener) = LISTENER.get() else { return work() };
    let began = Instant::now();
    let done = work();
    listener(level, name, Some(began.elapsed()));
    done
}

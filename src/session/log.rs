//! `--log`: what is done, and how long it takes, a line each into a file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use retime_core::intern::printable;
use retime_core::log::{self, Level};

use super::SessionError;

/// Writes to the end of `path` from now on, a line for each piece of work: seconds since the start, level, what, how long.
///
/// # Errors
/// The file cannot be opened.
pub fn log_to(path: &Path) -> Result<(), SessionError> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    let file = opened.map_err(|error| SessionError::Write {
        path: path.display().to_string(),
        reason: format!("cannot be written to: {error}"),
    })?;
    let (began, file) = (Instant::now(), Mutex::new(file));
    log::listen(Box::new(move |level, text, took| line(&file, began.elapsed(), (level, text, took))));
    log::say(Level::Info, &format!("retime {}", env!("CARGO_PKG_VERSION")));
    Ok(())
}

fn line(file: &Mutex<File>, at: Duration, (level, text, took): (Level, &str, Option<Duration>)) {
    let took = took.map(|took| format!(" took {:.6} s", took.as_secs_f64())).unwrap_or_default();
    let line = format!("{:12.6} {level:<7} {}{took}\n", at.as_secs_f64(), printable(text));
    if let Ok(mut file) = file.lock() {
        // A log that cannot be written stops nothing.
        let _ = file.write_all(line.as_bytes());
    }
}

//! `--log`: what is done, and how long it takes, a line each into a file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use retime_core::intern::printable;
use retime_core::log::{self, Level};

use super::SessionError;

/// Writes to the end of `path` from now on, a line for each piece of work: seconds since the start, level, what, how long.
///
/// # Errors
/// The file cannot be opened or written, or is there and no log.
pub fn log_to(path: &Path) -> Result<(), SessionError> {
    let fail = |reason: String| SessionError::Write { path: path.display().to_string(), reason };
    if path.is_file() && !is_log(path) {
        return Err(fail("is there and no log of retime, and is not added to; name another file".to_owned()));
    }
    // Opening one waits until somebody reads it; what was opened by others is in /dev, or in /proc.
    if is_pipe(path) && !["/dev", "/proc"].iter().any(|folder| path.starts_with(folder)) {
        return Err(fail("is a pipe, and the log is written to a file: name one".to_owned()));
    }
    let opened = OpenOptions::new().create(true).append(true).open(path);
    let file = opened.map_err(|error| fail(format!("cannot be written to: {error}")))?;
    let (began, file) = (Instant::now(), Mutex::new(file));
    let _ = LOG.set(path.to_owned());
    log::listen(Box::new(move |level, text, took| line(&file, began.elapsed(), (level, text, took))));
    log::say(Level::Info, &format!("retime {}", env!("CARGO_PKG_VERSION")));
    log_failure().map_or(Ok(()), |reason| Err(fail(format!("cannot be written to: {reason}"))))
}

static LOG: OnceLock<PathBuf> = OnceLock::new();

/// The file of the log, where one is written.
pub(super) fn log_file() -> Option<&'static Path> {
    LOG.get().map(PathBuf::as_path)
}

static FAILURE: OnceLock<String> = OnceLock::new();

/// Why a line could not be written to the log, the first time that happened.
pub fn log_failure() -> Option<&'static str> {
    FAILURE.get().map(String::as_str)
}

#[cfg(unix)]
fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_pipe(_: &Path) -> bool {
    false
}

/// Whether the file at `path` is empty or begins as [`log_to`] begins a log.
fn is_log(path: &Path) -> bool {
    const FIRST_LINE: u64 = 64;
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FIRST_LINE).read_to_end(&mut beginning));
    let beginning = String::from_utf8_lossy(&beginning);
    let mut words = beginning.split_whitespace();
    let begins = words.next().is_some_and(|at| at.parse::<f64>().is_ok()) && words.next() == Some("info");
    read.is_ok() && (beginning.is_empty() || begins && words.next() == Some("retime"))
}

fn line(file: &Mutex<File>, at: Duration, (level, text, took): (Level, &str, Option<Duration>)) {
    let took = took.map(|took| format!(" took {:.6} s", took.as_secs_f64())).unwrap_or_default();
    let line = format!("{:12.6} {level:<7} {}{took}\n", at.as_secs_f64(), printable(text));
    if let Ok(mut file) = file.lock() {
        // A log that cannot be written stops nothing.
        if let Err(error) = file.write_all(line.as_bytes()) {
            FAILURE.get_or_init(|| error.to_string());
        }
    }
}

//! Opening: paths → jobs. Files are read in parallel; what cannot be read is an error when it was all that was asked for,
//! else a diagnostic.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rayon::prelude::*;

use super::format::{Loaded, may_be_trace};
use super::{Job, OpenError, Trace, job, kineto, loader, source};
use crate::diagnostic::{Diagnostics, Severity};

/// How to open.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Counts along while files are read, and stops reading when told to.
    pub progress: Arc<Progress>,
    /// Most bytes that one packed file may unpack to (default 64 GiB).
    pub max_unpacked_bytes: u64,
    /// Most bytes that one packed byte may stand for, beyond the first 256 MiB (default 400; real traces reach 60).
    pub max_unpacked_ratio: u64,
    /// Whether several threads read one file where there are more of them than files; what is read is the same.
    pub in_chunks: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { progress: Arc::default(), max_unpacked_bytes: 64 << 30, max_unpacked_ratio: 400, in_chunks: true }
    }
}

/// How far loading has come; shared with whoever shows it.
#[derive(Debug, Default)]
pub struct Progress {
    bytes_read: AtomicU64,
    bytes_total: AtomicU64,
    events: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Bytes of the files read so far, packed as they are on disk.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Bytes of all files to read.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total.load(Ordering::Relaxed)
    }

    /// Entries read so far.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Asks the loader to stop; it does so within a chunk.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(super) fn add_bytes(&self, count: u64) {
        self.bytes_read.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn add_total(&self, count: u64) {
        self.bytes_total.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn add_events(&self, count: u64) {
        self.events.fetch_add(count, Ordering::Relaxed);
    }
}

/// What was opened.
#[derive(Debug, Default)]
pub struct Opened {
    /// The jobs found, in order of their first file; never empty.
    pub jobs: Vec<Job>,
    /// What was odd about the files as a whole; each trace has its own besides.
    pub diagnostics: Diagnostics,
}

/// Opens files and folders.
///
/// # Arguments
/// `paths`: files (plain, gzip, tar archives), or folders, which stand for all traces directly in them.
///
/// # Errors
/// When nothing could be read: the first reason. When some could, the rest are `unreadable-file` diagnostics.
pub fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Opened, OpenError> {
    let mut files = BTreeSet::new();
    for path in paths {
        files.extend(source::files(path, may_be_trace)?);
    }
    files.extend(paths.iter().filter_map(|path| source::execution_trace_beside(path)));
    let files: Vec<PathBuf> = files.into_iter().collect();
    let in_chunks = options.in_chunks && files.len() < rayon::current_num_threads();
    let options = &OpenOptions { in_chunks, ..options.clone() };
    let results: Vec<Vec<Result<Loaded, OpenError>>> =
        files.par_iter().map(|file| loader::file(file, options)).collect();
    collect(results.into_iter().flatten())
}

fn collect(results: impl Iterator<Item = Result<Loaded, OpenError>>) -> Result<Opened, OpenError> {
    let mut opened = Opened::default();
    let (mut traces, mut execution_traces, mut first_error) = (Vec::new(), Vec::new(), None);
    for result in results {
        match result {
            Ok(Loaded::Trace(trace)) => traces.push(*trace),
            Ok(Loaded::Execution(trace)) => execution_traces.push(*trace),
            Err(error @ OpenError::Cancelled { .. }) => return Err(error),
            Err(error) => {
                let text = error.to_string();
                opened.diagnostics.add(Severity::Error, "unreadable-file", &text, None, || text.clone());
                first_error.get_or_insert(error);
            }
        }
    }
    opened.jobs = job::group(traces, execution_traces, &mut opened.diagnostics);
    match first_error {
        Some(error) if opened.jobs.is_empty() => Err(error),
        None if opened.jobs.is_empty() => Err(OpenError::NothingNamed),
        _ => Ok(opened),
    }
}

/// Reads one trace from memory, e.g. an embedded sample; `name` stands for its path. gzip is unpacked.
///
/// # Errors
/// As [`open`], and [`OpenError::WrongSchema`] for an execution trace.
pub fn load_bytes(bytes: &[u8], name: &str) -> Result<Trace, OpenError> {
    let path = Path::new(name);
    match loader::bytes(bytes, path, &OpenOptions::default()).into_iter().next() {
        Some(Ok(Loaded::Trace(trace))) => Ok(*trace),
        Some(Err(error)) => Err(error),
        _ => Err(OpenError::WrongSchema { path: path.to_owned() }),
    }
}

/// Reads one unpacked profiler trace with the reference reader: slow, refuses all that is not valid JSON.
///
/// [`load_bytes`] must give an equal trace wherever this gives one; tests and the benchmark compare them.
///
/// # Errors
/// As [`load_bytes`].
pub fn load_bytes_strictly(bytes: &[u8], name: &str) -> Result<Trace, OpenError> {
    kineto::strict::read(bytes, Path::new(name))
}

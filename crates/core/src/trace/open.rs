//! Opening: paths → jobs. Files are read in parallel; what cannot be read is an error when it was all that was asked for,
//! else a diagnostic.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::format::Loaded;
use super::{Job, OpenError, OpenOptions, Trace, job, job_check, kineto, loader, source};
use crate::diagnostic::{Diagnostics, Severity};

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
/// `paths`: files (plain, gzip, tar archives), or folders, which stand for all traces directly in them; of a file with several traces
/// also one, by the name that errors and titles give it (`job.tgz:rank3.json`, `run.sqlite:process 7`).
///
/// # Errors
/// When nothing could be read: the first reason. When some could, the rest are `unreadable-file` diagnostics. What lies in a folder, is
/// called as a trace and is not read is an `unread-file` diagnostic.
pub fn open(paths: &[PathBuf], options: &OpenOptions) -> Result<Opened, OpenError> {
    let (mut files, mut members) = (BTreeSet::new(), BTreeMap::<PathBuf, BTreeSet<&PathBuf>>::new());
    for path in paths {
        match source::file_of_member(path) {
            Some(file) => members.entry(file).or_default().extend([path]),
            None => files.extend(source::files(path, loader::may_be_trace)?),
        }
    }
    members.retain(|file, _| !files.contains(file));
    files.extend(members.keys().cloned());
    files.extend(paths.iter().filter_map(|path| source::execution_trace_beside(path)));
    let files: Vec<PathBuf> = files.into_iter().collect();
    let in_chunks = options.in_chunks && files.len() < rayon::current_num_threads();
    let options = &OpenOptions { in_chunks, ..options.clone() };
    let results: Vec<Vec<Result<Loaded, OpenError>>> =
        files.par_iter().map(|file| named(loader::file(file, options), members.get(file))).collect();
    let mut opened = collect(results.into_iter().flatten())?;
    for text in paths.iter().filter_map(|path| source::unread(path, loader::may_be_trace)) {
        opened.diagnostics.add(Severity::Warning, "unread-file", &text, None, || text.clone());
    }
    Ok(opened)
}

/// What was read of a file, of one with `members` that were named only these.
fn named(
    mut read: Vec<Result<Loaded, OpenError>>,
    members: Option<&BTreeSet<&PathBuf>>,
) -> Vec<Result<Loaded, OpenError>> {
    let Some(members) = members else { return read };
    let path = |result: &Result<Loaded, OpenError>| match result {
        Ok(Loaded::Trace(trace)) => Some(trace.path.clone()),
        Ok(Loaded::Execution(trace)) => Some(trace.path.clone()),
        Err(_) => None,
    };
    read.retain(|result| path(result).is_none_or(|path| members.contains(&path)));
    let found: BTreeSet<PathBuf> = read.iter().filter_map(path).collect();
    let missing = members.iter().filter(|member| !found.contains(**member));
    read.extend(missing.map(|member| Err(OpenError::Missing { path: (*member).clone() })));
    read
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
    job_check::check(&opened.jobs, &mut opened.diagnostics);
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

/// Opens files from memory, e.g. an embedded sample, each with the name that stands for its path.
///
/// # Errors
/// As [`open`].
pub fn open_bytes(files: &[(&str, &[u8])]) -> Result<Opened, OpenError> {
    let read = |&(name, bytes): &(&str, &[u8])| loader::bytes(bytes, Path::new(name), &OpenOptions::default());
    collect(files.iter().flat_map(read))
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

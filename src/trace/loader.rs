//! One file → the traces in it: unpacking and choosing the reader by content.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::source::{self, Mapped, Packing};
use super::{ExecutionTrace, OpenError, OpenOptions, Trace, kineto};

/// What a file turned out to be.
#[derive(Debug)]
pub enum Loaded {
    /// A timed trace.
    Trace(Box<Trace>),
    /// An execution trace.
    Execution(Box<ExecutionTrace>),
}

/// All traces in the file at `path`.
pub fn file(path: &Path, options: &OpenOptions) -> Vec<Result<Loaded, OpenError>> {
    match Mapped::open(path) {
        Ok(mapped) => bytes(mapped.bytes(), path, options),
        Err(error) => vec![Err(error)],
    }
}

/// All traces in `bytes`, called `path`.
pub fn bytes(bytes: &[u8], path: &Path, options: &OpenOptions) -> Vec<Result<Loaded, OpenError>> {
    options.progress.add_total(bytes.len() as u64);
    match source::packing(bytes, path) {
        Packing::Plain => vec![text(bytes, path)],
        Packing::Gzip => vec![unpack(bytes, path).and_then(|plain| text(&plain, path))],
        Packing::Tar { gzip: true } => match unpack(bytes, path) {
            Ok(plain) => members(&plain, path),
            Err(error) => vec![Err(error)],
        },
        Packing::Tar { gzip: false } => members(bytes, path),
    }
}

fn unpack(bytes: &[u8], path: &Path) -> Result<Vec<u8>, OpenError> {
    let mut plain = Vec::new();
    MultiGzDecoder::new(bytes)
        .read_to_end(&mut plain)
        .map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    Ok(plain)
}

fn members(archive: &[u8], path: &Path) -> Vec<Result<Loaded, OpenError>> {
    let mut found = Vec::new();
    let io = |source| OpenError::Io { path: path.to_owned(), source };
    let mut archive = tar::Archive::new(archive);
    let entries = match archive.entries() {
        Ok(entries) => entries,
        Err(error) => return vec![Err(io(error))],
    };
    for entry in entries {
        let mut content = Vec::new();
        let result = entry.and_then(|mut entry| {
            let name = entry.path()?.into_owned();
            if entry.header().entry_type().is_file() && source::may_be_trace(&name) {
                entry.read_to_end(&mut content)?;
                return Ok(Some(name));
            }
            Ok(None)
        });
        match result {
            Ok(Some(name)) => found.push(text(&content, &member_path(path, &name))),
            Ok(None) => {}
            Err(error) => {
                found.push(Err(io(error)));
                break;
            }
        }
    }
    if found.is_empty() { vec![Err(OpenError::NoTraces { path: path.to_owned() })] } else { found }
}

fn member_path(archive: &Path, member: &Path) -> PathBuf {
    PathBuf::from(format!("{}:{}", archive.display(), member.display()))
}

fn text(bytes: &[u8], path: &Path) -> Result<Loaded, OpenError> {
    if bytes.is_empty() {
        return Err(OpenError::Empty { path: path.to_owned() });
    }
    kineto::strict::read(bytes, path).map(|trace| Loaded::Trace(Box::new(trace)))
}

//! One file → the traces in it: unpacking, choosing the reader by content, and what to do when the content breaks off.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::content::Content;
use super::source::{self, Mapped, Packing};
use super::stream::{self, Rest};
use super::{ExecutionTrace, OpenError, OpenOptions, Trace};

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
        _ if bytes.is_empty() => vec![Err(OpenError::Empty { path: path.to_owned() })],
        Packing::Plain => vec![plain(bytes, path, options)],
        Packing::Gzip => vec![gzip(bytes, path, options)],
        Packing::Tar { gzip: true } => members(stream::unpack(bytes, options), path, options),
        Packing::Tar { gzip: false } => {
            options.progress.add_bytes(bytes.len() as u64);
            members(bytes, path, options)
        }
    }
}

fn plain(bytes: &[u8], path: &Path, options: &OpenOptions) -> Result<Loaded, OpenError> {
    let mut content = Content::new(path, options, bytes.len());
    let used = stream::read_slice(bytes, &options.progress, &mut content)?;
    content.finish(&bytes[used..])
}

fn gzip(bytes: &[u8], path: &Path, options: &OpenOptions) -> Result<Loaded, OpenError> {
    let mut content = Content::new(path, options, unpacked_size(bytes));
    let rest = stream::read_gzip(bytes, options, &mut content)?;
    finish(content, rest, path, options)
}

/// What a gzip file says at its end of the size of its content; not trusted beyond what JSON packs to.
fn unpacked_size(bytes: &[u8]) -> usize {
    const LIKELY_RATIO: usize = 32;
    let stated = bytes.last_chunk::<4>().map_or(0, |size| u32::from_le_bytes(*size) as usize);
    stated.min(bytes.len().saturating_mul(LIKELY_RATIO))
}

fn finish(mut content: Content<'_>, rest: Rest, path: &Path, options: &OpenOptions) -> Result<Loaded, OpenError> {
    if let Some(error) = rest.broken {
        if error.kind() == ErrorKind::FileTooLarge {
            return Err(too_large(path, options));
        }
        content.broken_archive(&error)?;
    }
    content.finish(&rest.text)
}

fn too_large(path: &Path, options: &OpenOptions) -> OpenError {
    let limit = format!(
        "{} GiB, or {} times its own size",
        options.max_unpacked_bytes as f64 / f64::from(1 << 30),
        options.max_unpacked_ratio
    );
    OpenError::TooLarge { path: path.to_owned(), limit }
}

fn members(archive: impl Read, path: &Path, options: &OpenOptions) -> Vec<Result<Loaded, OpenError>> {
    let mut found = Vec::new();
    if let Err(error) = each_member(archive, path, options, &mut found) {
        found.push(Err(match error.kind() {
            ErrorKind::FileTooLarge => too_large(path, options),
            _ => OpenError::Io { path: path.to_owned(), source: error },
        }));
    }
    if found.is_empty() { vec![Err(OpenError::NoTraces { path: path.to_owned() })] } else { found }
}

fn each_member(
    archive: impl Read,
    path: &Path,
    options: &OpenOptions,
    found: &mut Vec<Result<Loaded, OpenError>>,
) -> std::io::Result<()> {
    for entry in tar::Archive::new(archive).entries()? {
        let entry = entry?;
        let name = entry.path()?.into_owned();
        if !entry.header().entry_type().is_file() || !source::may_be_trace(&name) {
            continue;
        }
        let path = PathBuf::from(format!("{}:{}", path.display(), name.display()));
        let mut content = Content::new(&path, options, 0);
        let result = stream::read_inline(entry, &mut content);
        found.push(result.and_then(|rest| finish(content, rest, &path, options)));
    }
    Ok(())
}

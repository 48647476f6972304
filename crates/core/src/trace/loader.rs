//! One file → the traces in it: unpacking, choosing the reader by content, and what to do when the content breaks off.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::content::Content;
use super::layer_table;
use super::source::{self, Mapped, Packing};
use super::stream::{self, Rest};
use super::{ExecutionTrace, OpenError, OpenOptions, Trace, nsys};

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
        Packing::Plain if bytes.starts_with(nsys::MAGIC) => {
            options.progress.add_bytes(bytes.len() as u64);
            database(bytes, path, options)
        }
        Packing::Plain if layer_table::is_layer_table(path, bytes) => {
            vec![layer_table::read(bytes, path).map(|trace| Loaded::Execution(Box::new(trace)))]
        }
        Packing::Plain => vec![plain(bytes, path, options)],
        Packing::Gzip if is_database(&mut MultiGzDecoder::new(bytes)) => packed_database(bytes, path, options),
        Packing::Gzip => vec![gzip(bytes, path, options)],
        Packing::Tar { gzip: true } => members(stream::unpack(bytes, options), path, options),
        Packing::Tar { gzip: false } => {
            options.progress.add_bytes(bytes.len() as u64);
            members(bytes, path, options)
        }
    }
}

/// Whether `content` begins as an SQLite database does.
fn is_database(content: &mut impl Read) -> bool {
    let mut head = Vec::new();
    // What cannot be unpacked is no database as far as can be seen; reading it says what is wrong.
    let _ = content.take(nsys::MAGIC.len() as u64).read_to_end(&mut head);
    head == nsys::MAGIC
}

fn database(bytes: &[u8], path: &Path, options: &OpenOptions) -> Vec<Result<Loaded, OpenError>> {
    match nsys::read(bytes, path, options) {
        Ok(traces) => traces.into_iter().map(|trace| Ok(Loaded::Trace(Box::new(trace)))).collect(),
        Err(error) => vec![Err(error)],
    }
}

/// A database has to be whole before it can be asked anything.
fn packed_database(bytes: &[u8], path: &Path, options: &OpenOptions) -> Vec<Result<Loaded, OpenError>> {
    let mut unpacked = Vec::new();
    match stream::unpack(bytes, options).read_to_end(&mut unpacked) {
        Ok(_) => database(&unpacked, path, options),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => vec![Err(too_large(path, options))],
        Err(error) => {
            let expected = format!("a complete gzip stream ({error})");
            vec![Err(OpenError::Damaged { path: path.to_owned(), offset: unpacked.len() as u64, expected })]
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
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        if !entry.header().entry_type().is_file() || !source::may_be_trace(&name) {
            continue;
        }
        let path = PathBuf::from(format!("{}:{}", path.display(), name.display()));
        let mut head = Vec::new();
        (&mut entry).take(nsys::MAGIC.len() as u64).read_to_end(&mut head)?;
        let mut entry = head.as_slice().chain(entry);
        if head == nsys::MAGIC {
            let mut whole = Vec::new();
            entry.read_to_end(&mut whole)?;
            found.extend(database(&whole, &path, options));
            continue;
        }
        let mut content = Content::new(&path, options, 0);
        let result = stream::read_inline(entry, &mut content);
        found.push(result.and_then(|rest| finish(content, rest, &path, options)));
    }
    Ok(())
}

//! One file → the traces in it: unpacking, choosing the reader by content, and what to do when the content breaks off.

use std::borrow::Cow;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::content::Content;
use super::format::{HEAD, Loaded, Reading};
use super::source::{self, Packing, Source};
use super::stream::{self, BYTE_ORDER_MARK, Packed};
use super::{FORMATS, OpenError, OpenOptions, naming};
use crate::units::Bytes;

/// What was read of each trace, or why it could not be.
type Results = Vec<Result<Loaded, OpenError>>;

/// All traces in the file at `path`.
pub(super) fn file(path: &Path, options: &OpenOptions) -> Results {
    match Source::open(path) {
        Ok(Source::Read(read)) => bytes(&read, path, options),
        Ok(Source::File(file, size)) => {
            options.progress.add_total(size);
            flowing(stream::counted(file, options), size as usize, path, options)
        }
        Ok(Source::Stream(stream)) => flowing(stream::limited(stream, options), 0, path, options),
        Err(error) => vec![Err(error)],
    }
}

/// All traces in what flows out of `stream`, which is called `path` and about `size` bytes long (0 = unknown).
fn flowing(mut stream: impl Read + Send, size: usize, path: &Path, options: &OpenOptions) -> Results {
    let mut head = Vec::new();
    if let Err(reason) = stream.by_ref().take(HEAD as u64).read_to_end(&mut head) {
        return vec![Err(OpenError::Io { path: path.to_owned(), reason })];
    }
    if head.is_empty() {
        return vec![Err(OpenError::Empty { path: path.to_owned() })];
    }
    let packing = source::packing(&head, path);
    let mut all = head.as_slice().chain(stream);
    match packing {
        Packing::Plain => content(Packed::Flow(Vec::new(), &mut all, size), path, options),
        Packing::Gzip => {
            let unpacked = MultiGzDecoder::new(BufReader::new(all));
            content(Packed::Member(Vec::new(), &mut stream::limited(unpacked, options)), path, options)
        }
        Packing::Tar { gzip: true } => {
            let unpacked = MultiGzDecoder::new(BufReader::new(all));
            members(stream::limited(unpacked, options), path, options)
        }
        Packing::Tar { gzip: false } => members(all, path, options),
    }
}

/// All traces in `bytes`, called `path`.
pub(super) fn bytes(bytes: &[u8], path: &Path, options: &OpenOptions) -> Results {
    options.progress.add_total(bytes.len() as u64);
    match source::packing(bytes, path) {
        _ if bytes.is_empty() => vec![Err(OpenError::Empty { path: path.to_owned() })],
        Packing::Plain => content(Packed::Not(bytes), path, options),
        Packing::Gzip => content(Packed::Gzip(bytes), path, options),
        Packing::Tar { gzip: true } => members(stream::unpack(bytes, options), path, options),
        Packing::Tar { gzip: false } => {
            options.progress.add_bytes(bytes.len() as u64);
            members(bytes, path, options)
        }
    }
}

/// All traces in the content of one file or member.
fn content(mut packed: Packed<'_>, path: &Path, options: &OpenOptions) -> Results {
    let read = match reading(&packed.head(HEAD), path) {
        Reading::Whole(read, times) => {
            whole(packed, path, options, *times).and_then(|bytes| read(&bytes, path, options))
        }
        Reading::Windows => windows(packed, path, options).map(|loaded| vec![loaded]),
    };
    match read {
        Ok(loaded) => loaded.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }
}

/// The content at once, where it fits the memory that may be held `times` over besides itself.
fn whole<'a>(packed: Packed<'a>, path: &Path, options: &OpenOptions, times: u64) -> Result<Cow<'a, [u8]>, OpenError> {
    let (limit, held) = options.max_memory.zip(source::resident()).unwrap_or((Bytes(u64::MAX), Bytes(0)));
    let most = limit.0.saturating_sub(held.0) / (times + 1);
    let whole = packed.whole(options, most).map_err(|(error, offset)| match error.kind() {
        ErrorKind::FileTooLarge => too_large(path, options),
        _ => OpenError::Damaged { path: path.to_owned(), offset, expected: stream::expected(&error) },
    })?;
    if whole.len() as u64 >= most {
        return Err(OpenError::Memory { path: path.to_owned(), needed: format!("more than {limit}"), limit });
    }
    Ok(match whole {
        Cow::Borrowed(bytes) => Cow::Borrowed(bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes)),
        Cow::Owned(bytes) if bytes.starts_with(BYTE_ORDER_MARK) => Cow::Owned(bytes[BYTE_ORDER_MARK.len()..].to_vec()),
        Cow::Owned(bytes) => Cow::Owned(bytes),
    })
}

fn windows(packed: Packed<'_>, path: &Path, options: &OpenOptions) -> Result<Loaded, OpenError> {
    let mut content = Content::new(path, options, packed.size_hint());
    let rest = packed.windows(options, &mut content)?;
    match rest.broken {
        Some(error) if error.kind() == ErrorKind::FileTooLarge => return Err(too_large(path, options)),
        Some(error) => content.broken_archive(&error)?,
        None => {}
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

fn members(archive: impl Read, path: &Path, options: &OpenOptions) -> Results {
    let mut found = Vec::new();
    if let Err(error) = each_member(archive, path, options, &mut found) {
        found.push(Err(match error.kind() {
            ErrorKind::FileTooLarge => too_large(path, options),
            _ => OpenError::Io { path: path.to_owned(), reason: error },
        }));
    }
    if found.is_empty() { vec![Err(OpenError::NoTraces { path: path.to_owned() })] } else { found }
}

fn each_member(archive: impl Read, path: &Path, options: &OpenOptions, found: &mut Results) -> std::io::Result<()> {
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        if entry.header().entry_type().is_file() && may_be_trace(&name) {
            let path = PathBuf::from(format!("{}:{}", path.display(), name.display()));
            found.extend(content(Packed::Member(Vec::new(), &mut entry), &path, options));
        }
    }
    Ok(())
}

/// What reads content that begins with `head`, called `name`.
fn reading(head: &[u8], name: &Path) -> &'static Reading {
    let name = naming::unpacked(name);
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    FORMATS.iter().find(|format| (format.is)(head, &name)).map_or(&Reading::Windows, |format| &format.reading)
}

/// Endings of archives that may hold traces.
const ARCHIVES: [&str; 2] = [".tar", ".tgz"];

/// Whether a name says that the file could be a trace, or an archive of traces.
pub(super) fn may_be_trace(path: &Path) -> bool {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy().to_lowercase()) else { return false };
    let unpacked = name.strip_suffix(".gz").unwrap_or(&name);
    let mut endings = FORMATS.iter().flat_map(|format| format.endings).chain(&ARCHIVES);
    !name.starts_with('.') && name != "manifest.json" && endings.any(|ending| unpacked.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn tar(name: &str, content: &[u8]) -> Vec<u8> {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        let mut archive = tar::Builder::new(Vec::new());
        archive.append_data(&mut header, name, content).unwrap();
        archive.into_inner().unwrap()
    }

    /// What was read of each trace: its path, and how many events or nodes it has.
    fn read(content: &[u8], name: &str) -> Vec<(String, usize)> {
        let loaded = bytes(content, Path::new(name), &OpenOptions::default());
        let shown = |loaded: Result<Loaded, OpenError>| match loaded.unwrap() {
            Loaded::Trace(trace) => (trace.path.display().to_string(), trace.events.len()),
            Loaded::Execution(trace) => (trace.path.display().to_string(), trace.nodes.len()),
        };
        loaded.into_iter().map(shown).collect()
    }

    #[test]
    fn every_format_is_read_however_it_is_packed() {
        let json = br#"[{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}]"#;
        let found = |path: &str, count| vec![(path.to_owned(), count)];
        assert_eq!(read(json, "a.json"), found("a.json", 1));
        assert_eq!(read(&gzip(json), "a.json.gz"), found("a.json.gz", 1));
        assert_eq!(read(&tar("a.json", json), "a.tar"), found("a.tar:a.json", 1));
        assert_eq!(read(&gzip(&tar("a.json", json)), "a.tgz"), found("a.tgz:a.json", 1));
        let table = b"type,input,filters\nlinear,1x3,5\nlinear,,7\n";
        let nodes = read(table, "a.csv")[0].1;
        assert_eq!(read(&gzip(table), "a.csv.gz"), found("a.csv.gz", nodes));
    }
}

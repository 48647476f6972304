//! File access: paths → named streams of bytes, unpacked. The only place of the loader that touches the file system.
//!
//! Must not know what the bytes mean.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use super::OpenError;
use crate::reads;
use crate::units::Bytes;

/// How content is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Not at all.
    Plain,
    /// gzip.
    Gzip,
    /// A tar archive, in gzip or not.
    Tar {
        /// Whether the archive is in gzip.
        gzip: bool,
    },
}

/// The name that stands for standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// Below this size a file is read at once.
const SMALL_FILE: u64 = 1 << 20;
/// How gzip begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The content of a file. It is read and never mapped: what another process does to the file meanwhile changes at most what
/// is read, and a file that became shorter is one that ends early.
pub(super) enum Source {
    /// Read into memory: what is small or packed.
    Read(Vec<u8>),
    /// A large file, read as it is needed, and its size.
    File(File, u64),
    /// A pipe, a device or standard input, which only flows once.
    Stream(Box<dyn Read + Send>),
}

impl Source {
    /// Opens `path`.
    ///
    /// # Errors
    /// [`OpenError::Missing`] and [`OpenError::Io`].
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        if path.as_os_str() == STANDARD_INPUT {
            reads::note(Path::new("/dev/stdin"));
            return Ok(Self::Stream(Box::new(std::io::stdin())));
        }
        let io = |reason| OpenError::Io { path: path.to_owned(), reason };
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(OpenError::Missing { path: path.to_owned() });
            }
            Err(error) => return Err(io(error)),
        };
        reads::note(path);
        let about = file.metadata().map_err(io)?;
        if !about.is_file() {
            return Ok(Self::Stream(Box::new(file)));
        }
        let mut bytes = Vec::new();
        if about.len() >= SMALL_FILE {
            (&mut file).take(GZIP.len() as u64).read_to_end(&mut bytes).map_err(io)?;
            if bytes != GZIP {
                file.rewind().map_err(io)?;
                return Ok(Self::File(file, about.len()));
            }
        }
        bytes.try_reserve(about.len() as usize).map_err(|_| io(std::io::ErrorKind::OutOfMemory.into()))?;
        file.read_to_end(&mut bytes).map_err(io)?;
        Ok(Self::Read(bytes))
    }
}

/// Memory that this process holds; `None` where the system does not say.
pub(crate) fn resident() -> Option<Bytes> {
    #[cfg(target_os = "macos")]
    return memory_stats::memory_stats().map(|held| Bytes(held.physical_mem as u64));
    #[cfg(not(target_os = "macos"))]
    resident_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// What `/proc/self/status` says is held. Other files of `/proc` count pages, whose size is not the same on every machine.
#[cfg(not(target_os = "macos"))]
fn resident_of(status: &str) -> Option<Bytes> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok().map(|kilobytes: u64| Bytes(kilobytes.saturating_mul(1024)))
}

/// How `bytes`, called `name`, are packed.
pub(super) fn packing(bytes: &[u8], name: &Path) -> Packing {
    const TAR_MAGIC: usize = 257;
    let is_tar = |head: &[u8]| head.get(TAR_MAGIC..TAR_MAGIC + 5) == Some(b"ustar");
    if !bytes.starts_with(&GZIP) {
        return if is_tar(bytes) { Packing::Tar { gzip: false } } else { Packing::Plain };
    }
    let mut head = Vec::new();
    // A stream too damaged to look into is no archive as far as can be seen; reading it says what is wrong.
    let _ = MultiGzDecoder::new(bytes).take(512).read_to_end(&mut head);
    let name = name.to_string_lossy();
    if is_tar(&head) || name.ends_with(".tgz") || name.ends_with(".tar.gz") {
        Packing::Tar { gzip: true }
    } else {
        Packing::Gzip
    }
}

/// The files that `path` stands for: itself, or for a folder all in it that `is_wanted`, in order of name.
///
/// # Errors
/// [`OpenError::Missing`], [`OpenError::Io`], and [`OpenError::NoTraces`] for a folder without any.
pub(super) fn files(path: &Path, is_wanted: fn(&Path) -> bool) -> Result<Vec<PathBuf>, OpenError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let io = |reason| OpenError::Io { path: path.to_owned(), reason };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(io)? {
        let file = entry.map_err(io)?.path();
        if file.is_file() && is_wanted(&file) {
            found.push(file);
        }
    }
    if found.is_empty() {
        return Err(OpenError::NoTraces { path: path.to_owned() });
    }
    found.sort();
    Ok(found)
}

/// The file that `path` names a trace of: `job.tgz` of `job.tgz:rank3.json`; `None` where it is a file itself, or there is none.
pub(super) fn file_of_member(path: &Path) -> Option<PathBuf> {
    let text = path.to_str().filter(|_| !path.exists())?;
    let ends = text.char_indices().filter(|&(_, character)| character == ':').map(|(at, _)| at);
    ends.map(|at| PathBuf::from(&text[..at])).find(|file| file.is_file())
}

/// The execution trace that lies beside the profiler trace `path`, by the names in use (`x.kineto.json.gz` → `x.et.json.gz`).
pub(super) fn execution_trace_beside(path: &Path) -> Option<PathBuf> {
    const PROFILER_ENDINGS: [&str; 4] = [".kineto.json", ".pt.trace.json", "_kineto.json", ".json"];
    const EXECUTION_ENDINGS: [&str; 3] = [".et.json", "_et.json", ".et"];
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").unwrap_or(name);
    let stems = PROFILER_ENDINGS.iter().filter_map(|ending| name.strip_suffix(ending));
    let candidates = stems.flat_map(|stem| {
        EXECUTION_ENDINGS.iter().flat_map(move |ending| [format!("{stem}{ending}"), format!("{stem}{ending}.gz")])
    });
    candidates
        .map(|candidate| path.with_file_name(candidate))
        .find(|candidate| candidate != path && candidate.is_file())
}

/// Whether there is a file with something in it that is called as `path` with `ending` behind.
pub(super) fn is_beside(path: &Path, ending: &str) -> bool {
    let mut beside = path.as_os_str().to_owned();
    beside.push(ending);
    std::fs::metadata(&beside).is_ok_and(|file| file.len() > 0)
}

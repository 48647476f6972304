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

/// Endings of packings that are not read.
const OTHER_PACKINGS: [&str; 6] = [".zst", ".xz", ".bz2", ".lz4", ".br", ".zip"];
/// Endings of what lies beside a file and is about it: checksums, signatures, licences.
const ABOUT_A_FILE: [&str; 7] = [".md5", ".sha1", ".sha256", ".sha512", ".asc", ".sig", ".license"];
/// Parts of names that only traces have, whatever follows them.
const PARTS_OF_TRACES: [&str; 2] = [".json", ".pt.trace"];
/// So many files that were not read are named.
const MOST_NAMED: usize = 3;

/// What is said about the files of the folder `path` that by their names are traces and are not among [`files`]; `None` where there are none,
/// or `path` is no folder.
pub(super) fn unread(path: &Path, is_wanted: fn(&Path) -> bool) -> Option<String> {
    let entries = std::fs::read_dir(path).ok()?;
    let mut found: Vec<(PathBuf, &str)> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter_map(|file| why_unread(&file, is_wanted).map(|why| (file, why)))
        .collect();
    found.sort();
    let named = |(file, why): &(PathBuf, &str)| Some(format!("{} ({why})", file.file_name()?.to_string_lossy()));
    let names: Vec<String> = found.iter().take(MOST_NAMED).filter_map(named).collect();
    let more = match found.len() {
        0 => return None,
        all if all > MOST_NAMED => format!(" and {} more", all - MOST_NAMED),
        _ => String::new(),
    };
    let what = if found.len() == 1 { "file that looks like a trace is" } else { "files that look like traces are" };
    Some(format!("{}: {} {what} not read: {}{more}", path.display(), found.len(), names.join(", ")))
}

/// Why the entry `file` of a folder is not read although it is called as a trace; `None` where it is read, or called otherwise.
fn why_unread(file: &Path, is_wanted: fn(&Path) -> bool) -> Option<&'static str> {
    if file.is_dir() {
        return None;
    }
    if is_wanted(file) {
        let why = if file.exists() { "no regular file" } else { "a link that leads nowhere" };
        return (!file.is_file()).then_some(why);
    }
    let name = file.file_name()?.to_string_lossy().to_lowercase();
    if name.starts_with('.') || name == "manifest.json" || ABOUT_A_FILE.iter().any(|ending| name.ends_with(ending)) {
        return None;
    }
    let unpacked = OTHER_PACKINGS.iter().find_map(|ending| name.strip_suffix(ending));
    if unpacked.is_some_and(|name| is_wanted(Path::new(name))) {
        return Some("unpack it, or pack it with gzip");
    }
    PARTS_OF_TRACES.iter().any(|part| name.contains(part)).then_some("another ending")
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

#[cfg(test)]
mod tests {
    use super::super::{OpenOptions, open};

    #[test]
    #[cfg(unix)]
    fn files_of_a_folder_that_are_called_as_traces_and_are_not_read_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let trace = r#"{"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":5}]}"#;
        std::fs::write(place("r0.pt.trace.json"), trace).unwrap();
        let told = || {
            let opened = open(&[folder.path().to_path_buf()], &OpenOptions::default()).unwrap();
            let all = opened.diagnostics.sorted();
            all.iter()
                .filter(|found| found.code == "unread-file")
                .map(|found| found.message.clone())
                .collect::<Vec<_>>()
        };
        for name in
            ["README.md", "plot.png", ".hidden.json", "manifest.json", "r0.pt.trace.json.sha256", "logs.txt.zst"]
        {
            std::fs::write(place(name), "other").unwrap();
        }
        std::fs::create_dir(place("folder.json")).unwrap();
        assert_eq!(told(), Vec::<String>::new());
        std::fs::write(place("r1.pt.trace.json.zst"), "packed").unwrap();
        let one = told();
        assert!(one[0].contains("1 file that looks like a trace is not read: r1.pt.trace.json.zst"), "{one:?}");
        std::fs::write(place("r3.pt.trace.json.gz.1"), "packed").unwrap();
        std::os::unix::fs::symlink(place("nowhere"), place("r4.pt.trace.json.gz")).unwrap();
        // Neither a file nor a folder, as a pipe is.
        let _socket = std::os::unix::net::UnixListener::bind(place("p.json")).unwrap();
        let all = told();
        let [all] = all.as_slice() else { panic!("{all:?}") };
        for part in ["4 files", "p.json (no regular file)", "r3.pt.trace.json.gz.1 (another ending)", "and 1 more"] {
            assert!(all.contains(part), "{part}: {all}");
        }
    }
}

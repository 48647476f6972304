//! Writing files so that none is damaged: everything is written and flushed beside its place first, then put there.

use std::fs::{self, Metadata};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use retime_core::reads;
use tempfile::{Builder, NamedTempFile};

use super::SessionError;
use super::log::log_file;
use super::waiting::Waiting;

/// Why an existing file is not written.
const EXISTS: &str =
    "exists already; name another file, or replace it: --force, on the screen `!` after the command's name";

/// How many links are followed to a file before they are taken for a circle, as Linux does.
const MOST_LINKS: usize = 40;

/// Why a file that was read is not written.
const READ: &str = "was read to make this, and is not written over; name another file";

/// Why the log is not written over.
const LOG: &str = "is the log of what is done (--log), and is not written over; name another file";

/// What files may be written over.
#[derive(Clone, Copy)]
pub struct Overwrite<'a> {
    /// Whether a file that is there is replaced.
    pub force: bool,
    /// Whether what stands in a file that was read is an earlier version of what is written, which may be replaced as well.
    pub renews: &'a dyn Fn(&str) -> bool,
}

impl Overwrite<'_> {
    /// Replaces what is there if `force`, but nothing that was read.
    pub fn forced(force: bool) -> Self {
        Self { force, renews: &|_| false }
    }
}

/// The first line of a script that is recorded.
const RECORDED: &str = "# Recorded by retime; play it with :source, or `retime run`.";

/// Begins a script that is recorded, in a file that is not there yet.
///
/// # Errors
/// As [`write_files`].
pub fn begin_recording(path: &Path) -> Result<(), SessionError> {
    write_new(path, format!("{RECORDED}\n").as_bytes(), Overwrite::forced(false))
}

/// Adds a line to a script that is recorded.
///
/// # Errors
/// The file was read, is no recorded script, or the system refuses.
pub fn append(path: &Path, line: &str) -> Result<(), SessionError> {
    let add = || {
        if was_read(path) {
            return Err(READ.to_owned());
        }
        let mut first = String::new();
        let there = fs::File::open(path).map_err(|error| error.to_string())?;
        let _ = io::BufReader::new(there.take(RECORDED.len() as u64 + 1)).read_line(&mut first);
        if first.trim_end() != RECORDED {
            return Err("it is no recorded script any more".to_owned());
        }
        let file = fs::OpenOptions::new().append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{line}")).map_err(|error| error.to_string())
    };
    add().map_err(|reason| SessionError::Write { path: path.display().to_string(), reason })
}

/// Ends a script to which `lines` were recorded. Where its file is gone, it is written anew.
///
/// # Errors
/// The file has not all of the lines, or as [`write_files`].
pub fn end_recording(path: &Path, lines: &[String]) -> Result<(), SessionError> {
    let fail = |reason: String| SessionError::Write { path: path.display().to_string(), reason };
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
            return write_new(path, format!("{RECORDED}\n{text}").as_bytes(), Overwrite::forced(false));
        }
        Ok(there) if !there.is_file() => return Err(fail(NO_FILE.to_owned())),
        _ => {}
    }
    let there = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    let mut left = there.lines();
    let has_all = left.next() == Some(RECORDED) && lines.iter().all(|line| left.any(|written| written == line));
    if has_all { Ok(()) } else { Err(fail(format!("has not all of the {} lines that were recorded", lines.len()))) }
}

/// Whether both paths lead to one file, which is there.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    same_file::is_same_file(one, other).unwrap_or(false)
}

/// Whether `path` leads to a file that this process has read, by whatever name.
fn was_read(path: &Path) -> bool {
    reads::all().iter().any(|read| same_file::is_same_file(read, path).unwrap_or(false))
}

/// Writes `contents` to `path` in one step.
///
/// # Errors
/// As [`write_files`].
pub fn write_new(path: &Path, contents: &[u8], over: Overwrite<'_>) -> Result<(), SessionError> {
    write_files([(path, contents)], over)
}

/// Writes files, all or none: all contents are on the disk before the first takes its place. A link is followed, and a
/// file that is replaced keeps its permissions.
///
/// # Errors
/// A file exists and may not be replaced, was read, or is no regular file (a device, a pipe, a folder); or
/// the system refuses. New files that took their place before are removed then.
pub fn write_files<P: AsRef<Path>, C: AsRef<[u8]>>(
    files: impl IntoIterator<Item = (P, C)>,
    over: Overwrite<'_>,
) -> Result<(), SessionError> {
    let fail = |path: &Path, reason: String| SessionError::Write { path: path.display().to_string(), reason };
    let refused = |path: &Path, error: &io::Error| {
        let is_there = error.kind() == ErrorKind::AlreadyExists;
        fail(path, if is_there { EXISTS.to_owned() } else { format!("cannot write it: {error}") })
    };
    // Dropped last: what is staged and has no place yet is gone before a signal that waited ends the program.
    let _waiting = Waiting::new();
    let mut staged: Vec<(PathBuf, Place, _)> = Vec::new();
    for (path, contents) in files {
        if Waiting::is_asked_to_end() {
            return Err(fail(path.as_ref(), "interrupted".to_owned()));
        }
        let path = path.as_ref().to_owned();
        let place = Place::of(&path, over).map_err(|reason| fail(&path, reason))?;
        if let Some((other, ..)) = staged.iter().find(|(_, other, _)| place.is_as(other)) {
            return Err(fail(&path, format!("is the same file as {}, and both are to be written", other.display())));
        }
        let file = place.stage(contents.as_ref()).map_err(|error| refused(&path, &error))?;
        staged.push((path, place, file));
    }
    let mut written: Vec<PathBuf> = Vec::new();
    for (path, place, file) in staged {
        if let Err(error) = place.put(file, over.force) {
            for new in &written {
                let _ = fs::remove_file(new);
            }
            return Err(refused(&path, &error));
        }
        if place.there.is_none() {
            written.push(place.path);
        }
    }
    Ok(())
}

/// Where a file is to be.
struct Place {
    /// Its path, links followed.
    path: PathBuf,
    /// The file that is there.
    there: Option<Metadata>,
}

/// Why what is no file is not written.
const NO_FILE: &str = "is a device or a pipe, and only files are written";

impl Place {
    /// Whether both are one file, by links.
    fn is_as(&self, other: &Self) -> bool {
        let are_there = self.there.is_some() && other.there.is_some();
        self.path == other.path || are_there && same_file::is_same_file(&self.path, &other.path).unwrap_or(false)
    }

    fn of(asked: &Path, over: Overwrite<'_>) -> Result<Self, String> {
        // Links of open files, /dev/stdout among them, lead to no path.
        if fs::metadata(asked).is_ok_and(|there| !there.is_dir() && !there.is_file()) {
            return Err(NO_FILE.to_owned());
        }
        let path = followed(asked)?;
        let there = match fs::metadata(&path) {
            Ok(there) => there,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self { path, there: None }),
            Err(error) => return Err(format!("cannot write it: {error}")),
        };
        if there.is_dir() {
            return Err("is a folder; name a file in it".to_owned());
        }
        if !there.is_file() {
            return Err(NO_FILE.to_owned());
        }
        if log_file().is_some_and(|log| is_same_file(log, &path)) {
            return Err(LOG.to_owned());
        }
        if was_read(&path) && !fs::read_to_string(&path).is_ok_and(|text| (over.renews)(&text)) {
            return Err(READ.to_owned());
        }
        if !over.force {
            return Err(EXISTS.to_owned());
        }
        if there.permissions().readonly() {
            return Err("cannot be written: it is read-only".to_owned());
        }
        Ok(Self { path, there: Some(there) })
    }

    fn folder(&self) -> &Path {
        self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }

    /// The contents in a new file of a random name beside the place, on the disk.
    fn stage(&self, contents: &[u8]) -> io::Result<NamedTempFile> {
        fault::point()?;
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(self.path.file_name().unwrap_or_default());
        prefix.push(".");
        let mut builder = Builder::new();
        builder.prefix(&prefix).suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The process's mask takes from it what new files shall not have.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let mut file = builder.tempfile_in(self.folder()).map_err(|error| io::Error::from(error.kind()))?;
        fault::point()?;
        file.as_file_mut().write_all(contents)?;
        fault::point()?;
        file.as_file().sync_all()?;
        if let Some(there) = &self.there {
            fault::point()?;
            keep_owner(&file, there)?;
            file.as_file().set_permissions(there.permissions())?;
        }
        Ok(file)
    }

    /// Gives the staged file its name.
    fn put(&self, file: NamedTempFile, force: bool) -> io::Result<()> {
        fault::point()?;
        if force {
            file.persist(&self.path).map_err(|refused| refused.error)?;
        } else {
            // Refuses where another process was first.
            file.persist_noclobber(&self.path).map_err(|refused| refused.error)?;
        }
        // The file is whole either way; a file system that cannot flush folders says so here, and that is no failure.
        #[cfg(unix)]
        let _ = fs::File::open(self.folder()).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// Gives `file`, which takes the place of another, that one's owner, and its group where the system lets us.
#[cfg(unix)]
fn keep_owner(file: &NamedTempFile, there: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let own = file.as_file().metadata()?;
    let group = (own.gid() != there.gid()).then(|| fchown(file.as_file(), None, Some(there.gid())));
    if own.uid() == there.uid() {
        return Ok(());
    }
    let kept = fchown(file.as_file(), Some(there.uid()), None).and(group.unwrap_or(Ok(())));
    kept.map_err(|error| io::Error::new(error.kind(), "it is another user's, and would become yours"))
}

#[cfg(not(unix))]
fn keep_owner(_: &NamedTempFile, _: &Metadata) -> io::Result<()> {
    Ok(())
}

/// The file that `path` leads to over links; it need not be there.
fn followed(path: &Path) -> Result<PathBuf, String> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if !fs::symlink_metadata(&path).is_ok_and(|there| there.is_symlink()) {
            return Ok(path);
        }
        let to = fs::read_link(&path).map_err(|error| format!("cannot follow the link: {error}"))?;
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    Err("links lead in a circle".to_owned())
}

/// Errors that tests let happen at any operation of writing.
mod fault {
    use std::io;

    #[cfg(test)]
    thread_local! {
        /// Operations until one fails; 0: none does.
        pub(super) static FAILS_IN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }

    /// An operation on the disk begins.
    #[cfg_attr(not(test), expect(clippy::unnecessary_wraps, reason = "fails in tests only"))]
    pub(super) fn point() -> io::Result<()> {
        #[cfg(test)]
        {
            let left = FAILS_IN.get();
            FAILS_IN.set(left.saturating_sub(1));
            if left == 1 {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const KEEP: Overwrite<'static> = Overwrite { force: false, renews: &|_| false };
    const FORCE: Overwrite<'static> = Overwrite { force: true, renews: &|_| false };

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn refusal(path: &Path, over: Overwrite<'_>) -> String {
        write_new(path, b"new", over).unwrap_err().to_string()
    }

    #[test]
    fn a_recording_that_ends_is_in_its_file_or_is_said_not_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("ended.retime");
        let lines = ["batch 512", "view path"].map(str::to_owned);
        let text = format!("{RECORDED}\nbatch 512\nview path\n");
        begin_recording(&script).unwrap();
        for line in &lines {
            append(&script, line).unwrap();
        }
        end_recording(&script, &lines).unwrap();
        fs::remove_file(&script).unwrap();
        assert!(append(&script, "undo").is_err());
        end_recording(&script, &lines).unwrap();
        assert_eq!(fs::read_to_string(&script).unwrap(), text, "what was taken away is written anew");
        fs::write(&script, format!("{RECORDED}\nview path\n")).unwrap();
        let error = end_recording(&script, &lines).unwrap_err().to_string();
        assert!(error.contains("ended.retime") && error.contains("not all of the 2 lines"), "{error}");
        let error = end_recording(folder.path(), &lines).unwrap_err().to_string();
        assert!(error.contains("is a device or a pipe"), "{error}");
    }

    #[test]
    fn a_recording_goes_on_in_a_script_that_it_began_and_in_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let [notes, script] = ["notes.txt", "script.retime"].map(|name| folder.path().join(name));
        fs::write(&notes, "mine").unwrap();
        assert!(begin_recording(&notes).is_err() && append(&notes, "batch 7").is_err());
        assert_eq!(fs::read(&notes).unwrap(), b"mine");
        begin_recording(&script).unwrap();
        append(&script, "batch 7").unwrap();
        assert_eq!(fs::read_to_string(&script).unwrap(), format!("{RECORDED}\nbatch 7\n"));
    }

    #[test]
    fn an_existing_file_is_kept_unless_told_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        write_new(&path, b"one", KEEP).unwrap();
        assert!(refusal(&path, KEEP).contains("exists already"));
        assert_eq!(fs::read(&path).unwrap(), b"one");
        write_new(&path, b"two", FORCE).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(names(folder.path()), ["out.json"]);
    }

    #[test]
    fn an_input_is_never_replaced_under_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("trace.json");
        let other = folder.path().join("same.json");
        fs::write(&input, "old").unwrap();
        fs::hard_link(&input, &other).unwrap();
        reads::note(&input);
        for path in [&input, &other, &folder.path().join(".").join("trace.json")] {
            let reason = refusal(path, FORCE);
            assert!(reason.contains("was read"), "{reason}");
        }
        assert_eq!(fs::read(&input).unwrap(), b"old");
        write_new(&input, b"newer", Overwrite { force: true, renews: &|there| there == "old" }).unwrap();
        assert_eq!(fs::read(&input).unwrap(), b"newer", "a later version of itself");
    }

    #[cfg(unix)]
    #[test]
    fn devices_pipes_and_folders_are_refused_with_force_too() {
        let folder = tempfile::tempdir().unwrap();
        assert!(refusal(folder.path(), FORCE).contains("folder"));
        assert!(refusal(Path::new("/dev/null"), FORCE).contains("device"));
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(refusal(&socket, FORCE).contains("device or a pipe"));
        let (pipe, _other_end) = io::pipe().unwrap();
        let open = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
        assert!(!Path::new(&open).exists() || refusal(Path::new(&open), FORCE).contains("device or a pipe"));
        let read_only = folder.path().join("kept");
        fs::write(&read_only, "old").unwrap();
        let mut permissions = fs::metadata(&read_only).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&read_only, permissions).unwrap();
        assert!(refusal(&read_only, FORCE).contains("read-only"));
        assert_eq!(names(folder.path()), ["kept", "socket"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_and_the_permissions_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("real.json", &link).unwrap();
        write_new(&link, b"new", FORCE).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        symlink(&one, &two).unwrap();
        symlink(&two, &one).unwrap();
        assert!(refusal(&one, FORCE).contains("circle"));
        let dangling = folder.path().join("dangling");
        symlink("made.json", &dangling).unwrap();
        write_new(&dangling, b"new", KEEP).unwrap();
        assert_eq!(fs::read(folder.path().join("made.json")).unwrap(), b"new");
    }

    #[cfg(unix)]
    #[test]
    fn two_files_that_are_one_are_not_written_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("real"), "old").unwrap();
        std::os::unix::fs::symlink("real", path("link")).unwrap();
        fs::hard_link(path("real"), path("hard")).unwrap();
        for (one, other) in [("real", "link"), ("real", "hard"), ("new", "new")] {
            let refused = write_files([(path(one), "a"), (path(other), "b")], FORCE).unwrap_err().to_string();
            assert!(refused.contains("is the same file as"), "{refused}");
        }
        assert_eq!(fs::read(path("real")).unwrap(), b"old");
        assert!(!path("new").exists());
    }

    /// Only the system's administrator can write for another.
    #[cfg(unix)]
    #[test]
    fn a_file_that_is_replaced_keeps_its_owner_and_its_mode() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        fs::write(&path, "old").unwrap();
        if chown(&path, Some(12_345), Some(12_346)).is_err() {
            return;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write_new(&path, b"new", FORCE).unwrap();
        let there = fs::metadata(&path).unwrap();
        assert_eq!((there.uid(), there.gid(), there.mode() & 0o777), (12_345, 12_346, 0o640));
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn of_twenty_at_once_exactly_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let (path, won) = (folder.path().join("out"), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for number in 0..20u8 {
                let (path, won) = (&path, &won);
                scope.spawn(move || {
                    if write_new(path, &[number; 9000], KEEP).is_ok() {
                        won.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(won.into_inner(), 1);
        let contents = fs::read(&path).unwrap();
        assert_eq!(contents, vec![contents[0]; 9000]);
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn whatever_fails_nothing_new_stays_and_nothing_old_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new, third] = ["old", "new", "third"].map(|name| folder.path().join(name));
        for over in [KEEP, FORCE] {
            fs::write(&old, "before").unwrap();
            let mut failures = 0;
            for fails_in in 1.. {
                let _ = fs::remove_file(&new);
                let first = if over.force { &old } else { &third };
                fault::FAILS_IN.set(fails_in);
                let result = write_files([(&new, "a"), (first, "after")], over);
                if fault::FAILS_IN.replace(0) > 0 {
                    result.unwrap();
                    break;
                }
                let reason = result.unwrap_err().to_string();
                assert!(reason.contains("cannot write it"), "{reason}");
                assert_eq!(names(folder.path()), ["old"], "operation {fails_in}");
                assert_eq!(fs::read(&old).unwrap(), b"before");
                failures += 1;
            }
            assert!(failures >= 8, "{failures}");
            let _ = (fs::remove_file(&new), fs::remove_file(&third));
        }
    }
}

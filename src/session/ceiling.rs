//! How much memory this process may hold, and that it gives back what it no longer uses.
//!
//! Says a number; who keeps to it is the engine.

use std::fs;
use std::path::Path;
use std::process::Command;

use retime_core::units::Bytes;

/// Three quarters of the machine's memory, or of what the control groups of this process leave it; `None` where the system
/// does not say.
pub fn default_max_memory() -> Option<Bytes> {
    let machine = machine()?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(three_quarters(limits(&groups, Path::new("/sys/fs/cgroup")).fold(machine, u64::min)))
}

/// Has the largest blocks returned to the system as soon as they are freed: glibc's allocator raises, with every such block that is
/// freed, the size from which on it does so, and then keeps those of overtaken results between small ones that live on. Smaller ones,
/// such as hold a figure of each of some hundred thousand tasks, are used again: fresh pages take half of an evaluation's time.
///
/// A wish: where the allocator is another than glibc's, it decides by itself.
pub fn return_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Bytes from which on a block is mapped on its own.
        const LARGE: libc::c_int = 4 << 20;
        #[expect(unsafe_code, reason = "a setting of the C library that takes two numbers and no address")]
        // SAFETY: mallopt may be called at any time; it is done before there are threads.
        let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}

/// Returns to the system the memory that was freed and that the C library keeps to use again: asked for in a pause, so that results
/// that follow one another find their memory again, and what an edit held is not kept. A wish, as [`return_large_blocks`].
///
/// # Complexity
/// O(free blocks), some milliseconds; who allocates meanwhile waits.
pub fn give_back_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[expect(unsafe_code, reason = "a wish to the C library that takes one number and no address")]
        // SAFETY: malloc_trim may be called at any time, by any thread.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}

/// The machine's memory: by Linux's `/proc`, elsewhere as macOS and the BSDs tell it.
fn machine() -> Option<u64> {
    if let Ok(text) = fs::read_to_string("/proc/meminfo") {
        return machine_memory(&text);
    }
    let told = Command::new("/usr/sbin/sysctl").args(["-n", "hw.memsize"]).output().ok()?;
    String::from_utf8(told.stdout).ok()?.trim().parse().ok()
}

fn three_quarters(bytes: u64) -> Bytes {
    Bytes(bytes - bytes / 4)
}

/// The machine's memory, of `/proc/meminfo`.
fn machine_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes.saturating_mul(1024))
}

/// The limits of the control groups that the process is in, of both versions, and of those around them.
fn limits<'a>(groups: &'a str, root: &'a Path) -> impl Iterator<Item = u64> + 'a {
    let places = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let inside = Path::new(path.trim_start_matches('/'));
        match controllers {
            "" => Some((root.to_owned(), inside, "memory.max")),
            _ if controllers.split(',').any(|one| one == "memory") => {
                Some((root.join("memory"), inside, "memory.limit_in_bytes"))
            }
            _ => None,
        }
    });
    // A group's own folder is not always seen under its path from inside a container: those around it are asked, too.
    places.flat_map(|(root, inside, file)| {
        inside.ancestors().filter_map(move |folder| read(&root.join(folder).join(file))).collect::<Vec<_>>()
    })
}

fn read(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_control_group_counts() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        at("a/memory.max", "4096\n");
        at("a/b/memory.max", "max\n");
        at("memory/c/memory.limit_in_bytes", "1000\n");
        let found = |groups| limits(groups, folder.path()).collect::<Vec<_>>();
        assert_eq!(found("0::/a/b\n"), [4096]);
        assert_eq!(found("3:cpu,memory:/c\n2:pids:/c\n"), [1000]);
        assert_eq!(found("0::/\nnonsense\n"), Vec::<u64>::new());
    }

    #[test]
    fn memory_of_the_machine_is_read() {
        let found = machine_memory("MemFree: 1 kB\nMemTotal:       16384 kB\n");
        assert_eq!(found.map(three_quarters), Some(Bytes(12 << 20)));
        assert_eq!(machine_memory("MemTotal: 99999999999999999999 kB\n"), None);
    }
}

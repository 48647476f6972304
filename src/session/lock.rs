//! A file that one process holds at a time.

use std::fs;
use std::io;
use std::path::PathBuf;

/// Held by this process until it is dropped or the process ends, however it does.
#[derive(Debug)]
pub(super) struct FileLock {
    path: PathBuf,
    file: fs::File,
}

impl FileLock {
    /// `None` where another process holds it.
    pub(super) fn take(path: PathBuf) -> io::Result<Option<Self>> {
        loop {
            let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => return Ok(None),
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
            // Its holder may have removed the file before it let go.
            let ours = same_file::Handle::from_file(file.try_clone()?)?;
            if same_file::Handle::from_path(&path).is_ok_and(|there| there == ours) {
                return Ok(Some(Self { path, file }));
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

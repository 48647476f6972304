//! How traces are opened, and how far that has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::units::Bytes;

/// How to open.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Counts along while files are read, and stops reading when told to.
    pub progress: Arc<Progress>,
    /// Most bytes that one packed file may unpack to (default 64 GiB).
    pub max_unpacked_bytes: u64,
    /// Most bytes that one packed byte may stand for, beyond the first 256 MiB (default 400; real traces reach 60).
    pub max_unpacked_ratio: u64,
    /// Memory that this process may hold; `None` for as much as there is.
    pub max_memory: Option<Bytes>,
    /// Whether several threads read one file where there are more of them than files; what is read is the same.
    pub in_chunks: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            progress: Arc::default(),
            max_unpacked_bytes: 64 << 30,
            max_unpacked_ratio: 400,
            max_memory: None,
            in_chunks: true,
        }
    }
}

/// How far loading has come; shared with whoever shows it.
#[derive(Debug, Default)]
pub struct Progress {
    bytes_read: AtomicU64,
    bytes_total: AtomicU64,
    events: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Bytes of the files read so far, packed as they are on disk.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Bytes of all files to read.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_total.load(Ordering::Relaxed)
    }

    /// Entries read so far.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Asks the loader to stop; it does so within a chunk.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(super) fn add_bytes(&self, count: u64) {
        self.bytes_read.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn add_total(&self, count: u64) {
        self.bytes_total.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn add_events(&self, count: u64) {
        self.events.fetch_add(count, Ordering::Relaxed);
    }
}

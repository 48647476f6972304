//! Why a file could not be opened as a trace: the place, what was expected there and what to do about it.

use std::path::PathBuf;

use crate::units::Bytes;

/// A failure to open traces. Every variant names the file; those about content name the byte.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No path was given.
    #[error("no trace was named")]
    NothingNamed,
    /// A path does not exist.
    #[error("{path}: no such file or folder; check the spelling, or list the folder it should be in")]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// The operating system refused to read.
    #[error("{path}: cannot be read: {reason}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: std::io::Error,
    },
    /// A folder or archive has no file that could be a trace.
    #[error("{path}: holds no trace; expected files ending in .json, .json.gz or .tar.gz")]
    NoTraces {
        /// The folder or archive.
        path: PathBuf,
    },
    /// There are no bytes.
    #[error("{path}: is empty; the profiler may have been stopped before it wrote, so record again")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The content is of a kind that is no trace, or no supported one.
    #[error("{path}: is {found}, not a trace; {advice}")]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What the content looks like.
        found: &'static str,
        /// What to give instead.
        advice: &'static str,
    },
    /// JSON, with neither events nor nodes.
    #[error(
        "{path}: is JSON without `traceEvents` (profiler trace) or `nodes` (execution trace); \
         give a file written by torch.profiler's export_chrome_trace or by ExecutionTraceObserver"
    )]
    WrongSchema {
        /// The file.
        path: PathBuf,
    },
    /// A trace in which no event could be used.
    #[error(
        "{path}: a trace without a single usable event ({in_file} entries, {skipped} damaged); record again with activities enabled"
    )]
    NoEvents {
        /// The file.
        path: PathBuf,
        /// Entries in the file.
        in_file: u64,
        /// Of those, the damaged ones.
        skipped: u64,
    },
    /// The content breaks off or breaks the format before anything could be read.
    #[error("{path}: byte {offset}: expected {expected}; the file is damaged or cut off, so copy or record it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset in the (uncompressed) content.
        offset: u64,
        /// What should have been there.
        expected: String,
    },
    /// More content than the stated limit.
    #[error("{path}: unpacks to more than {limit}, as traps do; if that is meant, unpack it and open what was in it")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit, in words.
        limit: String,
    },
    /// More memory than may be used.
    #[error(
        "{path}: needs {needed} of memory, {limit} may be used: give more with --max-memory, or a shorter recording"
    )]
    Memory {
        /// The file.
        path: PathBuf,
        /// How much it needs, in words.
        needed: String,
        /// How much may be used.
        limit: Bytes,
    },
    /// A table of layers with a cell that cannot be used.
    #[error("{path}: line {line}, column {column}: {reason}")]
    Layers {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column in characters, from 1.
        column: usize,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("{path}: loading was stopped")]
    Cancelled {
        /// The file being read.
        path: PathBuf,
    },
}

//! What a file format is to the loader: how its content is told, and what reads it. Archives and compression are none of its
//! business: a reader gets content as it was before it was packed.
//!
//! A new format is two files: its reader, which adds rows to a [`TraceBuilder`](super::builder::TraceBuilder) and ends with
//! `finish`, and the parent of this module, with a line for the reader's module and one in `FORMATS`.

use std::path::Path;

use super::{ExecutionTrace, OpenError, OpenOptions, Trace};

/// A file format.
pub(super) struct Format {
    /// What names of its files end in, before `.gz`: folders and archives are searched for these.
    pub(super) endings: &'static [&'static str],
    /// Whether content that begins with `head`, called `name`, is of this format.
    pub(super) is: fn(head: &[u8], name: &Path) -> bool,
    /// What reads it.
    pub(super) reading: Reading,
}

/// What reads a format.
pub(super) enum Reading {
    /// All content at once, and the memory that reading takes, about, as a multiple of it.
    Whole(Reader, u64),
    /// JSON window by window, never as a whole.
    Windows,
}

/// Content, what it is called, and how to read → what is in it.
type Reader = fn(&[u8], &Path, &OpenOptions) -> Result<Vec<Loaded>, OpenError>;

/// What was read.
#[derive(Debug)]
pub(super) enum Loaded {
    /// A timed trace.
    Trace(Box<Trace>),
    /// An execution trace.
    Execution(Box<ExecutionTrace>),
}

/// How much of the start is looked at to say what content is.
pub(super) const HEAD: usize = 4096;

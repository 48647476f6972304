//! What a file states that tasks have to do, beside what the arguments of their operators tell.

use crate::intern::NameId;
use crate::units::{Bytes, Flop};

/// The work of a kernel or a host computation as an export wrote it down, as names and numbers: what families and precisions there are
/// is not known here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatedWork {
    /// Its family, as selectors call it.
    pub family: NameId,
    /// How it computes, as device files call it.
    pub precision: NameId,
    /// Arithmetic; finite, not negative.
    pub flop: Flop,
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
}

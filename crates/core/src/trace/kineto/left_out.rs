//! Entries that are read and not kept, each kind with how many there were and why that loses nothing.

use super::raw::{Key, RawEvent};
use crate::diagnostic::{Diagnostics, Severity};
use crate::intern::printable;

/// Code and reason of each kind, in the order of [`LeftOut::counts`].
const KINDS: [(&str, &str); 7] = [
    ("flow-arrows", "arrows between events (phases s, t and f) were not kept: launches are joined by correlation id"),
    ("instant-marks", "marks without a length (phase i) were not kept: they take no time"),
    ("metadata", "descriptions of processes and threads (phase M) were read for names and are no events"),
    ("counters", "counter samples (phase C) were not kept: they take no time on a lane"),
    ("async-ranges", "ranges that belong to no thread (phases b, n and e) were not kept"),
    ("object-marks", "object and sample records (phases N, O, D, P and the like) were not kept"),
    ("unknown-phase", "entries with a phase that no known writer uses, or none, were not kept"),
];

/// Counts of what was left out.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    counts: [u64; KINDS.len()],
    unknown: Option<String>,
}

impl LeftOut {
    /// Counts an entry by its phase.
    pub(super) fn add(&mut self, event: &RawEvent<'_>) {
        let phase = event[Key::Phase].plain();
        let kind = match phase {
            b"s" | b"t" | b"f" => 0,
            b"i" | b"I" | b"R" => 1,
            b"M" => 2,
            b"C" => 3,
            b"b" | b"n" | b"e" | b"S" | b"T" | b"F" => 4,
            b"N" | b"O" | b"D" | b"P" | b"V" | b"v" | b"c" => 5,
            _ => 6,
        };
        self.counts[kind] += 1;
        if kind == 6 && self.unknown.is_none() {
            self.unknown = Some(printable(&event[Key::Phase].written()));
        }
    }

    /// Adds what `other` counted further on.
    pub(super) fn merge(&mut self, other: Self) {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, other)| *own += other);
        self.unknown = self.unknown.take().or(other.unknown);
    }

    /// Notes each kind that occurred, with its count.
    pub(super) fn report(&self, diagnostics: &mut Diagnostics) {
        for ((code, reason), &count) in KINDS.iter().zip(&self.counts).filter(|(_, count)| **count > 0) {
            let (severity, what) = match &self.unknown {
                Some(phase) if *code == "unknown-phase" => {
                    (Severity::Warning, format!("{reason} (the first: `{phase}`)"))
                }
                _ => (Severity::Note, (*reason).to_owned()),
            };
            diagnostics.add_many(severity, code, "", None, count, || what);
        }
    }
}

//! A trace while it is read: readers of all formats add rows here, and [`TraceBuilder::finish`] is the one way to a [`Trace`].
//!
//! Must not know how any format writes things.

use std::num::NonZeroU32;
use std::path::PathBuf;

use super::args::TensorLists;
use super::order::{self, DAY};
use super::track::TrackTable;
use super::{
    CollectiveArgs, CopyArgs, EventId, EventTable, KernelArgs, MemoryArgs, OpenError, OperatorArgs, RankPlace,
    RecordedDevice, SharedTable, SideTable, StatedMemory, SyncArgs, TensorArgs, Trace, Transfer, WorkArgs,
};
use crate::diagnostic::{Diagnostics, Severity};
use crate::intern::{NameId, NameTable, printable};
use crate::units::{DurNs, TimeNs};

/// The parts of a [`Trace`], which says what each is.
#[derive(Debug, Default)]
pub(super) struct TraceBuilder {
    pub(super) names: NameTable,
    pub(super) events: EventTable,
    pub(super) tracks: TrackTable,
    pub(super) lists: TensorLists,
    pub(super) operators: SideTable<OperatorArgs>,
    pub(super) host_operators: Vec<EventId>,
    pub(super) transfers: Option<SideTable<Transfer>>,
    pub(super) kernels: SharedTable<KernelArgs>,
    pub(super) works: SideTable<Option<WorkArgs>>,
    pub(super) copies: SideTable<CopyArgs>,
    pub(super) launched: SideTable<NameId>,
    pub(super) collectives: SideTable<CollectiveArgs>,
    pub(super) syncs: SideTable<SyncArgs>,
    pub(super) memory: SideTable<MemoryArgs>,
    /// What the times of the events count from.
    pub(super) origin: TimeNs,
    pub(super) untimed: bool,
    pub(super) rank: Option<RankPlace>,
    pub(super) devices: Vec<RecordedDevice>,
    pub(super) predicted: Option<String>,
    pub(super) predicted_error: Option<f64>,
    pub(super) iteration: Option<String>,
    pub(super) batches: Option<NonZeroU32>,
    pub(super) stated_memory: Option<StatedMemory>,
    pub(super) entries: u64,
    pub(super) skipped: u64,
    pub(super) diagnostics: Diagnostics,
}

impl TraceBuilder {
    /// Notes that an entry at `place` cannot be used.
    pub(super) fn skip(&mut self, code: &'static str, place: String, reason: &str) {
        self.skipped += 1;
        self.diagnostics.add(Severity::Warning, code, "", Some(place), || format!("{reason}; skipped"));
    }

    /// The length of an event as recorded; 0 and a note where it is missing, negative or endless.
    #[inline]
    pub(super) fn length(&mut self, recorded: Option<DurNs>, place: impl FnOnce() -> String) -> DurNs {
        match recorded {
            Some(dur) if (DurNs::ZERO..=self.longest()).contains(&dur) => dur,
            odd => self.odd_length(odd, place()),
        }
    }

    /// The longest event that is no unfinished one: what was predicted ends.
    fn longest(&self) -> DurNs {
        if self.predicted.is_some() { DurNs::LONGEST } else { DAY }
    }

    fn odd_length(&mut self, recorded: Option<DurNs>, place: String) -> DurNs {
        let (code, what) = match recorded {
            None => ("missing-duration", "an event has no length"),
            Some(DurNs(..0)) => ("negative-duration", "an event has a negative length"),
            Some(_) => ("endless-duration", "an event is longer than a day, as unfinished ones are written"),
        };
        let text = || format!("{what}; it was read as 0");
        self.diagnostics.add(Severity::Warning, code, "", Some(place), text);
        DurNs::ZERO
    }

    /// The trace, its events in order and counted from the first.
    ///
    /// # Arguments
    /// `path`: where it was read from; `format`: what that is called.
    ///
    /// # Errors
    /// [`OpenError::NoEvents`] when nothing could be used.
    pub(super) fn finish(self, path: PathBuf, format: &'static str) -> Result<Trace, OpenError> {
        if self.events.is_empty() {
            return Err(OpenError::NoEvents { path, in_file: self.entries, skipped: self.skipped });
        }
        let tensor_args = self.lists.finish();
        let mut diagnostics = self.diagnostics;
        note_odd_sizes(&tensor_args, &self.names, &mut diagnostics);
        let mut trace = Trace {
            path,
            format,
            names: self.names,
            events: self.events,
            tracks: self.tracks.finish(),
            has_shapes: tensor_args.iter().any(|list| list.dims != NameId(0)),
            tensor_args,
            operators: self.operators,
            host_operators: self.host_operators,
            transfers: self.transfers,
            kernels: self.kernels,
            works: self.works,
            copies: self.copies,
            launched: self.launched,
            collectives: self.collectives,
            syncs: self.syncs,
            memory: self.memory,
            origin: self.origin,
            untimed: self.untimed,
            rank: self.rank,
            devices: self.devices,
            predicted: self.predicted,
            predicted_error: self.predicted_error,
            iteration: self.iteration,
            batches: self.batches,
            stated_memory: self.stated_memory,
            events_in_file: self.entries,
            skipped_events: self.skipped,
            diagnostics,
        };
        order::settle(&mut trace);
        Ok(trace)
    }
}

/// Says how many lists of arguments have a tensor of negative size, and how many one whose size is no whole number.
fn note_odd_sizes(lists: &[TensorArgs], names: &NameTable, diagnostics: &mut Diagnostics) {
    type IsOdd = fn(char) -> bool;
    let odd: [(&'static str, IsOdd, &str); 2] = [
        ("negative-size", |c| c == '-', "with a negative size"),
        ("unreadable-size", |c| c.is_alphabetic() || c == '.', "with a size that is no whole number"),
    ];
    for (code, is_odd, how) in odd {
        let mut found = lists.iter().map(|list| names.get(list.dims)).filter(|dims| dims.contains(is_odd));
        let Some(first) = found.next() else { continue };
        let count = 1 + found.count() as u64;
        diagnostics.add_many(Severity::Warning, code, "", None, count, || {
            format!("arguments of an operator are recorded {how} ({}); it was read as 0", printable(&readable(first)))
        });
    }
}

/// The list `dims` with a `?` for each size that is no whole number: what prints one looks as if it had worked it out.
fn readable(dims: &str) -> String {
    let is_between = |c: char| matches!(c, '[' | ']' | ',' | ' ');
    let pieces = dims.split_inclusive(is_between);
    let piece = |piece: &str| {
        let size = piece.trim_end_matches(is_between);
        let is_whole = size.chars().all(|c| c.is_ascii_digit() || c == '-');
        if is_whole { piece.to_owned() } else { piece.replacen(size, "?", 1) }
    };
    pieces.map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_predicted_to_take_days_takes_them_and_what_was_recorded_so_did_not_end() {
        let days = Some(DurNs(2 * DAY.0));
        let mut builder = TraceBuilder::default();
        assert_eq!(builder.length(days, String::new), DurNs::ZERO);
        builder.predicted = Some("place-on V100".to_owned());
        assert_eq!(builder.length(days, String::new), DurNs(2 * DAY.0));
    }
}

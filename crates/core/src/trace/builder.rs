//! A trace while it is read: readers of all formats add rows here, and [`TraceBuilder::finish`] is the one way to a [`Trace`].
//!
//! Must not know how any format writes things.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::path::PathBuf;

use super::args::TensorLists;
use super::order::{self, DAY};
use super::track::TrackTable;
use super::{
    CollectiveArgs, CopyArgs, EventId, EventTable, KernelArgs, MemoryArgs, OpenError, OperatorArgs, RankPlace,
    RecordedDevice, SharedTable, SideTable, StatedMemory, SyncArgs, TensorArgs, Trace, Transfer, WorkArgs, sizes,
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

    /// Notes that the copy or memset at `start` has a size that is none.
    pub(super) fn damaged_bytes(&mut self, start: TimeNs) {
        let place = Some(format!("at {} ns", start.0));
        self.diagnostics.add(Severity::Warning, "damaged-bytes", "", place, || {
            "a copy or memset has a size that is no whole number of bytes of a memory: how much it moved is not known".to_owned()
        });
    }

    /// Takes out the events `left_out`, which are in order; those after them are numbered anew.
    ///
    /// # Complexity
    /// O(events).
    pub(super) fn leave_out(&mut self, left_out: &[EventId]) {
        if left_out.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.events);
        let is_kept = |id: &EventId| left_out.binary_search(id).is_err();
        // Those left out are numbered behind all others, where they are cut off.
        let (mut new_of_old, mut last) = (vec![0; all.len()], all.len() as u32);
        for id in all.ids() {
            new_of_old[id.0 as usize] = if is_kept(&id) {
                self.events.push(&all.get(id)).0
            } else {
                last -= 1;
                last
            };
        }
        let kept = 0..self.events.len();
        let Self { operators, kernels, works, copies, launched, collectives, syncs, memory, .. } = self;
        operators.renumber(&new_of_old);
        operators.keep(&kept);
        kernels.renumber(&new_of_old);
        kernels.keep(&kept);
        works.renumber(&new_of_old);
        works.keep(&kept);
        copies.renumber(&new_of_old);
        copies.keep(&kept);
        launched.renumber(&new_of_old);
        launched.keep(&kept);
        collectives.renumber(&new_of_old);
        collectives.keep(&kept);
        syncs.renumber(&new_of_old);
        syncs.keep(&kept);
        memory.renumber(&new_of_old);
        memory.keep(&kept);
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
    pub(super) fn finish(mut self, path: PathBuf, format: &'static str) -> Result<Trace, OpenError> {
        if self.events.is_empty() {
            return Err(OpenError::NoEvents { path, in_file: self.entries, skipped: self.skipped });
        }
        let tensor_args = self.settled_lists();
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
            diagnostics: self.diagnostics,
        };
        order::settle(&mut trace);
        Ok(trace)
    }

    /// The lists of arguments with all sizes as whole numbers. A list with a size that is none is emptied, and its operators have none:
    /// they are as if no sizes had been recorded, which is said.
    fn settled_lists(&mut self) -> Vec<TensorArgs> {
        let mut lists = std::mem::take(&mut self.lists).finish();
        let mut damaged = vec![false; lists.len()];
        for (list, is_damaged) in lists.iter_mut().zip(&mut damaged) {
            let sizes = sizes::read(self.names.get(list.dims), &[]);
            match sizes.text {
                _ if sizes.is_damaged => {
                    note_odd_sizes(self.names.get(list.dims), &mut self.diagnostics);
                    *is_damaged = true;
                    *list = TensorArgs::default();
                }
                Cow::Owned(text) => list.dims = self.names.intern(&text),
                Cow::Borrowed(_) => {}
            }
        }
        if damaged.contains(&true) {
            self.operators.for_each_value(|args| args.tensors = args.tensors.filter(|list| !damaged[list.index()]));
        }
        lists
    }
}

/// Counts a list of arguments with the sizes `dims`, of which one is no size.
fn note_odd_sizes(dims: &str, diagnostics: &mut Diagnostics) {
    let (code, how) = if dims.contains('-') {
        ("negative-size", "with a negative size")
    } else {
        ("unreadable-size", "with a size that is no whole number of at most 63 bits")
    };
    diagnostics.add(Severity::Warning, code, "", None, || {
        let sizes = printable(&readable(dims));
        format!("arguments of an operator are recorded {how} ({sizes}); none of its sizes are taken")
    });
}

/// The list `dims` with a `?` for each size that is no whole number: what prints one looks as if it had worked it out.
fn readable(dims: &str) -> String {
    let is_between = |c: char| matches!(c, '[' | ']' | ',' | ' ');
    let pieces = dims.split_inclusive(is_between);
    let piece = |piece: &str| {
        let size = piece.trim_end_matches(is_between);
        let is_whole = size.is_empty() || size.parse::<i64>().is_ok();
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

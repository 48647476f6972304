//! A builder that reads a later chunk of a trace → what the builder of the whole would have made of it.
//!
//! A chunk's builder is used for one chunk after the other: names, lists, tracks and wide ids that it meets again keep their
//! numbers, so each is looked up in the whole only once. New ones come in order of first appearance, as in a single reading.

use super::builder::Builder;
use crate::intern::NameId;
use crate::trace::narrow_ids::renumbered;
use crate::trace::{CollectiveArgs, MemoryArgs, OperatorArgs, SyncArgs, TensorArgsId, TrackId, WorkArgs};

/// What the numbers of a chunk's builder are in the whole.
#[derive(Debug, Default)]
pub struct Renumbering {
    names: Vec<NameId>,
    lists: Vec<TensorArgsId>,
    tracks: Vec<TrackId>,
    correlations: Vec<u32>,
    externals: Vec<u32>,
}

impl Renumbering {
    fn name(&self, own: NameId) -> NameId {
        self.names[own.0 as usize]
    }

    fn operator(&self, own: OperatorArgs) -> OperatorArgs {
        OperatorArgs {
            tensors: own.tensors.map(|list| self.lists[list.index()]),
            stack: self.name(own.stack),
            kernel_file: self.name(own.kernel_file),
            ..own
        }
    }

    fn collective(&self, own: CollectiveArgs) -> CollectiveArgs {
        CollectiveArgs {
            name: self.name(own.name),
            dtype: self.name(own.dtype),
            group: self.name(own.group),
            ranks: self.name(own.ranks),
            in_split: self.name(own.in_split),
            out_split: self.name(own.out_split),
            ..own
        }
    }

    fn work(&self, own: WorkArgs) -> WorkArgs {
        WorkArgs { family: self.name(own.family), precision: self.name(own.precision), ..own }
    }

    fn sync(&self, own: SyncArgs) -> SyncArgs {
        let record_correlation = renumbered(own.record_correlation, &self.correlations);
        SyncArgs { kind: self.name(own.kind), record_correlation, ..own }
    }
}

impl Builder {
    /// Whether what this builder read means the same without what stood before it: no event was begun or ended elsewhere.
    pub fn stands_alone(&self) -> bool {
        !self.pairs_events
    }

    /// Takes over what `chunk` read, which stood right behind what this builder has; `chunk` can read another one then.
    pub fn append(&mut self, chunk: &mut Self, numbers: &mut Renumbering) {
        self.correlations.follow(&chunk.correlations, &mut numbers.correlations);
        self.externals.follow(&chunk.externals, &mut numbers.externals);
        self.has_known_category |= chunk.has_known_category;
        self.left_out.merge(std::mem::take(&mut chunk.left_out));
        let (trace, chunk) = (&mut self.trace, &mut chunk.trace);
        numbers.names.extend(chunk.names.since(numbers.names.len()).map(|(_, name)| trace.names.intern(name)));
        let names = &numbers.names;
        let name = |own: NameId| names[own.0 as usize];
        trace.lists.follow(&chunk.lists, &mut numbers.lists, name);
        trace.tracks.follow(&mut chunk.tracks, &mut numbers.tracks, name);
        let numbers = &*numbers;
        let first = trace.events.len() as u32;
        trace.events.append(
            &chunk.events,
            name,
            |own| numbers.tracks[own.0 as usize],
            |own| renumbered(own, &numbers.correlations),
            |own| renumbered(own, &numbers.externals),
        );
        chunk.events.clear();
        trace.operators.append(&mut chunk.operators, first, |own| numbers.operator(own));
        trace.kernels.append(&mut chunk.kernels, first);
        trace.works.append(&mut chunk.works, first, |own| own.map(|own| numbers.work(own)));
        trace.copies.append(&mut chunk.copies, first, |own| own);
        trace.launched.append(&mut chunk.launched, first, name);
        trace.collectives.append(&mut chunk.collectives, first, |own| numbers.collective(own));
        trace.syncs.append(&mut chunk.syncs, first, |own| numbers.sync(own));
        trace.memory.append(&mut chunk.memory, first, |own| MemoryArgs { holds: name(own.holds), ..own });
        trace.entries += std::mem::take(&mut chunk.entries);
        trace.skipped += std::mem::take(&mut chunk.skipped);
        trace.diagnostics.merge(&std::mem::take(&mut chunk.diagnostics));
    }
}

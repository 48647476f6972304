//! A builder that reads a later piece of a trace → what the builder of the whole would have made of it.
//!
//! A piece's builder is used for one piece after the other: names, lists, tracks and wide ids that it meets again keep their
//! numbers, so each is looked up in the whole only once. New ones come in order of first appearance, as in a single reading.

use super::arguments::renumbered;
use super::builder::Builder;
use crate::intern::NameId;
use crate::trace::{CollectiveArgs, OperatorArgs, SyncArgs, TensorArgsId, TrackId};

/// What the numbers of a piece's builder are in the whole.
#[derive(Debug, Default)]
pub struct Numbers {
    names: Vec<NameId>,
    lists: Vec<TensorArgsId>,
    tracks: Vec<TrackId>,
    correlations: Vec<u32>,
    externals: Vec<u32>,
}

impl Numbers {
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

    /// Takes over what `piece` read, which stood right behind what this builder has; `piece` can read another one then.
    pub fn append(&mut self, piece: &mut Self, numbers: &mut Numbers) {
        self.correlations.follow(&piece.correlations, &mut numbers.correlations);
        self.externals.follow(&piece.externals, &mut numbers.externals);
        self.has_known_category |= piece.has_known_category;
        self.left_out.merge(std::mem::take(&mut piece.left_out));
        let (trace, piece) = (&mut self.trace, &mut piece.trace);
        numbers.names.extend(piece.names.since(numbers.names.len()).map(|(_, name)| trace.names.intern(name)));
        let names = &numbers.names;
        let name = |own: NameId| names[own.0 as usize];
        trace.lists.follow(&piece.lists, &mut numbers.lists, name);
        trace.tracks.follow(&mut piece.tracks, &mut numbers.tracks, name);
        let numbers = &*numbers;
        let first = trace.events.len() as u32;
        trace.events.append(
            &piece.events,
            name,
            |own| numbers.tracks[own.0 as usize],
            |own| renumbered(own, &numbers.correlations),
            |own| renumbered(own, &numbers.externals),
        );
        piece.events.clear();
        trace.operators.append(&mut piece.operators, first, |own| numbers.operator(own));
        trace.kernels.append(&mut piece.kernels, first);
        trace.copies.append(&mut piece.copies, first, |own| own);
        trace.collectives.append(&mut piece.collectives, first, |own| numbers.collective(own));
        trace.syncs.append(&mut piece.syncs, first, |own| numbers.sync(own));
        trace.memory.append(&mut piece.memory, first, |own| own);
        trace.entries += std::mem::take(&mut piece.entries);
        trace.skipped += std::mem::take(&mut piece.skipped);
        trace.diagnostics.merge(&std::mem::take(&mut piece.diagnostics));
    }
}

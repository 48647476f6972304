//! Ids as wide as profilers write them, kept apart in the width that events have.

use rustc_hash::FxHashMap;

/// Ids of up to 64 bits in 32: small ones stay, wide ones are numbered downwards from the top.
#[derive(Debug, Default)]
pub(in crate::trace) struct NarrowIds {
    wide: FxHashMap<u64, u32>,
    /// The wide ones, in order of first appearance.
    order: Vec<u64>,
}

impl NarrowIds {
    /// The narrow id of `id`; 0 stays, which is none.
    pub(in crate::trace) fn narrow(&mut self, id: u64) -> u32 {
        match u32::try_from(id) {
            Ok(id) if id < u32::MAX / 2 => id,
            _ => self.number(id),
        }
    }

    fn number(&mut self, wide: u64) -> u32 {
        *self.wide.entry(wide).or_insert_with(|| {
            self.order.push(wide);
            u32::MAX - (self.order.len() - 1) as u32
        })
    }

    /// Goes on with `known`, the ids here of what `other` numbered, for what it has numbered since.
    pub(in crate::trace) fn follow(&mut self, other: &Self, known: &mut Vec<u32>) {
        known.extend(other.order[known.len()..].iter().map(|&wide| self.number(wide)));
    }
}

/// The id that one of another [`NarrowIds`] stands for, as [`NarrowIds::follow`] found.
pub(in crate::trace) fn renumbered(id: u32, known: &[u32]) -> u32 {
    known.get((u32::MAX - id) as usize).copied().unwrap_or(id)
}

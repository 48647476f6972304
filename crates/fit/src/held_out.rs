//! Which measurements train, validate and test: drawn by their sizes, so that every machine draws alike.

use retime_core::cost::work::Work;
use retime_core::fnv::Fnv1a;

/// Whether a measurement of `work` is kept from every fit: one in five, by its sizes alone, so that a shape is held out
/// on all devices or on none, on every machine alike.
pub fn is_held_out(work: &Work) -> bool {
    lot(work).is_multiple_of(5)
}

/// Whether a training row chooses between candidates before the chosen one is trained on it, too: one in five of them.
pub(super) fn is_validation(work: &Work) -> bool {
    (lot(work) / 5).is_multiple_of(5)
}

/// A number drawn by the sizes of `work` (64-bit FNV-1a of the sizes as text, folded).
fn lot(work: &Work) -> u64 {
    let text = format!("{:?} {} {} {}", work.shape, work.flop.0, work.read.0, work.written.0);
    let mut hash = Fnv1a::default();
    hash.add(text.as_bytes());
    let hash = hash.finish();
    (hash ^ (hash >> 32)) & 0xffff_ffff
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::cost::operators::{GemmSize, gemm_work, movement_work};
    use retime_core::cost::work::{Family, Shape};
    use retime_core::graph::DType;
    use retime_core::units::{Bytes, Flop};

    /// The stored fits keep these rows from themselves: where a shape's text changes, every fit has to be made anew, or errors are
    /// reported on rows that it learnt from.
    #[test]
    fn which_rows_are_held_out_is_what_the_stored_fits_held_out() {
        let of = |shape: Shape| Work {
            shape,
            flop: Flop(1e9),
            read: Bytes(1 << 20),
            written: Bytes(1 << 18),
            ..movement_work(Family::Movement, 0, 0)
        };
        let conv = Shape::Conv {
            batch: 8,
            channels_in: 64,
            channels_out: 128,
            out_h: 56,
            out_w: 56,
            r: 3,
            s: 3,
            stride: 1,
            groups: 1,
            algorithm: None,
        };
        let (heads, queries, keys, dim) = (16, 512, 512, 64);
        let attention = Shape::Attention { batch: 4, heads, queries, keys, dim, causal: true, backward: false };
        let product = gemm_work(GemmSize { batch: 1, m: 512, n: 1024, k: 2048 }, DType::Bf16, false, 0);
        let works = [product, of(conv), of(attention), of(Shape::Rows { rows: 4096, width: 1024 }), of(Shape::Plain)];
        let lots = [2_927_601_981, 357_518_842, 2_371_409_731, 2_488_247_187, 2_247_923_235];
        assert_eq!(works.map(|work| lot(&work)), lots);
    }
}

//! The edits, one file each, and their table.

mod fuse_embedding_bags;
mod place_on_gpu;
mod remove;
mod report;
mod reshard;
mod resize_batch;
mod scale;
mod swap_gpu;

use super::transform::TransformSpec;

pub use fuse_embedding_bags::FuseEmbeddingBags;
pub use place_on_gpu::PlaceOnGpu;
pub use remove::Remove;
pub use reshard::{Plan, Reshard, Sharder};
pub use resize_batch::ResizeBatch;
pub use scale::Scale;
pub use swap_gpu::SwapGpu;

/// All edits, in order of use.
pub(super) static ALL: [TransformSpec; 7] = [
    resize_batch::SPEC,
    fuse_embedding_bags::SPEC,
    reshard::SPEC,
    swap_gpu::SPEC,
    place_on_gpu::SPEC,
    scale::SPEC,
    remove::SPEC,
];

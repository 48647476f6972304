//! The edits, one file each, and their table.

mod collectives;
mod cuda_graph;
mod fuse;
mod fuse_embedding_bags;
mod insert;
mod mixed_precision;
mod place_on_gpu;
mod remove;
mod remove_sync;
mod replace;
mod report;
mod reshard;
mod resize_batch;
mod scale;
mod swap_gpu;
mod swap_link;

use super::transform::TransformSpec;

pub use collectives::{BucketSize, CompressComm, ScaleRanks};
pub use cuda_graph::CudaGraph;
pub use fuse::{Fuse, FuseOptimizer};
pub use fuse_embedding_bags::FuseEmbeddingBags;
pub use insert::InsertKernel;
pub use mixed_precision::MixedPrecision;
pub use place_on_gpu::PlaceOnGpu;
pub use remove::Remove;
pub use remove_sync::RemoveSync;
pub use replace::Replace;
pub use reshard::{Plan, Reshard, Sharder, moves_of, seats_of, with_seat, without_plans};
pub use resize_batch::ResizeBatch;
pub use scale::Scale;
pub use swap_gpu::SwapGpu;
pub use swap_link::SwapLink;

/// All edits, in order of use.
pub(super) static ALL: [TransformSpec; 18] = [
    resize_batch::SPEC,
    fuse_embedding_bags::SPEC,
    reshard::SPEC,
    swap_gpu::SPEC,
    place_on_gpu::SPEC,
    scale::SPEC,
    remove::SPEC,
    fuse::SPEC,
    fuse::OPTIMIZER,
    cuda_graph::SPEC,
    remove_sync::SPEC,
    mixed_precision::SPEC,
    insert::SPEC,
    replace::SPEC,
    swap_link::SPEC,
    collectives::RANKS,
    collectives::BUCKET,
    collectives::COMPRESS,
];

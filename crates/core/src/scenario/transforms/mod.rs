//! The edits, one file each, and their table.

mod accumulate;
mod cast;
mod checkpoint;
mod collectives;
mod cuda_graph;
mod fuse;
mod fuse_embedding_bags;
mod insert;
mod insert_operator;
mod kernel;
mod mixed_precision;
mod overheads;
mod overlap_comm;
mod parallelize;
mod place_on_gpu;
mod prefetch_input;
mod remove;
mod remove_sync;
mod reorder;
mod replace;
mod report;
mod reshard;
mod resize_batch;
mod resize_op;
mod scale;
mod scale_device;
mod stream;
mod swap_gpu;
mod swap_link;

use super::transform::TransformSpec;

pub use accumulate::Accumulate;
pub use checkpoint::Checkpoint;
pub use collectives::{BucketSize, CompressComm, ScaleRanks};
pub use cuda_graph::CudaGraph;
pub use fuse::{Fuse, FuseOptimizer};
pub use fuse_embedding_bags::FuseEmbeddingBags;
pub use insert::InsertKernel;
pub use insert_operator::InsertOperator;
pub use mixed_precision::MixedPrecision;
pub use overheads::{HostOverheads, OverheadSource};
pub use overlap_comm::OverlapComm;
pub use parallelize::Parallelize;
pub use place_on_gpu::PlaceOnGpu;
pub use prefetch_input::PrefetchInput;
pub use remove::Remove;
pub use remove_sync::RemoveSync;
pub use reorder::Reorder;
pub use replace::Replace;
pub use reshard::{Plan, Reshard, Sharder, moves_of, seats_of, with_seat, without_plans};
pub use resize_batch::ResizeBatch;
pub use resize_op::ResizeOp;
pub use scale::Scale;
pub use scale_device::{Figure, ScaleDevice};
pub use swap_gpu::SwapGpu;
pub use swap_link::SwapLink;

/// All edits, in order of use.
pub(super) static ALL: [TransformSpec; 27] = [
    resize_batch::SPEC,
    fuse_embedding_bags::SPEC,
    reshard::SPEC,
    swap_gpu::SPEC,
    place_on_gpu::SPEC,
    overheads::SPEC,
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
    overlap_comm::SPEC,
    prefetch_input::SPEC,
    accumulate::SPEC,
    checkpoint::SPEC,
    parallelize::SPEC,
    reorder::SPEC,
    resize_op::SPEC,
    scale_device::SPEC,
];

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

use super::grammar::Grammar;

pub use reshard::{moves_of, placements_of, step_of, with_placement, without_plans};

/// All edits, in order of use.
pub fn transforms() -> &'static [Grammar] {
    &ALL
}

static ALL: [Grammar; 27] = [
    resize_batch::EDIT,
    fuse_embedding_bags::EDIT,
    reshard::EDIT,
    swap_gpu::EDIT,
    place_on_gpu::EDIT,
    overheads::EDIT,
    scale::EDIT,
    remove::EDIT,
    fuse::EDIT,
    fuse::OPTIMIZER,
    cuda_graph::EDIT,
    remove_sync::EDIT,
    mixed_precision::EDIT,
    insert::EDIT,
    replace::EDIT,
    swap_link::EDIT,
    collectives::RANKS,
    collectives::BUCKET,
    collectives::COMPRESS,
    overlap_comm::EDIT,
    prefetch_input::EDIT,
    accumulate::EDIT,
    checkpoint::EDIT,
    parallelize::EDIT,
    reorder::EDIT,
    resize_op::EDIT,
    scale_device::EDIT,
];

//! The edits, one file each, and their table.

mod accumulate;
mod argument_changes;
mod caller_time;
mod cast;
mod checkpoint;
mod collectives;
mod compress_comm;
mod conv_algorithm;
mod conv_units;
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
mod place_on;
mod prefetch_input;
mod products;
mod quantize_weights;
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
mod straggler;
mod stream;
mod swap_gpu;
mod swap_link;
mod tf32;

use super::grammar::{Form, Grammar};

/// What moves embedding tables, for steps that are made, not read.
pub(super) const RESHARD: (&Grammar, &Form) = (&reshard::EDIT, &reshard::FORM);

/// All edits, in order of use.
pub fn transforms() -> &'static [Grammar] {
    &ALL
}

static ALL: [Grammar; 30] = [
    resize_batch::EDIT,
    fuse_embedding_bags::EDIT,
    reshard::EDIT,
    swap_gpu::EDIT,
    place_on::EDIT,
    overheads::EDIT,
    scale::EDIT,
    remove::EDIT,
    fuse::EDIT,
    fuse::OPTIMIZER,
    cuda_graph::EDIT,
    remove_sync::EDIT,
    mixed_precision::EDIT,
    quantize_weights::EDIT,
    conv_algorithm::EDIT,
    insert::EDIT,
    replace::EDIT,
    swap_link::EDIT,
    collectives::RANKS,
    collectives::BUCKET,
    compress_comm::EDIT,
    overlap_comm::EDIT,
    straggler::EDIT,
    prefetch_input::EDIT,
    accumulate::EDIT,
    checkpoint::EDIT,
    parallelize::EDIT,
    reorder::EDIT,
    resize_op::EDIT,
    scale_device::EDIT,
];

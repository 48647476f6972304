//! The edits, one file each, and their table.

mod remove;
mod report;
mod scale;
mod swap_gpu;

use super::transform::TransformSpec;

pub use remove::Remove;
pub use scale::Scale;
pub use swap_gpu::SwapGpu;

/// All edits, in order of use.
pub(super) static ALL: [TransformSpec; 3] = [scale::SPEC, remove::SPEC, swap_gpu::SPEC];

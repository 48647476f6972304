//! The fifteen across-stack analyses: model, layers and kernels of an iteration, from one run or several [Li 2019 §4].
//!
//! A layer is a top-level operator call, named by its module where modules were recorded, in the order of execution.

mod analyses;
mod batches;
mod levels;
mod occupancy;
mod profiles;
mod table;

pub use analyses::{KernelSum, LayerType, Stage, by_layer, by_name, by_type, model, stages};
pub use batches::{is_worthwhile, optimal_batch};
pub use levels::{LevelRow, Recorded, levels};
pub use occupancy::{Launch, occupancy};
pub use profiles::{BatchRow, Profile, Run, profiles};
pub use table::{Layer, LayerKernel, LayerTable, trimmed_mean};

//! The fifteen across-stack analyses: model, layers and kernels of an iteration, from one run or several [Li 2019 §4].
//!
//! A layer is a module where modules were recorded, else a top-level operator, in the order of execution.

mod batches;

pub use batches::optimal_batch;

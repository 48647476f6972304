//! Cost models: the time of a kernel from its work and a device profile, with where that comes from and how wrong it may be.
//!
//! Uses the graph's operands and device profiles; knows no scenario and no simulator.

pub mod prediction;
pub mod work;

pub use prediction::{Estimate, Prediction, Provenance};
pub use work::{Family, Shape, Work};

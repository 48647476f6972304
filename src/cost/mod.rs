//! Cost models: the time of a kernel from its work and a device profile, with where that comes from and how wrong it may be.
//!
//! Uses the graph's operands and device profiles; knows no scenario and no simulator.

pub mod classify;
pub mod kernel_name;
pub mod operators;
pub mod prediction;
pub mod work;

pub use classify::{Caller, Launch, classify, family_of_task, work_of, work_of_task};
pub use prediction::{Estimate, Prediction, Provenance};
pub use work::{CollectiveKind, Family, Route, Shape, Work};

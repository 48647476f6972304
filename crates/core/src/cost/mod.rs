//! Cost models: the time of a kernel from its work and a device profile, with where that comes from and how wrong it may be.
//!
//! Uses the graph's operands and device profiles; knows no scenario and no simulator.

pub mod analytical;
pub mod anchor;
pub mod call_overhead;
pub mod classify;
pub mod collective;
pub mod conv_algorithm;
pub mod conv_choice;
mod conv_kernel;
mod conv_spectra;
pub mod copies;
pub mod cross_device;
pub mod device_file;
pub mod domain;
pub mod error_summary;
pub mod features;
mod fit_file;
pub mod fits;
pub mod forest;
pub mod kernel_name;
pub mod lookup;
mod memo;
pub mod mlp;
pub mod models;
pub mod operators;
pub mod overhead;
pub mod parameterised;
pub mod parts;
pub mod plan;
pub mod prediction;
pub mod reference_kernel;
pub mod reuse;
pub mod roof_ratio;
pub mod roofline;
pub mod scale;
pub mod significant;
pub mod structured;
pub mod topology;
pub mod trace_error;
pub mod work;

pub use classify::{Caller, Launch, classify, family_of_task, work_of, work_of_task};
pub use conv_choice::{ChosenAlgorithm, ConvAlgorithm};
pub use cross_device::{CrossDevice, Kernel, doublings, unmodelled};
pub use domain::Domain;
pub use error_summary::{ErrorSummary, summarise};
pub use models::{CostModels, Placed};
pub use overhead::{OverheadKind, Overheads, ProfilerCost, Statistic};
pub use parts::{Part, kernel_parts};
pub(crate) use plan::{PlannedKernel, planned_kernels};
pub use prediction::{Estimate, Prediction, Provenance};
pub(crate) use reference_kernel::reference_kernels;
pub use reuse::Reuse;
pub(crate) use roof_ratio::{RoofRatio, roof_ratio};
pub use work::{CollectiveKind, Family, Route, Shape, Work};

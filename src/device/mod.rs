//! Device, host and interconnect profiles: figures with their sources, from the built-in catalog and the user's files.
//!
//! Knows no trace, no graph and no cost model.

pub mod profile;

pub use profile::{BandwidthCurve, DeviceKind, DeviceProfile, Precision};

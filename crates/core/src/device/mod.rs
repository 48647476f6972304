//! Device, host and interconnect profiles: figures with their sources, from the built-in catalog and the user's files.
//!
//! Knows no trace, no graph and no cost model.

pub mod catalog;
pub mod derived;
pub mod error;
mod file;
pub(crate) mod limits;
pub mod link;
mod names;
pub mod peers;
pub mod profile;
mod resolve;

pub use catalog::Catalog;
pub use derived::{Derived, LeftOut, UNMEASURED_BANDWIDTH};
pub(crate) use error::line_of;
pub use error::{CatalogError, UnknownDevice};
pub use link::{CollectiveCurve, Doubling, LinkProfile, Links};
pub use profile::{BandwidthCurve, DeviceKind, DeviceProfile, HYPOTHETICAL, Precision, SmLimits};

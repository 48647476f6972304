//! retime: a what-if explorer for traced ML models.
//!
//! Data flows one way: bytes → [`trace`] → [`graph`] → [`scenario`] (edits) → timed graph → [`sim`] → [`analysis`] and views.
//! `ARCHITECTURE.md` says who may use whom; `tests/tidy.rs` holds it to that.

pub mod analysis;
pub mod cli;
pub mod config;
pub mod cost;
pub mod device;
pub mod diagnostic;
pub mod graph;
pub mod headless;
pub mod intern;
pub mod scenario;
pub mod session;
pub mod sim;
pub mod trace;
#[cfg(feature = "tui")]
pub mod tui;
pub mod units;

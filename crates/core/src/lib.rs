//! The engine of retime: opens traces, edits their execution graphs, re-times and explains them. Knows no terminal.
//!
//! Data flows one way: bytes → [`trace`] → [`graph`] → [`scenario`] (edits) → timed graph → [`sim`] → [`analysis`].

pub mod align;
pub mod analysis;
pub mod cost;
pub mod device;
pub mod diagnostic;
pub mod graph;
pub mod intern;
pub mod scenario;
pub mod sim;
pub mod stats;
pub mod trace;
pub mod units;

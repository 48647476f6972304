//! What the graph, the simulator and the cost models say together: reports that front ends show.
//!
//! Knows no screen and no command line.

pub mod advise;
pub mod breakdown;
pub mod busy;
pub mod collectives;
pub mod critical_path;
pub mod density;
pub mod edited;
pub mod gaps;
pub mod lanes;
pub mod layers;
pub mod operators;
pub mod profile;
pub mod published;
pub mod replay;
pub mod roofline;
pub mod sources;
pub mod stragglers;

//! What the graph, the simulator and the cost models say together: reports that front ends show.
//!
//! Knows no screen and no command line.

pub mod busy;
pub mod density;
pub mod lanes;
pub mod replay;

//! The program retime, a what-if explorer for traced ML models: commands, screen and sessions over the engine in [`retime_core`].
//!
//! `ARCHITECTURE.md` says who may use whom; a test holds it to that.

pub mod cli;
pub mod config;
pub mod headless;
pub mod session;
#[cfg(feature = "tui")]
pub mod tui;

//! The screen program: event → action → update → effects; views are pure functions of the state.
//!
//! Nothing uses it but the binary; colours are named in `theme` only.

pub mod ascii;
pub mod canvas;
pub mod theme;
pub mod timeline;

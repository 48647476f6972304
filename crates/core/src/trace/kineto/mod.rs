//! PyTorch profiler (Kineto) JSON, 2020 to 2026, and Chrome traces of other tools.
//!
//! Owns what the fields of such an event are called and mean. Must not know where the bytes come from.

mod arguments;
mod builder;
mod category;
mod frame;
mod frequent;
mod header;
mod left_out;
mod merge;
pub mod number;
mod pairs;
mod raw;
mod scan;
pub mod strict;
mod tracks;

pub use builder::Builder;
pub use merge::Renumbering;
pub use raw::{Key, RawEvent, Text};
pub use scan::Scanner;

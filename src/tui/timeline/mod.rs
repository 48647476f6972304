//! The timeline: lanes of host threads and streams, measured above simulated.
//!
//! Knows graphs and schedules, not scenarios: what it shows is handed to it as [`DensityIndex`]s.

mod arrow;
mod caption;
mod density;
mod details;
mod item;
mod kernels;
mod lane_label;
mod moves;
mod paint;
pub mod range;
mod render;
mod rows;
mod ruler;
mod scene;
mod search;
mod span;
mod state;
pub mod strip;
pub mod tracks;

pub use crate::session::{short_name, telling_name};
pub use caption::kernel_name;
pub use density::{DensityIndex, Paints, iteration_figures};
pub use details::{Detail, describe, model_name, sentence};
pub use item::Item;
pub use moves::{Extent, HeadPart};
pub use render::render;
pub use rows::Side;
pub use ruler::{round_amounts, signed, ticks};
pub use scene::Scene;
pub use search::{SearchIndex, find};
pub use span::Span;
pub use state::{Expansion, Timeline};

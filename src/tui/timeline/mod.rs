//! The timeline: lanes of host threads and streams, measured above simulated.
//!
//! Knows graphs and schedules, not scenarios: what it shows is handed to it as [`Picture`]s.

mod details;
mod item;
mod lane_label;
mod moves;
mod paint;
mod picture;
mod render;
mod rows;
mod ruler;
mod scene;
mod search;
mod span;
mod state;

pub use details::{Detail, describe};
pub use item::Item;
pub use picture::{Paints, Picture, critical_nodes};
pub use render::{body_height, render};
pub use rows::{Row, Side};
pub use scene::Scene;
pub use span::Span;
pub use state::{Fold, Timeline};

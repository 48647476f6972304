//! What is drawn: pure functions of the state.

mod advise;
pub mod bar;
pub mod board;
pub mod compare;
mod frame;
mod gaps;
pub mod header;
pub mod help;
mod layers;
mod memory;
pub mod messages;
mod operators;
pub mod pane;
mod path;
mod ranks;
pub mod ribbon;
pub mod roofline;
pub mod steps;
pub mod sweep;
mod tables;
mod timeline;
mod view;
pub mod why;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use retime_core::graph::NodeId;
use retime_core::units::DurNs;

use super::app::App;
use super::table::{Value, value};
use super::theme::Role;
use super::timeline::{Item, signed};
use super::workspace::Workspace;

pub use advise::AdviceState;
pub use compare::Compare;
pub use frame::{BARE_COMMANDS, render};
pub use header::signed_percent;
pub use operators::Operators;
pub use sweep::SweepState;
pub use tables::{Plans, chosen_table};
pub use timeline::{Timeline, legend_at, sum_range};
pub use view::{View, show};

/// All views, in the order in which they are listed. The first is shown at the start, and the others lead back to it.
pub static ALL: [&dyn View; 14] = [
    &Timeline,
    &path::Path,
    &gaps::Gaps,
    &Operators,
    &roofline::Roofline,
    &roofline::Systems,
    &layers::Layers,
    &memory::Memory,
    &sweep::Sweep,
    &tables::Tables,
    &Compare,
    &advise::Advise,
    &ranks::Ranks,
    &board::WhatIf,
];

/// The view of that name.
pub fn find(name: &str) -> Option<&'static dyn View> {
    ALL.into_iter().find(|view| view.name() == name)
}

/// A task of the edited graph as the timeline has it.
fn item_of(work: &Workspace, node: NodeId) -> Item {
    match node.index().checked_sub(work.loaded.graph.tasks.node_count()) {
        Some(number) => Item::Added(number as u32),
        None => Item::Task(node),
    }
}

/// What edits changed of something that took `before`: told by colour from a two-hundredth of it on.
fn change(change: DurNs, before: DurNs) -> Value {
    let role = match change.0 {
        _ if change.abs() * 200 <= before => Role::Dim,
        change if change < 0 => Role::Good,
        _ => Role::Bad,
    };
    value(if change.0 == 0 { "–".to_owned() } else { signed(change) }, role)
}

/// What the tables are narrowed to, for their summaries.
fn narrowed(work: &Workspace) -> Vec<(String, Role)> {
    let text = work.listing.filter.as_ref().map(|filter| format!(" · only {}", filter.text));
    text.map(|text| (text, Role::Warn)).into_iter().collect()
}

/// Draws all of `app` into `buffer`: what a test and the terminal see alike.
pub fn draw(app: &App, size: ratatui::layout::Size) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.width, size.height));
    render(app, buffer.area, &mut buffer);
    buffer
}

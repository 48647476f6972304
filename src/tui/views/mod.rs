//! What is drawn: pure functions of the state.

mod advise;
pub mod bar;
pub mod compare;
mod frame;
mod gaps;
mod header;
pub mod help;
pub mod messages;
mod operators;
mod pane;
mod path;
mod ranks;
pub mod roofline;
mod steps;
pub mod strip;
pub mod sweep;
mod tables;
pub mod why;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::App;
use super::table::Table;
use super::theme::Role;
use super::workspace::Workspace;

pub use frame::render;
pub use gaps::best_step as step_against_gap;
pub use header::signed_percent;
pub use ranks::RanksParts;
pub use tables::TablesParts;

/// A view of its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// What ran when.
    Timeline,
    /// What decides the iteration time.
    Path,
    /// Idle intervals and why.
    Gaps,
    /// Operators and kernels by time.
    Operators,
    /// Work under the device's roofs.
    Roofline,
    /// Iteration time against batch size.
    Sweep,
    /// Embedding tables and their ranks.
    Tables,
    /// Scenarios and traces side by side.
    Compare,
    /// Edits worth making.
    Advise,
    /// Ranks and their collectives.
    Ranks,
}

impl View {
    /// All of them, in order of their keys.
    pub const ALL: [Self; 10] = [
        Self::Timeline,
        Self::Path,
        Self::Gaps,
        Self::Operators,
        Self::Roofline,
        Self::Sweep,
        Self::Tables,
        Self::Compare,
        Self::Advise,
        Self::Ranks,
    ];

    /// The view of that name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|view| view.name() == name)
    }

    /// Its name where there is little room.
    fn brief(self) -> &'static str {
        match self {
            Self::Timeline => "time",
            Self::Operators => "ops",
            Self::Roofline => "roof",
            Self::Compare => "comp",
            _ => self.name(),
        }
    }

    /// The command that opens it, which is its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeline => "timeline",
            Self::Path => "path",
            Self::Gaps => "gaps",
            Self::Operators => "operators",
            Self::Roofline => "roofline",
            Self::Sweep => "sweep",
            Self::Tables => "tables",
            Self::Compare => "compare",
            Self::Advise => "advise",
            Self::Ranks => "ranks",
        }
    }
}

/// The open view in `area` as a table; `None` for the timeline.
pub fn table_of(view: View, work: &Workspace, area: Rect) -> Option<Table<'_>> {
    match view {
        View::Timeline => None,
        View::Path => Some(path::table(work, area.width)),
        View::Gaps => Some(gaps::table(work)),
        View::Operators => Some(operators::table(work)),
        View::Roofline => Some(roofline::table(work, area.width)),
        View::Sweep => Some(sweep::table(work)),
        View::Tables => Some(tables::table(work)),
        View::Compare => Some(compare::table(work, area.width, area.height)),
        View::Advise => Some(advise::table(work)),
        View::Ranks => Some(ranks::table(work)),
    }
}

/// What the tables are narrowed to, for their summaries.
fn narrowed(work: &Workspace) -> Vec<(String, Role)> {
    let text = work.listing.filter.as_ref().map(|filter| format!(" · only {} ", filter.text));
    text.map(|text| (text, Role::Warn)).into_iter().collect()
}

/// Draws all of `app` into `buffer`: what a test and the terminal see alike.
pub fn draw(app: &App, size: ratatui::layout::Size) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.width, size.height));
    render(app, buffer.area, &mut buffer);
    buffer
}

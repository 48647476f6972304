//! Every rank as a row that can be gone to, found and sorted: what it waits, what that costs and because of what.

use std::cmp::Reverse;

use crate::session::{Communication, RankReport};
use crate::tui::command::{CommandResult, named};
use crate::tui::table::{Column, Open, Table, TableRow, value};
use crate::tui::theme::Role;
use crate::tui::timeline::Item;
use crate::tui::workspace::Workspace;

use super::{because, name, remedy};

/// What the ranks are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankOrder {
    /// Those that cost the job most first, then those that wait longest.
    #[default]
    Costs,
    /// Those that wait longest first.
    Waits,
    /// By number.
    Rank,
}

impl RankOrder {
    const ALL: [(&'static str, Self); 3] = [("costs", Self::Costs), ("waits", Self::Waits), ("rank", Self::Rank)];

    /// How the ranks are sorted now.
    fn of(work: &Workspace) -> Self {
        work.states.get().copied().unwrap_or_default()
    }

    fn next(self) -> Self {
        match self {
            Self::Costs => Self::Waits,
            Self::Waits => Self::Rank,
            Self::Rank => Self::Costs,
        }
    }

    /// What the key that sorts does next.
    pub fn next_of(work: &Workspace) -> &'static str {
        match Self::of(work).next() {
            Self::Costs => "costliest first",
            Self::Waits => "longest wait first",
            Self::Rank => "by number",
        }
    }

    /// Sorts by what is named, else by the next in turn.
    pub fn choose(work: &mut Workspace, by: &str) -> CommandResult {
        let order = named(by, &Self::ALL)?.unwrap_or(Self::of(work).next());
        work.states.set(order);
        (work.table.cursor, work.table.scroll) = (0, 0);
        Ok(Vec::new())
    }

    /// All ranks in this order.
    pub fn sorted(self, found: &Communication) -> Vec<&RankReport> {
        let mut ranks: Vec<&RankReport> = found.ranks.iter().collect();
        match self {
            Self::Costs => ranks.sort_by_key(|rank| (Reverse((rank.costs_ns, rank.wait_ns)), rank.rank)),
            Self::Waits => ranks.sort_by_key(|rank| (Reverse(rank.wait_ns), rank.rank)),
            Self::Rank => ranks.sort_by_key(|rank| rank.rank),
        }
        ranks
    }
}

/// The ranks as rows.
pub fn rows(work: &Workspace) -> Table<'_> {
    let found = &work.view_model.communication;
    let ranks = RankOrder::of(work).sorted(found);
    let column = |title, width, is_number, from_width| Column { title, width, is_number, from_width };
    Table {
        summary: super::summary(found),
        columns: vec![
            column("rank", 9, false, 0),
            column("iteration", 10, true, 100),
            column("waits", 10, true, 0),
            column("exposed", 10, true, 0),
            column("overlapped", 10, true, 84),
            column("comes last", 11, true, 0),
            column("costs", 10, true, 0),
            column("because of", 0, false, 70),
        ],
        count: ranks.len(),
        row: Box::new(move |index| row(found, ranks[index])),
    }
}

fn row(found: &Communication, rank: &RankReport) -> TableRow {
    let role = if rank.is_late() { Role::Warn } else { Role::Text };
    let comes_last = match rank.comes_last {
        0 => "never".to_owned(),
        count => format!("{count} of {}", found.collectives.len()),
    };
    let quiet = if rank.comes_last > 0 { role } else { Role::Faint };
    TableRow {
        values: vec![
            value(name(rank.rank, rank.count), role),
            value(rank.simulated_ns.to_string(), Role::Dim),
            value(rank.wait_ns.to_string(), Role::Text),
            value(rank.exposed_ns.to_string(), Role::Text),
            value(rank.overlapped_ns.to_string(), Role::Text),
            value(comes_last, quiet),
            value(rank.costs_ns.to_string(), quiet),
            value(rank.why.as_ref().map_or_else(String::new, because), Role::Dim),
        ],
        open: costliest_part(found, rank.rank).map_or(Open::Nothing, Open::Item),
    }
}

/// The rank's part in the collective that costs most of those it takes part in.
fn costliest_part(found: &Communication, rank: u32) -> Option<Item> {
    let mut parts = found.costliest().into_iter().filter_map(|at| found.collectives.get(at));
    parts.find_map(|one| one.arrivals.iter().find(|part| part.rank == rank)).map(|part| Item::Task(part.node))
}

/// The chosen rank in a sentence.
pub fn chosen(work: &Workspace) -> Vec<(String, Role)> {
    let found = &work.view_model.communication;
    let ranks = RankOrder::of(work).sorted(found);
    let Some(rank) = ranks.get(work.table.cursor) else { return Vec::new() };
    let mut pieces = vec![(format!("{} ", name(rank.rank, rank.count)), Role::Strong)];
    pieces.push((format!("waits {} for others", rank.wait_ns), Role::Text));
    if let Some(why) = &rank.why {
        pieces.push((format!(" · comes last because of {}", because(why)), Role::Text));
    }
    if rank.costs_ns.0 > 0 {
        pieces.push((format!(" · {}", remedy(rank)), Role::Dim));
    }
    pieces
}

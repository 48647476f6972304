//! Which rows the tables show: grouped, sorted and filtered as the user asked.
//!
//! Made off the screen's thread when one of these or the result changes, so that drawing only formats.

mod group;
mod modelled;
mod tree;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::session::{Loaded, Outcome};
use retime_core::analysis::critical_path::Run;
use retime_core::analysis::gaps::{Cause, Gap};
use retime_core::graph::NodeId;
use retime_core::scenario::Selector;

use super::timeline::Paints;
use super::view_model::ViewModel;

pub use group::{Group, Grouping, ModelComparison, Order};
pub use modelled::Modelled;

/// How the tables are arranged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// What makes work one row.
    pub grouping: Grouping,
    /// What rows of work are sorted by.
    pub order: Order,
    /// Whether the critical path is shown longest first.
    pub path_by_length: bool,
}

/// A selector that the tables are narrowed to.
#[derive(Clone, Debug)]
pub struct Filter {
    /// As typed.
    pub text: String,
    /// What it selects.
    pub selector: Selector,
}

/// All that a listing is made from, shared with the thread that makes it.
#[derive(Clone, Debug)]
pub struct Sources {
    /// The trace.
    pub loaded: Arc<Loaded>,
    /// The result.
    pub outcome: Arc<Outcome>,
    /// Its tables.
    pub view_model: Arc<ViewModel>,
    /// What the models say of the measured kernels.
    pub modelled: Arc<Modelled>,
    /// What lanes are called.
    pub paints: Arc<Paints>,
    /// Which tasks the tables are about, when not all.
    pub filter: Option<Filter>,
    /// How they are arranged.
    pub arrangement: Arrangement,
}

/// The rows of all tables.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Work by operator or another grouping, rows inside others behind them.
    pub groups: Vec<Group>,
    /// Indices of the groups that are not folded away.
    pub visible: Vec<usize>,
    /// The critical path, in order or by length.
    pub runs: Vec<Run>,
    /// Indices of gaps: those with a cause, longest first, then those of streams that had nothing left to do.
    gaps: Vec<usize>,
    /// The tables they were taken from.
    pub view_model: Arc<ViewModel>,
    /// How they are arranged.
    pub arrangement: Arrangement,
    /// What they are narrowed to.
    pub filter: Option<Filter>,
}

impl Listing {
    /// The rows as grouped, sorted and filtered.
    ///
    /// # Errors
    /// The filter selects nothing.
    pub fn of(sources: &Sources) -> Result<Self, String> {
        let mask = sources.filter.as_ref().map(|filter| mask(&sources.loaded, filter)).transpose()?;
        let is_shown = |node: NodeId| mask.as_ref().is_none_or(|mask| mask.get(node.index()).copied().unwrap_or(false));
        let view_model = &sources.view_model;
        let runs = if sources.arrangement.path_by_length { &view_model.path_by_length } else { &view_model.path };
        let shown_gap = |&index: &usize| match view_model.gaps[index].next {
            Some(next) => is_shown(next),
            None => mask.is_none(),
        };
        let mut gaps: Vec<usize> = (0..view_model.gaps.len()).filter(shown_gap).collect();
        gaps.sort_by_key(|&index| view_model.gaps[index].cause == Cause::NothingLeft);
        let mut listing = Self {
            groups: tree::rows(sources, &is_shown),
            visible: Vec::new(),
            runs: runs.iter().filter(|run| is_shown(run.segment.node)).copied().collect(),
            gaps,
            view_model: Arc::clone(view_model),
            arrangement: sources.arrangement,
            filter: sources.filter.clone(),
        };
        listing.expand(&BTreeSet::new());
        Ok(listing)
    }

    /// Shows the rows inside those that are open; `toggled` are the paths of rows that are not as at first.
    pub fn expand(&mut self, toggled: &BTreeSet<String>) {
        self.visible.clear();
        let mut index = 0;
        while let Some(group) = self.groups.get(index) {
            self.visible.push(index);
            index = if group.is_open ^ toggled.contains(&group.path) { index + 1 } else { group.end };
        }
    }

    /// The group in a row of the table.
    pub fn group(&self, row: usize) -> Option<&Group> {
        self.groups.get(*self.visible.get(row)?)
    }

    /// Whether there are rows inside that of `row`, and whether they are shown.
    pub fn nesting(&self, row: usize) -> Option<Nesting> {
        let &index = self.visible.get(row)?;
        let inner = index + 1;
        if self.groups[index].end <= inner {
            return Some(Nesting::Leaf);
        }
        Some(if self.visible.get(row + 1) == Some(&inner) { Nesting::Expanded } else { Nesting::Collapsed })
    }

    /// The row that the one in `row` lies in.
    pub fn parent(&self, row: usize) -> Option<usize> {
        let depth = self.group(row)?.depth;
        (0..row).rev().find(|&above| self.group(above).is_some_and(|group| group.depth < depth))
    }

    /// The gaps, in order.
    pub fn gaps(&self) -> impl ExactSizeIterator<Item = &Gap> {
        self.gaps.iter().map(|&index| &self.view_model.gaps[index])
    }

    /// The gap in a row of the table.
    pub fn gap(&self, row: usize) -> Option<&Gap> {
        self.view_model.gaps.get(*self.gaps.get(row)?)
    }
}

/// Whether there is something inside a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nesting {
    /// Nothing.
    Leaf,
    /// Rows that are shown.
    Expanded,
    /// Rows that are not.
    Collapsed,
}

/// For each task whether the filter selects it.
fn mask(loaded: &Loaded, filter: &Filter) -> Result<Vec<bool>, String> {
    let mut mask = vec![false; loaded.graph.tasks.node_count()];
    let nodes = filter.selector.select(&loaded.base);
    for node in &nodes {
        mask[node.index()] = true;
    }
    if nodes.is_empty() { Err(format!("`{}` selects nothing in this iteration", filter.text)) } else { Ok(mask) }
}

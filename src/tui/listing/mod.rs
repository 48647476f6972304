//! Which rows the tables show: grouped, sorted and filtered as the user asked.
//!
//! Made off the screen's thread when one of these or the result changes, so that drawing only formats.

mod gap_group;
mod group;
mod layer_group;
mod modelled;
mod nested;
mod path_group;
mod tree;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::session::{Loaded, Outcome};
use retime_core::analysis::critical_path::Run;
use retime_core::graph::NodeId;
use retime_core::scenario::Selector;

use super::timeline::Paints;
use super::view_model::ViewModel;

pub use gap_group::GapGroup;
pub use group::{Group, Grouping, ModelComparison, Order};
pub use layer_group::{LayerGroup, LayerGrouping, LayerOrder};
pub use modelled::Modelled;
pub use nested::{Nesting, Rows, Tree};
pub use path_group::{PathGroup, PathGrouping};

/// How the tables are arranged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// What makes work one row.
    pub grouping: Grouping,
    /// What rows of work are sorted by, where that was chosen.
    pub order: Option<Order>,
    /// What makes segments of the critical path one row.
    pub path: PathGrouping,
    /// Whether rows of the path are sorted by what the scenario changed.
    pub path_by_change: bool,
    /// What makes kernels of layers one row.
    pub layers: LayerGrouping,
    /// What rows of layers are sorted by.
    pub layer_order: LayerOrder,
    /// What embedding tables are sorted by.
    pub table_order: TableOrder,
}

/// What embedding tables are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableOrder {
    /// As the job numbers them.
    #[default]
    Number,
    /// Those that take longest to look up first.
    LookUp,
    /// The largest first.
    Size,
}

impl TableOrder {
    /// All of them, in the order a key goes through them.
    pub const ALL: [Self; 3] = [Self::Number, Self::LookUp, Self::Size];

    /// What it is called: the title of its column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "table",
            Self::LookUp => "look-up",
            Self::Size => "size",
        }
    }

    /// What the key that goes on to it says.
    pub fn by(self) -> &'static str {
        match self {
            Self::Number => "by number",
            Self::LookUp => "longest first",
            Self::Size => "largest first",
        }
    }

    /// The next one, around the end.
    #[must_use]
    pub fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }
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

impl Sources {
    /// What rows of work are sorted by: unless chosen, by what changed once something did.
    fn order(&self) -> Order {
        let is_edited = self.outcome.steps.iter().any(|step| step.enabled);
        self.arrangement.order.unwrap_or(if is_edited { Order::Change } else { Order::Time })
    }
}

/// The rows of all tables.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Work by operator or another grouping, rows inside others behind them.
    pub groups: Rows<Group>,
    /// The critical path in groups.
    pub path: Rows<PathGroup>,
    /// The model, its layers and their kernels.
    pub layers: Rows<LayerGroup>,
    /// The critical path in order of time.
    pub runs: Vec<Run>,
    /// The gaps of main streams by cause.
    pub gaps: Rows<GapGroup>,
    /// The tables they were taken from.
    pub view_model: Arc<ViewModel>,
    /// How they are arranged.
    pub arrangement: Arrangement,
    /// What the rows of work are sorted by.
    pub order: Order,
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
        let traced = sources.loaded.graph.tasks.node_count();
        let added = &sources.outcome.resolved.added;
        // An added task is shown with the traced ones that it stands for.
        let is_seen = |node: NodeId| match node.index().checked_sub(traced) {
            None => is_shown(node),
            Some(number) => {
                mask.is_none() || added.get(number).is_some_and(|it| it.members.iter().any(|&it| is_shown(it)))
            }
        };
        Ok(Self {
            groups: Rows::new(tree::rows(sources, &is_seen)),
            path: Rows::new(path_group::rows(sources, &is_seen)),
            layers: Rows::new(layer_group::rows(sources, &is_seen)),
            runs: view_model.path.iter().filter(|run| is_seen(run.segment.node)).copied().collect(),
            gaps: Rows::new(gap_group::rows(sources, &is_seen)),
            view_model: Arc::clone(view_model),
            arrangement: sources.arrangement,
            order: sources.order(),
            filter: sources.filter.clone(),
        })
    }

    /// Shows the rows inside those that are open; `toggled` are the paths of rows that are not as at first.
    pub fn expand(&mut self, toggled: &BTreeSet<String>) {
        self.groups.expand(toggled);
        self.layers.expand(toggled);
        self.path.expand(toggled);
        self.gaps.expand(toggled);
    }

    /// The rows of a view, where they lie in one another.
    pub fn tree(&self, view: &str) -> Option<&dyn Tree> {
        match view {
            "operators" => Some(&self.groups),
            "layers" => Some(&self.layers),
            "path" if self.arrangement.path != PathGrouping::Order => Some(&self.path),
            "gaps" => Some(&self.gaps),
            _ => None,
        }
    }
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

//! The working copy that edits change: what differs from the base graph, and what each task costs now.
//!
//! Edits say what tasks do, where and how often; durations follow from that at any moment by [`Draft::price`], always from
//! the recorded duration, so that two edits never compound the rounding or the error of one another.

mod added;
mod by_node;
mod cuts;
mod edges;
mod figures;
mod links;
mod machine;
mod memory;
mod merge;
mod order;
mod packed;
mod plan;
mod price;
mod recost;
mod set;
mod structure;
mod tasks;
mod work;

use std::sync::Arc;

use crate::cost::Work;
use crate::graph::{Dependency, ExecutionGraph, LaneId, NodeId, OperatorId, TaskKind};
use crate::units::Bytes;

pub use added::{Cast, Source};
pub use edges::{DraftEdge, order_kind};
pub use figures::Figure;
pub use machine::Layout;
pub use memory::{Recomputed, SharedStates};
pub use merge::{Combine, Passes};
pub use packed::{End, Message, Packed};
pub(in crate::scenario) use price::LEAST;
pub use price::Price;
pub use set::NodeSet;
pub use structure::memory_of_added;

use figures::Ratios;
use machine::Machine;
use memory::StepMemory;
use price::Prices;
use recost::Memo;
use structure::Structure;
use work::TaskWorks;

use crate::scenario::base::Base;
use crate::scenario::context::Context;
use crate::scenario::tables::TablePlacement;

/// A row of [`Draft::added`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddedId(pub u32);

/// A task of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// One of the base graph.
    Traced(NodeId),
    /// One that an edit added.
    Added(AddedId),
}

impl Node {
    /// Its number where traced tasks, `traced` of them, come first and added ones follow.
    pub(in crate::scenario) fn number(self, traced: usize) -> u32 {
        match self {
            Self::Traced(node) => node.index() as u32,
            Self::Added(AddedId(id)) => traced as u32 + id,
        }
    }

    /// The task of that [`number`](Self::number).
    pub(in crate::scenario) fn of_number(number: u32, traced: usize) -> Self {
        match number.checked_sub(traced as u32) {
            None => Self::Traced(NodeId::from(number)),
            Some(id) => Self::Added(AddedId(id)),
        }
    }
}

/// A task that was not traced.
#[derive(Clone, Debug, PartialEq)]
pub struct Added {
    /// Its name.
    pub name: Arc<str>,
    /// What it is.
    pub kind: TaskKind,
    /// Where it runs.
    pub lane: LaneId,
    /// The traced operator it stands for or belongs to, if any.
    pub operator: Option<OperatorId>,
    /// Bytes of a copy or collective.
    pub bytes: Bytes,
    /// What it has to do, where it is device work.
    pub work: Option<Arc<Work>>,
    /// What it takes.
    pub price: Price,
    /// The traced tasks whose work it does instead.
    pub members: Vec<NodeId>,
    /// What its work follows.
    pub source: Source,
    /// The operator that an edit added and whose task it is, beside the traced one.
    pub caller: Option<Arc<str>>,
    /// The traced task beside which it is listed on its lane: directly after it.
    pub after: NodeId,
}

/// An added dependency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The earlier task.
    pub from: Node,
    /// The later task.
    pub to: Node,
    /// How they depend.
    pub dependency: Dependency,
    /// Whether a later edit took it out.
    pub is_cut: bool,
}

/// A graph under edit.
#[derive(Clone, Debug)]
pub struct Draft<'b> {
    base: &'b Base,
    context: &'b Context,
    works: TaskWorks,
    prices: Prices,
    changes: Memo,
    ratios: Ratios,
    machine: Machine,
    pub(super) structure: Structure,
    memory: StepMemory,
    /// Placement of each embedding table, where an edit moved one.
    placements: Option<Vec<TablePlacement>>,
    batch: Option<(u64, u64)>,
}

impl<'b> Draft<'b> {
    /// An untouched copy of `base`.
    pub fn new(base: &'b Base, context: &'b Context) -> Self {
        Self {
            base,
            context,
            works: TaskWorks::default(),
            prices: Prices::default(),
            changes: Memo::default(),
            ratios: Ratios::default(),
            machine: Machine::of(context),
            structure: Structure::default(),
            memory: StepMemory::default(),
            placements: None,
            batch: None,
        }
    }

    /// The untouched graph with what is known of it.
    pub fn base(&self) -> &'b Base {
        self.base
    }

    /// The untouched graph.
    pub fn graph(&self) -> &'b ExecutionGraph {
        self.base.graph()
    }

    /// What edits draw on.
    pub fn context(&self) -> &'b Context {
        self.context
    }

    /// Old and new batch size, where an edit changed it.
    pub fn batch(&self) -> Option<(u64, u64)> {
        self.batch
    }

    /// Notes that the batch size is `new` now.
    pub fn set_batch(&mut self, old: u64, new: u64) {
        let first = self.batch.map_or(old, |(first, _)| first);
        self.batch = Some((first, new));
    }

    /// The placement of each embedding table that can move, where an edit moved one.
    pub fn placements(&self) -> Option<&[TablePlacement]> {
        self.placements.as_deref()
    }

    /// Sets the placement of each embedding table that can move.
    pub fn set_placements(&mut self, placements: Vec<TablePlacement>) {
        self.placements = Some(placements);
    }
}

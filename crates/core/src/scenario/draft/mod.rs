//! The working copy that edits change: what differs from the base graph, and what each task costs now.
//!
//! Edits say what tasks do, where and how often; durations follow from that at any moment by [`Draft::price`], always from
//! the traced duration, so that two edits never compound the rounding or the error of one another.

mod added;
mod by_node;
mod cuts;
mod durations;
mod links;
mod machine;
mod memory;
mod merge;
mod order;
mod price;
mod set;
mod structure;
mod tasks;
mod wiring;
mod work;

use std::sync::Arc;

use petgraph::graph::EdgeIndex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::{Overheads, Prediction, Work};
use crate::device::{DeviceProfile, LinkProfile};
use crate::graph::{Dependency, ExecutionGraph, Lane, LaneId, NodeId, OperatorId, TaskKind};
use crate::units::Bytes;

pub use added::Source;
use by_node::ByNode;
use cuts::Cuts;
use links::Links;
pub use memory::{Recomputed, SharedStates};
pub use merge::Combine;
use merge::Merge;
use price::{Memo, Repricing};
pub use set::NodeSet;
pub use wiring::{Wire, order_kind};

use crate::scenario::base::Base;
use crate::scenario::context::Context;
use crate::scenario::tables::TablePlacement;
use crate::scenario::works::{Class, Overrides};

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
    /// What it takes, as predicted when it was added.
    pub prediction: Prediction,
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

/// How ranks are spread over nodes; what is not said is as usual.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// The link between them.
    pub link: Option<LinkProfile>,
    /// Devices of each.
    pub devices: Option<u32>,
}

/// A graph under edit.
#[derive(Clone, Debug)]
pub struct Draft<'b> {
    base: &'b Base,
    context: &'b Context,
    /// Classes of tasks; empty while none changed.
    class_of: Vec<u32>,
    /// Classes beyond those of the base.
    classes: Vec<Class>,
    /// By the address of a work that was set, which its class keeps.
    class_of_work: FxHashMap<usize, u32>,
    overrides: Overrides,
    /// Tasks whose work was changed by itself.
    own_work: FxHashSet<NodeId>,
    /// Classes that stand for the traced ones, of tasks whose recorded arguments do not show their work.
    traced_as: ByNode<u32>,
    /// Tasks that do the work of others besides their own.
    merged: FxHashMap<NodeId, Merge>,
    /// By task, the one that does its work, itself where it does that of others too.
    member_of: FxHashMap<NodeId, NodeId>,
    /// Factor on each task's duration; empty while all are 1.
    factors: Vec<f64>,
    /// Tasks whose duration no longer depends on their work.
    fixed: FxHashSet<NodeId>,
    /// Durations that replace the traced ones.
    rebased: ByNode<Prediction>,
    /// Tasks that take a multiple of their time for another reason than their own work.
    recosted: ByNode<Repricing>,
    /// TablePlacement of each embedding table, where an edit moved one.
    placements: Option<Vec<TablePlacement>>,
    /// Tasks whose price may differ from the trace; empty while none does.
    touched: Vec<bool>,
    removed: Vec<bool>,
    /// Device of each rank.
    devices: Vec<Arc<DeviceProfile>>,
    /// Host overheads of work that was never run, where an edit named others than the program's.
    overheads: Option<Arc<Overheads>>,
    /// Interconnect, where it was changed.
    interconnect: Option<LinkProfile>,
    pub(super) added: Vec<Added>,
    pub(super) dropped: Vec<bool>,
    pub(super) links: Links,
    pub(super) cut: Cuts,
    pub(super) changed_edges: FxHashMap<EdgeIndex<u32>, Dependency>,
    pub(super) lanes: Vec<(Lane, String)>,
    /// Names of traced tasks that added ones share, as far as any does.
    names: Vec<Option<Arc<str>>>,
    /// Traced tasks that run on another lane.
    moved: FxHashMap<NodeId, LaneId>,
    /// Factor on the duration of each added task; shorter than `added` while the rest is 1.
    factors_added: Vec<f64>,
    batch: Option<(u64, u64)>,
    /// How ranks are spread over nodes, where an edit said so.
    layout: Layout,
    /// How many ranks there are, where an edit changed it.
    rank_count: Option<u32>,
    /// How often forward and backward pass run in one step.
    repeats: u32,
    /// Parts of the forward pass that run again and keep nothing until then.
    recomputed: Vec<Recomputed>,
    /// What each rank keeps of states that ranks share out among them.
    shared: SharedStates,
    /// What steps hold all the time besides, by position of the rank.
    held: Vec<(usize, Bytes)>,
    memo: Memo,
    /// Room to gather dependencies in while they are changed; empty in between.
    wires: Vec<Wire>,
}

impl<'b> Draft<'b> {
    /// An untouched copy of `base`.
    pub fn new(base: &'b Base, context: &'b Context) -> Self {
        Self {
            base,
            context,
            class_of: Vec::new(),
            classes: Vec::new(),
            class_of_work: FxHashMap::default(),
            overrides: Overrides::default(),
            own_work: FxHashSet::default(),
            traced_as: ByNode::default(),
            merged: FxHashMap::default(),
            member_of: FxHashMap::default(),
            factors: Vec::new(),
            fixed: FxHashSet::default(),
            rebased: ByNode::default(),
            recosted: ByNode::default(),
            placements: None,
            touched: Vec::new(),
            removed: Vec::new(),
            devices: context.devices.iter().map(|device| device.profile.clone()).collect(),
            overheads: None,
            interconnect: None,
            added: Vec::new(),
            dropped: Vec::new(),
            links: Links::default(),
            cut: Cuts::default(),
            changed_edges: FxHashMap::default(),
            lanes: Vec::new(),
            names: Vec::new(),
            moved: FxHashMap::default(),
            factors_added: Vec::new(),
            batch: None,
            layout: Layout::default(),
            rank_count: None,
            repeats: 1,
            recomputed: Vec::new(),
            shared: SharedStates::default(),
            held: Vec::new(),
            memo: Memo::default(),
            wires: Vec::new(),
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

    /// How many ranks there are, where an edit changed it.
    pub fn rank_count(&self) -> Option<u32> {
        self.rank_count
    }

    /// Notes that there are `count` ranks now, each like one that was traced.
    pub fn set_rank_count(&mut self, count: u32) {
        self.rank_count = Some(count);
    }

    /// The placement of each embedding table that can move, where an edit moved one.
    pub fn placements(&self) -> Option<&[TablePlacement]> {
        self.placements.as_deref()
    }

    /// Sets the placement of each embedding table that can move.
    pub fn set_seats(&mut self, placements: Vec<TablePlacement>) {
        self.placements = Some(placements);
    }
}

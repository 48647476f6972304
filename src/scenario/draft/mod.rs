//! The working copy that edits change: what differs from the base graph, and what each task costs now.
//!
//! Edits say what tasks do, where and how often; durations follow from that at any moment by [`Draft::price`], always from
//! the traced duration, so that two edits never compound the rounding or the error of one another.

mod added;
mod merge;
mod order;
mod price;
mod tasks;
mod wiring;

use std::cell::RefCell;
use std::sync::Arc;

use petgraph::graph::EdgeIndex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::cost::{Family, Overheads, Prediction, Work};
use crate::device::{DeviceProfile, LinkProfile};
use crate::graph::{Dependency, ExecutionGraph, Lane, LaneId, NodeId, Operands, OperatorId, TaskKind};
use crate::units::Bytes;

pub use added::Source;
pub use merge::Combine;
use merge::Merge;
use price::Repricing;
pub use wiring::{Wire, order_kind};

use crate::scenario::base::Base;
use crate::scenario::context::Context;
use crate::scenario::plan;
use crate::scenario::tables::Seat;
use crate::scenario::works::{Class, Classifier, NO_CLASS, Overrides};

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

/// A task that was not traced.
#[derive(Clone, Debug, PartialEq)]
pub struct Added {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: TaskKind,
    /// Where it runs.
    pub lane: LaneId,
    /// The traced operator it stands for or belongs to, if any.
    pub operator: Option<OperatorId>,
    /// Bytes of a copy or collective.
    pub bytes: Bytes,
    /// What it has to do, where it is device work.
    pub work: Option<Work>,
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

/// A graph under edit.
#[derive(Debug)]
pub struct Draft<'b> {
    base: &'b Base,
    context: &'b Context,
    /// Classes of tasks; empty while none changed.
    class_of: Vec<u32>,
    /// Classes beyond those of the base.
    classes: Vec<Class>,
    overrides: Overrides,
    /// Tasks whose work was changed by itself.
    own_work: FxHashSet<NodeId>,
    /// Classes that stand for the traced ones, of tasks whose recorded arguments do not show their work.
    traced_as: FxHashMap<NodeId, u32>,
    /// Tasks that do the work of others besides their own.
    merged: FxHashMap<NodeId, Merge>,
    /// Factor on each task's duration; empty while all are 1.
    factors: Vec<f64>,
    /// Tasks whose duration no longer depends on their work.
    fixed: FxHashSet<NodeId>,
    /// Durations that replace the traced ones.
    rebased: FxHashMap<NodeId, Prediction>,
    /// Tasks that take a multiple of their time for another reason than their own work.
    recosted: FxHashMap<NodeId, Repricing>,
    /// Seat of each embedding table, where an edit moved one.
    seats: Option<Vec<Seat>>,
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
    pub(super) links: Vec<Link>,
    pub(super) cut: FxHashSet<EdgeIndex<u32>>,
    pub(super) changed_edges: FxHashMap<EdgeIndex<u32>, Dependency>,
    pub(super) lanes: Vec<(Lane, String)>,
    /// Traced tasks that run on another lane.
    moved: FxHashMap<NodeId, LaneId>,
    /// Factor on the duration of each added task; shorter than `added` while the rest is 1.
    factors_added: Vec<f64>,
    /// Links by the task at either end, as far as they were looked at.
    link_ends: FxHashMap<Node, Vec<u32>>,
    links_seen: usize,
    batch: Option<(u64, u64)>,
    /// How many ranks there are, where an edit changed it.
    rank_count: Option<u32>,
    /// How often forward and backward pass run in one step.
    repeats: u32,
    /// Activations that are no longer kept.
    freed: Bytes,
    memo: RefCell<FxHashMap<(u32, u32, usize), Repricing>>,
}

impl<'b> Draft<'b> {
    /// An untouched copy of `base`.
    pub fn new(base: &'b Base, context: &'b Context) -> Self {
        Self {
            base,
            context,
            class_of: Vec::new(),
            classes: Vec::new(),
            overrides: Overrides::default(),
            own_work: FxHashSet::default(),
            traced_as: FxHashMap::default(),
            merged: FxHashMap::default(),
            factors: Vec::new(),
            fixed: FxHashSet::default(),
            rebased: FxHashMap::default(),
            recosted: FxHashMap::default(),
            seats: None,
            touched: Vec::new(),
            removed: Vec::new(),
            devices: context.devices.iter().map(|device| device.profile.clone()).collect(),
            overheads: None,
            interconnect: None,
            added: Vec::new(),
            dropped: Vec::new(),
            links: Vec::new(),
            cut: FxHashSet::default(),
            changed_edges: FxHashMap::default(),
            lanes: Vec::new(),
            moved: FxHashMap::default(),
            factors_added: Vec::new(),
            link_ends: FxHashMap::default(),
            links_seen: 0,
            batch: None,
            rank_count: None,
            repeats: 1,
            freed: Bytes(0),
            memo: RefCell::default(),
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

    /// The device of the rank at position `rank` now.
    pub fn device(&self, rank: usize) -> Option<&Arc<DeviceProfile>> {
        self.devices.get(rank).or_else(|| self.devices.first())
    }

    /// The devices of all ranks now.
    pub fn devices(&self) -> &[Arc<DeviceProfile>] {
        &self.devices
    }

    /// Moves the rank at position `rank` to another device.
    pub fn set_device(&mut self, rank: usize, device: Arc<DeviceProfile>) {
        if rank < self.devices.len() {
            self.move_added(rank, &device);
            self.devices[rank] = device;
            self.memo.borrow_mut().clear();
            self.touch_all(|draft, node| {
                let task = &draft.graph().tasks[node];
                draft.base.rank_index(task.lane) == rank && task.kind.is_device()
            });
        }
    }

    /// The interconnect, where an edit changed it.
    pub fn interconnect(&self) -> Option<&LinkProfile> {
        self.interconnect.as_ref()
    }

    /// Changes the interconnect of all ranks.
    pub fn set_interconnect(&mut self, link: LinkProfile) {
        self.relink_added(&link);
        self.interconnect = Some(link);
        self.memo.borrow_mut().clear();
        self.touch_all(|draft, node| matches!(draft.graph().tasks[node].kind, TaskKind::Collective(_)));
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

    /// The arguments of an operator now.
    pub fn operands(&self, operator: OperatorId) -> Option<&Operands> {
        self.overrides.operands(self.base.graph(), operator)
    }

    /// Changes arguments of operators, and with them the work of the tasks below those operators.
    ///
    /// # Arguments
    /// `list`: argument lists; `rows`: operators with their row in `list`.
    pub fn set_operands(&mut self, list: Vec<Operands>, rows: impl IntoIterator<Item = (OperatorId, u32)>) {
        let first = self.overrides.list.len() as u32;
        self.overrides.list.extend(list);
        let graph = self.base.graph();
        for (operator, row) in rows {
            self.overrides.set(graph, operator, first + row);
        }
        self.reclassify();
        plan::follow_operands(self);
    }

    fn reclassify(&mut self) {
        let works = self.base.works();
        let first = (works.classes.len() + self.classes.len()) as u32;
        let mut classifier = Classifier::new(self.base.graph(), &self.overrides, &works.sharing, first);
        let mut class_of = Vec::with_capacity(works.of_node.len());
        let individual = !self.class_of.is_empty();
        for node in self.base.graph().tasks.node_indices() {
            let kept = individual && self.is_individual(node);
            class_of.push(match (kept, self.merged.get(&node)) {
                (true, Some(merge)) => merge.own,
                (true, None) => self.class_of[node.index()],
                (false, _) => classifier.class(node),
            });
        }
        let new = std::mem::take(&mut classifier.classes);
        self.classes.extend(new);
        self.class_of = class_of;
        self.touch_all(|draft, node| draft.class_of[node.index()] != NO_CLASS);
        let mut merged: Vec<NodeId> = self.merged.keys().copied().collect();
        merged.sort_unstable();
        for kept in merged {
            if let Some(merge) = self.merged.get_mut(&kept) {
                merge.own = self.class_of[kept.index()];
            }
            self.remerge(kept);
        }
    }

    /// Whether the work of a task was set on its own, not by its operator's arguments.
    fn is_individual(&self, node: NodeId) -> bool {
        self.own_work.contains(&node)
    }

    /// Changes the work of one task alone.
    pub fn set_work(&mut self, node: NodeId, work: Work) {
        if self.class_of.is_empty() {
            self.class_of.clone_from(&self.base.works().of_node);
        }
        let class = self.new_class(work);
        self.class_of[node.index()] = class;
        self.own_work.insert(node);
        self.touch(node);
        if let Some(merge) = self.merged.get_mut(&node) {
            merge.own = class;
            self.remerge(node);
        }
    }

    /// As [`set_work`](Self::set_work), for a task whose recorded arguments do not show that it did `traced`.
    pub fn set_works(&mut self, node: NodeId, traced: Work, work: Work) {
        if !self.traced_as.contains_key(&node) {
            let class = self.new_class(traced);
            self.traced_as.insert(node, class);
        }
        self.set_work(node, work);
    }

    fn new_class(&mut self, work: Work) -> u32 {
        self.classes.push(Class { family: work.family, work: Some(work) });
        (self.base.works().classes.len() + self.classes.len() - 1) as u32
    }

    /// The work that a task was traced doing.
    fn traced_work(&self, node: NodeId) -> Option<&Work> {
        self.class_at(self.classes_of(node).0).and_then(|class| class.work.as_ref())
    }

    fn class_at(&self, class: u32) -> Option<&Class> {
        let works = self.base.works();
        let own = (class as usize).checked_sub(works.classes.len());
        own.map_or_else(|| works.classes.get(class as usize), |own| self.classes.get(own))
    }

    fn classes_of(&self, node: NodeId) -> (u32, u32) {
        let recorded = self.base.works().of_node[node.index()];
        let old = self.traced_as.get(&node).copied().unwrap_or(recorded);
        (old, self.class_of.get(node.index()).copied().unwrap_or(old))
    }

    /// What a task has to do now, where that is known.
    pub fn work(&self, node: NodeId) -> Option<&Work> {
        self.class_at(self.classes_of(node).1).and_then(|class| class.work.as_ref())
    }

    /// The family of a task that computes or moves something.
    pub fn family(&self, node: NodeId) -> Option<Family> {
        self.class_at(self.classes_of(node).1).map(|class| class.family)
    }

    /// Multiplies the duration of a task.
    pub fn scale(&mut self, node: NodeId, factor: f64) {
        if self.factors.is_empty() {
            self.factors = vec![1.0; self.graph().tasks.node_count()];
        }
        self.factors[node.index()] *= factor;
        self.touch(node);
    }

    /// Takes a task's duration to be `prediction` from here on, in place of the traced one.
    pub fn set_duration(&mut self, node: NodeId, prediction: Prediction) {
        self.rebased.insert(node, prediction);
        self.touch(node);
    }

    /// Takes a task's duration to be a multiple of what its work tells, or with `None` no longer so.
    ///
    /// # Arguments
    /// `cost`: the factor, and where it is from; the duration in it is not looked at.
    pub fn recost(&mut self, node: NodeId, cost: Option<(f64, Prediction)>) {
        match cost {
            Some((factor, of)) => _ = self.recosted.insert(node, Repricing::Ratio(factor, of)),
            None => _ = self.recosted.remove(&node),
        }
        self.touch(node);
    }

    /// Takes a task's duration to be the traced one again.
    pub fn unset_duration(&mut self, node: NodeId) {
        self.rebased.remove(&node);
    }

    /// Host overheads of work that was never run.
    pub fn overheads(&self) -> &Overheads {
        self.overheads.as_deref().unwrap_or(&self.context.overheads)
    }

    /// Changes the host overheads of work that was never run; with `None` back to the program's.
    pub fn set_overheads(&mut self, overheads: Option<Arc<Overheads>>) {
        self.overheads = overheads;
    }

    /// The seat of each embedding table that can move, where an edit moved one.
    pub fn seats(&self) -> Option<&[Seat]> {
        self.seats.as_deref()
    }

    /// Sets the seat of each embedding table that can move.
    pub fn set_seats(&mut self, seats: Vec<Seat>) {
        self.seats = Some(seats);
    }

    /// Lets a task take `prediction` whatever it does: what it computed is done elsewhere.
    pub fn fix_duration(&mut self, node: NodeId, prediction: Prediction) {
        self.fixed.insert(node);
        self.set_duration(node, prediction);
    }

    /// Whether a task does the work of others besides its own.
    pub fn is_merged(&self, node: NodeId) -> bool {
        self.merged.contains_key(&node)
    }

    /// Takes a task out: it takes no time, and what waited for it waits for what it waited for.
    pub fn remove(&mut self, node: NodeId) {
        if self.removed.is_empty() {
            self.removed = vec![false; self.graph().tasks.node_count()];
        }
        self.removed[node.index()] = true;
    }

    /// Whether a task was taken out.
    pub fn is_removed(&self, node: NodeId) -> bool {
        self.removed.get(node.index()).copied().unwrap_or(false)
    }

    /// Adds a task; it has to be connected besides.
    pub fn add(&mut self, added: Added) -> AddedId {
        self.added.push(added);
        self.dropped.push(false);
        AddedId(self.added.len() as u32 - 1)
    }

    /// Tasks that edits added, in order.
    pub fn added(&self) -> &[Added] {
        &self.added
    }

    /// An added task, to be changed.
    pub fn added_mut(&mut self, id: AddedId) -> Option<&mut Added> {
        self.added.get_mut(id.0 as usize)
    }

    /// Adds a dependency.
    pub fn connect(&mut self, from: Node, to: Node, dependency: Dependency) {
        self.links.push(Link { from, to, dependency, is_cut: false });
    }

    /// Takes out a traced dependency.
    pub fn cut(&mut self, edge: EdgeIndex<u32>) {
        self.cut.insert(edge);
    }

    /// Changes a traced dependency.
    pub fn set_dependency(&mut self, edge: EdgeIndex<u32>, dependency: Dependency) {
        self.changed_edges.insert(edge, dependency);
    }

    /// Adds a lane.
    pub fn add_lane(&mut self, lane: Lane, name: impl Into<String>) -> LaneId {
        self.lanes.push((lane, name.into()));
        LaneId((self.graph().lanes.len() + self.lanes.len() - 1) as u16)
    }

    /// A lane, traced or added.
    pub fn lane(&self, id: LaneId) -> Option<&Lane> {
        let traced = self.graph().lanes.len();
        let at = id.0 as usize;
        self.graph().lanes.get(at).or_else(|| self.lanes.get(at.checked_sub(traced)?).map(|(lane, _)| lane))
    }

    /// Position of the rank of a lane, traced or added.
    pub fn rank_of(&self, lane: LaneId) -> usize {
        self.base.rank_of(lane, &self.lanes)
    }

    fn touch(&mut self, node: NodeId) {
        if self.touched.is_empty() {
            self.touched = vec![false; self.graph().tasks.node_count()];
        }
        self.touched[node.index()] = true;
    }

    fn touch_all(&mut self, chosen: impl Fn(&Self, NodeId) -> bool) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.resize(self.graph().tasks.node_count(), false);
        for node in self.graph().tasks.node_indices() {
            touched[node.index()] |= chosen(self, node);
        }
        self.touched = touched;
    }

    /// Whether any edit may have changed what a task takes.
    pub fn is_touched(&self, node: NodeId) -> bool {
        self.touched.get(node.index()).copied().unwrap_or(false)
    }

    pub(super) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Whether tasks or dependencies were added, taken out or changed.
    pub fn is_restructured(&self) -> bool {
        !(self.removed.is_empty()
            && self.added.is_empty()
            && self.links.is_empty()
            && self.cut.is_empty()
            && self.changed_edges.is_empty())
    }
}

//! Which rows the tables show: grouped, sorted and filtered as the user asked.
//!
//! Made when one of these or the result changes, so that drawing only formats.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::analysis::critical_path::Run;
use crate::analysis::gaps::Cause;
use crate::analysis::operators::module_of;
use crate::cost::{Provenance, family_of_task};
use crate::graph::{ExecutionGraph, NodeId, Task, TaskKind};
use crate::session::Loaded;
use crate::units::DurNs;

use super::workspace::Workspace;

/// From this multiple of what its model says a kernel counts as slow.
pub const SLOW: f64 = 1.3;

/// What makes device work one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// The operator that launched it.
    #[default]
    Operator,
    /// The kernel's name.
    Kernel,
    /// The module, or the part of training, it belongs to.
    Module,
    /// The stream or thread.
    Stream,
    /// The kernel family.
    Family,
}

impl Grouping {
    /// All of them, in the order a key goes through them.
    const ALL: [Self; 5] = [Self::Operator, Self::Kernel, Self::Module, Self::Stream, Self::Family];

    /// What one row is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Kernel => "kernel",
            Self::Module => "module",
            Self::Stream => "stream",
            Self::Family => "family",
        }
    }

    /// The next one, around the end.
    pub fn next(self) -> Self {
        Self::ALL[(Self::ALL.iter().position(|&known| known == self).unwrap_or(0) + 1) % Self::ALL.len()]
    }
}

/// What rows are sorted by, the most first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Device time.
    #[default]
    Time,
    /// Time above what the models say.
    Model,
    /// Change by the scenario.
    Change,
    /// Host time.
    Host,
    /// How many.
    Count,
    /// Name.
    Name,
}

impl Order {
    /// All of them, in the order a key goes through them.
    const ALL: [Self; 6] = [Self::Time, Self::Model, Self::Change, Self::Host, Self::Count, Self::Name];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Time => "device",
            Self::Model => "above model",
            Self::Change => "change",
            Self::Host => "host",
            Self::Count => "count",
            Self::Name => "name",
        }
    }

    /// The next one, around the end.
    pub fn next(self) -> Self {
        Self::ALL[(Self::ALL.iter().position(|&known| known == self).unwrap_or(0) + 1) % Self::ALL.len()]
    }
}

/// Work of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What is common to it.
    pub label: String,
    /// The longest piece.
    pub example: NodeId,
    /// Pieces of device work.
    pub count: usize,
    /// Measured device time.
    pub measured: DurNs,
    /// Simulated device time.
    pub simulated: DurNs,
    /// Measured host time.
    pub host: DurNs,
    /// What its kernels are.
    pub family: &'static str,
    /// Worst source of their times.
    pub provenance: Provenance,
    /// What the models say of the kernels they cover.
    pub modelled: DurNs,
    /// Measured time of these kernels.
    pub covered: DurNs,
}

impl Group {
    fn new(label: String, example: NodeId) -> Self {
        Self {
            label,
            example,
            count: 0,
            measured: DurNs::ZERO,
            simulated: DurNs::ZERO,
            host: DurNs::ZERO,
            family: "host",
            provenance: Provenance::Measured,
            modelled: DurNs::ZERO,
            covered: DurNs::ZERO,
        }
    }

    /// How many times as long its kernels take as their models say; `None` where no model covers them.
    pub fn against_model(&self) -> Option<f64> {
        (self.modelled > DurNs::ZERO).then(|| self.covered.0 as f64 / self.modelled.0 as f64)
    }

    /// Whether its kernels are much slower than their models say.
    pub fn is_slow(&self) -> bool {
        self.against_model().is_some_and(|ratio| ratio >= SLOW)
    }

    /// Simulated over measured time.
    pub fn change(&self) -> f64 {
        if self.measured > DurNs::ZERO { self.simulated.0 as f64 / self.measured.0 as f64 } else { 1.0 }
    }
}

/// What the models say of each measured kernel on the device it ran on.
#[derive(Clone, Debug, Default)]
pub struct Modelled {
    of_node: Vec<Option<DurNs>>,
}

impl Modelled {
    /// Asks the models of `loaded`, once per distinct kind of call.
    ///
    /// # Complexity
    /// O(tasks + distinct calls · cost of a model).
    pub fn of(loaded: &Loaded) -> Self {
        let (graph, base, context) = (&loaded.graph, &loaded.base, &loaded.context);
        let mut known: FxHashMap<(usize, usize), Option<DurNs>> = FxHashMap::default();
        let estimate = |node: NodeId| {
            let task = &graph.tasks[node];
            let work = base.work(node).filter(|_| task.kind == TaskKind::Kernel)?;
            let rank = base.rank_index(task.lane);
            let device = context.devices.get(rank).filter(|device| device.recognised)?;
            let ask = || context.models.estimate(work, &device.profile).map(|estimate| estimate.duration);
            *known.entry((std::ptr::from_ref(work).addr(), rank)).or_insert_with(ask)
        };
        Self { of_node: graph.tasks.node_indices().map(estimate).collect() }
    }

    /// What the model says of a kernel; `None` where none covers it.
    pub fn get(&self, node: NodeId) -> Option<DurNs> {
        self.of_node.get(node.index()).copied().flatten()
    }
}

/// The rows of all tables.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Operators or another grouping.
    pub groups: Vec<Group>,
    /// The critical path, in order or by length.
    pub runs: Vec<Run>,
    /// Indices of gaps: those with a cause, longest first, then those of streams that had nothing left to do.
    pub gaps: Vec<usize>,
}

impl Listing {
    /// The rows of `work` as grouped, sorted and filtered.
    pub fn of(work: &Workspace) -> Self {
        let is_shown = |node: NodeId| {
            work.filter.as_ref().is_none_or(|filter| filter.mask.get(node.index()).copied().unwrap_or(false))
        };
        let digest = &work.digest;
        let runs = if work.table.is_other { &digest.path_by_length } else { &digest.path };
        let shown_gap = |&index: &usize| match digest.gaps[index].next {
            Some(next) => is_shown(next),
            None => work.filter.is_none(),
        };
        let mut gaps: Vec<usize> = (0..digest.gaps.len()).filter(shown_gap).collect();
        gaps.sort_by_key(|&index| digest.gaps[index].cause == Cause::NothingLeft);
        Self {
            groups: groups(work, &is_shown),
            runs: runs.iter().filter(|run| is_shown(run.segment.node)).copied().collect(),
            gaps,
        }
    }
}

/// Work of the chosen iteration in groups, in the order asked for.
fn groups(work: &Workspace, is_shown: &dyn Fn(NodeId) -> bool) -> Vec<Group> {
    let graph = &*work.loaded.graph;
    let inside = graph.iteration_tasks();
    let mut found: BTreeMap<String, Group> = BTreeMap::new();
    for node in graph.tasks.node_indices().filter(|&node| inside[node.index()] && is_shown(node)) {
        let task = &graph.tasks[node];
        if !task.kind.is_work() || (work.table.grouping == Grouping::Kernel && !is_kernel(task)) {
            continue;
        }
        let label = label(work, graph, task);
        let group = found.entry(label.clone()).or_insert_with(|| Group::new(label, node));
        add(work, graph, node, group);
    }
    let mut groups: Vec<Group> = found.into_values().collect();
    sort(&mut groups, work.table.order);
    groups
}

/// Device work, and host computations.
fn is_kernel(task: &Task) -> bool {
    task.kind.is_device() || task.kind == TaskKind::Compute
}

fn label(work: &Workspace, graph: &ExecutionGraph, task: &Task) -> String {
    match work.table.grouping {
        Grouping::Operator => {
            let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
            graph.names.get(operator.map_or(task.name, |operator| operator.name)).to_owned()
        }
        Grouping::Kernel => graph.names.get(task.name).to_owned(),
        Grouping::Module => module_of(graph, task),
        Grouping::Stream => work.scene().lane_label(task.lane.0 as usize),
        Grouping::Family => family_name(graph, task).to_owned(),
    }
}

fn add(work: &Workspace, graph: &ExecutionGraph, node: NodeId, group: &mut Group) {
    let task = &graph.tasks[node];
    if !is_kernel(task) {
        group.host += task.measured;
        return;
    }
    let resolved = &work.outcome.resolved;
    let prediction = resolved.prediction(node);
    let longest = graph.tasks[group.example].measured;
    if group.count == 0 || task.measured > longest {
        (group.example, group.family) = (node, family_name(graph, task));
    }
    group.count += 1;
    group.measured += task.measured;
    group.simulated += if resolved.is_removed(node) { DurNs::ZERO } else { prediction.duration };
    group.provenance = group.provenance.max(prediction.provenance);
    if let Some(modelled) = work.modelled.get(node) {
        group.modelled += modelled;
        group.covered += task.measured;
    }
}

fn family_name(graph: &ExecutionGraph, task: &Task) -> &'static str {
    match task.kind {
        TaskKind::Kernel => family_of_task(graph, task).name(),
        TaskKind::Memcpy | TaskKind::Memset => "copy",
        TaskKind::Collective(_) => "collective",
        _ => "host",
    }
}

/// The most first; equal rows by device time, then by host time, then by name.
fn sort(groups: &mut [Group], order: Order) {
    use std::cmp::Reverse;
    groups.sort_by(|a, b| a.label.cmp(&b.label));
    if order == Order::Name {
        return;
    }
    groups.sort_by_key(|group| Reverse((group.measured.max(group.simulated), group.host)));
    match order {
        Order::Time | Order::Name => {}
        Order::Model => groups.sort_by_key(|group| Reverse(group.covered.0 - group.modelled.0)),
        Order::Change => groups.sort_by_key(|group| Reverse((group.simulated - group.measured).0.abs())),
        Order::Host => groups.sort_by_key(|group| Reverse(group.host)),
        Order::Count => groups.sort_by_key(|group| Reverse(group.count)),
    }
}

//! What each task has to do, worked out once per kind of call: tasks of equal name, callers and arguments share a class.

use std::sync::Arc;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use rustc_hash::FxHashMap;

use crate::cost::{Family, Part, Reuse, Shape, Work, family_of_task, kernel_parts, reference_kernels, work_of_task};
use crate::device::Precision;
use crate::graph::{ExecutionGraph, NodeId, Operands, OperatorId, Phase, Task, TaskKind};

use super::sparse;
use super::stated::StatedWorks;
use crate::units::DurNs;

/// The class of tasks that have no work of their own (host time, joints).
pub(super) const NO_CLASS: u32 = u32::MAX;

/// A class of tasks: their family, and their work where that is known.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Class {
    pub(super) family: Family,
    pub(super) work: Option<Arc<Work>>,
    /// Whether the time that its tasks took tells that they did something else than was recorded.
    pub(super) is_refuted: bool,
}

impl Class {
    /// Of tasks that do `work`, as far as any device could.
    pub(super) fn of(work: Arc<Work>) -> Self {
        Self { family: work.family, work: Some(work).filter(|work| work.is_possible()), is_refuted: false }
    }
}

/// The classes of all tasks.
#[derive(Clone, Debug)]
pub(super) struct WorkClasses {
    pub(super) classes: Vec<Class>,
    pub(super) of_node: Vec<u32>,
    /// What a task of each class took, on average.
    pub(super) typical: Vec<DurNs>,
    pub(super) sharing: Sharing,
}

/// Arguments of operators that an edit changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Overrides {
    /// Row of `list` by operator, [`NO_CLASS`] for the recorded arguments; empty when none is changed.
    pub(super) of_operator: Vec<u32>,
    pub(super) list: Vec<Operands>,
}

impl Overrides {
    /// The row of an operator's changed arguments.
    pub(super) fn row(&self, operator: OperatorId) -> Option<u32> {
        self.of_operator.get(operator.0 as usize).copied().filter(|&row| row != NO_CLASS)
    }

    /// The arguments of `operator` now.
    pub(super) fn operands<'a>(&'a self, graph: &'a ExecutionGraph, operator: OperatorId) -> Option<&'a Operands> {
        if let Some(row) = self.row(operator) {
            return self.list.get(row as usize);
        }
        let id = graph.operators.get(operator.0 as usize)?.operands?;
        graph.operands.get(id.0 as usize)
    }

    /// The arguments of `operator` now, as a number: changed ones count down from the top.
    pub(super) fn number(&self, graph: &ExecutionGraph, operator: OperatorId) -> Option<u32> {
        let recorded = || graph.operators.get(operator.0 as usize)?.operands.map(|operands| operands.0);
        self.row(operator).map(|row| NO_CLASS - 1 - row).or_else(recorded)
    }

    /// Changes the arguments of `operator` to row `row` of the list.
    pub(super) fn set(&mut self, graph: &ExecutionGraph, operator: OperatorId, row: u32) {
        if self.of_operator.is_empty() {
            self.of_operator = vec![NO_CLASS; graph.operators.len()];
        }
        if let Some(slot) = self.of_operator.get_mut(operator.0 as usize) {
            *slot = row;
        }
    }
}

/// How the tasks of a graph share the work of their operators.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    /// By name: whether the work of an operator of that name depends on its forward operator.
    by_forward: Vec<bool>,
    /// By task: whether its operator's arguments do not tell what it does: it only prepares or finishes what another stretch of its
    /// operator computes, or is one kernel of a graph.
    pub(super) auxiliary: Vec<bool>,
    /// The part of its operator's work that a task does, where that is not all of it.
    parts: FxHashMap<NodeId, Part>,
    /// By kernel whose operator was not recorded: the kernel taken to have done the same.
    references: FxHashMap<NodeId, NodeId>,
    /// Which rows lookups look up, where it is told; by task the position in `told`, plus one.
    reuse: FxHashMap<NodeId, u32>,
    told: Vec<Reuse>,
    /// What updates of rows of a table do, whose operators' arguments show the whole table; by task the position in `updated`.
    updates: FxHashMap<NodeId, u32>,
    updated: Vec<Work>,
    /// What the file states of tasks beside what their operators' arguments tell.
    stated: StatedWorks,
}

impl Sharing {
    /// # Complexity
    /// O(tasks + operators).
    pub(super) fn of_graph(graph: &ExecutionGraph) -> Self {
        let (mut auxiliary, (parts, references)) =
            rayon::join(|| auxiliary(graph), || rayon::join(|| parts(graph), || reference_kernels(graph)));
        for node in of_graph_launches(graph) {
            auxiliary[node.index()] = true;
        }
        let (mut updates, mut updated): (FxHashMap<NodeId, u32>, Vec<Work>) = Default::default();
        for (node, work) in sparse::updates(graph).filter(|(node, _)| !auxiliary[node.index()]) {
            if updated.last() != Some(&work) {
                updated.push(work);
            }
            updates.insert(node, updated.len() as u32 - 1);
        }
        let mut sharing = Self {
            by_forward: names_by_forward(graph),
            auxiliary,
            parts,
            references,
            reuse: FxHashMap::default(),
            told: Vec::new(),
            updates,
            updated,
            stated: StatedWorks::default(),
        };
        if !graph.stated.is_empty() {
            sharing.stated = StatedWorks::of(graph, &sharing);
        }
        sharing
    }

    /// The tasks that update a table sparsely, in order.
    pub(super) fn updates(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.updates.keys().copied().collect();
        nodes.sort_unstable();
        nodes
    }

    /// The work of a task that updates a table sparsely.
    fn update(&self, node: NodeId) -> Option<&Work> {
        self.updated.get(*self.updates.get(&node)? as usize)
    }

    /// The task whose operator tells the work of `node`: itself, or its reference kernel.
    fn shown_by(&self, node: NodeId) -> NodeId {
        self.references.get(&node).copied().unwrap_or(node)
    }

    /// With what is told of the rows that lookups look up.
    pub(super) fn with_reuse(mut self, all: Vec<(NodeId, Reuse)>) -> Self {
        for (node, reuse) in all {
            if self.told.last() != Some(&reuse) {
                self.told.push(reuse);
            }
            self.reuse.insert(node, self.told.len() as u32);
        }
        self
    }

    fn reuse_row(&self, node: NodeId) -> u32 {
        self.reuse.get(&node).copied().unwrap_or(0)
    }

    /// `work` with the rows it looks up as row `row` tells.
    fn told(&self, row: u32, mut work: Work) -> Work {
        let told = (row as usize).checked_sub(1).and_then(|at| self.told.get(at));
        if let (Shape::Embedding { reuse, .. }, Some(told)) = (&mut work.shape, told) {
            reuse.clone_from(told);
        }
        work
    }

    /// Whether a task is auxiliary, and its part.
    fn of(&self, node: NodeId) -> (bool, Part) {
        let at = node.index();
        (self.auxiliary.get(at) == Some(&true), self.parts.get(&node).copied().unwrap_or_default())
    }
}

/// How far up the call tree arguments are looked for.
const DEPTH: usize = 6;
/// Place of a task's part in a key.
const PARTS: usize = 6 + 2 * DEPTH;
/// Place of what is told of a lookup's rows.
const TOLD: usize = PARTS + 1;
/// Place of what the file states of a task.
const STATED: usize = TOLD + 1;
const KEY: usize = STATED + 1;
/// Stands for sparse updates where keys tell kinds of tasks.
const UPDATE: u32 = 6;

/// Which units compute convolutions of 32-bit floats: what frameworks choose by default differs by device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ConvUnits {
    #[default]
    AsTraced,
    /// TF32, which cuDNN is allowed where a GPU has it.
    Tf32,
    /// Full 32 bits: `PyTorch` asks MIOpen for nothing less.
    Fp32,
}

impl ConvUnits {
    /// What is taken for granted with units that were not traced.
    pub(super) fn told(self) -> Option<&'static str> {
        match self {
            Self::AsTraced => None,
            Self::Tf32 => {
                Some("convolutions of 32-bit floats are taken to run in TF32 there, as frameworks do by default")
            }
            Self::Fp32 => Some(
                "convolutions traced in TF32 are taken to run in fp32 there, as PyTorch on ROCm computes them by default",
            ),
        }
    }
}

/// What decides a task's work, as numbers.
type Key = [u32; KEY];

/// Sorts tasks into classes, remembering those seen; their works are found at the end, on all cores.
pub(super) struct Classifier<'a> {
    graph: &'a ExecutionGraph,
    overrides: &'a Overrides,
    sharing: &'a Sharing,
    known: FxHashMap<Key, u32>,
    /// The first task of each new class.
    seen: Vec<NodeId>,
    /// Number of the first new class.
    first: u32,
    conv_units: ConvUnits,
    /// The classes that tasks were traced in: what was recorded wrong stays so in other types and sizes.
    traced: Option<&'a WorkClasses>,
}

impl<'a> Classifier<'a> {
    /// # Arguments
    /// `first`: number of the first new class.
    pub(super) fn new(graph: &'a ExecutionGraph, overrides: &'a Overrides, sharing: &'a Sharing, first: u32) -> Self {
        Self {
            graph,
            overrides,
            sharing,
            known: FxHashMap::default(),
            seen: Vec::new(),
            first,
            conv_units: ConvUnits::AsTraced,
            traced: None,
        }
    }

    /// Of tasks that were traced in other classes.
    pub(super) fn of_traced(self, traced: &'a WorkClasses) -> Self {
        Self { traced: Some(traced), ..self }
    }

    /// With convolutions of 32-bit floats on other units than traced.
    pub(super) fn with_conv_units(self, conv_units: ConvUnits) -> Self {
        Self { conv_units, ..self }
    }

    /// The class of a task.
    pub(super) fn class(&mut self, own: NodeId) -> u32 {
        let node = self.sharing.shown_by(own);
        let task = &self.graph.tasks[node];
        if !has_work(task) {
            return NO_CLASS;
        }
        let (is_auxiliary, part) = self.sharing.of(node);
        let mut key = match self.sharing.updates.get(&node) {
            Some(&row) => of_update(row),
            None => self.key(task),
        };
        key[0] |= u32::from(is_auxiliary) << 16;
        key[PARTS] = part.key();
        key[TOLD] = self.sharing.reuse_row(node);
        key[STATED] = self.sharing.stated.row(own);
        if let Some(&class) = self.known.get(&key) {
            return class;
        }
        let class = self.first + self.seen.len() as u32;
        self.seen.push(own);
        self.known.insert(key, class);
        class
    }

    /// The new classes, in order.
    pub(super) fn classes(&self) -> Vec<Class> {
        self.seen.par_iter().map(|&node| self.work_out(node)).collect()
    }

    fn work_out(&self, own: NodeId) -> Class {
        let node = self.sharing.shown_by(own);
        let (task, (is_auxiliary, part)) = (&self.graph.tasks[node], self.sharing.of(node));
        let of_operator =
            || work_of_task(self.graph, task, part, |operator| self.overrides.operands(self.graph, operator));
        let told = |whole| self.sharing.told(self.sharing.reuse_row(node), whole);
        let whole = || self.sharing.update(node).cloned().or_else(of_operator);
        let by_arguments = if is_auxiliary { None } else { whole().map(told) };
        let work = self.sharing.stated.work(self.sharing.stated.row(own), by_arguments);
        let work = work.map(|work| self.on_units(work));
        let family = work.as_ref().map_or_else(|| family_of_task(self.graph, task), |work| work.family);
        let is_refuted = self.traced.is_some_and(|traced| traced.class(own).is_some_and(|class| class.is_refuted));
        let work = work.filter(|work| work.is_possible() && !is_refuted);
        Class { family, work: work.map(Arc::new), is_refuted }
    }

    fn on_units(&self, work: Work) -> Work {
        let precision = match (self.conv_units, work.precision) {
            (ConvUnits::Tf32, Precision::Fp32) if work.family == Family::Conv => Precision::Tf32,
            (ConvUnits::Fp32, Precision::Tf32) if work.family == Family::Conv => Precision::Fp32,
            (_, traced) => traced,
        };
        Work { precision, ..work }
    }

    fn key(&self, task: &Task) -> Key {
        let mut key = [NO_CLASS; KEY];
        let (kind, collective) = match task.kind {
            TaskKind::Collective(id) => (1, id.0),
            TaskKind::Kernel => (2, 0),
            TaskKind::Compute => (3, 0),
            TaskKind::Memset => (4, 0),
            _ => (5, 0),
        };
        let phase =
            task.operator.and_then(|id| self.graph.operators.get(id.0 as usize)).map_or(Phase::Other, |o| o.phase);
        key[0] = kind << 8 | phase as u32;
        (key[1], key[2]) = (collective, task.name.0);
        (key[3], key[4]) = (task.bytes.0 as u32, (task.bytes.0 >> 32) as u32);
        let mut at = task.operator;
        for level in 0..DEPTH {
            let Some((id, operator)) = at.and_then(|id| Some((id, self.graph.operators.get(id.0 as usize)?))) else {
                break;
            };
            key[6 + 2 * level] = operator.name.0;
            key[7 + 2 * level] = self.overrides.number(self.graph, id).unwrap_or(NO_CLASS);
            if self.sharing.by_forward.get(operator.name.0 as usize) == Some(&true) {
                key[5] = self.forward_of(id);
            }
            at = operator.parent;
        }
        key
    }

    fn forward_of(&self, operator: OperatorId) -> u32 {
        let up = |id: &OperatorId| self.graph.operators.get(id.0 as usize).and_then(|operator| operator.parent);
        let mut chain = std::iter::successors(Some(operator), up).take(DEPTH);
        chain.find_map(|id| self.graph.operators[id.0 as usize].forward).map_or(NO_CLASS, |forward| forward.0)
    }
}

/// The key of tasks that do the update in a row of the list.
fn of_update(row: u32) -> Key {
    let mut key = [NO_CLASS; KEY];
    (key[0], key[1]) = (UPDATE << 8, row);
    key
}

/// Whether a task computes or moves something by itself.
pub(super) fn has_work(task: &Task) -> bool {
    task.kind.is_device() || task.kind == TaskKind::Compute
}

/// By operator how many of `nodes` do its work.
pub(super) fn tasks_of_operators(graph: &ExecutionGraph, nodes: impl Iterator<Item = NodeId>) -> Vec<u32> {
    let mut counts = vec![0; graph.operators.len()];
    for task in nodes.map(|node| &graph.tasks[node]).filter(|task| has_work(task)) {
        if let Some(count) = task.operator.and_then(|id| counts.get_mut(id.0 as usize)) {
            *count += 1;
        }
    }
    counts
}

fn parts(graph: &ExecutionGraph) -> FxHashMap<NodeId, Part> {
    let all = graph.tasks.node_indices().zip(kernel_parts(graph));
    all.filter(|(_, part)| *part != Part::default()).collect()
}

/// By name: whether it is the gradient of a table-batched lookup, whose sizes stand in its forward operator.
fn names_by_forward(graph: &ExecutionGraph) -> Vec<bool> {
    let by_forward = |name: &str| name.contains("SplitLookupFunction") || name.contains("embedding_backward_codegen");
    graph.names.iter().map(|(_, name)| by_forward(name)).collect()
}

/// Kernels that a launch of a graph brought and whose operator is the one that launched it: its arguments tell of all of them
/// together, of none alone.
fn of_graph_launches(graph: &ExecutionGraph) -> Vec<NodeId> {
    let is_graph_launch: Vec<bool> = graph.names.iter().map(|(_, name)| name.contains("GraphLaunch")).collect();
    if !is_graph_launch.contains(&true) {
        return Vec::new();
    }
    let is_whole = |&node: &NodeId| {
        let task = &graph.tasks[node];
        let launch = graph.launch_of(node).map(|call| &graph.tasks[call]);
        task.kind == TaskKind::Kernel
            && launch.is_some_and(|call| is_graph_launch[call.name.0 as usize] && call.operator == task.operator)
    };
    graph.tasks.node_indices().filter(is_whole).collect()
}

/// By task: whether it is a stretch of a computation on the host besides the longest of its operator. The longest does the
/// operator's work; the others, between calls of operators that only describe tensors, allocate and check.
///
/// # Complexity
/// O(tasks + operators).
fn auxiliary(graph: &ExecutionGraph) -> Vec<bool> {
    let mut auxiliary = vec![false; graph.tasks.node_count()];
    let mut longest: Vec<Option<NodeId>> = vec![None; graph.operators.len()];
    for node in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Compute) {
        let Some(slot) = graph.tasks[node].operator.and_then(|id| longest.get_mut(id.0 as usize)) else { continue };
        let shorter = match *slot {
            Some(known) if graph.tasks[known].duration >= graph.tasks[node].duration => Some(node),
            _ => slot.replace(node),
        };
        if let Some(shorter) = shorter {
            auxiliary[shorter.index()] = true;
        }
    }
    auxiliary
}

/// Mean times of the tasks of each class.
fn typical(graph: &ExecutionGraph, of_node: &[u32], classes: usize) -> Vec<DurNs> {
    let mut sums = vec![(0_i64, 0_i64); classes];
    for (task, &class) in graph.tasks.node_weights().zip(of_node) {
        if let Some((sum, n)) = sums.get_mut(class as usize) {
            *sum += task.duration.0;
            *n += 1;
        }
    }
    sums.into_iter().map(|(sum, n)| DurNs(sum / n.max(1))).collect()
}

/// The tasks of a graph as traced, sorted into classes.
pub(super) struct Classified {
    classes: Vec<Class>,
    of_node: Vec<u32>,
}

impl Classified {
    pub(super) fn of(graph: &ExecutionGraph, sharing: &Sharing) -> Self {
        let overrides = Overrides::default();
        let mut classifier = Classifier::new(graph, &overrides, sharing, 0);
        let of_node = graph.tasks.node_indices().map(|node| classifier.class(node)).collect();
        let classes = classifier.classes();
        debug_assert!((classes.len() as u64) < u64::from(NO_CLASS));
        Self { classes, of_node }
    }

    /// The number of a task's class, and the class.
    pub(super) fn class(&self, node: NodeId) -> (u32, Option<&Class>) {
        let class = self.of_node.get(node.index()).copied().unwrap_or(NO_CLASS);
        (class, self.classes.get(class as usize))
    }
}

impl WorkClasses {
    pub(super) fn of_graph(graph: &ExecutionGraph, sharing: Sharing) -> Self {
        let Classified { classes, of_node } = Classified::of(graph, &sharing);
        let typical = typical(graph, &of_node, classes.len());
        let mut works = Self { classes, of_node, typical, sharing };
        works.refute(graph, &[]);
        works
    }

    pub(super) fn class(&self, node: NodeId) -> Option<&Class> {
        self.of_node.get(node.index()).and_then(|&class| self.classes.get(class as usize))
    }
}

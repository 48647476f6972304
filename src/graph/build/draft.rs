//! The graph while it is made: tasks and edges in any order, names interned, then ordered topologically.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::graph::{DiGraph, NodeIndex};
use rustc_hash::FxHashMap;

use crate::graph::{Dependency, DependencyKind, Task};
use crate::intern::{NameId, NameTable};
use crate::trace::Trace;

/// No task yet.
pub(super) const NONE: u32 = u32::MAX;

/// An edge between drafted tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    /// The earlier task.
    pub(super) from: u32,
    /// The later task.
    pub(super) to: u32,
    /// How they depend.
    pub(super) dependency: Dependency,
}

/// Tasks and edges of all ranks, unordered.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Tasks by draft number.
    pub(super) tasks: Vec<Task>,
    /// Edges in order of creation.
    pub(super) edges: Vec<Edge>,
}

/// An ordered graph, the node of each drafted task, and how many edges closed a cycle and were left out.
pub(super) struct Ordered {
    /// Node order is topological.
    pub(super) graph: DiGraph<Task, Dependency, u32>,
    /// Node of each drafted task.
    pub(super) node_of: Vec<NodeIndex<u32>>,
    /// Inferred edges left out because they closed a cycle.
    pub(super) dropped: usize,
}

impl Draft {
    /// Adds a task.
    pub(super) fn push(&mut self, task: Task) -> u32 {
        self.tasks.push(task);
        self.tasks.len() as u32 - 1
    }

    /// Adds an edge; nothing when either end is [`NONE`].
    pub(super) fn edge(&mut self, from: u32, to: u32, dependency: Dependency) {
        if from != NONE && to != NONE {
            self.edges.push(Edge { from, to, dependency });
        }
    }

    /// Orders the tasks: Kahn's algorithm, the earliest measured start first. Where inferred edges close a cycle, those
    /// into the earliest task that waits are left out.
    ///
    /// # Complexity
    /// O((tasks + edges) · log tasks).
    pub(super) fn order(self) -> Ordered {
        let mut sorter = Sorter::new(&self);
        let mut order = Vec::with_capacity(self.tasks.len());
        loop {
            sorter.drain(&self, &mut order);
            if order.len() == self.tasks.len() || !sorter.break_cycle(&self) {
                break;
            }
        }
        self.rebuild(&order, &sorter.dropped)
    }

    fn rebuild(self, order: &[u32], dropped: &[bool]) -> Ordered {
        let mut node_of = vec![NodeIndex::end(); self.tasks.len()];
        let mut graph = DiGraph::with_capacity(self.tasks.len(), self.edges.len());
        for &task in order {
            node_of[task as usize] = graph.add_node(self.tasks[task as usize]);
        }
        for (edge, _) in self.edges.iter().zip(dropped).filter(|&(_, &dropped)| !dropped) {
            let (from, to) = (node_of[edge.from as usize], node_of[edge.to as usize]);
            if from < to && to != NodeIndex::end() {
                graph.add_edge(from, to, edge.dependency);
            }
        }
        Ordered { graph, node_of, dropped: dropped.iter().filter(|&&dropped| dropped).count() }
    }
}

/// Kahn's algorithm with a way out of cycles.
struct Sorter {
    /// Edge numbers by target, and by source.
    into: Vec<Vec<u32>>,
    out_of: Vec<Vec<u32>>,
    missing: Vec<u32>,
    done: Vec<bool>,
    dropped: Vec<bool>,
    ready: BinaryHeap<Reverse<(i64, u32)>>,
    /// Tasks by measured start, and how many of them are known to be done.
    by_start: Vec<u32>,
    done_until: usize,
}

impl Sorter {
    fn new(draft: &Draft) -> Self {
        let count = draft.tasks.len();
        let (mut into, mut out_of) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for (number, edge) in draft.edges.iter().enumerate() {
            into[edge.to as usize].push(number as u32);
            out_of[edge.from as usize].push(number as u32);
        }
        let missing: Vec<u32> = into.iter().map(|edges: &Vec<u32>| edges.len() as u32).collect();
        let mut by_start: Vec<u32> = (0..count as u32).collect();
        by_start.sort_by_key(|&task| (draft.tasks[task as usize].measured_start, task));
        let mut ready = BinaryHeap::new();
        for task in (0..count).filter(|&task| missing[task] == 0) {
            ready.push(Reverse((draft.tasks[task].measured_start.0, task as u32)));
        }
        Self {
            into,
            out_of,
            missing,
            done: vec![false; count],
            dropped: vec![false; draft.edges.len()],
            ready,
            by_start,
            done_until: 0,
        }
    }

    fn drain(&mut self, draft: &Draft, order: &mut Vec<u32>) {
        while let Some(Reverse((_, task))) = self.ready.pop() {
            order.push(task);
            self.done[task as usize] = true;
            for number in std::mem::take(&mut self.out_of[task as usize]) {
                if !self.dropped[number as usize] {
                    self.release(draft, number);
                }
            }
        }
    }

    fn release(&mut self, draft: &Draft, number: u32) {
        let to = draft.edges[number as usize].to;
        self.missing[to as usize] -= 1;
        if self.missing[to as usize] == 0 {
            self.ready.push(Reverse((draft.tasks[to as usize].measured_start.0, to)));
        }
    }

    /// Leaves out the open inferred edges into the earliest waiting task that has any; failing that, all open edges into
    /// the earliest waiting task. False when no task waits.
    fn break_cycle(&mut self, draft: &Draft) -> bool {
        while self.by_start.get(self.done_until).is_some_and(|&task| self.done[task as usize]) {
            self.done_until += 1;
        }
        let waiting = || self.by_start[self.done_until..].iter().copied().filter(|&task| !self.done[task as usize]);
        let inferred = waiting().find(|&task| self.open(draft, task).any(|edge| is_inferred(draft, edge)));
        let Some(task) = inferred.or_else(|| waiting().next()) else { return false };
        let edges: Vec<u32> =
            self.open(draft, task).filter(|&edge| inferred.is_none() || is_inferred(draft, edge)).collect();
        for edge in edges {
            self.dropped[edge as usize] = true;
            self.release(draft, edge);
        }
        true
    }

    fn open<'s>(&'s self, draft: &'s Draft, task: u32) -> impl Iterator<Item = u32> + 's {
        self.into[task as usize]
            .iter()
            .copied()
            .filter(|&edge| !self.dropped[edge as usize] && !self.done[draft.edges[edge as usize].from as usize])
    }
}

fn is_inferred(draft: &Draft, edge: u32) -> bool {
    use DependencyKind::{Contention, EventWait, HandOver, HiddenWait, LateStart, LaunchQueue};
    matches!(
        draft.edges[edge as usize].dependency.kind,
        LaunchQueue | EventWait | LateStart | Contention | HandOver | HiddenWait
    )
}

/// The names of one trace in the graph's table, copied when first used.
pub(super) struct Names<'a> {
    trace: &'a Trace,
    known: FxHashMap<NameId, NameId>,
}

impl<'a> Names<'a> {
    /// No names yet.
    pub(super) fn new(trace: &'a Trace) -> Self {
        Self { trace, known: FxHashMap::default() }
    }

    /// The graph's id of a name of the trace.
    pub(super) fn copy(&mut self, table: &mut NameTable, name: NameId) -> NameId {
        *self.known.entry(name).or_insert_with(|| table.intern(self.trace.names.get(name)))
    }
}

//! The graph while it is made: tasks and edges in any order, names interned, then ordered topologically.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::graph::{DiGraph, NodeIndex};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::graph::{Dependency, DependencyKind, Task, TimedGraph};
use crate::intern::{NameId, NameTable};
use crate::trace::Trace;
use crate::units::DurNs;

use super::order;

/// No task yet.
pub(super) const NONE: u32 = u32::MAX;

/// An inferred edge may allow a start so much later than it was measured: beyond what clocks differ by.
const CONTRADICTED: DurNs = DurNs(100_000);

/// The start of everything, time 0: the first task of every draft.
pub(super) const ORIGIN: u32 = 0;

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
    /// The same for the simulator.
    pub(super) timed: TimedGraph,
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

    /// Leaves out inferred edges that the recording contradicts: by them their later end would have begun much later than it did.
    ///
    /// # Returns
    /// How many.
    pub(super) fn drop_contradicted(&mut self) -> usize {
        let Self { tasks, edges } = self;
        let count = edges.len();
        edges.retain(|edge| {
            let (from, to) = (&tasks[edge.from as usize], &tasks[edge.to as usize]);
            let allowed = from.measured_end() + edge.dependency.effective_lag(from.duration);
            !is_inferred(edge.dependency.kind) || allowed <= to.measured_start + CONTRADICTED
        });
        count - edges.len()
    }

    /// Orders the tasks: Kahn's algorithm, the earliest measured start first. Where inferred edges close a cycle, those
    /// into the earliest task that waits are left out.
    ///
    /// # Complexity
    /// O((tasks + edges) · log tasks that wait at a time).
    pub(super) fn order(self) -> Ordered {
        let (order, dropped) = order::by_start(&self).map_or_else(|| self.one_by_one(), |order| (order, Vec::new()));
        self.rebuild(&order, &dropped)
    }

    /// The order as [`order`](Self::order) gives it, and by edge whether it is left out; empty where none is.
    pub(super) fn one_by_one(&self) -> (Vec<u32>, Vec<bool>) {
        let mut sorter = Sorter::new(self);
        let mut order = Vec::with_capacity(self.tasks.len());
        sorter.drain(&mut order);
        if order.len() < self.tasks.len() {
            let mut cycles = Cycles::new(self);
            while cycles.break_next(self, &mut sorter) {
                sorter.drain(&mut order);
            }
        }
        (order, sorter.dropped)
    }

    /// The graph, nodes written while edges are numbered, and edges while it is lowered.
    fn rebuild(self, order: &[u32], dropped: &[bool]) -> Ordered {
        let Self { tasks, mut edges } = self;
        let mut node_of = vec![NodeIndex::end(); tasks.len()];
        for (&task, node) in order.iter().zip(0..) {
            node_of[task as usize] = NodeIndex::new(node);
        }
        let mut graph = DiGraph::with_capacity(tasks.len(), edges.len());
        let mut durations = Vec::with_capacity(tasks.len());
        let nodes = || {
            for task in order.iter().map(|&task| &tasks[task as usize]) {
                graph.add_node(*task);
                durations.push(task.duration);
            }
        };
        let number_on = |(number, edge): (usize, &mut Edge)| {
            let (from, to) = (node_of[edge.from as usize], node_of[edge.to as usize]);
            let is_kept = from < to && to != NodeIndex::end() && dropped.get(number) != Some(&true);
            (edge.from, edge.to) = if is_kept { (from.index() as u32, to.index() as u32) } else { (NONE, NONE) };
        };
        rayon::join(nodes, || edges.par_iter_mut().enumerate().for_each(number_on));
        let add_edges = || {
            for edge in edges.iter().filter(|edge| edge.to != NONE) {
                graph.add_edge(NodeIndex::from(edge.from), NodeIndex::from(edge.to), edge.dependency);
            }
        };
        let lower = || TimedGraph::of_edges(&durations, &edges, |edge| (edge.from, edge.to, edge.dependency));
        let ((), timed) = rayon::join(add_edges, lower);
        Ordered { graph, timed, node_of, dropped: dropped.iter().filter(|&&dropped| dropped).count() }
    }
}

/// Edges grouped by the task at one of their ends, in order of creation.
struct Grouped {
    /// By task: where its edges begin; one more for the end of the last.
    first: Vec<u32>,
    /// Number of each edge, and the task at its other end.
    edges: Vec<(u32, u32)>,
}

impl Grouped {
    fn by(draft: &Draft, ends: impl Fn(&Edge) -> (u32, u32)) -> Self {
        let end = |edge: &Edge| ends(edge).0;
        // Counts two places on turn into beginnings one place on, and into ends while edges are filled in.
        let mut first = vec![0; draft.tasks.len() + 2];
        for edge in &draft.edges {
            first[end(edge) as usize + 2] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut edges = vec![(0, 0); draft.edges.len()];
        for (number, edge) in draft.edges.iter().enumerate() {
            let (own, other) = ends(edge);
            let next = &mut first[own as usize + 1];
            edges[*next as usize] = (number as u32, other);
            *next += 1;
        }
        Self { first, edges }
    }

    fn range(&self, task: u32) -> std::ops::Range<usize> {
        self.first[task as usize] as usize..self.first[task as usize + 1] as usize
    }
}

/// Kahn's algorithm.
struct Sorter {
    out_of: Grouped,
    /// By task: measured start, and how many edges into it are open.
    waiting: Vec<(i64, u32)>,
    done: Vec<bool>,
    /// By edge; empty while none is dropped.
    dropped: Vec<bool>,
    ready: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Sorter {
    fn new(draft: &Draft) -> Self {
        let waiting = || {
            let mut waiting: Vec<(i64, u32)> = draft.tasks.iter().map(|task| (task.measured_start.0, 0)).collect();
            for edge in &draft.edges {
                waiting[edge.to as usize].1 += 1;
            }
            waiting
        };
        let (out_of, waiting) = rayon::join(|| Grouped::by(draft, |edge| (edge.from, edge.to)), waiting);
        let free = waiting.iter().zip(0..).filter(|((_, open), _)| *open == 0);
        let ready = free.map(|(&(start, _), task)| Reverse((start, task))).collect();
        Self { out_of, waiting, done: vec![false; draft.tasks.len()], dropped: Vec::new(), ready }
    }

    fn drain(&mut self, order: &mut Vec<u32>) {
        while let Some(Reverse((_, task))) = self.ready.pop() {
            order.push(task);
            self.done[task as usize] = true;
            for at in self.out_of.range(task) {
                let (number, to) = self.out_of.edges[at];
                if !self.is_dropped(number) {
                    self.release(to);
                }
            }
        }
    }

    fn is_dropped(&self, edge: u32) -> bool {
        self.dropped.get(edge as usize).copied().unwrap_or(false)
    }

    fn release(&mut self, task: u32) {
        let (start, open) = &mut self.waiting[task as usize];
        *open -= 1;
        if *open == 0 {
            self.ready.push(Reverse((*start, task)));
        }
    }
}

/// The way out of cycles.
struct Cycles {
    into: Grouped,
    /// Tasks by measured start, and how many of them are known to be done.
    by_start: Vec<u32>,
    done_until: usize,
}

impl Cycles {
    fn new(draft: &Draft) -> Self {
        let mut by_start: Vec<u32> = (0..draft.tasks.len() as u32).collect();
        by_start.sort_by_key(|&task| (draft.tasks[task as usize].measured_start, task));
        Self { into: Grouped::by(draft, |edge| (edge.to, edge.from)), by_start, done_until: 0 }
    }

    /// Leaves out the open inferred edges into the earliest waiting task that has any; failing that, all open edges into
    /// the earliest waiting task. False when no task waits.
    fn break_next(&mut self, draft: &Draft, sorter: &mut Sorter) -> bool {
        while self.by_start.get(self.done_until).is_some_and(|&task| sorter.done[task as usize]) {
            self.done_until += 1;
        }
        let waiting = || self.by_start[self.done_until..].iter().copied().filter(|&task| !sorter.done[task as usize]);
        let is_open = |&(edge, from): &(u32, u32)| !sorter.is_dropped(edge) && !sorter.done[from as usize];
        let open = |task| self.into.edges[self.into.range(task)].iter().copied().filter(is_open).map(|(edge, _)| edge);
        let inferred =
            waiting().find(|&task| open(task).any(|edge| is_inferred(draft.edges[edge as usize].dependency.kind)));
        let Some(task) = inferred.or_else(|| waiting().next()) else { return false };
        let edges: Vec<u32> = open(task)
            .filter(|&edge| inferred.is_none() || is_inferred(draft.edges[edge as usize].dependency.kind))
            .collect();
        sorter.dropped.resize(draft.edges.len(), false);
        for edge in edges {
            sorter.dropped[edge as usize] = true;
            sorter.release(task);
        }
        true
    }
}

fn is_inferred(kind: DependencyKind) -> bool {
    use DependencyKind::{Contention, EventWait, HandOver, HiddenWait, LateStart, LaunchQueue};
    matches!(kind, LaunchQueue | EventWait | LateStart | Contention | HandOver | HiddenWait)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{LaneId, TaskKind};
    use crate::units::{Bytes, TimeNs};

    #[test]
    fn inferred_edges_that_the_recording_contradicts_are_left_out() {
        let task = |start: i64| Task {
            kind: TaskKind::Kernel,
            lane: LaneId(0),
            name: NameId(0),
            operator: None,
            event: None,
            measured_start: TimeNs(start),
            measured: DurNs(10),
            duration: DurNs(10),
            bytes: Bytes(0),
        };
        let mut draft = Draft { tasks: vec![task(500_000), task(0), task(450_000)], edges: Vec::new() };
        for (to, kind) in [
            (1, DependencyKind::EventWait),
            (2, DependencyKind::LaunchQueue),
            (1, DependencyKind::Stream),
            (1, DependencyKind::HiddenWait),
        ] {
            draft.edge(0, to, Dependency::on_end(kind, DurNs::ZERO));
        }
        assert_eq!(draft.drop_contradicted(), 2);
        let kept: Vec<DependencyKind> = draft.edges.iter().map(|edge| edge.dependency.kind).collect();
        assert_eq!(kept, [DependencyKind::LaunchQueue, DependencyKind::Stream]);
    }
}

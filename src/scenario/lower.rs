//! Draft → timed graph: patched in place while only durations changed, else built anew in a stable topological order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::visit::EdgeRef;

use crate::graph::timed::NO_TASK;
use crate::graph::{Dependency, DependencyKind, NodeId, TaskId, TimedGraph};
use crate::units::DurNs;

use super::draft::{AddedId, Draft, Node};

/// What lowering gives.
pub(super) struct Lowered {
    pub(super) timed: TimedGraph,
    /// The tasks before this one are those of the base and take as long; `None` where the graph was built anew.
    pub(super) unchanged: Option<TaskId>,
    /// The task of each added one.
    pub(super) added: Vec<TaskId>,
    /// Dependencies left out because they closed a cycle.
    pub(super) cyclic: usize,
}

/// Lowers `draft`.
///
/// # Arguments
/// `durations`: of every traced task, removed ones 0; then of every added one.
pub(super) fn lower(draft: &Draft<'_>, durations: &[DurNs]) -> Lowered {
    let patched = if draft.is_restructured() { None } else { patch(draft, durations) };
    match patched {
        Some((timed, unchanged)) => Lowered { timed, unchanged: Some(unchanged), added: Vec::new(), cyclic: 0 },
        None => rebuild(draft, durations),
    }
}

/// The base's arrays with other durations, and the first task that differs; `None` where a lag has no slot of its own or
/// outgrows it.
fn patch(draft: &Draft<'_>, durations: &[DurNs]) -> Option<(TimedGraph, TaskId)> {
    let base = draft.base();
    let moving = base.moving()?;
    let mut timed = TimedGraph::clone(base.timed());
    let mut first = timed.len() as u32;
    for (node, duration) in durations.iter().enumerate() {
        let row = timed.task_of[node];
        let kept = &mut timed.durations[row as usize];
        if *kept != duration.0 {
            *kept = duration.0;
            first = first.min(row);
        }
    }
    for lag in moving {
        let dependency = &base.graph().tasks[lag.edge];
        let new = i32::try_from(dependency.effective_lag(durations[lag.from.index()]).0).ok()?;
        let kept = &mut timed.lags[lag.row as usize][lag.slot as usize];
        if *kept != new {
            *kept = new;
            first = first.min(lag.row);
        }
    }
    Some((timed, TaskId(first)))
}

/// A dependency between numbered tasks: traced ones first, then added ones.
#[derive(Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    dependency: Dependency,
}

fn rebuild(draft: &Draft<'_>, durations: &[DurNs]) -> Lowered {
    let traced = draft.graph().tasks.node_count();
    let edges = edges(draft, traced);
    let into = Index::by(&edges, durations.len(), |edge| edge.to);
    let (order, dropped) = order(draft, &edges, &into, durations.len());
    let mut timed = TimedGraph { task_of: vec![NO_TASK; traced], ..TimedGraph::default() };
    let mut task_of = vec![NO_TASK; durations.len()];
    let mut predecessors = Vec::new();
    for &number in &order {
        predecessors.clear();
        for &edge in into.of(number).iter().filter(|&&edge| !dropped[edge as usize]) {
            let Edge { from, dependency, .. } = edges[edge as usize];
            let lag = dependency.effective_lag(durations[from as usize]);
            predecessors.push((TaskId(task_of[from as usize]), lag));
        }
        predecessors.sort_unstable();
        let node = if (number as usize) < traced { number } else { u32::MAX };
        task_of[number as usize] = timed.push(node, durations[number as usize], &predecessors).0;
    }
    timed.task_of.copy_from_slice(&task_of[..traced]);
    let added = task_of[traced..].iter().map(|&task| TaskId(task)).collect();
    Lowered { timed, unchanged: None, added, cyclic: dropped.iter().filter(|&&dropped| dropped).count() }
}

fn edges(draft: &Draft<'_>, traced: usize) -> Vec<Edge> {
    let graph = draft.graph();
    let mut edges = Vec::with_capacity(graph.tasks.edge_count() + draft.links.len());
    for edge in graph.tasks.edge_references().filter(|edge| !draft.cut.contains(&edge.id())) {
        let changed = draft.changed_edges.get(&edge.id());
        let dependency = *changed.unwrap_or(edge.weight());
        let passed = if draft.is_removed(edge.target()) { bypassed(dependency) } else { Some(dependency) };
        if let Some(dependency) = passed {
            edges.push(Edge { from: edge.source().index() as u32, to: edge.target().index() as u32, dependency });
        }
    }
    let number = |node: Node| match node {
        Node::Traced(node) => node.index() as u32,
        Node::Added(id) => traced as u32 + id.0,
    };
    for link in draft.links.iter().filter(|link| !link.is_cut) {
        let gone = match link.to {
            Node::Traced(node) => draft.is_removed(node),
            Node::Added(id) => draft.dropped[id.0 as usize],
        };
        let dependency = if gone { bypassed(link.dependency) } else { Some(link.dependency) };
        if let Some(dependency) = dependency {
            edges.push(Edge { from: number(link.from), to: number(link.to), dependency });
        }
    }
    edges
}

/// A dependency into a task that was taken out: order on its lane remains, without a gap; what only held back the
/// task itself goes.
fn bypassed(dependency: Dependency) -> Option<Dependency> {
    use DependencyKind::{Anchor, Contention, LateStart, Launch, LaunchQueue, RankStart};
    match dependency.kind {
        Launch | LaunchQueue | Contention | LateStart | Anchor | RankStart => None,
        DependencyKind::Stream => Some(Dependency::on_end(dependency.kind, DurNs::ZERO)),
        _ => Some(dependency),
    }
}

/// Edge numbers by one of their ends, in a flat array.
struct Index {
    starts: Vec<u32>,
    edges: Vec<u32>,
}

impl Index {
    fn by(edges: &[Edge], tasks: usize, end: impl Fn(&Edge) -> u32) -> Self {
        let mut starts = vec![0u32; tasks + 1];
        for edge in edges {
            starts[end(edge) as usize + 1] += 1;
        }
        for task in 0..tasks {
            starts[task + 1] += starts[task];
        }
        let mut next = starts.clone();
        let mut list = vec![0u32; edges.len()];
        for (number, edge) in edges.iter().enumerate() {
            let place = &mut next[end(edge) as usize];
            list[*place as usize] = number as u32;
            *place += 1;
        }
        Self { starts, edges: list }
    }

    fn of(&self, task: u32) -> &[u32] {
        &self.edges[self.starts[task as usize] as usize..self.starts[task as usize + 1] as usize]
    }
}

/// A topological order that keeps the base's where it can, and which edges had to be dropped for it.
fn order(draft: &Draft<'_>, edges: &[Edge], into: &Index, tasks: usize) -> (Vec<u32>, Vec<bool>) {
    let traced = draft.graph().tasks.node_count();
    let none = vec![false; edges.len()];
    if tasks == traced && edges.iter().all(|edge| edge.from < edge.to) {
        return ((0..tasks as u32).collect(), none);
    }
    // An added task stands right after the traced one beside which it is listed.
    let key = |task: u32| match (task as usize).checked_sub(traced) {
        None => (task, 0),
        Some(added) => (draft.added[added].after.index() as u32, task),
    };
    let out_of = Index::by(edges, tasks, |edge| edge.from);
    let mut sorter = Sorter {
        edges,
        into,
        out_of: &out_of,
        missing: (0..tasks as u32).map(|task| into.of(task).len() as u32).collect(),
        done: vec![false; tasks],
        dropped: none,
        ready: BinaryHeap::new(),
    };
    let mut by_key: Vec<u32> = (0..tasks as u32).collect();
    by_key.sort_unstable_by_key(|&task| key(task));
    let mut rank = vec![0u32; tasks];
    for (place, &task) in by_key.iter().enumerate() {
        rank[task as usize] = place as u32;
    }
    (sorter.run(&by_key, &rank), sorter.dropped)
}

/// Kahn's algorithm, the task that comes first in the preferred order first.
struct Sorter<'a> {
    edges: &'a [Edge],
    into: &'a Index,
    out_of: &'a Index,
    missing: Vec<u32>,
    done: Vec<bool>,
    dropped: Vec<bool>,
    ready: BinaryHeap<Reverse<u32>>,
}

impl Sorter<'_> {
    /// # Arguments
    /// `by_key`: tasks in the preferred order; `rank`: each task's place in it.
    fn run(&mut self, by_key: &[u32], rank: &[u32]) -> Vec<u32> {
        let mut order = Vec::with_capacity(by_key.len());
        for &task in by_key.iter().filter(|&&task| self.missing[task as usize] == 0) {
            self.ready.push(Reverse(rank[task as usize]));
        }
        let mut waiting = by_key.iter();
        loop {
            while let Some(Reverse(place)) = self.ready.pop() {
                let task = by_key[place as usize];
                self.done[task as usize] = true;
                order.push(task);
                self.release(task, rank);
            }
            let Some(&stuck) = waiting.find(|&&task| !self.done[task as usize]) else { return order };
            self.force(stuck);
            self.ready.push(Reverse(rank[stuck as usize]));
        }
    }

    fn release(&mut self, task: u32, rank: &[u32]) {
        let out_of = self.out_of;
        for &edge in out_of.of(task).iter().filter(|&&edge| !self.dropped[edge as usize]) {
            let to = self.edges[edge as usize].to;
            self.missing[to as usize] -= 1;
            if self.missing[to as usize] == 0 && !self.done[to as usize] {
                self.ready.push(Reverse(rank[to as usize]));
            }
        }
    }

    /// Drops the edges that keep `task` waiting: they close a cycle.
    fn force(&mut self, task: u32) {
        for &edge in self.into.of(task) {
            if !self.done[self.edges[edge as usize].from as usize] {
                self.dropped[edge as usize] = true;
            }
        }
        self.missing[task as usize] = 0;
    }
}

/// Durations of all tasks of a draft, and the predictions of those that changed.
pub(super) fn durations(draft: &Draft<'_>) -> (Vec<DurNs>, Vec<(NodeId, crate::cost::Prediction)>) {
    let graph = draft.graph();
    let mut durations: Vec<DurNs> = graph.tasks.node_weights().map(|task| task.duration).collect();
    let mut changes = Vec::new();
    if draft.has_touched() {
        draft.foresee();
        for node in graph.tasks.node_indices().filter(|&node| draft.is_touched(node) && !draft.is_removed(node)) {
            let prediction = draft.price(node);
            let measured = crate::cost::Prediction::measured(graph.tasks[node].duration);
            if prediction != measured {
                durations[node.index()] = prediction.duration;
                changes.push((node, prediction));
            }
        }
    }
    for node in graph.tasks.node_indices().filter(|&node| draft.is_removed(node)) {
        durations[node.index()] = DurNs::ZERO;
    }
    let added = (0..draft.added.len() as u32).map(|id| draft.price_of(Node::Added(AddedId(id))).duration);
    durations.extend(added.zip(&draft.dropped).map(|(duration, &gone)| if gone { DurNs::ZERO } else { duration }));
    (durations, changes)
}

//! Tasks whose dependencies are not the base's, with those they have.

use std::ops::Range;

use crate::graph::{Dependency, DependencyKind};
use crate::scenario::draft::{Draft, Node};
use crate::units::DurNs;

use super::durations::Durations;

/// What a task waits for: the number of another, traced ones first, then added ones.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) lag: DurNs,
}

/// Tasks whose dependencies may differ from the base's, with those they have; all added tasks are among them.
pub(super) struct Changed {
    /// By number, in order.
    tasks: Vec<u32>,
    /// Where the edges into each begin, then where the last end.
    starts: Vec<u32>,
    pub(super) edges: Vec<Edge>,
}

impl Changed {
    pub(super) fn of(draft: &Draft<'_>, durations: &Durations<'_>) -> Self {
        let tasks = tasks(draft, durations);
        let mut starts = Vec::with_capacity(tasks.len() + 1);
        let mut edges = Vec::with_capacity(2 * tasks.len());
        starts.push(0);
        for &task in &tasks {
            collect(draft, durations, task, &mut edges);
            starts.push(edges.len() as u32);
        }
        Self { tasks, starts, edges }
    }

    /// The tasks, in order, with the edges into each.
    pub(super) fn groups(&self) -> impl Iterator<Item = (u32, &[Edge])> {
        (0..).zip(&self.tasks).map(|(place, &task)| (task, &self.edges[self.of_place(place)]))
    }

    /// The places of the edges into the task at `place`.
    pub(super) fn of_place(&self, place: usize) -> Range<usize> {
        self.starts[place] as usize..self.starts[place + 1] as usize
    }

    /// By task, of which there are `count`, one more than its place; 0 for one that is as it was.
    pub(super) fn places(&self, count: usize) -> Vec<u32> {
        let mut places = vec![0; count];
        for (place, &task) in (1..).zip(&self.tasks) {
            places[task as usize] = place;
        }
        places
    }
}

/// The numbers of tasks whose dependencies may differ from the base's, in order.
fn tasks(draft: &Draft<'_>, durations: &Durations<'_>) -> Vec<u32> {
    let (base, graph) = (draft.base(), draft.graph());
    let traced = graph.tasks.node_count();
    let mut is_changed = vec![false; traced];
    let target = |edge| Some(graph.tasks.edge_endpoints(edge)?.1);
    let of_edges = draft.structure.cut.iter().chain(draft.structure.changed_edges.keys().copied()).filter_map(target);
    let longer = base.moving().iter().filter(|moving| {
        let (old, new) = (base.duration(moving.from), durations.task(moving.from.index() as u32));
        old != new && graph.tasks[moving.edge].effective_lag(old) != graph.tasks[moving.edge].effective_lag(new)
    });
    let of_lags = longer.map(|moving| moving.to);
    of_edges.chain(of_lags).chain(draft.removed()).for_each(|node| is_changed[node.index()] = true);
    for link in draft.structure.links.iter() {
        if let Node::Traced(node) = link.to {
            is_changed[node.index()] = true;
        }
    }
    let added = (0..draft.structure.added.len()).map(|id| (traced + id) as u32);
    (0..).zip(is_changed).filter(|(_, changed)| *changed).map(|(task, _)| task).chain(added).collect()
}

/// Appends the dependencies into a numbered task.
fn collect(draft: &Draft<'_>, durations: &Durations<'_>, task: u32, edges: &mut Vec<Edge>) {
    let traced = draft.graph().tasks.node_count();
    let node = Node::of_number(task, traced);
    let is_gone = draft.is_gone(node);
    let into = draft.edges_into(node).map(|edge| (edge.from.number(traced), edge.dependency));
    let into = into.filter_map(|(from, of)| Some((from, in_force(of, is_gone)?)));
    edges.extend(into.map(|(from, of)| Edge { from, lag: of.effective_lag(durations.task(from)) }));
}

/// What a dependency holds back. Into a task that was taken out, order on its lane and what it waited for on others remain, without a
/// gap; what only held back the task itself goes.
fn in_force(dependency: Dependency, is_gone: bool) -> Option<Dependency> {
    use DependencyKind::{Anchor, Contention, LateStart, Launch, LaunchQueue, RankStart, Stream};
    match dependency.kind {
        _ if !is_gone => Some(dependency),
        Launch | LaunchQueue | Contention | Anchor | RankStart => None,
        Stream | LateStart => Some(Dependency::on_end(dependency.kind, DurNs::ZERO)),
        _ => Some(dependency),
    }
}

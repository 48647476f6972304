//! Tasks whose dependencies are not the base's, with those they have.

use petgraph::Direction::Incoming;
use petgraph::visit::EdgeRef;

use crate::graph::{Dependency, DependencyKind, NodeId};
use crate::scenario::draft::Draft;
use crate::units::DurNs;

/// A dependency on a numbered task: traced ones first, then added ones.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) lag: DurNs,
}

/// Tasks whose dependencies are not the base's, with those they have.
pub(super) struct Changed {
    /// By task, one more than its place in `starts`; 0 for one that is as it was.
    place: Vec<u32>,
    starts: Vec<u32>,
    pub(super) edges: Vec<Edge>,
    /// Edges left out because they closed a cycle.
    pub(super) dropped: Vec<bool>,
}

impl Changed {
    pub(super) fn of(draft: &Draft<'_>, durations: &[DurNs]) -> Self {
        let mut place = places(draft, durations);
        let mut count = 0;
        for place in place.iter_mut().filter(|place| **place > 0) {
            count += 1;
            *place = count;
        }
        let mut edges = edges(draft, durations, &place);
        let mut starts = vec![0_u32; count as usize + 1];
        for edge in &edges {
            starts[place[edge.to as usize] as usize] += 1;
        }
        for at in 0..count as usize {
            starts[at + 1] += starts[at];
        }
        put_in_place(&mut edges, &starts, |edge| place[edge.to as usize] as usize - 1);
        let dropped = vec![false; edges.len()];
        Self { place, starts, edges, dropped }
    }

    /// Whether the dependencies of a task may differ from the base's.
    pub(super) fn contains(&self, task: u32) -> bool {
        self.place[task as usize] > 0
    }

    /// The places of the edges into a task; `None` for one that is as it was.
    pub(super) fn of_task(&self, task: u32) -> Option<std::ops::Range<usize>> {
        let place = (self.place[task as usize] as usize).checked_sub(1)?;
        Some(self.starts[place] as usize..self.starts[place + 1] as usize)
    }
}

/// By task, 1 where its dependencies may differ from the base's.
fn places(draft: &Draft<'_>, durations: &[DurNs]) -> Vec<u32> {
    let (base, graph) = (draft.base(), draft.graph());
    let traced = graph.tasks.node_count();
    let mut place = vec![0_u32; durations.len()];
    place[traced..].fill(1);
    let target = |edge| Some(graph.tasks.edge_endpoints(edge)?.1);
    let of_edges = draft.cut.iter().chain(draft.changed_edges.keys().copied()).filter_map(target);
    let longer = base.moving().iter().filter(|moving| {
        let (old, new) = (base.duration(moving.from), durations[moving.from.index()]);
        old != new && graph.tasks[moving.edge].effective_lag(old) != graph.tasks[moving.edge].effective_lag(new)
    });
    let of_lags = longer.map(|moving| moving.to);
    of_edges.chain(of_lags).chain(draft.removed()).for_each(|node| place[node.index()] = 1);
    draft.links.iter().for_each(|link| place[link.to.number(traced) as usize] = 1);
    place
}

/// Brings `edges` in order of their group, whose ends `starts` tells; edges of one group keep theirs.
fn put_in_place(edges: &mut Vec<Edge>, starts: &[u32], group: impl Fn(&Edge) -> usize) {
    let mut next = starts.to_vec();
    let mut placed = vec![Edge { from: 0, to: 0, lag: DurNs::ZERO }; edges.len()];
    for edge in edges.iter() {
        let next = &mut next[group(edge)];
        placed[*next as usize] = *edge;
        *next += 1;
    }
    *edges = placed;
}

/// The dependencies into tasks that have a `place`.
fn edges(draft: &Draft<'_>, durations: &[DurNs], place: &[u32]) -> Vec<Edge> {
    let graph = draft.graph();
    let traced = graph.tasks.node_count();
    let mut edges = Vec::with_capacity(draft.links.len());
    let mut push = |from: u32, to: u32, dependency: Dependency, gone: bool| {
        if let Some(dependency) = if gone { bypassed(dependency) } else { Some(dependency) } {
            edges.push(Edge { from, to, lag: dependency.effective_lag(durations[from as usize]) });
        }
    };
    for node in (0..traced).filter(|&node| place[node] > 0).map(NodeId::new) {
        for edge in graph.tasks.edges_directed(node, Incoming).filter(|edge| !draft.cut.contains(edge.id())) {
            let dependency = *draft.changed_edges.get(&edge.id()).unwrap_or(edge.weight());
            push(edge.source().index() as u32, node.index() as u32, dependency, draft.is_removed(node));
        }
    }
    for link in draft.links.iter() {
        push(link.from.number(traced), link.to.number(traced), link.dependency, draft.is_gone(link.to));
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

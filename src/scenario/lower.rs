//! Draft → timed graph: patched in place while only durations changed, else copied with the rows that changed written anew.

use petgraph::Direction::Incoming;
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

/// The rows of tasks whose dependencies stay are copied; all others are written anew. Tasks keep the base's order but where one
/// has to wait for a later one, which then comes before it.
///
/// # Complexity
/// O(rows), and O(dependencies) of what is written anew.
fn rebuild(draft: &Draft<'_>, durations: &[DurNs]) -> Lowered {
    let changed = Changed::of(draft, durations);
    let traced = draft.graph().tasks.node_count();
    let mut writer = Writer {
        base: draft.base().timed(),
        durations,
        changed,
        row: vec![NO_TASK; draft.base().timed().len()],
        task_of: vec![NO_TASK; durations.len()],
        timed: TimedGraph::with_capacity(draft.base().timed().len() + draft.added.len(), traced),
        waiting: Vec::new(),
        is_waiting: vec![false; durations.len()],
        predecessors: Vec::new(),
        cyclic: 0,
    };
    let mut added: Vec<u32> = (0..draft.added.len() as u32).collect();
    added.sort_by_key(|&id| draft.added[id as usize].after);
    let mut added = added.into_iter().peekable();
    for node in 0..traced as u32 {
        writer.write(node, draft);
        // An added task stands right after the traced one beside which it is listed.
        while let Some(id) = added.next_if(|&id| draft.added[id as usize].after.index() as u32 <= node) {
            writer.write(traced as u32 + id, draft);
        }
    }
    for id in added {
        writer.write(traced as u32 + id, draft);
    }
    let Writer { mut timed, task_of, cyclic, .. } = writer;
    timed.task_of.copy_from_slice(&task_of[..traced]);
    let added = task_of[traced..].iter().map(|&task| TaskId(task)).collect();
    Lowered { timed, unchanged: None, added, cyclic }
}

/// A dependency on a numbered task: traced ones first, then added ones.
#[derive(Clone, Copy)]
struct Edge {
    from: u32,
    to: u32,
    lag: DurNs,
}

/// Tasks whose dependencies are not the base's, with those they have.
struct Changed {
    /// By task, one more than its place in `starts`; 0 for one that is as it was.
    place: Vec<u32>,
    starts: Vec<u32>,
    edges: Vec<Edge>,
    /// Edges left out because they closed a cycle.
    dropped: Vec<bool>,
}

impl Changed {
    fn of(draft: &Draft<'_>, durations: &[DurNs]) -> Self {
        let graph = draft.graph();
        let traced = graph.tasks.node_count();
        let mut place = vec![0_u32; durations.len()];
        place[traced..].fill(1);
        let ends = |edge| graph.tasks.edge_endpoints(edge);
        let of_edges = draft.cut.iter().chain(draft.changed_edges.keys()).filter_map(|&edge| Some(ends(edge)?.1));
        let of_links = draft.links.iter().filter(|link| !link.is_cut).map(|link| number(link.to, traced) as usize);
        let lags = draft.base().moving_edges().filter_map(|edge| {
            let (from, to) = ends(edge)?;
            let lag = |duration| graph.tasks[edge].effective_lag(duration);
            (lag(durations[from.index()]) != lag(graph.tasks[from].duration)).then_some(to)
        });
        of_edges.chain(lags).map(NodeId::index).chain(of_links).for_each(|node| place[node] = 1);
        let gone = (0..traced).filter(|&node| draft.is_removed(NodeId::new(node)));
        gone.for_each(|node| place[node] = 1);
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

    /// The places of the edges into a task; `None` for one that is as it was.
    fn of_task(&self, task: u32) -> Option<std::ops::Range<usize>> {
        let place = (self.place[task as usize] as usize).checked_sub(1)?;
        Some(self.starts[place] as usize..self.starts[place + 1] as usize)
    }
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

fn number(node: Node, traced: usize) -> u32 {
    match node {
        Node::Traced(node) => node.index() as u32,
        Node::Added(AddedId(id)) => traced as u32 + id,
    }
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
        for edge in graph.tasks.edges_directed(node, Incoming).filter(|edge| !draft.cut.contains(&edge.id())) {
            let dependency = *draft.changed_edges.get(&edge.id()).unwrap_or(edge.weight());
            push(edge.source().index() as u32, node.index() as u32, dependency, draft.is_removed(node));
        }
    }
    for link in draft.links.iter().filter(|link| !link.is_cut) {
        push(number(link.from, traced), number(link.to, traced), link.dependency, draft.is_gone(link.to));
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

/// Writes tasks, each after what it waits for.
struct Writer<'a> {
    base: &'a TimedGraph,
    durations: &'a [DurNs],
    changed: Changed,
    /// By row of the base, the row it became.
    row: Vec<u32>,
    /// By task, its row.
    task_of: Vec<u32>,
    timed: TimedGraph,
    /// Tasks that wait for the one after them.
    waiting: Vec<u32>,
    is_waiting: Vec<bool>,
    predecessors: Vec<(TaskId, DurNs)>,
    cyclic: usize,
}

impl Writer<'_> {
    /// Writes `task` unless it is written, and before it what it waits for.
    fn write(&mut self, task: u32, draft: &Draft<'_>) {
        if self.task_of[task as usize] != NO_TASK {
            return;
        }
        self.wait(task);
        while let Some(&task) = self.waiting.last() {
            match self.missing(task) {
                None => {
                    self.leave(self.waiting.len() - 1);
                    self.put(task);
                }
                Some(missing) if self.is_waiting[missing as usize] => self.break_cycle(missing, draft),
                Some(missing) => self.wait(missing),
            }
        }
    }

    fn wait(&mut self, task: u32) {
        self.is_waiting[task as usize] = true;
        self.waiting.push(task);
    }

    /// Lets all but the first `left` of those waiting wait no longer.
    fn leave(&mut self, left: usize) {
        for task in self.waiting.drain(left..) {
            self.is_waiting[task as usize] = false;
        }
    }

    /// The first task that `task` waits for and that is not written.
    fn missing(&self, task: u32) -> Option<u32> {
        if let Some(mut range) = self.changed.of_task(task) {
            let is_missing = |edge: usize| !self.changed.dropped[edge] && self.task_of[self.from(edge)] == NO_TASK;
            return range.find(|&edge| is_missing(edge)).map(|edge| self.changed.edges[edge].from);
        }
        let rows = self.rows(task);
        let first = *rows.start();
        for row in rows {
            for &before in self.base.predecessors[row as usize].iter().take_while(|&&before| before != NO_TASK) {
                // Joints of the task itself are written with it, those of others with them.
                if before < first && self.row[before as usize] == NO_TASK {
                    let node = self.base.node_of[before as usize];
                    return Some(if node == u32::MAX { self.owner(before) } else { node });
                }
            }
        }
        None
    }

    fn from(&self, edge: usize) -> usize {
        self.changed.edges[edge].from as usize
    }

    /// The rows of the base that stand for a traced task: its own, and the joints before it.
    fn rows(&self, task: u32) -> std::ops::RangeInclusive<u32> {
        let last = self.base.task_of[task as usize];
        let mut first = last;
        while first > 0 && self.base.node_of[first as usize - 1] == u32::MAX {
            first -= 1;
        }
        first..=last
    }

    /// The task before which a joint stands.
    fn owner(&self, joint: u32) -> u32 {
        let after = self.base.node_of[joint as usize..].iter().find(|&&node| node != u32::MAX);
        after.copied().unwrap_or(0)
    }

    /// Of tasks that wait for one another, from `closing` on, the first in the base's order waits no longer.
    fn break_cycle(&mut self, closing: u32, draft: &Draft<'_>) {
        let from = self.waiting.iter().position(|&waiting| waiting == closing).unwrap_or(0);
        let traced = self.base.task_of.len();
        let key = |task: u32| match (task as usize).checked_sub(traced) {
            None => (task, 0),
            Some(added) => (draft.added[added].after.index() as u32, task),
        };
        let cycle = &self.waiting[from..];
        let edge_into = |at: usize| {
            let next = cycle[(at + 1) % cycle.len()];
            let mut range = self.changed.of_task(cycle[at])?;
            range.find(|&edge| self.changed.edges[edge].from == next && !self.changed.dropped[edge])
        };
        let first = (0..cycle.len()).filter(|&at| edge_into(at).is_some()).min_by_key(|&at| key(cycle[at]));
        let Some((at, edge)) = first.and_then(|at| Some((at, edge_into(at)?))) else {
            // Traced dependencies alone close no cycle.
            self.leave(from);
            return;
        };
        self.changed.dropped[edge] = true;
        self.cyclic += 1;
        self.leave(from + at + 1);
    }

    fn put(&mut self, task: u32) {
        let duration = self.durations[task as usize];
        let node = if (task as usize) < self.base.task_of.len() { task } else { u32::MAX };
        let Some(range) = self.changed.of_task(task) else { return self.copy(task, duration) };
        let mut predecessors = std::mem::take(&mut self.predecessors);
        predecessors.clear();
        for edge in range.filter(|&edge| !self.changed.dropped[edge]) {
            predecessors.push((TaskId(self.task_of[self.from(edge)]), self.changed.edges[edge].lag));
        }
        predecessors.sort_unstable();
        self.task_of[task as usize] = self.timed.push(node, duration, &predecessors).0;
        self.predecessors = predecessors;
        if node != u32::MAX {
            self.row[self.base.task_of[task as usize] as usize] = self.task_of[task as usize];
        }
    }

    /// Copies the rows of a task whose dependencies stay.
    fn copy(&mut self, task: u32, duration: DurNs) {
        for row in self.rows(task) {
            let slots = self.base.predecessors[row as usize];
            let moved = slots.map(|before| self.row.get(before as usize).copied().unwrap_or(NO_TASK));
            let node = self.base.node_of[row as usize];
            let time = if node == task { duration.0 } else { self.base.durations[row as usize] };
            self.row[row as usize] = self.timed.push_row(node, time, moved, self.base.lags[row as usize]).0;
        }
        self.task_of[task as usize] = self.row[self.base.task_of[task as usize] as usize];
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

//! Timed graph → the chosen step closed into a loop: what it waits for of the step before, it waits for of its own last copy.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::graph::timed::NO_TASK;
use crate::graph::{Copies, CopyStep, LaneId, LaneKind, NodeId, TaskId, TaskKind, TimedGraph};
use crate::scenario::draft::{AddedId, Draft, Node};
use crate::sim::{CarriedEnd, Cycle};
use crate::units::DurNs;

/// The cycle of `timed`, to which `draft` was lowered.
///
/// Of all rows those of the chosen step on which its end depends are kept. An edge from the step before comes from the task
/// that is as far from the end of its lane, one copy back. A lane that follows nothing of the step before follows its own end.
/// Edges from later steps, and measured times that were kept, are left out.
///
/// # Arguments
/// `added`: the row of each added task.
///
/// # Complexity
/// O(rows).
pub(super) fn cycle(draft: &Draft<'_>, timed: &TimedGraph, added: &[TaskId]) -> Cycle {
    let rows = Rows::of(draft, timed, added);
    let reached = rows.reached();
    rows.compact(&reached)
}

/// `cycle` of rows that take other times in `timed`, and wait for the same.
pub(super) fn taking(cycle: &Cycle, timed: &TimedGraph) -> Cycle {
    let row = |(row, &old): (&u32, &i64)| timed.durations.get(*row as usize).copied().unwrap_or(old);
    let durations: Vec<i64> = cycle.graph.node_of.iter().zip(&cycle.graph.durations).map(row).collect();
    Cycle {
        graph: cycle.graph.taking(&durations),
        carried: cycle.carried.clone(),
        goals: cycle.goals.clone(),
        left_out: cycle.left_out.clone(),
    }
}

/// What a row waits for, in one of its slots.
#[derive(Clone, Copy)]
enum Before {
    /// Another row of its copy.
    Own(u32),
    /// A row of the copy before.
    Earlier(u32),
    /// Nothing that repeats.
    Dropped,
}

/// A lane's first row in the chosen step, and its last in the step before and the chosen one.
#[derive(Clone, Copy)]
struct LaneEnds {
    first: u32,
    last: [u32; 2],
}

struct Rows<'a, 'b> {
    draft: &'a Draft<'b>,
    copies: &'b Copies,
    timed: &'a TimedGraph,
    added: &'a [TaskId],
    /// By row one more than the number of the added task in it; empty where none was added.
    added_in: Vec<u32>,
    lanes: Vec<LaneEnds>,
    /// Added tasks by the traced one beside which they are, and their lane, in order.
    beside: FxHashMap<(NodeId, LaneId), Vec<u32>>,
}

impl<'a, 'b> Rows<'a, 'b> {
    fn of(draft: &'a Draft<'b>, timed: &'a TimedGraph, added: &'a [TaskId]) -> Self {
        let mut added_in = vec![0; if added.is_empty() { 0 } else { timed.len() }];
        let mut beside: FxHashMap<(NodeId, LaneId), Vec<u32>> = FxHashMap::default();
        for (id, row) in (0..).zip(added) {
            added_in[row.0 as usize] = id + 1;
            let node = Node::Added(AddedId(id));
            beside.entry((draft.beside(node), draft.lane_of(node))).or_default().push(id);
        }
        let copies = draft.base().copies();
        let mut rows = Self { draft, copies, timed, added, added_in, lanes: Vec::new(), beside };
        rows.lanes = rows.lane_ends();
        rows
    }

    fn lane_ends(&self) -> Vec<LaneEnds> {
        let (graph, draft) = (self.draft.graph(), self.draft);
        let none = LaneEnds { first: NO_TASK, last: [NO_TASK; 2] };
        let mut lanes = vec![none; graph.lanes.len() + draft.structure.lanes.len()];
        let traced = graph.tasks.node_indices().map(|node| (Node::Traced(node), self.timed.task_of[node.index()]));
        let added = (0..).zip(self.added).map(|(id, row)| (Node::Added(AddedId(id)), row.0));
        for (node, row) in traced.chain(added) {
            let lane = &mut lanes[draft.lane_of(node).0 as usize];
            let which = match self.copies.step(draft.beside(node)) {
                CopyStep::Before => 0,
                CopyStep::Chosen => 1,
                CopyStep::After | CopyStep::Origin => continue,
            };
            if which == 1 && (lane.first == NO_TASK || row < lane.first) {
                lane.first = row;
            }
            if lane.last[which] == NO_TASK || row > lane.last[which] {
                lane.last[which] = row;
            }
        }
        lanes
    }

    /// The task in a row; `None` for a joint that lowering added.
    fn node(&self, row: u32) -> Option<Node> {
        let traced = self.timed.node_of[row as usize];
        if traced != u32::MAX {
            return Some(Node::Traced(NodeId::from(traced)));
        }
        let id = self.added_in.get(row as usize)?.checked_sub(1)?;
        Some(Node::Added(AddedId(id)))
    }

    fn before(&self, row: u32) -> Before {
        // A joint is of the row that waits for it.
        let Some(node) = self.node(row) else { return Before::Own(row) };
        match self.copies.step(self.draft.beside(node)) {
            CopyStep::Chosen => Before::Own(row),
            CopyStep::Before => self.counterpart(node, row).map_or(Before::Dropped, Before::Earlier),
            CopyStep::After | CopyStep::Origin => Before::Dropped,
        }
    }

    /// The row of the chosen step that is what `node` is of the step before.
    fn counterpart(&self, node: Node, row: u32) -> Option<u32> {
        let lane = self.draft.lane_of(node);
        let ends = self.lanes[lane.0 as usize];
        if ends.last[0] == row && ends.last[1] != NO_TASK {
            return Some(ends.last[1]);
        }
        let traced = self.copies.counterpart(self.draft.beside(node));
        if let (Node::Added(id), Some(beside)) = (node, traced) {
            let place = self.beside.get(&(self.draft.beside(node), lane))?.iter().position(|&it| it == id.0)?;
            if let Some(&counterpart) = self.beside.get(&(beside, lane)).and_then(|all| all.get(place)) {
                return Some(self.added[counterpart as usize].0);
            }
        }
        traced.map(|node| self.timed.task_of[node.index()])
    }

    /// What a row waits for of the copy before that no row says, with the lag.
    fn more(&self, row: u32) -> Option<(u32, DurNs)> {
        let node = self.node(row)?;
        let lane = self.draft.lane_of(node);
        let ends = self.lanes[lane.0 as usize];
        let kind = self.draft.lane(lane)?.kind;
        if ends.first == row && kind != LaneKind::Virtual && !self.follows(row, lane) {
            return Some((ends.last[1], self.draft.stream_gap(node)));
        }
        if matches!(kind, LaneKind::Thread { .. }) { self.tied(row, node, lane) } else { None }
    }

    /// Where only the start of the recording holds work of another thread: as long after its step began as measured.
    fn tied(&self, row: u32, node: Node, lane: LaneId) -> Option<(u32, DurNs)> {
        let rank = self.draft.rank_of(lane);
        let main = self.copies.main(rank).filter(|&main| main != lane)?;
        let is_held = self.waits(row).any(|before| !matches!(self.before(before), Before::Dropped));
        let graph = self.draft.graph();
        let start = graph.tasks[self.draft.beside(node)].measured_start;
        let last = self.lanes[main.0 as usize].last[1];
        (!is_held && last != NO_TASK).then(|| (last, start.since(graph.ranks[rank].iteration_start)))
    }

    /// What a row's task waits for, through the joints before it.
    fn waits(&self, row: u32) -> impl Iterator<Item = u32> {
        let mut first = row;
        while first > 0 && self.node(first - 1).is_none() {
            first -= 1;
        }
        let own: Range<u32> = first..row;
        let slots = (first..=row).flat_map(move |row| self.timed.predecessors[row as usize]);
        slots.filter(move |before| *before != NO_TASK && !own.contains(before))
    }

    /// Whether a row waits for work of the step before on its lane.
    fn follows(&self, row: u32, lane: LaneId) -> bool {
        let is_earlier = |node: Node| self.copies.step(self.draft.beside(node)) == CopyStep::Before;
        self.waits(row).filter_map(|before| self.node(before)).any(|node| {
            is_earlier(node) && self.draft.lane_of(node) == lane && self.draft.kind_of(node) != TaskKind::StepEnd
        })
    }

    fn goals(&self) -> impl Iterator<Item = u32> {
        self.draft.graph().ranks.iter().map(|part| self.timed.task(part.end).0)
    }

    /// By row whether the end of the step depends on it, through earlier copies or not.
    fn reached(&self) -> Vec<bool> {
        let mut reached = vec![false; self.timed.len()];
        let mut waiting: Vec<u32> = self.goals().collect();
        while let Some(row) = waiting.pop() {
            if std::mem::replace(&mut reached[row as usize], true) {
                continue;
            }
            waiting.extend(self.more(row).map(|(before, _)| before));
            let slots = self.timed.predecessors[row as usize].into_iter().take_while(|&before| before != NO_TASK);
            waiting.extend(slots.filter_map(|before| match self.before(before) {
                Before::Own(before) | Before::Earlier(before) => Some(before),
                Before::Dropped => None,
            }));
        }
        reached
    }

    /// The rows that were reached, behind those that stand for earlier copies.
    fn compact(&self, reached: &[bool]) -> Cycle {
        let rows = || (0..).zip(reached).filter(|(_, reached)| **reached).map(|(row, _)| row);
        let mut carried = Carried::default();
        for row in rows() {
            for &before in self.timed.predecessors[row as usize].iter().take_while(|&&before| before != NO_TASK) {
                if let Before::Earlier(source) = self.before(before) {
                    carried.number(source);
                }
            }
            if let Some((source, _)) = self.more(row) {
                carried.number(source);
            }
        }
        let mut graph = TimedGraph::with_capacity(carried.sources.len() + rows().count(), 0);
        for _ in &carried.sources {
            graph.push_row(u32::MAX, 0, [NO_TASK; 3], [0; 3]);
        }
        let mut place = vec![NO_TASK; reached.len()];
        let mut left_out = Vec::new();
        let mut waits: Vec<(TaskId, DurNs)> = Vec::new();
        for row in rows() {
            let (slots, lags) = (self.timed.predecessors[row as usize], self.timed.lags[row as usize]);
            waits.clear();
            for (slot, (before, lag)) in
                (0..).zip(slots.into_iter().zip(lags)).filter(|(_, (before, _))| *before != NO_TASK)
            {
                let task = match self.before(before) {
                    Before::Own(before) => place[before as usize],
                    Before::Earlier(source) => carried.number(source),
                    Before::Dropped => {
                        left_out.push((row, slot));
                        continue;
                    }
                };
                waits.push((TaskId(task), DurNs(i64::from(lag))));
            }
            waits.extend(self.more(row).map(|(source, lag)| (TaskId(carried.number(source)), lag)));
            place[row as usize] = graph.push(row, DurNs(self.timed.durations[row as usize]), &waits).0;
        }
        let goals = self.goals().map(|row| TaskId(place[row as usize])).collect();
        let end = |&source: &u32| CarriedEnd { source: TaskId(place[source as usize]), copies_back: 1 };
        Cycle { carried: carried.sources.iter().map(end).collect(), graph, goals, left_out }
    }
}

/// Rows of the copy before that others wait for, numbered.
#[derive(Default)]
struct Carried {
    sources: Vec<u32>,
    number: FxHashMap<u32, u32>,
}

impl Carried {
    fn number(&mut self, source: u32) -> u32 {
        *self.number.entry(source).or_insert_with(|| {
            self.sources.push(source);
            self.sources.len() as u32 - 1
        })
    }
}

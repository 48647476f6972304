//! A timed graph anew: rows of tasks whose dependencies stay are copied, all others are written.

use std::ops::Range;
use std::sync::Arc;

use crate::graph::timed::{NO_TASK, joints};
use crate::graph::{TaskId, TimedGraph};
use crate::scenario::draft::{Added, Draft};
use crate::units::DurNs;

use super::changed::Changed;
use super::durations::Durations;
use super::{Lowered, cycle};

/// Tasks keep the base's order but where one has to wait for a later one, which then comes before it; an added task stands
/// right after the traced one beside which it is listed.
///
/// # Complexity
/// O(rows), and O(dependencies) of what is written anew.
pub(super) fn rebuild(draft: &Draft<'_>, changed: Changed, durations: &Durations<'_>) -> Lowered {
    let base = draft.base().timed();
    let traced = base.task_of.len();
    let count = traced + draft.structure.added.len();
    let more: usize = changed.groups().map(|(_, edges)| joints(edges.len()) as usize).sum();
    let mut writer = Writer {
        base,
        durations,
        place: changed.places(count),
        dropped: vec![false; changed.edges.len()],
        changed,
        row: vec![NO_TASK; base.len()],
        task_of: vec![NO_TASK; count],
        timed: TimedGraph::with_capacity(base.len() + draft.structure.added.len() + more, traced),
        waiting: Vec::new(),
        is_waiting: vec![false; count],
        predecessors: Vec::new(),
        cyclic: 0,
    };
    let beside = |(id, added): (u32, &Added)| (added.after.index() as u32, id);
    let mut added: Vec<(u32, u32)> = (0..).zip(&draft.structure.added).map(beside).collect();
    // Edits add tasks in runs that are in order, which this kind of sorting takes as they are.
    added.sort_by_key(|&(after, _)| after);
    let mut from = 0;
    for (after, id) in added {
        let until = (after + 1).clamp(from, traced as u32);
        writer.write_all(from..until, draft);
        from = until;
        writer.write(traced as u32 + id, draft);
    }
    writer.write_all(from..traced as u32, draft);
    let Writer { mut timed, task_of, cyclic, .. } = writer;
    timed.task_of.copy_from_slice(&task_of[..traced]);
    let added: Vec<TaskId> = task_of[traced..].iter().map(|&task| TaskId(task)).collect();
    let cycle = Arc::new(cycle::cycle(draft, &timed, &added));
    Lowered { timed, cycle, unchanged: None, added, cyclic }
}

/// Writes tasks, each after what it waits for.
struct Writer<'a> {
    base: &'a TimedGraph,
    durations: &'a Durations<'a>,
    changed: Changed,
    /// By task one more than its place among those that changed; 0 for one that did not.
    place: Vec<u32>,
    /// Edges left out because they closed a cycle.
    dropped: Vec<bool>,
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
    /// Writes traced tasks in order; all before them are written, so those whose dependencies stay wait for nothing.
    fn write_all(&mut self, tasks: Range<u32>, draft: &Draft<'_>) {
        let mut from = tasks.start;
        while from < tasks.end {
            let stays = |&task: &u32| self.place[task as usize] == 0 && self.task_of[task as usize] == NO_TASK;
            let until = (from..tasks.end).find(|task| !stays(task)).unwrap_or(tasks.end);
            if from < until {
                self.copy(from, until - 1);
            } else {
                self.write(from, draft);
            }
            from = until.max(from + 1);
        }
    }

    /// Writes `task` unless it is written, and before it what it waits for.
    fn write(&mut self, task: u32, draft: &Draft<'_>) {
        if self.task_of[task as usize] != NO_TASK {
            return;
        }
        if self.missing(task).is_none() {
            return self.put(task);
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
        if let Some(mut range) = self.edges_into(task) {
            let is_missing = |edge: usize| !self.dropped[edge] && self.task_of[self.from(edge)] == NO_TASK;
            return range.find(|&edge| is_missing(edge)).map(|edge| self.changed.edges[edge].from);
        }
        let rows = self.base.rows(TaskId(self.base.task_of[task as usize]));
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

    /// The places of the edges into a task; `None` for one that is as it was.
    fn edges_into(&self, task: u32) -> Option<Range<usize>> {
        Some(self.changed.of_place((self.place[task as usize] as usize).checked_sub(1)?))
    }

    fn from(&self, edge: usize) -> usize {
        self.changed.edges[edge].from as usize
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
            Some(added) => (draft.structure.added[added].after.index() as u32, task),
        };
        let cycle = &self.waiting[from..];
        let edge_into = |at: usize| {
            let next = cycle[(at + 1) % cycle.len()];
            let mut range = self.edges_into(cycle[at])?;
            range.find(|&edge| self.changed.edges[edge].from == next && !self.dropped[edge])
        };
        let first = (0..cycle.len()).filter(|&at| edge_into(at).is_some()).min_by_key(|&at| key(cycle[at]));
        let Some((at, edge)) = first.and_then(|at| Some((at, edge_into(at)?))) else {
            // Traced dependencies alone close no cycle.
            self.leave(from);
            return;
        };
        self.dropped[edge] = true;
        self.cyclic += 1;
        self.leave(from + at + 1);
    }

    fn put(&mut self, task: u32) {
        let duration = self.durations.task(task);
        let node = if (task as usize) < self.base.task_of.len() { task } else { u32::MAX };
        let Some(range) = self.edges_into(task) else { return self.copy(task, task) };
        let mut predecessors = std::mem::take(&mut self.predecessors);
        predecessors.clear();
        for edge in range.filter(|&edge| !self.dropped[edge]) {
            predecessors.push((TaskId(self.task_of[self.from(edge)]), self.changed.edges[edge].lag));
        }
        predecessors.sort_unstable();
        self.task_of[task as usize] = self.timed.push(node, duration, &predecessors).0;
        self.predecessors = predecessors;
        if node != u32::MAX {
            self.row[self.base.task_of[task as usize] as usize] = self.task_of[task as usize];
        }
    }

    /// Copies the rows of neighbouring tasks whose dependencies stay, all of which are written.
    fn copy(&mut self, first: u32, last: u32) {
        let base = self.base;
        let own = |task: u32| base.rows(TaskId(base.task_of[task as usize]));
        let rows = *own(first).start() as usize..*own(last).end() as usize + 1;
        let begin = self.timed.len() as u32;
        for (row, new) in rows.clone().zip(begin..) {
            self.row[row] = new;
        }
        let moved = |before: u32| self.row.get(before as usize).copied().unwrap_or(NO_TASK);
        self.timed.predecessors.extend(base.predecessors[rows.clone()].iter().map(|slots| slots.map(moved)));
        self.timed.lags.extend_from_slice(&base.lags[rows.clone()]);
        self.timed.durations.extend_from_slice(&self.durations.rows[rows.clone()]);
        self.timed.node_of.extend_from_slice(&base.node_of[rows]);
        for task in first..=last {
            self.task_of[task as usize] = self.row[base.task_of[task as usize] as usize];
        }
    }
}

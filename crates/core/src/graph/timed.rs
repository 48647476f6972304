//! The timed graph: flat arrays in topological order, all that the simulator sees.
//!
//! Three predecessor slots per task; a task that needs more gets zero-duration joints before it.

use std::ops::RangeInclusive;

use petgraph::graph::Edge;

use crate::units::DurNs;

use super::{Dependency, ExecutionGraph, NodeId};

/// A row of a [`TimedGraph`], in topological order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// Marks an unused predecessor slot.
pub const NO_TASK: u32 = u32::MAX;

/// Flat arrays in topological order: predecessors and lags by slot, durations, and the way back to the graph.
#[derive(Clone, Debug, Default)]
pub struct TimedGraph {
    /// Up to three predecessors per task, each smaller than the task's own index; unused slots come last and hold [`NO_TASK`].
    pub predecessors: Vec<[u32; 3]>,
    /// Lag in ns of each slot, from the predecessor's end.
    pub lags: Vec<[i32; 3]>,
    /// Duration in ns.
    pub durations: Vec<i64>,
    /// The graph node a task stands for; `u32::MAX` for a joint that lowering added.
    pub node_of: Vec<u32>,
    /// The task that stands for a graph node.
    pub task_of: Vec<u32>,
}

impl TimedGraph {
    /// How many tasks there are, joints included.
    pub fn len(&self) -> usize {
        self.durations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.durations.is_empty()
    }

    /// The same tasks with other durations, one per row. Columns are copied on two cores.
    #[must_use]
    pub fn taking(&self, durations: &[i64]) -> Self {
        let ((predecessors, durations), (lags, node_of, task_of)) = rayon::join(
            || (self.predecessors.clone(), durations.to_vec()),
            || (self.lags.clone(), self.node_of.clone(), self.task_of.clone()),
        );
        Self { predecessors, lags, durations, node_of, task_of }
    }

    /// The task of a graph node.
    pub fn task(&self, node: NodeId) -> TaskId {
        TaskId(self.task_of[node.index()])
    }

    /// The task of a graph node; `None` for a node that is not simulated.
    pub fn task_if_kept(&self, node: NodeId) -> Option<TaskId> {
        self.task_of.get(node.index()).copied().filter(|&task| task != NO_TASK).map(TaskId)
    }

    /// The graph node of a task; `None` for an added joint.
    pub fn node(&self, task: TaskId) -> Option<NodeId> {
        Some(self.node_of[task.0 as usize]).filter(|&node| node != u32::MAX).map(NodeId::from)
    }

    /// Appends a task with its duration; joints are added when it has more than three predecessors, and where a
    /// lag does not fit 32 bits.
    ///
    /// # Arguments
    /// `node`: the graph node, or `u32::MAX`; `predecessors`: tasks already appended, with lags from their ends.
    pub fn push(&mut self, node: u32, duration: DurNs, predecessors: &[(TaskId, DurNs)]) -> TaskId {
        let (mut joint, mut left) = (None, predecessors);
        loop {
            let room = if joint.is_some() { 2 } else { 3 };
            let Some((now, later)) = left.split_at_checked(room).filter(|(_, later)| !later.is_empty()) else {
                return self.push_behind(node, duration, joint, left);
            };
            joint = Some(self.push_behind(u32::MAX, DurNs::ZERO, joint, now));
            left = later;
        }
    }

    /// Appends a task that waits for a joint, where there is one, and for no more others than there are slots.
    fn push_behind(
        &mut self,
        node: u32,
        duration: DurNs,
        joint: Option<TaskId>,
        predecessors: &[(TaskId, DurNs)],
    ) -> TaskId {
        let (mut slots, mut lags) = ([NO_TASK; 3], [0; 3]);
        let all = joint.map(|joint| (joint, DurNs::ZERO)).into_iter().chain(predecessors.iter().copied());
        for (slot, (task, lag)) in all.take(3).enumerate() {
            (slots[slot], lags[slot]) = self.fit(task, lag);
        }
        self.push_row(node, duration.0, slots, lags)
    }

    /// The rows that stand for a task: its own, and the joints before it.
    pub fn rows(&self, task: TaskId) -> RangeInclusive<u32> {
        let joints = self.node_of[..task.0 as usize].iter().rev().take_while(|&&node| node == u32::MAX).count();
        task.0 - joints as u32..=task.0
    }

    /// Whether the rows of a task, where they are, hold these predecessors.
    pub fn has_room(&self, task: TaskId, mut predecessors: impl ExactSizeIterator<Item = (TaskId, DurNs)>) -> bool {
        let rows = self.rows(task);
        let fits = |(before, lag): (TaskId, DurNs)| before.0 < *rows.start() && i32::try_from(lag.0).is_ok();
        joints(predecessors.len()) <= task.0 - rows.start() && predecessors.all(fits)
    }

    /// Gives a task other predecessors, for which it [has room](Self::has_room), in the order in which [`push`](Self::push)
    /// puts them; joints that are not needed stay, empty.
    ///
    /// # Returns
    /// The first row that may differ.
    pub fn rewire(&mut self, task: TaskId, predecessors: &[(TaskId, DurNs)]) -> TaskId {
        let (rows, first) = (self.rows(task), task.0 - joints(predecessors.len()));
        let mut left = predecessors.iter();
        for row in rows.clone() {
            let (mut slots, mut lags, mut used) = ([NO_TASK; 3], [0; 3], 0);
            if row > first {
                (slots[0], used) = (row - 1, 1);
            }
            let own = if row < first { 0 } else { 3 - used };
            for &(before, lag) in left.by_ref().take(own) {
                (slots[used], lags[used]) = (before.0, lag.0 as i32);
                used += 1;
            }
            (self.predecessors[row as usize], self.lags[row as usize]) = (slots, lags);
            if row < task.0 {
                self.durations[row as usize] = 0;
            }
        }
        TaskId(*rows.start())
    }

    /// Appends a task as it stands in another such graph, with its slots as rows of this one.
    pub fn push_row(&mut self, node: u32, duration_ns: i64, slots: [u32; 3], lags: [i32; 3]) -> TaskId {
        let task = TaskId(self.durations.len() as u32);
        self.predecessors.push(slots);
        self.lags.push(lags);
        self.durations.push(duration_ns);
        self.node_of.push(node);
        task
    }

    /// An empty one with room for `tasks` and, of them, the places of `nodes` graph nodes.
    pub fn with_capacity(tasks: usize, nodes: usize) -> Self {
        Self {
            predecessors: Vec::with_capacity(tasks),
            lags: Vec::with_capacity(tasks),
            durations: Vec::with_capacity(tasks),
            node_of: Vec::with_capacity(tasks),
            task_of: vec![NO_TASK; nodes],
        }
    }

    /// Splits off a joint that carries `lag` as its duration where 32 bits do not hold it.
    fn fit(&mut self, task: TaskId, lag: DurNs) -> (u32, i32) {
        match i32::try_from(lag.0) {
            Ok(lag) => (task.0, lag),
            Err(_) => (self.push(u32::MAX, lag, &[(task, DurNs::ZERO)]).0, 0),
        }
    }

    /// Lowers a graph as it is, every task with its replay duration.
    pub fn lower(graph: &ExecutionGraph) -> Self {
        let ends = |edge: &Edge<Dependency>| (edge.source().index() as u32, edge.target().index() as u32, edge.weight);
        let durations: Vec<DurNs> = graph.tasks.node_weights().map(|task| task.duration).collect();
        Self::of_edges(&durations, graph.tasks.raw_edges(), ends)
    }

    /// Lowers tasks, which are in topological order, by their durations and the dependencies among them.
    ///
    /// # Arguments
    /// `ends`: the tasks that an edge joins, the later [`NO_TASK`] where it is none, and how.
    ///
    /// # Complexity
    /// O(tasks + edges), which are read in the order of their memory.
    pub fn of_edges<E>(durations: &[DurNs], edges: &[E], ends: impl Fn(&E) -> (u32, u32, Dependency)) -> Self {
        let count = durations.len();
        let kept = || edges.iter().map(&ends).filter(|&(_, to, _)| to != NO_TASK);
        // Counts two places on turn into beginnings one place on, and into ends while edges are filled in.
        let mut first = vec![0; count + 2];
        for (_, to, _) in kept() {
            first[to as usize + 2] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut into = vec![(0, DurNs::ZERO); first[count + 1] as usize];
        for (from, to, dependency) in kept() {
            let is_fixed = dependency.of_predecessor == 0.0;
            let lag = if is_fixed { dependency.lag } else { dependency.effective_lag(durations[from as usize]) };
            let next: &mut u32 = &mut first[to as usize + 1];
            into[*next as usize] = (from, lag);
            *next += 1;
        }
        let mut timed = Self::with_capacity(count, count);
        let mut predecessors = Vec::new();
        for (node, &duration) in durations.iter().enumerate() {
            let before = &into[first[node] as usize..first[node + 1] as usize];
            predecessors.clear();
            predecessors.extend(before.iter().map(|&(from, lag)| (TaskId(timed.task_of[from as usize]), lag)));
            predecessors.sort_unstable();
            timed.task_of[node] = timed.push(node as u32, duration, &predecessors).0;
        }
        timed.shrink_to_fit();
        timed
    }

    /// Gives back the room to grow that joints left.
    fn shrink_to_fit(&mut self) {
        self.predecessors.shrink_to_fit();
        self.lags.shrink_to_fit();
        self.durations.shrink_to_fit();
        self.node_of.shrink_to_fit();
    }
}

/// Joints before a task of so many predecessors: the first holds three, each further row two beside the joint before it.
pub fn joints(predecessors: usize) -> u32 {
    predecessors.saturating_sub(3).div_ceil(2) as u32
}

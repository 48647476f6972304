//! The simulated timeline of an outcome: its tasks in order, as rows, and as a trace in the profiler's own form.

mod annotations;
mod chrome;
mod event;
mod memory;
mod operators;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::analysis::edited::Callers;
use crate::cost::{Prediction, Work};
use crate::graph::{ExecutionGraph, Lane, LaneId, LaneKind, NodeId, Operator, OperatorId, Rank, TaskId, TaskKind};
use crate::scenario::{AddedTask, Resolved};
use crate::units::TimeNs;

use super::Outcome;

/// One task of the simulated timeline.
#[derive(Clone, Debug, Serialize)]
pub struct TaskRow {
    /// Global rank.
    pub rank: u32,
    /// `thread 123` or `stream 7`.
    pub lane: String,
    /// What it is, e.g. `kernel`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The operator it belongs to.
    pub operator: String,
    /// Simulated start.
    pub start_ns: i64,
    /// Simulated duration.
    pub duration_ns: i64,
    /// Measured duration; 0 for a task that was added, and where nothing was measured.
    pub measured_ns: i64,
    /// `measured`, `anchored`, `absolute` or `unmodelled`.
    pub source: String,
    /// Whether it lies on the critical path.
    pub critical: bool,
}

/// A task that takes time, traced or added.
struct Shown<'a> {
    task: TaskId,
    node: Option<NodeId>,
    kind: TaskKind,
    name: &'a str,
    lane: LaneId,
    operator: Option<OperatorId>,
    prediction: Prediction,
    work: Option<&'a Work>,
    bytes: u64,
    in_collective: Option<Member>,
}

/// What a task is of the collective that it takes part in.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// The collective's position among all, those that edits repeat behind those of the trace; the same on every rank.
    position: u64,
    /// The joint at which its rank is there; `None` where no others were matched.
    arrival: Option<TaskId>,
}

/// The simulated timeline of an outcome.
pub struct Timeline<'a> {
    outcome: &'a Outcome,
    graph: &'a ExecutionGraph,
    /// The traced operators, then those that edits added.
    operators: Vec<Operator>,
    /// The names of the latter.
    added_operators: Vec<&'a str>,
    shown: Vec<Shown<'a>>,
    critical: Vec<bool>,
    /// Whether it goes without memory.
    is_bare: bool,
}

impl<'a> Timeline<'a> {
    /// Gathers the tasks of `outcome` in order.
    pub fn new(outcome: &'a Outcome) -> Self {
        let resolved = &*outcome.resolved;
        let graph = &*resolved.graph;
        let traced = graph.tasks.node_indices().filter(|&node| !resolved.is_removed(node)).map(|node| {
            let task = &graph.tasks[node];
            Shown {
                task: resolved.timed.task(node),
                node: Some(node),
                kind: task.kind,
                name: graph.names.get(task.name),
                lane: resolved.lane(node),
                operator: task.operator,
                prediction: resolved.prediction(node),
                work: resolved.works.work(node),
                bytes: resolved.works.carried(graph, node).0,
                in_collective: traced_member(resolved, node),
            }
        });
        let copies = copies(resolved);
        let Callers { operators: callers, of_added } = Callers::of(resolved);
        let added = resolved.added.iter().zip(of_added).map(|(added, operator)| Shown {
            task: added.task,
            node: None,
            kind: added.kind,
            name: &added.name,
            lane: added.lane,
            operator,
            prediction: added.prediction,
            work: added.work.as_deref(),
            bytes: added.work.as_ref().map_or(0, |work| work.written.0),
            in_collective: copied_member(resolved, &copies, added),
        });
        let mut shown: Vec<Shown<'a>> = traced.chain(added).collect();
        shown.sort_by_key(|shown| shown.task);
        let mut critical = vec![false; resolved.timed.len()];
        for task in outcome.critical_tasks() {
            critical[task.0 as usize] = true;
        }
        let (added, added_operators): (Vec<Operator>, _) = callers.into_iter().unzip();
        let operators = graph.operators.iter().copied().chain(added).collect();
        Self { outcome, graph, operators, added_operators, shown, critical, is_bare: false }
    }

    /// The same without critical path and memory, which nobody looks at in what is opened again at once.
    #[must_use]
    pub(in crate::engine) fn bare(mut self) -> Self {
        self.critical.fill(false);
        Self { is_bare: true, ..self }
    }

    fn start(&self, task: TaskId) -> TimeNs {
        self.outcome.schedule.start(&self.outcome.resolved.timed, task)
    }

    fn end(&self, task: TaskId) -> TimeNs {
        self.outcome.schedule.end(task)
    }

    fn lane(&self, lane: LaneId) -> Option<Lane> {
        let index = lane.0 as usize;
        let added = || self.outcome.resolved.added_lanes.get(index - self.graph.lanes.len()).map(|(lane, _)| *lane);
        self.graph.lanes.get(index).copied().or_else(added)
    }

    /// One row per task, in order of the simulation.
    ///
    /// # Complexity
    /// O(tasks + lanes).
    pub fn rows(&self) -> Vec<TaskRow> {
        let of_graph = LaneLabels::of(self.graph);
        let lanes = self.graph.lanes.iter().map(|lane| of_graph.label(lane));
        let added = self.outcome.resolved.added_lanes.iter().map(|(lane, _)| of_graph.label(lane));
        let labels: Vec<String> = lanes.chain(added).collect();
        let row = |shown: &Shown<'_>| {
            let lane = self.lane(shown.lane)?;
            let measured = shown.node.filter(|_| !self.graph.is_predicted);
            let source = format!("{:?}", shown.prediction.source()).to_lowercase();
            Some(TaskRow {
                rank: lane.rank.0,
                lane: labels.get(shown.lane.0 as usize).cloned().unwrap_or_default(),
                kind: kind_label(shown.kind),
                name: shown.name.to_owned(),
                operator: shown.operator.map(|id| self.operator_name(id).to_owned()).unwrap_or_default(),
                start_ns: self.start(shown.task).0,
                duration_ns: self.end(shown.task).since(self.start(shown.task)).0,
                measured_ns: measured.map_or(0, |node| self.graph.tasks[node].measured.0),
                source,
                critical: self.critical[shown.task.0 as usize],
            })
        };
        self.shown.iter().filter(|shown| shown.kind.is_work()).filter_map(row).collect()
    }

    /// The name of an operator as edits left it.
    fn operator_name(&self, id: OperatorId) -> &'a str {
        let replaced = &self.outcome.resolved.replaced;
        let traced = self.operators.len() - self.added_operators.len();
        match replaced.binary_search_by_key(&id, |&(id, _)| id) {
            Ok(at) => &replaced[at].1,
            Err(_) if id.0 as usize >= traced => self.added_operators[id.0 as usize - traced],
            Err(_) => self.graph.names.get(self.operators[id.0 as usize].name),
        }
    }
}

/// What a traced task is of the collective that it takes part in.
fn traced_member(resolved: &Resolved, node: NodeId) -> Option<Member> {
    let graph = &*resolved.graph;
    let TaskKind::Collective(id) = graph.tasks[node].kind else { return None };
    let arrival = graph.arrival_of(node).and_then(|joint| resolved.timed.task_if_kept(joint));
    Some(Member { position: u64::from(id.0) + 1, arrival })
}

/// By traced task the added ones that repeat it, in order.
fn copies(resolved: &Resolved) -> FxHashMap<TaskId, Vec<TaskId>> {
    let mut copies: FxHashMap<TaskId, Vec<TaskId>> = FxHashMap::default();
    for added in &resolved.added {
        if let Some(of) = added.repeats {
            copies.entry(of).or_default().push(added.task);
        }
    }
    copies
}

/// What an added task is of the collective that it takes part in, as the traced one that it repeats is of its own.
fn copied_member(resolved: &Resolved, copies: &FxHashMap<TaskId, Vec<TaskId>>, added: &AddedTask) -> Option<Member> {
    let of = added.repeats?;
    let Member { position, .. } = traced_member(resolved, resolved.timed.node(of)?)?;
    let number = copies.get(&of)?.iter().position(|&copy| copy == added.task)?;
    let joint = resolved.graph.arrival_of(resolved.timed.node(of)?);
    let joint = joint.and_then(|joint| resolved.timed.task_if_kept(joint));
    let arrival = joint.and_then(|joint| copies.get(&joint)?.get(number).copied());
    let all = resolved.graph.collectives.len() as u64;
    Some(Member { position: position + (number as u64 + 1) * all, arrival })
}

/// How a lane is called: `thread 123` or `stream 7`.
fn lane_label(lane: &Lane) -> String {
    match lane.kind {
        LaneKind::Thread { tid } => format!("thread {tid}"),
        LaneKind::Stream { stream, .. } => format!("stream {stream}"),
        LaneKind::Virtual => String::new(),
    }
}

/// How the lanes of a graph are called: with their device where their rank has the stream of another one, too.
#[derive(Clone, Debug)]
pub struct LaneLabels {
    shared: FxHashSet<(Rank, i64)>,
}

impl LaneLabels {
    /// Those of `graph`.
    ///
    /// # Complexity
    /// O(lanes).
    pub fn of(graph: &ExecutionGraph) -> Self {
        let mut devices: FxHashMap<(Rank, i64), i64> = FxHashMap::default();
        let mut shared = FxHashSet::default();
        for lane in &graph.lanes {
            let LaneKind::Stream { device, stream } = lane.kind else { continue };
            if *devices.entry((lane.rank, stream)).or_insert(device) != device {
                shared.insert((lane.rank, stream));
            }
        }
        Self { shared }
    }

    /// That of `lane`.
    pub fn label(&self, lane: &Lane) -> String {
        match lane.kind {
            LaneKind::Stream { device, stream } if self.shared.contains(&(lane.rank, stream)) => {
                format!("gpu{device} {}", lane_label(lane))
            }
            _ => lane_label(lane),
        }
    }
}

fn kind_label(kind: TaskKind) -> String {
    use crate::graph::HostPart;
    match kind {
        TaskKind::Host(HostPart::Between) => "T1",
        TaskKind::Host(HostPart::BeforeLaunch) => "T2",
        TaskKind::Host(HostPart::AfterLaunch) => "T3",
        TaskKind::Host(HostPart::Inside) => "T5",
        TaskKind::Compute => "compute",
        TaskKind::Runtime => "runtime",
        TaskKind::Kernel => "kernel",
        TaskKind::Memcpy => "memcpy",
        TaskKind::Memset => "memset",
        TaskKind::Collective(_) => "collective",
        TaskKind::Unrecorded => "unrecorded",
        TaskKind::Joint | TaskKind::StepEnd => "joint",
    }
    .to_owned()
}

//! The execution graph: what had to happen before what in the traced iterations, and how long each thing took.
//!
//! Immutable once built and shared by `Arc`; edits live in a scenario, never here. Built from traces in
//! [`build`](mod@build) and `iteration`; knows no device model, no cost and no scenario.

pub(crate) mod batch_size;
mod beside;
pub mod build;
mod convolution;
pub mod copies;
pub mod dependency;
pub mod invariants;
pub mod iteration;
pub mod operand;
pub mod operator;
mod passes;
mod stated;
pub mod task;
pub mod timed;
mod updates;

use std::ops::Range;

use petgraph::graph::{DiGraph, NodeIndex};

use crate::diagnostic::Diagnostics;
use crate::intern::NameTable;
use crate::trace::RecordedDevice;
use crate::units::{DurNs, TimeNs};

pub use build::{
    BuildError, BuildOptions, CAPTURED, Captures, ReplayConstants, build, build_folded, build_lowered, launches_graph,
};
pub(crate) use convolution::{ConvArguments, asked_gradients};
pub use copies::{Copies, CopyStep};
pub use dependency::{Dependency, DependencyKind};
pub use iteration::IterationChoice;
pub use operand::{Axes, DType, Operand, Operands, OperandsId};
pub use operator::{Operator, OperatorId, Phase, Transfer};
pub(crate) use operator::{lookup_range, lookup_total_at};
pub use passes::Pass;
pub use stated::StatedWork;
pub use task::{Collective, CollectiveId, HostPart, Lane, LaneId, LaneKind, Rank, Task, TaskKind};
pub use timed::{TaskId, TimedGraph};
pub use updates::{Optimizer, StepOfOptimizer};

/// A task in an [`ExecutionGraph`].
///
/// Node indices are a topological order: every dependency goes from a smaller to a larger index.
pub type NodeId = NodeIndex<u32>;

/// The traced iteration of all ranks of a job, as tasks and typed dependencies.
#[derive(Clone, Debug)]
pub struct ExecutionGraph {
    /// Tasks and dependencies; node order is topological.
    pub tasks: DiGraph<Task, Dependency, u32>,
    /// Host threads and streams of all ranks, in the order of ranks.
    pub lanes: Vec<Lane>,
    /// Operators in order of rank, thread and start; a subtree is a contiguous range.
    pub operators: Vec<Operator>,
    /// Distinct argument lists of operators.
    pub operands: Vec<Operands>,
    /// Collectives joined over ranks.
    pub collectives: Vec<Collective>,
    /// Every name used above.
    pub names: NameTable,
    /// The ranks, in order.
    pub ranks: Vec<RankPart>,
    /// Largest measured period over ranks: what the replay is compared with.
    pub measured: DurNs,
    /// Whether times are a prediction themselves: none was measured.
    pub is_predicted: bool,
    /// Device work of the window that started later than any rule explains, the latest first.
    pub late_starts: Vec<LateStart>,
    /// The replay's constants of each rank, in the order of `ranks`; empty for a graph that was not built from traces.
    pub constants: Vec<ReplayConstants>,
    /// Batch size as far as the inputs tell.
    pub batch_size: Option<u64>,
    /// How often forward and backward pass run in a step, on the rank where that is most, each on a batch of that size, as far as the traces tell; else 1.
    pub batches: u32,
    /// The passes by rank and time, where they run on batches of unlike size; else empty.
    pub passes: Vec<Pass>,
    /// What was odd, and what was assumed.
    pub diagnostics: Diagnostics,
    /// What the traces state of kernels and host computations, in order; `None` where they state that their work is not known. Empty but for traces of edited
    /// iterations that were exported.
    pub stated: Vec<(NodeId, Option<StatedWork>)>,
    /// For each of the last tasks, which an edit added, the traced one that it stands beside.
    pub stands_beside: Vec<NodeId>,
    /// For each of the same the task that it does once more, if any.
    pub repeats: Vec<Option<NodeId>>,
}

/// Device work that started later than launch, stream order, waits and contention explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateStart {
    /// The work.
    pub node: NodeId,
    /// How much later.
    pub by: DurNs,
}

/// A rank's clock against the first rank's, where the modelled window begins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clock {
    /// How much later it is.
    pub offset: DurNs,
    /// How much it gains, in parts per million; 0 where none could be told.
    pub drift_ppm: f64,
}

/// One rank's share of the graph.
#[derive(Clone, Debug)]
pub struct RankPart {
    /// Global rank.
    pub rank: Rank,
    /// Further ranks that did the same, for which it stands.
    pub others: Vec<Rank>,
    /// Which trace of the job it came from.
    pub trace_index: usize,
    /// Its device as recorded, when it used one.
    pub device: Option<RecordedDevice>,
    /// Another one that it used, which is unlike that.
    pub unlike: Option<RecordedDevice>,
    /// How many batches its iteration runs on, as far as its trace tells; else 1.
    pub batches: u32,
    /// When each of the passes of its iteration begins, from the window's start: its backward pass where the iteration has several of
    /// them, else the step of a turn; fewer than two where it has one.
    pub passes: Vec<TimeNs>,
    /// Whether its trace tells what is copied between host and device, though no copy was recorded.
    pub tells_transfers: bool,
    /// The steps of optimizers of its iteration, else those of another step of the program, where the trace names any.
    pub optimizers: Vec<Optimizer>,
    /// Its clock, as it was before alignment.
    pub clock: Clock,
    /// Name of the chosen iteration, e.g. `ProfilerStep#12`; empty when the trace has no steps.
    pub iteration: String,
    /// Start of the modelled window in the trace's time: where schedule time 0 lies for this rank.
    pub window_start: TimeNs,
    /// End of the modelled window in the trace's time.
    pub window_end: TimeNs,
    /// Host start of the chosen iteration, from the window's start.
    pub iteration_start: TimeNs,
    /// Host end of the chosen iteration, from the window's start. Tasks after it are there because they share the device
    /// with the iteration's own work.
    pub iteration_end: TimeNs,
    /// Marker that ends with all work of the step before the chosen one, or with the work from before the trace that its first work
    /// waited for; `None` when there is neither.
    pub begin: Option<NodeId>,
    /// How long its first work waited for work from before the trace; `None` where it waited for none.
    pub backlog: Option<DurNs>,
    /// Marker that ends with all work of the chosen step.
    pub end: NodeId,
    /// Measured period of the chosen iteration on this rank.
    pub measured: DurNs,
}

impl RankPart {
    /// Whether its iteration goes through the model more than once.
    pub fn runs_several_passes(&self) -> bool {
        self.batches > 1 || self.passes.len() > 1
    }

    /// How many ranks it stands for, itself included.
    pub fn count(&self) -> u32 {
        1 + self.others.len() as u32
    }
}

impl ExecutionGraph {
    /// What the batch size may be, the likeliest first, where the trace leaves open which of several it is; else empty, or
    /// [`batch_size`](Self::batch_size) alone.
    pub fn batch_candidates(&self) -> Vec<u64> {
        self.candidates_but(&self.beside_training())
    }

    fn candidates_but(&self, beside: &[bool]) -> Vec<u64> {
        batch_size::candidates(&self.operators_but(0..self.operators.len(), beside), &self.operands, &self.names)
    }

    /// The batch size, where one and no other is told by the operators but those `beside` what is trained.
    fn told_batch(&self, beside: &[bool]) -> Option<u64> {
        match self.candidates_but(beside)[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Why the batch size is not known, in one line that says how to tell it.
    pub fn why_no_batch(&self) -> String {
        let candidates = self.batch_candidates();
        match candidates.split_last() {
            Some((last, rest)) if !rest.is_empty() => {
                let rest = rest.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                format!("the batch may be {rest} or {last}: `resize-batch N from B` says which")
            }
            _ => "the trace does not tell its batch size: `resize-batch N from B` does".to_owned(),
        }
    }

    /// By position of each rank whether any work of a device was recorded of it.
    pub fn ranks_with_device_work(&self) -> Vec<bool> {
        let mut with = vec![false; self.ranks.len()];
        let streams = self.lanes.iter().filter(|lane| matches!(lane.kind, LaneKind::Stream { .. }));
        streams.filter_map(|lane| self.place_of(lane.rank)).for_each(|place| with[place] = true);
        with
    }

    /// The top-level operator of every operator: parents stand before what they called.
    pub fn top_level_operators(&self) -> Vec<OperatorId> {
        let mut tops: Vec<OperatorId> = Vec::with_capacity(self.operators.len());
        for (index, operator) in self.operators.iter().enumerate() {
            let own = OperatorId(index as u32);
            tops.push(operator.parent.and_then(|parent| tops.get(parent.0 as usize).copied()).unwrap_or(own));
        }
        tops
    }

    /// How many ranks the graph speaks of, those included for which another stands.
    pub fn rank_count(&self) -> u32 {
        self.ranks.iter().map(RankPart::count).sum()
    }

    /// How many ranks the job has as far as its collectives tell, those that are loaded at least.
    pub fn job_size(&self) -> u32 {
        let groups = self.collectives.iter().map(|collective| collective.group_size);
        groups.max().unwrap_or_default().max(self.rank_count())
    }

    /// The position of `rank` among [`ranks`](Self::ranks).
    ///
    /// # Complexity
    /// O(log ranks).
    pub fn place_of(&self, rank: Rank) -> Option<usize> {
        self.ranks.binary_search_by_key(&rank, |part| part.rank).ok()
    }

    /// The share of `rank` in the graph.
    pub fn part_of(&self, rank: Rank) -> Option<&RankPart> {
        self.ranks.get(self.place_of(rank)?)
    }

    /// The lanes of `rank`, which stand together.
    ///
    /// # Complexity
    /// O(log lanes).
    pub fn lanes_of(&self, rank: Rank) -> Range<usize> {
        let before = |is_before: &dyn Fn(Rank) -> bool| self.lanes.partition_point(|lane| is_before(lane.rank));
        before(&|other| other < rank)..before(&|other| other <= rank)
    }

    /// How many ranks `rank` stands for, itself included.
    pub fn count_of(&self, rank: Rank) -> u32 {
        self.part_of(rank).map_or(1, RankPart::count)
    }

    /// Measured time that no rule explains, over the window and all ranks.
    pub fn unexplained(&self) -> DurNs {
        self.late_starts.iter().map(|late| late.by).sum()
    }

    /// [`Self::unexplained`] relative to the measured period, averaged over ranks.
    pub fn unexplained_share(&self) -> f64 {
        (self.unexplained().0 as f64 / self.measured.0.max(1) as f64 / self.ranks.len().max(1) as f64).min(1.0)
    }

    /// Whether a task is, or stands for, work from before the trace that a rank's first work waited for.
    pub fn is_backlog(&self, node: NodeId) -> bool {
        let task = &self.tasks[node];
        let is_before = |part: &RankPart| {
            let begin = part.begin.filter(|_| part.backlog.is_some());
            begin.is_some_and(|begin| task.measured_end() <= self.tasks[begin].measured_start)
        };
        let part = || self.part_of(self.lanes[task.lane.0 as usize].rank);
        task.kind.is_device() && part().is_some_and(is_before) && self.launch_of(node).is_none()
    }

    /// For each task, whether it belongs to the chosen iteration of its rank, not to the steps around it: host work by
    /// its measured start, device work by that of the call that launched it (where none is recorded, no later than what
    /// follows it on its stream), what an edit added as what it stands beside.
    ///
    /// # Complexity
    /// O(tasks + dependencies).
    pub fn iteration_tasks(&self) -> Vec<bool> {
        let mut belongs = vec![false; self.tasks.node_count()];
        let mut next = vec![TimeNs(i64::MAX); self.lanes.len()];
        let traced = belongs.len() - self.stands_beside.len();
        for node in self.tasks.node_indices().take(traced).rev() {
            let launched = self.launched(node, &mut next);
            let part = self.part_of(self.lanes[self.tasks[node].lane.0 as usize].rank);
            let within = |part: &RankPart| launched >= part.iteration_start && launched < part.iteration_end;
            belongs[node.index()] = part.is_some_and(within) && !self.is_backlog(node);
        }
        for (at, beside) in (traced..).zip(&self.stands_beside) {
            belongs[at] = belongs[beside.index()];
        }
        belongs
    }

    /// For each task, whether it ended within the chosen iteration of its rank as that was recorded, on a lane of its own: of one
    /// that repeats just what one period holds. What stands for work from before the trace is none.
    ///
    /// # Complexity
    /// O(tasks).
    pub fn recorded_tasks(&self) -> Vec<bool> {
        let window = |part: &RankPart| {
            let begin = part.begin.map_or(TimeNs(i64::MIN), |begin| self.tasks[begin].measured_start);
            (begin, self.tasks[part.end].measured_start)
        };
        let of_rank: Vec<(TimeNs, TimeNs)> = self.ranks.iter().map(window).collect();
        let of_lane: Vec<Option<(TimeNs, TimeNs)>> =
            self.lanes.iter().map(|lane| Some(of_rank[self.place_of(lane.rank)?])).collect();
        let is_recorded = |node: NodeId| {
            let task = &self.tasks[node];
            let end = task.measured_end();
            let within = of_lane.get(task.lane.0 as usize).copied().flatten();
            within.is_some_and(|(from, to)| from < end && end <= to) && !self.is_backlog(node)
        };
        self.tasks.node_indices().map(is_recorded).collect()
    }

    /// When each task was launched; device work of which no launch was recorded no later than what follows it on its stream.
    ///
    /// # Complexity
    /// O(tasks + dependencies).
    pub fn launch_times(&self) -> Vec<TimeNs> {
        let mut next = vec![TimeNs(i64::MAX); self.lanes.len()];
        let mut times = vec![TimeNs(0); self.tasks.node_count()];
        for node in self.tasks.node_indices().rev() {
            times[node.index()] = self.launched(node, &mut next);
        }
        times
    }

    /// When a task was launched; `next` holds that of what follows on each lane.
    fn launched(&self, node: NodeId, next: &mut [TimeNs]) -> TimeNs {
        let task = &self.tasks[node];
        if !task.kind.is_device() {
            return task.measured_start;
        }
        let next = &mut next[task.lane.0 as usize];
        let call = self.launch_of(node).map(|call| self.tasks[call].measured_start);
        let launched = call.unwrap_or(task.measured_start.min(*next));
        *next = launched;
        launched
    }

    /// The task from which a piece of device work was launched: its call, or the joint after a call that waited.
    /// `None` for work without a launch record, and for host work.
    pub fn launch_of(&self, node: NodeId) -> Option<NodeId> {
        use petgraph::Direction::Incoming;
        use petgraph::visit::EdgeRef;
        let mut at = node;
        for _ in 0..2 {
            let launch =
                self.tasks.edges_directed(at, Incoming).find(|edge| edge.weight().kind == DependencyKind::Launch);
            if let Some(edge) = launch {
                return Some(edge.source());
            }
            at = self.arrival_of(at)?;
        }
        None
    }

    /// The call that launched a piece of device work, also where that waited in the launch queue.
    pub fn call_of(&self, node: NodeId) -> Option<NodeId> {
        use petgraph::Direction::Incoming;
        use petgraph::visit::EdgeRef;
        let launch = self.launch_of(node)?;
        if self.tasks[launch].kind != TaskKind::Joint {
            return Some(launch);
        }
        let mut before = self.tasks.edges_directed(launch, Incoming);
        before.find(|edge| edge.weight().kind == DependencyKind::Program).map(|edge| edge.source())
    }

    /// What the rank of a collective's member arrives with: the joint before the member; `None` for every other task, and where
    /// no others were matched.
    ///
    /// # Complexity
    /// O(log ranks).
    pub fn arrival_of(&self, member: NodeId) -> Option<NodeId> {
        let TaskKind::Collective(id) = self.tasks[member].kind else { return None };
        let collective = self.collectives.get(id.0 as usize)?;
        let rank = |node: NodeId| self.lanes[self.tasks[node].lane.0 as usize].rank;
        let place = collective.members.binary_search_by_key(&rank(member), |&other| rank(other)).ok()?;
        collective.arrivals.get(place).copied()
    }
}

//! A graph with what every scenario on it needs, worked out once: its timed form, the work of its tasks, its lanes' ranks.

use std::sync::{Arc, Mutex, OnceLock};

use petgraph::graph::{EdgeIndex, EdgeReference};
use petgraph::visit::EdgeRef;

use crate::cost::overhead::{OverheadSpans, ProfilerCost, statistics};
use crate::cost::{Family, Overheads, Work};
use crate::device::DeviceProfile;
use crate::graph::{Copies, Dependency, ExecutionGraph, Lane, LaneId, NodeId, Phase, TimedGraph};
use crate::units::DurNs;

use super::batch::BatchPlan;
use super::context::RankDevice;
use super::inputs;
use super::kernel_work::KernelWork;
use super::roles::Roles;
use super::tables::{TableFacts, Tables};
use super::typical_calls::{Again, TypicalCalls};
use super::work_classes::{Class, Sharing, WorkClasses, tasks_of_operators};
use crate::memory::JobMemory;
use crate::memory::recomputed::Recomputed;
use crate::sim::Cycle;

/// Batch sizes whose dimensions are remembered, at most.
const MOST_PLANS: usize = 8;

/// An untouched graph, shared by all scenarios on it.
#[derive(Debug)]
pub struct Base {
    graph: Arc<ExecutionGraph>,
    timed: Arc<TimedGraph>,
    moving: Vec<MovingEdge>,
    rank_of_lane: Vec<u32>,
    /// On which it was traced, as far as the catalog knows them.
    devices: Vec<Arc<DeviceProfile>>,
    /// As the trace tells.
    traced: Arc<WorkClasses>,
    /// With what the facts file tells of its tables, where it tells which rows are looked up.
    told: OnceLock<Arc<WorkClasses>>,
    host: OnceLock<(OverheadSpans, Arc<Overheads>)>,
    iteration_tasks: OnceLock<Vec<bool>>,
    recorded_tasks: OnceLock<Vec<bool>>,
    copies: OnceLock<Copies>,
    cycle: OnceLock<Arc<Cycle>>,
    phases: OnceLock<Vec<Phase>>,
    recomputed: OnceLock<Recomputed>,
    roles: OnceLock<Roles>,
    typical_calls: OnceLock<TypicalCalls>,
    tasks_of_operators: OnceLock<Vec<u32>>,
    batch_plans: Mutex<Vec<(u64, Arc<BatchPlan>)>>,
    table_facts: TableFacts,
    /// Whether those tell which rows are looked up.
    is_told: bool,
    tables: OnceLock<Tables>,
    memory: Arc<JobMemory>,
}

/// A dependency whose lag shrinks as the predecessor's duration grows.
#[derive(Clone, Copy, Debug)]
pub(super) struct MovingEdge {
    pub(super) edge: EdgeIndex<u32>,
    pub(super) from: NodeId,
    pub(super) to: NodeId,
}

impl Base {
    /// Prepares `graph`.
    ///
    /// # Complexity
    /// O(tasks + dependencies).
    pub fn new(graph: Arc<ExecutionGraph>) -> Self {
        let timed = TimedGraph::lower(&graph);
        Self::of_lowered(graph, timed)
    }

    /// Prepares `graph`, which was lowered to `timed`.
    ///
    /// # Complexity
    /// O(tasks + dependencies).
    pub fn of_lowered(graph: Arc<ExecutionGraph>, timed: TimedGraph) -> Self {
        let works = WorkClasses::of_graph(&graph, Sharing::of_graph(&graph));
        let rank = |lane: &Lane| graph.place_of(lane.rank).unwrap_or(0);
        let rank_of_lane = graph.lanes.iter().map(|lane| rank(lane) as u32).collect();
        let moves = |edge: &EdgeReference<'_, Dependency, u32>| edge.weight().of_predecessor != 0.0;
        let moving = graph.tasks.edge_references().filter(moves);
        let moving = moving.map(|edge| MovingEdge { edge: edge.id(), from: edge.source(), to: edge.target() });
        Self {
            timed: Arc::new(timed),
            moving: moving.collect(),
            rank_of_lane,
            devices: Vec::new(),
            traced: Arc::new(works),
            told: OnceLock::new(),
            host: OnceLock::new(),
            iteration_tasks: OnceLock::new(),
            recorded_tasks: OnceLock::new(),
            copies: OnceLock::new(),
            cycle: OnceLock::new(),
            phases: OnceLock::new(),
            recomputed: OnceLock::new(),
            roles: OnceLock::new(),
            typical_calls: OnceLock::new(),
            tasks_of_operators: OnceLock::new(),
            batch_plans: Mutex::default(),
            table_facts: TableFacts::default(),
            is_told: false,
            tables: OnceLock::new(),
            memory: Arc::default(),
            graph,
        }
    }

    /// As traced on `devices`: work that the known ones could not do in the time it took counts as not known.
    #[must_use]
    pub fn on_devices(mut self, devices: &[RankDevice]) -> Self {
        self.devices = devices.iter().filter(|device| device.recognised).map(|device| device.profile.clone()).collect();
        self.devices.sort_by(|a, b| a.id.cmp(&b.id));
        self.devices.dedup_by(|a, b| a.id == b.id);
        Arc::make_mut(&mut self.traced).refute(&self.graph, &self.devices);
        self
    }

    /// Tasks whose recorded sizes no device works off in the time they took, see [`Self::on_devices`].
    pub fn refuted(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.traced.refuted(&self.graph)
    }

    /// With what is known of its embedding tables beside the trace.
    #[must_use]
    pub fn with_table_facts(self, table_facts: TableFacts) -> Self {
        let is_told = table_facts.tell_reuse();
        Self { is_told, table_facts, tables: OnceLock::new(), phases: OnceLock::new(), ..self }
    }

    /// What is known of its embedding tables beside the trace.
    pub fn table_facts(&self) -> &TableFacts {
        &self.table_facts
    }

    /// Its embedding tables, found when first asked for.
    pub fn tables(&self) -> &Tables {
        self.tables.get_or_init(|| Tables::find(self))
    }

    /// With what is known of each rank's memory.
    #[must_use]
    pub fn with_memory(self, memory: JobMemory) -> Self {
        Self { memory: Arc::new(memory), ..self }
    }

    /// What is known of each rank's memory; empty where nothing is.
    pub fn memory(&self) -> &Arc<JobMemory> {
        &self.memory
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<ExecutionGraph> {
        &self.graph
    }

    /// The graph as it is, for the simulator.
    pub fn timed(&self) -> &Arc<TimedGraph> {
        &self.timed
    }

    /// [`ExecutionGraph::iteration_tasks`], found when first asked for.
    pub fn iteration_tasks(&self) -> &[bool] {
        self.iteration_tasks.get_or_init(|| self.graph.iteration_tasks())
    }

    /// Whether a task ended within the chosen iteration of its rank as it was recorded, see [`ExecutionGraph::recorded_tasks`].
    pub fn is_recorded(&self, node: NodeId) -> bool {
        self.recorded_tasks.get_or_init(|| self.graph.recorded_tasks())[node.index()]
    }

    /// Its tasks by step, sorted when first asked for.
    pub(super) fn copies(&self) -> &Copies {
        self.copies.get_or_init(|| Copies::of(&self.graph))
    }

    /// Its chosen step closed into a loop, by `close` when first asked for.
    pub(super) fn cycle(&self, close: impl FnOnce() -> Cycle) -> &Arc<Cycle> {
        self.cycle.get_or_init(|| Arc::new(close()))
    }

    /// The part of training of each operator as a user means it, found when first asked for.
    pub(super) fn phases(&self) -> &[Phase] {
        self.phases.get_or_init(|| inputs::phases(self))
    }

    /// Parts of the forward pass that run again within the backward pass, found when first asked for.
    pub(super) fn recomputed(&self) -> &Recomputed {
        self.recomputed.get_or_init(|| Recomputed::of_job(&self.graph))
    }

    /// What each collective is for, told when first asked for.
    pub fn roles(&self) -> &Roles {
        self.roles.get_or_init(|| Roles::of(&self.graph))
    }

    /// What another call like `call` takes.
    pub(super) fn typical_call(&self, call: NodeId) -> Again {
        self.typical_calls.get_or_init(|| TypicalCalls::of(&self.graph)).again(&self.graph, call)
    }

    /// The same of a launch that took far longer than another like it would: it loaded code.
    pub(super) fn one_off_launch(&self, call: NodeId) -> Option<Again> {
        self.typical_calls.get_or_init(|| TypicalCalls::of(&self.graph)).one_off(&self.graph, call)
    }

    /// By operator how many tasks do its work, found when first asked for.
    pub(super) fn tasks_of_operators(&self) -> &[u32] {
        self.tasks_of_operators.get_or_init(|| tasks_of_operators(&self.graph, self.graph.tasks.node_indices()))
    }

    /// Position of a lane's rank in [`ExecutionGraph::ranks`].
    pub fn rank_index(&self, lane: LaneId) -> usize {
        self.rank_of_lane.get(lane.0 as usize).copied().unwrap_or(0) as usize
    }

    /// As [`rank_index`](Self::rank_index), for lanes of which some were added after those of the graph.
    pub(super) fn rank_of(&self, lane: LaneId, added: &[(Lane, String)]) -> usize {
        let beyond = (lane.0 as usize).checked_sub(self.graph.lanes.len()).and_then(|at| added.get(at));
        match beyond {
            Some((lane, _)) => self.graph.place_of(lane.rank).unwrap_or(0),
            None => self.rank_index(lane),
        }
    }

    /// Works out what edits will ask for, so that the first is as quick as the next.
    pub fn warm(&self) {
        let _ = self.works();
        if let Some(batch) = self.graph.batch_size {
            let _ = self.batch_plan(batch);
        }
    }

    /// The host's overheads as they happened, and their means as measured: the profiler's own cost is in both.
    pub fn overheads(&self) -> (&OverheadSpans, &Arc<Overheads>) {
        let (stretches, means) = self.host.get_or_init(|| {
            let stretches = OverheadSpans::of(&self.graph);
            let means = statistics(&self.graph, &stretches, ProfilerCost::NONE);
            (stretches, Arc::new(means))
        });
        (stretches, means)
    }

    /// The family of a task that computes or moves something; `None` for host time and joints.
    pub fn family(&self, node: NodeId) -> Option<Family> {
        self.class(node).map(|class| class.family)
    }

    /// The work of a task as traced, where it is known.
    pub fn work(&self, node: NodeId) -> Option<&Work> {
        self.class(node).and_then(|class| class.work.as_deref())
    }

    /// The work of all tasks as traced.
    pub fn kernel_work(&self) -> KernelWork {
        KernelWork::untouched(Arc::clone(self.works()))
    }

    /// The tasks that update a table sparsely, in order.
    pub(super) fn sparse_updates(&self) -> Vec<NodeId> {
        self.works().sharing.updates()
    }

    /// The work of a task as the trace alone tells.
    pub(super) fn traced_work(&self, node: NodeId) -> Option<&Work> {
        self.traced_works().class(node).and_then(|class| class.work.as_deref())
    }

    fn class(&self, node: NodeId) -> Option<&Class> {
        self.works().class(node)
    }

    /// The dimensions that carry a batch of `batch`, found when first asked for.
    pub(super) fn batch_plan(&self, batch: u64) -> Arc<BatchPlan> {
        let find = || Arc::new(BatchPlan::find(&self.graph, batch));
        let Ok(mut plans) = self.batch_plans.lock() else { return find() };
        if let Some((_, plan)) = plans.iter().find(|(known, _)| *known == batch) {
            return plan.clone();
        }
        let plan = find();
        // There is no end to the sizes that can be asked for; that of the trace, which is asked for first, is kept.
        plans.truncate(MOST_PLANS - 1);
        plans.push((batch, plan.clone()));
        plan
    }

    /// The traced duration of a task.
    pub(super) fn duration(&self, node: NodeId) -> DurNs {
        DurNs(self.timed.durations[self.timed.task(node).0 as usize])
    }

    /// The dependencies whose lags change with the duration of their source.
    pub(super) fn moving(&self) -> &[MovingEdge] {
        &self.moving
    }

    pub(super) fn works(&self) -> &Arc<WorkClasses> {
        if !self.is_told {
            return self.traced_works();
        }
        self.told.get_or_init(|| {
            let sharing = Sharing::of_graph(&self.graph).with_reuse(Tables::told_reuse(self));
            let mut works = WorkClasses::of_graph(&self.graph, sharing);
            works.refute(&self.graph, &self.devices);
            Arc::new(works)
        })
    }

    fn traced_works(&self) -> &Arc<WorkClasses> {
        &self.traced
    }
}

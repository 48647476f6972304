//! The operator table: counts, host and device time, work and prediction, from the whole model down to kernels.

mod bound;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use serde::Serialize;

use crate::cost::conv_algorithm::flop_done;
use crate::cost::{CollectiveKind, ConvAlgorithm, CostModels, Family, Shape};
use crate::device::DeviceProfile;
use crate::graph::{ExecutionGraph, LaneKind, NodeId, OperatorId, Task, TaskKind};
use crate::scenario::KernelWork;
use crate::units::{Bytes, DurNs, Flop, share};

use super::lanes::Times;

pub use bound::{Bound, bound_of};

/// What a row stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// All of the iteration.
    Model,
    /// A module, or a part of training where modules are not recorded.
    Module,
    /// An operator with its own host time and what it launched itself.
    #[default]
    Operator,
    /// Device work, or host computations in a trace without any.
    Kernel,
}

/// What makes tasks of one level one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouping {
    /// The same name.
    #[default]
    Name,
    /// The same kernel family; host time has none.
    Family,
    /// The same stream or thread.
    Stream,
    /// The same module.
    Module,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name, family, stream or module.
    pub label: String,
    /// Operators at the levels down to operators, with device work that belongs to none; kernels at the level of kernels.
    pub count: usize,
    /// Host time; at the level of kernels that of their launches.
    pub host_ns: i64,
    /// Device time (time of host computations in a trace without device work).
    pub device_ns: i64,
    /// Arithmetic, as far as known.
    pub flop: f64,
    /// Memory traffic, as far as known.
    pub bytes: u64,
    /// Share of the device time whose work is known: of the rest neither arithmetic nor traffic is.
    pub work_share: f64,
    /// What bounds most of the device time whose work is known.
    pub bound: Option<Bound>,
    /// What the cost models say of the device time they cover.
    pub predicted_ns: Option<i64>,
    /// Share of the device time that this covers.
    pub predicted_share: f64,
    /// How much longer the device time it covers is than predicted, as a fraction.
    pub deviation: Option<f64>,
    /// Whether most of that prediction lies beyond what the models were fitted on.
    pub extrapolated: bool,
    /// What would compute its longest kernel faster, where that takes longer than predicted or another algorithm is.
    pub better: Option<String>,
}

/// The models and the device of each rank, for work and predictions.
#[derive(Clone, Copy, Debug)]
pub struct Predictor<'a> {
    /// The models.
    pub models: &'a CostModels,
    /// The recorded device of each rank of the graph, in its order; `None` where not known.
    pub devices: &'a [Option<&'a DeviceProfile>],
}

/// Adds up the tasks of one row.
#[derive(Default)]
struct Sum {
    /// Operators by how often they are called: edits repeat them.
    operators: BTreeMap<OperatorId, u32>,
    kernels: usize,
    /// Kernels that belong to no operator.
    loose: usize,
    host: DurNs,
    device: DurNs,
    flop: Flop,
    bytes: Bytes,
    /// Device time whose work is known.
    worked: DurNs,
    compute_bound: DurNs,
    memory_bound: DurNs,
    predicted: DurNs,
    covered: DurNs,
    /// Of the prediction, what lies beyond fitted ranges.
    beyond: DurNs,
    /// The longest kernel whose work is known.
    longest: Option<(DurNs, NodeId)>,
}

/// The rows of the chosen iteration, the longest device time first, then host time, then by label.
///
/// Every task counts in exactly one row, so columns add up to the iteration's totals. `predictor` says on which devices
/// the work ran; without one, predictions and bounds are left out.
///
/// # Complexity
/// O(tasks), each with a look-up of its work.
pub fn rows(
    tasks: (&ExecutionGraph, &KernelWork),
    times: Times<'_>,
    predictor: Option<Predictor<'_>>,
    level: Level,
    by: Grouping,
) -> Vec<Row> {
    rows_of(tasks, times, predictor, Choice { level, by, nodes: None })
}

/// What a table of operators shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// What a row stands for.
    pub level: Level,
    /// What makes tasks one row.
    pub by: Grouping,
    /// The tasks that count, in order; `None` for all.
    pub nodes: Option<&'a [NodeId]>,
}

/// As [`rows`], of the chosen tasks only.
pub fn rows_of(
    (graph, works): (&ExecutionGraph, &KernelWork),
    times: Times<'_>,
    predictor: Option<Predictor<'_>>,
    Choice { level, by, nodes }: Choice<'_>,
) -> Vec<Row> {
    let belongs = graph.iteration_tasks();
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    let mut again: FxHashMap<NodeId, u32> = FxHashMap::default();
    for &node in graph.repeats.iter().flatten() {
        *again.entry(node).or_default() += 1;
    }
    let often = |node: NodeId| 1 + again.get(&node).copied().unwrap_or(0);
    let is_chosen = |node: &NodeId| nodes.is_none_or(|nodes| nodes.binary_search(node).is_ok());
    let counts = |node: &NodeId| belongs[node.index()] && !works.is_removed(*node);
    let shown = |node: &NodeId| {
        let task = &graph.tasks[*node];
        task.kind.is_work() && (level != Level::Kernel || is_kernel(task))
    };
    let nodes = || graph.tasks.node_indices().filter(counts).filter(is_chosen).filter(shown);
    let mut calls = Calls::default();
    if level == Level::Kernel {
        nodes().filter_map(|node| graph.call_of(node)).for_each(|call| calls.count(call));
    }
    for node in nodes() {
        let sum = sums.entry(label((graph, works), node, level, by)).or_default();
        if level == Level::Kernel {
            sum.host += graph.call_of(node).map_or(DurNs::ZERO, |call| calls.share(call, duration(graph, call, times)));
        }
        sum.add((works, graph), (node, often(node)), times, predictor);
    }
    let row = |(label, sum): (String, Sum)| {
        let longest = sum.longest;
        let mut row = sum.row(label, level);
        let is_slow = row.deviation.is_some_and(|deviation| deviation > INEFFICIENT);
        row.better = longest.and_then(|(_, node)| better((graph, works), node, predictor?, is_slow));
        row
    };
    let mut rows: Vec<Row> = sums.into_iter().map(row).collect();
    rows.sort_by(|a, b| (b.device_ns, b.host_ns, &a.label).cmp(&(a.device_ns, a.host_ns, &b.label)));
    rows
}

fn duration(graph: &ExecutionGraph, node: NodeId, times: Times<'_>) -> DurNs {
    let (start, end) = times.of(graph, node);
    end.since(start)
}

/// Calls by how many kernels each launched, of which one may launch all of a graph, and how many of those were counted.
#[derive(Default)]
struct Calls(FxHashMap<NodeId, (i64, i64)>);

impl Calls {
    fn count(&mut self, call: NodeId) {
        self.0.entry(call).or_default().0 += 1;
    }

    /// The next kernel's share of a call that took `whole`; the shares of all its kernels add up to it.
    fn share(&mut self, call: NodeId, whole: DurNs) -> DurNs {
        let Some((all, counted)) = self.0.get_mut(&call) else { return whole };
        let until = |count: i64| (i128::from(whole.0) * i128::from(count) / i128::from(*all)) as i64;
        let share = until(*counted + 1) - until(*counted);
        *counted += 1;
        DurNs(share)
    }
}

/// How much longer than predicted a kernel takes that is called inefficient: beyond the ±15 % that the analytical model claims
/// [Kakrannava 2024 §VI-D].
const INEFFICIENT: f64 = 0.15;

/// What would compute the work of a kernel faster; of products only where it is slow.
fn better(
    (graph, works): (&ExecutionGraph, &KernelWork),
    node: NodeId,
    predictor: Predictor<'_>,
    is_slow: bool,
) -> Option<String> {
    let work = works.work(node).filter(|work| is_slow || work.family == Family::Conv)?;
    let recorded = ConvAlgorithm::of_kernel(graph.names.get(graph.tasks[node].name));
    predictor.models.better_kernel(work, recorded, device_of(graph, node, predictor)?)
}

fn device_of<'a>(graph: &ExecutionGraph, node: NodeId, predictor: Predictor<'a>) -> Option<&'a DeviceProfile> {
    let rank = graph.lanes[graph.tasks[node].lane.0 as usize].rank;
    let place = graph.place_of(rank)?;
    predictor.devices.get(place).copied().flatten()
}

/// Device work, and host computations.
fn is_kernel(task: &Task) -> bool {
    task.kind.is_device() || task.kind == TaskKind::Compute
}

fn label((graph, works): (&ExecutionGraph, &KernelWork), node: NodeId, level: Level, by: Grouping) -> String {
    let task = &graph.tasks[node];
    match (level, by) {
        (Level::Model, _) => "model".to_owned(),
        (_, Grouping::Family) if is_kernel(task) => works.family(graph, node).name().to_owned(),
        (_, Grouping::Family) => "host".to_owned(),
        (_, Grouping::Stream) => lane_label(graph, task),
        (Level::Module, _) | (_, Grouping::Module) => module_of(graph, task).to_owned(),
        (Level::Kernel, Grouping::Name) => graph.names.get(task.name).to_owned(),
        (Level::Operator, Grouping::Name) => {
            let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
            graph.names.get(operator.map_or(task.name, |operator| operator.name)).to_owned()
        }
    }
}

fn lane_label(graph: &ExecutionGraph, task: &Task) -> String {
    let lane = &graph.lanes[task.lane.0 as usize];
    match lane.kind {
        LaneKind::Thread { tid } => format!("rank {} thread {tid}", lane.rank.0),
        LaneKind::Stream { device, stream } => format!("rank {} device {device} stream {stream}", lane.rank.0),
        LaneKind::Virtual => format!("rank {}", lane.rank.0),
    }
}

/// The nearest recorded module around a task, else the part of training it belongs to.
pub fn module_of<'g>(graph: &'g ExecutionGraph, task: &Task) -> &'g str {
    let operator = |id: OperatorId| graph.operators.get(id.0 as usize);
    let around = || std::iter::successors(task.operator.and_then(operator), |it| it.parent.and_then(operator));
    let module = around().map(|operator| graph.names.get(operator.module)).find(|module| !module.is_empty());
    module.or_else(|| around().next().map(|operator| operator.phase.name())).unwrap_or("outside operators")
}

impl Sum {
    fn add(
        &mut self,
        (works, graph): (&KernelWork, &ExecutionGraph),
        (node, often): (NodeId, u32),
        times: Times<'_>,
        predictor: Option<Predictor<'_>>,
    ) {
        let task = &graph.tasks[node];
        let took = duration(graph, node, times);
        if let Some(id) = task.operator {
            let known = self.operators.entry(id).or_default();
            *known = (*known).max(often);
        }
        if !is_kernel(task) {
            self.host += took;
            return;
        }
        self.kernels += 1;
        self.loose += usize::from(task.operator.is_none());
        self.device += took;
        self.add_work(works, graph, node, took, predictor);
    }

    fn add_work(
        &mut self,
        works: &KernelWork,
        graph: &ExecutionGraph,
        node: NodeId,
        took: DurNs,
        predictor: Option<Predictor<'_>>,
    ) {
        let Some(work) = works.work(node) else { return };
        let placed = predictor.and_then(|it| Some((it, device_of(graph, node, it)?)));
        self.flop.0 += placed.map_or(work.flop.0, |(_, device)| flop_done(work, device));
        self.bytes += work.bytes();
        let is_unsized = matches!(work.shape, Shape::Collective { kind, .. } if kind != CollectiveKind::Barrier)
            && work.bytes() == Bytes(0);
        self.worked += if is_unsized { DurNs::ZERO } else { took };
        if self.longest.is_none_or(|(longest, _)| took > longest) {
            self.longest = Some((took, node));
        }
        let Some((predictor, device)) = placed else { return };
        match bound_of(work, device) {
            Some(Bound::Compute) => self.compute_bound += took,
            Some(Bound::Memory) => self.memory_bound += took,
            None => {}
        }
        if let Some(estimate) = predictor.models.estimate(work, device).filter(|_| work.lacks().is_none()) {
            self.predicted += estimate.duration;
            self.beyond += if estimate.extrapolated { estimate.duration } else { DurNs::ZERO };
            self.covered += took;
        }
    }

    fn row(self, label: String, level: Level) -> Row {
        let known = self.compute_bound + self.memory_bound > DurNs::ZERO;
        let bound = if self.compute_bound > self.memory_bound { Bound::Compute } else { Bound::Memory };
        let is_told = DurNs::ZERO < self.predicted && self.predicted < DurNs::LONGEST;
        let predicted = is_told.then_some(self.predicted.0);
        let calls = self.operators.values().map(|&times| times as usize).sum::<usize>();
        Row {
            label,
            count: if level == Level::Kernel { self.kernels } else { calls + self.loose },
            host_ns: self.host.0,
            device_ns: self.device.0,
            flop: self.flop.0,
            bytes: self.bytes.0,
            work_share: share(self.worked, self.device),
            bound: known.then_some(bound),
            predicted_ns: predicted,
            predicted_share: share(self.covered, self.device),
            deviation: predicted.map(|predicted| self.covered.0 as f64 / predicted as f64 - 1.0),
            extrapolated: self.beyond.0.saturating_mul(2) > self.predicted.0,
            better: None,
        }
    }
}

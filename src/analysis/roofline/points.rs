//! An iteration's work as points under the roofs.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::kernel_work::KernelWork;
use crate::analysis::lanes::Times;
use crate::analysis::operators::Level;
use crate::cost::collective::bus_factor;
use crate::cost::{Shape, Work};
use crate::device::{DeviceProfile, Precision};
use crate::graph::{ExecutionGraph, NodeId, Operator, OperatorId, Task, TaskKind};

use super::{Limit, Load, Roofs};

/// A kernel, an operator, a module or the model under its roofs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Name.
    pub label: String,
    /// Kernels in it whose work is known.
    pub count: usize,
    /// Arithmetic, traffic and time of those kernels; of several ranks, summed.
    #[serde(flatten)]
    pub load: Load,
    /// FLOP per byte of memory traffic; `None` without traffic.
    pub intensity: Option<f64>,
    /// FLOP per byte of network traffic; `None` without any.
    pub communication_intensity: Option<f64>,
    /// FLOP per second reached.
    pub throughput: f64,
    /// FLOP per second that the roofs allow at these intensities.
    pub attainable: f64,
    /// What most of its arithmetic is computed with.
    pub precision: &'static str,
    /// Which roof it lies under.
    pub bound: Limit,
    /// The longest of its kernels.
    #[serde(skip)]
    pub example: NodeId,
}

/// Where the roofs come from.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The device whose peak rates count.
    pub device: &'a DeviceProfile,
    /// Roofs that replace the device's at every precision (a hypothetical device): factors on peak, memory, network.
    pub factors: [f64; 3],
}

impl Place<'_> {
    /// The roofs at `precision`.
    pub fn roofs(&self, precision: Precision) -> Roofs {
        let mut roofs = Roofs::of(self.device, precision);
        roofs.peak.0 *= self.factors[0];
        roofs.memory.0 *= self.factors[1];
        roofs.network = roofs.network.map(|network| crate::units::BytesPerSec(network.0 * self.factors[2]));
        roofs
    }
}

struct Sum {
    load: Load,
    count: usize,
    longest: (f64, NodeId),
    flop_by_precision: BTreeMap<Precision, f64>,
}

/// The points of the chosen iteration at `level`, the longest first, then by label. Work that is not known is left out.
///
/// Operators are the top-level ones: a layer where modules are not recorded.
///
/// # Complexity
/// O(tasks).
pub fn points(graph: &ExecutionGraph, times: Times<'_>, place: &Place<'_>, level: Level) -> Vec<Point> {
    let (belongs, works) = (graph.iteration_tasks(), KernelWork::of(graph));
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for node in graph.tasks.node_indices().filter(|node| belongs[node.index()]) {
        let task = &graph.tasks[node];
        if !task.kind.is_device() && task.kind != TaskKind::Compute {
            continue;
        }
        let Some(work) = works.work(task) else { continue };
        let (start, end) = times.of(graph, node);
        let sum = sums.entry(label(graph, task, level)).or_insert_with(|| Sum {
            load: Load::default(),
            count: 0,
            longest: (-1.0, node),
            flop_by_precision: BTreeMap::new(),
        });
        sum.add(&work, end.since(start).secs(), node);
    }
    let mut points: Vec<Point> = sums.into_iter().map(|(label, sum)| sum.point(label, place)).collect();
    points.sort_by(|a, b| b.load.seconds.total_cmp(&a.load.seconds).then_with(|| a.label.cmp(&b.label)));
    points
}

/// The precision that most of the arithmetic of `points` uses; fp32 without arithmetic.
pub fn dominant_precision(points: &[Point]) -> Precision {
    let mut by_key: BTreeMap<Precision, f64> = BTreeMap::new();
    for point in points {
        if let Some(precision) = Precision::ALL.into_iter().find(|precision| precision.key() == point.precision) {
            *by_key.entry(precision).or_default() += point.load.flop;
        }
    }
    most(&by_key)
}

/// The key with the greatest value, the first of equals; fp32 where all are zero.
fn most(flop: &BTreeMap<Precision, f64>) -> Precision {
    let mut best = (Precision::Fp32, 0.0);
    for (&precision, &flop) in flop {
        if flop > best.1 {
            best = (precision, flop);
        }
    }
    best.0
}

impl Sum {
    fn add(&mut self, work: &Work, seconds: f64, node: NodeId) {
        self.count += 1;
        self.load.seconds += seconds;
        self.load.flop += work.flop.0;
        *self.flop_by_precision.entry(work.precision).or_default() += work.flop.0;
        match work.shape {
            Shape::Collective { kind, ranks } => {
                self.load.network_bytes += work.read.0 as f64 * bus_factor(kind, ranks);
            }
            _ => self.load.bytes += work.bytes().0 as f64,
        }
        if seconds > self.longest.0 {
            self.longest = (seconds, node);
        }
    }

    fn point(self, label: String, place: &Place<'_>) -> Point {
        let precision = most(&self.flop_by_precision);
        let roofs = place.roofs(precision);
        let (intensity, communication) = (self.load.intensity(), self.load.communication_intensity());
        let is_network_only = self.load.network_bytes > 0.0 && self.load.bytes <= 0.0 && self.load.flop <= 0.0;
        Point {
            label,
            count: self.count,
            intensity: Some(intensity).filter(|value| value.is_finite()),
            communication_intensity: Some(communication).filter(|value| value.is_finite()),
            throughput: self.load.throughput().0,
            attainable: roofs.attainable(intensity, communication).0,
            precision: precision.key(),
            bound: if is_network_only { Limit::Network } else { self.load.limit(&roofs) },
            load: self.load,
            example: self.longest.1,
        }
    }
}

fn label(graph: &ExecutionGraph, task: &Task, level: Level) -> String {
    let operator = |id: OperatorId| graph.operators.get(id.0 as usize);
    let own = task.operator.and_then(operator);
    let outward = || std::iter::successors(own, |it| it.parent.and_then(operator));
    let name = |operator: &Operator| graph.names.get(operator.name).to_owned();
    match level {
        Level::Model => "model".to_owned(),
        Level::Kernel => graph.names.get(task.name).to_owned(),
        Level::Operator => outward().last().map_or_else(|| graph.names.get(task.name).to_owned(), name),
        Level::Module => {
            let module = outward().map(|it| graph.names.get(it.module)).find(|module| !module.is_empty());
            let phase = || own.map_or("outside operators", |it| it.phase.name());
            module.unwrap_or_else(phase).to_owned()
        }
    }
}

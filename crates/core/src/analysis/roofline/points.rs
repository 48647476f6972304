//! An iteration's work as points under the roofs.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::analysis::lanes::Times;
use crate::analysis::operators::Level;
use crate::cost::collective::bus_factor;
use crate::cost::conv_algorithm::flop_done;
use crate::cost::structured::access_us;
use crate::cost::{Family, Route, Shape, Work};
use crate::device::{DeviceProfile, Precision};
use crate::graph::{ExecutionGraph, NodeId, OperatorId, Task, TaskKind};
use crate::intern::NameId;
use crate::scenario::KernelWork;

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
    /// What most of its time is.
    pub family: Family,
    /// What most of its arithmetic is computed with.
    pub precision: &'static str,
    /// Which roof it lies under.
    pub bound: Limit,
    /// The longest of its kernels.
    #[serde(skip)]
    pub example: NodeId,
    /// The units of most of its arithmetic, where a device has them.
    #[serde(skip)]
    pub computed_with: Precision,
}

/// Where the roofs come from.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The device whose peak rates count.
    pub device: &'a DeviceProfile,
    /// Roofs that replace the device's at every precision (a hypothetical device): factors on peak, memory, network.
    pub factors: [f64; 3],
    /// By position of a rank, whether its work is under other roofs and left out; empty where none is.
    pub beside: &'a [bool],
}

/// By position of a rank, whether it runs on another device than the first.
pub fn on_other_devices(devices: &[Arc<DeviceProfile>]) -> Vec<bool> {
    devices.iter().map(|device| devices.first().is_some_and(|first| first.id != device.id)).collect()
}

/// How many ranks of `beside` are left out, in words; `None` where none is.
pub fn left_out(beside: &[bool], device: &DeviceProfile) -> Option<String> {
    let count = beside.iter().filter(|is_left| **is_left).count();
    (count > 0).then(|| {
        format!(
            "the work of {count} of {} ranks, which ran on other devices than {}, is left out",
            beside.len(),
            device.id
        )
    })
}

impl Place<'_> {
    /// Whether a task is of a rank whose work is left out.
    fn leaves_out(&self, graph: &ExecutionGraph, task: &Task) -> bool {
        let place = || graph.place_of(graph.lanes[task.lane.0 as usize].rank);
        !self.beside.is_empty() && place().is_some_and(|at| self.beside.get(at) == Some(&true))
    }

    /// The roofs at `precision`.
    pub fn roofs(&self, precision: Precision) -> Roofs {
        let mut roofs = Roofs::of(self.device, precision);
        roofs.peak.0 *= self.factors[0];
        roofs.memory.0 *= self.factors[1];
        roofs.network = roofs.network.map(|network| crate::units::BytesPerSec(network.0 * self.factors[2]));
        roofs
    }
}

impl Point {
    /// The same work under the roofs of `place`: what it could reach there, and what would bound it.
    #[must_use]
    pub fn under(&self, place: &Place<'_>) -> Self {
        let roofs = place.roofs(self.computed_with);
        Self { attainable: attainable(&self.load, &roofs), bound: bound(&self.load, &roofs), ..self.clone() }
    }

    /// Its time under the roofs of `place`, in seconds, if it came as near to them as it comes to those of `now`.
    pub fn seconds_under(&self, now: &Place<'_>, place: &Place<'_>) -> f64 {
        let least = self.least_seconds(now);
        if least > 0.0 { self.load.seconds * self.least_seconds(place) / least } else { self.load.seconds }
    }

    /// The shortest time under the roofs of `place`, in seconds.
    pub fn least_seconds(&self, place: &Place<'_>) -> f64 {
        self.load.least_seconds(&place.roofs(self.computed_with))
    }

    /// The shortest time as a share of its own; `None` where its work is not known, and where it is above roofs by so much that its
    /// operator's arguments are not what it computed.
    ///
    /// # Arguments
    /// `least`: the shortest time, in seconds.
    pub fn share_of_roof(&self, least: f64) -> Option<f64> {
        const MOST: f64 = 10.0;
        let share = least / self.load.seconds;
        (self.bound != Limit::Unknown && share <= MOST).then_some(share)
    }
}

/// What tasks of one point have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Name(NameId),
    Text(&'static str),
}

struct Sum {
    load: Load,
    count: usize,
    longest: (f64, NodeId),
    /// Seconds of kernels that fetch elements one by one and take longer for it than their roofs allow.
    by_accesses: f64,
    flop_by_precision: BTreeMap<Precision, f64>,
    seconds_by_family: BTreeMap<Family, f64>,
}

/// The points of the chosen iteration at `level`, the longest first, then by label. Work that is not known is left out, and so
/// are copies over the host's link, which none of the roofs bounds.
///
/// Operators are the top-level ones: a layer where modules are not recorded.
///
/// # Complexity
/// O(tasks).
pub fn points(tasks: (&ExecutionGraph, &KernelWork), times: Times<'_>, place: &Place<'_>, level: Level) -> Vec<Point> {
    let [points] = points_at(tasks, times, place, [level]);
    points
}

/// The points at each of `levels`, as [`points`] gives them.
///
/// # Complexity
/// O(tasks · levels).
pub fn points_at<const N: usize>(
    (graph, works): (&ExecutionGraph, &KernelWork),
    times: Times<'_>,
    place: &Place<'_>,
    levels: [Level; N],
) -> [Vec<Point>; N] {
    let belongs = graph.iteration_tasks();
    let mut sums: [FxHashMap<Key, Sum>; N] = std::array::from_fn(|_| FxHashMap::default());
    for node in graph.tasks.node_indices().filter(|node| belongs[node.index()]) {
        let task = &graph.tasks[node];
        if !task.kind.is_device() && task.kind != TaskKind::Compute || place.leaves_out(graph, task) {
            continue;
        }
        let Some(work) = works.work(node).filter(|work| is_under_roofs(work)) else { continue };
        let (start, end) = times.of(graph, node);
        let (seconds, by_accesses) = (end.since(start).secs(), is_by_accesses(work, place));
        for (sums, level) in sums.iter_mut().zip(levels) {
            let sum = sums.entry(key(graph, task, level)).or_insert_with(|| Sum::new(node));
            sum.add((work, flop_done(work, place.device)), seconds, node);
            sum.by_accesses += if by_accesses { seconds } else { 0.0 };
        }
    }
    sums.map(|sums| {
        let label = |key| match key {
            Key::Name(name) => graph.names.get(name).to_owned(),
            Key::Text(text) => text.to_owned(),
        };
        let mut points: Vec<Point> = sums.into_iter().map(|(key, sum)| sum.point(label(key), place)).collect();
        points.sort_by(|a, b| b.load.seconds.total_cmp(&a.load.seconds).then_with(|| a.label.cmp(&b.label)));
        points
    })
}

/// Whether the work takes longer to fetch its elements one by one than its roofs allow.
fn is_by_accesses(work: &Work, place: &Place<'_>) -> bool {
    let roofs = place.roofs(work.computed_with());
    let load = Load { flop: flop_done(work, place.device), bytes: work.bytes().0 as f64, ..Load::default() };
    let accesses = access_us(work, place.device) / 1e6 - place.device.kernel_start.secs();
    !matches!(work.shape, Shape::Collective { .. }) && accesses > load.least_seconds(&roofs)
}

/// Whether one of the roofs bounds the work: a copy over the host's link has none here.
fn is_under_roofs(work: &Work) -> bool {
    !matches!(work.shape, Shape::Copy { route: Route::HostToDevice | Route::DeviceToHost, .. })
}

/// The precision that most of the arithmetic of `points` uses on `device`; fp32 without arithmetic.
pub fn dominant_precision(points: &[Point], device: &DeviceProfile) -> Precision {
    let mut by_key: BTreeMap<Precision, f64> = BTreeMap::new();
    for point in points {
        *by_key.entry(point.computed_with).or_default() += point.load.flop;
    }
    device.units_named(most(&by_key))
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
    fn new(node: NodeId) -> Self {
        Self {
            load: Load::default(),
            count: 0,
            longest: (-1.0, node),
            by_accesses: 0.0,
            flop_by_precision: BTreeMap::new(),
            seconds_by_family: BTreeMap::new(),
        }
    }

    fn add(&mut self, (work, flop): (&Work, f64), seconds: f64, node: NodeId) {
        self.count += 1;
        self.load.seconds += seconds;
        self.load.flop += flop;
        *self.seconds_by_family.entry(work.family).or_default() += seconds;
        *self.flop_by_precision.entry(work.computed_with()).or_default() += flop;
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
        let longest = self.seconds_by_family.iter().max_by(|a, b| a.1.total_cmp(b.1).then_with(|| b.0.cmp(a.0)));
        Point {
            label,
            count: self.count,
            intensity: Some(intensity).filter(|value| value.is_finite()),
            communication_intensity: Some(communication).filter(|value| value.is_finite()),
            throughput: self.load.throughput().0,
            attainable: attainable(&self.load, &roofs),
            family: longest.map_or(Family::Other, |(&family, _)| family),
            precision: place.device.units_named(precision).key(),
            computed_with: precision,
            bound: if 2.0 * self.by_accesses > self.load.seconds { Limit::Accesses } else { bound(&self.load, &roofs) },
            load: self.load,
            example: self.longest.1,
        }
    }
}

fn attainable(load: &Load, roofs: &Roofs) -> f64 {
    roofs.attainable(load.intensity(), load.communication_intensity()).0
}

/// What limits `load`; a transfer over the network alone has no arithmetic to compare with.
fn bound(load: &Load, roofs: &Roofs) -> Limit {
    match (load.flop > 0.0 || load.bytes > 0.0, load.network_bytes > 0.0) {
        (true, _) => load.limit(roofs),
        (false, true) => Limit::Network,
        (false, false) => Limit::Unknown,
    }
}

/// Kernels and copies of the chosen iteration whose work is not known, so that no point holds them, and their time in seconds.
///
/// # Complexity
/// O(tasks).
pub fn unknown((graph, works): (&ExecutionGraph, &KernelWork), times: Times<'_>, place: &Place<'_>) -> (usize, f64) {
    let belongs = graph.iteration_tasks();
    let device = graph.tasks.node_indices().filter(|node| belongs[node.index()] && graph.tasks[*node].kind.is_device());
    let own = device.filter(|&node| !place.leaves_out(graph, &graph.tasks[node]));
    let unknown = own.filter(|&node| !works.is_removed(node) && works.work(node).is_none());
    unknown.fold((0, 0.0), |(count, seconds), node| {
        let (start, end) = times.of(graph, node);
        (count + 1, seconds + end.since(start).secs())
    })
}

fn key(graph: &ExecutionGraph, task: &Task, level: Level) -> Key {
    let operator = |id: OperatorId| graph.operators.get(id.0 as usize);
    let own = task.operator.and_then(operator);
    let outward = || std::iter::successors(own, |it| it.parent.and_then(operator));
    match level {
        Level::Model => Key::Text("model"),
        Level::Kernel => Key::Name(task.name),
        Level::Operator => Key::Name(outward().last().map_or(task.name, |operator| operator.name)),
        Level::Module => {
            let module = outward().map(|it| it.module).find(|&module| !graph.names.get(module).is_empty());
            module.map_or_else(|| Key::Text(own.map_or("outside operators", |it| it.phase.name())), Key::Name)
        }
    }
}

//! Layers and kernels of one run, and several runs as one.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::lanes::Times;
use crate::analysis::roofline::{Limit, Load, Roofs};
use crate::cost::conv_algorithm::flop_done;
use crate::device::{DeviceProfile, Precision};
use crate::graph::{ExecutionGraph, NodeId, Operand, OperatorId, Task, TaskKind};
use crate::scenario::KernelWork;
use crate::stats;
use crate::units::{DurNs, TimeNs};

/// A layer: a top-level operator call of the first rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Layer {
    /// Place in the order of execution, from 0.
    pub index: usize,
    /// Its module where recorded, else the operator.
    pub name: String,
    /// The operator.
    #[serde(rename = "type")]
    pub kind: String,
    /// Part of training.
    pub phase: &'static str,
    /// Shape of its first tensor; empty where not recorded.
    pub shape: Vec<u64>,
    /// Time during which the host worked on it or one of its kernels ran.
    pub latency_ns: DurNs,
    /// Time during which one of its kernels ran.
    pub kernel_ns: DurNs,
    /// Bytes that its kernels write: what it allocates at most.
    pub memory_bytes: u64,
    /// FLOP, traffic and time of its kernels.
    #[serde(flatten)]
    pub load: Load,
    /// What bounds it; `None` where no work is known.
    pub bound: Option<Limit>,
    /// The call.
    #[serde(skip)]
    pub operator: OperatorId,
}

/// Device work of the first rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerKernel {
    /// Place in the order of execution, from 0.
    pub index: usize,
    /// Its layer; `None` outside layers.
    pub layer: Option<usize>,
    /// Name.
    pub name: String,
    /// Length.
    pub duration_ns: DurNs,
    /// FLOP, traffic and time; work is zero where not known.
    #[serde(flatten)]
    pub load: Load,
    /// What of the traffic it writes.
    pub written_bytes: u64,
    /// How it computes; `None` where its work is not known.
    pub precision: Option<&'static str>,
    /// The same.
    #[serde(skip)]
    pub computed_with: Option<Precision>,
    /// FLOP per byte; `None` without traffic.
    pub intensity: Option<f64>,
    /// FLOP per second.
    pub throughput: f64,
    /// What bounds it; `None` where its work is not known.
    pub bound: Option<Limit>,
    /// Share of the threads the device can hold that it keeps resident; `None` where its launch was not recorded.
    pub occupancy: Option<f64>,
    /// The task.
    #[serde(skip)]
    pub node: NodeId,
}

/// Share of the layers of two runs of one model that have the same sizes at least: some go by the data.
const OF_ONE_MODEL: f64 = 0.8;

/// Layers and kernels of one run, or of several as one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerTable {
    /// Layers in order.
    pub layers: Vec<Layer>,
    /// Device work in order (computations of a host without device).
    pub kernels: Vec<LayerKernel>,
    /// Time of the iteration.
    pub latency: DurNs,
    /// Batch size, as far as known.
    pub batch: Option<u64>,
    /// Samples that the iteration has, which may hold several batches; as far as known.
    pub samples: Option<f64>,
}

type Span = (TimeNs, TimeNs);

impl LayerTable {
    /// The first rank of the chosen iteration, with the roofs of `device` for what bounds it and `occupancy` of its kernels.
    ///
    /// # Complexity
    /// O(tasks · log tasks).
    pub fn of(
        (graph, works): (&ExecutionGraph, &KernelWork),
        times: Times<'_>,
        device: &DeviceProfile,
        occupancy: impl Fn(&Task) -> Option<f64>,
    ) -> Self {
        let (belongs, tops) = (graph.iteration_tasks(), graph.top_level_operators());
        let Some(part) = graph.ranks.first() else { return Self::default() };
        let period = times.period(graph, part);
        let batch = graph.batch_size;
        let samples = graph.samples_of(part);
        let mut table = Self { latency: period.end.since(period.start), batch, samples, ..Self::default() };
        let mut layer_of: BTreeMap<OperatorId, usize> = BTreeMap::new();
        let mut layers: Vec<(Layer, Vec<Span>, Vec<Span>)> = Vec::new();
        let mut nodes: Vec<_> =
            graph.tasks.node_indices().filter(|&node| belongs[node.index()] && !works.is_removed(node)).collect();
        nodes.sort_by_key(|&node| (times.of(graph, node).0, node));
        for node in nodes {
            let task = &graph.tasks[node];
            if graph.lanes[task.lane.0 as usize].rank != part.rank || !task.kind.is_work() {
                continue;
            }
            let span = without_waiting(graph, node, times);
            let top = task.operator.map(|id| tops[id.0 as usize]);
            let layer = top.map(|id| {
                *layer_of.entry(id).or_insert_with(|| {
                    layers.push((new_layer(graph, works, id, layers.len()), Vec::new(), Vec::new()));
                    layers.len() - 1
                })
            });
            let is_kernel = task.kind.is_device() || task.kind == TaskKind::Compute;
            if let Some(layer) = layer {
                layers[layer].1.push(span);
                if is_kernel {
                    layers[layer].2.push(span);
                }
            }
            if is_kernel {
                let (load, computed_with, written) = match works.work(node) {
                    Some(work) => {
                        let bytes = work.bytes().0 as f64;
                        let (flop, seconds) = (flop_done(work, device), span.1.since(span.0).secs());
                        let load = Load { flop, bytes, network_bytes: 0.0, seconds };
                        (load, Some(work.computed_with()), work.written.0)
                    }
                    None => (Load { seconds: span.1.since(span.0).secs(), ..Load::default() }, None, 0),
                };
                let roofs = computed_with.filter(|_| device.is_known()).map(|units| Roofs::of(device, units));
                if let Some(layer) = layer {
                    layers[layer].0.add(&load, roofs.as_ref(), written);
                }
                let name = graph.names.get(task.name).to_owned();
                let occupancy = occupancy(task).filter(|_| task.kind == TaskKind::Kernel);
                table.kernels.push(LayerKernel {
                    occupancy,
                    written_bytes: written,
                    node,
                    precision: computed_with.map(|units| device.units_named(units).key()),
                    computed_with,
                    ..kernel(table.kernels.len(), layer, name, load, roofs)
                });
            }
        }
        table.layers = layers.into_iter().map(|(layer, all, kernels)| layer.timed(all, kernels)).collect();
        table
    }

    /// Whether it is of the model that `other` is of: the same layers in the same order, of the same sizes but for the batch, where either
    /// has any.
    pub fn is_of_model(&self, other: &Self) -> bool {
        let either_has_none = self.layers.is_empty() || other.layers.is_empty();
        let names = |table: &Self| table.layers.iter().map(|layer| layer.name.clone()).collect::<Vec<_>>();
        either_has_none || names(self) == names(other) && self.has_sizes_of(other)
    }

    /// Whether dimensions of most layers are those of `other`, or as much larger as the batch.
    fn has_sizes_of(&self, other: &Self) -> bool {
        let pairs = self.layers.iter().zip(&other.layers).map(|(mine, theirs)| (&mine.shape, &theirs.shape));
        let known: Vec<(&Vec<u64>, &Vec<u64>)> = pairs.filter(|(a, b)| !a.is_empty() && !b.is_empty()).collect();
        let dims = || known.iter().flat_map(|(a, b)| a.iter().copied().zip(b.iter().copied()));
        // Without batch sizes the first dimension that differs tells them.
        let batches = self.batch.zip(other.batch).or_else(|| dims().find(|(a, b)| a != b)).unwrap_or((1, 1));
        let is_scaled =
            |(a, b): (u64, u64)| u128::from(a) * u128::from(batches.1) == u128::from(b) * u128::from(batches.0);
        let alike = |(a, b): &&(&Vec<u64>, &Vec<u64>)| {
            a.len() == b.len() && a.iter().zip(*b).all(|(&a, &b)| a == b || is_scaled((a, b)))
        };
        known.iter().filter(alike).count() as f64 >= OF_ONE_MODEL * known.len() as f64
    }

    /// Several runs of the same model as one: every time is the trimmed mean over the runs that have the layer or kernel, as
    /// which call of its name it is. Everything else is the first run's.
    pub fn merged(runs: &[Self]) -> Self {
        let Some(first) = runs.first() else { return Self::default() };
        let mut merged = first.clone();
        merged.latency = trimmed_mean(runs.iter().map(|run| run.latency));
        let layers: Vec<Vec<(String, usize)>> =
            runs.iter().map(|run| keys(run.layers.iter().map(|it| &it.name))).collect();
        let kernels: Vec<Vec<(String, usize)>> =
            runs.iter().map(|run| keys(run.kernels.iter().map(|it| &it.name))).collect();
        let places = |keys: &[Vec<(String, usize)>]| -> Vec<BTreeMap<(String, usize), usize>> {
            keys.iter().map(|run| run.iter().cloned().enumerate().map(|(at, key)| (key, at)).collect()).collect()
        };
        let (layer_at, kernel_at) = (places(&layers), places(&kernels));
        for (layer, key) in merged.layers.iter_mut().zip(&layers[0]) {
            let same = || runs.iter().zip(&layer_at).filter_map(|(run, at)| Some(&run.layers[*at.get(key)?]));
            layer.latency_ns = trimmed_mean(same().map(|it| it.latency_ns));
            layer.kernel_ns = trimmed_mean(same().map(|it| it.kernel_ns));
            layer.load.seconds = layer.kernel_ns.secs();
        }
        for (kernel, key) in merged.kernels.iter_mut().zip(&kernels[0]) {
            let same = runs.iter().zip(&kernel_at).filter_map(|(run, at)| Some(&run.kernels[*at.get(key)?]));
            kernel.duration_ns = trimmed_mean(same.map(|it| it.duration_ns));
            kernel.load.seconds = kernel.duration_ns.secs();
            kernel.throughput = kernel.load.throughput().0;
        }
        merged
    }
}

/// Each name with which occurrence of it it is.
fn keys<'a>(names: impl Iterator<Item = &'a String>) -> Vec<(String, usize)> {
    let mut seen: BTreeMap<&String, usize> = BTreeMap::new();
    names
        .map(|name| {
            let count = seen.entry(name).or_default();
            *count += 1;
            (name.clone(), *count)
        })
        .collect()
}

/// The mean without the fifth of the values at either end, at least one each from three on; zero of none.
pub fn trimmed_mean(values: impl IntoIterator<Item = DurNs>) -> DurNs {
    let mut values: Vec<f64> = values.into_iter().map(|value| value.0 as f64).collect();
    let cut = if values.len() >= 3 { (values.len() / 5).max(1) } else { 0 };
    DurNs(stats::trimmed_mean(&mut values, cut).unwrap_or_default() as i64)
}

fn new_layer(graph: &ExecutionGraph, works: &KernelWork, id: OperatorId, index: usize) -> Layer {
    let operator = graph.operators.get(id.0 as usize);
    let kind = operator.map_or("", |operator| graph.names.get(operator.name)).to_owned();
    let module = operator.map_or("", |operator| graph.names.get(operator.module));
    // A source line is no module.
    let module = if module.contains(".py(") { "" } else { module };
    Layer {
        index,
        name: if module.is_empty() { kind.clone() } else { module.to_owned() },
        kind,
        phase: operator.map_or("other", |operator| operator.phase.name()),
        shape: first_shape(graph, works, id).unwrap_or_default(),
        latency_ns: DurNs::ZERO,
        kernel_ns: DurNs::ZERO,
        memory_bytes: 0,
        load: Load::default(),
        bound: None,
        operator: id,
    }
}

fn first_shape(graph: &ExecutionGraph, works: &KernelWork, id: OperatorId) -> Option<Vec<u64>> {
    let operands = works.operands(graph, id)?;
    operands.inputs.iter().find_map(Operand::dims).map(<[u64]>::to_vec)
}

impl Layer {
    fn add(&mut self, load: &Load, roofs: Option<&Roofs>, written: u64) {
        self.memory_bytes = self.memory_bytes.saturating_add(written);
        self.load.flop += load.flop;
        self.load.bytes += load.bytes;
        if let Some(roofs) = roofs {
            self.bound = Some(self.load.limit(roofs));
        }
    }

    fn timed(mut self, all: Vec<Span>, kernels: Vec<Span>) -> Self {
        self.latency_ns = covered(all);
        self.kernel_ns = covered(kernels);
        self.load.seconds = self.kernel_ns.secs();
        self
    }
}

fn kernel(index: usize, layer: Option<usize>, name: String, load: Load, roofs: Option<Roofs>) -> LayerKernel {
    LayerKernel {
        index,
        layer,
        name,
        duration_ns: DurNs::from_secs_f64(load.seconds),
        intensity: Some(load.intensity()).filter(|value| load.bytes > 0.0 && value.is_finite()),
        throughput: load.throughput().0,
        bound: roofs.map(|roofs| load.limit(&roofs)),
        written_bytes: 0,
        precision: None,
        computed_with: None,
        occupancy: None,
        node: NodeId::default(),
        load,
    }
}

/// When `node` ran. A collective as measured runs on while other ranks are late: its waiting counts on neither side of an edit.
fn without_waiting(graph: &ExecutionGraph, node: NodeId, times: Times<'_>) -> Span {
    let (start, end) = times.of(graph, node);
    let task = &graph.tasks[node];
    match (times, task.kind) {
        (Times::Measured, TaskKind::Collective(_)) => (start.max(end - task.duration), end),
        _ => (start, end),
    }
}

/// Time that at least one of `spans` covers.
fn covered(mut spans: Vec<Span>) -> DurNs {
    spans.sort_unstable();
    let (mut total, mut reached) = (DurNs::ZERO, TimeNs(i64::MIN));
    for (start, end) in spans {
        let from = start.max(reached);
        if end > from {
            total += end.since(from);
            reached = end;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_spans_count_once() {
        let span = |a, b| (TimeNs(a), TimeNs(b));
        assert_eq!(covered(vec![span(5, 9), span(0, 6), span(20, 21), span(1, 2)]), DurNs(10));
        assert_eq!(covered(Vec::new()), DurNs(0));
    }

    #[test]
    fn the_trimmed_mean_drops_an_outlier_at_either_end() {
        let mean = |values: &[i64]| trimmed_mean(values.iter().map(|&ns| DurNs(ns))).0;
        assert_eq!(mean(&[10, 11, 900]), 11);
        assert_eq!(mean(&[10, 20]), 15);
        assert_eq!(mean(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 1000]), 5);
        assert_eq!(mean(&[]), 0);
    }
}

//! What the tables come to: by type, by name, by layer, by stage, for the whole model.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::roofline::{Limit, Load, Roofs};
use crate::device::{DeviceProfile, Precision};
use crate::units::{self, DurNs};

use super::table::{Layer, LayerKernel, LayerTable};

/// Layers of one type (analyses 5 to 7).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerType {
    /// The operator.
    #[serde(rename = "type")]
    pub kind: String,
    /// How many.
    pub count: usize,
    /// Their latency.
    pub latency_ns: DurNs,
    /// What they allocate at most.
    pub memory_bytes: u64,
}

/// Kernels taken together: of one name (10), of one layer (11), of the model (15).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelSum {
    /// The name; of a layer its own.
    pub name: String,
    /// The layer, for analysis 11.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layer: Option<usize>,
    /// How many kernels.
    pub count: usize,
    /// Their time.
    pub latency_ns: DurNs,
    /// Their time as a share of the iteration; where all kernels side by side take longer together, of that.
    pub latency_share: f64,
    /// FLOP, traffic and time.
    #[serde(flatten)]
    pub load: Load,
    /// What of the traffic is read.
    pub read_bytes: u64,
    /// What of it is written.
    pub written_bytes: u64,
    /// FLOP per byte; `None` without traffic.
    pub intensity: Option<f64>,
    /// FLOP per second.
    pub throughput: f64,
    /// What bounds them together; `None` where no work is known.
    pub bound: Option<Limit>,
    /// Occupancy, weighted by time; `None` where no launch was recorded.
    pub occupancy: Option<f64>,
}

/// Which third of the layers has most of something.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// Of what: latency, memory, FLOP or traffic.
    pub metric: &'static str,
    /// Share of the first third of the layers.
    pub begin: f64,
    /// Share of the second.
    pub middle: f64,
    /// Share of the last.
    pub end: f64,
    /// The third with the most, the first of equals.
    pub dominant: &'static str,
}

/// Layers by type, the most latency first (analyses 5, 6, 7).
pub fn by_type(layers: &[Layer]) -> Vec<LayerType> {
    let mut types: BTreeMap<&str, LayerType> = BTreeMap::new();
    for layer in layers {
        let none = || LayerType { kind: layer.kind.clone(), count: 0, latency_ns: DurNs::ZERO, memory_bytes: 0 };
        let sum = types.entry(&layer.kind).or_insert_with(none);
        sum.count += 1;
        sum.latency_ns += layer.latency_ns;
        sum.memory_bytes = sum.memory_bytes.saturating_add(layer.memory_bytes);
    }
    let mut types: Vec<LayerType> = types.into_values().collect();
    types.sort_by_key(|sum| std::cmp::Reverse(sum.latency_ns));
    types
}

/// Kernels by name, the most time first (analysis 10).
pub fn by_name(table: &LayerTable, device: &DeviceProfile) -> Vec<KernelSum> {
    let mut groups: BTreeMap<&str, Vec<&LayerKernel>> = BTreeMap::new();
    for kernel in &table.kernels {
        groups.entry(&kernel.name).or_default().push(kernel);
    }
    let whole = whole(table);
    let sums = groups.into_iter().map(|(name, kernels)| sum(name, None, &kernels, whole, device));
    let mut sums: Vec<KernelSum> = sums.collect();
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.latency_ns));
    sums
}

/// Kernels by layer, in the order of layers; layers without kernels are left out (analysis 11).
pub fn by_layer(table: &LayerTable, device: &DeviceProfile) -> Vec<KernelSum> {
    let mut groups: BTreeMap<usize, Vec<&LayerKernel>> = BTreeMap::new();
    for kernel in &table.kernels {
        if let Some(layer) = kernel.layer {
            groups.entry(layer).or_default().push(kernel);
        }
    }
    let whole = whole(table);
    let of = |(layer, kernels): (usize, Vec<&LayerKernel>)| {
        sum(&table.layers[layer].name, Some(layer), &kernels, whole, device)
    };
    groups.into_iter().map(of).collect()
}

/// All kernels together (analysis 15).
pub fn model(table: &LayerTable, device: &DeviceProfile) -> KernelSum {
    let all: Vec<&LayerKernel> = table.kernels.iter().collect();
    sum("model", None, &all, whole(table), device)
}

/// What shares are of: the iteration, or all kernels where they run side by side and take longer together.
fn whole(table: &LayerTable) -> DurNs {
    table.latency.max(table.kernels.iter().map(|kernel| kernel.duration_ns).sum())
}

fn sum(name: &str, layer: Option<usize>, kernels: &[&LayerKernel], whole: DurNs, device: &DeviceProfile) -> KernelSum {
    let latency: DurNs = kernels.iter().map(|kernel| kernel.duration_ns).sum();
    // A sum of nothing would be a negative zero.
    let total = |of: fn(&Load) -> f64| kernels.iter().fold(0.0, |sum, kernel| sum + of(&kernel.load));
    let load = Load {
        flop: total(|load| load.flop),
        bytes: total(|load| load.bytes),
        network_bytes: 0.0,
        seconds: latency.secs(),
    };
    let written_bytes = units::total(kernels.iter().map(|kernel| kernel.written_bytes));
    KernelSum {
        name: name.to_owned(),
        layer,
        read_bytes: (load.bytes as u64).saturating_sub(written_bytes),
        written_bytes,
        count: kernels.len(),
        latency_ns: latency,
        latency_share: latency.0 as f64 / whole.0.max(1) as f64,
        intensity: (load.bytes > 0.0).then(|| load.intensity()),
        throughput: load.throughput().0,
        bound: kernels
            .iter()
            .any(|kernel| kernel.bound.is_some())
            .then(|| load.limit(&Roofs::of(device, precision(kernels)))),
        occupancy: weighted(kernels.iter().filter_map(|kernel| Some((kernel.occupancy?, kernel.duration_ns)))),
        load,
    }
}

/// The precision of most of the arithmetic; fp32 without any.
fn precision(kernels: &[&LayerKernel]) -> Precision {
    let mut flop: BTreeMap<Precision, f64> = BTreeMap::new();
    for kernel in kernels {
        if let Some(precision) = kernel.computed_with {
            *flop.entry(precision).or_default() += kernel.load.flop;
        }
    }
    let most = flop.into_iter().filter(|(_, flop)| *flop > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
    most.map_or(Precision::Fp32, |(precision, _)| precision)
}

/// Mean weighted by time; `None` of nothing that takes any.
fn weighted(values: impl Iterator<Item = (f64, DurNs)>) -> Option<f64> {
    let (sum, time) =
        values.fold((0.0, 0.0), |(sum, time), (value, took)| (sum + value * took.secs(), time + took.secs()));
    (time > 0.0).then(|| sum / time)
}

/// What is summed up over layers.
type Metric = fn(&Layer) -> f64;

/// Which third of the layers dominates latency, memory, FLOP and traffic [Li 2019 Table 8].
pub fn stages(layers: &[Layer]) -> Vec<Stage> {
    let metrics: [(&'static str, Metric); 4] = [
        ("latency", |layer| layer.latency_ns.0 as f64),
        ("memory", |layer| layer.memory_bytes as f64),
        ("flop", |layer| layer.load.flop),
        ("traffic", |layer| layer.load.bytes),
    ];
    metrics.into_iter().map(|(metric, of)| stage(metric, layers, of)).collect()
}

fn stage(metric: &'static str, layers: &[Layer], of: Metric) -> Stage {
    let mut thirds = [0.0; 3];
    for (place, layer) in layers.iter().enumerate() {
        thirds[(3 * place / layers.len()).min(2)] += of(layer);
    }
    let total: f64 = thirds.iter().sum();
    let [begin, middle, end] = thirds.map(|third| if total > 0.0 { third / total } else { 0.0 });
    let dominant = if begin >= middle && begin >= end {
        "begin"
    } else if middle >= end {
        "middle"
    } else {
        "end"
    };
    Stage { metric, begin, middle, end, dominant }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Catalog;

    fn layer(index: usize, kind: &str, latency: i64, flop: f64) -> Layer {
        Layer {
            index,
            name: kind.to_owned(),
            kind: kind.to_owned(),
            phase: "forward",
            shape: vec![1],
            latency_ns: DurNs(latency),
            kernel_ns: DurNs(latency / 2),
            memory_bytes: 8,
            load: Load { flop, bytes: 1.0, network_bytes: 0.0, seconds: 1.0 },
            bound: Some(Limit::Memory),
            operator: crate::graph::OperatorId(index as u32),
        }
    }

    #[test]
    fn layers_add_up_by_type_and_thirds() {
        let layers = [layer(0, "conv", 50, 1.0), layer(1, "relu", 10, 2.0), layer(2, "conv", 20, 9.0)];
        let types = by_type(&layers);
        assert_eq!((types[0].kind.as_str(), types[0].count, types[0].latency_ns.0), ("conv", 2, 70));
        assert_eq!(types[1].memory_bytes, 8);
        let stages = stages(&layers);
        assert_eq!((stages[0].metric, stages[0].dominant), ("latency", "begin"));
        assert!((stages[0].begin - 50.0 / 80.0).abs() < 1e-12);
        assert_eq!((stages[1].metric, stages[1].dominant), ("memory", "begin"));
        assert_eq!((stages[2].metric, stages[2].dominant), ("flop", "end"));
    }

    #[test]
    fn kernels_add_up_by_name_layer_and_model() {
        let kernel = |index, layer, name: &str, ns| LayerKernel {
            index,
            layer,
            name: name.to_owned(),
            duration_ns: DurNs(ns),
            load: Load { flop: 100.0, bytes: 10.0, network_bytes: 0.0, seconds: ns as f64 / 1e9 },
            intensity: Some(10.0),
            throughput: 0.0,
            bound: Some(Limit::Compute),
            written_bytes: 4,
            precision: None,
            computed_with: Some(if name == "a" { Precision::Fp32 } else { Precision::Fp16Tensor }),
            occupancy: layer.map(|_| if name == "a" { 0.25 } else { 0.5 }),
            node: crate::graph::NodeId::new(index),
        };
        let table = LayerTable {
            layers: vec![layer(0, "conv", 50, 1.0)],
            kernels: vec![kernel(0, Some(0), "a", 5), kernel(1, None, "a", 15), kernel(2, Some(0), "b", 30)],
            latency: DurNs(100),
            batch: Some(4),
            samples: Some(4.0),
        };
        let catalog = Catalog::builtin().unwrap();
        let roofs = catalog.find("V100").unwrap();
        let names = by_name(&table, roofs);
        assert_eq!((names[0].name.as_str(), names[1].name.as_str(), names[1].count), ("b", "a", 2));
        assert!((names[1].latency_share - 0.2).abs() < 1e-12);
        let beside = LayerTable { latency: DurNs(10), ..table.clone() };
        assert!((model(&beside, roofs).latency_share - 1.0).abs() < 1e-12, "streams side by side");
        assert_eq!(by_layer(&table, roofs)[0].latency_ns, DurNs(35));
        // 5 ns at a quarter, 30 ns at a half; the kernel outside layers has none.
        assert!((by_layer(&table, roofs)[0].occupancy.unwrap() - (5.0 * 0.25 + 30.0 * 0.5) / 35.0).abs() < 1e-12);
        let model = model(&table, roofs);
        assert_eq!((model.count, model.intensity, model.bound), (3, Some(10.0), Some(Limit::Memory)));
        assert_eq!(
            (model.read_bytes, model.written_bytes),
            (18, 12),
            "10 bytes of each of three kernels, 4 of them written"
        );
        assert!((model.throughput - 300.0 / 50e-9).abs() < 1.0);
    }
}

//! Across the stack: the fifteen analyses of one run, or of several runs as trimmed means [Li 2019].

mod tables;

use std::cmp::Reverse;

use serde::Serialize;

use retime_core::analysis::layers::{
    self, BatchRow, KernelSum, Layer, LayerKernel, LayerType, LevelRow, Profile, Run, Stage,
};
use retime_core::analysis::roofline::Limit;
use retime_core::units::DurNs;

pub use tables::{StudyTable, study_title};

/// How many analyses there are.
pub const ANALYSES: u8 = 15;

/// All analyses; what follows the batch size is of that.
#[derive(Clone, Debug, Serialize)]
pub struct LayerStudy {
    /// Where the first run ran.
    pub device: String,
    runs: usize,
    /// Those of another model, on another device or recorded in other detail, which are in no mean of the first.
    other_runs: usize,
    /// Models, devices and frameworks side by side.
    pub profiles: Vec<Profile>,
    /// The first of them by batch size.
    pub batch_sizes: Vec<BatchRow>,
    /// The batch size worth taking; `None` where no two sizes tell.
    pub optimal_batch: Option<u64>,
    /// The batch size of all that follows.
    pub batch: Option<u64>,
    /// Time of all kernels.
    pub kernels_ns: DurNs,
    /// That of kernels in no layer: they have no recorded operator.
    pub outside_layers_ns: DurNs,
    /// That of kernels whose work is not known: they count as having none.
    pub unknown_work_ns: DurNs,
    /// Layers in order.
    pub layers: Vec<Layer>,
    layer_latency: Vec<Series<DurNs>>,
    layer_memory: Vec<Series<u64>>,
    count_by_type: Vec<OfType<usize>>,
    latency_by_type: Vec<OfType<DurNs>>,
    memory_by_type: Vec<OfType<u64>>,
    kernels: Vec<LayerKernel>,
    kernel_roofline: Vec<RoofPoint>,
    kernels_by_name: Vec<KernelSum>,
    kernels_by_layer: Vec<KernelSum>,
    layer_work: Vec<LayerWork>,
    layer_host: Vec<LayerHost>,
    layer_roofline: Vec<RoofPoint>,
    /// All kernels together.
    pub model: Vec<KernelSum>,
    /// Which third of the layers has most of what.
    pub stages: Vec<Stage>,
    /// What recording in more detail costs.
    pub profiling_levels: Vec<LevelRow>,
}

#[derive(Clone, Debug, Serialize)]
struct Series<T> {
    index: usize,
    name: String,
    value: T,
}

#[derive(Clone, Debug, Serialize)]
struct OfType<T> {
    #[serde(rename = "type")]
    kind: String,
    value: T,
}

#[derive(Clone, Debug, Serialize)]
struct RoofPoint {
    index: usize,
    name: String,
    intensity: f64,
    throughput: f64,
    bound: Option<Limit>,
}

#[derive(Clone, Debug, Serialize)]
struct LayerWork {
    index: usize,
    name: String,
    flop: f64,
    bytes: f64,
}

#[derive(Clone, Debug, Serialize)]
struct LayerHost {
    index: usize,
    name: String,
    latency_ns: DurNs,
    kernel_ns: DurNs,
    host_ns: DurNs,
}

impl LayerStudy {
    /// The analyses of `runs`; those of another model, device or detail stand beside the first only.
    ///
    /// # Arguments
    /// `target`: the longest latency that the optimal batch may have.
    ///
    /// # Returns
    /// `None` without any run.
    ///
    /// # Complexity
    /// O(kernels · log kernels).
    pub fn of(runs: &[Run<'_>], target: Option<DurNs>) -> Option<Self> {
        let found = layers::profiles(runs, target);
        let (first, table) = found.first().cloned()?;
        let device = runs.first()?.device;
        // What each level of profiling costs is told at one batch size of one model on one device.
        let same = |run: &&Run<'_>| {
            run.table.batch == table.batch && run.table.is_of_model(&table) && run.device.id == device.id
        };
        let levels: Vec<_> =
            runs.iter().filter(same).filter_map(|run| Some((run.recorded?, run.table.latency))).collect();
        let types = layers::by_type(&table.layers);
        let kernel_time = |counts: fn(&LayerKernel) -> bool| {
            table.kernels.iter().filter(|kernel| counts(kernel)).map(|kernel| kernel.duration_ns).sum()
        };
        Some(Self {
            kernels_ns: kernel_time(|_| true),
            outside_layers_ns: kernel_time(|kernel| kernel.layer.is_none()),
            unknown_work_ns: kernel_time(|kernel| kernel.computed_with.is_none()),
            device: first.device,
            runs: runs.len(),
            other_runs: runs.len() - first.runs,
            profiling_levels: layers::levels(&levels),
            optimal_batch: first.optimal_batch,
            batch_sizes: first.batch_sizes,
            batch: table.batch,
            layer_latency: series(&table.layers, |layer| layer.latency_ns),
            layer_memory: series(&table.layers, |layer| layer.memory_bytes),
            count_by_type: of_types(&types, |it| it.count),
            latency_by_type: of_types(&types, |it| it.latency_ns),
            memory_by_type: of_types(&types, |it| it.memory_bytes),
            kernel_roofline: kernel_points(&table.kernels),
            kernels_by_name: layers::by_name(&table, device),
            kernels_by_layer: layers::by_layer(&table, device),
            layer_work: table.layers.iter().map(work).collect(),
            layer_host: table.layers.iter().map(host).collect(),
            layer_roofline: table.layers.iter().filter_map(layer_point).collect(),
            model: vec![first.model],
            stages: first.stages,
            profiles: found.into_iter().map(|(profile, _)| profile).collect(),
            layers: table.layers,
            kernels: table.kernels,
        })
    }

    /// The table of analysis `number`, in the paper's order from 1.
    pub fn analysis(&self, number: u8) -> StudyTable {
        tables::of(self, number)
    }

    /// The layers, the longest first.
    pub fn slowest(&self) -> StudyTable {
        let mut slowest: Vec<&Layer> = self.layers.iter().collect();
        slowest.sort_by_key(|layer| Reverse(layer.latency_ns));
        tables::layers(slowest.into_iter())
    }

    /// Count, latency and memory by type of layer.
    pub fn types(&self) -> StudyTable {
        tables::types(self)
    }
}

fn series<T>(layers: &[Layer], value: fn(&Layer) -> T) -> Vec<Series<T>> {
    layers.iter().map(|it| Series { index: it.index, name: it.name.clone(), value: value(it) }).collect()
}

fn of_types<T>(types: &[LayerType], value: fn(&LayerType) -> T) -> Vec<OfType<T>> {
    types.iter().map(|it| OfType { kind: it.kind.clone(), value: value(it) }).collect()
}

fn kernel_points(kernels: &[LayerKernel]) -> Vec<RoofPoint> {
    let point = |it: &LayerKernel| {
        let (index, name, throughput, bound) = (it.index, it.name.clone(), it.throughput, it.bound);
        Some(RoofPoint { index, name, intensity: it.intensity?, throughput, bound })
    };
    kernels.iter().filter_map(point).collect()
}

fn layer_point(it: &Layer) -> Option<RoofPoint> {
    (it.load.bytes > 0.0).then(|| RoofPoint {
        index: it.index,
        name: it.name.clone(),
        intensity: it.load.intensity(),
        throughput: it.load.throughput().0,
        bound: it.bound,
    })
}

fn work(it: &Layer) -> LayerWork {
    LayerWork { index: it.index, name: it.name.clone(), flop: it.load.flop, bytes: it.load.bytes }
}

fn host(it: &Layer) -> LayerHost {
    LayerHost {
        index: it.index,
        name: it.name.clone(),
        latency_ns: it.latency_ns,
        kernel_ns: it.kernel_ns,
        host_ns: it.latency_ns - it.kernel_ns,
    }
}

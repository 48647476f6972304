//! `layers`: the fifteen across-stack analyses of one run, or of several runs as trimmed means.

mod runs;
mod tables;

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{Iteration, LayersArgs};
use retime_core::analysis::layers::{
    self, BatchRow, KernelSum, Layer, LayerKernel, LayerType, LevelRow, Profile, Run, Stage,
};
use retime_core::analysis::roofline::Limit;
use retime_core::diagnostic::Diagnostic;
use retime_core::units::DurNs;

use super::opened::Opened;
use super::{input, output};

#[derive(Debug, Serialize)]
struct Answer {
    device: String,
    runs: usize,
    /// Those of another model, on another device or recorded in other detail, which are in no mean of the first.
    other_runs: usize,
    profiles: Vec<Profile>,
    batch_sizes: Vec<BatchRow>,
    optimal_batch: Option<u64>,
    /// The batch size of all that follows.
    batch: Option<u64>,
    layers: Vec<Layer>,
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
    model: Vec<KernelSum>,
    stages: Vec<Stage>,
    profiling_levels: Vec<LevelRow>,
}

#[derive(Debug, Serialize)]
struct Series<T> {
    index: usize,
    name: String,
    value: T,
}

#[derive(Debug, Serialize)]
struct OfType<T> {
    #[serde(rename = "type")]
    kind: String,
    value: T,
}

#[derive(Debug, Serialize)]
struct RoofPoint {
    index: usize,
    name: String,
    intensity: f64,
    throughput: f64,
    bound: Option<Limit>,
}

#[derive(Debug, Serialize)]
struct LayerWork {
    index: usize,
    name: String,
    flop: f64,
    bytes: f64,
}

#[derive(Debug, Serialize)]
struct LayerHost {
    index: usize,
    name: String,
    latency_ns: DurNs,
    kernel_ns: DurNs,
    host_ns: DurNs,
}

#[derive(Debug, Serialize)]
struct Envelope {
    traces: Vec<String>,
    #[serde(flatten)]
    answer: Answer,
    diagnostics: Vec<Diagnostic>,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, or standard output cannot be written.
pub fn run(args: &LayersArgs, iteration: Iteration) -> Result<()> {
    let runs = Opened::runs(&args.common, iteration)?;
    let target = args.latency_ms.map(|ms| DurNs::from_us_f64(ms * 1e3));
    let answer = answer(&runs, target)?;
    let (mut traces, mut diagnostics) = (Vec::new(), Vec::new());
    for run in &runs {
        let paths = input::paths(&run.loaded);
        if !paths.iter().all(|path| traces.contains(path)) {
            traces.extend(paths);
            diagnostics.extend(input::diagnostics(&run.loaded));
        }
    }
    let envelope = Envelope { traces, answer, diagnostics };
    let answer = &envelope.answer;
    output::write(
        &args.common.input.output,
        &envelope,
        |out| match &args.analysis[..] {
            [] => tables::overview(answer, args.top, out),
            chosen => tables::analyses(answer, chosen, args.top, out),
        },
        || tables::of(answer, args.analysis.first().copied().unwrap_or(LAYERS)),
    )?;
    Ok(())
}

/// The number of the table of layers among the analyses.
const LAYERS: u8 = 2;

fn answer(runs: &[Opened], target: Option<DurNs>) -> Result<Answer> {
    let named: Result<Vec<Run<'_>>> = runs.iter().map(runs::run).collect();
    let named = named?;
    let found = layers::profiles(&named, target);
    let (first, table) = found.first().cloned().ok_or_else(|| eyre!("no run was opened"))?;
    let device = named[0].device;
    // What each level of profiling costs is told at one batch size of one model on one device.
    let same =
        |run: &&Run<'_>| run.table.batch == table.batch && run.table.is_of_model(&table) && run.device.id == device.id;
    let levels: Vec<_> = named.iter().filter(same).filter_map(|run| Some((run.recorded?, run.table.latency))).collect();
    let types = layers::by_type(&table.layers);
    Ok(Answer {
        device: first.device,
        runs: named.len(),
        other_runs: named.len() - first.runs,
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

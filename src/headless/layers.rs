//! `layers`: the fifteen across-stack analyses of one run, or of several runs as trimmed means.

mod runs;

use std::collections::BTreeMap;
use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{Iteration, LayersArgs};
use retime_core::analysis::layers::{self, KernelSum, Layer, LayerKernel, LayerTable, LayerType, LevelRow, Stage};
use retime_core::analysis::roofline::Limit;
use retime_core::diagnostic::Diagnostic;
use retime_core::units::{Bytes, DurNs, Percent};

use super::opened::Opened;
use super::{input, output};

#[derive(Debug, Serialize)]
struct Answer {
    device: String,
    runs: usize,
    /// Those of another model or recorded in other detail, which are in no mean.
    other_runs: usize,
    batch_sizes: Vec<BatchRow>,
    optimal_batch: Option<u64>,
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
struct BatchRow {
    batch: Option<u64>,
    runs: usize,
    latency_ns: DurNs,
    throughput: Option<f64>,
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
        |out| describe(answer, args.top, out),
        || layer_table(&answer.layers),
    )?;
    Ok(())
}

fn answer(runs: &[Opened], target: Option<DurNs>) -> Result<Answer> {
    let first = runs.first().ok_or_else(|| eyre!("no run was opened"))?;
    let device = first.outcome.resolved.devices.first().ok_or_else(|| eyre!("the first run has no rank"))?.clone();
    let tables: Vec<LayerTable> = runs.iter().map(runs::table).collect();
    let levels: Vec<_> = runs
        .iter()
        .zip(&tables)
        .filter(|(_, table)| table.batch == tables[0].batch && table.is_of_model(&tables[0]))
        .filter_map(|(run, table)| Some((runs::recorded(run)?, table.latency)))
        .collect();
    let recorded: Vec<_> = runs.iter().map(runs::recorded).collect();
    // Of another model, or recorded in less or more detail, a run tells nothing of the times of the first.
    let is_alike = |at: &usize| {
        let (table, first) = (&tables[*at], &tables[0]);
        table.is_of_model(first) && recorded[*at] == recorded[0]
    };
    let alike: Vec<LayerTable> = (0..tables.len()).filter(is_alike).map(|at| tables[at].clone()).collect();
    let same_batch: Vec<LayerTable> = alike.iter().filter(|table| table.batch == tables[0].batch).cloned().collect();
    let table = LayerTable::merged(&same_batch);
    let batch_sizes = batch_rows(&alike);
    let other_runs = tables.len() - alike.len();
    let known: Vec<(u64, DurNs)> = batch_sizes.iter().filter_map(|row| Some((row.batch?, row.latency_ns))).collect();
    let types = layers::by_type(&table.layers);
    Ok(Answer {
        device: device.id.clone(),
        runs: tables.len(),
        other_runs,
        profiling_levels: layers::levels(&levels),
        optimal_batch: layers::optimal_batch(&known, target),
        batch_sizes,
        layer_latency: series(&table.layers, |layer| layer.latency_ns),
        layer_memory: series(&table.layers, |layer| layer.memory_bytes),
        count_by_type: of_types(&types, |it| it.count),
        latency_by_type: of_types(&types, |it| it.latency_ns),
        memory_by_type: of_types(&types, |it| it.memory_bytes),
        kernel_roofline: kernel_points(&table.kernels),
        kernels_by_name: layers::by_name(&table, &device),
        kernels_by_layer: layers::by_layer(&table, &device),
        layer_work: table.layers.iter().map(work).collect(),
        layer_host: table.layers.iter().map(host).collect(),
        layer_roofline: table.layers.iter().filter_map(layer_point).collect(),
        model: vec![layers::model(&table, &device)],
        stages: layers::stages(&table.layers),
        layers: table.layers,
        kernels: table.kernels,
    })
}

/// Latency and throughput by batch size, each over all runs at that size.
fn batch_rows(tables: &[LayerTable]) -> Vec<BatchRow> {
    let mut by_batch: BTreeMap<Option<u64>, Vec<DurNs>> = BTreeMap::new();
    for table in tables {
        by_batch.entry(table.batch).or_default().push(table.latency);
    }
    let row = |(batch, latencies): (Option<u64>, Vec<DurNs>)| {
        let (runs, latency) = (latencies.len(), layers::trimmed_mean(latencies));
        let throughput = batch.filter(|_| latency.0 > 0).map(|batch| batch as f64 / latency.secs());
        BatchRow { batch, runs, latency_ns: latency, throughput }
    };
    by_batch.into_iter().map(row).collect()
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

fn describe(answer: &Answer, top: usize, out: &mut dyn Write) -> io::Result<()> {
    for row in &answer.batch_sizes {
        let batch = row.batch.map_or("unknown".to_owned(), |batch| batch.to_string());
        let throughput = row.throughput.map_or(String::new(), |rate| format!(", {rate:.1} samples/s"));
        let runs = if row.runs == 1 { "run" } else { "runs, trimmed mean" };
        writeln!(out, "batch {batch}: {} ({} {runs}){throughput}", row.latency_ns, row.runs)?;
    }
    if answer.other_runs > 0 {
        writeln!(out, "{} runs of another model, or recorded in other detail, are in no mean", answer.other_runs)?;
    }
    if let Some(best) = answer.optimal_batch {
        writeln!(out, "optimal batch {best}")?;
    }
    for row in &answer.profiling_levels {
        let (Some(above), Some(more)) = (&row.above, row.overhead_ns) else { continue };
        writeln!(out, "profiling {} ({} runs) takes {more} more than {above}", row.level, row.runs)?;
    }
    for sum in &answer.model {
        let bound = sum.bound.map_or("unknown", Limit::name);
        let (gflop, traffic) = (sum.load.flop / 1e9, Bytes(sum.load.bytes as u64));
        writeln!(out, "model on {}: {gflop:.3} GFLOP, {traffic}, bound by {bound}", answer.device)?;
    }
    for stage in &answer.stages {
        let [begin, middle, end] = [stage.begin, stage.middle, stage.end].map(Percent);
        writeln!(out, "{}: begin {begin:.0}, middle {middle:.0}, end {end:.0}: {}", stage.metric, stage.dominant)?;
    }
    let mut slowest = answer.layers.clone();
    slowest.sort_by_key(|layer| std::cmp::Reverse(layer.latency_ns));
    slowest.truncate(top);
    writeln!(out, "\nslowest layers of {}", answer.layers.len())?;
    output::text(&layer_table(&slowest), &mut *out)?;
    writeln!(out, "\nlayer types")?;
    output::text(&type_table(answer, top), &mut *out)?;
    writeln!(out, "\nkernels by name")?;
    output::text(&kernel_table(&answer.kernels_by_name[..answer.kernels_by_name.len().min(top)]), out)
}

fn layer_table(layers: &[Layer]) -> output::Table {
    let mut table = output::Table::new(&[
        "index",
        "latency_ns",
        "kernels_ns",
        "written_bytes",
        "flop",
        "traffic_bytes",
        "bound",
        "shape",
        "name",
    ]);
    for layer in layers {
        table.row([
            layer.index.to_string(),
            layer.latency_ns.0.to_string(),
            layer.kernel_ns.0.to_string(),
            layer.memory_bytes.to_string(),
            format!("{:.0}", layer.load.flop),
            format!("{:.0}", layer.load.bytes),
            layer.bound.map_or(String::new(), |bound| bound.name().to_owned()),
            if layer.shape.is_empty() { "–".to_owned() } else { format!("{:?}", layer.shape) },
            layer.name.clone(),
        ]);
    }
    table
}

fn type_table(answer: &Answer, top: usize) -> output::Table {
    let mut table = output::Table::new(&["count", "latency", "written", "type"]);
    let rows = answer.count_by_type.iter().zip(&answer.latency_by_type).zip(&answer.memory_by_type);
    for ((count, latency), memory) in rows.take(top) {
        let cells = [count.value.to_string(), latency.value.to_string(), Bytes(memory.value).to_string()];
        table.row(cells.into_iter().chain([count.kind.clone()]));
    }
    table
}

fn kernel_table(sums: &[KernelSum]) -> output::Table {
    let mut table = output::Table::new(&["count", "time", "share %", "occ %", "FLOP/B", "GFLOP/s", "bound", "kernel"]);
    for sum in sums {
        table.row([
            sum.count.to_string(),
            sum.latency_ns.to_string(),
            format!("{:.1}", 100.0 * sum.latency_share),
            sum.occupancy.map_or("–".to_owned(), |share| format!("{:.0}", 100.0 * share)),
            sum.intensity.map_or("–".to_owned(), |intensity| format!("{intensity:.2}")),
            format!("{:.1}", sum.throughput / 1e9),
            sum.bound.map_or(String::new(), |bound| bound.name().to_owned()),
            sum.name.clone(),
        ]);
    }
    table
}

//! The fifteen analyses as tables: the same on screen and in print.

use crate::session::column_for_people;
use retime_core::analysis::layers::{BatchRow, KernelSum, Layer, LayerKernel, Profile, Stage};
use retime_core::analysis::roofline::{Limit, Load};

use super::{LayerStudy, OfType, RoofPoint};

/// Cells of the longest bar.
const BAR: f64 = 30.0;

/// A table of an analysis: plain figures, those of columns in `_ns` and `_bytes` without their unit.
#[derive(Clone, Debug, Default)]
pub struct StudyTable {
    /// Titles of the columns.
    pub head: Vec<&'static str>,
    /// Rows of as many cells.
    pub rows: Vec<Vec<String>>,
}

impl StudyTable {
    fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The same with times and sizes in the units that people think in.
    #[must_use]
    pub fn for_people(mut self) -> Self {
        for (column, title) in self.head.iter_mut().enumerate() {
            *title = column_for_people(title, self.rows.iter_mut().filter_map(|row| row.get_mut(column)));
        }
        self
    }
}

/// What analysis `number` is of, in the paper's order from 1.
pub fn study_title(number: u8) -> &'static str {
    match number {
        1 => "throughput and latency by batch size",
        2 => "layers",
        3 => "latency of layers in order",
        4 => "memory of layers in order",
        5 => "layers of each type",
        6 => "latency by type",
        7 => "memory by type",
        8 => "kernels",
        9 => "roofline of kernels",
        10 => "kernels by name",
        11 => "kernels by layer",
        12 => "FLOP and bytes of layers",
        13 => "host time of layers",
        14 => "roofline of layers",
        _ => "models side by side",
    }
}

/// The table of analysis `number`, in the paper's order from 1.
pub(super) fn of(answer: &LayerStudy, number: u8) -> StudyTable {
    match number {
        1 => batches(&answer.batch_sizes),
        2 => layers(answer.layers.iter()),
        3 => bars("latency_ns", &answer.layers, |layer| layer.latency_ns.0),
        4 => bars("written_bytes", &answer.layers, |layer| layer.memory_bytes as i64),
        5 => by_type("count", &answer.count_by_type, |&count| count.to_string()),
        6 => by_type("latency_ns", &answer.latency_by_type, |latency| latency.0.to_string()),
        7 => by_type("written_bytes", &answer.memory_by_type, u64::to_string),
        8 => kernels(&answer.kernels),
        9 => roofline(&answer.kernel_roofline),
        10 => sums(&answer.kernels_by_name),
        11 => sums(&answer.kernels_by_layer),
        12 => work(answer),
        13 => host(answer),
        14 => roofline(&answer.layer_roofline),
        _ => profiles(&answer.profiles),
    }
}

fn size(batch: Option<u64>) -> String {
    batch.map_or("unknown".to_owned(), |batch| batch.to_string())
}

fn or_dash<T>(value: Option<T>, shown: impl Fn(T) -> String) -> String {
    value.map_or("–".to_owned(), shown)
}

fn bound(limit: Option<Limit>) -> String {
    limit.map_or(String::new(), |limit| limit.name().to_owned())
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn batches(rows: &[BatchRow]) -> StudyTable {
    let head = ["batch", "runs", "latency_ns", "throughput /s", "kernels_ns", "GFLOP", "read_bytes", "written_bytes"];
    let mut table = StudyTable::new(&[&head[..], &["occ %", "bound"]].concat());
    for row in rows {
        table.row([
            size(row.batch),
            row.runs.to_string(),
            row.latency_ns.0.to_string(),
            or_dash(row.throughput, |rate| format!("{rate:.1}")),
            row.model.latency_ns.0.to_string(),
            format!("{:.2}", row.model.load.flop / 1e9),
            row.model.read_bytes.to_string(),
            row.model.written_bytes.to_string(),
            or_dash(row.model.occupancy, percent),
            bound(row.model.bound),
        ]);
    }
    table
}

/// Tables 6, 8 and 9 in one.
fn profiles(rows: &[Profile]) -> StudyTable {
    let head = ["device", "recorded", "runs", "batch 1_ns", "over first", "optimal batch", "most /s", "over first"];
    let more = ["batch", "latency_ns", "GPU %", "conv %", "GFLOP", "read_bytes", "written_bytes", "occ %"];
    let last = ["FLOP/B", "TFLOP/s", "bound", "stages", "model"];
    let mut table = StudyTable::new(&[&head[..], &more, &last].concat());
    for row in rows {
        let model = &row.model;
        let ratio = |value: Option<f64>| or_dash(value, |ratio| format!("{ratio:.2}"));
        table.row([
            row.device.clone(),
            row.recorded.clone().unwrap_or_default(),
            row.runs.to_string(),
            or_dash(row.online_latency_ns, |latency| latency.0.to_string()),
            ratio(row.online_latency_ratio),
            or_dash(row.optimal_batch, |batch| batch.to_string()),
            or_dash(row.max_throughput, |rate| format!("{rate:.1}")),
            ratio(row.max_throughput_ratio),
            size(row.batch),
            row.latency_ns.0.to_string(),
            percent(model.latency_share),
            or_dash(row.convolution_share, percent),
            format!("{:.2}", model.load.flop / 1e9),
            model.read_bytes.to_string(),
            model.written_bytes.to_string(),
            or_dash(model.occupancy, percent),
            or_dash(model.intensity, |intensity| format!("{intensity:.2}")),
            format!("{:.2}", model.throughput / 1e12),
            bound(model.bound),
            stage_letters(&row.stages),
            row.name.clone(),
        ]);
    }
    table
}

/// `B`, `M` or `E` for latency, memory, FLOP and traffic, as Table 8 has them.
fn stage_letters(stages: &[Stage]) -> String {
    let letter = |stage: &Stage| stage.dominant.chars().next().map(|letter| letter.to_ascii_uppercase());
    stages.iter().filter_map(letter).collect()
}

pub(super) fn layers<'a>(rows: impl Iterator<Item = &'a Layer>) -> StudyTable {
    let head =
        ["index", "latency_ns", "kernels_ns", "written_bytes", "flop", "traffic_bytes", "bound", "shape", "name"];
    let mut table = StudyTable::new(&head);
    for layer in rows {
        table.row([
            layer.index.to_string(),
            layer.latency_ns.0.to_string(),
            layer.kernel_ns.0.to_string(),
            layer.memory_bytes.to_string(),
            format!("{:.0}", layer.load.flop),
            format!("{:.0}", layer.load.bytes),
            bound(layer.bound),
            if layer.shape.is_empty() { "–".to_owned() } else { format!("{:?}", layer.shape) },
            layer.name.clone(),
        ]);
    }
    table
}

/// A figure of every layer in order, with a bar as long as its share of the largest.
fn bars(title: &'static str, layers: &[Layer], value: fn(&Layer) -> i64) -> StudyTable {
    let mut table = StudyTable::new(&["index", title, "of the largest", "name"]);
    let largest = layers.iter().map(value).max().unwrap_or(0).max(1) as f64;
    for layer in layers {
        let value = value(layer);
        let cells = (BAR * value as f64 / largest).round() as usize;
        table.row([
            layer.index.to_string(),
            value.to_string(),
            format!("{:<30}", "▇".repeat(cells)),
            layer.name.clone(),
        ]);
    }
    table
}

fn by_type<T>(title: &'static str, rows: &[OfType<T>], value: impl Fn(&T) -> String) -> StudyTable {
    let mut table = StudyTable::new(&[title, "type"]);
    for row in rows {
        table.row([value(&row.value), row.kind.clone()]);
    }
    table
}

pub(super) fn types(answer: &LayerStudy) -> StudyTable {
    let mut table = StudyTable::new(&["count", "latency_ns", "written_bytes", "type"]);
    for ((count, latency), memory) in
        answer.count_by_type.iter().zip(&answer.latency_by_type).zip(&answer.memory_by_type)
    {
        let cells = [count.value.to_string(), latency.value.0.to_string(), memory.value.to_string()];
        table.row(cells.into_iter().chain([count.kind.clone()]));
    }
    table
}

fn kernels(rows: &[LayerKernel]) -> StudyTable {
    let head = ["index", "layer", "time_ns", "GFLOP", "traffic_bytes", "occ %", "FLOP/B", "TFLOP/s", "bound", "kernel"];
    let mut table = StudyTable::new(&head);
    for row in rows {
        table.row([
            row.index.to_string(),
            or_dash(row.layer, |layer| layer.to_string()),
            row.duration_ns.0.to_string(),
            gflop(&row.load),
            format!("{:.0}", row.load.bytes),
            or_dash(row.occupancy, percent),
            or_dash(row.intensity, |intensity| format!("{intensity:.2}")),
            format!("{:.3}", row.throughput / 1e12),
            bound(row.bound),
            row.name.clone(),
        ]);
    }
    table
}

fn gflop(load: &Load) -> String {
    format!("{:.3}", load.flop / 1e9)
}

fn sums(rows: &[KernelSum]) -> StudyTable {
    let head = ["layer", "count", "time_ns", "share %", "GFLOP", "read_bytes", "written_bytes", "occ %", "FLOP/B"];
    let mut table = StudyTable::new(&[&head[..], &["GFLOP/s", "bound", "name"]].concat());
    for sum in rows {
        table.row([
            or_dash(sum.layer, |layer| layer.to_string()),
            sum.count.to_string(),
            sum.latency_ns.0.to_string(),
            percent(sum.latency_share),
            gflop(&sum.load),
            sum.read_bytes.to_string(),
            sum.written_bytes.to_string(),
            or_dash(sum.occupancy, |share| format!("{:.0}", 100.0 * share)),
            or_dash(sum.intensity, |intensity| format!("{intensity:.2}")),
            format!("{:.1}", sum.throughput / 1e9),
            bound(sum.bound),
            sum.name.clone(),
        ]);
    }
    table
}

fn roofline(points: &[RoofPoint]) -> StudyTable {
    let mut table = StudyTable::new(&["index", "FLOP/B", "TFLOP/s", "bound", "name"]);
    for point in points {
        table.row([
            point.index.to_string(),
            format!("{:.3}", point.intensity),
            format!("{:.4}", point.throughput / 1e12),
            bound(point.bound),
            point.name.clone(),
        ]);
    }
    table
}

fn work(answer: &LayerStudy) -> StudyTable {
    let mut table = StudyTable::new(&["index", "GFLOP", "read_bytes", "written_bytes", "name"]);
    for layer in &answer.layers {
        let read = (layer.load.bytes as u64).saturating_sub(layer.memory_bytes);
        let cells = [layer.index.to_string(), gflop(&layer.load), read.to_string(), layer.memory_bytes.to_string()];
        table.row(cells.into_iter().chain([layer.name.clone()]));
    }
    table
}

fn host(answer: &LayerStudy) -> StudyTable {
    let mut table = StudyTable::new(&["index", "latency_ns", "kernels_ns", "host_ns", "host %", "name"]);
    for layer in &answer.layer_host {
        let share = layer.host_ns.0 as f64 / layer.latency_ns.0.max(1) as f64;
        let times = [layer.latency_ns, layer.kernel_ns, layer.host_ns].map(|time| time.0.to_string());
        let cells = std::iter::once(layer.index.to_string()).chain(times);
        table.row(cells.chain([percent(share), layer.name.clone()]));
    }
    table
}

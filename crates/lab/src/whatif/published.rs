//! Published training times of ResNet-50 by GPU and batch: from one of them, the others follow by the device time that a trace of
//! the same network gives. That what this leaves unexplained stays was decided with these times in view.

use retime::session::{Engine, Loaded, read_table};
use retime_core::graph::IterationChoice;
use retime_core::scenario::Scenario;
use retime_fit::csv::{self, Table};

use super::sources::Sources;
use super::{Answer, Constants, Row, bands, open};

const FAMILY: &str = "published ResNet-50 training by batch";
const LIMIT: f64 = 0.15;

/// A published time.
struct Point {
    gpu: String,
    batch: u64,
    time_ns: f64,
    source: &'static str,
}

/// Predicts each batch from the smallest one of the same GPU.
pub(crate) fn check(engine: &Engine, sources: &Sources, answer: &mut Answer) {
    let mut points = Vec::new();
    for (file, read) in [(&sources.networks, networks as fn(&Table) -> Vec<Point>), (&sources.throughputs, throughputs)]
    {
        let Some(file) = file else { continue };
        match read_table(file).map(|text| Table::parse(&text).map(|table| read(&table))) {
            Ok(Ok(found)) => points.extend(found),
            Ok(Err(error)) => answer.not_checked.push(format!("{}: {error}", file.display())),
            Err(error) => answer.not_checked.push(error.to_string()),
        }
    }
    if points.is_empty() {
        return;
    }
    let trace = sources.loader.as_ref().and_then(|(_, with)| open(engine, with, IterationChoice::Default).ok());
    let Some(trace) = trace else {
        answer.not_checked.push("ResNet-50 by batch: no trace of it among the folders".to_owned());
        return;
    };
    for point in &points {
        let same = |other: &&Point| other.gpu == point.gpu && other.source == point.source;
        let first = points.iter().filter(same).min_by_key(|other| other.batch);
        let Some(first) = first.filter(|first| first.batch < point.batch) else { continue };
        let (Some((new, after)), Some((old, before))) = (at(engine, &trace, point), at(engine, &trace, first)) else {
            continue;
        };
        // Both are predicted, from the batch and device of the trace.
        let (got, band) = bands::resized(first.time_ns, [old, new], before.hypot(after));
        let check = format!("{}, batch {} → {}", point.gpu, first.batch, point.batch);
        let row = Row::new(FAMILY, check, (point.time_ns, got), LIMIT, (point.source, Constants::Seen));
        let scaled = first.time_ns * point.batch as f64 / first.batch as f64;
        answer.rows.push(row.against(scaled, first.time_ns).within(band));
    }
    answer.sum_up(FAMILY, LIMIT);
}

/// The device time of the traced network at a point's batch on its GPU, in ns, and half the width of its band as a share of it. The traced
/// host is another, and profiled.
fn at(engine: &Engine, trace: &Loaded, point: &Point) -> Option<(f64, f64)> {
    let mut lines = vec![format!("resize-batch {}", point.batch)];
    if !point.gpu.starts_with("V100") {
        lines.push(format!("swap-gpu {}", point.gpu));
    }
    let scenario = Scenario::parse(lines.iter().map(String::as_str)).ok()?;
    let outcome = engine.evaluate(trace, &scenario, 0);
    Some((outcome.summary.kernel_only_ns.0 as f64, bands::of_device(&outcome)))
}

fn networks(table: &Table) -> Vec<Point> {
    let point = |row: csv::Row<'_>| {
        let (batch, ms) = (row.number("batch_size").ok()?, row.number("actual_iter_ms").ok()?);
        let gpu = row.text("gpu").replace(' ', "-");
        Some(Point { gpu, batch: batch as u64, time_ns: ms * 1e6, source: "ml_perf_model" })
    };
    table.rows().filter(|row| row.text("model") == "ResNet50").filter_map(point).collect()
}

fn throughputs(table: &Table) -> Vec<Point> {
    const WANTED: [(&str, &str); 4] =
        [("model", "ResNet-50"), ("num_gpus", "1"), ("placement", "consolidated"), ("gpu", "v100")];
    let point = |row: csv::Row<'_>| {
        let (batch, rate) = (row.number("batch_size").ok()?, row.number("steps_per_sec").ok()?);
        Some(Point { gpu: "V100".to_owned(), batch: batch as u64, time_ns: 1e9 / rate, source: "gavel" })
    };
    let wanted = |row: &csv::Row<'_>| WANTED.iter().all(|&(column, value)| row.text(column) == value);
    table.rows().filter(wanted).filter_map(point).collect()
}

//! `lab memory`: memory by tensors and by shapes against what the allocator recorded, and parameters against manifests.

use std::io::{self, Write};
use std::path::Path;

use color_eyre::eyre::Result;
use serde::{Deserialize, Serialize};

use retime::cli::TraceArgs;
use retime::headless::{expand, output};
use retime::session::{Engine, Loaded, folders_of_traces, read_text};
use retime_core::graph::BuildOptions;
use retime_core::memory::{self, Holds, MemorySource, RankMemory};
use retime_core::trace::OpenOptions;
use retime_core::units::Bytes;

/// One figure against its measurement.
#[derive(Debug, Serialize)]
struct Row {
    check: String,
    /// What it is summed up with.
    family: String,
    expected: Bytes,
    got: Bytes,
    /// `got/expected − 1`.
    error: f64,
    source: String,
}

/// What the rows of one family come to.
#[derive(Debug, Serialize)]
struct Summary {
    family: String,
    n: usize,
    /// `exp(mean |ln(got/expected)|) − 1`.
    error: f64,
    /// `exp(mean ln(got/expected)) − 1`: which way it leans.
    bias: f64,
    /// The row that is off most.
    worst: f64,
}

#[derive(Debug, Serialize)]
struct Answer {
    rows: Vec<Row>,
    summaries: Vec<Summary>,
    /// Ranks whose trace recorded nothing to check against.
    not_checked: usize,
}

/// Runs the command.
///
/// # Errors
/// The answer cannot be written.
pub(crate) fn run(args: &TraceArgs) -> Result<()> {
    let engine = Engine::builtin()?;
    let mut answer = Answer { rows: Vec::new(), summaries: Vec::new(), not_checked: 0 };
    for folder in folders_of_traces(&expand(&args.traces)?) {
        let opened = engine.load(std::slice::from_ref(&folder), &OpenOptions::default(), &BuildOptions::default());
        let jobs = opened.unwrap_or_default();
        let sizes = manifest(&folder);
        for loaded in &jobs {
            check(loaded, &sizes, &mut answer);
        }
    }
    answer.summaries = sum_up(&answer.rows);
    output::write(&args.output, &answer, |out| describe(&answer, out), || table(&answer.rows))?;
    Ok(())
}

/// A capture's file and how many parameters its model has.
#[derive(Debug, Deserialize)]
struct Capture {
    files: Files,
    config: Config,
}

#[derive(Debug, Deserialize)]
struct Files {
    kineto: String,
}

#[derive(Debug, Deserialize)]
struct Config {
    #[serde(default)]
    parameters: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
struct Manifest {
    captures: Vec<Capture>,
}

/// Sizes of models in single precision, by the file of their capture, where the folder has a manifest.
fn manifest(folder: &Path) -> Vec<(String, Bytes)> {
    let text = read_text(&folder.join("manifest.json")).unwrap_or_default();
    let manifest: Manifest = serde_json::from_str(&text).unwrap_or_default();
    let size = |capture: Capture| Some((capture.files.kineto, Bytes(4 * capture.config.parameters?)));
    manifest.captures.into_iter().filter_map(size).collect()
}

fn check(loaded: &Loaded, sizes: &[(String, Bytes)], answer: &mut Answer) {
    let tables = loaded.base.tables().sizes(loaded.graph.ranks.len());
    for (place, part) in loaded.graph.ranks.iter().enumerate() {
        let by = |source| memory::by(&loaded.job, &loaded.graph, &tables, place, source);
        let trace = loaded.job.ranks.get(part.trace_index).and_then(|rank| rank.trace.as_ref());
        let path = trace.map(|trace| trace.path.display().to_string()).unwrap_or_default();
        let allocator = by(MemorySource::Allocator);
        let moving = allocator.as_ref().map(|memory| memory.moving().peak().bytes);
        let recorded = allocator.filter(|memory| memory.unknown.is_empty()).map(|memory| memory.peak().bytes);
        let size = sizes.iter().find(|(file, _)| path.ends_with(file)).map(|&(_, size)| size);
        answer.not_checked += usize::from(moving.is_none() && size.is_none());
        for source in [MemorySource::Tensors, MemorySource::Shapes] {
            let Some(told) = by(source) else { continue };
            let mut row = |what: &str, expected: Option<Bytes>, got: Bytes| {
                let Some(expected) = expected.filter(|bytes| bytes.0 > 0) else { return };
                answer.rows.push(Row {
                    check: format!("{} r{}", loaded.title, part.rank.0),
                    family: format!("{what} by {}", source.name()),
                    expected,
                    got,
                    error: got.0 as f64 / expected.0 as f64 - 1.0,
                    source: path.clone(),
                });
            };
            row("peak", recorded, told.peak().bytes);
            row("peak of what comes and goes", moving, told.moving().peak().bytes);
            row("parameters", size, parameters(&told));
        }
    }
}

fn parameters(memory: &RankMemory) -> Bytes {
    memory.buffers.iter().filter(|buffer| buffer.holds == Holds::Parameters).map(|buffer| buffer.bytes).sum()
}

fn sum_up(rows: &[Row]) -> Vec<Summary> {
    let mut families: Vec<&str> = rows.iter().map(|row| row.family.as_str()).collect();
    families.sort_unstable();
    families.dedup();
    let sum_up = |family: &str| {
        let of_family = rows.iter().filter(|row| row.family == family && row.got.0 > 0);
        let logs: Vec<f64> = of_family.map(|row| (row.got.0 as f64 / row.expected.0 as f64).ln()).collect();
        let mean = |of: fn(f64) -> f64| logs.iter().map(|&log| of(log)).sum::<f64>() / logs.len().max(1) as f64;
        Summary {
            family: family.to_owned(),
            n: logs.len(),
            error: mean(f64::abs).exp_m1(),
            bias: mean(|log| log).exp_m1(),
            worst: logs.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or_default().exp_m1(),
        }
    };
    families.into_iter().map(sum_up).collect()
}

fn describe(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    output::text(&table(&answer.rows), out)?;
    writeln!(out)?;
    let mut table = output::Table::new(&["what", "n", "error %", "leans %", "worst %"]);
    for summary in &answer.summaries {
        table.row([
            summary.family.clone(),
            summary.n.to_string(),
            format!("{:.1}", 100.0 * summary.error),
            format!("{:+.1}", 100.0 * summary.bias),
            format!("{:+.1}", 100.0 * summary.worst),
        ]);
    }
    output::text(&table, out)?;
    writeln!(out, "{} ranks recorded neither the allocator nor a size of their model", answer.not_checked)
}

fn table(rows: &[Row]) -> output::Table {
    let mut table = output::Table::new(&["what", "rank", "measured", "told", "error %", "source"]);
    for row in rows {
        table.row([
            row.family.clone(),
            row.check.clone(),
            row.expected.to_string(),
            row.got.to_string(),
            format!("{:+.1}", 100.0 * row.error),
            row.source.clone(),
        ]);
    }
    table
}

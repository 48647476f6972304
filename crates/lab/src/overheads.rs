//! `lab overheads`: what traces say of host overheads T1 to T5, beside the published means that the program comes with.
//!
//! Another machine, framework and host: the same size and no more is to be expected.

use std::collections::BTreeMap;
use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use retime::cli::TraceArgs;
use retime::headless::{expand, output};
use retime::session::{Engine, Loaded, folders_of_traces};
use retime_core::cost::overhead::{ProfilerCost, extract};
use retime_core::cost::{OverheadKind, Overheads};
use retime_core::graph::BuildOptions;
use retime_core::trace::OpenOptions;

/// Fewest samples behind a mean that is compared.
const SAMPLES: u64 = 3;

/// One kind of overhead of one trace.
#[derive(Debug, Serialize)]
struct Row {
    trace: String,
    device: String,
    #[serde(rename = "type")]
    kind: OverheadKind,
    /// Operators (of T4, calls) that both have.
    operators: usize,
    /// Measurements behind the trace's means.
    samples: u64,
    /// Mean in µs over the operators both have, each once.
    got_us: f64,
    expected_us: f64,
    /// Geometric mean over operators of the trace's mean over the published one.
    ratio: f64,
    /// The least and the greatest of them.
    least: f64,
    greatest: f64,
}

#[derive(Debug, Serialize)]
struct Answer {
    rows: Vec<Row>,
    not_checked: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// None of the traces has an operator that was published.
pub(crate) fn run(args: &TraceArgs) -> Result<()> {
    let (engine, published) = (Engine::builtin()?, Overheads::builtin()?);
    let mut answer = Answer { rows: Vec::new(), not_checked: Vec::new() };
    for path in folders_of_traces(&expand(&args.traces)?) {
        match engine.load(std::slice::from_ref(&path), &OpenOptions::default(), &BuildOptions::default()) {
            Ok(jobs) => answer.rows.extend(jobs.iter().flat_map(|loaded| compare(loaded, &published))),
            Err(error) => answer.not_checked.push(error.to_string()),
        }
    }
    if answer.rows.is_empty() {
        let reason = answer.not_checked.first().map_or("no operator that was published", String::as_str);
        return Err(eyre!("{reason}"));
    }
    output::write(&args.output, &answer, |out| describe(&answer, out), || table(&answer.rows))?;
    Ok(())
}

fn compare(loaded: &Loaded, published: &Overheads) -> Vec<Row> {
    let own = extract(&loaded.graph, ProfilerCost::default());
    let mut pairs: BTreeMap<OverheadKind, Vec<(f64, f64, u64)>> = BTreeMap::new();
    for row in published.rows().filter(|row| row.mean_us > 0.0) {
        if let Some(found) = own.own(row.kind, &row.op).filter(|own| own.count >= SAMPLES && own.mean_us > 0.0) {
            pairs.entry(row.kind).or_default().push((found.mean_us, row.mean_us, found.count));
        }
    }
    let device = loaded.context.devices.first().map_or_else(String::new, |device| device.profile.id.clone());
    let row = |(kind, pairs): (OverheadKind, Vec<(f64, f64, u64)>)| {
        let ratios = || pairs.iter().map(|(got, expected, _)| got / expected);
        let n = pairs.len() as f64;
        Row {
            trace: loaded.title.clone(),
            device: device.clone(),
            kind,
            operators: pairs.len(),
            samples: pairs.iter().map(|pair| pair.2).sum(),
            got_us: pairs.iter().map(|pair| pair.0).sum::<f64>() / n,
            expected_us: pairs.iter().map(|pair| pair.1).sum::<f64>() / n,
            ratio: (ratios().map(f64::ln).sum::<f64>() / n).exp(),
            least: ratios().fold(f64::INFINITY, f64::min),
            greatest: ratios().fold(0.0, f64::max),
        }
    };
    pairs.into_iter().map(row).collect()
}

fn describe(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    output::text(&table(&answer.rows), out)?;
    writeln!(
        out,
        "published: Lin 2022 and 2024 on V100 and other GPUs of their time (owensgroup/ml_perf_model), by operators that both have; another machine, host and framework"
    )?;
    for what in &answer.not_checked {
        writeln!(out, "not checked: {what}")?;
    }
    Ok(())
}

fn table(rows: &[Row]) -> output::Table {
    let header =
        &["trace", "device", "type", "operators", "n", "mean µs", "published µs", "ratio", "least", "greatest"];
    let mut table = output::Table::new(header);
    for row in rows {
        table.row([
            row.trace.clone(),
            row.device.clone(),
            format!("{:?}", row.kind),
            row.operators.to_string(),
            row.samples.to_string(),
            format!("{:.2}", row.got_us),
            format!("{:.2}", row.expected_us),
            format!("{:.2}", row.ratio),
            format!("{:.2}", row.least),
            format!("{:.2}", row.greatest),
        ]);
    }
    table
}

//! `sweep`: iteration time, throughput and memory over the values of one or more knobs.

use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use rayon::prelude::*;
use serde::Serialize;

use crate::cli::{Edit, Iteration, ScenarioArgs, ScenarioCommand, SweepArgs};
use crate::scenario::Scenario;
use crate::session::{Engine, Loaded, Sweep, SweepPoint, optimal_batch};

use super::opened::Opened;
use super::{input, output};

#[derive(Debug, Serialize)]
struct Answer {
    points: Vec<SweepPoint>,
    optimal_batch: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, a range or an edit cannot be read.
pub fn run(args: &SweepArgs, iteration: Iteration) -> Result<()> {
    let (scenario, batches) = split_batch_range(&args.common.scenario)?;
    let command = ScenarioCommand { scenario, ..args.common.clone() };
    let Opened { engine, loaded, outcome, .. } = Opened::of(&command, iteration)?;
    let sweeps = sweeps(args, batches, &loaded)?;
    let points = evaluate(&engine, &loaded, &outcome.scenario, &sweeps);
    let answer = Answer { optimal_batch: optimal_batch(&points), points };
    let json = input::Envelope::new(&loaded, answer);
    let knobs: Vec<&str> = sweeps.iter().map(|sweep| sweep.knob.as_str()).collect();
    let table = || table(&knobs, &json.answer.points);
    output::write(&args.common.input.output, &json, |out| describe(&table(), &json.answer, out), table)?;
    Ok(())
}

/// Takes `--batch A..B` out of the edits: here it is the range of the sweep.
fn split_batch_range(arguments: &ScenarioArgs) -> Result<(ScenarioArgs, Option<Vec<f64>>)> {
    let (mut edits, mut range) = (Vec::new(), None);
    for edit in &arguments.edits {
        match edit {
            Edit::Step(line) if line.starts_with("resize-batch ") && line.contains(['.', ',']) => {
                let text = line.trim_start_matches("resize-batch ");
                range = Some(Sweep::parse_values(text).map_err(|error| eyre!("--batch: {error}"))?);
            }
            other => edits.push(other.clone()),
        }
    }
    Ok((ScenarioArgs { edits, force: arguments.force }, range))
}

fn sweeps(args: &SweepArgs, batches: Option<Vec<f64>>, loaded: &Loaded) -> Result<Vec<Sweep>> {
    let mut sweeps = Vec::new();
    if let Some(values) = batches {
        sweeps.push(Sweep { values, ..Sweep::batch(&[]) });
    }
    for pair in args.knob.chunks(2) {
        let [name, range] = pair else { continue };
        let values = Sweep::parse_values(range).map_err(|error| eyre!("--knob {name}: {error}"))?;
        sweeps.push(Sweep { knob: name.clone(), template: Sweep::template(name), values });
    }
    if sweeps.is_empty() {
        let batch = loaded.graph.batch_size.ok_or_else(|| eyre!("the batch size is unknown; name a --knob"))?;
        sweeps.push(Sweep::batch_around(batch));
    }
    Ok(sweeps)
}

/// Every combination of the knobs' values, on all cores, in order.
fn evaluate(engine: &Engine, loaded: &Loaded, scenario: &Scenario, sweeps: &[Sweep]) -> Vec<SweepPoint> {
    let mut grid: Vec<Vec<f64>> = vec![Vec::new()];
    for sweep in sweeps {
        grid =
            grid.iter().flat_map(|row| sweep.values().map(move |value| [row.as_slice(), &[value]].concat())).collect();
    }
    grid.par_iter().map(|values| engine.grid_point(loaded, scenario, sweeps, values)).collect()
}

fn describe(table: &output::Table, answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    output::text(table, out)?;
    let unhandled: std::collections::BTreeSet<&String> =
        answer.points.iter().flat_map(|point| &point.unhandled).collect();
    for what in unhandled {
        writeln!(out, "not handled: {what}")?;
    }
    match answer.optimal_batch {
        Some(batch) => {
            writeln!(out, "optimal batch {batch}: doubling it gains no more than 5 %, or no larger one was tried")
        }
        None => Ok(()),
    }
}

fn table(knobs: &[&str], points: &[SweepPoint]) -> output::Table {
    let mut table = output::Table::new(&["knobs", "simulated_ns", "throughput /s", "memory_bytes", "fits", "path"]);
    for point in points {
        let values: Vec<String> =
            knobs.iter().map(|knob| format!("{knob}={}", point.value(knob).unwrap_or_default())).collect();
        table.row([
            values.join(" "),
            point.simulated_ns.0.to_string(),
            format!("{:.2}", point.throughput),
            point.memory_bytes.map_or("–".to_owned(), |bytes| bytes.0.to_string()),
            point.fits.map_or("–".to_owned(), |fits| if fits { "yes" } else { "no" }.to_owned()),
            point.path_kind.clone(),
        ]);
    }
    table
}

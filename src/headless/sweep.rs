//! `sweep`: iteration time, throughput and memory over the values of one or more knobs.

mod merge;

use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use serde::{Deserialize, Serialize};

use crate::cli::{Iteration, ScenarioArgs, ScenarioCommand, SweepArgs};
use crate::session::{
    Engine, Loaded, PathChange, Sweep, SweepPoint, SweepRun, SweepSlice, count, grid, has_unmodelled, none_fits, place,
    slices, still_gains,
};
use retime_core::scenario::{Scenario, Step};

use super::opened::Opened;
use super::{Misuse, input, output};
use retime_core::units::Percent;

#[derive(Debug, Serialize)]
struct Answer {
    points: Vec<SweepPoint>,
    /// How many batches of that size an iteration runs on, where it is more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    batches: Option<u32>,
    /// Steps whose place a knob takes, with which.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    replaced: Vec<String>,
    /// Points of which there are no figures, with why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_done: Vec<SweepPoint>,
    optimal_batch: Option<u64>,
    /// The largest value that fits the device, where one does not.
    memory_limit: Option<f64>,
    /// Where most of the critical path becomes another kind.
    path_changes: Vec<PathChange>,
    /// The same of several knobs: along one, for every setting of the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    along: Vec<SweepSlice>,
    /// Which part of the points these are, where they are a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<Shard>,
    /// Which sweep they are a part of, where they are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<merge::Setup>,
}

impl Answer {
    fn of(points: Vec<SweepPoint>, shard: Shard, sweep: Option<merge::Setup>) -> Self {
        let shard = (shard != Shard::ALL).then_some(shard);
        // A part keeps all its points: the parts are put together in turn.
        let (not_done, points): (Vec<_>, Vec<_>) =
            points.into_iter().partition(|point| shard.is_none() && point.not_done.is_some());
        // Of a part nothing follows from the order of its points.
        let mut along = if shard.is_none() { slices(&points) } else { Vec::new() };
        let is_one = points.first().is_some_and(|point| point.knobs.len() == 1);
        let only = if is_one { along.pop() } else { None };
        let (optimal_batch, memory_limit) =
            only.as_ref().map_or((None, None), |it| (it.optimal_batch, it.memory_limit));
        let path_changes = only.map(|only| only.path_changes).unwrap_or_default();
        let (batches, replaced) = (None, Vec::new());
        Self { points, batches, replaced, not_done, optimal_batch, memory_limit, path_changes, along, shard, sweep }
    }
}

/// Every `of`-th point, from number `part` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Shard {
    part: usize,
    of: usize,
}

impl Shard {
    const ALL: Self = Self { part: 1, of: 1 };

    fn parse(text: &str) -> Result<Self> {
        let numbers = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        let shard = numbers.map(|(part, of)| Self { part, of });
        let known = shard.filter(|shard| (1..=shard.of).contains(&shard.part));
        known.ok_or_else(|| Misuse(format!("--shard `{text}`: expected I/N with I from 1 to N, e.g. 2/4")).into())
    }
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, a range or an edit cannot be read.
pub fn run(args: &SweepArgs, iteration: Iteration) -> Result<()> {
    if !args.merge.is_empty() {
        return merge::run(args);
    }
    let shard = args.shard.as_deref().map_or(Ok(Shard::ALL), Shard::parse)?;
    let (scenario, batches) = split_batch_range(&args.common.scenario)?;
    let command = ScenarioCommand { scenario, ..args.common.clone() };
    let Opened { engine, loaded, outcome, .. } = Opened::of(&command, iteration)?;
    let sweeps = sweeps(args, batches, &loaded)?;
    let is_told = |step: &Step| step.name() == "resize-batch" && step.value(1).is_some();
    let tells_batch = loaded.graph.batch_size.is_some() || outcome.scenario.steps.iter().any(is_told);
    if !tells_batch && sweeps.iter().any(|sweep| sweep.knob == "batch") {
        return Err(eyre!("{}, as a --step", loaded.graph.why_no_batch()));
    }
    let points = evaluate(&engine, &loaded, &outcome.scenario, (&sweeps, shard))?;
    let knobs: Vec<String> = sweeps.iter().map(|sweep| sweep.knob.clone()).collect();
    let setup = (shard != Shard::ALL).then(|| merge::Setup::of(&loaded, &args.common, &outcome.scenario, &sweeps));
    let batches = Some(outcome.summary.repeats).filter(|&batches| batches > 1);
    let replaced = replaced(&outcome.scenario, &sweeps);
    let answer = Answer { batches, replaced, ..Answer::of(points, shard, setup) };
    if let Some(why) =
        answer.not_done.iter().find_map(|point| point.not_done.as_ref()).filter(|_| answer.points.is_empty())
    {
        return Err(eyre!("no point can be computed: {why}"));
    }
    let json = input::Envelope::new(&loaded, answer);
    let table = || table(&knobs, &json.answer.points);
    output::write(&args.common.input.output, &json, |out| describe(&table(), &json.answer, out), table)?;
    Ok(())
}

/// A knob and its value: an edit's line is completed by it.
fn setting(knob: &str, value: f64) -> String {
    if knob.ends_with("->") { format!("{knob}{value}") } else { format!("{knob}={value}") }
}

/// Takes `--batch A..B` out of the edits: here it is the range of the sweep.
fn split_batch_range(arguments: &ScenarioArgs) -> Result<(ScenarioArgs, Option<Vec<f64>>)> {
    let Some((place, sizes)) = input::batch_sizes(arguments)? else { return Ok((arguments.clone(), None)) };
    let mut rest = arguments.clone();
    rest.edits.remove(place);
    Ok((rest, Some(sizes)))
}

fn twice(knob: &str) -> Misuse {
    Misuse(format!("the knob `{knob}` is there twice: list all its values once, e.g. --knob \"{knob}\" 1,2,4"))
}

fn sweeps(args: &SweepArgs, batches: Option<Vec<f64>>, loaded: &Loaded) -> Result<Vec<Sweep>> {
    let mut sweeps = Vec::new();
    if let Some(values) = batches {
        sweeps.push(Sweep::new("batch", values).map_err(|error| Misuse(format!("--batch: {error}")))?);
    }
    for pair in args.knob.chunks(2) {
        let [name, range] = pair else { continue };
        let sweep = Sweep::parse(name, range).map_err(|error| Misuse(format!("--knob {name}: {error}")))?;
        if sweeps.iter().any(|other: &Sweep| other.is_same_knob(&sweep)) {
            return Err(twice(name).into());
        }
        sweeps.push(sweep);
    }
    if sweeps.is_empty() {
        let batch = loaded.graph.batch_size.ok_or_else(|| eyre!("the batch size is unknown; name a --knob"))?;
        sweeps.push(Sweep::around("batch", Some(batch)).map_err(|error| eyre!("{error}"))?);
    }
    Ok(sweeps)
}

/// Which steps of `scenario` go where a knob stands for them.
fn replaced(scenario: &Scenario, sweeps: &[Sweep]) -> Vec<String> {
    let of = |sweep: &Sweep| {
        let step = &scenario.steps[place(scenario, sweep)?];
        Some(format!("`{step}`: the knob {} takes its place", sweep.knob))
    };
    sweeps.iter().filter_map(of).collect()
}

/// More than a day's work of any machine, and what is held of them fits every one.
const MOST_POINTS: usize = 100_000;

/// Every combination of the knobs' values that is the shard's, on all cores, in order.
fn evaluate(
    engine: &Engine,
    loaded: &Loaded,
    scenario: &Scenario,
    (sweeps, shard): (&[Sweep], Shard),
) -> Result<Vec<SweepPoint>> {
    let places = (shard.part - 1..count(sweeps)).step_by(shard.of);
    let points = places.len();
    if points > MOST_POINTS {
        let less = "fewer values, or a part of them with --shard I/N";
        return Err(Misuse(format!("{points} points, at most {MOST_POINTS} at a time: {less}")).into());
    }
    let own: Vec<Vec<f64>> = grid(sweeps, places).collect();
    Ok(SweepRun::new(engine, loaded, scenario, sweeps).points(&own))
}

fn describe(table: &output::Table, answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    output::text(table, out)?;
    if let Some(batches) = answer.batches {
        writeln!(out, "an iteration runs on {batches} batches")?;
    }
    for step in &answer.replaced {
        writeln!(out, "replaced: {step}")?;
    }
    let unhandled: std::collections::BTreeSet<&String> =
        answer.points.iter().flat_map(|point| &point.unhandled).collect();
    for what in unhandled {
        writeln!(out, "not handled: {what}")?;
    }
    for point in &answer.not_done {
        let at: Vec<String> = point.knobs.iter().map(|(knob, value)| setting(knob, *value)).collect();
        writeln!(out, "not done: {}: {}", at.join(" "), point.not_done.as_deref().unwrap_or_default())?;
    }
    if has_unmodelled(&answer.points) {
        let share = answer.points.iter().map(|point| point.unhandled_share).fold(0.0, f64::max);
        writeln!(out, "no model covers {:.0} of the device's time at some point: no best follows", Percent(share))?;
    }
    if let Some(batch) = answer.optimal_batch {
        if still_gains(&answer.points, batch) {
            writeln!(out, "throughput still grows at batch {batch}, the largest tried that fits")?;
        } else {
            writeln!(out, "optimal batch {batch}: doubling it gains no more than 5 %")?;
        }
    }
    let knob = answer.points.first().and_then(|point| point.knobs.keys().next()).map_or("", String::as_str);
    if let Some(limit) = answer.memory_limit {
        writeln!(out, "memory fits up to {knob}={limit}")?;
    }
    if none_fits(&answer.points) {
        writeln!(out, "memory fits at none of them")?;
    }
    for PathChange { at, from, to } in &answer.path_changes {
        writeln!(out, "from {knob}={at} on the critical path is mostly {to}, before {from}")?;
    }
    if !answer.along.is_empty() {
        map(answer, out)?;
    }
    Ok(())
}

/// A grid of two knobs as a map, and what follows along one for every setting of the others.
fn map(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    let knob = &answer.along[0].knob;
    if answer.along[0].others.len() == 1 {
        let mut rows: Vec<f64> = answer.points.iter().filter_map(|point| point.value(knob)).collect();
        rows.sort_by(f64::total_cmp);
        rows.dedup();
        let settings = || answer.along.iter().filter_map(|along| along.others.iter().next());
        let titles: Vec<String> = settings().map(|(other, value)| format!("{other}={value}")).collect();
        let mut map = output::Table::new(&[vec![knob.clone()], titles].concat());
        for row in rows {
            let cell = |(other, &value): (&String, &f64)| {
                let is_it = |point: &&SweepPoint| point.value(knob) == Some(row) && point.value(other) == Some(value);
                answer.points.iter().find(is_it).map_or_else(String::new, |point| cell(point, answer))
            };
            map.row(std::iter::once(row.to_string()).chain(settings().map(cell)).collect::<Vec<_>>());
        }
        writeln!(
            out,
            "\niteration by {knob}: ! does not fit, * optimal batch, and of what the critical path is mostly"
        )?;
        output::text(&map, out)?;
    }
    for along in &answer.along {
        let others: Vec<String> = along.others.iter().map(|(other, value)| format!("{other}={value}")).collect();
        let batch = along.optimal_batch.map(|batch| {
            let what = if along.still_gains { "still grows at batch" } else { "optimal batch" };
            format!("{what} {batch}")
        });
        let limit = along.memory_limit.map(|limit| format!("memory fits up to {knob}={limit}"));
        let change =
            |change: &PathChange| format!("mostly {} from {knob}={} on, before {}", change.to, change.at, change.from);
        let said: Vec<String> = batch.into_iter().chain(limit).chain(along.path_changes.iter().map(change)).collect();
        if !said.is_empty() {
            writeln!(out, "{}: {}", others.join(" "), said.join("; "))?;
        }
    }
    Ok(())
}

fn cell(point: &SweepPoint, answer: &Answer) -> String {
    let is_on = |along: &&SweepSlice| along.others.iter().all(|(other, value)| point.value(other) == Some(*value));
    let best = answer.along.iter().find(is_on).filter(|along| !along.still_gains).and_then(|along| along.optimal_batch);
    let is_best = best.is_some_and(|best| point.value("batch") == Some(best as f64));
    let mark = if point.fits == Some(false) {
        "!"
    } else if is_best {
        "*"
    } else {
        ""
    };
    format!("{}{mark} {}", point.steady_ns, point.path_kind)
}

fn table(knobs: &[String], points: &[SweepPoint]) -> output::Table {
    let counted = if points.iter().any(|point| point.counts_iterations) { "batches /s" } else { "throughput /s" };
    let mut table = output::Table::new(&[
        "knobs",
        "simulated_ns",
        "steady_ns",
        "low_ns",
        "high_ns",
        counted,
        "per rank /s",
        "memory_bytes",
        "fits",
        "path",
    ]);
    for point in points.iter().filter(|point| point.not_done.is_none()) {
        let values: Vec<String> = knobs.iter().filter_map(|knob| Some(setting(knob, point.value(knob)?))).collect();
        table.row([
            values.join(" "),
            point.simulated_ns.0.to_string(),
            point.steady_ns.0.to_string(),
            point.steady_band.low_ns.0.to_string(),
            point.steady_band.high_ns.0.to_string(),
            format!("{:.2}", point.throughput),
            format!("{:.2}", point.throughput_per_rank),
            point.memory_bytes.map_or("–".to_owned(), |bytes| bytes.0.to_string()),
            point.fits.map_or("–".to_owned(), |fits| if fits { "yes" } else { "no" }.to_owned()),
            point.path_kind.clone(),
        ]);
    }
    table
}

//! `--iteration all`: every recorded step in turn, and how much they differ. One row per step.

use std::collections::BTreeMap;
use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{Command, Iteration, OutputArgs, PathArgs, ScenarioCommand};
use crate::session::{Loaded, StepOutcome, Summary};
use retime_core::units::DurNs;

use super::opened::Opened;
use super::{breakdown, gaps, input, layers, output, path};
use retime_core::stats;

/// Runs a command on every step.
///
/// # Returns
/// The exit status.
///
/// # Errors
/// The command is about one iteration; and as the command itself.
pub fn run(command: &Command) -> Result<u8> {
    match command {
        Command::Simulate(args) if args.algorithm.is_some() => {
            return Err(super::Misuse("--as is about one step: --iteration N says which".to_owned()).into());
        }
        Command::Simulate(args) => simulate(&args.common)?,
        Command::Path(args) => paths(args)?,
        Command::Gaps(args) => idle(args)?,
        Command::Breakdown(args) => breakdowns(args)?,
        Command::Layers(args) => layers::run(args, Iteration::All)?,
        Command::Info(_) | Command::Devices(_) | Command::Validate(_) | Command::Transforms(_) => {
            return super::run(command, Iteration::Default);
        }
        _ => {
            return Err(eyre!(
                "--iteration all is for simulate, path, gaps, breakdown and layers; this command models one step"
            ));
        }
    }
    Ok(0)
}

/// An answer per step, and how they spread.
#[derive(Debug, Serialize)]
struct Answer<T, S> {
    iterations: Vec<Row<T>>,
    summary: S,
}

#[derive(Debug, Serialize)]
struct Row<T> {
    index: usize,
    name: String,
    #[serde(flatten)]
    answer: T,
}

fn answer<T, S>(loaded: &Loaded, found: Vec<(String, T)>, summary: S) -> input::Envelope<Answer<T, S>> {
    let row = |(index, (name, answer)): (usize, (String, T))| Row { index, name, answer };
    input::Envelope::new(loaded, Answer { iterations: found.into_iter().enumerate().map(row).collect(), summary })
}

/// How values of several steps spread.
#[derive(Debug, Default, Serialize)]
struct Spread {
    #[serde(rename = "mean_ns")]
    mean: DurNs,
    #[serde(rename = "median_ns")]
    median: DurNs,
    #[serde(rename = "min_ns")]
    min: DurNs,
    #[serde(rename = "max_ns")]
    max: DurNs,
    /// Standard deviation over the steps.
    #[serde(rename = "std_ns")]
    std: DurNs,
}

impl Spread {
    fn of(values: impl Iterator<Item = DurNs>) -> Self {
        let mut values: Vec<f64> = values.map(|value| value.0 as f64).collect();
        let Some((mean, std)) = stats::mean_and_deviation(&values) else { return Self::default() };
        let median = stats::median(&mut values).unwrap_or_default();
        let time = |ns: f64| DurNs(ns.round() as i64);
        Self {
            mean: time(mean),
            median: DurNs(median as i64),
            min: time(values[0]),
            max: time(values[values.len() - 1]),
            std: time(std),
        }
    }

    fn line(&self, what: &str, out: &mut dyn Write) -> io::Result<()> {
        let Self { mean, median, min, max, std } = self;
        writeln!(out, "{what}: mean {mean}, median {median}, {min} to {max}, standard deviation {std}")
    }
}

#[derive(Debug, Serialize)]
struct Simulated {
    #[serde(flatten)]
    summary: Summary,
    steps: Vec<StepOutcome>,
}

#[derive(Debug, Serialize)]
struct Times {
    measured: Spread,
    base_simulated: Spread,
    simulated: Spread,
    base_steady: Spread,
    steady: Spread,
}

fn simulate(args: &ScenarioCommand) -> Result<()> {
    let (loaded, found) = Opened::each(args, |opened| Simulated {
        summary: opened.outcome.summary.clone(),
        steps: opened.outcome.steps.clone(),
    })?;
    let spread = |of: fn(&Summary) -> DurNs| Spread::of(found.iter().map(|(_, one)| of(&one.summary)));
    let summary = Times {
        measured: spread(|summary| summary.measured_ns),
        base_simulated: spread(|summary| summary.base_simulated_ns),
        simulated: spread(|summary| summary.simulated_ns),
        base_steady: spread(|summary| summary.base_steady_ns),
        steady: spread(|summary| summary.steady_ns),
    };
    let json = answer(&loaded, found, summary);
    let edited = json.answer.iterations.iter().any(|row| !row.answer.steps.is_empty());
    let text = |out: &mut dyn Write| {
        writeln!(out, "{}", loaded.title)?;
        output::text(&times(&json.answer.iterations), out)?;
        json.answer.summary.measured.line("measured", out)?;
        json.answer.summary.base_simulated.line("replayed", out)?;
        json.answer.summary.base_steady.line("repeated", out)?;
        if edited { json.answer.summary.steady.line("simulated", out) } else { Ok(()) }
    };
    output::write(&args.input.output, &json, text, || times(&json.answer.iterations))?;
    Ok(())
}

fn times(rows: &[Row<Simulated>]) -> output::Table {
    let mut table = output::Table::new(&[
        "iteration",
        "measured_ns",
        "replayed_ns",
        "error %",
        "unexplained %",
        "simulated_ns",
        "steady_ns",
        "change %",
        "gpu_busy",
    ]);
    for Row { name, answer: Simulated { summary, .. }, .. } in rows {
        let change = summary.steady_ns.0 as f64 / summary.base_steady_ns.0.max(1) as f64 - 1.0;
        table.row([
            name.clone(),
            summary.measured_ns.0.to_string(),
            summary.base_simulated_ns.0.to_string(),
            summary.replay_error.map_or_else(|| "–".to_owned(), |error| format!("{:+.3}", 100.0 * error)),
            format!("{:.2}", 100.0 * summary.unexplained_share),
            summary.simulated_ns.0.to_string(),
            summary.steady_ns.0.to_string(),
            format!("{:+.2}", 100.0 * change),
            format!("{:.4}", summary.gpu_busy),
        ]);
    }
    table
}

/// A time and what it is made of.
#[derive(Debug, Serialize)]
struct Parts {
    #[serde(rename = "length_ns")]
    length: DurNs,
    by_kind: BTreeMap<&'static str, DurNs>,
}

/// The spread of a time, and the means of what it is made of.
#[derive(Debug, Serialize)]
struct Whole {
    length: Spread,
    mean_by_kind: BTreeMap<&'static str, DurNs>,
}

impl Whole {
    fn of(found: &[(String, Parts)]) -> Self {
        let mut totals: BTreeMap<&'static str, DurNs> = BTreeMap::new();
        for (kind, time) in found.iter().flat_map(|(_, parts)| &parts.by_kind) {
            *totals.entry(kind).or_default() += *time;
        }
        let count = found.len().max(1) as f64;
        let mean_by_kind = totals.into_iter().map(|(kind, time)| (kind, time.scale(1.0 / count))).collect();
        Self { length: Spread::of(found.iter().map(|(_, parts)| parts.length)), mean_by_kind }
    }
}

fn paths(args: &PathArgs) -> Result<()> {
    path::check(args)?;
    let (loaded, found) = Opened::each(&args.common, |opened| {
        let path = path::path_of(&opened, args.measured);
        Parts { length: path.length, by_kind: path.by_kind() }
    })?;
    write_parts(&loaded, found, &args.common.input.output, "critical path")
}

fn idle(args: &ScenarioCommand) -> Result<()> {
    let (loaded, found) = Opened::each(args, |opened| {
        let gaps = opened.engine.gaps(&opened.loaded, &opened.outcome, gaps::SHORTEST, 0);
        let mut by_kind: BTreeMap<&'static str, DurNs> = BTreeMap::new();
        for gap in &gaps {
            *by_kind.entry(gap.cause.name()).or_default() += gap.duration;
        }
        Parts { length: gaps.iter().map(|gap| gap.duration).sum(), by_kind }
    })?;
    write_parts(&loaded, found, &args.input.output, "idle time of all streams")
}

fn write_parts(loaded: &Loaded, found: Vec<(String, Parts)>, output: &OutputArgs, what: &str) -> Result<()> {
    let whole = Whole::of(&found);
    let json = answer(loaded, found, whole);
    let text = |out: &mut dyn Write| {
        writeln!(out, "{}", loaded.title)?;
        json.answer.summary.length.line(what, out)?;
        let table = parts(&json.answer, WIDEST);
        output::text(&table, out)
    };
    output::write(output, &json, text, || parts(&json.answer, usize::MAX))?;
    Ok(())
}

/// Kinds that people see a column of, at most: the largest.
const WIDEST: usize = 8;

/// One row per step, one column per kind; the last row is the mean.
fn parts(answer: &Answer<Parts, Whole>, most: usize) -> output::Table {
    let mean = &answer.summary.mean_by_kind;
    let mut kinds: Vec<&'static str> = mean.keys().copied().collect();
    kinds.sort_by_key(|kind| (std::cmp::Reverse(mean[kind]), *kind));
    kinds.truncate(most);
    let header: Vec<&'static str> = ["iteration", "length_ns"].into_iter().chain(kinds.iter().copied()).collect();
    let mut table = output::Table::new(&header);
    let row = |name: &str, length: DurNs, by_kind: &BTreeMap<&'static str, DurNs>| {
        let cells = kinds.iter().map(|kind| by_kind.get(kind).map_or(0, |time| time.0).to_string());
        [name.to_owned(), length.0.to_string()].into_iter().chain(cells).collect::<Vec<_>>()
    };
    for one in &answer.iterations {
        table.row(row(&one.name, one.answer.length, &one.answer.by_kind));
    }
    table.row(row("mean", answer.summary.length.mean, mean));
    table
}

#[derive(Debug, Serialize)]
struct Period {
    period: Spread,
}

fn breakdowns(args: &ScenarioCommand) -> Result<()> {
    let (loaded, found) = Opened::each(args, |opened| breakdown::answer(&opened))?;
    let longest = |one: &breakdown::Answer| one.ranks.iter().map(|rank| rank.period_ns).max().unwrap_or_default();
    let period = Spread::of(found.iter().map(|(_, one)| longest(one)));
    let json = answer(&loaded, found, Period { period });
    let text = |out: &mut dyn Write| {
        writeln!(out, "{}", loaded.title)?;
        json.answer.summary.period.line("iteration", out)?;
        output::text(&ranks(&json.answer.iterations), out)
    };
    output::write(&args.input.output, &json, text, || ranks(&json.answer.iterations))?;
    Ok(())
}

fn ranks(rows: &[Row<breakdown::Answer>]) -> output::Table {
    let mut table = output::Table::new(&[
        "iteration",
        "rank",
        "period_ns",
        "gpu_busy",
        "kernel_only_ns",
        "communication_exposed_ns",
        "communication_overlapped_ns",
    ]);
    for row in rows {
        for rank in &row.answer.ranks {
            table.row([
                row.name.clone(),
                rank.number.to_string(),
                rank.period_ns.0.to_string(),
                format!("{:.4}", rank.gpu_busy),
                rank.kernel_only_ns.0.to_string(),
                rank.communication_exposed_ns.0.to_string(),
                rank.communication_overlapped_ns.0.to_string(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_tells_mean_median_and_standard_deviation() {
        let spread = Spread::of([4, 8, 6, 2].map(DurNs).into_iter());
        assert_eq!((spread.mean, spread.median, spread.std), (DurNs(5), DurNs(5), DurNs(2)));
        assert_eq!((spread.min, spread.max), (DurNs(2), DurNs(8)));
    }
}

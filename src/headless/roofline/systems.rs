//! `roofline --system`: machines under the communication roofline without a trace, with distributed algorithms over sizes and
//! measured points [Cardwell 2019 ch. 2].

use std::io::{self, Write};

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::RooflineArgs;
use crate::headless::{Misuse, input, output};
use crate::session::{
    Figure, FigurePoint, FigureSystem, Overwrite, measured_runs, read_table, roofline_figure, write_new,
};
use retime_core::analysis::roofline::{
    AlgorithmSeries, DistributedAlgorithm, MeasuredPoint, RoofErrors, Sizes, System, SystemRoofline,
};
use retime_core::units::Percent;

use super::{Planes, planes};

#[derive(Debug, Serialize)]
struct Answer {
    traces: [String; 0],
    systems: Vec<SystemAnswer>,
    diagnostics: [String; 0],
}

/// A machine with what lies under its roofs, and the lowest of the three planes over both intensities.
#[derive(Debug, Serialize)]
struct SystemAnswer {
    #[serde(flatten)]
    roofline: SystemRoofline,
    planes: Planes,
}

/// Whether machines alone are asked for.
pub(super) fn is_asked(args: &RooflineArgs) -> bool {
    !args.system.is_empty()
}

/// Runs the command.
///
/// # Errors
/// A device is unknown, a file cannot be read or written, or an argument makes no sense.
pub(super) fn run(args: &RooflineArgs) -> Result<()> {
    if !args.common.input.traces.is_empty() {
        return Err(Misuse("--system shows machines alone: without it a trace is shown under its device".into()).into());
    }
    let engine = input::engine()?;
    let systems: Result<Vec<System>> =
        args.system.iter().map(|system| system.parse().map_err(|error| Misuse(error).into())).collect();
    let (systems, series) = (systems?, series(args)?);
    let runs = match &args.points {
        Some(path) => measured_runs(&read_table(path)?)?,
        None => Vec::new(),
    };
    let answer = |system: &System| -> Result<SystemAnswer> {
        let roofline = SystemRoofline::of(system, &engine.catalog, &series, &runs)?;
        Ok(SystemAnswer { planes: planes(&roofline.roofs), roofline })
    };
    let systems: Result<Vec<SystemAnswer>> = systems.iter().map(answer).collect();
    let systems = systems?;
    if !series.algorithms.is_empty() && systems.iter().all(|system| system.roofline.algorithms.is_empty()) {
        let why = "more processes than elements leave nothing for each: another --size, or fewer --processes";
        return Err(Misuse(why.into()).into());
    }
    let answer = Answer { traces: [], systems, diagnostics: [] };
    if let Some(path) = &args.svg {
        write_new(
            path,
            roofline_figure(&figure(&answer.systems)).as_bytes(),
            Overwrite::forced(args.common.scenario.force),
        )?;
    }
    let table = || table(&answer.systems);
    output::write(&args.common.input.output, &answer, |out| describe(&answer.systems, &table(), out), table)?;
    Ok(())
}

/// The algorithms that `args` ask for.
///
/// # Errors
/// A size or an algorithm cannot be read.
pub(super) fn series(args: &RooflineArgs) -> Result<AlgorithmSeries> {
    let named: Result<Vec<_>, String> = args.algorithm.iter().map(|name| DistributedAlgorithm::find(name)).collect();
    let named = named.map_err(Misuse)?;
    let is_chosen = |algorithm: &DistributedAlgorithm| args.algorithms || named.contains(algorithm);
    let sizes: Option<Sizes> = args.size.as_deref().map(str::parse).transpose().map_err(Misuse)?;
    let algorithms = DistributedAlgorithm::ALL.into_iter().filter(is_chosen).collect();
    Ok(AlgorithmSeries { algorithms, sizes, processes: args.processes })
}

/// What to say of measured points that lie above what the roofs of their system allow, beyond rounding.
fn above_roofs(answer: &SystemAnswer) -> Option<String> {
    const ROUNDING: f64 = 1.01;
    let points = &answer.roofline.points;
    let above: Vec<&MeasuredPoint> =
        points.iter().filter(|point| point.throughput > ROUNDING * point.attainable).collect();
    let worst =
        above.iter().copied().max_by(|a, b| (a.throughput / a.attainable).total_cmp(&(b.throughput / b.attainable)))?;
    Some(format!(
        "{} of {} measured points lie above the roofs of {}, {} by {:.2}×: its figures or theirs are not right",
        above.len(),
        points.len(),
        answer.roofline.system,
        worst.name,
        worst.throughput / worst.attainable
    ))
}

fn describe(systems: &[SystemAnswer], table: &output::Table, out: &mut dyn Write) -> io::Result<()> {
    for answer in systems {
        let SystemRoofline { system, roofs, ridge, network_ridge, errors, .. } = &answer.roofline;
        let network = roofs.network.zip(*network_ridge).map_or("no network".to_owned(), |(network, ridge)| {
            format!("network {} GB/s, ridge {ridge:.2} FLOP per network byte", network.0 / 1e9)
        });
        let (peak, memory) = (roofs.peak.0 / 1e9, roofs.memory.0 / 1e9);
        writeln!(out, "{system}: {peak} GFLOP/s, memory {memory} GB/s, ridge {ridge:.2} FLOP/B; {network}")?;
        if let Some(RoofErrors { by_memory, by_communication, nearer }) = errors {
            writeln!(
                out,
                "  measured points: {:.1} off by peak and memory, {:.1} with the network's roof: {:.1} nearer",
                Percent(*by_memory),
                Percent(*by_communication),
                Percent(*nearer)
            )?;
        }
        if let Some(above) = above_roofs(answer) {
            writeln!(out, "  ! {above}")?;
        }
    }
    if systems.iter().all(|it| it.roofline.algorithms.is_empty() && it.roofline.points.is_empty()) {
        return Ok(());
    }
    output::text(table, out)
}

fn table(systems: &[SystemAnswer]) -> output::Table {
    let mut table = output::Table::new(&[
        "size",
        "processes",
        "FLOP/B",
        "FLOP/net B",
        "GFLOP/s",
        "roof",
        "by memory",
        "bound",
        "name",
        "system",
    ]);
    let number = |value: f64| format!("{value:.4}");
    let optional = |value: Option<f64>| value.map_or("–".to_owned(), number);
    for SystemAnswer { roofline: system, .. } in systems {
        for it in &system.algorithms {
            table.row([
                format!("{}", it.size),
                format!("{}", it.processes),
                number(it.intensity),
                optional(it.communication_intensity),
                "–".to_owned(),
                number(it.attainable / 1e9),
                number(it.attainable_by_memory / 1e9),
                it.bound.name().to_owned(),
                it.name.to_owned(),
                system.system.clone(),
            ]);
        }
        for it in &system.points {
            table.row([
                "–".to_owned(),
                "–".to_owned(),
                number(it.intensity),
                optional(it.communication_intensity),
                number(it.throughput / 1e9),
                number(it.attainable / 1e9),
                number(system.roofs.attainable(it.intensity, f64::INFINITY).0 / 1e9),
                it.bound.name().to_owned(),
                it.name.clone(),
                system.system.clone(),
            ]);
        }
    }
    table
}

/// What a drawing shows of the systems: roofs, algorithms on them, measured points below.
fn figure(systems: &[SystemAnswer]) -> Figure {
    let of = |SystemAnswer { roofline: system, .. }: &SystemAnswer| {
        let algorithms = system.algorithms.iter().map(|it| FigurePoint {
            series: it.name.to_owned(),
            intensity: it.intensity,
            communication_intensity: it.communication_intensity,
            rate: it.attainable,
            is_measured: false,
        });
        let measured = system.points.iter().map(|it| FigurePoint {
            series: it.name.clone(),
            intensity: it.intensity,
            communication_intensity: it.communication_intensity,
            rate: it.throughput,
            is_measured: true,
        });
        FigureSystem { name: system.system.clone(), roofs: system.roofs, points: algorithms.chain(measured).collect() }
    };
    Figure { systems: systems.iter().map(of).collect() }
}

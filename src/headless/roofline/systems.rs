//! `roofline --system`: machines under the communication roofline without a trace, with distributed algorithms over sizes and
//! measured points [Cardwell 2019 ch. 2].

use std::io::{self, Write};
use std::path::Path;

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{AlgorithmName, RooflineArgs, System};
use crate::headless::{Misuse, input, output};
use crate::session::{Figure, FigurePoint, FigureSystem, Overwrite, read_table, roofline_figure, write_new};
use retime_core::analysis::roofline::{DistributedAlgorithm, Limit, Load, MachineCache, Roofs};
use retime_core::device::{Catalog, Precision};
use retime_core::units::{BytesPerSec, FlopPerSec, Percent};
use retime_fit::csv::Table;

use super::{EDGES_PER_VERTEX, Planes, planes};

#[derive(Debug, Serialize)]
struct Answer {
    traces: [String; 0],
    systems: Vec<SystemAnswer>,
    diagnostics: [String; 0],
}

/// A machine with what lies under its roofs.
#[derive(Debug, Serialize)]
struct SystemAnswer {
    system: String,
    /// FLOP per byte from which memory does not limit.
    ridge: f64,
    /// FLOP per network byte from which the network does not limit.
    network_ridge: Option<f64>,
    roofs: Roofs,
    algorithms: Vec<AlgorithmPoint>,
    points: Vec<MeasuredPoint>,
    /// Mean absolute errors over the measured points, where there are any.
    errors: Option<RoofErrors>,
    planes: Planes,
}

/// A distributed algorithm of one size under some roofs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AlgorithmPoint {
    pub(super) name: &'static str,
    pub(super) size: f64,
    pub(super) processes: f64,
    pub(super) intensity: f64,
    pub(super) communication_intensity: Option<f64>,
    /// FLOP per second under all three roofs.
    pub(super) attainable: f64,
    /// FLOP per second without the network's roof.
    pub(super) attainable_by_memory: f64,
    pub(super) bound: Limit,
}

/// A measured run.
#[derive(Debug, Serialize)]
struct MeasuredPoint {
    name: String,
    #[serde(flatten)]
    load: Load,
    intensity: f64,
    communication_intensity: Option<f64>,
    throughput: f64,
    attainable: f64,
    bound: Limit,
}

/// How far the roofs lie from what was measured [Cardwell 2019 eq. 2.6 and Table 2.6].
#[derive(Clone, Copy, Debug, Serialize)]
struct RoofErrors {
    /// Mean of `|measured − predicted| / measured` under peak and memory.
    by_memory: f64,
    /// The same under the network's roof, too.
    by_communication: f64,
    /// The share of the former that the network's roof takes off.
    nearer: f64,
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
    let measured = args.points.as_deref().map(read_points).transpose()?.unwrap_or_default();
    let systems: Result<Vec<SystemAnswer>> =
        args.system.iter().map(|system| answer(&engine.catalog, system, args, &measured)).collect();
    let answer = Answer { traces: [], systems: systems?, diagnostics: [] };
    if let Some(path) = &args.svg {
        write_new(path, roofline_figure(&figure(&answer.systems)).as_bytes(), Overwrite::default())?;
    }
    let table = || table(&answer.systems);
    output::write(&args.common.input.output, &answer, |out| describe(&answer.systems, &table(), out), table)?;
    Ok(())
}

fn answer(
    catalog: &Catalog,
    system: &System,
    args: &RooflineArgs,
    measured: &[(String, Option<String>, Load)],
) -> Result<SystemAnswer> {
    let (name, roofs) = match system {
        System::Named(name) => {
            let device = catalog.find(name)?;
            (device.id.clone(), Roofs::of(device, Precision::Fp64))
        }
        System::Made { label, figures } => {
            let [peak, memory, network] = figures.map(|figure| figure * 1e9);
            let (peak, network) = (FlopPerSec(peak), Some(BytesPerSec(network)));
            (label.clone(), Roofs { peak, memory: BytesPerSec(memory), network })
        }
    };
    let own = measured.iter().filter(|(_, system, _)| system.as_ref().is_none_or(|system| *system == name));
    let points: Vec<MeasuredPoint> = own.map(|(label, _, load)| point(label, load, &roofs)).collect();
    Ok(SystemAnswer {
        ridge: roofs.ridge(),
        network_ridge: roofs.network_ridge(),
        algorithms: algorithms(args, &roofs),
        errors: errors(&points, &roofs),
        points,
        planes: planes(&roofs),
        system: name,
        roofs,
    })
}

/// The algorithms that `args` ask for, each at every size.
pub(super) fn algorithms(args: &RooflineArgs, roofs: &Roofs) -> Vec<AlgorithmPoint> {
    let chosen: Vec<DistributedAlgorithm> = DistributedAlgorithm::ALL
        .into_iter()
        .filter(|algorithm| args.algorithms || args.algorithm.iter().any(|name| named(*name) == *algorithm))
        .collect();
    let each = |algorithm: DistributedAlgorithm| {
        let processes = args.processes.unwrap_or_else(|| algorithm.processes());
        let sizes = args.size.as_ref().map_or_else(|| algorithm.sizes(), |sizes| sizes.0.clone());
        sizes.into_iter().map(move |size| algorithm_point(algorithm, size, processes, roofs)).collect::<Vec<_>>()
    };
    chosen.into_iter().flat_map(each).collect()
}

fn named(name: AlgorithmName) -> DistributedAlgorithm {
    match name {
        AlgorithmName::Summa => DistributedAlgorithm::Summa,
        AlgorithmName::Dgemv => DistributedAlgorithm::Dgemv,
        AlgorithmName::Ddot => DistributedAlgorithm::Ddot,
        AlgorithmName::Fft => DistributedAlgorithm::Fft,
        AlgorithmName::Stencil => DistributedAlgorithm::Stencil,
        AlgorithmName::Mst => DistributedAlgorithm::SpanningTree,
        AlgorithmName::Dijkstra => DistributedAlgorithm::Dijkstra,
    }
}

fn algorithm_point(algorithm: DistributedAlgorithm, size: f64, processes: f64, roofs: &Roofs) -> AlgorithmPoint {
    let found = algorithm.intensities(size, processes, EDGES_PER_VERTEX, MachineCache::THESIS);
    AlgorithmPoint {
        name: algorithm.name(),
        size,
        processes,
        intensity: found.memory,
        communication_intensity: Some(found.network).filter(|value| value.is_finite()),
        attainable: roofs.attainable(found.memory, found.network).0,
        attainable_by_memory: roofs.attainable(found.memory, f64::INFINITY).0,
        bound: roofs.limit(found.memory, found.network),
    }
}

fn point(label: &str, load: &Load, roofs: &Roofs) -> MeasuredPoint {
    let (intensity, communication) = (load.intensity(), load.communication_intensity());
    MeasuredPoint {
        name: label.to_owned(),
        load: *load,
        intensity,
        communication_intensity: Some(communication).filter(|value| value.is_finite()),
        throughput: load.throughput().0,
        attainable: roofs.attainable(intensity, communication).0,
        bound: load.limit(roofs),
    }
}

fn errors(points: &[MeasuredPoint], roofs: &Roofs) -> Option<RoofErrors> {
    let timed: Vec<&MeasuredPoint> = points.iter().filter(|point| point.throughput > 0.0).collect();
    let mean = |predicted: &dyn Fn(&MeasuredPoint) -> f64| {
        let off = timed.iter().map(|point| (point.throughput - predicted(point)).abs() / point.throughput);
        off.sum::<f64>() / timed.len() as f64
    };
    if timed.is_empty() {
        return None;
    }
    let by_memory = mean(&|point| roofs.attainable(point.intensity, f64::INFINITY).0);
    let by_communication = mean(&|point| point.attainable);
    let nearer = if by_memory > 0.0 { 1.0 - by_communication / by_memory } else { 0.0 };
    Some(RoofErrors { by_memory, by_communication, nearer })
}

/// The rows of a table of measured runs: name, the system they ran on where it has that column, and what they did.
fn read_points(path: &Path) -> Result<Vec<(String, Option<String>, Load)>> {
    let table = Table::parse(&read_table(path)?)?;
    table.require(&["name", "flop", "bytes", "seconds"])?;
    let rows = table.rows().map(|row| {
        let network_bytes = if row.text("network_bytes").is_empty() { 0.0 } else { row.number("network_bytes")? };
        let (flop, bytes, seconds) = (row.number("flop")?, row.number("bytes")?, row.positive("seconds")?);
        let system = Some(row.text("system").to_owned()).filter(|system| !system.is_empty());
        Ok((row.text("name").to_owned(), system, Load { flop, bytes, network_bytes, seconds }))
    });
    rows.collect()
}

fn describe(systems: &[SystemAnswer], table: &output::Table, out: &mut dyn Write) -> io::Result<()> {
    for SystemAnswer { system, roofs, ridge, network_ridge, errors, .. } in systems {
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
    }
    if systems.iter().all(|system| system.algorithms.is_empty() && system.points.is_empty()) {
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
    for system in systems {
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
    let of = |system: &SystemAnswer| {
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

//! `roofline`: kernels, operators or the model under the memory and the communication roofline of a device.

mod systems;

use std::io::{self, Write};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{Iteration, RooflineArgs};
use retime_core::analysis::roofline::{
    AlgorithmPoint, AlgorithmSeries, FIGURES, Limit, Place, Point, Roofs, dominant_precision, left_out,
    on_other_devices, points, unknown,
};
use retime_core::cost::significant::significant;
use retime_core::device::{DeviceKind, DeviceProfile};
use retime_core::diagnostic::{Diagnostic, Severity};
use retime_core::graph::LaneKind;
use retime_core::units::{BytesPerSec, DurNs, Percent};

use super::opened::Opened;
use super::{Misuse, input, ops, output};

#[derive(Debug, Serialize)]
struct Answer {
    device: String,
    precision: &'static str,
    /// FLOP per byte from which memory does not limit.
    ridge: f64,
    /// FLOP per network byte from which the network does not limit.
    network_ridge: Option<f64>,
    roofs: Roofs,
    points: Vec<Point>,
    /// Kernels and copies whose work the trace does not tell.
    unknown_kernels: usize,
    unknown_seconds: f64,
    algorithms: Vec<AlgorithmPoint>,
    planes: Planes,
    /// Ranks whose work ran under other roofs, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
    /// What it means that kernels compute faster than their units do, where some do.
    #[serde(skip)]
    above_compute: Option<&'static str>,
    /// What it means that collectives carry more than the link does, where some do.
    #[serde(skip)]
    above_network: Option<&'static str>,
}

/// The lowest of the three planes over both intensities: a row per communication intensity.
#[derive(Debug, Serialize)]
struct Planes {
    intensities: Vec<f64>,
    communication_intensities: Vec<f64>,
    attainable: Vec<Vec<f64>>,
    limits: Vec<Vec<Limit>>,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, a device is unknown, or standard output cannot be written.
pub fn run(args: &RooflineArgs, iteration: Iteration) -> Result<()> {
    for (name, value) in [("--peak", args.peak), ("--bandwidth", args.bandwidth), ("--network", args.network)] {
        if value.is_some_and(|value| !FIGURES.contains(&value)) {
            return Err(Misuse(format!("{name}: expected a number from 1e-6 to 1e12")).into());
        }
    }
    if args.processes.is_some_and(|processes| !processes.is_finite() || processes < 1.0) {
        return Err(Misuse("--processes: expected a number from 1".into()).into());
    }
    if systems::is_asked(args) {
        return systems::run(args);
    }
    if args.points.is_some() || args.svg.is_some() {
        return Err(Misuse("--points and --svg go with --system".into()).into());
    }
    let opened = Opened::of(&args.common, iteration)?;
    let own = opened.outcome.resolved.devices.first().map(|device| &**device);
    let device = match &args.common.input.device {
        Some(name) => opened.engine.catalog.find(name)?,
        None => own.ok_or_else(|| eyre!("the trace has no rank; name a device with --device"))?,
    };
    let is_given = args.common.input.device.is_some() || args.peak.and(args.bandwidth).is_some();
    if let Some(unknown) = opened.loaded.context.unknown_device(&opened.loaded.graph).filter(|_| !is_given) {
        return Err(eyre!(unknown));
    }
    let ran_on_gpu = opened.loaded.graph.lanes.iter().any(|lane| matches!(lane.kind, LaneKind::Stream { .. }));
    if ran_on_gpu && device.kind == DeviceKind::Cpu && args.peak.and(args.bandwidth).is_none() {
        return Err(eyre!(
            "the trace does not say which GPU it ran on; name it with --device, or one to swap to with --gpu"
        ));
    }
    let device = overridden(device, args);
    let beside = on_other_devices(&opened.outcome.resolved.devices);
    let place = Place { device: &device, factors: [1.0; 3], beside: &beside };
    let tasks = (&*opened.edited.graph, &*opened.edited.works);
    let points = points(tasks, opened.times(), &place, ops::level(args.level));
    let (unknown_kernels, unknown_seconds) = unknown(tasks, opened.times(), &place);
    let answer = Answer {
        unknown_kernels,
        unknown_seconds,
        left_out: left_out(&beside, &device),
        above_compute: above_compute(&points, &place),
        above_network: above_network(&points, &place),
        ..answer(&place, points, &systems::series(args)?)
    };
    let mut json = input::Envelope::new(&opened.loaded, answer);
    let above = [("above-compute-roof", json.answer.above_compute), ("above-network-roof", json.answer.above_network)];
    json.diagnostics.extend(above.into_iter().filter_map(|(code, why)| {
        let message = why?.to_owned();
        Some(Diagnostic { severity: Severity::Warning, code, message, place: None, count: 1 })
    }));
    let table = || table(&json.answer.points, &place);
    output::write(&args.common.input.output, &json, |out| describe(&json.answer, &table(), out), table)?;
    Ok(())
}

/// What it means that a point computes faster than the units that its arguments name; `None` where none does.
fn above_compute(points: &[Point], place: &Place<'_>) -> Option<&'static str> {
    let is_above =
        |point: &Point| point.bound == Limit::Compute && point.throughput > place.roofs(point.computed_with).peak.0;
    points.iter().any(is_above).then_some(
        "above 100 % of the compute roof: the kernels compute with other units or fewer bits than their arguments say (TF32 for FP32), \
         or less than these tell",
    )
}

/// What it means that a point's collectives carry more bytes than the link of the device does in their time; `None` where none do.
fn above_network(points: &[Point], place: &Place<'_>) -> Option<&'static str> {
    let is_above = |point: &Point| {
        let network = place.roofs(point.computed_with).network;
        point.bound == Limit::Network
            && network.is_some_and(|rate| point.load.network_bytes > rate.0 * point.load.seconds)
    };
    points.iter().any(is_above).then_some(
        "above 100 % of the network roof: the link carries more than is known of the device, or fewer bytes cross it than the sizes of \
         collectives say",
    )
}

/// The device with the roofs that the arguments give.
fn overridden(device: &DeviceProfile, args: &RooflineArgs) -> DeviceProfile {
    let mut device = device.clone();
    if let Some(tflops) = args.peak {
        device.peak.values_mut().for_each(|rate| rate.0 = tflops * 1e12);
    }
    if let Some(gb_s) = args.bandwidth {
        device.dram_bandwidth = BytesPerSec(gb_s * 1e9);
    }
    if let Some(gb_s) = args.network {
        device.peer_link = BytesPerSec(gb_s * 1e9);
    }
    device
}

fn answer(place: &Place<'_>, points: Vec<Point>, series: &AlgorithmSeries) -> Answer {
    let precision = dominant_precision(&points, place.device);
    let roofs = place.roofs(precision);
    Answer {
        device: place.device.id.clone(),
        precision: precision.key(),
        ridge: roofs.ridge(),
        network_ridge: roofs.network_ridge(),
        algorithms: series.under(&roofs),
        planes: planes(&roofs),
        roofs,
        points,
        unknown_kernels: 0,
        unknown_seconds: 0.0,
        left_out: None,
        above_compute: None,
        above_network: None,
    }
}

/// Powers of two around both ridges that the planes are given at.
const OCTAVES: i32 = 8;

fn planes(roofs: &Roofs) -> Planes {
    let axis = |ridge: f64| -> Vec<f64> { (-OCTAVES..=OCTAVES / 2).map(|octave| ridge * 2f64.powi(octave)).collect() };
    let intensities = axis(roofs.ridge());
    let communication_intensities = roofs.network_ridge().map_or_else(Vec::new, axis);
    let each = |intensity: &f64, communication: &f64| roofs.attainable(*intensity, *communication).0;
    let limit = |intensity: &f64, communication: &f64| roofs.limit(*intensity, *communication);
    let rows = communication_intensities.iter();
    Planes {
        attainable: rows.clone().map(|c| intensities.iter().map(|i| each(i, c)).collect()).collect(),
        limits: rows.map(|c| intensities.iter().map(|i| limit(i, c)).collect()).collect(),
        intensities,
        communication_intensities,
    }
}

/// Digits that roofs are told with.
const DIGITS: usize = 5;

fn describe(answer: &Answer, table: &output::Table, out: &mut dyn Write) -> io::Result<()> {
    let roofs = &answer.roofs;
    let [tflops, gb_s] = [roofs.peak.0 / 1e12, roofs.memory.0 / 1e9].map(|rate| significant(rate, DIGITS));
    writeln!(
        out,
        "{} at {}: {tflops} TFLOP/s, {gb_s} GB/s, ridge {:.2} FLOP/B",
        answer.device, answer.precision, answer.ridge
    )?;
    if let Some((network, ridge)) = roofs.network.zip(answer.network_ridge) {
        writeln!(out, "network {:.2} GB/s, ridge {ridge:.2} FLOP per network byte", network.0 / 1e9)?;
    }
    output::text(table, &mut *out)?;
    if let Some(left_out) = &answer.left_out {
        writeln!(out, "{left_out}")?;
    }
    let is_above =
        |point: &Point| point.bound == Limit::Memory && point.load.bytes > roofs.memory.0 * point.load.seconds;
    if answer.points.iter().any(is_above) {
        writeln!(out, "above 100 % of the memory roof: what lies in a cache does not cross the memory")?;
    }
    for why in [answer.above_compute, answer.above_network].into_iter().flatten() {
        writeln!(out, "{why}")?;
    }
    if answer.unknown_kernels > 0 {
        let shown: f64 = answer.points.iter().map(|point| point.load.seconds).sum();
        let [time, whole] = [0.0, shown].map(|more| DurNs::from_secs_f64(answer.unknown_seconds + more));
        writeln!(
            out,
            "not shown: {} kernels and copies whose work the trace does not tell, {}, {:.0} of the device's time",
            answer.unknown_kernels,
            time,
            Percent::of(time, whole)
        )?;
    }
    for algorithm in &answer.algorithms {
        let communication = algorithm.communication_intensity.map_or("–".to_owned(), |value| format!("{value:.3}"));
        writeln!(
            out,
            "{} of {} on {}: {:.3} FLOP/B, {communication} FLOP per network byte, at most {:.3} GFLOP/s, bound by {}",
            algorithm.name,
            algorithm.size,
            algorithm.processes,
            algorithm.intensity,
            algorithm.attainable / 1e9,
            algorithm.bound.name()
        )?;
    }
    Ok(())
}

fn table(points: &[Point], place: &Place<'_>) -> output::Table {
    let mut table = output::Table::new(&[
        "count",
        "time µs",
        "GFLOP",
        "MB",
        "FLOP/B",
        "net MB",
        "FLOP/net B",
        "GFLOP/s",
        "roof",
        "of roof %",
        "bound",
        "name",
    ]);
    let optional = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.2}"));
    for point in points {
        let is_known = point.bound != Limit::Unknown;
        let known = |text: String| if is_known { text } else { "–".to_owned() };
        let of_roof = point.share_of_roof(point.least_seconds(place));
        table.row([
            point.count.to_string(),
            format!("{:.1}", point.load.seconds * 1e6),
            known(format!("{:.4}", point.load.flop / 1e9)),
            known(format!("{:.3}", point.load.bytes / 1e6)),
            optional(point.intensity.filter(|_| is_known)),
            known(format!("{:.3}", point.load.network_bytes / 1e6)),
            optional(point.communication_intensity),
            known(format!("{:.1}", point.throughput / 1e9)),
            known(format!("{:.1}", point.attainable / 1e9)),
            of_roof.map_or("–".to_owned(), |share| format!("{:.1}", 100.0 * share)),
            point.bound.name().to_owned(),
            point.label.clone(),
        ]);
    }
    table
}

//! One model on two GPUs: the device time of one predicted from the other.

use std::collections::BTreeMap;

use retime::session::{Engine, Loaded, Outcome};
use retime_core::cost::{Prediction, Provenance, kernel_parts, work_of_task};
use retime_core::device::DeviceProfile;
use retime_core::graph::{ExecutionGraph, IterationChoice, NodeId, TaskKind};
use retime_core::scenario::Scenario;

use super::answer::{Calibration, Swapped};
use super::sources::Sources;
use super::{Answer, Constants, Row, bands, open, operators};

const FAMILY: &str = "GPU swap, device time";
const LIMIT: f64 = 0.12;
/// Error aimed at for iterations on another GPU.
pub(super) const AIM: f64 = 0.08;
const GPUS: [&str; 2] = ["H100-SXM", "MI300X"];

/// Checks each pair both ways.
pub(crate) fn check(engine: &Engine, sources: &Sources, answer: &mut Answer) {
    let mut scored = Vec::new();
    for (h100, mi300) in &sources.pairs {
        match (open(engine, h100, IterationChoice::Default), open(engine, mi300, IterationChoice::Default)) {
            (Ok(h100), Ok(mi300)) => {
                for (from, to, gpu) in [(&h100, &mi300, GPUS[1]), (&mi300, &h100, GPUS[0])] {
                    if let Some((row, kernels)) = row(engine, from, to, gpu) {
                        answer.rows.push(row);
                        scored.extend(kernels);
                    }
                }
            }
            (Err(error), _) | (_, Err(error)) => answer.not_checked.push(format!("GPU swap: {error}")),
        }
    }
    answer.sum_up(FAMILY, AIM);
    let of = |is_anchored: bool| {
        let kind: Vec<bool> =
            scored.iter().filter(|own| own.is_anchored == is_anchored).map(|own| own.inside).collect();
        Calibration::of(&kind)
    };
    answer.swapped = Swapped { anchored: of(true), absolute: of(false) };
}

/// A swapped kernel against the same work on the other device.
struct ScoredKernel {
    is_anchored: bool,
    /// Whether the mean time of that work there lies inside the band stated for it.
    inside: bool,
}

fn kernels(from: &Loaded, swapped: &Outcome, to: &Loaded) -> Vec<ScoredKernel> {
    let works = |graph: &ExecutionGraph| -> BTreeMap<NodeId, String> {
        let parts = kernel_parts(graph);
        let kernels = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel);
        let work = |node: NodeId| {
            work_of_task(graph, &graph.tasks[node], parts[node.index()], |id| {
                let operands = graph.operators.get(id.0 as usize)?.operands?;
                graph.operands.get(operands.0 as usize)
            })
        };
        kernels.filter_map(|node| Some((node, format!("{:?}", work(node)?)))).collect()
    };
    let mut measured: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (node, work) in works(&to.graph) {
        let (sum, n) = measured.entry(work).or_default();
        *sum += to.graph.tasks[node].measured.0 as f64;
        *n += 1.0;
    }
    let works = works(&from.graph);
    let score = |(node, prediction): &(NodeId, Prediction)| {
        let (sum, n) = measured.get(works.get(node)?)?;
        let (us, got) = (sum / n, prediction.duration.0 as f64);
        let inside = (us - got).abs() <= got * f64::from(prediction.error);
        match prediction.provenance {
            Provenance::Anchored => Some(ScoredKernel { is_anchored: true, inside }),
            Provenance::Absolute => Some(ScoredKernel { is_anchored: false, inside }),
            Provenance::Measured | Provenance::Unmodelled => None,
        }
    };
    swapped.resolved.changes.iter().filter_map(score).collect()
}

/// The models' constant for instructions was chosen after seeing these traces.
fn row(engine: &Engine, from: &Loaded, to: &Loaded, gpu: &str) -> Option<(Row, Vec<ScoredKernel>)> {
    let scenario = Scenario::parse([format!("swap-gpu {gpu}").as_str()]).ok()?;
    let device_ns =
        |loaded: &Loaded, scenario: &Scenario| engine.evaluate(loaded, scenario, 0).summary.kernel_only_ns.0 as f64;
    let unchanged = device_ns(from, &Scenario::default());
    let swapped = engine.evaluate(from, &scenario, 0);
    let got = swapped.summary.kernel_only_ns.0 as f64;
    let pair = (device_ns(to, &Scenario::default()), got);
    let bandwidth = |device: &DeviceProfile| device.bandwidth().0;
    let (here, there) = (from.context.devices.first()?, engine.catalog.find(gpu).ok()?);
    let scaled = unchanged * bandwidth(&here.profile) / bandwidth(there);
    let row = Row::new(FAMILY, format!("{} to {gpu}", from.title), pair, LIMIT, (&from.title, Constants::Seen));
    let band = bands::around(got, bands::of_device(&swapped));
    let parts = operators::parts([&*from.replay], [&swapped], [&*to.replay]);
    Some((row.against(scaled, unchanged).within(band).of(parts), kernels(from, &swapped, to)))
}

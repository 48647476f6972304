//! Which edits are worth trying on a trace, and which parts of an iteration can be sped up virtually.
//!
//! Only names them, with arguments read off the trace; what each is worth a simulation tells.

use std::collections::BTreeSet;

use crate::cost::Family;
use crate::device::{DeviceKind, DeviceProfile, Precision};
use crate::graph::{ExecutionGraph, HostPart, NodeId, RankPart, TaskKind};
use crate::scenario::{Base, Context, parse_step};

/// A step to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The step as a line.
    pub line: String,
    /// Whether it takes other hardware.
    pub is_hardware: bool,
    /// Whether it changes how many samples an iteration has: then its gain is another measure than that of the rest.
    pub is_per_sample: bool,
}

/// A class of tasks that can be sped up virtually.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpeedUpTarget {
    /// What they are: a family of kernels, a part of host time, copies, the link.
    pub class: String,
    /// Which tasks.
    pub selector: String,
}

/// Edits without arguments that depend on the trace.
const PLAIN: [&str; 9] = [
    "fuse-embedding-bags",
    "fuse family=elementwise",
    "fuse-optimizer",
    "cuda-graph",
    "remove-sync",
    "prefetch-input",
    "overlap-comm",
    "parallelize family=embedding & phase=forward",
    "conv-algorithm best",
];
/// Edits of collectives.
const OF_COLLECTIVES: [&str; 5] =
    ["bucket-size 25", "bucket-size 50", "bucket-size 100", "bucket-size 400", "compress-comm 2"];
/// GPUs of three generations, for what was traced on a host.
const ON_GPU: [&str; 3] = ["place-on V100", "place-on A100-80", "place-on H100-SXM"];
/// Placements of embedding tables.
const PLACEMENTS: [&str; 3] =
    ["reshard-tables size_lookup_greedy", "reshard-tables lookup_greedy", "reshard-tables size_greedy"];

/// Figures of one chip differ by less between boards.
const LEAST_FASTER: f64 = 1.05;

/// Steps that may make the iteration of a trace, or a sample of it, faster.
pub fn candidates(base: &Base, context: &Context) -> Vec<Candidate> {
    let graph = base.graph();
    let has = |wanted: fn(TaskKind) -> bool| graph.tasks.node_weights().any(|task| wanted(task.kind));
    let mut lines: Vec<String> = PLAIN.iter().map(|&line| line.to_owned()).collect();
    lines.push(format!("mixed-precision {}", half_type(context)));
    if has(|kind| matches!(kind, TaskKind::Collective(_))) {
        lines.extend(OF_COLLECTIVES.iter().map(|&line| line.to_owned()));
    }
    if graph.ranks.len() > 1 {
        lines.push("straggler remove".to_owned());
        lines.extend(PLACEMENTS.iter().map(|&line| line.to_owned()));
    }
    let batches = graph.batch_size.into_iter().flat_map(|batch| [2, 4, 8].map(|times| batch.saturating_mul(times)));
    let per_sample = |batch: u64| format!("resize-batch {batch}");
    let software = lines.into_iter().map(|line| Candidate { line, is_hardware: false, is_per_sample: false });
    let batches = batches.map(|batch| Candidate { line: per_sample(batch), is_hardware: false, is_per_sample: true });
    let on_device = has(TaskKind::is_device as fn(TaskKind) -> bool);
    let hardware = hardware(context, on_device).into_iter();
    let hardware = hardware.map(|line| Candidate { line, is_hardware: true, is_per_sample: false });
    software.chain(batches).chain(hardware).filter(|candidate| parse_step(&candidate.line).is_ok()).collect()
}

/// The 16-bit type whose products the traced device has units for; bf16 where nothing tells.
fn half_type(context: &Context) -> &'static str {
    let has = |precision| context.devices.iter().all(|device| device.profile.peak.contains_key(&precision));
    if !has(Precision::Bf16Tensor) && has(Precision::Fp16Tensor) { "fp16" } else { "bf16" }
}

/// Whether a device does anything faster than another: the same chip under another name, or a slower one, does not.
fn is_anywhere_faster(device: &DeviceProfile, than: &DeviceProfile) -> bool {
    let faster = |now: f64, before: f64| now > before * LEAST_FASTER;
    faster(device.dram_bandwidth.0, than.dram_bandwidth.0)
        || faster(device.l2_bandwidth.0, than.l2_bandwidth.0)
        || Precision::ALL.iter().any(|&precision| faster(device.peak_rate(precision).0, than.peak_rate(precision).0))
}

/// Other devices of the kind traced that may be faster, and other links.
fn hardware(context: &Context, on_device: bool) -> Vec<String> {
    if !on_device {
        return ON_GPU.iter().map(|&line| line.to_owned()).collect();
    }
    let Some(traced) = context.devices.first() else { return Vec::new() };
    let is_other = |device: &&DeviceProfile| {
        device.kind == DeviceKind::Gpu && device.memory.0 > 0 && is_anywhere_faster(device, &traced.profile)
    };
    let devices = context.catalog.iter().map(AsRef::as_ref).filter(is_other);
    let links = context.models.links().iter().map(|link| format!("swap-link {}", link.id));
    devices.map(|device| format!("swap-gpu {}", device.id)).chain(links).collect()
}

/// The classes of tasks that a trace has: families of kernels and host computations, T1 to T5, copies, the link.
pub fn speed_up_targets(base: &Base) -> Vec<SpeedUpTarget> {
    let graph = base.graph();
    let speed_up = |class: &str, selector: String| SpeedUpTarget { class: class.to_owned(), selector };
    let kinds: BTreeSet<&str> = graph.tasks.node_weights().filter_map(|task| kind_name(task.kind)).collect();
    let computes = |node: &NodeId| matches!(graph.tasks[*node].kind, TaskKind::Kernel | TaskKind::Compute);
    let families: BTreeSet<Family> =
        graph.tasks.node_indices().filter(computes).filter_map(|node| base.family(node)).collect();
    let of_family = families.into_iter().map(|family| {
        let name = family.name();
        speed_up(name, format!("family={name} & (kind=kernel | kind=compute)"))
    });
    let of_kind = kinds.into_iter().map(|kind| match kind {
        "collective" => speed_up("link", "kind=collective".to_owned()),
        kind => speed_up(kind, format!("kind={kind}")),
    });
    of_family.chain(of_kind).chain(of_ranks(graph)).collect()
}

/// Host and device of each rank by itself, where each is simulated and a reader can tell them apart.
fn of_ranks(graph: &ExecutionGraph) -> Vec<SpeedUpTarget> {
    const MOST: usize = 16;
    let ranks = &graph.ranks;
    if ranks.len() < 2 || ranks.len() > MOST || ranks.iter().any(|part| part.count() > 1) {
        return Vec::new();
    }
    let of_rank = |part: &RankPart| {
        ["host", "kernel"].map(|kind| {
            let rank = part.rank.0;
            SpeedUpTarget { class: format!("r{rank} {kind}"), selector: format!("rank={rank} & kind={kind}") }
        })
    };
    ranks.iter().flat_map(of_rank).collect()
}

fn kind_name(kind: TaskKind) -> Option<&'static str> {
    match kind {
        TaskKind::Host(HostPart::Between) => Some("T1"),
        TaskKind::Host(HostPart::BeforeLaunch) => Some("T2"),
        TaskKind::Host(HostPart::AfterLaunch) => Some("T3"),
        TaskKind::Runtime => Some("T4"),
        TaskKind::Host(HostPart::Inside) => Some("T5"),
        TaskKind::Memcpy => Some("memcpy"),
        TaskKind::Memset => Some("memset"),
        TaskKind::Collective(_) => Some("collective"),
        TaskKind::Kernel | TaskKind::Unrecorded | TaskKind::Compute | TaskKind::Joint | TaskKind::StepEnd => None,
    }
}

//! The figures of memory under a scenario: the most that a rank holds, of what, and when.

use std::sync::Arc;

use serde::Serialize;

use crate::device::{DeviceKind, DeviceProfile};
use crate::graph::timed::TimedGraph;
use crate::graph::{ExecutionGraph, Lane, NodeId, RankPart, TaskKind};
use crate::sim::Schedule;
use crate::units::{Bytes, DurNs, TimeNs};

use super::{Holds, JobMemory, MemorySource, Peak, RankMemory};

/// Bytes of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindBytes {
    /// Weights, embedding tables among them.
    pub parameters: Bytes,
    /// Gradients of parameters.
    pub gradients: Bytes,
    /// What the optimizer keeps between steps.
    pub optimizer: Bytes,
    /// Results of the forward pass.
    pub activations: Bytes,
    /// Workspaces, gradients of activations, inputs, and what nothing tells more about.
    pub other: Bytes,
}

impl KindBytes {
    fn of(peak: &Peak) -> Self {
        let of = |holds: Holds| peak.of[holds as usize];
        Self {
            parameters: of(Holds::Parameters),
            gradients: of(Holds::Gradients),
            optimizer: of(Holds::Optimizer),
            activations: of(Holds::Activations),
            other: of(Holds::Other),
        }
    }

    /// Each kind's name and bytes, in order.
    pub fn each(&self) -> [(&'static str, Bytes); 5] {
        let bytes = [self.parameters, self.gradients, self.optimizer, self.activations, self.other];
        Holds::ALL.map(|holds| (holds.name(), bytes[holds as usize]))
    }
}

/// One rank's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RankMemorySummary {
    /// Which rank.
    pub rank: u32,
    /// How it is known.
    pub source: MemorySource,
    /// The most it holds at once.
    pub peak_bytes: Bytes,
    /// Of what that is.
    pub kinds: KindBytes,
}

/// The memory of the fullest rank, and of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemorySummary {
    /// The fullest rank.
    pub rank: u32,
    /// How its memory is known.
    pub source: MemorySource,
    /// The most it holds at once.
    pub peak_bytes: Bytes,
    /// When that is, from the start of its simulated iteration; negative before it.
    pub peak_at_ns: DurNs,
    /// Of what the peak is.
    #[serde(flatten)]
    pub kinds: KindBytes,
    /// The memory of the device that the peak is of, where a process used several unlike ones, else of the smallest of all; `None` where it
    /// is not known.
    pub device_bytes: Option<Bytes>,
    /// What a process takes of the device besides.
    #[serde(flatten)]
    pub besides: BesideTensors,
    /// What is not in these figures.
    pub unknown: Vec<String>,
    /// Of that what may be as large as what is: whether all fits is not known then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Every rank of which something is known.
    pub ranks: Vec<RankMemorySummary>,
}

impl MemorySummary {
    /// The figures of `memory`; `None` where nothing is known of any rank.
    pub fn of(simulated: Simulated<'_>, memory: &JobMemory, devices: &[Arc<DeviceProfile>]) -> Option<Self> {
        let parts = simulated.graph.ranks.iter().zip(memory);
        let known = parts.filter_map(|(part, memory)| Some((part, memory.as_ref()?)));
        // Sizes that no memory holds were never allocated.
        let (peaks, beyond): (Vec<_>, Vec<_>) = known
            .map(|(part, memory)| (part, memory, memory.peak()))
            .partition(|(_, _, peak)| peak.bytes <= Bytes::MOST);
        let (part, memory, peak) = peaks.iter().rev().max_by_key(|(_, _, peak)| peak.bytes)?;
        let sizes = devices.iter().map(|device| device.memory).filter(|memory| memory.0 > 0);
        let is_beyond = |(part, _, _): &(&RankPart, _, _)| {
            format!("rank {} would hold more than {}, beyond what is computed", part.rank.0, Bytes::MOST)
        };
        let silent = simulated.graph.ranks.len() - peaks.len() - beyond.len();
        let silent = (silent > 0).then(|| match silent {
            1 => "1 rank tells nothing of its memory".to_owned(),
            count => format!("{count} ranks tell nothing of their memory"),
        });
        let others = beyond.iter().map(is_beyond).chain(silent);
        let missing: Vec<String> = memory.missing.iter().cloned().chain(others).collect();
        let unknown: Vec<String> = missing.iter().chain(&memory.unknown).cloned().collect();
        let [at, begins] = simulated.times(part, [peak.at, part.iteration_start]);
        let rank = |(part, memory, peak): &(&RankPart, &RankMemory, Peak)| RankMemorySummary {
            rank: part.rank.0,
            source: memory.source,
            peak_bytes: peak.bytes,
            kinds: KindBytes::of(peak),
        };
        Some(Self {
            rank: part.rank.0,
            source: memory.source,
            peak_bytes: peak.bytes,
            peak_at_ns: at.since(begins).max(DurNs::ZERO),
            kinds: KindBytes::of(peak),
            device_bytes: memory.device_bytes.or_else(|| sizes.min()),
            besides: BesideTensors::of(peak.bytes, memory.reserve, devices),
            unknown,
            missing,
            ranks: peaks.iter().map(rank).collect(),
        })
    }
}

/// What stands behind times of memory: where in the host's program a measured instant lies, and when that is simulated.
#[derive(Clone, Copy)]
pub struct Simulated<'a> {
    /// The tasks.
    pub graph: &'a ExecutionGraph,
    /// The same as edited.
    pub timed: &'a TimedGraph,
    /// When they run.
    pub schedule: &'a Schedule,
}

impl<'a> Simulated<'a> {
    /// What each rank holds from each instant of the simulation on; empty for one of which nothing is known.
    ///
    /// # Complexity
    /// O((tasks + buffers) · log tasks).
    pub fn over_time(self, memory: &JobMemory) -> Vec<Vec<(TimeNs, Bytes)>> {
        let hosts = self.hosts(|_| true).into_iter().enumerate();
        let of_rank = |(place, host): (usize, Vec<(TimeNs, NodeId)>)| self.kinds(memory.get(place), host);
        hosts.map(|rank| of_rank(rank).into_iter().map(|held| (held.at, held.bytes)).collect()).collect()
    }

    /// What the rank at position `place` holds from each instant of the simulation on, by kind; empty where nothing is known.
    ///
    /// # Complexity
    /// O(tasks + buffers · log tasks).
    pub fn kinds_over_time(self, memory: &JobMemory, place: usize) -> Vec<Peak> {
        let host = self.hosts(|at| at == place).into_iter().nth(place);
        host.map_or_else(Vec::new, |host| self.kinds(memory.get(place), host))
    }

    /// The host's work by rank with its measured starts, of ranks at `wanted` positions.
    fn hosts(self, wanted: impl Fn(usize) -> bool) -> Vec<Vec<(TimeNs, NodeId)>> {
        let place = |lane: &Lane| self.graph.place_of(lane.rank).filter(|&place| wanted(place));
        let places: Vec<Option<usize>> = self.graph.lanes.iter().map(place).collect();
        let mut hosts = vec![Vec::new(); self.graph.ranks.len()];
        for node in self.graph.tasks.node_indices() {
            let task = &self.graph.tasks[node];
            if let Some(place) = places[task.lane.0 as usize].filter(|_| is_host(task.kind)) {
                hosts[place].push((task.measured_start, node));
            }
        }
        hosts
    }

    /// What a rank holds over time, whose host worked as `host` says.
    fn kinds(self, memory: Option<&Option<RankMemory>>, host: Vec<(TimeNs, NodeId)>) -> Vec<Peak> {
        let Some(Some(memory)) = memory else { return Vec::new() };
        let times = HostTimes::new(self, host);
        memory.kinds_over_time().into_iter().map(|held| Peak { at: times.at(held.at), ..held }).collect()
    }

    /// When the host of the rank at position `place` is simulated to be where it was at measured instants.
    ///
    /// # Complexity
    /// O(tasks · log tasks).
    pub fn host_times(self, place: usize) -> HostTimes<'a> {
        HostTimes::new(self, self.hosts(|at| at == place).into_iter().nth(place).unwrap_or_default())
    }

    /// When the host of the rank at position `place` begins its iteration.
    ///
    /// # Complexity
    /// O(tasks).
    pub fn begins(self, place: usize) -> TimeNs {
        self.graph.ranks.get(place).map_or(TimeNs(0), |part| self.times(part, [part.iteration_start; 2])[0])
    }

    /// When the host of a rank is where it was at measured instants.
    ///
    /// # Complexity
    /// O(tasks), without putting them in order: every point of a sweep asks.
    fn times(self, part: &RankPart, measured: [TimeNs; 2]) -> [TimeNs; 2] {
        let graph = self.graph;
        let is_own: Vec<bool> = graph.lanes.iter().map(|lane| lane.rank == part.rank).collect();
        let mut last: [Option<(TimeNs, NodeId)>; 2] = [None; 2];
        for (at, task) in graph.tasks.node_weights().enumerate() {
            if is_host(task.kind) && is_own[task.lane.0 as usize] {
                let found = (task.measured_start, NodeId::new(at));
                for (last, &wanted) in last.iter_mut().zip(&measured) {
                    if found.0 <= wanted && last.is_none_or(|known| known < found) {
                        *last = Some(found);
                    }
                }
            }
        }
        [0, 1].map(|at| last[at].map_or(TimeNs(0), |found| self.into_task(found, measured[at])))
    }

    /// As far into the simulated task as `measured` is into the traced one.
    fn into_task(self, (start, node): (TimeNs, NodeId), measured: TimeNs) -> TimeNs {
        let Some(task) = self.timed.task_if_kept(node) else { return TimeNs(0) };
        let into = measured.since(start).0.clamp(0, self.timed.durations[task.0 as usize].max(0));
        self.schedule.start(self.timed, task) + DurNs(into)
    }
}

/// Simulated times of a rank's host by measured ones.
pub struct HostTimes<'a> {
    simulated: Simulated<'a>,
    /// Its work in order of measured starts.
    host: Vec<(TimeNs, NodeId)>,
}

impl<'a> HostTimes<'a> {
    fn new(simulated: Simulated<'a>, mut host: Vec<(TimeNs, NodeId)>) -> Self {
        host.sort();
        Self { simulated, host }
    }

    /// The simulated time at the measured instant `measured`.
    ///
    /// # Complexity
    /// O(log tasks).
    pub fn at(&self, measured: TimeNs) -> TimeNs {
        let last = self.host.partition_point(|&(start, _)| start <= measured).checked_sub(1);
        last.map_or(TimeNs(0), |at| self.simulated.into_task(self.host[at], measured))
    }
}

fn is_host(kind: TaskKind) -> bool {
    matches!(kind, TaskKind::Host(_) | TaskKind::Runtime | TaskKind::Compute)
}

/// What a process takes of a device's memory beside its tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BesideTensors {
    /// The driver's context with the code of kernels.
    pub context_bytes: Bytes,
    /// What the caching allocator holds and no tensor has: the rest of blocks and segments.
    pub reserve_bytes: Bytes,
    /// Whether the reserve is as recorded, in proportion to tensors.
    pub reserve_is_recorded: bool,
}

/// The context of CUDA or ROCm with a framework's kernels loaded: 0.3 to 0.6 GiB on the GPUs of the last ten years. Assumed.
const CONTEXT: Bytes = Bytes(512 << 20);

/// The allocator's reserve is the peak over this where it was not recorded, and no less where memory runs short: blocks are cut from
/// segments of 2 and 20 MiB, and freed ones between others stay. Assumed.
const RESERVE: u64 = 20;

impl BesideTensors {
    /// What is besides tensors of `peak` bytes, with the allocator's recorded `reserve` as a share of them; nothing on hosts.
    pub fn of(peak: Bytes, reserve: Option<f64>, devices: &[Arc<DeviceProfile>]) -> Self {
        if devices.iter().any(|device| device.kind != DeviceKind::Gpu) {
            return Self::default();
        }
        let of_peak = |share: f64| Bytes((peak.0 as f64 * share).round() as u64);
        let reserve_bytes = reserve.map_or(Bytes(peak.0 / RESERVE), of_peak).min(Bytes::MOST);
        Self { context_bytes: CONTEXT, reserve_bytes, reserve_is_recorded: reserve.is_some() }
    }

    /// Both in words; `None` where there is nothing besides.
    pub fn described(&self) -> Option<String> {
        let Self { context_bytes, reserve_bytes, reserve_is_recorded } = self;
        let is_there = context_bytes.0 > 0;
        is_there.then(|| match reserve_is_recorded {
            true => format!(
                "the driver's context {context_bytes}, assumed, and the allocator's reserve {reserve_bytes}, in the recorded proportion"
            ),
            false => format!("the driver's context {context_bytes}, the allocator's reserve {reserve_bytes}, both assumed"),
        })
    }
}

impl MemorySummary {
    /// Whether tensors, and what is besides, fit the device; `None` where its memory is not known, where something may be missing that is
    /// as large as what is known, and where all fits only if the allocator gives back of its recorded reserve, as it does before it fails.
    pub fn fits(&self, devices: &[Arc<DeviceProfile>]) -> Option<bool> {
        let smallest = self.device_bytes?;
        let with = |besides: BesideTensors| self.peak_bytes + besides.context_bytes + besides.reserve_bytes;
        let least = BesideTensors::of(self.peak_bytes, None, devices);
        if with(least).min(with(self.besides)) > smallest {
            return Some(false);
        }
        (self.missing.is_empty() && with(self.besides) <= smallest).then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Catalog;

    #[test]
    fn a_device_has_to_hold_the_context_and_the_allocators_reserve_besides() {
        let catalog = Catalog::builtin().unwrap();
        let device = catalog.find("H100-SXM").unwrap().clone();
        let memory = device.memory;
        let of = |bytes, reserve, missing: &[&str]| fits(&device, bytes, reserve, missing);
        assert_eq!(of(memory.0 * 9 / 10, None, &[]), Some(true));
        assert_eq!(of(memory.0, None, &[]), Some(false));
        assert_eq!(of(memory.0 - (1 << 30), None, &[]), Some(false));
        let host = catalog.find("CPU").unwrap().clone();
        assert_eq!(BesideTensors::of(memory, None, &[host]), BesideTensors::default());
    }

    #[test]
    fn whether_all_fits_is_not_known_where_something_is_missing_or_the_allocator_would_have_to_give_back() {
        let device = Catalog::builtin().unwrap().find("H100-SXM").unwrap().clone();
        let memory = device.memory.0;
        assert_eq!(fits(&device, memory / 2, Some(0.5), &[]), Some(true));
        assert_eq!(fits(&device, memory / 2, Some(1.0), &[]), None);
        assert_eq!(fits(&device, memory, Some(1.0), &[]), Some(false));
        assert_eq!(fits(&device, memory / 2, None, &["caches"]), None);
        assert_eq!(fits(&device, memory, None, &["caches"]), Some(false));
    }

    fn fits(device: &Arc<DeviceProfile>, bytes: u64, reserve: Option<f64>, missing: &[&str]) -> Option<bool> {
        let devices = std::slice::from_ref(device);
        let peak_bytes = Bytes(bytes);
        let summary = MemorySummary {
            rank: 0,
            source: MemorySource::Allocator,
            peak_bytes,
            peak_at_ns: DurNs::ZERO,
            kinds: KindBytes::default(),
            device_bytes: Some(device.memory),
            besides: BesideTensors::of(peak_bytes, reserve, devices),
            unknown: Vec::new(),
            missing: missing.iter().map(|&line| line.to_owned()).collect(),
            ranks: Vec::new(),
        };
        summary.fits(devices)
    }
}

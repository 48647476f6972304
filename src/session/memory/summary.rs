//! The figures of memory under a scenario: the most that a rank holds, of what, and when.

use serde::Serialize;

use retime_core::graph::{NodeId, RankPart, TaskKind};
use retime_core::scenario::Resolved;
use retime_core::scenario::memory::{Holds, MemorySource, Peak};
use retime_core::sim::Schedule;
use retime_core::units::{Bytes, DurNs, TimeNs};

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
    /// The memory of the smallest device; `None` where it is not known.
    pub device_bytes: Option<Bytes>,
    /// What is not in these figures.
    pub unknown: Vec<String>,
    /// Every rank of which something is known.
    pub ranks: Vec<RankMemorySummary>,
}

impl MemorySummary {
    /// The figures of `resolved`; `None` where nothing is known of any rank.
    pub fn of(resolved: &Resolved, schedule: &Schedule) -> Option<Self> {
        let parts = resolved.graph.ranks.iter().zip(resolved.memory.iter());
        let known = parts.filter_map(|(part, memory)| Some((part, memory.as_ref()?)));
        let peaks: Vec<_> = known.map(|(part, memory)| (part, memory, memory.peak())).collect();
        let (part, memory, peak) = peaks.iter().rev().max_by_key(|(_, _, peak)| peak.bytes)?;
        let sizes = resolved.devices.iter().map(|device| device.memory).filter(|memory| memory.0 > 0);
        let mut unknown = memory.unknown.clone();
        let missing = resolved.graph.ranks.len() - peaks.len();
        if missing > 0 {
            unknown.push(format!("{missing} ranks tell nothing of their memory"));
        }
        let [at, begins] = simulated(resolved, schedule, part, [peak.at, part.iteration_start]);
        let rank =
            |(part, memory, peak): &(&RankPart, &retime_core::scenario::memory::RankMemory, Peak)| RankMemorySummary {
                rank: part.rank.0,
                source: memory.source,
                peak_bytes: peak.bytes,
                kinds: KindBytes::of(peak),
            };
        Some(Self {
            rank: part.rank.0,
            source: memory.source,
            peak_bytes: peak.bytes,
            peak_at_ns: at.since(begins),
            kinds: KindBytes::of(peak),
            device_bytes: sizes.min(),
            unknown,
            ranks: peaks.iter().map(rank).collect(),
        })
    }
}

/// What the rank at position `place` holds from each instant of the simulation on; empty where nothing is known.
pub fn over_time(resolved: &Resolved, schedule: &Schedule, place: usize) -> Vec<(TimeNs, Bytes)> {
    let (Some(part), Some(Some(memory))) = (resolved.graph.ranks.get(place), resolved.memory.get(place)) else {
        return Vec::new();
    };
    let clock = Clock::of(resolved, schedule, part);
    memory.over_time().into_iter().map(|(at, bytes)| (clock.simulated(at), bytes)).collect()
}

/// When the host of a rank is where it was at measured instants.
///
/// # Complexity
/// O(tasks), without putting them in order: every point of a sweep asks.
fn simulated(resolved: &Resolved, schedule: &Schedule, part: &RankPart, measured: [TimeNs; 2]) -> [TimeNs; 2] {
    let graph = &resolved.graph;
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
    let simulated = |at: usize| last[at].map_or(TimeNs(0), |it| into_task(resolved, schedule, it, measured[at]));
    [simulated(0), simulated(1)]
}

fn is_host(kind: TaskKind) -> bool {
    matches!(kind, TaskKind::Host(_) | TaskKind::Runtime | TaskKind::Compute)
}

/// As far into the simulated task as `measured` is into the traced one.
fn into_task(resolved: &Resolved, schedule: &Schedule, (start, node): (TimeNs, NodeId), measured: TimeNs) -> TimeNs {
    let timed = &*resolved.timed;
    let Some(task) = timed.task_if_kept(node) else { return TimeNs(0) };
    let into = measured.since(start).0.clamp(0, timed.durations[task.0 as usize].max(0));
    schedule.start(timed, task) + DurNs(into)
}

/// From a rank's measured host times to simulated ones.
struct Clock<'a> {
    resolved: &'a Resolved,
    schedule: &'a Schedule,
    /// The rank's host tasks in order of measured start.
    host: Vec<(TimeNs, NodeId)>,
}

impl<'a> Clock<'a> {
    /// # Complexity
    /// O(tasks), since tasks of a thread come in order.
    fn of(resolved: &'a Resolved, schedule: &'a Schedule, part: &RankPart) -> Self {
        let graph = &resolved.graph;
        let of_rank = |node: &NodeId| {
            let task = &graph.tasks[*node];
            is_host(task.kind) && graph.lanes[task.lane.0 as usize].rank == part.rank
        };
        let nodes = graph.tasks.node_indices().filter(of_rank);
        let mut host: Vec<(TimeNs, NodeId)> = nodes.map(|node| (graph.tasks[node].measured_start, node)).collect();
        host.sort();
        Self { resolved, schedule, host }
    }

    /// When the host is where it was at `measured`.
    fn simulated(&self, measured: TimeNs) -> TimeNs {
        let after = self.host.partition_point(|&(start, _)| start <= measured);
        let found = after.checked_sub(1).and_then(|at| self.host.get(at));
        found.map_or(TimeNs(0), |&found| into_task(self.resolved, self.schedule, found, measured))
    }
}

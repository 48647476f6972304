//! What the tables show, drawn from a result once: the critical path, the gaps, operators and kernels in groups.
//!
//! Computed off the screen's thread; views only format it.

use rustc_hash::FxHashMap;

use crate::analysis::critical_path::{CriticalPath, Run};
use crate::analysis::gaps::{self, Gap, Sources};
use crate::analysis::lanes::Times;
use crate::cost::{Provenance, family_of_task};
use crate::graph::{ExecutionGraph, NodeId, Task, TaskKind};
use crate::intern::NameId;
use crate::session::Outcome;
use crate::units::DurNs;

/// Kernels or host time of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The operator that launched them, or the kernel's name.
    pub name: NameId,
    /// The longest of them.
    pub example: NodeId,
    /// How many.
    pub count: usize,
    /// Measured time.
    pub measured: DurNs,
    /// Simulated time.
    pub simulated: DurNs,
    /// What its kernels are.
    pub family: &'static str,
    /// Worst source of their times.
    pub provenance: Provenance,
}

/// Everything that tables show of one result.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// The critical path of the slowest rank, in order of time, noise folded.
    pub path: Vec<Run>,
    /// The same, longest first.
    pub path_by_length: Vec<Run>,
    /// Its time by kind, most first.
    pub path_kinds: Vec<(&'static str, DurNs)>,
    /// Idle intervals of streams, longest first.
    pub gaps: Vec<Gap>,
    /// Kernels by name, longest first.
    pub kernels: Vec<Group>,
    /// Device time by launching operator, longest first.
    pub operators: Vec<Group>,
}

/// Segments of the path below this share of the iteration are folded into what is before them.
const TINY: i64 = 10_000;
/// Gaps below this share of the iteration are left out.
const SHORT: i64 = 1_000;

impl Digest {
    /// Draws it from `outcome`.
    ///
    /// # Complexity
    /// O(tasks + length of the chains of all gaps).
    pub fn of(outcome: &Outcome) -> Self {
        let (resolved, schedule) = (&outcome.resolved, &outcome.schedule);
        let (graph, timed) = (&*resolved.graph, &*resolved.timed);
        let times = Times::Simulated { timed, schedule };
        let path = CriticalPath::of_job(graph, timed, schedule, times);
        let mut kinds: Vec<(&'static str, DurNs)> = path.by_kind().into_iter().collect();
        kinds.sort_by_key(|&(kind, total)| (std::cmp::Reverse(total), kind));
        let runs = path.folded(DurNs(path.length.0 / TINY));
        let mut by_length = runs.clone();
        by_length.sort_by_key(|run| (std::cmp::Reverse(run.segment.duration), run.segment.start));
        let shortest = DurNs((outcome.summary.simulated_ns.0 / SHORT).max(1));
        let of_operator = |task: &Task| {
            let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
            operator.map_or(task.name, |operator| operator.name)
        };
        Self {
            path: runs,
            path_by_length: by_length,
            path_kinds: kinds,
            gaps: gaps::gaps(&Sources { graph, timed, schedule, times }, shortest),
            kernels: groups(graph, outcome, |task| task.name),
            operators: groups(graph, outcome, of_operator),
        }
    }
}

/// Device work of the chosen iteration (host computation where there is none) in groups by `name`.
fn groups(graph: &ExecutionGraph, outcome: &Outcome, name: impl Fn(&Task) -> NameId) -> Vec<Group> {
    let inside = graph.iteration_tasks();
    let mut found: FxHashMap<NameId, Group> = FxHashMap::default();
    for node in graph.tasks.node_indices().filter(|node| inside[node.index()]) {
        let task = &graph.tasks[node];
        if !task.kind.is_device() && task.kind != TaskKind::Compute {
            continue;
        }
        let prediction = outcome.resolved.prediction(node);
        let removed = outcome.resolved.is_removed(node);
        let group = found.entry(name(task)).or_insert_with(|| Group {
            name: name(task),
            example: node,
            count: 0,
            measured: DurNs::ZERO,
            simulated: DurNs::ZERO,
            family: family_name(graph, task),
            provenance: Provenance::Measured,
        });
        group.count += 1;
        group.measured += task.measured;
        group.simulated += if removed { DurNs::ZERO } else { prediction.duration };
        group.provenance = group.provenance.max(prediction.provenance);
        if task.measured > graph.tasks[group.example].measured {
            group.example = node;
            group.family = family_name(graph, task);
        }
    }
    let mut groups: Vec<Group> = found.into_values().collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.measured.max(group.simulated)), group.name));
    groups
}

fn family_name(graph: &ExecutionGraph, task: &Task) -> &'static str {
    match task.kind {
        TaskKind::Kernel => family_of_task(graph, task).name(),
        TaskKind::Memcpy | TaskKind::Memset => "copy",
        TaskKind::Collective(_) => "collective",
        _ => "host",
    }
}

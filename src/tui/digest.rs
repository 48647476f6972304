//! What the tables show, drawn from a result once: the critical path in segments, operators and kernels in groups.
//!
//! Computed off the screen's thread; views only format it.

use rustc_hash::FxHashMap;

use crate::cost::{Provenance, family_of_task};
use crate::graph::{ExecutionGraph, HostPart, NodeId, Task, TaskKind};
use crate::intern::NameId;
use crate::session::Outcome;
use crate::units::{DurNs, TimeNs};

/// A run of the critical path on one lane within one operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// What the time goes to.
    pub kind: &'static str,
    /// The first task.
    pub node: NodeId,
    /// How many tasks were folded into it.
    pub count: usize,
    /// Simulated start.
    pub start: TimeNs,
    /// Time that it takes of the iteration, the wait before it included.
    pub taken: DurNs,
}

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
    /// The critical path of the slowest rank, in order of time.
    pub path: Vec<Segment>,
    /// Its time by kind, most first.
    pub path_kinds: Vec<(&'static str, DurNs)>,
    /// Kernels by name, longest first.
    pub kernels: Vec<Group>,
    /// Device time by launching operator, longest first.
    pub operators: Vec<Group>,
}

impl Digest {
    /// Draws it from `outcome`; `path` are the tasks of the critical path, last first.
    ///
    /// # Complexity
    /// O(tasks).
    pub fn of(graph: &ExecutionGraph, outcome: &Outcome, path: &[NodeId]) -> Self {
        let path = segments(graph, outcome, path);
        let mut kinds: Vec<(&'static str, DurNs)> = Vec::new();
        for segment in &path {
            match kinds.iter_mut().find(|(kind, _)| *kind == segment.kind) {
                Some((_, total)) => *total += segment.taken,
                None => kinds.push((segment.kind, segment.taken)),
            }
        }
        kinds.sort_by_key(|&(kind, total)| (std::cmp::Reverse(total), kind));
        let of_operator = |task: &Task| {
            let operator = task.operator.and_then(|id| graph.operators.get(id.0 as usize));
            operator.map_or(task.name, |operator| operator.name)
        };
        Self {
            path,
            path_kinds: kinds,
            kernels: groups(graph, outcome, |task| task.name),
            operators: groups(graph, outcome, of_operator),
        }
    }
}

fn segments(graph: &ExecutionGraph, outcome: &Outcome, path: &[NodeId]) -> Vec<Segment> {
    let (timed, schedule) = (&outcome.resolved.timed, &outcome.schedule);
    let mut segments: Vec<Segment> = Vec::new();
    let mut before: Option<TimeNs> = None;
    for &node in path.iter().rev() {
        let Some(task) = timed.task_if_kept(node) else { continue };
        let (start, end) = (schedule.start(timed, task), schedule.end(task));
        let taken = end.since(before.unwrap_or(start)).max(DurNs::ZERO);
        before = Some(end);
        let kind = kind_of(graph, &graph.tasks[node]);
        match segments.last_mut().filter(|last| same_run(graph, last, kind, node)) {
            Some(last) => {
                last.count += 1;
                last.taken += taken;
            }
            None => segments.push(Segment { kind, node, count: 1, start, taken }),
        }
    }
    segments
}

/// Host parts of one operator are one segment; a kernel is one of its own.
fn same_run(graph: &ExecutionGraph, last: &Segment, kind: &str, node: NodeId) -> bool {
    let (a, b) = (&graph.tasks[last.node], &graph.tasks[node]);
    let is_host = !a.kind.is_device() && !b.kind.is_device();
    a.lane == b.lane
        && ((is_host && last.kind == kind) || (a.name == b.name && a.kind.is_device() && b.kind.is_device()))
}

fn kind_of(graph: &ExecutionGraph, task: &Task) -> &'static str {
    match task.kind {
        TaskKind::Host(HostPart::Between) => "host: between operators (T1)",
        TaskKind::Host(HostPart::BeforeLaunch) => "host: before launch (T2)",
        TaskKind::Host(HostPart::AfterLaunch) => "host: after launch (T3)",
        TaskKind::Host(HostPart::Inside) => "host: inside operators (T5)",
        TaskKind::Runtime => "host: runtime calls (T4)",
        TaskKind::Compute => "host: computation",
        TaskKind::Kernel => family_of_task(graph, task).name(),
        TaskKind::Memcpy | TaskKind::Memset => "copy",
        TaskKind::Collective(_) => "collective",
        TaskKind::Joint | TaskKind::StepEnd => "marker",
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
            family: if task.kind == TaskKind::Compute { "host" } else { kind_of(graph, task) },
            provenance: Provenance::Measured,
        });
        group.count += 1;
        group.measured += task.measured;
        group.simulated += if removed { DurNs::ZERO } else { prediction.duration };
        group.provenance = group.provenance.max(prediction.provenance);
        if task.measured > graph.tasks[group.example].measured {
            group.example = node;
        }
    }
    let mut groups: Vec<Group> = found.into_values().collect();
    groups.sort_by_key(|group| (std::cmp::Reverse(group.measured.max(group.simulated)), group.name));
    groups
}

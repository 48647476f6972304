//! Replay: the untouched graph simulated and compared with what was measured, and how it responds when parts are scaled.
//!
//! A small replay error alone proves little; the response shows whether the structure is right.

use serde::Serialize;

use crate::graph::{DependencyKind, ExecutionGraph, NodeId, RankPart, Task, TaskKind, TimedGraph};
use crate::sim::{Schedule, simulate};
use crate::units::{DurNs, TimeNs};

/// Whether a replay can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayStatus {
    /// It meets what was measured, by its structure.
    Pass,
    /// It meets what was measured, but much of it by kept times.
    Pinned,
    /// It does not meet what was measured.
    Fail,
    /// Nothing was measured: the times of the trace are a prediction themselves.
    Predicted,
}

impl ReplayStatus {
    /// A replay is to be within this share of what was measured …
    pub const WITHIN: f64 = 0.01;
    /// … with no more than this share of the iteration anchored or unexplained.
    pub const KEPT: f64 = 0.2;

    /// That of a replay with this error and this share that is anchored or unexplained.
    pub fn of(error: f64, kept: f64) -> Self {
        match error.abs() <= Self::WITHIN {
            false => Self::Fail,
            true if kept > Self::KEPT => Self::Pinned,
            true => Self::Pass,
        }
    }

    /// Whether edits can be held against it: it meets what was measured by its structure, or nothing was measured.
    pub fn passes(self) -> bool {
        matches!(self, Self::Pass | Self::Predicted)
    }

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Pinned => "pinned",
            Self::Fail => "fail",
            Self::Predicted => "predicted",
        }
    }
}

/// How the replay of one graph compares with its trace.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayReport {
    /// Name of the iteration.
    pub iteration: String,
    /// Largest measured period over ranks.
    pub measured: DurNs,
    /// Largest simulated period over ranks.
    pub simulated: DurNs,
    /// Measured and simulated period of each rank.
    pub ranks: Vec<(DurNs, DurNs)>,
    /// Late starts without a cause, summed over the window and ranks; the graph lists them.
    pub unexplained: DurNs,
    /// The same relative to the measured period, averaged over ranks.
    pub unexplained_share: f64,
    /// What the critical path of the slowest rank's period is made of.
    pub path: PathShares,
    /// The period with parts scaled, relative to `simulated`.
    pub responses: Responses,
}

/// Simulated period relative to the untouched one when parts are scaled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Responses {
    /// All kernels twice as long, those that were not recorded included; collectives are left alone.
    pub kernels_doubled: f64,
    /// All kernels half as long.
    pub kernels_halved: f64,
    /// Host time outside runtime calls halved.
    pub think_halved: f64,
}

/// Shares of the critical path, as fractions of the period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathShares {
    /// Host time, runtime calls included.
    pub host: f64,
    /// Kernels, copies and memsets.
    pub device: f64,
    /// Collectives.
    pub collectives: f64,
    /// Device work that was not recorded: of before the trace, or nodes of graphs.
    pub unrecorded: f64,
    /// Lags of edges.
    pub edges: f64,
    /// Work from before the window.
    pub anchors: f64,
    /// How much later the slowest rank began its step, where no step before it was recorded.
    pub rank_starts: f64,
    /// Time let go by contention.
    pub contention: f64,
}

impl ReplayReport {
    /// Replays `graph`, untouched and scaled.
    ///
    /// # Complexity
    /// Four simulations.
    pub fn of(graph: &ExecutionGraph) -> Self {
        let timed = TimedGraph::lower(graph);
        let mut schedule = Schedule::default();
        simulate(&timed, &mut schedule);
        let ranks: Vec<(DurNs, DurNs)> =
            graph.ranks.iter().map(|part| (part.measured, period(&timed, &schedule, part))).collect();
        let simulated = ranks.iter().map(|&(_, simulated)| simulated).max().unwrap_or_default();
        Self {
            iteration: graph.ranks.first().map(|part| part.iteration.clone()).unwrap_or_default(),
            measured: graph.measured,
            simulated,
            ranks,
            unexplained: graph.unexplained(),
            unexplained_share: graph.unexplained_share(),
            path: PathShares::of(graph, &timed, &schedule),
            responses: responses(graph, simulated),
        }
    }

    /// Whether it can be relied on.
    pub fn status(&self) -> ReplayStatus {
        ReplayStatus::of(self.error(), self.path.anchors + self.unexplained_share)
    }

    /// Simulated over measured, less one.
    pub fn error(&self) -> f64 {
        ratio(self.simulated, self.measured) - 1.0
    }
}

/// The simulated period of one rank: from its begin marker (else the instant its window begins) to its end marker. Work of
/// the step before that outlives this step leaves it no time of its own, and none that is negative.
pub fn period(timed: &TimedGraph, schedule: &Schedule, part: &RankPart) -> DurNs {
    schedule.end(timed.task(part.end)).since(begin(timed, schedule, part)).max(DurNs::ZERO)
}

fn begin(timed: &TimedGraph, schedule: &Schedule, part: &RankPart) -> TimeNs {
    match part.begin {
        Some(marker) => schedule.end(timed.task(marker)),
        None => TimeNs((part.window_end - part.measured).since(part.window_start).0),
    }
}

fn responses(graph: &ExecutionGraph, base: DurNs) -> Responses {
    let kernel = |task: &Task| matches!(task.kind, TaskKind::Kernel | TaskKind::Unrecorded);
    let think = |task: &Task| matches!(task.kind, TaskKind::Host(_));
    Responses {
        kernels_doubled: ratio(scaled_period(graph, 2.0, kernel), base),
        kernels_halved: ratio(scaled_period(graph, 0.5, kernel), base),
        think_halved: ratio(scaled_period(graph, 0.5, think), base),
    }
}

/// The largest simulated period over ranks with the duration of chosen tasks multiplied by `factor`.
pub fn scaled_period(graph: &ExecutionGraph, factor: f64, chosen: impl Fn(&Task) -> bool) -> DurNs {
    let mut scaled = graph.clone();
    for task in scaled.tasks.node_weights_mut().filter(|task| chosen(task)) {
        task.duration = task.duration.scale(factor);
    }
    let timed = TimedGraph::lower(&scaled);
    let mut schedule = Schedule::default();
    simulate(&timed, &mut schedule);
    graph.ranks.iter().map(|part| period(&timed, &schedule, part)).max().unwrap_or_default()
}

fn ratio(a: DurNs, b: DurNs) -> f64 {
    a.0 as f64 / b.0.max(1) as f64
}

/// Walks the critical path from a rank's end marker back to the start of its period. Where a task goes on beside the one that it led
/// to, the time of both counts once.
fn path_shares(graph: &ExecutionGraph, timed: &TimedGraph, schedule: &Schedule, part: &RankPart) -> PathShares {
    let from = begin(timed, schedule, part);
    let total = period(timed, schedule, part).0.max(1) as f64;
    let inside = |start: TimeNs, end: TimeNs| end.since(start.max(from)).0.max(0) as f64 / total;
    let mut shares = PathShares::default();
    let mut task = timed.task(part.end);
    let mut node = part.end;
    let mut until = schedule.end(task);
    loop {
        let (start, end) = (schedule.start(timed, task).min(until), schedule.end(task).min(until));
        if timed.node(task).is_some() {
            let kind = graph.tasks[node].kind;
            let began_before = part.begin.is_none() && kind.is_device() && start < from;
            *(if began_before { &mut shares.anchors } else { shares.of_task(kind) }) += inside(start, end);
        }
        if start <= from {
            return shares;
        }
        let Some(before) = schedule.critical_predecessor(timed, task) else {
            return shares;
        };
        let waited = inside(schedule.end(before), start);
        until = start;
        if let Some(earlier) = timed.node(before) {
            *shares.of_edge(kind_between(graph, earlier, node)) += waited;
            node = earlier;
        } else {
            shares.edges += waited;
        }
        task = before;
    }
}

impl PathShares {
    /// Those of the slowest rank, as `schedule` has it.
    ///
    /// # Complexity
    /// O(tasks on the path).
    pub fn of(graph: &ExecutionGraph, timed: &TimedGraph, schedule: &Schedule) -> Self {
        let slowest = graph.ranks.iter().max_by_key(|part| period(timed, schedule, part));
        slowest.map(|part| path_shares(graph, timed, schedule, part)).unwrap_or_default()
    }

    fn of_task(&mut self, kind: TaskKind) -> &mut f64 {
        match kind {
            TaskKind::Collective(_) => &mut self.collectives,
            TaskKind::Kernel | TaskKind::Memcpy | TaskKind::Memset => &mut self.device,
            TaskKind::Unrecorded => &mut self.unrecorded,
            TaskKind::Host(_) | TaskKind::Compute | TaskKind::Runtime | TaskKind::Joint | TaskKind::StepEnd => {
                &mut self.host
            }
        }
    }

    fn of_edge(&mut self, kind: Option<DependencyKind>) -> &mut f64 {
        match kind {
            Some(DependencyKind::RankStart) => &mut self.rank_starts,
            Some(DependencyKind::Anchor) => &mut self.anchors,
            Some(DependencyKind::Contention) => &mut self.contention,
            _ => &mut self.edges,
        }
    }
}

/// The kind of the edge that reaches furthest from one node to another.
fn kind_between(graph: &ExecutionGraph, from: NodeId, to: NodeId) -> Option<DependencyKind> {
    let duration = graph.tasks[from].duration;
    graph
        .tasks
        .edges_connecting(from, to)
        .map(|edge| *edge.weight())
        .max_by_key(|dependency| dependency.effective_lag(duration))
        .map(|dependency| dependency.kind)
}

//! The host tasks of a graph as overheads: runs of tasks of one kind in one top-level operator.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::graph::{ExecutionGraph, HostPart, LaneId, NodeId, OperatorId, Task, TaskKind};
use crate::intern::NameId;
use crate::units::DurNs;

use super::{OverheadKind, fences};

/// Longest gap between operators that still counts as T1; beyond it the program was loading data or did other work of its own
/// [Lin 2022 §III-C].
pub(crate) const LONGEST_GAP: DurNs = DurNs(200_000);

/// One overhead as it happened: one or more tasks of a thread, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverheadSpan {
    /// Which overhead.
    pub kind: OverheadKind,
    /// The top-level operator, or the runtime call for T4; empty for T1.
    pub op: NameId,
    /// The top-level operator around it.
    pub top: Option<OperatorId>,
    /// Whether it counts: a gap of more than 200 µs between operators is the program's own work.
    pub is_overhead: bool,
    /// Whether its measured time is an outlier among those of its kind and operator, which means leave out.
    pub is_outlier: bool,
    nodes: Range<u32>,
}

/// All host overheads of a graph, by thread in order of time.
#[derive(Clone, Debug, Default)]
pub struct OverheadSpans {
    nodes: Vec<NodeId>,
    rows: Vec<OverheadSpan>,
}

impl OverheadSpans {
    /// Finds those of `graph`.
    ///
    /// # Complexity
    /// O(tasks · log tasks): tasks are sorted by lane and time.
    pub fn of(graph: &ExecutionGraph) -> Self {
        let tasks = &graph.tasks;
        let mut nodes: Vec<NodeId> = tasks.node_indices().filter(|&node| kind_of(tasks[node].kind).is_some()).collect();
        nodes.sort_by_key(|&node| (tasks[node].lane, tasks[node].measured_start, tasks[node].measured_end()));
        let tops = graph.top_level_operators();
        let mut rows: Vec<OverheadSpan> = Vec::new();
        let mut open: Option<(OverheadKind, LaneId)> = None;
        for (at, &node) in nodes.iter().enumerate() {
            let task = &tasks[node];
            let Some(kind) = kind_of(task.kind) else { continue };
            let top = task.operator.map(|operator| tops[operator.0 as usize]);
            match rows.last_mut().filter(|row| open == Some((kind, task.lane)) && row.top == top) {
                Some(row) if kind != OverheadKind::T4 => row.nodes.end += 1,
                _ => rows.push(OverheadSpan::new(graph, kind, (task, top), at)),
            }
            open = Some((kind, task.lane));
        }
        let mut all = Self { nodes, rows };
        for at in 0..all.rows.len() {
            let is_long = all.rows[at].kind == OverheadKind::T1 && all.time(&all.rows[at], graph) > LONGEST_GAP;
            all.rows[at].is_overhead = !is_long;
        }
        all.mark_outliers(graph);
        all
    }

    fn mark_outliers(&mut self, graph: &ExecutionGraph) {
        let us: Vec<f64> = self.rows.iter().map(|row| self.time(row, graph).0 as f64 / 1e3).collect();
        let mut samples: FxHashMap<(OverheadKind, NameId), Vec<f64>> = FxHashMap::default();
        for (row, &us) in self.rows.iter().zip(&us).filter(|(row, _)| row.is_overhead) {
            samples.entry((row.kind, row.op)).or_default().push(us);
        }
        let fences: FxHashMap<_, _> =
            samples.into_iter().filter_map(|(key, mut sample)| Some((key, fences(&mut sample)?))).collect();
        for (row, us) in self.rows.iter_mut().zip(us).filter(|(row, _)| row.is_overhead) {
            row.is_outlier = fences.get(&(row.kind, row.op)).is_some_and(|&(low, high)| us < low || us > high);
        }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &OverheadSpan> {
        self.rows.iter()
    }

    /// The tasks of one.
    pub fn nodes(&self, stretch: &OverheadSpan) -> &[NodeId] {
        self.nodes.get(stretch.nodes.start as usize..stretch.nodes.end as usize).unwrap_or(&[])
    }

    /// Its measured time.
    pub fn time(&self, stretch: &OverheadSpan, graph: &ExecutionGraph) -> DurNs {
        self.nodes(stretch).iter().map(|&node| graph.tasks[node].duration).sum()
    }
}

impl OverheadSpan {
    fn new(graph: &ExecutionGraph, kind: OverheadKind, (task, top): (&Task, Option<OperatorId>), at: usize) -> Self {
        let op = match kind {
            OverheadKind::T1 => NameId(0),
            OverheadKind::T4 => task.name,
            _ => top.map_or(NameId(0), |top| graph.operators[top.0 as usize].name),
        };
        Self { kind, op, top, is_overhead: true, is_outlier: false, nodes: at as u32..at as u32 + 1 }
    }
}

/// Which overhead the time of a task is.
pub fn kind_of(kind: TaskKind) -> Option<OverheadKind> {
    match kind {
        TaskKind::Host(HostPart::Between) => Some(OverheadKind::T1),
        TaskKind::Host(HostPart::BeforeLaunch) => Some(OverheadKind::T2),
        TaskKind::Host(HostPart::AfterLaunch) => Some(OverheadKind::T3),
        TaskKind::Host(HostPart::Inside) => Some(OverheadKind::T5),
        TaskKind::Runtime => Some(OverheadKind::T4),
        _ => None,
    }
}

//! Host overheads out of an execution graph: the host tasks of each thread, grouped by top-level operator.

use std::collections::BTreeMap;

use crate::graph::{ExecutionGraph, NodeId, OperatorId, Task};
use crate::intern::NameId;
use crate::units::DurNs;

use super::{OverheadKind, OverheadSpan, OverheadSpans, Overheads, Spread, Statistic, without_outliers};

/// What the profiler itself adds to host time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProfilerCost {
    /// Per operator recorded inside a span, in µs.
    pub cpu_event_us: f64,
    /// Per runtime call that starts device work, in µs.
    pub gpu_event_us: f64,
}

impl Default for ProfilerCost {
    /// 2 µs and 4 µs [Lin 2022].
    fn default() -> Self {
        Self { cpu_event_us: 2.0, gpu_event_us: 4.0 }
    }
}

impl ProfilerCost {
    /// A profiler that costs nothing: overheads as they were measured.
    pub const NONE: Self = Self { cpu_event_us: 0.0, gpu_event_us: 0.0 };
}

/// Statistics of every overhead in `graph`, outliers dropped, the profiler's cost taken off (never below 0).
///
/// Cost: one pass over the tasks, sorted by lane and time.
pub fn extract(graph: &ExecutionGraph, cost: ProfilerCost) -> Overheads {
    statistics(graph, &OverheadSpans::of(graph), cost)
}

/// As [`extract`], of overheads that were found before.
pub fn statistics(graph: &ExecutionGraph, spans: &OverheadSpans, cost: ProfilerCost) -> Overheads {
    let mut samples: BTreeMap<(OverheadKind, NameId), Vec<f64>> = BTreeMap::new();
    let mut recorded: BTreeMap<(OverheadKind, NameId), Vec<(f64, f64)>> = BTreeMap::new();
    for stretch in spans.iter().filter(|stretch| stretch.is_overhead) {
        let us = micros(spans.time(stretch, graph)) - profiler_us(graph, spans, stretch, cost);
        samples.entry((stretch.kind, stretch.op)).or_default().push(us.max(0.0));
        recorded.entry((stretch.kind, stretch.op)).or_default().push((micros(spans.time(stretch, graph)), 1.0));
    }
    let mut overheads = Overheads::new("extracted from a trace");
    for ((key, sample), calls) in samples.into_iter().zip(recorded.into_values()) {
        if let Some(statistic) = Statistic::of(&without_outliers(sample)) {
            overheads.add_all(key.0, graph.names.get(key.1), statistic, Some(&Spread::of(calls)));
        }
    }
    overheads
}

/// What the profiler adds to a stretch.
fn profiler_us(graph: &ExecutionGraph, spans: &OverheadSpans, stretch: &OverheadSpan, cost: ProfilerCost) -> f64 {
    if stretch.kind == OverheadKind::T4 {
        return if starts_device_work(graph.names.get(stretch.op)) { cost.gpu_event_us } else { 0.0 };
    }
    let started = |&node: &NodeId| operators_started(graph, &graph.tasks[node], stretch.top);
    cost.cpu_event_us * spans.nodes(stretch).iter().map(started).sum::<f64>()
}

/// Operators below `top` that start within `task`.
fn operators_started(graph: &ExecutionGraph, task: &Task, top: Option<OperatorId>) -> f64 {
    let Some(top) = top else { return 0.0 };
    let Some(row) = graph.operators.get(top.0 as usize) else { return 0.0 };
    let below = graph.operators.get(top.0 as usize + 1..row.subtree_end.0 as usize).unwrap_or(&[]);
    let from = below.partition_point(|operator| operator.start < task.measured_start);
    let to = below.partition_point(|operator| operator.start < task.measured_end());
    to.saturating_sub(from) as f64
}

fn micros(duration: DurNs) -> f64 {
    duration.0 as f64 / 1e3
}

fn starts_device_work(call: &str) -> bool {
    ["Launch", "Memcpy", "Memset"].iter().any(|part| call.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Diagnostics;
    use crate::graph::{HostPart, Lane, LaneId, LaneKind, Operator, Phase, Rank, TaskKind};
    use crate::intern::NameTable;
    use crate::trace::EventId;
    use crate::units::{Bytes, TimeNs};

    fn operator(name: NameId, parent: Option<u32>, subtree_end: u32, start: i64) -> Operator {
        Operator {
            name,
            parent: parent.map(OperatorId),
            subtree_end: OperatorId(subtree_end),
            lane: LaneId(0),
            event: EventId(0),
            start: TimeNs(start),
            dur: DurNs(0),
            operands: None,
            phase: Phase::Forward,
            forward: None,
            module: NameId(0),
            transfer: None,
        }
    }

    fn task(kind: TaskKind, name: NameId, operator: Option<u32>, start_us: i64, us: i64) -> Task {
        Task {
            kind,
            lane: LaneId(0),
            name,
            operator: operator.map(OperatorId),
            event: None,
            measured_start: TimeNs(start_us * 1000),
            measured: DurNs(us * 1000),
            duration: DurNs(us * 1000),
            bytes: Bytes(0),
        }
    }

    /// `aten::linear` at 10…60 µs with `aten::addmm` inside from 14 µs: launches at 20 and 40 µs, 6 µs each.
    fn graph() -> ExecutionGraph {
        let mut names = NameTable::new();
        let [linear, addmm, launch] =
            ["aten::linear", "aten::addmm", "cudaLaunchKernel"].map(|name| names.intern(name));
        let mut tasks = petgraph::graph::DiGraph::default();
        let host = TaskKind::Host;
        for (kind, name, operator, start, us) in [
            (host(HostPart::Between), NameId(0), None, 0, 10),
            (host(HostPart::BeforeLaunch), linear, Some(0), 10, 4),
            (host(HostPart::BeforeLaunch), addmm, Some(1), 14, 6),
            (TaskKind::Runtime, launch, Some(1), 20, 6),
            (host(HostPart::Inside), addmm, Some(1), 26, 14),
            (TaskKind::Runtime, launch, Some(1), 40, 6),
            (host(HostPart::AfterLaunch), addmm, Some(1), 46, 10),
            (host(HostPart::AfterLaunch), linear, Some(0), 56, 4),
            (host(HostPart::Between), NameId(0), None, 60, 500),
        ] {
            tasks.add_node(task(kind, name, operator, start, us));
        }
        ExecutionGraph {
            is_predicted: false,
            tasks,
            lanes: vec![Lane {
                rank: Rank(0),
                kind: LaneKind::Thread { tid: 1 },
                name: NameId(0),
                communication: false,
            }],
            operators: vec![operator(linear, None, 2, 10_000), operator(addmm, Some(0), 2, 14_000)],
            operands: Vec::new(),
            collectives: Vec::new(),
            names,
            ranks: Vec::new(),
            measured: DurNs(0),
            late_starts: Vec::new(),
            batch_size: None,
            batches: 1,
            passes: Vec::new(),
            constants: Vec::new(),
            diagnostics: Diagnostics::default(),
            stated: Vec::new(),
            stands_beside: Vec::new(),
            repeats: Vec::new(),
        }
    }

    #[test]
    fn overheads_agree_with_those_worked_out_by_hand() {
        let overheads = extract(&graph(), ProfilerCost::NONE);
        let mean = |kind, op: &str| overheads.get(kind, op).map(|statistic| (statistic.mean_us, statistic.count));
        // The gap of 500 µs is data loading, not T1.
        assert_eq!(mean(OverheadKind::T1, ""), Some((10.0, 1)));
        assert_eq!(mean(OverheadKind::T2, "aten::linear"), Some((10.0, 1)));
        assert_eq!(mean(OverheadKind::T3, "aten::linear"), Some((14.0, 1)));
        assert_eq!(mean(OverheadKind::T4, "cudaLaunchKernel"), Some((6.0, 2)));
        assert_eq!(mean(OverheadKind::T5, "aten::linear"), Some((14.0, 1)));
    }

    #[test]
    fn the_profilers_cost_is_taken_off_but_never_below_zero() {
        let overheads = extract(&graph(), ProfilerCost { cpu_event_us: 2.0, gpu_event_us: 8.0 });
        let mean = |kind, op: &str| overheads.get(kind, op).map(|statistic| statistic.mean_us);
        assert_eq!(mean(OverheadKind::T2, "aten::linear"), Some(8.0));
        assert_eq!(mean(OverheadKind::T4, "cudaLaunchKernel"), Some(0.0));
    }
}

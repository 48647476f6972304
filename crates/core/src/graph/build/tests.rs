//! The replay rules on hand-made traces small enough to work out by hand.

use std::fmt::Write;

use super::*;
use crate::graph::{DependencyKind, HostPart, Task, TaskKind, TimedGraph, invariants};
use crate::sim::{Schedule, simulate};
use crate::trace::load_bytes;
use crate::units::DurNs;

pub(super) const MAIN: u32 = 1;
const AUTOGRAD: u32 = 2;

/// A trace in the making; times in µs.
#[derive(Default)]
pub(super) struct Draft {
    events: String,
    pub(super) next: u32,
}

impl Draft {
    fn event(&mut self, category: &str, name: &str, (pid, tid): (u32, u32), (ts, dur): (f64, f64), args: &str) {
        let comma = if self.events.is_empty() { "" } else { "," };
        let times = format!(r#""ts":{ts:.3},"dur":{dur:.3}"#);
        let what = format!(r#""ph":"X","cat":"{category}","name":"{name}""#);
        write!(self.events, r#"{comma}{{{what},"pid":{pid},"tid":{tid},{times},"args":{{{args}}}}}"#).unwrap();
    }

    pub(super) fn op(&mut self, name: &str, thread: u32, ts: f64, dur: f64) {
        self.event("cpu_op", name, (1, thread), (ts, dur), "");
    }

    pub(super) fn call(&mut self, name: &str, thread: u32, ts: f64, dur: f64) -> u32 {
        self.next += 1;
        let args = format!(r#""correlation":{}"#, self.next);
        self.event("cuda_runtime", name, (1, thread), (ts, dur), &args);
        self.next
    }

    pub(super) fn activity(&mut self, name: &str, stream: u32, ts: f64, dur: f64, correlation: u32) {
        let category = if name.starts_with("Memcpy") { "gpu_memcpy" } else { "kernel" };
        let args = format!(r#""device":0,"stream":{stream},"correlation":{correlation}"#);
        self.event(category, name, (0, stream), (ts, dur), &args);
    }

    /// A launch of 5 µs and its kernel.
    pub(super) fn launch(&mut self, thread: u32, at: f64, stream: u32, start: f64, dur: f64) {
        let correlation = self.call("cudaLaunchKernel", thread, at, 5.0);
        self.activity("kernel", stream, start, dur, correlation);
    }

    pub(super) fn step(&mut self, number: u32, ts: f64, dur: f64) {
        self.event("user_annotation", &format!("ProfilerStep#{number}"), (1, MAIN), (ts, dur), "");
    }

    fn trace(&self, rank: u32) -> Trace {
        let head = format!(r#""distributedInfo":{{"rank":{rank},"world_size":2}}"#);
        let text = format!(r#"{{{head},"traceEvents":[{}]}}"#, self.events);
        load_bytes(text.as_bytes(), "hand-made.json").unwrap()
    }

    pub(super) fn graph(&self) -> ExecutionGraph {
        graph_of(&[self.trace(0)])
    }
}

pub(super) fn graph_of(traces: &[Trace]) -> ExecutionGraph {
    let inputs: Vec<RankInput<'_>> = traces
        .iter()
        .enumerate()
        .map(|(index, trace)| RankInput { rank: Rank(index as u32), trace_index: index, trace, others: &[] })
        .collect();
    let graph = build_ranks(&inputs, &BuildOptions::default()).unwrap();
    invariants::check(&graph).unwrap();
    graph
}

/// The simulated period in µs with the duration of chosen tasks multiplied.
pub(super) fn period(graph: &ExecutionGraph, factor: f64, chosen: impl Fn(&Task) -> bool) -> f64 {
    let mut scaled = graph.clone();
    for task in scaled.tasks.node_weights_mut().filter(|task| chosen(task)) {
        task.duration = task.duration.scale(factor);
    }
    let timed = TimedGraph::lower(&scaled);
    let mut schedule = Schedule::default();
    simulate(&timed, &mut schedule);
    let of = |part: &crate::graph::RankPart| {
        let begin = part.begin.map_or(0, |node| schedule.end(timed.task(node)).0);
        schedule.end(timed.task(part.end)).0 - begin
    };
    graph.ranks.iter().map(of).max().unwrap() as f64 / 1e3
}

fn kernel(task: &Task) -> bool {
    task.kind == TaskKind::Kernel
}

fn think(task: &Task) -> bool {
    matches!(task.kind, TaskKind::Host(_))
}

fn nothing(_: &Task) -> bool {
    false
}

fn edges(graph: &ExecutionGraph, kind: DependencyKind) -> usize {
    graph.tasks.edge_weights().filter(|edge| edge.kind == kind).count()
}

#[test]
fn host_time_is_cut_into_the_parts_of_top_level_operators() {
    let mut draft = Draft::default();
    draft.op("aten::linear", MAIN, 0.0, 40.0);
    draft.op("aten::addmm", MAIN, 2.0, 30.0);
    draft.launch(MAIN, 10.0, 7, 20.0, 3.0);
    draft.launch(MAIN, 22.0, 7, 30.0, 3.0);
    draft.op("aten::relu", MAIN, 50.0, 10.0);
    let graph = draft.graph();
    let parts: Vec<(HostPart, &str, i64)> = graph
        .tasks
        .node_weights()
        .filter_map(|task| match task.kind {
            TaskKind::Host(part) => Some((part, graph.names.get(task.name), task.duration.0 / 1_000)),
            _ => None,
        })
        .collect();
    assert_eq!(
        parts,
        [
            (HostPart::BeforeLaunch, "aten::linear", 2),
            (HostPart::BeforeLaunch, "aten::addmm", 8),
            (HostPart::Inside, "aten::addmm", 7),
            (HostPart::AfterLaunch, "aten::addmm", 5),
            (HostPart::AfterLaunch, "aten::linear", 8),
            (HostPart::Between, "", 10),
            (HostPart::Inside, "aten::relu", 10),
        ]
    );
    let launched: Vec<&str> = graph
        .tasks
        .node_weights()
        .filter(|task| kernel(task))
        .map(|task| graph.names.get(graph.operators[task.operator.unwrap().0 as usize].name))
        .collect();
    assert_eq!(launched, ["aten::addmm"; 2]);
}

#[test]
fn a_synchronisation_ends_with_the_work_it_waits_for() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 10.0);
    draft.launch(MAIN, 4.0, 7, 12.0, 100.0);
    draft.call("cudaDeviceSynchronize", MAIN, 20.0, 97.0);
    draft.op("aten::relu", MAIN, 120.0, 10.0);
    let graph = draft.graph();
    assert_eq!(graph.measured, DurNs(130_000));
    assert!((period(&graph, 1.0, nothing) - 130.0).abs() < 0.001);
    assert!((period(&graph, 2.0, kernel) - 230.0).abs() < 0.001, "the kernel's 100 µs are on the path");
    assert!((period(&graph, 0.5, kernel) - 80.0).abs() < 0.001);
}

#[test]
fn a_stream_runs_in_order_and_back_to_back() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 60.0);
    for index in 0..8 {
        let index = f64::from(index);
        draft.launch(MAIN, 1.0 + 6.0 * index, 7, 8.0 + 102.0 * index, 100.0);
    }
    let graph = draft.graph();
    assert!((period(&graph, 1.0, nothing) - 822.0).abs() < 0.01);
    assert!((period(&graph, 2.0, kernel) - 1622.0).abs() < 0.01, "gaps of 2 µs stay");
    assert!((period(&graph, 0.5, think) - 822.0).abs() < 4.0, "the device is busy all the time");
}

#[test]
fn the_forward_thread_waits_for_the_autograd_thread_it_started() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 100.0);
    draft.op("autograd::engine::evaluate_function: MmBackward0", AUTOGRAD, 130.0, 400.0);
    draft.op("aten::_foreach_add_", MAIN, 560.0, 40.0);
    let graph = draft.graph();
    assert!(edges(&graph, DependencyKind::HandOver) == 2);
    assert!((period(&graph, 1.0, nothing) - 600.0).abs() < 0.001);
    let on_autograd = |task: &Task| think(task) && task.lane == graph.operators[2].lane;
    let period = period(&graph, 0.5, on_autograd);
    assert!((period - 385.0).abs() < 0.001, "half of 30 µs waking and 400 µs backward is saved: {period}");
}

#[test]
fn a_wait_for_an_event_holds_back_the_next_work_of_its_thread() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 60.0);
    draft.launch(MAIN, 2.0, 7, 10.0, 100.0);
    draft.call("cudaStreamWaitEvent", MAIN, 10.0, 1.0);
    draft.launch(MAIN, 12.0, 20, 112.0, 50.0);
    let graph = draft.graph();
    assert_eq!(edges(&graph, DependencyKind::EventWait), 1);
    assert!((period(&graph, 1.0, nothing) - 162.0).abs() < 0.001);
    assert!((period(&graph, 2.0, kernel) - 312.0).abs() < 0.001);
}

#[test]
fn a_full_launch_queue_holds_back_the_host() {
    let mut draft = Draft::default();
    let (mut host, mut device) = (0.0_f64, 6.0_f64);
    let mut ends = Vec::new();
    for index in 0..1200_usize {
        let own = host + 5.0;
        let end = if index >= queue::DEPTH { own.max(ends[index - queue::DEPTH]) } else { own };
        let correlation = draft.call("cudaLaunchKernel", MAIN, host, end - host);
        device = device.max(end + 1.0);
        draft.activity("kernel", 7, device, 50.0, correlation);
        device += 50.0;
        ends.push(device);
        host = end + 1.0;
    }
    draft.op("aten::item", MAIN, host, 10.0);
    let graph = draft.graph();
    assert_eq!(edges(&graph, DependencyKind::LaunchQueue), 1200 - queue::DEPTH);
    let last_launch = |factor: f64| {
        let mut scaled = graph.clone();
        for task in scaled.tasks.node_weights_mut().filter(|task| kernel(task)) {
            task.duration = task.duration.scale(factor);
        }
        let timed = TimedGraph::lower(&scaled);
        let mut schedule = Schedule::default();
        simulate(&timed, &mut schedule);
        let ends = graph.tasks.node_indices().filter(|&node| think(&graph.tasks[node]));
        ends.map(|node| schedule.end(timed.task(node)).0).max().unwrap() as f64 / 1e3
    };
    assert!((last_launch(1.0) - (host + 10.0)).abs() < 1.0, "{} for {}", last_launch(1.0), host + 10.0);
    assert!(last_launch(0.5) < 1200.0 * 6.0 + 100.0, "with shorter kernels the queue never fills");
    assert!(last_launch(2.0) > last_launch(1.0) + 2_500.0, "with longer kernels it fills earlier");
}

#[test]
fn each_stream_has_a_launch_queue_of_its_own() {
    let mut draft = Draft::default();
    for index in 0..1_200_u32 {
        let at = f64::from(index) * 6.0;
        draft.launch(MAIN, at, 7 + index % 2, at + 6.0, 5.0);
    }
    assert_eq!(edges(&draft.graph(), DependencyKind::LaunchQueue), 0);
}

#[test]
fn queued_work_may_follow_later_than_back_to_back() {
    let mut draft = Draft::default();
    for index in 0..6 {
        let at = f64::from(index) * 10.0;
        draft.launch(MAIN, at, 7, 10.0 + f64::from(index) * 130.0, 100.0);
    }
    let graph = draft.graph();
    assert!(graph.late_starts.is_empty(), "{:?}", graph.late_starts);
    assert!((period(&graph, 0.5, kernel) - 460.0).abs() < 0.001, "{}", period(&graph, 0.5, kernel));
}

#[test]
fn work_without_a_launch_record_counts_as_launched_before_the_wait_it_starts_in() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 10.0);
    draft.launch(MAIN, 2.0, 7, 9.0, 50.0);
    draft.activity("lost", 7, 61.0, 40.0, 9_999);
    draft.call("cudaDeviceSynchronize", MAIN, 20.0, 86.0);
    let graph = draft.graph();
    assert!((period(&graph, 1.0, nothing) - 106.0).abs() < 0.001);
    assert!((period(&graph, 2.0, kernel) - 196.0).abs() < 0.001, "the lost kernel is waited for too");
}

#[test]
fn a_late_start_without_a_cause_is_reported_and_not_mended() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 60.0);
    for index in 0..4 {
        let at = 2.0 + 12.0 * f64::from(index);
        draft.launch(MAIN, at, 7, at + 6.0, 4.0);
    }
    draft.launch(MAIN, 52.0, 7, 500.0, 10.0);
    let graph = draft.graph();
    assert_eq!(graph.unexplained(), DurNs(500_000 - 58_000));
    let simulated = period(&graph, 1.0, nothing);
    assert!((simulated - 68.0).abs() < 0.001, "{simulated}");
}

#[test]
fn work_held_back_by_a_busy_device_starts_at_the_same_share_of_the_other() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 30.0);
    draft.launch(MAIN, 2.0, 7, 8.0, 1000.0);
    draft.launch(MAIN, 10.0, 20, 508.0, 10.0);
    for index in 0..3 {
        let at = 2_000.0 + 20.0 * f64::from(index);
        draft.launch(MAIN, at, 20, at + 6.0, 4.0);
    }
    let graph = draft.graph();
    let contention: Vec<f32> = graph
        .tasks
        .edge_weights()
        .filter(|edge| edge.kind == DependencyKind::Contention)
        .map(|edge| edge.of_predecessor)
        .collect();
    assert_eq!(contention, [0.5]);
    assert_eq!(graph.unexplained(), DurNs::ZERO);
}

#[test]
fn the_period_runs_from_the_end_of_one_steps_work_to_that_of_the_next() {
    let mut draft = Draft::default();
    for number in 0..3 {
        let at = 200.0 * f64::from(number);
        draft.step(number, at, 199.0);
        draft.op("aten::mm", MAIN, at + 1.0, 20.0);
        draft.launch(MAIN, at + 4.0, 7, at + 50.0, 190.0);
    }
    let graph = draft.graph();
    assert_eq!(graph.measured, DurNs(200_000), "not 240 µs, which counts the backlog twice");
    assert!(graph.ranks[0].begin.is_some());
    assert_eq!(
        graph
            .iteration_tasks()
            .iter()
            .zip(graph.tasks.node_weights())
            .filter(|(own, task)| **own && kernel(task))
            .count(),
        1
    );
}

#[test]
fn ranks_of_a_collective_wait_for_the_last_to_arrive() {
    let rank = |arrival: f64| {
        let mut draft = Draft::default();
        draft.op("aten::mm", MAIN, 0.0, arrival);
        let correlation = draft.call("cudaLaunchKernel", MAIN, arrival, 5.0);
        draft.activity("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 20, arrival + 6.0, 556.0 - arrival, correlation);
        draft.call("cudaDeviceSynchronize", MAIN, arrival + 10.0, 557.0 - arrival);
        draft
    };
    let graph = graph_of(&[rank(100.0).trace(0), rank(500.0).trace(1)]);
    assert_eq!(graph.collectives.len(), 1);
    assert_eq!((graph.collectives[0].members.len(), graph.collectives[0].transfer), (2, DurNs(56_000)));
    assert_eq!(graph.names.get(graph.collectives[0].kind), "all-reduce");
    let of_rank = |rank: u32| {
        let lanes = &graph.lanes;
        move |task: &Task| think(task) && lanes[task.lane.0 as usize].rank == Rank(rank)
    };
    let base = period(&graph, 1.0, nothing);
    assert!((base - 567.0).abs() < 1.0, "{base}");
    assert!((period(&graph, 0.5, of_rank(0)) - base).abs() < 0.001, "the early rank only waits longer");
    assert!((period(&graph, 0.5, of_rank(1)) - (base - 250.0)).abs() < 0.001);
}

#[test]
fn without_a_device_leaf_operators_compute_and_wrappers_do_not() {
    let mut draft = Draft::default();
    draft.op("aten::linear", MAIN, 0.0, 100.0);
    draft.op("aten::t", MAIN, 2.0, 6.0);
    draft.op("aten::addmm", MAIN, 10.0, 88.0);
    draft.op("aten::expand", MAIN, 12.0, 4.0);
    let graph = draft.graph();
    let computing: Vec<(&str, i64)> = graph
        .tasks
        .node_weights()
        .filter(|task| task.kind == TaskKind::Compute)
        .map(|task| (graph.names.get(task.name), task.duration.0 / 1_000))
        .collect();
    assert_eq!(computing, [("aten::addmm", 2), ("aten::addmm", 82)]);
}

#[test]
fn launch_latency_is_the_median_over_work_that_found_its_stream_idle() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 400.0);
    for (index, lag) in [4.0, 5.0, 9.0].into_iter().enumerate() {
        let at = 100.0 * index as f64 + 10.0;
        draft.launch(MAIN, at, 7, at + 5.0 + lag, 3.0);
    }
    let graph = draft.graph();
    let constant = graph.constants[0].launch[ActivityKind::Kernel as usize];
    assert_eq!((constant.lag, constant.samples), (DurNs(5_000), 3));
    let timed = TimedGraph::lower(&graph);
    let mut schedule = Schedule::default();
    simulate(&timed, &mut schedule);
    let starts = graph.tasks.node_indices().filter(|&node| kernel(&graph.tasks[node]));
    let starts: Vec<i64> = starts.map(|node| schedule.start(&timed, timed.task(node)).0 / 1_000).collect();
    assert_eq!(starts, [20, 120, 220], "each call ends 5 µs after it began, and its kernel starts 5 µs later");
}

#[test]
fn lags_too_few_for_a_constant_stand_for_themselves() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 500.0);
    for (at, back) in [(10.0, 7.0), (200.0, 22.0)] {
        draft.launch(MAIN, at, 7, at + 9.0, 50.0);
        draft.call("cudaDeviceSynchronize", MAIN, at + 8.0, 51.0 + back);
    }
    let graph = draft.graph();
    assert!(!graph.constants[0].wait[WaitKind::Device as usize].is_constant());
    assert!((period(&graph, 1.0, nothing) - 500.0).abs() < 0.001, "no return is taken for the other's");
    assert!((period(&graph, 2.0, kernel) - 600.0).abs() < 0.001);
}

#[test]
fn freeing_memory_waits_for_the_device_and_takes_its_own_time() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 10.0);
    draft.launch(MAIN, 2.0, 7, 12.0, 100.0);
    draft.call("cudaFree", MAIN, 20.0, 122.0);
    draft.op("aten::relu", MAIN, 150.0, 10.0);
    let graph = draft.graph();
    assert_eq!(edges(&graph, DependencyKind::HostWait), 1);
    assert!((period(&graph, 1.0, nothing) - 160.0).abs() < 0.001);
    assert!((period(&graph, 2.0, kernel) - 260.0).abs() < 0.001, "30 µs of its own and 8 µs after stay");
}

#[test]
fn a_copy_from_pageable_memory_is_staged_and_blocks_its_call() {
    let mut draft = Draft::default();
    draft.op("aten::copy_", MAIN, 0.0, 10.0);
    let correlation = draft.call("cudaMemcpyAsync", MAIN, 2.0, 60.0);
    draft.activity("Memcpy HtoD (Pageable -> Device)", 7, 22.0, 30.0, correlation);
    draft.op("aten::relu", MAIN, 70.0, 10.0);
    let graph = draft.graph();
    assert!((period(&graph, 1.0, nothing) - 80.0).abs() < 0.001);
    let copy = |task: &Task| task.kind == TaskKind::Memcpy;
    assert!((period(&graph, 2.0, copy) - 110.0).abs() < 0.001, "20 µs of staging before it, 10 µs after it");
}

#[test]
fn a_late_start_right_after_work_elsewhere_follows_that_work() {
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 30.0);
    draft.launch(MAIN, 2.0, 7, 8.0, 1_000.0);
    draft.launch(MAIN, 10.0, 20, 1_012.0, 10.0);
    for index in 0..3 {
        let at = 2_000.0 + 20.0 * f64::from(index);
        draft.launch(MAIN, at, 20, at + 6.0, 4.0);
    }
    let graph = draft.graph();
    assert_eq!(edges(&graph, DependencyKind::LateStart), 1);
    assert!(graph.late_starts.is_empty(), "{:?}", graph.late_starts);
    let lag = graph.tasks.edge_weights().find(|edge| edge.kind == DependencyKind::LateStart).unwrap().lag;
    assert_eq!(lag, DurNs(4_000));
}

#[test]
fn long_think_time_after_device_work_on_both_ranks_is_a_wait() {
    let rank = |launched: f64| {
        let mut draft = Draft::default();
        draft.op("aten::mm", MAIN, 0.0, launched + 10.0);
        draft.launch(MAIN, launched, 7, launched + 6.0, 3_000.0 - launched);
        draft.op("aten::relu", MAIN, 3_046.0, 20.0);
        draft.launch(MAIN, 3_050.0, 7, 3_056.0, 5.0);
        draft.op("aten::relu", MAIN, 3_100.0, 20.0);
        draft
    };
    let alone = graph_of(&[rank(10.0).trace(0)]);
    assert_eq!(edges(&alone, DependencyKind::HiddenWait), 0, "one rank may simply have thought");
    let graph = graph_of(&[rank(10.0).trace(0), rank(12.0).trace(1)]);
    assert_eq!(edges(&graph, DependencyKind::HiddenWait), 2);
    let halved = period(&graph, 0.5, kernel);
    assert!((halved - (3_120.0 - 1_495.0)).abs() < 10.0, "the host goes on when the kernel has ended: {halved}");
}

#[test]
fn what_cannot_be_built_says_why() {
    assert_eq!(build_ranks(&[], &BuildOptions::default()).unwrap_err(), BuildError::NoTrace);
    let mut draft = Draft::default();
    draft.op("aten::mm", MAIN, 0.0, 1.0);
    let trace = draft.trace(0);
    let input = RankInput { rank: Rank(0), trace_index: 0, trace: &trace, others: &[] };
    let options = BuildOptions { iteration: IterationChoice::Index(4) };
    let error = build_ranks(&[input], &options).unwrap_err();
    assert_eq!(error, BuildError::NoIteration { path: "hand-made.json".into(), index: 4, count: 1 });
}

#[test]
fn lanes_beyond_sixteen_bits_stay_apart() {
    const STREAMS: u32 = 66_000;
    let mut draft = Draft::default();
    for stream in 0..STREAMS {
        let at = f64::from(stream) * 10.0;
        draft.launch(MAIN, at, stream, at + 6.0, 3.0);
    }
    let graph = draft.graph();
    let mut lanes: Vec<u32> = graph.tasks.node_weights().filter(|task| kernel(task)).map(|task| task.lane.0).collect();
    lanes.sort_unstable();
    lanes.dedup();
    assert_eq!(lanes.len(), STREAMS as usize);
}

/// A step of 100 µs with a kernel, a collective and a wait, `from` µs after the clock's origin.
fn step_from(draft: &mut Draft, number: u32, from: f64) {
    draft.step(number, from, 100.0);
    draft.op("aten::mul", MAIN, from + 1.0, 20.0);
    draft.launch(MAIN, from + 5.0, 7, from + 12.0, 10.0);
    let correlation = draft.call("cudaLaunchKernel", MAIN, from + 30.0, 5.0);
    draft.activity("ncclKernel_AllReduce", 9, from + 40.0, 30.0, correlation);
    draft.call("cudaDeviceSynchronize", MAIN, from + 60.0, 12.0);
}

#[test]
fn times_at_both_ends_of_64_bits_do_not_overflow() {
    const FAR: f64 = 9.2e15;
    let both = |ends: &[f64]| {
        let mut draft = Draft::default();
        for (number, &from) in (0..).zip(ends) {
            step_from(&mut draft, number, from);
        }
        draft
    };
    // Within one trace, and between the clocks of two ranks.
    let one = both(&[-FAR, FAR]).graph();
    let two = graph_of(&[both(&[-FAR]).trace(0), both(&[FAR]).trace(1)]);
    for graph in [&one, &two] {
        assert!(period(graph, 1.0, nothing) >= 100.0);
        assert!(graph.ranks.iter().all(|part| part.measured >= DurNs(100_000)), "{:?}", graph.ranks);
    }
    assert_eq!(two.ranks[0].measured, DurNs(100_000));
}

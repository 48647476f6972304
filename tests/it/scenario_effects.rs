//! What each edit does to the iteration, on made-up traces small enough to work the expected time out by hand.
//!
//! Every trace launches 2 µs after its call and runs back to back with 1 µs between; an operator's host time is 2 µs, a call
//! of 5 µs, and a rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use retime_core::analysis::replay::period;
use retime_core::graph::{self, BuildOptions};
use retime_core::memory::{Buffer, Holds, MemorySource, RankMemory};
use retime_core::scenario::{Base, Context, Resolved, Scenario, resolve};
use retime_core::sim::{Schedule, simulate, steady};
use retime_core::trace::{Job, RankTrace, load_bytes};
use retime_core::units::{Bytes, TimeNs};
use serde_json::{Value, json};

const MAIN: u32 = 1;
const STREAM: u32 = 7;
const COMM: u32 = 20;

/// A trace in the making; times in µs.
#[derive(Default)]
struct Made {
    events: Vec<Value>,
    host: f64,
    /// When each stream is through with what it has.
    streams: BTreeMap<u32, f64>,
    /// What a stream waits for, once.
    held: BTreeMap<u32, f64>,
    ids: u32,
}

/// An operator with one kernel.
struct Op<'a> {
    name: &'a str,
    kernel: &'a str,
    stream: u32,
    /// Time of the kernel.
    dur: f64,
    /// Host time after the call.
    rest: f64,
    dims: &'a [&'a [u64]],
    sequence: Option<u32>,
    /// All-reduced elements.
    reduced: Option<u64>,
}

fn op<'a>(name: &'a str, kernel: &'a str, dur: f64) -> Op<'a> {
    Op { name, kernel, stream: STREAM, dur, rest: 3.0, dims: &[], sequence: None, reduced: None }
}

impl Made {
    fn event(&mut self, category: &str, name: &str, (pid, tid): (u32, u32), (ts, dur): (f64, f64), args: &Value) {
        self.events.push(
            json!({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}),
        );
    }

    fn run(&mut self, op: &Op<'_>) -> &mut Self {
        let start = self.host;
        let (external, correlation) = (self.ids + 1, self.ids + 2);
        self.ids += 2;
        let types: Vec<&str> = op.dims.iter().map(|_| "float").collect();
        let mut args = json!({"External id": external, "Input Dims": op.dims, "Input type": types});
        if let Some(sequence) = op.sequence {
            args["Sequence number"] = json!(sequence);
        }
        self.event("cpu_op", op.name, (1, MAIN), (start, 7.0 + op.rest), &args);
        let call = json!({"External id": external, "correlation": correlation});
        self.event("cuda_runtime", "cudaLaunchKernel", (1, MAIN), (start + 2.0, 5.0), &call);
        self.work("kernel", op, (external, correlation), start + 9.0);
        self.host = start + 7.0 + op.rest;
        self
    }

    fn work(&mut self, category: &str, op: &Op<'_>, (external, correlation): (u32, u32), ready: f64) {
        let free = self.streams.get(&op.stream).map_or(ready, |end| end + 1.0);
        let held = self.held.remove(&op.stream).unwrap_or(ready);
        let begin = ready.max(free).max(held);
        let mut args = json!({"External id": external, "correlation": correlation, "device": 0, "stream": op.stream});
        if let Some(elements) = op.reduced {
            for (key, value) in [("In msg nelems", json!(elements)), ("Out msg nelems", json!(elements))] {
                args[key] = value;
            }
            args["Collective name"] = json!("allreduce");
            args["dtype"] = json!("Float");
            args["Group size"] = json!(8);
            args["Process Group Name"] = json!("0");
        }
        if category == "gpu_memcpy" {
            args["bytes"] = json!(1 << 20);
        }
        self.event(category, op.kernel, (0, op.stream), (begin, op.dur), &args);
        self.streams.insert(op.stream, begin + op.dur);
    }

    /// An operator that computes nothing on the device.
    fn think(&mut self, name: &str, time: f64) -> &mut Self {
        self.event("cpu_op", name, (1, MAIN), (self.host, time), &json!({}));
        self.host += time;
        self
    }

    /// What was launched, then two reductions of equal size on a stream of their own, then the update.
    fn reduced(mut self) -> Self {
        self.wait(STREAM, COMM);
        for _ in 0..2 {
            let name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)";
            self.run(&Op { stream: COMM, reduced: Some(4 << 20), ..op("nccl:all_reduce", name, 150.0) });
        }
        self.wait(COMM, STREAM);
        let start = self.host;
        self.run(&op("aten::add_", "update", 30.0)).annotate("Optimizer.step#SGD.step", start);
        self.step(1, 0.0);
        self
    }

    /// Stream `to` waits for all that stream `from` has.
    fn wait(&mut self, from: u32, to: u32) -> &mut Self {
        let (record, wait) = (self.ids + 1, self.ids + 2);
        self.ids += 2;
        let at = self.host;
        self.event("cuda_runtime", "cudaEventRecord", (1, MAIN), (at, 1.0), &json!({"correlation": record}));
        self.event("cuda_runtime", "cudaStreamWaitEvent", (1, MAIN), (at + 1.0, 1.0), &json!({"correlation": wait}));
        let args = json!({"cuda_sync_kind": "Stream Wait Event", "stream": to, "wait_on_stream": from,
            "wait_on_cuda_event_record_corr_id": record, "correlation": wait, "device": 0});
        self.event("cuda_sync", "Stream Wait Event", (0, to), (at + 1.0, 1.0), &args);
        self.held.insert(to, self.streams.get(&from).copied().unwrap_or(at));
        self.host += 2.0;
        self
    }

    /// The host waits for the device; its call returns 1 µs after.
    fn synchronise(&mut self) -> &mut Self {
        let end = self.streams.values().fold(self.host, |latest, &end| latest.max(end)) + 1.0;
        self.ids += 1;
        let args = json!({"correlation": self.ids});
        self.event("cuda_runtime", "cudaDeviceSynchronize", (1, MAIN), (self.host, end - self.host), &args);
        self.host = end;
        self
    }

    /// A copy of a MiB from pinned memory.
    fn copy(&mut self, dur: f64) -> &mut Self {
        let copy = op("aten::copy_", "Memcpy HtoD (Pinned -> Device)", dur);
        let start = self.host;
        let (external, correlation) = (self.ids + 1, self.ids + 2);
        self.ids += 2;
        self.event("cpu_op", copy.name, (1, MAIN), (start, 10.0), &json!({"External id": external}));
        let call = json!({"External id": external, "correlation": correlation});
        self.event("cuda_runtime", "cudaMemcpyAsync", (1, MAIN), (start + 2.0, 5.0), &call);
        self.work("gpu_memcpy", &copy, (external, correlation), start + 9.0);
        self.host = start + 10.0;
        self
    }

    fn step(&mut self, number: u32, start: f64) -> &mut Self {
        let name = format!("ProfilerStep#{number}");
        self.event("user_annotation", &name, (1, MAIN), (start, self.host - start), &json!({}));
        self
    }

    fn annotate(&mut self, name: &str, start: f64) -> &mut Self {
        self.event("user_annotation", name, (1, MAIN), (start, self.host - start), &json!({}));
        self
    }

    fn open(&self) -> Opened {
        let document = json!({
            "schemaVersion": 1, "displayTimeUnit": "ms",
            "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8},
            "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "totalGlobalMem": 42_000_000_000_u64}],
            "traceEvents": self.events,
        });
        let trace = load_bytes(document.to_string().as_bytes(), "made-up.json").unwrap();
        let rank = RankTrace { rank: 0, world_size: Some(8), trace: Some(trace), execution_trace: None };
        let graph = Arc::new(graph::build(&Job { ranks: vec![rank] }, &BuildOptions::default()).unwrap());
        let context = Context::builtin(&graph).unwrap();
        Opened { base: Base::new(graph), context }
    }
}

struct Opened {
    base: Base,
    context: Context,
}

impl Opened {
    fn resolve(&self, lines: &[&str]) -> Resolved {
        resolve(&self.base, &Scenario::parse(lines.iter().copied()).unwrap(), &self.context)
    }

    /// The iteration in µs.
    fn time(&self, lines: &[&str]) -> f64 {
        let resolved = self.resolve(lines);
        let mut schedule = Schedule::default();
        simulate(&resolved.timed, &mut schedule);
        period(&resolved.timed, &schedule, &self.base.graph().ranks[0]).0 as f64 / 1e3
    }

    /// The period at which the step repeats, in µs.
    fn steady(&self, lines: &[&str]) -> f64 {
        let found = steady(&self.resolve(lines).cycle, &mut Schedule::default()).unwrap();
        assert!(found.has_met(), "{found:?}");
        found.low.0 as f64 / 1e3
    }

    /// What the steps change of the iteration, in µs.
    fn change(&self, lines: &[&str]) -> f64 {
        self.time(lines) - self.time(&[])
    }

    /// What the kernels of that name take now, in µs.
    fn kernel(&self, lines: &[&str], name: &str) -> f64 {
        let resolved = self.resolve(lines);
        let graph = self.base.graph();
        let named = graph.tasks.node_indices().filter(|&node| graph.names.get(graph.tasks[node].name) == name);
        let named = named.filter(|&node| !resolved.is_removed(node));
        named.map(|node| resolved.prediction(node).duration.0 as f64 / 1e3).sum()
    }
}

#[track_caller]
fn assert_near(got: f64, expected: f64) {
    assert!((got - expected).abs() < 0.01, "{got} µs instead of {expected}");
}

const BIG: &[&[u64]] = &[&[1 << 26]];

/// Forward, backward and update, bound by the device: mm 9…109, relu 110…160, its backward 161…201, that of mm 202…282,
/// update 283…313.
fn training() -> Made {
    let mut made = Made::default();
    made.run(&Op { sequence: Some(1), dims: &[&[512, 512], &[512, 512]], ..op("aten::mm", "gemm", 100.0) });
    made.run(&Op { sequence: Some(2), dims: BIG, ..op("aten::relu", "relu", 50.0) });
    made.run(&Op { sequence: Some(2), ..op("ReluBackward0", "relu_back", 40.0) });
    made.run(&Op { sequence: Some(1), ..op("MmBackward0", "gemm_back", 80.0) });
    let start = made.host;
    made.run(&op("aten::add_", "update", 30.0)).annotate("Optimizer.step#SGD.step", start);
    made.step(1, 0.0);
    made
}

#[test]
fn the_training_step_replays_as_it_was_made() {
    let opened = training().open();
    assert_near(opened.time(&[]), 313.0);
}

#[test]
fn scaled_removed_and_inserted_kernels_move_what_follows_by_their_time_and_gap() {
    let opened = training().open();
    assert_near(opened.change(&["scale kernel=relu x2"]), 50.0);
    assert_near(opened.change(&["remove name=aten::relu"]), -51.0);
    assert_near(opened.change(&["insert kernel probe 20us after kernel=relu"]), 21.0);
    // Nothing waits for what runs beside: 20 µs are hidden, 200 end at 160 + 200.
    assert_near(opened.change(&["insert kernel probe 20us on stream 9 after kernel=relu"]), 0.0);
    assert_near(opened.change(&["insert kernel probe 200us on stream 9 after kernel=relu"]), 160.0 + 200.0 - 313.0);
    // Two on one stream run one after the other: 160…300 and 300 + 140, though relu_back ends at 201.
    let twice = [
        "insert kernel a 140us on stream 9 after kernel=relu",
        "insert kernel b 140us on stream 9 after kernel=relu_back",
    ];
    assert_near(opened.change(&twice), 160.0 + 140.0 + 140.0 - 313.0);
}

#[test]
fn an_operator_inserted_like_another_takes_what_that_one_took() {
    let opened = training().open();
    let insert = "insert aten::relu after name=aten::mm like name=aten::relu";
    assert_near(opened.change(&[insert]), 51.0);
    // It is found by its own name, not by that of the operator that it follows.
    assert_near(opened.change(&[insert, "scale name=aten::relu & predicted x3"]), 51.0 + 100.0);
    // Half as much of its kernel, and of the 7 µs before that is launched.
    assert_near(opened.change(&[insert, "scale name=aten::mm x1.5"]), 51.0 + 50.0 + 3.5);
    assert_near(opened.change(&[insert, "remove name=aten::relu & predicted"]), 0.0);
    let left = opened.resolve(&[insert, "remove name=aten::relu & predicted & kind=kernel"]);
    assert!(left.added.is_empty(), "its launch and host time go with it");
    // It follows the arguments that it was made like.
    let grown = opened.resolve(&[insert, "resize-op name=aten::relu 67108864->134217728"]);
    let kernel = grown.added.iter().find(|added| added.work.is_some()).unwrap();
    let time = kernel.prediction.duration.0 as f64 / 1e3;
    assert_near(time, opened.kernel(&["resize-op name=aten::relu 67108864->134217728"], "relu"));
}

#[test]
fn a_replaced_operator_is_found_by_its_new_name() {
    let opened = training().open();
    let replace = "replace name=aten::relu with aten::gelu";
    let time = opened.time(&[replace]);
    assert!(opened.time(&[replace, "scale name=aten::gelu & kind=kernel x3"]) > time + 50.0);
    assert_near(opened.time(&[replace, "scale name=aten::relu & kind=kernel x3"]), time);
}

#[test]
fn a_branch_runs_beside_what_does_not_need_it() {
    let opened = training().open();
    // relu 109…159 beside relu_back 110…150 and gemm_back 151…231; update after both: 232…262.
    assert_near(opened.change(&["parallelize kernel=relu until phase=optimizer"]), -51.0);
    // A branch longer than the rest holds the update back: 109 + 250, then 30.
    let long = ["scale kernel=relu x5", "parallelize kernel=relu until phase=optimizer"];
    assert_near(opened.time(&long), 109.0 + 250.0 + 30.0);
    // Added kernels are branches like others.
    let probe = ["insert kernel probe 60us after kernel=relu", "parallelize kernel=probe until phase=optimizer"];
    assert_near(opened.change(&probe), 0.0);
}

#[test]
fn what_is_reordered_on_the_host_starts_earlier_by_what_it_overtakes() {
    let mut made = Made::default();
    made.think("aten::think", 100.0);
    made.run(&op("aten::mm", "gemm", 200.0)).step(1, 0.0);
    let opened = made.open();
    assert_near(opened.time(&[]), 309.0);
    assert_near(opened.time(&["reorder name=aten::mm before name=aten::think"]), 209.0);
}

#[test]
fn what_is_reordered_on_a_stream_lets_what_waits_for_it_start() {
    let mut made = Made::default();
    made.run(&op("aten::mm", "gemm", 100.0));
    made.run(&op("aten::cat", "cat", 20.0));
    made.wait(STREAM, 9);
    made.run(&Op { stream: 9, ..op("aten::copy_", "side", 60.0) });
    made.run(&op("aten::mul", "mul", 30.0)).step(1, 0.0);
    let opened = made.open();
    // gemm 9…109, cat 110…130, side 130…190, mul 131…161; the launches of mm and cat take 20 µs.
    assert_near(opened.time(&[]), 190.0);
    // cat 19…39, side 41…101 (its launch ends at 39), gemm 40…140, mul 141…171.
    assert_near(opened.time(&["reorder kernel=cat before kernel=gemm"]), 171.0);
}

#[test]
fn a_branch_of_the_step_after_does_not_hold_up_the_end_of_a_step() {
    let mut made = Made::default();
    for number in 1..4 {
        let start = made.host;
        made.run(&op("aten::mm", "gemm", 300.0));
        made.run(&op("aten::cat", "cat", 20.0)).step(number, start);
    }
    let opened = made.open();
    assert!(
        opened.time(&["parallelize kernel=cat"]) <= opened.time(&[]),
        "{}",
        opened.time(&["parallelize kernel=cat"])
    );
}

#[test]
fn what_is_launched_once_its_stream_was_waited_for_does_not_come_before_what_was_waited_for() {
    let mut made = Made::default();
    made.run(&op("aten::mm", "gemm", 100.0));
    made.synchronise();
    made.run(&op("aten::cat", "cat", 20.0)).step(1, 0.0);
    let opened = made.open();
    let edit = "reorder kernel=cat before kernel=gemm";
    assert_near(opened.change(&[edit]), 0.0);
    let said = opened.resolve(&[edit]).reports[0].lines();
    assert!(said.iter().any(|line| line.contains("wait for what they would come before")), "{said:?}");
}

#[test]
fn resized_and_replaced_operators_take_the_ratio_of_their_bytes() {
    let opened = training().open();
    let grown = "resize-op name=aten::relu 67108864->134217728";
    let ratio = opened.kernel(&[grown], "relu") / 50.0;
    assert!((ratio - 2.0).abs() < 0.1, "{ratio}: twice the elements move twice the bytes");
    assert_near(opened.change(&[grown]), 50.0 * (ratio - 1.0));
    let mut made = Made::default();
    made.run(&Op { dims: &[&[1 << 26], &[1 << 26]], ..op("aten::add", "add", 600.0) }).step(1, 0.0);
    let opened = made.open();
    let ratio = opened.kernel(&["replace name=aten::add with aten::relu"], "add") / 600.0;
    assert!((ratio - 2.0 / 3.0).abs() < 0.04, "{ratio}: two of three tensors are moved");
    assert_near(opened.change(&["replace name=aten::add with aten::relu"]), 600.0 * (ratio - 1.0));
}

#[test]
fn a_fused_chain_moves_only_the_bytes_of_its_ends() {
    let mut made = Made::default();
    for (name, kernel) in [("aten::relu", "relu"), ("aten::sigmoid", "sigmoid"), ("aten::tanh", "tanh")] {
        made.run(&Op { dims: BIG, ..op(name, kernel, 400.0) });
    }
    made.run(&op("aten::mm", "gemm", 100.0)).step(1, 0.0);
    let opened = made.open();
    let time = opened.kernel(&["fuse family=elementwise"], "relu");
    assert!((time - 400.0).abs() < 40.0, "{time}: one read and one write of three each");
    // Two kernels with their gaps go.
    assert_near(opened.change(&["fuse family=elementwise"]), (time - 1200.0) - 2.0);
    // A kernel that an earlier step added is fused too: four reads and writes become one.
    let with = ["insert aten::relu after name=aten::tanh like name=aten::relu", "fuse family=elementwise"];
    let resolved = opened.resolve(&with);
    let fused: Vec<_> = resolved.added.iter().filter(|added| added.work.is_some()).collect();
    assert_eq!(fused.len(), 1);
    let time = fused[0].prediction.duration.0 as f64 / 1e3;
    assert!((time - 400.0).abs() < 40.0, "{time}");
    assert_near(opened.change(&with), time - 1202.0);
}

#[test]
fn reports_count_the_tasks_of_one_step() {
    let mut made = Made::default();
    for number in 1..=2 {
        let start = made.host;
        made.run(&op("aten::relu", "relu", 100.0)).step(number, start);
    }
    let report = made.open().resolve(&["scale kernel=relu x2"]).reports.remove(0);
    // The kernel of the step before shares the device with the chosen one.
    assert_eq!((report.changed, report.summary.as_str()), (2, "1 task ×2"));
}

#[test]
fn updates_become_one_launch() {
    let mut made = Made::default();
    made.run(&op("aten::mm", "gemm", 10.0));
    let start = made.host;
    for _ in 0..3 {
        made.run(&Op { rest: 33.0, dims: &[&[1 << 20], &[1 << 20]], ..op("aten::add_", "update", 3.0) });
    }
    made.annotate("Optimizer.step#SGD.step", start).step(1, 0.0);
    let opened = made.open();
    // Bound by the host: three updates of 40 µs, of which one stays.
    assert_near(opened.time(&[]), 130.0);
    assert_near(opened.time(&["fuse-optimizer"]), 50.0);
    assert!(opened.kernel(&["fuse-optimizer"], "update") <= 10.0);
}

#[test]
fn a_graph_takes_one_launch_and_leaves_no_host_time_between() {
    let mut made = Made::default();
    for _ in 0..4 {
        made.run(&Op { rest: 13.0, ..op("aten::mm", "gemm", 3.0) });
    }
    made.step(1, 0.0);
    let opened = made.open();
    assert_near(opened.time(&[]), 80.0);
    // 2 before, 10 + 4 · 0.05 for the launch, 2 to the device; 4 · 3 with 3 gaps of 0.6 beside the 13 after the last call.
    let expected = 2.0 + 10.2 + 2.0 + 12.0;
    let got = opened.time(&["cuda-graph"]);
    assert!((expected..=expected + 1.81).contains(&got), "{got}");
}

#[test]
fn a_wait_that_nothing_needs_is_gone() {
    let mut made = Made::default();
    made.run(&op("aten::mm", "a", 100.0)).synchronise();
    made.run(&op("aten::mm", "b", 100.0)).step(1, 0.0);
    let opened = made.open();
    // a 9…109, the call returns at 110, b 119…219; without the wait b follows a, and no gap is known: 109…209.
    assert_near(opened.time(&[]), 219.0);
    assert_near(opened.time(&["remove-sync"]), 209.0);
}

#[test]
fn the_next_input_is_copied_while_this_step_computes() {
    let mut made = Made::default();
    for step in 0..6 {
        let start = made.host;
        made.copy(30.0);
        made.run(&op("aten::mm", "gemm", 100.0)).step(step, start);
    }
    let opened = made.open();
    // Bound by the device: 30 + 1 + 100 + 1; the copies go beside.
    assert_near(opened.time(&[]), 132.0);
    assert_near(opened.time(&["prefetch-input"]), 101.0);
    // With half of the computation it is bound by the host and the copies.
    assert_near(opened.time(&["scale kind=kernel x0", "prefetch-input"]), 30.0);
}

#[test]
fn batches_are_accumulated_before_one_update() {
    let opened = training().open();
    // Forward and backward once more, with their gaps: 100 + 50 + 40 + 80 + 4.
    assert_near(opened.change(&["accumulate 2"]), 274.0);
    assert_near(opened.change(&["accumulate 3"]), 2.0 * 274.0);
    // What earlier steps added is repeated, and what repeats is seen by later steps.
    assert_near(opened.change(&["insert kernel probe 9us after kernel=relu", "accumulate 2"]), 274.0 + 2.0 * 10.0);
    assert_near(opened.change(&["accumulate 2", "scale kernel=relu x2"]), 274.0 + 2.0 * 50.0);
    let grown = "resize-op name=aten::relu 67108864->134217728";
    let more = opened.kernel(&[grown], "relu") - 50.0;
    assert_near(opened.change(&["accumulate 2", grown]), 274.0 + 2.0 * more);
    // What waits across a task that was taken out waits in every batch.
    let removed = opened.change(&["remove kernel=relu", "accumulate 2"]);
    assert_near(removed, opened.change(&["accumulate 2", "remove kernel=relu"]));
}

/// What hooks add to the 7 µs of the host ahead of the first kernel.
const HOOKS: f64 = 0.6 * 7.0;

#[test]
fn a_checkpoint_runs_again_before_its_gradient() {
    let opened = training().open();
    assert_near(opened.change(&["checkpoint name=aten::relu"]), 51.0);
    assert_near(opened.change(&["checkpoint phase=forward segments=1"]), 152.0 + HOOKS);
    // Of two parts, mm and relu, the last is not run again.
    assert_near(opened.change(&["checkpoint phase=forward"]), 101.0 + HOOKS);
    assert_near(opened.change(&["checkpoint name=aten::relu", "scale kernel=relu x2"]), 151.0);
    // What runs again already does so once, whoever asks for it.
    let twice = ["checkpoint name=aten::relu", "checkpoint name=aten::relu"];
    assert_near(opened.change(&twice), 51.0);
    assert!(opened.resolve(&twice).reports[1].effects.iter().any(|said| said.text.contains("runs again already")));
    // Nor does the last part, which the first step kept.
    let twice = ["checkpoint phase=forward"; 2];
    assert_near(opened.change(&twice), 101.0 + HOOKS);
    assert!(!opened.resolve(&twice).reports[1].effects.is_empty() && opened.resolve(&twice).reports[1].changed == 0);
}

/// Sixteen equal layers and their gradients: layer `n` begins at 10 n µs, its gradient at 160 + 10 (15 − n). The result of each, a
/// MiB, goes with the gradient of the next layer, that of the last with its own.
fn chain() -> Opened {
    const LAYERS: u32 = 16;
    let mut made = Made::default();
    for layer in 0..LAYERS {
        made.run(&Op { sequence: Some(layer), ..op("aten::mm", "gemm", 100.0) });
    }
    for layer in (0..LAYERS).rev() {
        made.run(&Op { sequence: Some(layer), ..op("MmBackward0", "gemm_back", 100.0) });
    }
    let opened = made.step(1, 0.0).open();
    let us = |time: u32| TimeNs(1000 * i64::from(time));
    let result = |layer: u32| Buffer {
        holds: Holds::Activations,
        bytes: Bytes(1 << 20),
        from: us(10 * layer + 1),
        until: us(160 + 10 * (LAYERS - 1 - (layer + 1).min(LAYERS - 1)) + 9),
        operator: None,
    };
    let results = (0..LAYERS).map(result).collect();
    let memory = RankMemory::new(MemorySource::Tensors, results, Vec::new());
    Opened { base: opened.base.with_memory(vec![Some(memory)]), ..opened }
}

#[test]
fn segments_of_equal_layers_keep_their_ends_and_one_of_them_whole() {
    let opened = chain();
    let peak = |lines: &[&str]| {
        let peak = opened.resolve(lines).memory[0].as_ref().unwrap().peak();
        (peak.bytes.0 >> 20, peak.at)
    };
    // All sixteen are there when the backward pass begins.
    assert_eq!(peak(&[]), (16, TimeNs(151_000)));
    // Four segments of four: three ends, and the last one whole, 2 √16 − 1. Twelve layers run again.
    assert_eq!(peak(&["checkpoint phase=forward"]), (7, TimeNs(151_000)));
    assert_near(opened.change(&["checkpoint phase=forward"]), 12.0 * 101.0 + HOOKS);
    let summary = &opened.resolve(&["checkpoint phase=forward"]).reports[0].summary;
    assert!(summary.contains("3 of 4 segments run again in 1.20 ms, keep 9.00 MiB less"), "{summary}");
    assert!(summary.contains("memory peak 16.00 MiB → 7.00 MiB"), "{summary}");
    // Ends before the last part and its layers: 1 + 8, 7 + 2, and 2 + 6 where sixteen layers make three parts of 5, 5 and 6.
    for (segments, expected) in [(2, 9), (8, 9), (3, 8)] {
        assert_eq!(peak(&[&format!("checkpoint phase=forward segments={segments}")]).0, expected, "{segments}");
    }
    // All at once comes back before the backward pass, and a layer alone keeps nothing but its result.
    for line in ["checkpoint phase=forward segments=1", "checkpoint phase=forward segments=16"] {
        assert_eq!(peak(&[line]).0, 16, "{line}");
    }
}

/// Four gradients of 100 µs, then two reductions of equal size on a stream of their own, then the update.
fn reduced_late() -> Made {
    let mut made = Made::default();
    for sequence in 0..4 {
        made.run(&Op { sequence: Some(sequence), ..op("MmBackward0", "gemm_back", 100.0) });
    }
    made.reduced()
}

#[test]
fn reductions_overlap_the_gradients_that_they_do_not_need() {
    let opened = reduced_late().open();
    // Gradients 9…412, reductions 412…562 and 563…713, update 713…743.
    assert_near(opened.time(&[]), 743.0);
    // Half of the gradients is there after the second kernel, at 210: 210…360. The rest at 412…562, update …592.
    assert_near(opened.time(&["overlap-comm"]), 592.0);
    // Kernels that an earlier step added in the backward pass count: of 600 µs, 300 have passed after the third.
    let probe = "insert kernel probe 50us after kernel=gemm_back";
    assert_near(opened.change(&[probe, "overlap-comm"]), 4.0 * 51.0 - 151.0);
}

#[test]
fn a_reduction_waits_for_the_gradients_that_were_recorded_before_it() {
    let mut made = Made::default();
    for sequence in 0..4 {
        made.run(&Op { sequence: Some(sequence), ..op("MmBackward0", "gemm_back", 100.0) });
        if sequence % 2 == 0 {
            let args = json!({"Input Dims": [[4 << 20]], "Input type": ["float"]});
            made.event("cpu_op", "torch::autograd::AccumulateGrad", (1, MAIN), (made.host, 2.0), &args);
            made.host += 2.0;
        }
    }
    let opened = made.reduced().open();
    assert_near(opened.time(&[]), 743.0);
    // Gradients 9…412. Reductions after the first, 109…259, and after the third, 311…461; update …491.
    assert_near(opened.time(&["overlap-comm"]), 491.0);
    let unhandled = &opened.resolve(&["overlap-comm"]).reports[0].lines();
    assert!(!unhandled.iter().any(|line| line.contains("evenly")), "{unhandled:?}");
}

#[test]
fn fewer_bytes_and_larger_buckets_take_the_links_time() {
    let opened = reduced_late().open();
    let reduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)";
    let halved = opened.kernel(&["compress-comm 2"], reduce);
    assert!((150.0..300.0).contains(&halved), "{halved}: half of the bytes, all of the latency");
    let packed = opened.resolve(&["compress-comm 2"]);
    let names: Vec<&str> = packed.added.iter().filter(|it| it.work.is_some()).map(|it| &*it.name).collect();
    assert_eq!(names, ["pack", "unpack", "pack", "unpack"]);
    let codec: f64 =
        packed.added.iter().filter(|it| it.work.is_some()).map(|it| it.prediction.duration.0 as f64 / 1e3).sum();
    assert!(codec > 4.0 * 24.0e6 / 2e12 * 1e6, "16 MiB are read and 8 written, and back, below 2 TB/s: {codec}");
    let change = opened.change(&["compress-comm 2"]);
    assert!(
        (change - (halved - 300.0 + codec)).abs() < 5.0,
        "{change}: but for gaps between kernels {}",
        halved + codec
    );
    // One bucket of 32 MiB takes no longer than two of 16; the gap before the second stays before both.
    let merged = opened.kernel(&["bucket-size 32"], reduce);
    assert!((240.0..=300.0).contains(&merged), "{merged}");
    assert_near(opened.change(&["bucket-size 32"]), merged - 300.0);
    assert_near(opened.change(&["bucket-size 31"]), 0.0);
}

#[test]
fn half_precision_casts_weights_and_the_activations_at_its_borders() {
    let mut made = Made::default();
    let rows: &[&[u64]] = &[&[8192, 4096], &[4096]];
    made.run(&Op { dims: rows, ..op("aten::native_layer_norm", "norm", 200.0) });
    made.run(&Op { dims: &[&[8192, 4096], &[4096, 4096]], ..op("aten::mm", "gemm", 3000.0) });
    made.run(&Op { dims: &[&[8192, 4096]], ..op("aten::relu", "relu", 200.0) });
    made.run(&Op { dims: &[&[8192, 4096]], ..op("aten::_softmax", "softmax", 200.0) });
    made.step(1, 0.0);
    let opened = made.open();
    let half = opened.resolve(&["mixed-precision bf16"]);
    let named = |name: &str| half.added.iter().filter(|added| *added.name == *name).collect::<Vec<_>>();
    // Norm → product and element-wise → softmax are borders; product → element-wise is none.
    let (narrowed, widened) = (named("cast activation to bf16"), named("cast activation to fp32"));
    assert_eq!((narrowed.len(), widened.len(), named("cast weight to bf16").len()), (1, 1, 1));
    assert_eq!(narrowed[0].work.as_ref().unwrap().bytes().0, 6 * 8192 * 4096);
    let kernel = |name: &str| opened.kernel(&["mixed-precision bf16"], name);
    assert!((kernel("norm") - 200.0).abs() < 0.01 && (kernel("softmax") - 200.0).abs() < 0.01);
    assert!((kernel("relu") / 100.0 - 1.0).abs() < 0.1, "half of the bytes");
    let gemm = kernel("gemm");
    assert!(gemm < 1000.0, "{gemm}: tensor cores");
    // The device decides: what the host does to cast is hidden.
    let casts = half.added.iter().filter(|added| added.work.is_some());
    let casts: f64 = casts.map(|added| added.prediction.duration.0 as f64 / 1e3).sum::<f64>();
    let expected = (gemm - 3000.0) + (kernel("relu") - 200.0) + casts + 3.0;
    assert_near(opened.change(&["mixed-precision bf16"]), expected);
    // Another batch keeps the narrow types, and casts grow with it.
    let twice = "resize-batch 16384 from 8192";
    let before = opened.change(&[twice, "mixed-precision bf16"]);
    assert_near(opened.change(&["mixed-precision bf16", twice]), before);
    assert_near(opened.change(&["mixed-precision bf16", "resize-batch 4096 from 8192", twice]), before);
}

#[test]
fn narrow_weights_help_products_that_wait_for_them_and_no_others() {
    let mut made = Made::default();
    made.run(&Op { dims: &[&[1, 4096], &[4096, 4096]], ..op("aten::mm", "token", 60.0) });
    made.run(&Op { dims: &[&[8192, 4096], &[4096, 4096]], ..op("aten::mm", "prompt", 30_000.0) });
    made.run(&Op { dims: &[&[64, 1, 4096], &[64, 4096, 512]], ..op("aten::bmm", "attend", 300.0) });
    made.step(1, 0.0);
    let opened = made.open();
    let with = |line: &str, kernel: &str| opened.kernel(&[line], kernel);
    let [byte, half] = ["quantize-weights int8", "quantize-weights int4"].map(|line| with(line, "token"));
    // Four times and eight times fewer bytes, beside what a kernel's start takes.
    assert!((15.0..27.0).contains(&byte) && (7.5..byte - 4.0).contains(&half), "{byte} {half}");
    for line in ["quantize-weights int8", "quantize-weights int4"] {
        assert!((with(line, "prompt") - 30_000.0).abs() < 0.01, "bound by arithmetic");
        assert!((with(line, "attend") - 300.0).abs() < 0.01, "no weight");
        assert!((with(&format!("{line} name~bmm"), "token") - 60.0).abs() < 0.01, "not selected");
    }
    let twice = opened.kernel(&["quantize-weights int4", "quantize-weights int8"], "token");
    assert!((twice - half).abs() < 0.01, "weights do not become wider");
    let larger = [
        ["quantize-weights int8", "resize-batch 16384 from 8192"],
        ["resize-batch 16384 from 8192", "quantize-weights int8"],
    ];
    let [one, other] = larger.map(|lines| opened.kernel(&lines, "prompt"));
    assert!((one - other).abs() < 0.01, "in any order");
}

#[test]
fn a_step_repeats_at_its_own_pace_whatever_the_step_before_left_to_do() {
    let mut made = Made::default();
    for step in 0..4 {
        let start = made.host;
        let (think, kernel) = if step % 2 == 0 { (100.0, 300.0) } else { (600.0, 10.0) };
        made.think("aten::item", think).run(&op("aten::mm", "gemm", kernel)).step(step, start);
    }
    let opened = made.open();
    // The window begins with the end of the long kernel before it, which shorter kernels bring forward.
    assert!(opened.time(&["scale kind=kernel x0.5"]) > opened.time(&[]) + 100.0);
    assert_near(opened.steady(&[]), 610.0);
    assert_near(opened.steady(&["scale kind=kernel x0.5"]), 610.0);
    // Only its own kernel counts, 100 times as long, and what lies between kernels.
    let long = opened.steady(&["scale kind=kernel x100"]);
    assert!((1_000.0..=1_002.0).contains(&long), "{long}");
}

#[test]
fn the_next_input_is_fetched_while_this_step_computes() {
    let mut made = Made::default();
    for step in 0..6 {
        let start = made.host;
        made.think("aten::stack", 400.0).annotate("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start);
        made.think("aten::item", 150.0).run(&op("aten::mm", "gemm", 100.0)).step(step, start);
    }
    let opened = made.open();
    assert_near(opened.steady(&[]), 560.0);
    assert_near(opened.steady(&["scale phase=data & kind=host x0"]), 160.0);
    // A thread of its own takes 400 for each.
    assert_near(opened.steady(&["prefetch-input"]), 400.0);
    assert_near(opened.steady(&["scale phase=data x0.25", "prefetch-input"]), 160.0);
}

#[test]
fn one_step_that_repeats_follows_its_own_end() {
    let mut made = Made::default();
    made.think("aten::item", 20.0).run(&op("aten::mm", "gemm", 100.0)).synchronise();
    let opened = made.open();
    // 20 and 2 + 5 before the launch, 2 to the device, 100, and 1 until the host goes on.
    assert_near(opened.steady(&[]), 130.0);
}

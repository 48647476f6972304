//! From where to where an iteration is measured, and how often it repeats: loops whose period is known by construction.

use retime::session::{Outcome, Timeline};
use retime_core::engine::{Loaded, Summary};
use retime_core::graph::{BuildOptions, IterationChoice};
use retime_core::scenario::{Scenario, parse_step};
use retime_core::trace::OpenOptions;
use retime_core::units::DurNs;

use crate::support::jobs::loaded;
use crate::support::{engine, sample, shared};

/// A loop of `count` iterations, each of which takes a millisecond from its start to that of the next.
struct Loop {
    events: Vec<String>,
    count: u32,
}

impl Loop {
    fn new(count: u32) -> Self {
        Self { events: Vec::new(), count }
    }

    /// In each iteration, as long after its start as said, in µs.
    fn host(mut self, category: &str, name: &str, thread: u32, (from, dur): (u32, u32)) -> Self {
        for number in 0..self.count {
            let name = if name == "ProfilerStep" { format!("ProfilerStep#{number}") } else { name.to_owned() };
            let ts = 1_000 * number + from;
            self.events.push(format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{thread},"ts":{ts},"dur":{dur}}}"#
            ));
        }
        self
    }

    /// An operator of 50 µs that launches a kernel of `dur` µs.
    fn kernel(mut self, name: &str, thread: u32, from: u32, dur: u32) -> Self {
        for number in 0..self.count {
            let (correlation, ts) = (self.events.len() + 1, 1_000 * number + from);
            let args = format!(r#""args":{{"correlation":{correlation},"stream":7,"device":0}}"#);
            let (call, start) = (ts + 5, ts + 20);
            self.events.push(format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":{thread},"ts":{call},"dur":10,{args}}}"#
            ));
            self.events.push(format!(
                r#"{{"ph":"X","cat":"kernel","name":"kernel","pid":0,"tid":7,"ts":{start},"dur":{dur},{args}}}"#
            ));
        }
        self.host("cpu_op", name, thread, (from, 50))
    }

    fn summary(&self) -> Summary {
        self.loaded().replay.summary.clone()
    }

    fn loaded(&self) -> Loaded {
        let device = r#""deviceProperties":[{"id":0,"name":"NVIDIA H100 80GB HBM3"}]"#;
        let text = format!(r#"{{{device},"traceEvents":[{}]}}"#, self.events.join(","));
        engine().load_bytes(text.as_bytes(), "loop.json", &BuildOptions::default()).unwrap()
    }
}

fn assert_repeats_every_millisecond(repeated: &Loop) {
    let summary = repeated.summary();
    let periods = [summary.measured_ns, summary.simulated_ns, summary.base_steady_ns, summary.steady_ns];
    assert!(periods.iter().all(|period| (period.0 - 1_000_000).abs() <= 1_000), "{periods:?}");
}

#[test]
fn what_is_between_two_steps_is_of_the_later() {
    let step = || Loop::new(6).host("user_annotation", "ProfilerStep", 1, (0, 600)).kernel("aten::mm", 1, 10, 40);
    assert_repeats_every_millisecond(&step());
    let between = step().kernel("aten::relu", 1, 700, 100);
    assert_repeats_every_millisecond(&between);
    assert_eq!(between.summary().gpu_active_ns.0, 140_000, "both kernels");
}

#[test]
fn a_thread_that_hands_over_as_a_step_ends_does_so_once() {
    for last in [850, 880, 900] {
        let step = Loop::new(6).host("user_annotation", "ProfilerStep", 1, (0, 1_000)).kernel("aten::mm", 1, 10, 100);
        let backward = "autograd::engine::evaluate_function: MmBackward0";
        let both = [130, 250, 370].into_iter().fold(step, |step, at| step.kernel("aten::mm", 1, at, 100));
        let both = [510, 630, 750, last].into_iter().fold(both, |step, at| step.kernel(backward, 2, at, 60));
        assert_repeats_every_millisecond(&both);
    }
}

/// The host takes as long as ever for a step of which the device's part was made short.
#[test]
fn a_step_that_queued_behind_work_from_before_the_recording_repeats_at_once() {
    let engine = engine();
    let trace = sample("h200/resnet50-b32-fp32-cuda.kineto.json.gz");
    let of = |index: usize, lines: &[&str]| {
        let build = BuildOptions { iteration: IterationChoice::Index(index) };
        let loaded = engine.load(std::slice::from_ref(&trace), &OpenOptions::default(), &build).unwrap().remove(0);
        let steps = lines.iter().map(|line| parse_step(line).unwrap()).collect();
        engine.evaluate(&loaded, &Scenario { steps, ..Scenario::default() }, 0).summary.steady_ns.0 as f64 / 1e6
    };
    // Un-profiled 38.4 ms; the host's part of the second step takes 34.3 ms.
    for (lines, ms) in [(&[][..], 38.4), (&["scale kind=kernel x0.2"][..], 34.3)] {
        for index in 0..2 {
            let found = of(index, lines);
            assert!((found / ms - 1.0).abs() < 0.03, "{index} {lines:?}: {found}");
        }
    }
}

/// What the host hides may take longer than predicted, and then decides.
#[test]
fn a_band_reaches_as_far_as_what_one_stream_may_take() {
    let mut repeated =
        Loop::new(4).host("user_annotation", "ProfilerStep", 1, (0, 1_000)).kernel("aten::mm", 1, 10, 400);
    let shapes = r#""args":{"Input Dims":[[4096,1024],[1024,1024]],"Input type":["float","float"]},"name":"aten::mm""#;
    repeated.events.iter_mut().for_each(|event| *event = event.replace(r#""name":"aten::mm""#, shapes));
    let loaded = repeated.loaded();
    let of = |line: &str| {
        let scenario = Scenario { steps: vec![parse_step(line).unwrap()], ..Scenario::default() };
        engine().evaluate(&loaded, &scenario, 0).summary
    };
    let (hidden, near) = (of("resize-op name~aten::mm 4096->4608"), of("resize-op name~aten::mm 4096->9728"));
    println!("{hidden:?} {near:?}");
    assert_eq!(hidden.steady_ns, near.steady_ns, "the host decides");
    assert!(near.kernel_only_ns < near.steady_ns && near.steady_ns < near.steady_band.high_ns);
    assert!(hidden.steady_band.high_ns < near.steady_band.high_ns);
}

/// Micro-batches, each fourth of which updates the parameters: a forward pass, a gradient for each of as many equal layers, and what is
/// told to the profiler as a step of such a length in µs (none where that is 0).
fn micro_batches(layers: u32, (step, forward_each): (u32, bool)) -> Loop {
    let mut repeated = Loop::new(12);
    for number in 0..12 {
        let (at, updates) = (1_000 * number, number % 4 == 3);
        let mut host = |category: &str, name: &str, from: u32, dur: u32, args: &str| {
            repeated.events.push(format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{},"dur":{dur},"args":{{{args}}}}}"#,
                at + from
            ));
        };
        if step > 0 && at % step == 0 {
            host("user_annotation", &format!("ProfilerStep#{}", at / step), 0, step, "");
        }
        let calls = if forward_each || number % 4 == 0 { layers } else { 0 };
        for layer in 0..calls {
            let shapes = r#""Input Dims":[[64,512],[512,512]],"Input type":["float","float"]"#;
            host("cpu_op", "aten::mm", 10 + 20 * layer, 15, shapes);
        }
        for layer in 0..layers {
            let gradient = r#""Input Dims":[[512,512]],"Input type":["float"]"#;
            let from = 100 + 60 * layer;
            host("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", from, 50, "");
            host("cpu_op", "torch::autograd::AccumulateGrad", from + 10, 30, gradient);
        }
        if updates {
            host("user_annotation", "Optimizer.step#SGD.step", 400, 500, "");
            (0..9).for_each(|call| host("cpu_op", "aten::_foreach_add_", 410 + 50 * call, 30, ""));
        }
    }
    let device = if forward_each { "aten::relu" } else { "aten::_foreach_relu" };
    let mut repeated = repeated.kernel(device, 1, 910, 80);
    let shapes = format!(r#""args":{{"Input Dims":[[64,512]],"Input type":["float"]}},"name":"{device}""#);
    repeated.events.iter_mut().for_each(|event| *event = event.replace(&format!(r#""name":"{device}""#), &shapes));
    repeated
}

/// Time of an iteration in ms, its batches, and how large parameters and gradients are in MiB.
fn accumulated(repeated: &Loop) -> (i64, u32, [u64; 2]) {
    let summary = repeated.summary();
    let kinds = summary.memory.unwrap().kinds;
    (summary.measured_ns.0 / 1_000_000, summary.repeats, [kinds.parameters, kinds.gradients].map(|bytes| bytes.0 >> 20))
}

#[test]
fn micro_batches_share_one_set_of_parameters_however_they_are_told_to_the_profiler() {
    for (step, told) in [(1_000, "a step each"), (4_000, "one step"), (0, "nothing")] {
        assert_eq!(accumulated(&micro_batches(1, (step, true))), (4, 4, [1, 1]), "{told}");
        assert_eq!(accumulated(&micro_batches(2, (step, true))), (4, 4, [2, 2]), "{told}");
    }
}

#[test]
fn equal_layers_of_one_pass_are_no_micro_batches() {
    assert_eq!(accumulated(&micro_batches(1, (4_000, false))), (4, 1, [4, 4]));
}

/// Steps of passes through one layer, of so many samples (none where that is 0), with an update behind the fourth.
fn passes(batches: [u32; 4]) -> Loop {
    let mut repeated = Loop::new(12);
    for number in 0..12 {
        let (at, batch) = (1_000 * number, batches[number as usize % 4]);
        let mut event = |category: &str, name: &str, thread: u32, from: u32, dur: u32, args: &str| {
            repeated.events.push(format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{thread},"ts":{},"dur":{dur},"args":{{{args}}}}}"#,
                at + from
            ));
        };
        let dims = |tensors: String| {
            let types = vec![r#""float""#; tensors.matches('[').count()].join(",");
            format!(r#""Input Dims":[{tensors}],"Input type":[{types}]"#)
        };
        if number % 4 == 0 {
            event("user_annotation", &format!("ProfilerStep#{}", number / 4), 1, 0, 4_000, "");
        }
        if number % 4 == 3 {
            event("user_annotation", "Optimizer.step#Adam.step", 1, 600, 300, "");
            event("cpu_op", "aten::_foreach_add_", 1, 610, 200, "");
        }
        if batch == 0 {
            continue;
        }
        event("cpu_op", "aten::linear", 1, 10, 60, &dims(format!("[{batch},1024],[1024,1024],[1024]")));
        event("cpu_op", "aten::addmm", 1, 15, 50, &dims(format!("[1024],[{batch},1024],[1024,1024]")));
        let launch = format!(r#""correlation":{},"stream":7,"device":0"#, number + 1);
        event("cuda_runtime", "cudaLaunchKernel", 1, 20, 10, &launch);
        event("kernel", "sgemm", 7, 40, 300, &launch);
        event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 1, 400, 60, "");
        event("cpu_op", "aten::mm", 1, 405, 20, &dims(format!("[1024,{batch}],[{batch},1024]")));
        event("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 1, 500, 50, "");
        event("cpu_op", "torch::autograd::AccumulateGrad", 1, 510, 30, &dims("[1024,1024]".to_owned()));
    }
    repeated
}

#[test]
fn batches_of_unlike_size_count_each_for_itself_and_leave_parameters_alone() {
    let loaded = passes([64, 64, 64, 32]).loaded();
    let of = |lines: &[&str]| {
        let steps = lines.iter().map(|line| parse_step(line).unwrap()).collect();
        let summary = engine().evaluate(&loaded, &Scenario { steps, ..Scenario::default() }, 0).summary;
        (summary.repeats, summary.samples(), summary.memory.unwrap().kinds.parameters.0 >> 20)
    };
    assert_eq!(of(&[]), (4, 224.0, 4));
    assert_eq!(of(&["resize-batch 128"]), (4, 448.0, 4));
    assert_eq!(of(&["resize-batch 32"]), (4, 112.0, 4));
    let told = loaded.diagnostics().sorted().into_iter().find(|found| found.code == "unlike-batches").cloned();
    assert!(told.unwrap().message.contains("32 to 64 samples: throughput counts 224"));
}

#[test]
fn an_iteration_of_several_recorded_steps_is_one_step_in_its_export() {
    let loaded = micro_batches(1, (1_000, true)).loaded();
    let outcome = engine().evaluate(&loaded, &Scenario::default(), 0);
    let bytes = Timeline::new(&outcome).chrome(&loaded).unwrap();
    let again = engine().load_bytes(&bytes, "again.json", &BuildOptions::default()).unwrap();
    let of = |loaded: &Loaded| {
        let summary = loaded.replay.summary.clone();
        (summary.repeats, summary.steady_ns, summary.memory.unwrap().kinds, summary.steady.basis)
    };
    assert_eq!(of(&again), of(&loaded));
    assert_eq!(again.graph.ranks[0].iteration, "ProfilerStep#7");
}

#[test]
fn ranks_on_unlike_numbers_of_batches_count_theirs_and_hold_one_set_of_parameters_each() {
    let folder = tempfile::tempdir().unwrap();
    let of_rank = |(rank, batches): (usize, [u32; 4])| {
        let path = folder.path().join(format!("rank{rank}.json"));
        let events = passes(batches).events.join(",");
        let info = format!(r#""distributedInfo":{{"rank":{rank},"world_size":2}}"#);
        std::fs::write(&path, format!(r#"{{{info},"traceEvents":[{events}]}}"#)).unwrap();
        path
    };
    let summary = |ranks: [[u32; 4]; 2]| {
        let paths: Vec<_> = ranks.into_iter().enumerate().map(of_rank).collect();
        let loaded = engine().load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap().remove(0);
        let summary = loaded.replay.summary.clone();
        let parameters = summary.memory.as_ref().unwrap().ranks.iter().map(|rank| rank.kinds.parameters.0 >> 20);
        (summary.job_samples(), parameters.collect::<Vec<u64>>())
    };
    assert_eq!(summary([[64; 4], [64, 64, 0, 0]]), (384.0, vec![4, 4]));
    assert_eq!(summary([[64, 0, 0, 0], [64; 4]]), (320.0, vec![4, 4]));
    assert_eq!(summary([[64; 4], [32; 4]]), (384.0, vec![4, 4]));
    assert_eq!(summary([[64; 4]; 2]), (512.0, vec![4]), "one stands for both");
}

#[test]
fn work_on_a_stream_of_its_own_takes_its_time_in_every_step() {
    let count = |outcome: &Outcome| {
        let inserted = outcome.resolved.added.iter().filter(|added| &*added.name == "k");
        inserted.count() as i64
    };
    for (trace, after) in [
        ("h200/mlp-b4096-fp32-cuda.kineto.json.gz", "name~addmm"),
        ("h200/resnet50-b32-fp32-cuda.kineto.json.gz", "family=conv"),
        ("h100/mlp-b4096-tf32-cuda.kineto.json.gz", "name~addmm"),
        ("h200/mlp-graph1-b4096-fp32-cuda.kineto.json.gz", "family=gemm & kind=kernel"),
        ("h200/mlp-b16384-bf16-cuda.kineto.json.gz", "family=optimizer"),
    ] {
        let engine = engine();
        let loaded = loaded(&[sample(trace)]);
        let line = format!("insert kernel k 1ms on stream 99 after {after}");
        let outcome = engine.evaluate(loaded, &Scenario::parse([line.as_str()]).unwrap(), 0);
        let (summary, each) = (&outcome.summary, DurNs(1_000_000));
        let added = summary.device_time.added_ns;
        assert!(added >= each && added.0 % each.0 == 0 && added.0 <= count(&outcome) * each.0, "{trace}: {added}");
        assert!(summary.steady_ns >= added && summary.simulated_ns >= added, "{trace}: {} {added}", summary.steady_ns);
        assert!(summary.steady_ns <= added + summary.base_steady_ns, "{trace}: {} {added}", summary.steady_ns);
    }
}

#[test]
fn a_window_that_holds_other_work_than_the_step_says_so_and_no_other() {
    let engine = engine();
    let note = |trace: &str, line: &str| {
        let loaded = loaded(&[sample(trace)]);
        let scenario = Scenario::parse([line].into_iter().filter(|line| !line.is_empty())).unwrap();
        let summary = engine.evaluate(loaded, &scenario, 0).summary;
        summary.window_note().filter(|_| summary.has_other_work)
    };
    let (gpt2, mlp) =
        ("h200/gpt2-small-checkpoint1-b8-fp32-cuda.kineto.json.gz", "h200/mlp-b4096-fp32-cuda.kineto.json.gz");
    let moved = note(gpt2, "insert kernel k 1ms on stream 99 after family=optimizer");
    assert!(moved.as_ref().is_some_and(|note| note.contains("has 163.9 ms")), "{moved:?}");
    assert!(note(mlp, "parallelize family=gemm").is_some());
    for line in ["", "scale kind=kernel x4", "scale kind=host x2", "resize-batch 64", "swap-gpu H100", "accumulate 4"] {
        for trace in [gpt2, mlp, "dlrm-ddp-b128-fp32-cpu-ws2-r0.kineto.json.gz"] {
            assert_eq!(note(trace, line), None, "{trace}: {line}");
        }
    }
}

#[test]
fn a_step_that_takes_as_long_in_a_row_as_behind_its_backlog_is_compared_by_the_row() {
    let Some(path) = shared("hip-graph-piecewise-mi300/graph_execution.json.gz") else { return };
    let loaded = loaded(&[path]);
    let scenario = Scenario::parse(["scale kind=kernel x0.1"]).unwrap();
    let summary = engine().evaluate(loaded, &scenario, 0).summary;
    let (name, before, after) = summary.both_named().unwrap();
    assert_eq!((name, after), ("recorded", summary.simulated_ns));
    assert!((before - summary.base_steady_ns).abs() < before.scale(0.01), "{before}");
    let (host, window) = (summary.steady_ns, summary.simulated_ns);
    assert!(host > window.scale(1.5), "the host takes {host}, the window {window}");
}

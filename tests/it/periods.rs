//! From where to where an iteration is measured, and how often it repeats: loops whose period is known by construction.

use retime_core::engine::{Loaded, Summary};
use retime_core::graph::{BuildOptions, IterationChoice};
use retime_core::scenario::{Scenario, parse_step};
use retime_core::trace::OpenOptions;

use crate::support::{engine, sample};

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

/// Four micro-batches, the last of which updates the parameters, told to the profiler as four steps.
#[test]
fn micro_batches_that_take_turns_share_one_set_of_parameters() {
    let mut repeated = Loop::new(12);
    for number in 0..12 {
        let (at, updates) = (1_000 * number, number % 4 == 3);
        let mut host = |category: &str, name: &str, from: u32, dur: u32, args: &str| {
            repeated.events.push(format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{},"dur":{dur},"args":{{{args}}}}}"#,
                at + from
            ));
        };
        host("user_annotation", &format!("ProfilerStep#{number}"), 0, 1_000, "");
        host("cpu_op", "aten::mm", 10, 30, r#""Input Dims":[[64,512],[512,512]],"Input type":["float","float"]"#);
        let gradient = r#""Input Dims":[[512,512]],"Input type":["float"]"#;
        host("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 100, 50, "");
        host("cpu_op", "torch::autograd::AccumulateGrad", 110, 30, gradient);
        (0..if updates { 9 } else { 0 }).for_each(|call| host("cpu_op", "aten::add_", 200 + 50 * call, 30, ""));
    }
    let mut repeated = repeated.kernel("aten::relu", 1, 800, 100);
    let shapes = r#""args":{"Input Dims":[[64,512]],"Input type":["float"]},"name":"aten::relu""#;
    repeated.events.iter_mut().for_each(|event| *event = event.replace(r#""name":"aten::relu""#, shapes));
    let summary = repeated.summary();
    assert_eq!((summary.measured_ns.0, summary.repeats), (4_000_000, 4));
    let kinds = summary.memory.unwrap().kinds;
    assert_eq!(
        (kinds.parameters.0, kinds.gradients.0),
        (1 << 20, 1 << 20),
        "one parameter and its gradient: {kinds:?}"
    );
}

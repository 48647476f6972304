//! Batches between updates follow one another on every lane, whatever put their work there and whatever ran before the step.

use serde_json::Value;

use crate::support::program::json;
use crate::support::sample;

fn simulated(trace: &str, steps: &[&str]) -> Value {
    let trace = sample(trace).display().to_string();
    let steps = steps.iter().flat_map(|step| ["--step", step]);
    json(&["simulate", &trace].into_iter().chain(steps).collect::<Vec<_>>())
}

fn ns(answer: &Value, figure: &str) -> i64 {
    answer[figure].as_i64().unwrap()
}

/// What one to four batches take, by figure.
fn of_batches(trace: &str, before: &[&str], figures: &[&str]) -> Vec<Vec<i64>> {
    let of = |batches: u32| {
        let own = format!("accumulate {batches}");
        let answer = simulated(trace, &[before, &[own.as_str()]].concat());
        figures.iter().map(|figure| ns(&answer, figure)).collect()
    };
    (1..=4).map(of).collect()
}

/// Whether the second batch adds what the others do, but for what adds the gradients up, which runs once less than there are batches.
fn each_adds_as_much(of_batches: &[Vec<i64>]) -> bool {
    let added = |figure: usize| of_batches.windows(2).map(|pair| pair[1][figure] - pair[0][figure]).collect::<Vec<_>>();
    let is_alike = |added: Vec<i64>| {
        let [least, most] = [added.iter().min(), added.iter().max()].map(|end| *end.unwrap() as f64);
        most / least < 1.01
    };
    (0..of_batches[0].len()).map(added).all(is_alike)
}

#[test]
fn batches_of_a_run_placed_on_a_cpu_take_turns() {
    let trace = "dlrm-ddp-b256-fp32-cpu.kineto.json.gz";
    for cpu in ["Xeon-Gold-6230", "Xeon-E5-2680-v3"] {
        let placed = format!("place-on {cpu}");
        let of = of_batches(trace, &[&placed], &["simulated_ns", "kernel_only_ns"]);
        assert!(each_adds_as_much(&of), "{cpu}: {of:?}");
        assert!(of.iter().all(|of| of[0] >= of[1]), "one thread computes all: {of:?}");
        assert!(of[3][1] > 3 * of[0][1], "{of:?}");
    }
}

#[test]
fn batches_of_a_step_that_queued_follow_one_another_behind_what_it_queued_behind() {
    for trace in ["h200/mlp-b4096-fp32-cuda.kineto.json.gz", "h200/resnet50-b16-fp32-cuda.kineto.json.gz"] {
        let of = of_batches(trace, &[], &["steady_ns", "simulated_ns", "gpu_active_ns", "kernel_only_ns"]);
        assert!(each_adds_as_much(&of), "{trace}: {of:?}");
    }
}

#[test]
fn exported_batches_of_a_step_that_queued_share_no_stream_at_any_time() {
    let trace = sample("h200/mlp-b4096-fp32-cuda.kineto.json.gz").display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("two.json").display().to_string();
    json(&["export", &trace, "--format", "chrome", "--step", "accumulate 2", "-o", &out]);
    let text = std::fs::read_to_string(&out).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    let events = written["traceEvents"].as_array().unwrap();
    let us = |event: &Value, field: &str| event[field].as_f64().unwrap();
    let mut kernels: Vec<(f64, f64)> = events
        .iter()
        .filter(|event| ["kernel", "gpu_memcpy", "gpu_memset"].contains(&event["cat"].as_str().unwrap_or_default()))
        .map(|event| (us(event, "ts"), us(event, "ts") + us(event, "dur")))
        .collect();
    kernels.sort_by(|one, other| one.partial_cmp(other).unwrap());
    assert!(kernels.len() > 60);
    assert!(kernels.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-3), "two at once on one stream");
}

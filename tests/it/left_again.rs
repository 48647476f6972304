//! Edits on top of edits that later ones take back, or that a second trace tells more of: none leaves a trace, none is lost.

use petgraph::visit::EdgeRef;
use retime_core::graph::{BuildOptions, Dependency, DependencyKind, NodeId, TaskKind};
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;

use crate::support::jobs::{self, Opened, of_sample, of_shared};
use crate::support::{engine, sample};

/// Device time in ns with `lines`.
fn device_time(opened: &Opened, lines: &[&str]) -> i64 {
    let (resolved, graph) = (opened.resolve(lines), opened.base.graph());
    let traced = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind.is_device());
    let kept = traced.filter(|&node| !resolved.is_removed(node)).map(|node| resolved.prediction(node).duration.0);
    let added = resolved.added.iter().filter(|added| added.kind.is_device()).map(|added| added.prediction.duration.0);
    kept.chain(added).sum()
}

#[test]
fn convolutions_that_leave_matrix_units_launch_what_they_launched() {
    let resnet = of_sample("h200/resnet50-b32-fp32-cuda.kineto.json.gz");
    for (there, device) in [("mixed-precision tf32", "swap-gpu T4"), ("mixed-precision bf16", "swap-gpu V100-32")] {
        let [one, other] = [[there, device], [device, there]].map(|lines| device_time(resnet, &lines));
        assert_eq!(one, other, "{there}, {device}");
    }
    let Some(turing) = of_shared("resnet-2080ti-et/resnet_kineto.json.gz") else { return };
    for device in ["RTX-2080-Ti", "V100-32", "T4"] {
        let swap = format!("swap-gpu {device}");
        let alone = device_time(turing, &[&swap]);
        assert_eq!(device_time(turing, &["swap-gpu A100-80", &swap]), alone, "{device}");
        let scaled = ["swap-gpu A100-80", "scale kind=kernel x0.5", &swap];
        let (again, half) = (device_time(turing, &scaled), device_time(turing, &[&swap, "scale kind=kernel x0.5"]));
        assert!((again - half).abs() <= 1_000, "{device}: {again} {half}");
        // The host's part, too: with slow calls it decides.
        let [again, alone] =
            [&["swap-gpu A100-80", "scale kind=runtime x30", &swap][..], &[&swap, "scale kind=runtime x30"]]
                .map(|lines| turing.time(lines));
        assert!((again - alone).abs() <= 2_000, "{device}: {again} {alone}");
    }
}

#[test]
fn a_kernel_that_gives_way_takes_its_call_along() {
    let Some(turing) = of_shared("resnet-2080ti-et/resnet_kineto.json.gz") else { return };
    let (resolved, graph) = (turing.resolve(&["swap-gpu A100-80"]), turing.base.graph());
    let of_launch =
        |edge: &petgraph::graph::EdgeReference<'_, Dependency>| edge.weight().kind == DependencyKind::Launch;
    let (mut along, mut left) = (0, 0);
    for call in graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Runtime) {
        let work: Vec<NodeId> = graph.tasks.edges(call).filter(of_launch).map(|edge| edge.target()).collect();
        if !work.is_empty() && work.iter().all(|&node| resolved.is_removed(node)) {
            let count = if resolved.is_removed(call) { &mut along } else { &mut left };
            *count += 1;
        }
    }
    assert!(along > 26 && left == 0, "{along} {left}");
}

#[test]
fn a_gpu_does_not_take_over_from_a_processor_without_launches() {
    let path = sample("mlp-b256-fp32-cpu.et.json.gz");
    let job = jobs::loaded(&[path]);
    let scenario = Scenario::parse(["place-on CPU", "swap-gpu H200"]).unwrap();
    let steps = engine().evaluate(job, &scenario, 0).steps;
    let said = format!("{:?}", steps[1]);
    assert!(steps[1].is_impossible && said.contains("use place-on"), "{said}");
}

#[test]
fn a_learned_resize_loses_no_edit_before_it_and_is_none_at_its_own_batch() {
    let engine = engine();
    let load = |trace: &str| {
        let loaded = engine.load(&[sample(trace)], &OpenOptions::default(), &BuildOptions::default());
        loaded.unwrap().swap_remove(0)
    };
    let (first, second) = ("h200/mlp-b4096-fp32-cuda.kineto.json.gz", "h200/mlp-b1024-fp32-cuda.kineto.json.gz");
    let mut job = load(first);
    job.learn(&load(second)).unwrap();
    let learned = |lines: &[&str]| {
        let summary = engine.evaluate(&job, &Scenario::parse(lines.iter().copied()).unwrap(), 0).summary;
        (summary.steady_ns, summary.device_time.after(), summary.memory_bytes, summary.steady_band)
    };
    let edits = [
        "mixed-precision bf16",
        "mixed-precision tf32",
        "resize-op family=gemm 1024->2048",
        "swap-gpu V100-32",
        "scale kind=kernel x0.5",
        "scale kind=host x8",
    ];
    let plain = learned(&["resize-batch 2048"]);
    for edit in edits {
        let [before, after] = [[edit, "resize-batch 2048"], ["resize-batch 2048", edit]].map(|lines| learned(&lines));
        assert_eq!(before, after, "{edit}");
        assert_ne!((before.0, before.1), (plain.0, plain.1), "{edit}");
    }
    let again = learned(&["resize-batch 512", "resize-batch 2048"]);
    assert_eq!(again, plain);
    for lines in [&["resize-batch 4096"][..], &["resize-batch 512", "resize-batch 4096"]] {
        assert_eq!(learned(lines), learned(&[]), "{lines:?}");
    }
}

#[test]
fn another_devices_host_is_that_of_what_later_edits_add_too() {
    let gpt = of_sample("h200/gpt2-small-b4-fp32-cuda.kineto.json.gz");
    let apart = |one: i64, other: i64| (one as f64 / other as f64 - 1.0).abs();
    let swap = "swap-gpu A100-80 host x0.5";
    for other in ["mixed-precision bf16", "insert aten::gelu after name~linear", "scale kind=host x0.5"] {
        let [one, both] = [[swap, other], [other, swap]].map(|lines| gpt.time(&lines));
        assert!(apart(one, both) < 1e-3, "{other}: {one} {both}");
    }
    let apart_from_host = ["swap-gpu A100-80", "scale kind=host x0.5", "scale kind=runtime x0.5"];
    assert!(apart(gpt.time(&[swap]), gpt.time(&apart_from_host)) < 1e-3, "the factor is one on host time");
    assert!(gpt.time(&[swap]) < gpt.time(&["swap-gpu A100-80"]));
    let there = ["swap-gpu NoSuch host x0.5", "mixed-precision bf16"];
    assert_eq!(gpt.time(&there), gpt.time(&there[1..]), "a device that is not known has no host");
}

#[test]
fn calls_that_repeat_what_was_taken_out_take_its_mean_too() {
    let resnet = of_sample("h200/resnet50-b32-fp32-cuda.kineto.json.gz");
    let [one, other] = [["mixed-precision bf16", "overheads mean"], ["overheads mean", "mixed-precision bf16"]]
        .map(|lines| resnet.time(&lines));
    assert_eq!(one, other);
}

//! `layers`: several models, devices and batch sizes side by side, and every analysis as a table.

use assert_cmd::Command;
use serde_json::Value;

use crate::support::sample;

const ON_V100: [&str; 2] = ["--step", "place-on V100"];

fn layers(tables: &[&str], more: &[&str]) -> String {
    let mut command = Command::cargo_bin("retime").unwrap();
    command.arg("layers").args(tables.iter().map(|table| sample(table))).args(more);
    String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
}

fn json(tables: &[&str], more: &[&str]) -> Value {
    serde_json::from_str(&layers(tables, &[more, &["--json"]].concat())).unwrap()
}

#[test]
fn models_at_several_batch_sizes_stand_side_by_side_as_each_does_alone() {
    let range = [&ON_V100[..], &["--batch", "1..4"]].concat();
    let both = json(&["alexnet.toml", "vgg16.toml"], &range);
    let profiles = both["profiles"].as_array().unwrap();
    assert_eq!((profiles.len(), &both["runs"], &both["other_runs"]), (2, &6.into(), &3.into()));
    let batches: Vec<_> =
        profiles[1]["batch_sizes"].as_array().unwrap().iter().map(|row| row["batch"].as_u64()).collect();
    assert_eq!(batches, [Some(1), Some(2), Some(4)]);
    assert_eq!(profiles[0], json(&["alexnet.toml"], &range)["profiles"][0]);
    let alone = &json(&["vgg16.toml"], &range)["profiles"][0];
    assert_eq!(profiles[1]["model"], alone["model"]);
    let online = |profile: &Value| profile["online_latency_ns"].as_f64().unwrap();
    let ratio = profiles[1]["online_latency_ratio"].as_f64().unwrap();
    assert!((ratio - online(&profiles[1]) / online(&profiles[0])).abs() < 1e-9, "{ratio}");
    assert_eq!(alone["online_latency_ns"], profiles[1]["online_latency_ns"]);
    // Read and written make the traffic.
    let model = &profiles[0]["model"];
    let bytes = |key: &str| model[key].as_f64().unwrap();
    assert!((bytes("read_bytes") + bytes("written_bytes") - bytes("bytes")).abs() < 1.0, "{model}");
}

#[test]
fn layers_have_the_shapes_of_the_batch_that_they_are_shown_at() {
    let answer = json(&["alexnet.toml"], &[&ON_V100[..], &["--batch", "64"]].concat());
    assert_eq!((&answer["batch"], &answer["batch_sizes"][0]["batch"]), (&64.into(), &64.into()));
    assert_eq!(answer["layers"][0]["shape"], serde_json::json!([64, 3, 224, 224]));
    // The output of the first convolution, in fp32.
    assert_eq!(answer["layers"][0]["memory_bytes"], 64 * 64 * 55 * 55 * 4);
}

#[test]
fn the_largest_batch_within_a_latency_is_shown() {
    let range = [&ON_V100[..], &["--batch", "1..64"]].concat();
    let all = json(&["alexnet.toml"], &range);
    let latency = |at: usize| all["batch_sizes"][at]["latency_ns"].as_f64().unwrap();
    let between = ((latency(4) + latency(5)) / 2e6).to_string();
    let within = json(&["alexnet.toml"], &[&range[..], &["--latency-ms", &between]].concat());
    assert_eq!((&within["optimal_batch"], &within["batch"]), (&16.into(), &16.into()));
    assert_eq!(within["layers"][0]["shape"][0], 16);
}

#[test]
fn one_model_on_two_devices_is_no_mean() {
    let alone = json(&["dlrm-ddp-b256-fp32-cpu.kineto.json.gz"], &[]);
    let both = json(&["dlrm-ddp-b256-fp32-cpu.kineto.json.gz", "dlrm-ddp-b256-on-v100.predicted.json.gz"], &[]);
    assert_eq!(both["profiles"].as_array().unwrap().len(), 2);
    assert_eq!(both["layers"], alone["layers"], "the other run changes nothing of the first");
    assert_ne!(both["profiles"][0]["device"], both["profiles"][1]["device"]);
}

#[test]
fn every_analysis_is_a_table_for_people_and_for_programs() {
    let batch = [&ON_V100[..], &["--batch", "8"]].concat();
    for number in 1..=15 {
        let number = number.to_string();
        let chosen = [&batch[..], &["--analysis", &number]].concat();
        let text = layers(&["alexnet.toml"], &chosen);
        assert!(text.starts_with(&format!("{number} ")) && text.contains("batch 8 on V100"), "{text}");
        assert!(text.lines().count() >= 3, "{text}");
        let csv = layers(&["alexnet.toml"], &[&chosen[..], &["--csv"]].concat());
        let columns = csv.lines().next().unwrap().split(',').count();
        assert!(csv.lines().count() >= 2 && columns >= 2, "{csv}");
    }
    let two = layers(&["alexnet.toml"], &[&batch[..], &["--analysis", "5,13", "--top", "2"]].concat());
    assert!(two.contains("\n13 host time") && two.contains("17 more: --top 19"), "{two}");
    let mut refused = Command::cargo_bin("retime").unwrap();
    refused.args(["layers", &sample("alexnet.toml").display().to_string(), "--analysis", "16"]).assert().code(2);
}

#[test]
fn layers_of_a_table_go_by_the_names_that_it_gives_them() {
    let answer = json(&["alexnet.toml"], &ON_V100);
    let named: Vec<[&str; 2]> = answer["layers"].as_array().unwrap()[..3]
        .iter()
        .map(|layer| ["name", "type"].map(|key| layer[key].as_str().unwrap()))
        .collect();
    let expected = [["conv1", "aten::conv2d"], ["relu1", "aten::relu"], ["pool1", "aten::max_pool2d_with_indices"]];
    assert_eq!(named, expected);
    let halved =
        json(&["alexnet.toml"], &[&ON_V100[..], &["--step", "scale module=conv1 & kind=kernel x0.5"]].concat());
    let kernels = |answer: &Value, at: usize| answer["layers"][at]["kernel_ns"].as_i64().unwrap();
    assert!((kernels(&halved, 0) * 2 - kernels(&answer, 0)).abs() <= 2);
    assert_eq!(kernels(&halved, 3), kernels(&answer, 3));
}

#[test]
fn kernels_in_no_layer_or_of_unknown_work_are_told_and_their_work_is_no_zero() {
    let graph = "h200/mlp-graph1-b4096-fp32-cuda.kineto.json.gz";
    let said = layers(&[graph], &[]);
    assert!(said.contains("of kernel time (") && said.contains("is in no layer"), "{said}");
    assert!(said.contains("of unknown work: it counts as none"), "{said}");
    let answer = json(&[graph], &[]);
    let time = |key: &str| answer[key].as_u64().unwrap();
    assert!(2 * time("outside_layers_ns") > time("kernels_ns") && 2 * time("unknown_work_ns") > time("kernels_ns"));
    let eager = json(&["h200/mlp-b4096-fp32-cuda.kineto.json.gz"], &[]);
    assert!(10 * eager["outside_layers_ns"].as_u64().unwrap() < eager["kernels_ns"].as_u64().unwrap());
    let mut command = Command::cargo_bin("retime").unwrap();
    let output = command.args(["ops", "--by", "family"]).arg(sample(graph)).assert().success().get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    let products = text.lines().find(|line| line.trim_end().ends_with("gemm")).unwrap();
    assert_eq!(products.matches('–').count(), 4, "{products}");
}

#[test]
fn latency_by_batch_is_that_of_the_iteration_as_it_repeats() {
    let trace = ["h200/resnet50-b32-fp32-cuda.kineto.json.gz"];
    let answer = json(&trace, &["--batch", "8..32"]);
    let simulated = |batch: &str| {
        let trace = sample(trace[0]).display().to_string();
        crate::support::program::json(&["simulate", &trace, "--batch", batch])
    };
    for row in answer["batch_sizes"].as_array().unwrap() {
        let one = simulated(&row["batch"].to_string());
        assert_eq!(row["latency_ns"], one["steady_ns"], "{row}");
        let [busy, active, steady] =
            ["steady_gpu_busy", "gpu_active_ns", "steady_ns"].map(|field| one[field].as_f64().unwrap());
        assert!((busy * steady / active - 1.0).abs() < 0.01, "{busy} of {steady}, {active} at work");
    }
}

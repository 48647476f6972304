//! Models whose kernels take turns on several streams, against captures of an H200.

use serde_json::Value;

use crate::support::program::json;

fn trace(name: &str) -> String {
    crate::support::sample(&format!("h200/{name}.kineto.json.gz")).display().to_string()
}

fn simulated(trace: &str, steps: &[&str]) -> Value {
    let steps: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    json(&[&["simulate", trace], steps.as_slice()].concat())
}

fn ms(of: &Value, field: &str) -> f64 {
    of[field].as_f64().unwrap() / 1e6
}

#[test]
fn a_node_of_a_graph_waits_for_those_that_run_on_other_streams_until_it_starts() {
    let trace = trace("resnet50-graph1-b32-fp32-cuda");
    let base = simulated(&trace, &[]);
    // One kernel after another, nearly all of the step: none of it was not recorded.
    assert!(base["device_time"]["base_ns"].as_f64().unwrap() < 1.02e6 * ms(&base, "simulated_ns"));
    let gain = |step: &str| ms(&base, "simulated_ns") - ms(&simulated(&trace, &[step]), "simulated_ns");
    for family in ["conv", "gemm", "elementwise"] {
        let removed = simulated(&trace, &[&format!("remove family={family}")]);
        let taken_out = removed["device_time"]["removed_ns"].as_f64().unwrap() / 1e6;
        let (gone, half) = (gain(&format!("remove family={family}")), gain(&format!("scale family={family} x0.5")));
        assert!((gone / taken_out - 1.0).abs() < 0.1, "{family}: {gone} of {taken_out} ms");
        assert!((half / taken_out - 0.5).abs() < 0.05, "{family}: {half} of {taken_out} ms");
    }
}

#[test]
fn a_forward_pass_over_two_streams_runs_again_once() {
    let counts = |steps: &[&str]| {
        let trace = trace("resnet50-b32-fp32-cuda");
        let steps: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
        let answer = json(&[&["ops", &trace], steps.as_slice()].concat());
        let rows = answer["rows"].as_array().unwrap().iter();
        rows.filter(|row| row["label"] == "aten::conv2d").map(|row| row["count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((counts(&[]), counts(&["checkpoint phase=forward segments=1"])), (53, 106));
    assert!(counts(&["checkpoint phase=forward segments=4"]) < 106);
}

//! Edits of whole operators on captures of one H100: what they select, and what is fused of a recommender and of an optimizer.

use serde_json::Value;

use crate::support::program::{json, retime};

fn h100(name: &str) -> String {
    crate::support::sample(&format!("h100/{name}.kineto.json.gz")).display().to_string()
}

fn simulated(trace: &str, steps: &[&str]) -> Value {
    let steps = steps.iter().flat_map(|step| ["--step", step]);
    json(&["simulate", trace].into_iter().chain(steps).collect::<Vec<_>>())
}

/// The row of an operator as `ops` lists it.
fn row(arguments: &[&str], operator: &str) -> Value {
    let answer = json(&[&["ops"], arguments].concat());
    answer["rows"].as_array().unwrap().iter().find(|row| row["label"] == operator).unwrap().clone()
}

#[test]
fn a_term_on_operators_selects_their_kernels_too() {
    let trace = h100("mlp-b256-fp32-cuda");
    let time = |step: String| simulated(&trace, &[&step])["simulated_ns"].as_i64().unwrap();
    for (edit, rest) in [("remove", ""), ("scale", " x0.5"), ("replace", " with aten::addmm"), ("checkpoint", "")] {
        for what in ["name=aten::mm", "name=aten::addmm"] {
            assert_eq!(time(format!("{edit} kind=op & {what}{rest}")), time(format!("{edit} {what}{rest}")), "{edit}");
        }
    }
    let base = simulated(&trace, &[])["simulated_ns"].as_i64().unwrap();
    assert!(time("remove kind=op & name=aten::mm".to_owned()) < base * 9 / 10);
    let resized = ["kind=op", "name~."].map(|what| simulated(&trace, &[&format!("resize-op {what} 2048->1024")]));
    let summary = |answer: &Value| answer["steps"][0]["summary"].as_str().unwrap().to_owned();
    assert_eq!(summary(&resized[0]), summary(&resized[1]));
    assert!(summary(&resized[0]).contains("2048 → 1024"), "{}", summary(&resized[0]));
}

#[test]
fn updates_of_looked_up_rows_follow_the_batch_where_each_sample_looks_up_one() {
    let large = h100("dlrm-mlperf-b4096-fp32-cuda");
    let resized = row(&[&large, "--batch", "512"], "aten::index_add_");
    let traced = row(&[&h100("dlrm-mlperf-b512-fp32-cuda")], "aten::index_add_");
    assert_eq!(resized["bytes"], traced["bytes"]);
}

#[test]
fn batched_lookups_have_one_update_and_one_copy_of_each_list_whatever_their_tables() {
    let trace = h100("dlrm-mlperf-b512-fp32-cuda");
    let fused = ["--step", "fuse-embedding-bags"];
    let update = row(&[&[trace.as_str()], &fused[..]].concat(), "aten::index_add_");
    let traced = row(&[&trace], "aten::index_add_");
    assert_eq!((&traced["count"], &update["count"], &update["bytes"]), (&26.into(), &1.into(), &traced["bytes"]));
    let answer = simulated(&trace, &["fuse-embedding-bags"]);
    let summary = answer["steps"][0]["summary"].as_str().unwrap();
    assert!(summary.contains("104 copies of their lists to the device → 4"), "{summary}");
}

#[test]
fn batched_copies_of_lists_follow_the_batch_as_those_that_they_were_do() {
    for (trace, batch) in [("dlrm-default-b1024-fp32-cuda", 3072), ("dlrm-mlperf-b512-fp32-cuda", 2048)] {
        let trace = h100(trace);
        let resized = format!("resize-batch {batch}");
        let orders = [["fuse-embedding-bags", &resized], [&resized, "fuse-embedding-bags"]];
        let [after, before] = orders.map(|steps| simulated(&trace, &steps));
        let copied = orders.map(|steps| row(&[&trace, "--step", steps[0], "--step", steps[1]], "aten::_to_copy"));
        assert_eq!(copied[0]["bytes"], copied[1]["bytes"], "{trace}");
        let active = [&after, &before].map(|answer| answer["gpu_active_ns"].as_f64().unwrap());
        assert!((active[0] / active[1] - 1.0).abs() < 1e-3, "{trace}: {active:?}");
    }
}

#[test]
fn gradients_that_are_added_on_the_host_are_said_to_be_left_out() {
    let trace = crate::support::sample("mlp-b256-fp32-cpu.kineto.json.gz").display().to_string();
    let answer = simulated(&trace, &["accumulate 2"]);
    let effects = answer["steps"][0]["effects"].as_array().unwrap();
    let is_told = |effect: &Value| effect["text"].as_str().is_some_and(|text| text.starts_with("6 gradients sparse"));
    assert!(effects.iter().any(is_told), "{effects:?}");
}

#[test]
fn an_inserted_operator_is_one_of_its_own_beside_the_call_that_it_follows() {
    let trace = h100("mlp-b4096-fp32-cuda");
    let insert = "insert aten::relu after name=aten::linear";
    let with = |step: &str| row(&[&trace, "--step", insert, "--step", step], "aten::relu");
    let (linear, relu) = (row(&[&trace], "aten::addmm"), with("scale name=aten::linear & kind=kernel x3"));
    // On the results of three products; what is called within the linear layers changes, what follows them does not.
    let written: u64 = 4 * 4096 * (2048 + 2048 + 1024);
    assert_eq!((&relu["bytes"], &relu["device_ns"]), (&(2 * written).into(), &with("scale kind=host x1")["device_ns"]));
    assert_eq!(row(&[&trace, "--step", insert], "aten::addmm")["device_ns"], linear["device_ns"]);
    let traced = row(&[&trace], "aten::relu")["count"].as_u64().unwrap();
    assert_eq!(relu["count"], traced + 3);
    // Under autocast a layer casts its input, weight and bias before it multiplies: one call for all that.
    let bert = h100("bert-base-b16-bf16-cuda");
    let count = |steps: &[&str], of: &str| row(&[&[bert.as_str()], steps].concat(), of)["count"].as_u64().unwrap();
    let answer = simulated(&bert, &[insert]);
    let wanted = format!("aten::relu ×{0} with {0} kernels inserted", count(&[], "aten::addmm"));
    assert_eq!(answer["steps"][0]["summary"], wanted);
}

#[test]
fn an_algorithm_of_convolutions_stays_when_they_round_to_tf32() {
    let trace = h100("resnet50-b32-fp32-cuda");
    let both = |steps: [&str; 2]| row(&[&trace, "--step", steps[0], "--step", steps[1]], "aten::cudnn_convolution");
    let edits = ["conv-algorithm winograd", "mixed-precision tf32"];
    let (first, last) = (both(edits), both([edits[1], edits[0]]));
    assert_eq!((&first["flop"], &first["device_ns"]), (&last["flop"], &last["device_ns"]));
    let rounded = row(&[&trace, "--step", edits[1]], "aten::cudnn_convolution");
    assert!(first["flop"].as_f64().unwrap() < 0.95 * rounded["flop"].as_f64().unwrap());
}

#[test]
fn what_is_made_from_32_bits_keeps_them_under_autocast() {
    let halved = |trace: &str, operator: &str| {
        let trace = h100(trace);
        let bytes = |steps: &[&str]| row(&[&[trace.as_str()], steps].concat(), operator)["bytes"].as_f64().unwrap();
        bytes(&["--step", "mixed-precision bf16"]) / bytes(&[])
    };
    // Behind a power, and sums with what embeddings gave.
    let is = |trace: &str, operator: &str, share: f64| {
        let halved = halved(trace, operator);
        assert!((halved - share).abs() < 1e-3, "{trace} {operator}: {halved} for {share}");
    };
    is("gpt2-small-b8-fp32-cuda", "aten::tanh", 1.0);
    is("gpt2-small-b8-fp32-cuda", "aten::add", 1.0);
    // Convolutions and what follows them alone.
    is("resnet50-b32-fp32-cuda", "aten::add_", 0.5);
    is("mlp-b4096-fp32-cuda", "aten::clamp_min", 0.5);
}

#[test]
fn gradients_of_later_batches_are_added_by_a_kernel_for_each_parameter() {
    let trace = h100("mlp-b4096-fp32-cuda");
    let added = row(&[&trace, "--step", "accumulate 4"], "aten::add_");
    // Three weights and their biases, three times: both gradients are read, one is written.
    let parameters = 1024 * 2048 + 2048 * 2048 + 2048 * 1024 + 2048 + 2048 + 1024;
    assert_eq!(added["bytes"], 3 * 3 * 4 * parameters);
    assert_eq!(added["count"], 3 * 6);
    let count = |steps: &[&str]| row(&[&[trace.as_str()], steps].concat(), "aten::mm")["count"].as_u64().unwrap();
    assert_eq!(count(&["--step", "accumulate 4"]), 4 * count(&[]));
}

#[test]
fn an_optimizer_over_long_lists_takes_their_sizes_from_the_execution_trace() {
    let answer = simulated(&h100("gpt2-small-b8-fp32-cuda"), &["fuse-optimizer"]);
    assert!(answer["simulated_ns"].as_i64().unwrap() < answer["base_simulated_ns"].as_i64().unwrap(), "{answer:#}");
    let alone = simulated(&h100("gpt2-small-b8-bf16-cuda"), &["fuse-optimizer"]).to_string();
    assert!(alone.contains("sizes were not recorded") && !alone.contains("already"), "{alone}");
    let done = simulated(&h100("gpt2-small-optimplfused-b8-fp32-cuda"), &["fuse-optimizer"]).to_string();
    assert!(!done.contains("fused already"), "{done}");
}

#[test]
fn updates_of_looked_up_rows_that_are_fused_are_one_kernel_on_another_device() {
    let trace = crate::support::sample("dlrm-ddp-b256-fp32-cpu.kineto.json.gz").display().to_string();
    let placed = ["--step", "place-on V100", "--select", "phase=optimizer"];
    let fused = [&placed[..], &["--step", "fuse-optimizer"]].concat();
    let [apart, fused] =
        [placed.to_vec(), fused].map(|steps| row(&[&[trace.as_str()], &steps[..]].concat(), "aten::add"));
    assert_eq!((&apart["count"], &fused["count"], &fused["bytes"]), (&8.into(), &1.into(), &apart["bytes"]));
}

#[test]
fn what_is_inserted_after_a_call_that_waits_leaves_it_its_kernel() {
    let (insert, narrow) = ("insert aten::gelu after family=gemm & phase=forward", "mixed-precision bf16");
    let trace = h100("bert-base-b16-fp32-cuda");
    let [one, other] = [[insert, narrow], [narrow, insert]].map(|steps| simulated(&trace, &steps)["steady_ns"].clone());
    assert_eq!(one, other, "the casts before a product are called where that is");
    let folder = tempfile::tempdir().unwrap();
    let exported = folder.path().join("inserted.json");
    let path = exported.to_str().unwrap();
    retime().args(["export", &trace, "-o", path, "--step", insert]).assert().success();
    let written: Value = serde_json::from_slice(&std::fs::read(&exported).unwrap()).unwrap();
    let of = |category: &str| {
        let events = written["traceEvents"].as_array().unwrap().iter().filter(move |event| event["cat"] == category);
        events.map(|event| event["args"]["correlation"].as_u64()).collect::<std::collections::BTreeSet<_>>()
    };
    let (kernels, calls) = (of("kernel"), of("cuda_runtime"));
    assert!(
        kernels.len() > 1_000 && kernels.is_subset(&calls),
        "kernels without a call: {:?}",
        kernels.difference(&calls)
    );
}

#[test]
fn a_step_tells_of_tasks_it_adds_that_a_step_before_it_would_have_selected() {
    let trace = h100("dlrm-default-b1024-fp32-cuda");
    let said = |steps: &[&str]| simulated(&trace, steps)["steps"][1]["effects"].to_string();
    let (fuse, insert) = ("fuse family=elementwise", "insert aten::gelu after name=aten::relu");
    let (before, after) = (said(&[fuse, insert]), said(&[insert, fuse]));
    assert!(before.contains("5 of the tasks that it adds are what `fuse family=elementwise`"), "{before}");
    assert!(!after.contains("of the tasks that it adds"), "what is fused is no more than there was: {after}");
    assert!(after.contains("were added by steps before it"), "{after}");
    let scaled = said(&["scale family=elementwise x0.5", insert]);
    assert!(!scaled.contains("of the tasks that it adds"), "a factor holds for what comes later: {scaled}");
}

#[test]
fn a_step_tells_of_tasks_it_replaces_that_a_step_before_it_would_have_selected() {
    let trace = h100("dlrm-default-b1024-fp32-cuda");
    let said = |steps: &[&str]| simulated(&trace, steps)["steps"][1]["effects"].to_string();
    let (fuse, replace) = ("fuse family=elementwise", "replace name=aten::embedding_bag with aten::mul");
    let (before, after) = (said(&[fuse, replace]), said(&[replace, fuse]));
    assert!(before.contains("8 of the tasks that it replaces are what `fuse family=elementwise`"), "{before}");
    assert!(after.contains("8 of the tasks that it selects are what they are since steps before it"), "{after}");
    let lookups = said(&[replace, "fuse family=embedding"]);
    assert!(lookups.contains("8 of the tasks that it would select are others since steps before it"), "{lookups}");
}

#[test]
fn an_operator_that_was_replaced_is_selected_by_its_new_name_alone() {
    let trace = h100("dlrm-default-b1024-fp32-cuda");
    let steady = |steps: &[&str]| simulated(&trace, steps)["steady_ns"].as_i64().unwrap();
    let (replace, slower) = ("replace name=aten::relu with aten::silu", "scale name=aten::relu x10");
    let summary = |steps: &[&str]| simulated(&trace, steps)["steps"].to_string();
    let alone = summary(&[replace]);
    assert!(alone.contains("takes as long as what it replaces") && !alone.contains("no-effect"), "{alone}");
    let inserted = summary(&["insert aten::gelu after name=aten::relu", replace]);
    assert!(!inserted.contains("takes back"), "{inserted}");
    assert!(summary(&[replace, slower]).contains("no-effect"));
    assert_eq!(steady(&[replace, "scale name=aten::silu x10"]), steady(&[slower]), "with its host work");
    // What is inserted beside it is not of the operator that was there.
    let insert = [replace, "insert aten::gelu after name=aten::silu"];
    assert!(!summary(&insert).contains("of the tasks that it adds"));
}

#[test]
fn sparse_updates_that_were_replaced_stay_so_at_another_batch() {
    let trace = crate::support::sample("dlrm-ddp-b256-fp32-cpu.kineto.json.gz").display().to_string();
    let steady = |steps: &[&str]| simulated(&trace, steps)["steady_ns"].as_i64().unwrap();
    let replace = "replace name=aten::add with aten::mul";
    assert_eq!(steady(&[replace]), steady(&[replace, "resize-batch 256"]));
    assert_eq!(steady(&["resize-batch 512", replace]), steady(&[replace, "resize-batch 512"]));
}

#[test]
fn what_the_host_waits_for_is_not_put_anywhere_as_a_kernel() {
    let trace = h100("mlp-b256-fp32-cuda");
    for edit in [
        "insert aten::_local_scalar_dense after name=aten::relu",
        "replace name=aten::relu with aten::_local_scalar_dense",
    ] {
        let refused = retime().args(["simulate", &trace, "--step", edit]).assert().failure();
        let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(said.contains("lets the host wait"), "{said}");
    }
}

#[test]
fn what_runs_again_is_no_part_of_the_gradient_that_needs_it_first() {
    let of = |kind: &str, steps: &[&str]| {
        let name = format!("h200/gpt2-small{kind}-b8-fp32-cuda.kineto.json.gz");
        simulated(&crate::support::sample(&name).display().to_string(), steps)
    };
    let removed = |kind: &str| of(kind, &["remove name~dropout"])["device_time"]["removed_ns"].as_f64().unwrap();
    let (kept, again) = (removed(""), removed("-checkpoint1"));
    // Masks are drawn once more, the products and the attention of each layer are not dropout.
    assert!(again > kept && again < 1.3 * kept, "{again} of {kept}");
}

#[test]
fn a_second_trace_is_what_it_measured_at_its_own_batch() {
    let sample =
        |id: &str| crate::support::sample(&format!("h200/{id}-fp32-cuda.kineto.json.gz")).display().to_string();
    let device = |answer: &Value| {
        let time = &answer["device_time"];
        ["changed_to_ns", "kept_ns", "added_ns"].iter().map(|part| time[part].as_f64().unwrap()).sum::<f64>()
    };
    for (first, second, batch) in [
        ("gpt2-small-b4", "gpt2-small-b8", "8"),
        ("mlp-b1024", "mlp-b4096", "4096"),
        ("resnet50-b16", "resnet50-b32", "32"),
    ] {
        let learned = json(&["simulate", &sample(first), "--learn", &sample(second), "--batch", batch]);
        let apart = device(&learned) / device(&simulated(&sample(second), &[])) - 1.0;
        println!("{first} → {second}: {:+.2} % of what the device took", 100.0 * apart);
        assert!(apart.abs() < 0.005, "{first}: {apart}");
    }
}

#[test]
fn an_operator_that_goes_without_its_gradient_is_told() {
    let trace = h100("mlp-b256-fp32-cuda");
    let notes = |step: &str| simulated(&trace, &[step])["steps"][0]["effects"].to_string();
    assert!(
        notes("remove name=aten::addmm").contains("gradients of what is selected stay"),
        "only the forward pass goes"
    );
    assert!(!notes("remove phase=backward").contains("gradients of what"), "gradients go themselves");
    assert!(!notes("remove kind=kernel").contains("gradients of what"), "all goes");
}

#[test]
fn few_samples_a_second_are_no_whole_number() {
    let trace = crate::support::sample("h200/gpt2-small-b8-fp32-cuda.kineto.json.gz").display().to_string();
    let output = retime().args(["simulate", &trace, "--gpu", "P4"]).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    let line = text.lines().find(|line| line.contains("throughput")).unwrap().trim();
    let rate: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let exact = simulated(&trace, &["swap-gpu P4"]);
    let exact = 8e9 / exact["steady_ns"].as_f64().unwrap();
    assert!(exact < 10.0 && (rate / exact - 1.0).abs() < 0.01, "{line}, {exact}");
}

#[test]
fn a_branch_ends_at_what_takes_a_tensor_as_large_as_its_result() {
    // Each dropout's result is read by the next operator: beside that nothing runs.
    let trace = h100("gpt2-small-b8-fp32-cuda");
    let steady = |steps: &[&str]| simulated(&trace, steps)["steady_ns"].as_f64().unwrap();
    let gain = 1.0 - steady(&["parallelize name~dropout"]) / steady(&[]);
    assert!(gain < 0.01, "{gain}");
}

#[test]
fn what_training_would_add_to_an_inserted_operator_is_said() {
    let answer = simulated(&h100("mlp-b256-fp32-cuda"), &["insert aten::relu after name=aten::addmm"]);
    assert!(answer["steps"][0]["effects"].to_string().contains("its gradients"), "{}", answer["steps"][0]);
}

//! What an exported iteration states of the work of its tasks.

use std::fs;

use serde_json::Value;

use crate::support::program::json;

fn sample(name: &str) -> String {
    crate::support::sample(name).display().to_string()
}

/// FLOP and bytes of an iteration.
fn work(trace: &str, steps: &[&str]) -> [f64; 2] {
    let steps: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    let all = json(&[&["ops", trace, "--level", "model"], steps.as_slice()].concat());
    ["flop", "bytes"]
        .map(|figure| all["rows"].as_array().unwrap().iter().map(|row| row[figure].as_f64().unwrap()).sum())
}

/// Exports `trace` after `steps`; what is stated in the file.
fn export(trace: &str, steps: &[&str], to: &str) -> Vec<Value> {
    let steps: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    json(&[&["export", trace, "-o", to, "--force"], steps.as_slice()].concat());
    stated(to)
}

fn stated(path: &str) -> Vec<Value> {
    let document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap().iter();
    events.filter_map(|event| event["args"].get("retime work").cloned()).collect()
}

fn is_near(one: [f64; 2], other: [f64; 2], within: f64) -> bool {
    one.iter().zip(other).all(|(one, other)| (one / other - 1.0).abs() < within)
}

const VGG: &str = "public/vgg13-train-h100.json.gz";
const BERT: &str = "public/bert-small-h100.json.gz";
const CPU: &str = "dlrm-ddp-b256-fp32-cpu.kineto.json.gz";

#[test]
fn work_that_edits_gave_to_tasks_is_there_when_the_iteration_is_opened_again_and_once_more() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = ["first.json", "second.json"].map(|name| folder.path().join(name).display().to_string());
    for (name, step) in [
        (VGG, "checkpoint kind=kernel & phase=forward"),
        (VGG, "mixed-precision bf16"),
        (BERT, "insert aten::relu after family=gemm"),
        (BERT, "insert kernel probe 20us after family=gemm"),
        (CPU, "fuse-optimizer"),
        (CPU, "fuse-embedding-bags"),
        (CPU, "replace name~relu with aten::gelu"),
    ] {
        let trace = sample(name);
        let own = work(&trace, &[step]);
        let once = export(&trace, &[step], &first);
        assert!(is_near(work(&first, &[]), own, 1e-4), "{name} {step}: {own:?} opens as {:?}", work(&first, &[]));
        let again = export(&first, &[], &second);
        assert!(is_near(work(&second, &[]), own, 1e-4), "{name} {step}: {own:?} opens as {:?}", work(&second, &[]));
        assert_eq!(once.len(), again.len(), "{name} {step}");
    }
}

#[test]
fn work_placed_on_a_host_is_all_in_the_step_that_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("placed.json").display().to_string();
    for name in ["dlrm-ddp-b256-on-v100.predicted.json.gz", "dlrm-ddp-b64-fp32-cpu.kineto.json.gz"] {
        let (trace, step) = (sample(name), "place-on CPU");
        let own = work(&trace, &[step]);
        export(&trace, &[step], &path);
        assert!(is_near(work(&path, &[]), own, 1e-3), "{name}: {own:?} opens as {:?}", work(&path, &[]));
    }
}

#[test]
fn an_iteration_without_edits_states_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("same.json").display().to_string();
    for name in [VGG, CPU] {
        assert!(export(&sample(name), &[], &path).is_empty(), "{name}");
    }
}

#[test]
fn further_edits_change_stated_work_as_they_change_that_of_the_operator() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edited.json").display().to_string();
    for (name, step, batch) in
        [(VGG, "fuse family=elementwise", "resize-batch 1024"), (CPU, "fuse-optimizer", "resize-batch 512")]
    {
        let trace = sample(name);
        export(&trace, &[step], &path);
        let [before, now, same] = [work(&trace, &[step]), work(&trace, &[step, batch]), work(&path, &[batch])];
        assert!(now[0] > 1.5 * before[0], "{name}: {before:?} {now:?}");
        assert!(is_near(now, same, 0.01), "{name}: {now:?} opened again {same:?}");
    }
}

#[test]
fn the_ranks_of_a_job_state_their_own_work() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, to) = (sample("public/dlrm-v100x8"), folder.path().display().to_string());
    let step = "compress-comm 4";
    json(&["export", &trace, "--format", "chrome", "-o", &to, "--step", step, "--all-ranks"]);
    let own = work(&trace, &[step]);
    assert!(is_near(work(&to, &[]), own, 1e-3), "{own:?} opens as {:?}", work(&to, &[]));
    let files = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path().display().to_string());
    let alone: Vec<[f64; 2]> = files.map(|file| work(&file, &[])).collect();
    let sum = [0, 1].map(|figure| alone.iter().map(|one| one[figure]).sum());
    assert!(is_near(sum, own, 1e-3), "{own:?} of all ranks, {sum:?} of each alone");
}

#[test]
fn stated_work_beyond_every_device_counts_as_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edited.json").display().to_string();
    export(&sample(BERT), &["insert aten::relu after family=gemm"], &path);
    let mut document: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for event in document["traceEvents"].as_array_mut().unwrap() {
        let Some(stated) = event["args"].get_mut("retime work").filter(|stated| stated.is_object()) else { continue };
        (stated["flop"], stated["read bytes"]) = (1e300.into(), (1_u64 << 52).into());
    }
    fs::write(&path, serde_json::to_vec(&document).unwrap()).unwrap();
    assert!(work(&path, &[])[0] < 1.0);
    let moved = json(&["simulate", &path, "--gpu", "V100"]);
    assert!(moved["simulated_ns"].as_f64().unwrap() > 0.0);
}

/// Captures of one H100: what the kernels of an operator compute is at most what its sizes say, however many it launches.
#[test]
fn kernels_of_one_operator_share_its_work() {
    let flop = |trace: &str, operator: &str| {
        let rows = json(&["ops", &sample(&format!("{trace}-fp32-cuda.kineto.json.gz"))]);
        let row = rows["rows"].as_array().unwrap().iter().find(|row| row["label"] == operator).cloned();
        row.unwrap()["flop"].as_f64().unwrap() / 1e6
    };
    // Summed over `Input Dims`.
    assert!((flop("h100/dlrm-ddp-b512", "aten::mm") - 1598.6).abs() < 0.1);
    assert!((flop("h100/dlrm-ddp-b256", "aten::addmm") - 403.8).abs() < 0.1);
    for (trace, forward, backward) in
        [("h200/resnet50-b16", 130_800.0, 257_800.0), ("h100/resnet50-b32", 261_600.0, 515_600.0)]
    {
        for (operator, most) in [("aten::cudnn_convolution", forward), ("aten::convolution_backward", backward)] {
            let share = flop(trace, operator) / most;
            assert!((0.7..1.01).contains(&share), "{trace} {operator}: {share}");
        }
    }
}

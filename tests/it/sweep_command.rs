//! `sweep` from outside: knobs, grids, and shards that are put together again.

use std::fs;

use serde_json::Value;

use crate::support::program::{failure, json, retime, sample};

const CPU: &str = "dlrm-ddp-b256-fp32-cpu.kineto.json.gz";
const CAPTURE: &str = "h100/resnet50-b32-fp32-cuda.kineto.json.gz";
const GPU: &str = "dlrm-ddp-b256-on-v100.predicted.json.gz";

#[test]
fn a_sweep_over_batches_doubles_and_names_the_optimum() {
    let answer = json(&["sweep", &sample(CPU), "--batch", "64..1024"]);
    let points = answer["points"].as_array().unwrap();
    let batches: Vec<f64> = points.iter().map(|point| point["knobs"]["batch"].as_f64().unwrap()).collect();
    assert_eq!(batches, [64.0, 128.0, 256.0, 512.0, 1024.0]);
    let times: Vec<i64> = points.iter().map(|point| point["simulated_ns"].as_i64().unwrap()).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "{times:?}");
    assert!(answer.get("optimal_batch").is_some());
}

#[test]
fn knobs_make_a_grid_that_shards_divide_and_merge_restores() {
    let (sample, folder) = (sample(GPU), tempfile::tempdir().unwrap());
    let arguments = ["sweep", &sample, "--knob", "dram_bw", "0.5..2x3", "--knob", "alpha family=gemm", "1,0.5"];
    let whole = json(&arguments);
    let points = whole["points"].as_array().unwrap();
    assert_eq!(points.len(), 6);
    let time = |point: &Value| point["simulated_ns"].as_i64().unwrap();
    assert!(time(&points[0]) >= time(&points[2]) && time(&points[2]) >= time(&points[4]), "more bandwidth is slower");
    assert!(points[1]["knobs"]["alpha family=gemm"] == 0.5 && time(&points[1]) <= time(&points[0]));
    let mut merge = vec!["sweep".to_owned(), "--merge".to_owned()];
    for shard in ["2/2", "1/2"] {
        let part = json(&[&arguments[..], &["--shard", shard]].concat());
        assert_eq!(part["points"].as_array().unwrap().len(), 3);
        let file = folder.path().join(shard.replace('/', "-"));
        fs::write(&file, part.to_string()).unwrap();
        merge.push(file.display().to_string());
    }
    let merged = json(&merge.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(merged["points"], whole["points"]);
    assert!(failure(1, &["sweep", "--merge", &merge[2]]).contains("expected each part once, found 2/2"));
    let mut damaged: Value = serde_json::from_slice(&fs::read(&merge[2]).unwrap()).unwrap();
    let wrong: [(&str, Value); 6] = [
        ("steady_ns", (-5).into()),
        ("simulated_ns", 0.into()),
        ("throughput", 1e300.into()),
        ("unhandled_share", 7.0.into()),
        ("steady_ns", (damaged["points"][0]["steady_band"]["low_ns"].as_i64().unwrap() + 1).into()),
        ("throughput_per_rank", 1e9.into()),
    ];
    for (field, value) in wrong {
        let sound = std::mem::replace(&mut damaged["points"][0][field], value);
        fs::write(&merge[2], damaged.to_string()).unwrap();
        let said = failure(1, &["sweep", "--merge", &merge[2], &merge[3]]);
        assert!(said.contains("figures that no sweep gives"), "{field}: {said}");
        damaged["points"][0][field] = sound;
    }
    let endless = ["sweep", &sample, "--knob", "dram_bw", "1..2x10000", "--knob", "flops", "1..2x10000"];
    assert!(failure(2, &endless).contains("100000000 points, at most 100000 at a time"));
    assert!(failure(2, &["sweep", &sample, "--shard", "3/2"]).contains("expected I/N with I from 1 to N"));
}

#[test]
fn parts_of_different_sweeps_are_not_merged() {
    let (sample, folder) = (sample(GPU), tempfile::tempdir().unwrap());
    let write = |name: &str, part: &Value| {
        let file = folder.path().join(name).display().to_string();
        fs::write(&file, part.to_string()).unwrap();
        file
    };
    let sweep = |name: &str, more: &[&str]| write(name, &json(&[&["sweep", &sample], more].concat()));
    let knob = ["--knob", "dram_bw", "0.5..2x4"];
    let first = sweep("first", &[&knob[..], &["--shard", "1/2"]].concat());
    let merged = |other: &str| failure(1, &["sweep", "--merge", &first, other]);
    let others: [(&[&str], &str); 7] = [
        (&["--knob", "flops", "0.5..2x4", "--shard", "2/2"], "different knobs"),
        (&["--knob", "dram_bw", "0.5..8x4", "--shard", "2/2"], "different values"),
        (&["--knob", "dram_bw", "0.5..2x4", "--shard", "2/2", "--step", "scale kind=kernel x2"], "different edits"),
        (&["--knob", "dram_bw", "0.5..2x4", "--shard", "2/2", "--gpu", "H100"], "different edits"),
        (&["--knob", "dram_bw", "0.5..2x4", "--shard", "2/2", "--iteration", "0"], "different iterations"),
        (&["--knob", "dram_bw", "0.5..2x4", "--shard", "2/2", "--all-ranks"], "different inputs"),
        (&["--knob", "dram_bw", "0.5..2x4", "--shard", "2/3"], "expected each part once, found 1/2, 2/3"),
    ];
    for (arguments, expected) in others {
        let said = merged(&sweep("other", arguments));
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
    let second = json(&[&["sweep", &sample], &knob[..], &["--shard", "2/2"]].concat());
    let mut short = second.clone();
    short["points"].as_array_mut().unwrap().remove(0);
    assert!(merged(&write("other", &short)).contains("1 of 4 points are missing"));
    let mut strange = second.clone();
    strange["points"][1]["knobs"]["dram_bw"] = 3.0.into();
    assert!(merged(&write("other", &strange)).contains("dram_bw=3 is no point of this part"));
    let mut older = second;
    older.as_object_mut().unwrap().remove("sweep");
    assert!(merged(&write("other", &older)).contains("does not say which sweep it is a part of"));
    assert!(failure(1, &["sweep", "--merge", &first]).contains("2 of 4 points are missing"));
}

#[test]
fn batch_sizes_are_given_once_and_whole() {
    let path = sample(CAPTURE);
    for (command, arguments, why) in [
        ("sweep", &["--batch", "64,128", "--batch", "32"][..], "there twice"),
        ("sweep", &["--batch", "64.5"][..], "no whole number"),
        ("sweep", &["--batch", "64,64.5,66"][..], "64.5 is no whole number"),
        ("sweep", &["--knob", "accumulate", "1.5,2"][..], "1.5 is no whole number"),
        ("layers", &["--batch", "64,128", "--batch", "32"][..], "there twice"),
        ("layers", &["--batch", "64.5"][..], "no whole number"),
    ] {
        let output = retime().arg(command).arg(&path).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn shards_put_together_are_the_whole_sweep_with_what_was_said_of_it() {
    let (path, folder) = (sample(CAPTURE), tempfile::tempdir().unwrap());
    let sweep = |more: &[&str]| json(&[&["sweep", path.as_str(), "--batch", "8,16,24"], more].concat());
    let parts: Vec<String> = ["1/2", "2/2"]
        .into_iter()
        .map(|shard| {
            let file = folder.path().join(shard.replace('/', "of"));
            fs::write(&file, sweep(&["--shard", shard]).to_string()).unwrap();
            file.display().to_string()
        })
        .collect();
    let (merged, whole) = (json(&["sweep", "--merge", &parts[0], "--merge", &parts[1]]), sweep(&[]));
    assert_eq!(merged["points"], whole["points"]);
    assert_eq!(merged["diagnostics"], whole["diagnostics"]);
}

#[test]
fn parts_of_other_traces_under_the_same_name_are_not_merged() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json.gz").display().to_string();
    let part = |of: &str, shard: &str| {
        fs::copy(sample(of), &trace).unwrap();
        let file = folder.path().join(shard.replace('/', "of")).display().to_string();
        let answer = json(&["sweep", &trace, "--knob", "dram_bw", "0.5..2x4", "--shard", shard]);
        fs::write(&file, answer.to_string()).unwrap();
        file
    };
    let (first, second) = (part(GPU, "1/2"), part(CAPTURE, "2/2"));
    assert!(failure(1, &["sweep", "--merge", &first, &second]).contains("different traces"));
}

#[test]
fn a_step_that_a_knob_stands_for_is_told() {
    let sample = sample(CAPTURE);
    let swept = ["sweep", &sample, "--step", "scale-device dram_bw x0.01", "--knob", "dram_bw", "1,2"];
    let said = json(&swept)["replaced"].clone();
    assert_eq!(said, serde_json::json!(["`scale-device dram_bw x0.01`: the knob dram_bw takes its place"]));
    let text = retime().args(swept).assert().success().get_output().stdout.clone();
    assert!(String::from_utf8(text).unwrap().contains("replaced: `scale-device dram_bw x0.01`: the knob dram_bw"));
    assert!(json(&["sweep", &sample, "--knob", "dram_bw", "1,2"]).get("replaced").is_none());
}

#[test]
fn a_point_at_which_nothing_is_left_has_no_figures() {
    let sample = sample("mlp-b256-fp32-cpu.kineto.json.gz");
    let answer = json(&["sweep", &sample, "--knob", "*", "0,1"]);
    assert_eq!((answer["points"].as_array().unwrap().len(), &answer["not_done"][0]["knobs"]["*"]), (1, &0.0.into()));
    assert_eq!(answer["not_done"][0]["not_done"], "nothing is left that takes time");
    let left = json(&["simulate", &sample, "--step", "scale * x0"]);
    assert_eq!((&left["steady_ns"], &left["throughput"]), (&0.into(), &Value::Null));
}

//! Files that are not what they are taken for, or contradict themselves: the program says so, or refuses them by place and value.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use crate::support::program::{failure, json, retime, sample};

const CPU: &str = "mlp-b256-fp32-cpu.kineto.json.gz";
const GPU: &str = "dlrm-ddp-b256-on-v100.predicted.json.gz";

/// Standard output and error of a command that succeeds.
fn said(arguments: &[&str]) -> [String; 2] {
    let output = retime().args(arguments).assert().success().get_output().clone();
    [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
}

fn in_folder(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_mean_overhead_that_its_calls_rule_out_is_refused_wherever_the_database_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.json").display().to_string();
    let saved = json(&["overheads", &sample(GPU), "--save", &path]);
    let merged = json(&["overheads", "--merge", &path]);
    assert_eq!(merged["rows"], saved["rows"]);
    let recorded = |row: &Value| row["recorded_ns"].as_i64().unwrap();
    assert!(saved["rows"].as_array().unwrap().iter().all(|row| recorded(row) >= 0));
    let mut database: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let row = &mut database["rows"][0];
    let op = row["op"].as_str().unwrap().to_owned();
    row["mean_us"] = 1e6.into();
    let wrong = in_folder(folder.path(), "wrong.json", &database.to_string());
    for arguments in [vec!["overheads", "--merge", &wrong], vec!["simulate", &sample(GPU), "--overheads", &wrong]] {
        let message = failure(1, &arguments);
        assert!(
            message.contains("wrong.json") && message.contains(&format!("`{op}` has mean_us 1000000")),
            "{message}"
        );
        assert!(message.contains("which its calls_us rule out"), "{message}");
    }
}

#[test]
fn learning_from_a_prediction_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let exported = folder.path().join("predicted.json").display().to_string();
    json(&["export", &sample(CPU), "--batch", "512", "-o", &exported]);
    let arguments = ["simulate", &sample(CPU), "--learn", &exported, "--batch", "1024"];
    let [_, error] = said(&arguments);
    assert_eq!(error.matches("retime: learned-from-prediction: ").count(), 1, "{error}");
    let answer = json(&arguments);
    let told = answer["diagnostics"].as_array().unwrap().iter().find(|it| it["code"] == "learned-from-prediction");
    let told = told.unwrap()["message"].as_str().unwrap();
    assert!(told.contains("its times are predicted (resize-batch 512)"), "{told}");
}

#[test]
fn missing_files_with_signs_of_patterns_are_no_such_files() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a[.json", "a[1].json", "what?.json"] {
        let path = folder.path().join(name).display().to_string();
        let message = failure(1, &["info", &path]);
        assert!(message.contains("no such file") && !message.contains("yntax"), "{message}");
    }
    let there = in_folder(folder.path(), "b[1].json", &text_of(CPU));
    assert_eq!(json(&["info", &there])["traces"].as_array().unwrap().len(), 1);
}

/// The text of a packed sample.
fn text_of(name: &str) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(sample(name)).unwrap()).read_to_string(&mut text).unwrap();
    text
}

#[test]
fn copies_of_a_recording_are_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let copies = ["one.json", "two.json"].map(|name| in_folder(folder.path(), name, &text_of(CPU)));
    let arguments = ["layers", &sample(CPU), &copies[0], &copies[1]];
    assert_eq!(json(&arguments)["batch_sizes"][0]["runs"], 1);
    let [_, error] = said(&arguments);
    assert_eq!(error.matches("retime: repeated-run: ").count(), 2, "{error}");
}

#[test]
fn merged_parts_say_what_was_odd_as_one_sweep_does() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["sweep", &sample("alexnet.toml"), "--knob", "dram_bw", "1,2", "--json"];
    let whole = said(&arguments)[0].clone();
    let parts = ["1/2", "2/2"].map(|shard| {
        let part = said(&[&arguments[..], &["--shard", shard]].concat())[0].clone();
        in_folder(folder.path(), &shard.replace('/', "-"), &part)
    });
    let merged = said(&["sweep", "--json", "--merge", &parts[0], &parts[1]])[0].clone();
    assert!(whole.contains("predicted-times"), "{whole}");
    assert_eq!(merged, whole);
}

#[test]
fn numbers_beyond_all_range_are_told_by_their_power_of_ten() {
    for knob in ["dram_bw", "family=gemm", "resize-op family=gemm 4096->"] {
        let message = failure(2, &["sweep", &sample(GPU), "--knob", knob, "1e308"]);
        assert!(message.contains("1e308") && !message.contains("0000000000"), "{message}");
    }
}

#[test]
fn a_whole_figure_is_no_other_however_near() {
    let folder = tempfile::tempdir().unwrap();
    let script =
        in_folder(folder.path(), "batch.retime", "batch 512\nexpect batch = 512\nexpect batch = 512.0000001\n");
    let message = failure(3, &["run", &script, &sample(CPU)]);
    assert!(message.contains("line 3: expected batch = 512.0000001, got batch 512"), "{message}");
    assert!(!message.contains("line 2"), "{message}");
}

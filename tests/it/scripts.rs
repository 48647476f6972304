//! Scripts: each line is played on what all lines before it came to, and what it writes is that.
#![cfg(feature = "tui")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::program::{json, retime};
use crate::support::sample;

/// Plays `script` in a folder of its own on a sample; the folder.
fn played(script: &str, trace: &str, is_success: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("played.retime");
    fs::write(&path, script).unwrap();
    let output = retime().arg("run").arg(&path).arg(sample(trace)).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.success(), is_success, "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

fn lines(folder: &Path, file: &str) -> Vec<String> {
    fs::read_to_string(folder.join(file)).unwrap().lines().map(str::to_owned).collect()
}

const CAPTURE: &str = "h100/resnet50-b32-fp32-cuda.kineto.json.gz";

#[test]
fn a_view_that_a_script_writes_is_of_the_steps_before() {
    let script = "step mixed-precision bf16\nview operators\nexport! ops.csv\nexport! ops.md\n";
    let folder = played(script, CAPTURE, true);
    let path = sample(CAPTURE).display().to_string();
    let answer = json(&["ops", &path, "--level", "model", "--step", "mixed-precision bf16"]);
    let device_ms = answer["rows"][0]["device_ns"].as_f64().unwrap() / 1e6;
    let model = lines(folder.path(), "ops.csv").into_iter().find(|line| line.starts_with("▾ model,")).unwrap();
    let wanted = format!("{device_ms:.2} ms");
    assert!(model.contains(&wanted), "{model}: no {wanted}");
}

#[test]
fn what_a_view_computes_for_itself_is_there_before_the_next_line() {
    let folder = played("view sweep\nexport! sweep.csv\nview advise\nexport! advise.csv\n", CAPTURE, true);
    assert!(lines(folder.path(), "sweep.csv").len() > 4);
    assert!(lines(folder.path(), "advise.csv").len() > 4);
}

#[test]
fn the_line_after_another_iteration_is_about_that_one() {
    let path = sample(CAPTURE).display().to_string();
    let measured =
        |index: &str| json(&["simulate", &path, "--iteration", index])["measured_ns"].as_f64().unwrap() / 1e6;
    let (first, last) = (measured("0"), measured("3"));
    assert!((first / last - 1.0).abs() > 0.1);
    let expected = |at: f64| format!("expect measured < {:.1}ms\nexpect measured > {:.1}ms\n", 1.01 * at, 0.99 * at);
    let script = format!("iteration 0\n{}iteration 3\n{}save! kept.toml\n", expected(first), expected(last));
    let folder = played(&script, CAPTURE, true);
    assert!(lines(folder.path(), "kept.toml").iter().any(|line| line.contains("ProfilerStep#6")));
    played(&format!("iteration 0\n{}", expected(last)), CAPTURE, false);
}

#[test]
fn batch_sizes_are_given_once_and_whole() {
    let path: PathBuf = sample(CAPTURE);
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
    let (path, folder) = (sample(CAPTURE).display().to_string(), tempfile::tempdir().unwrap());
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

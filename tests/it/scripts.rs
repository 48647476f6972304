//! Scripts: each line is played on what all lines before it came to, and what it writes is that.
#![cfg(feature = "tui")]

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::program::{json, retime, sample};

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

/// Runs a script in a folder of its own; gives status, JSON answer and standard error.
fn run_script(folder: &Path, script: &str) -> (i32, Value, String) {
    let path = folder.join("script.retime");
    fs::write(&path, script).unwrap();
    let output = retime().arg("run").arg(&path).args([&sample(GPU), "--json"]).current_dir(folder).output().unwrap();
    let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code().unwrap(), answer, String::from_utf8(output.stderr).unwrap())
}

const CAPTURE: &str = "h100/resnet50-b32-fp32-cuda.kineto.json.gz";
const GPU: &str = "dlrm-ddp-b256-on-v100.predicted.json.gz";

#[test]
fn a_view_that_a_script_writes_is_of_the_steps_before() {
    let script = "step mixed-precision bf16\nview operators\nexport! ops.csv\nexport! ops.md\n";
    let folder = played(script, CAPTURE, true);
    let path = sample(CAPTURE);
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
    let path = sample(CAPTURE);
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
fn a_script_that_compares_a_trace_with_itself_fails_there() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("expect iteration > 1ns\ncompare {}\nexpect iteration > 1ns\n", sample(GPU));
    let (status, answer, said) = run_script(folder.path(), &script);
    assert_ne!(status, 0, "{answer} {said}");
    let lines = answer["lines"].as_array().unwrap();
    assert_eq!((&lines[0]["status"], &lines[1]["status"]), (&"holds".into(), &"error".into()), "{answer}");
}

#[test]
fn a_script_edits_expects_and_exports() {
    let folder = tempfile::tempdir().unwrap();
    let script = "# halves T1\nexpect replay_error within 1%\nstep scale kind=T1 x0.5\nexpect gain > 5%\nview gaps\n\
        undo\nexpect gain = 0%\nredo\nexport! gaps.md\nexport! markdown report.md\nsave steps.toml\nreset\nload steps.toml\nexpect gain > 5%\n";
    let (status, answer, said) = run_script(folder.path(), script);
    assert_eq!((status, said.as_str()), (0, ""), "{answer}");
    let lines = answer["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 13);
    assert_eq!((&lines[1]["line"], &lines[1]["status"]), (&3.into(), &"done".into()));
    assert_eq!(lines[2]["status"], "holds");
    let edited = json(&["simulate", &sample(GPU), "--step", "scale kind=T1 x0.5"]);
    assert_eq!(lines[2]["simulated_ns"], edited["simulated_ns"]);
    assert!(fs::read_to_string(folder.path().join("report.md")).unwrap().contains("## Steps"));
    assert!(fs::read_to_string(folder.path().join("gaps.md")).unwrap().contains("gaps\n"), "the view that is open");
}

#[test]
fn a_failing_expectation_exits_with_three_and_names_line_expected_and_got() {
    let folder = tempfile::tempdir().unwrap();
    let (status, answer, said) = run_script(folder.path(), "\nexpect iteration < 1ms\nexpect batch = 256\n");
    assert_eq!(status, 3);
    assert!(said.contains("script.retime, line 2: expected iteration < 1ms, got iteration "), "{said}");
    assert_eq!(answer["status"], "fails");
    assert_eq!(answer["lines"][1]["status"], "holds", "the rest is played");
}

#[test]
fn a_step_without_effect_fails_a_script_unless_the_next_line_expects_it() {
    let folder = tempfile::tempdir().unwrap();
    let (status, answer, said) =
        run_script(folder.path(), "step remove name=nothing\nstep scale kind=T1 x0.5\nexpect gain > 5%\n");
    assert_eq!((status, &answer["lines"][1]["status"]), (3, &"done".into()), "said once: {said}");
    assert!(said.contains("line 1: expected an effect, got none of remove name=nothing: nothing matches"), "{said}");
    let expected = "step remove name=nothing\nexpect no-effect\nundo\nexpect no-effect = 0\nexpect replay < 1%\n\
        step remove name=nothing\nexpect no-effect\nstep scale * x1\nbatch 256\nexpect not-modelled < 5 %\n";
    let (status, _, said) = run_script(folder.path(), expected);
    assert_eq!(status, 0, "{said}");
}

#[test]
fn a_line_that_cannot_be_carried_out_ends_the_script_with_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("there.md"), "precious").unwrap();
    for (script, expected) in [
        ("step scael kind=T1 x2\nundo\n", "did you mean `scale`?"),
        ("export there.md\nundo\n", "exists already"),
        ("open absent.json\nundo\n", "absent.json"),
        ("learn absent.json\nundo\n", "absent.json"),
        ("learn\nundo\n", "another batch size"),
        ("expect iteraton < 1ms\nundo\n", "did you mean `iteration`?"),
    ] {
        let (status, answer, said) = run_script(folder.path(), script);
        assert_eq!(status, 1, "{script}{said}");
        assert!(said.contains("line 1: ") && said.contains(expected), "{said}");
        assert_eq!(answer["lines"].as_array().unwrap().len(), 1, "{answer}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("there.md")).unwrap(), "precious");
}

#[test]
fn a_recorded_session_plays_to_the_same_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let record = "record taken.retime\nstep scale kind=T1 x0.5\nbatch 512\nchoose 1\ntoggle\nview path\nrecord\nundo\n";
    let (status, answer, said) = run_script(folder.path(), record);
    assert_eq!((status, said.as_str()), (0, ""));
    let taken = fs::read_to_string(folder.path().join("taken.retime")).unwrap();
    let lines: Vec<&str> = taken.lines().skip(1).collect();
    assert_eq!(lines, ["step scale kind=T1 x0.5", "batch 512", "choose 1", "toggle", "view path"]);
    let (status, again, _) = run_script(folder.path(), &taken);
    assert_eq!(status, 0);
    assert_eq!(again["lines"][4]["simulated_ns"], answer["lines"][5]["simulated_ns"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_script_reads_no_terminal_and_not_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    for (line, expected) in [
        ("open /dev/ptmx", "/dev/ptmx: a terminal is no file"),
        ("source /dev/ptmx", "/dev/ptmx: a terminal is no file"),
        ("learn /dev/ptmx", "/dev/ptmx: a terminal is no file"),
        ("open -", "standard input can be given when the program starts"),
    ] {
        let (status, _, said) = run_script(folder.path(), &format!("{line}\n"));
        assert!(status == 1 && said.contains(expected), "{line}: {said}");
    }
}

#[test]
fn the_script_that_is_recorded_is_replaced_by_nothing() {
    for line in ["save! taken.retime", "save taken.retime", "export! markdown taken.retime"] {
        let folder = tempfile::tempdir().unwrap();
        let (status, _, said) = run_script(folder.path(), &format!("record taken.retime\nstep scale * x0.5\n{line}\n"));
        assert!(status == 1 && said.contains("is being recorded to; :record ends that"), "{line}: {said}");
        assert!(fs::read_to_string(folder.path().join("taken.retime")).unwrap().ends_with("step scale * x0.5\n"));
    }
}

#[test]
fn a_recording_plays_on_the_iteration_and_with_the_traces_that_it_was_made_with() {
    let lines = ["iteration 0", "step scale kind=kernel x2", "as lin2022", "as replay"];
    let folder = played(&format!("record taken.retime\n{}\nrecord\n", lines.join("\n")), CAPTURE, true);
    let taken = fs::read_to_string(folder.path().join("taken.retime")).unwrap();
    assert_eq!(taken.lines().skip(1).collect::<Vec<_>>(), lines);
    let learn = format!("learn {}", sample("dlrm-ddp-b64-fp32-cpu.kineto.json.gz"));
    let script = format!("record taken.retime\n{learn}\nbatch 512\nrecord\nsave steps.toml\n");
    let folder = played(&script, "dlrm-ddp-b256-fp32-cpu.kineto.json.gz", true);
    let read = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
    assert_eq!(read("taken.retime").lines().skip(1).collect::<Vec<_>>(), [&learn, "batch 512"]);
    assert!(read("steps.toml").starts_with(&format!("# made after: {learn}\n")), "{}", read("steps.toml"));
}

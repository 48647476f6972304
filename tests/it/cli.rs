//! The program from outside: exit status, one-line errors, JSON fields, nothing overwritten.

use std::fs;
use std::io::Read as _;

use serde_json::Value;

use crate::support::program::{failure, json, retime, sample};
use crate::support::shared;

const CPU: &str = "dlrm-ddp-b256-fp32-cpu.kineto.json.gz";

#[test]
fn info_tells_what_is_in_a_trace() {
    let info = json(&["info", &sample(CPU)]);
    let trace = &info["traces"][0];
    assert_eq!((&trace["events"], &trace["ranks"]), (&5219.into(), &1.into()));
    assert_eq!(trace["batch_size"], 256);
    assert_eq!(trace["has_shapes"], true);
    assert_eq!(trace["has_execution_trace"], true);
    assert_eq!(trace["iterations"].as_array().unwrap().len(), 4);
    assert_eq!(trace["iterations"][1]["name"], "ProfilerStep#4");
    for field in ["path", "format", "skipped_events", "host_threads", "streams", "kernels", "device"] {
        assert!(trace.get(field).is_some(), "{field}");
    }
}

#[test]
fn two_ranks_are_one_job() {
    let rank = |rank: u32| sample(&format!("dlrm-ddp-b128-fp32-cpu-ws2-r{rank}.kineto.json.gz"));
    let info = json(&["info", &rank(0), &rank(1)]);
    assert_eq!(info["traces"].as_array().unwrap().len(), 1);
    assert_eq!(info["traces"][0]["ranks"], 2);
    let simulated = json(&["simulate", &rank(0), &rank(1)]);
    assert_eq!(simulated["ranks"].as_array().unwrap().len(), 2);
}

#[test]
fn the_untouched_replay_is_within_one_percent_of_the_measurement() {
    for name in [CPU, "mlp-b256-fp32-cpu.kineto.json.gz", "dlrm-ddp-fused-b256-fp32-cpu.kineto.json.gz"] {
        let answer = json(&["simulate", &sample(name)]);
        assert!(answer["replay_error"].as_f64().unwrap().abs() < 0.01, "{name}");
        assert_eq!(answer["simulated_ns"], answer["base_simulated_ns"]);
        assert_eq!(answer["error_band"]["low_ns"], answer["error_band"]["high_ns"]);
    }
}

#[test]
fn an_edit_that_only_removes_measured_time_has_a_band_and_one_that_changes_nothing_has_none() {
    let time = |answer: &Value, key: &str| answer["error_band"][key].as_i64().unwrap();
    let removed = json(&["simulate", &sample("mlp-b256-fp32-cpu.kineto.json.gz"), "--step", "remove phase=optimizer"]);
    let simulated = removed["simulated_ns"].as_i64().unwrap();
    assert!(simulated < removed["base_simulated_ns"].as_i64().unwrap());
    assert!(time(&removed, "low_ns") < simulated && simulated < time(&removed, "high_ns"));
    let same = json(&["simulate", &sample(CPU), "--step", "scale kind=T2 x1"]);
    assert_eq!(time(&same, "low_ns"), time(&same, "high_ns"));
}

#[test]
fn what_nobody_measured_of_devices_is_listed_with_what_stands_in() {
    let all = json(&["devices", "check"]);
    let rows = all["not_measured"].as_array().unwrap();
    let of = |device: &str, missing: &str| rows.iter().find(|row| row["device"] == device && row["missing"] == missing);
    let memory = of("H100-SXM", "dram_measured_gb_s").unwrap();
    assert!(memory["n"].as_u64().unwrap() >= 10 && memory["error"].as_f64().unwrap() < 0.1);
    assert!(of("V100", "dram_measured_gb_s").is_none() && of("B200", "model of conv").is_some());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    fs::write(&file, "[Mine]\ninherits = \"V100\"\n[Mine.figures]\nsm_count = 100\n").unwrap();
    let mine = json(&["devices", "check", file.to_str().unwrap()]);
    assert_eq!(mine["devices"], serde_json::json!(["Mine"]));
}

#[test]
fn a_table_that_cannot_be_used_is_named_and_the_others_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let header = "family,op,pass,dtype,cache,B,M,N,K,bytes,flops,time_us_median,device";
    let rows: Vec<String> =
        (1..9).map(|i| format!("gemm,mm,fwd,fp32,cold,1,{0},{0},{0},0,0,{1},T4", 256 * i, 90 * i * i * i)).collect();
    let good = write("good.csv", &format!("{header}\n{}\n", rows.join("\n")));
    let lacking = write("lacking.csv", &format!("{}\n{}\n", header.replace("dtype", "kind"), rows[0]));
    let output = retime().args(["validate", "models", &lacking, &good, "--json"]).assert().code(1).get_output().clone();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["unused"][0].as_str().unwrap().ends_with("lacking.csv: no column `dtype`"));
    assert!(!answer["rows"].as_array().unwrap().is_empty());
    assert!(failure(1, &["validate", "models", &lacking]).contains("no column `dtype`"));
}

#[test]
fn a_check_of_nothing_does_not_pass() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let span = r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":0.0001,"dur":0.0001,"args":{"stream":7}}"#;
    for (text, said) in [("", "is empty"), (&format!(r#"{{"traceEvents":[{span}]}}"#), "takes no time")] {
        fs::write(&path, text).unwrap();
        let output =
            retime().args(["validate", "replay", path.to_str().unwrap()]).assert().code(1).get_output().clone();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(shown.contains(said) && shown.contains("0 of 0"), "{shown}");
        failure(1, &["simulate", path.to_str().unwrap()]);
    }
}

#[test]
fn steps_apply_in_order_and_say_what_they_did() {
    let answer = json(&["predict", &sample(CPU), "--step", "scale kind=T1 x0", "--step", "scale name~embedding x0.5"]);
    let steps = answer["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0]["transform"], "scale kind=T1 x0");
    let sum: i64 = steps.iter().map(|step| step["marginal_ns"].as_i64().unwrap()).sum();
    let change = answer["steady_ns"].as_i64().unwrap() - answer["base_steady_ns"].as_i64().unwrap();
    assert_eq!(sum, change);
    assert!(change < 0);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let run = || {
        let arguments = ["simulate", &sample(CPU), "--batch", "512", "--json"].map(str::to_owned);
        retime().args(arguments).assert().success().get_output().stdout.clone()
    };
    assert_eq!(run(), run());
}

#[test]
fn bad_input_is_one_clear_line_and_the_right_status() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, contents: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, contents).unwrap();
        path.display().to_string()
    };
    let cases = [
        (file("empty.json", b""), "empty"),
        (file("text.json", b"hello"), ""),
        (file("cut.json", b"{\"traceEvents\": [{\"ph\": \"X\", "), ""),
        (file("cut.json.gz", &fs::read(sample(CPU)).unwrap()[..500]), ""),
        (file("none.json", b"{\"traceEvents\": []}"), ""),
        (file("schema.json", b"{\"a\": 1}"), ""),
        (folder.path().join("absent.json").display().to_string(), "absent.json"),
    ];
    for (path, expected) in cases {
        let message = failure(1, &["info", &path]);
        assert_eq!(message.trim_end().lines().count(), 1, "{path}: {message}");
        assert!(message.starts_with("retime: ") && message.contains(expected), "{path}: {message}");
        assert!(!message.contains("panicked"));
    }
}

#[test]
fn a_folder_without_traces_and_a_pattern_without_files_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let message = failure(1, &["info", &folder.path().display().to_string()]);
    assert!(message.contains("no trace"), "{message}");
    let pattern = folder.path().join("*.json").display().to_string();
    assert!(failure(1, &["info", &pattern]).contains("no file matches"));
}

#[test]
fn iterations_are_indices_and_sharders_are_listed_once() {
    let none = failure(2, &["simulate", &sample(CPU), "--iteration", "first"]);
    assert!(none.contains("expected an index from 0, `median`, or `all`"), "{none}");
    let unknown = failure(1, &["tables", &sample(CPU), "--sharder", "foo"]);
    assert_eq!(unknown.matches("size_greedy").count(), 1, "{unknown}");
}

#[test]
fn unknown_names_get_the_nearest_match() {
    let message = failure(2, &["simulate", &sample(CPU), "--step", "scael kind=kernel x2"]);
    assert!(message.contains("scale") && message.contains("column 1"), "{message}");
    let message = failure(1, &["devices", "show", "H2000"]);
    assert!(message.contains("H200"), "{message}");
    let message = failure(1, &["simulate", &sample(CPU), "--gpu", "H2OO"]);
    assert!(message.contains("H200") || message.contains("H100"), "{message}");
}

#[test]
fn wrong_usage_exits_with_two() {
    failure(2, &["simulate", "--no-such-flag"]);
    failure(2, &["info", "--json", "--csv"]);
    let sample = sample(CPU);
    for (command, wrong) in [
        ("simulate", &["--step", "resize-batch"][..]),
        ("simulate", &["--step", "resize-batch 0"]),
        ("sweep", &["--knob", "dram_bw", "4..1"]),
        ("sweep", &["--knob", "dram-bw", "1..4"]),
        ("sweep", &["--batch", "8..x"]),
        ("advise", &["--target", "much"]),
        ("tables", &["--memory-limit", "much"]),
    ] {
        let message = failure(2, &[&[command, &sample], wrong].concat());
        assert!(message.starts_with("retime: ") && message.lines().count() == 1, "{wrong:?}: {message}");
    }
}

#[test]
fn the_screen_refuses_a_pipe() {
    let message = failure(1, &[&sample(CPU)]);
    assert!(message.contains("no terminal") && message.contains("retime simulate"), "{message}");
}

#[test]
fn an_iteration_beyond_what_is_computed_is_an_error_not_a_figure() {
    let slowed = ["--step", "scale * x1000000", "--step", "scale * x1000000", "--step", "scale * x1000000"];
    for command in ["simulate", "path", "layers", "advise"] {
        let told = failure(1, &[&[command, &sample(CPU)], &slowed[..]].concat());
        assert!(told.contains("beyond what is computed") && told.lines().count() == 1, "{command}: {told}");
    }
    json(&[&["simulate", &sample(CPU)], &slowed[..2]].concat());
}

#[test]
fn control_characters_of_a_trace_never_reach_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evil.json");
    let event = |start: u32, name: &str| {
        format!("{{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"{name}\",\"pid\":1,\"tid\":1,\"ts\":{start},\"dur\":50}}")
    };
    let events = [event(0, "a\\u001b[2Jb"), event(100, "c\\u009b31m"), event(200, "\\u202ed")].join(",");
    fs::write(&path, format!("{{\"traceEvents\":[{events}]}}")).unwrap();
    for command in [&["info"][..], &["ops"], &["path"], &["simulate"], &["path", "--csv"]] {
        let (name, rest) = command.split_first().unwrap();
        let output = retime().arg(name).arg(&path).args(rest).output().unwrap();
        for bytes in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(bytes);
            assert!(!text.contains(['\x1b', '\u{9b}', '\u{202e}']), "{command:?}: {text:?}");
        }
    }
}

#[test]
fn control_characters_of_arguments_never_reach_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("\u{1b}[2J\u{202e}.script");
    fs::write(&script, "no-such-command\n").unwrap();
    let named = script.to_str().unwrap();
    for arguments in [&["run", named][..], &["info", named], &["devices", named], &["info", "--step", named]] {
        let output = retime().args(arguments).output().unwrap();
        assert!(!output.status.success() && !output.stderr.is_empty(), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains(['\x1b', '\u{202e}']), "{arguments:?}: {said:?}");
    }
}

#[test]
fn advice_is_ranked_and_a_goal_names_what_reaches_it() {
    let answer = json(&["advise", &sample(GPU), "--target", "-5%"]);
    let options = answer["options"].as_array().unwrap();
    // Gains of another batch are per sample: they stand apart, behind, one alone and one with the best of the rest.
    let (per_sample, same): (Vec<&Value>, Vec<&Value>) = options.iter().partition(|it| it["is_per_sample"] == true);
    assert!(per_sample.len() <= 2 && options.ends_with(&per_sample.iter().map(|&it| it.clone()).collect::<Vec<_>>()));
    let gains: Vec<f64> = same.iter().map(|option| option["gain"].as_f64().unwrap()).collect();
    assert!(gains.len() > 1 && gains.is_sorted_by(|a, b| a >= b) && *gains.last().unwrap() > 0.0, "{gains:?}");
    assert!(options.iter().any(|option| option["steps"].as_array().unwrap().len() > 1));
    for option in options {
        assert_eq!(keys(&option["error_band"]), ["high_ns", "low_ns"]);
    }
    assert_eq!(answer["goal"]["is_reached"], true);
    assert!(answer["goal"]["gain"].as_f64().unwrap() >= 0.05);
    let levers = answer["sensitivity"].as_array().unwrap();
    let at_most = |class: &str| levers.iter().find(|lever| lever["class"] == class).map(|l| l["gain_at_most"].as_f64());
    assert!(at_most("T4").is_some() && at_most("gemm").is_some());
    let steps: Vec<&str> = options[0]["steps"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect();
    let arguments: Vec<&str> = steps.iter().flat_map(|&step| ["--step", step]).collect();
    let simulated = json(&[&["simulate", &sample(GPU)][..], &arguments].concat());
    assert_eq!(simulated["simulated_ns"], options[0]["simulated_ns"]);
    assert!(failure(2, &["advise", &sample(GPU), "--target", "-120%"]).contains("above 0 % and below 100 %"));
}

const GPU: &str = "dlrm-ddp-b256-on-v100.predicted.json.gz";

/// The keys of an object, sorted.
fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn every_answer_has_its_documented_fields() {
    let sample = sample(GPU);
    let has = |value: &Value, wanted: &[&str]| {
        let found = keys(value);
        assert!(wanted.iter().all(|field| found.contains(field)), "{found:?} lacks some of {wanted:?}");
    };
    let path = json(&["path", &sample]);
    has(&path, &["traces", "diagnostics", "length_ns", "segments", "by_kind"]);
    assert_eq!(keys(&path["segments"][0]), ["duration_ns", "kind", "lane", "name", "rank", "slack_ns", "start_ns"]);
    let gaps = json(&["gaps", &sample]);
    has(&gaps["gaps"][0], &["rank", "stream", "start_ns", "duration_ns", "cause", "chain", "closed_by"]);
    assert_eq!(keys(&gaps["gaps"][0]["closed_by"][0]), ["gain_ns", "step"]);
    let overheads = json(&["overheads", &sample]);
    assert_eq!(keys(&overheads["rows"][0]), ["count", "mean_ns", "op", "recorded_ns", "std_ns", "type"]);
    assert!(overheads["rows"].as_array().unwrap().iter().all(|row| row["mean_ns"].is_i64() || row["mean_ns"].is_u64()));
    let breakdown = json(&["breakdown", &sample]);
    has(&breakdown["streams"][0], &["rank", "stream", "by_family", "idle"]);
    has(&breakdown["ranks"][0], &["communication_exposed_ns", "communication_overlapped_ns"]);
}

#[test]
fn the_parts_of_a_stream_add_up_to_its_rank_s_period() {
    let answer = json(&["breakdown", &sample(GPU)]);
    let sum = |parts: &Value| parts.as_object().unwrap().values().map(|part| part.as_i64().unwrap()).sum::<i64>();
    let stream = &answer["streams"][0];
    assert_eq!(sum(&stream["by_family"]) + sum(&stream["idle"]), answer["ranks"][0]["period_ns"].as_i64().unwrap());
}

#[test]
fn operators_are_selected_and_sorted() {
    let sample = sample(GPU);
    let all = json(&["ops", &sample, "--sort", "host"]);
    let host: Vec<i64> = all["rows"].as_array().unwrap().iter().map(|row| row["host_ns"].as_i64().unwrap()).collect();
    assert!(host.windows(2).all(|pair| pair[0] >= pair[1]), "{host:?}");
    let some = json(&["ops", &sample, "--select", "name~relu", "--sort", "name"]);
    let labels: Vec<&str> = some["rows"].as_array().unwrap().iter().map(|row| row["label"].as_str().unwrap()).collect();
    assert!(!labels.is_empty() && labels.len() < host.len(), "{labels:?}");
    assert!(labels.is_sorted());
    let message = failure(2, &["ops", &sample, "--select", "nmae~relu"]);
    assert!(message.contains("did you mean `name`"), "{message}");
}

#[test]
fn overheads_are_saved_and_merged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("overheads.json").display().to_string();
    let count = |answer: &Value| -> u64 {
        answer["rows"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum()
    };
    let once = json(&["overheads", &sample(GPU), "--save", &path]);
    let twice = json(&["overheads", &sample(GPU), "--merge", &path]);
    assert_eq!(count(&twice), 2 * count(&once));
    let copy = folder.path().join("copy.json").display().to_string();
    fs::copy(&path, &copy).unwrap();
    let repeated = retime().args(["overheads", "--merge", &path, &copy]).output().unwrap();
    assert!(String::from_utf8(repeated.stderr).unwrap().contains("count twice"));
    assert!(retime().args(["overheads", "--merge", &path]).output().unwrap().stderr.is_empty());
    assert!(failure(1, &["overheads", &sample(GPU), "--save", &path]).contains("--force"));
}

#[test]
fn layers_of_a_job_say_of_which_rank_they_are() {
    let job = sample("public/dlrm-v100x8");
    let answer = json(&["layers", &job]);
    assert_eq!((&answer["rank"], &answer["ranks"]), (&0.into(), &8.into()));
    let run = retime().args(["layers", &job]).output().unwrap();
    assert!(String::from_utf8(run.stdout).unwrap().starts_with("layers of rank 0, one of 8 ranks\n"));
}

#[test]
fn a_trace_that_is_not_there_fails_beside_one_that_replays() {
    let run = retime().args(["validate", "replay", "no-such-trace.json", &sample(GPU)]).assert().code(1);
    let said = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    assert!(said.contains("1 of 1 replay") && said.contains("no-such-trace.json"), "{said}");
}

#[test]
fn a_device_inherited_over_a_thousand_others_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let parent = |at: usize| if at == 0 { "H100-SXM".to_owned() } else { format!("X{}", at - 1) };
    let entries: Vec<String> = (0..1000).map(|at| format!("[X{at}]\ninherits = \"{}\"\n", parent(at))).collect();
    let file = folder.path().join("many.toml");
    fs::write(&file, entries.concat()).unwrap();
    let message = failure(1, &["devices", "check", &file.display().to_string()]);
    assert!(message.contains("inherited over more than 32"), "{message}");
}

#[test]
fn traces_that_do_not_belong_together_are_listed_by_info_and_refused_in_one_line_elsewhere() {
    let two = [sample(CPU), sample("mlp-b256-fp32-cpu.kineto.json.gz")];
    let info = json(&["info", &two[0], &two[1]]);
    assert_eq!(info["traces"].as_array().unwrap().len(), 2);
    let message = failure(1, &["simulate", &two[0], &two[1]]);
    assert!(message.contains("2 separate traces") && message.trim_end().lines().count() == 1, "{message}");
    let folder = sample("");
    assert!(failure(1, &["path", &folder]).contains("more; `retime info` lists them"));
}

#[test]
fn a_scenario_file_of_another_trace_needs_force_and_says_what_matched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.toml");
    fs::write(&path, "format = \"retime-scenario-1\"\ntrace = \"0123\"\nsteps = [\"scale kind=T1 x0.5\"]\n").unwrap();
    let path = path.display().to_string();
    let message = failure(1, &["simulate", &sample(GPU), "--scenario", &path]);
    assert!(message.contains("another trace") && message.contains("--force"), "{message}");
    let run = retime().args(["simulate", &sample(GPU), "--scenario", &path, "--force", "--json"]).output().unwrap();
    assert!(run.status.success());
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(said.contains("1. scale kind=T1 x0.5: "), "{said}");
}

#[test]
fn a_scenario_file_of_another_iteration_of_the_trace_applies_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (file, script) = (folder.path().join("made.toml"), folder.path().join("save.retime"));
    fs::write(&script, format!("scale kind=T1 x0.5\nsave {}\n", file.display())).unwrap();
    retime().args(["run", script.to_str().unwrap(), &sample(CPU), "--iteration", "0"]).assert().success();
    let file = file.display().to_string();
    let simulate = |trace: &str, iteration: &str| {
        let run = retime().args(["simulate", trace, "--iteration", iteration, "--scenario", &file]).output().unwrap();
        (run.status.success(), String::from_utf8(run.stderr).unwrap())
    };
    assert_eq!(simulate(&sample(CPU), "0"), (true, String::new()));
    let (applied, said) = simulate(&sample(CPU), "2");
    assert!(applied && said.contains("of this trace, applied to another iteration of it"), "{said}");
    let (applied, said) = simulate(&sample("dlrm-ddp-b64-fp32-cpu.kineto.json.gz"), "0");
    assert!(!applied && said.contains("made for another trace"), "{said}");
}

#[test]
fn the_prompt_and_scenario_files_refuse_what_the_command_line_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    for (line, typed, expected) in [
        ("swap-gpu H1000", "swap-gpu H1000", "column 10: no device `H1000`; nearest: H100-SXM"),
        ("swap-gpu H1000", "try swap-gpu H1000", "column 14: no device `H1000`"),
        ("swap-gpu H1000", "gpu H1000", "column 5: no device `H1000`"),
        ("place-on V1000", "place-on V1000", "column 10: no device `V1000`; nearest: V100"),
        (
            "swap-link NVLnk4",
            "edit 1 swap-link NVLnk4",
            "column 18: unknown interconnect `NVLnk4`; did you mean `NVLink4`?",
        ),
        ("scale-ranks 16 NVLnk4", "scale-ranks 16 NVLnk4", "column 16: unknown interconnect `NVLnk4`"),
        ("bucket-size 0", "bucket-size 0", "column 13: `0`: expected a number from 0.001 to 1000000"),
    ] {
        let script = write("prompt.retime", format!("scale kind=T1 x1\n{typed}\n"));
        let said = retime().args(["run", &script, &sample(GPU)]).output().unwrap();
        let said = String::from_utf8(said.stderr).unwrap();
        assert!(said.contains(expected), "{typed}: {said}");
        let (_, message) = expected.split_once(": ").unwrap();
        // What cannot be read is wrong usage; a name that nobody has could not be done.
        let status = if message.contains("expected a number") { 2 } else { 1 };
        let said = failure(status, &["simulate", &sample(GPU), "--step", line]);
        assert!(said.contains(message) && said.contains("column "), "{line}: {said}");
        let file = write("steps.toml", format!("format = \"retime-scenario-1\"\nsteps = [\"{line}\"]\n"));
        let said = failure(1, &["simulate", &sample(GPU), "--scenario", &file]);
        assert!(said.contains(message) && said.contains("step 1"), "{line}: {said}");
        let script = write("load.retime", format!("load {file}\n"));
        let said = retime().args(["run", &script, &sample(GPU)]).output().unwrap();
        let said = String::from_utf8(said.stderr).unwrap();
        assert!(said.contains(message) && said.contains("step 1"), "{line}: {said}");
    }
}

#[test]
fn a_table_of_layers_is_timed_on_a_gpu_and_moves_to_another() {
    let table = sample("alexnet.toml");
    let time = |device: &str| {
        let answer = json(&["simulate", &table, "--step", &format!("place-on {device}")]);
        let of = |field: &str| answer[field].as_f64().unwrap();
        (of("simulated_ns"), of("gpu_active_ns"))
    };
    let (slow, fast) = (time("P100"), time("H100"));
    // One image at a time leaves the iteration to the host's launches; the kernels take less.
    assert!(fast.0 > 0.0 && fast.0 <= slow.0, "{fast:?} {slow:?}");
    assert!(fast.1 > 0.0 && fast.1 < slow.1, "{fast:?} {slow:?}");
    let points = json(&["roofline", &table, "--level", "model"]);
    let flop = points["points"][0]["flop"].as_f64().unwrap();
    // 714 188 480 multiply-accumulates of convolutions and products worked out by hand, and little else.
    assert!((flop / (2.0 * 714_188_480.0) - 1.0).abs() < 0.02, "{flop}");
}

#[test]
fn what_a_step_says_has_a_kind_and_a_share() {
    let lines = ["remove name=nothing", "parallelize kind=T1", "cuda-graph", "resize-op * 3->7"];
    let gpu = sample(GPU);
    let mut arguments = vec!["simulate", &gpu];
    arguments.extend(lines.iter().flat_map(|line| ["--step", line]));
    let answer = json(&arguments);
    let said = |step: usize, kind: &str| {
        let effects = answer["steps"][step]["effects"].as_array().unwrap();
        effects.iter().find(|effect| effect["kind"] == kind).cloned()
    };
    assert!(said(0, "no-effect").unwrap()["text"].as_str().unwrap().starts_with("nothing matches"), "{answer}");
    for (step, line) in lines.iter().enumerate() {
        let texts = answer["steps"][step]["effects"].as_array().unwrap().iter().map(|effect| &effect["text"]);
        assert!(texts.eq(answer["steps"][step]["unhandled"].as_array().unwrap()), "{line}: {answer}");
    }
}

#[test]
fn all_iterations_are_answered_one_by_one_and_together() {
    let sample = sample(CPU);
    let all = json(&["simulate", &sample, "--iteration", "all", "--step", "scale kind=T1 x0"]);
    let rows = all["iterations"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    let second = json(&["simulate", &sample, "--iteration", "1", "--step", "scale kind=T1 x0"]);
    assert_eq!(rows[1]["name"], "ProfilerStep#4");
    assert_eq!(rows[1]["simulated_ns"], second["simulated_ns"]);
    let of = |row: &Value| row["measured_ns"].as_i64().unwrap();
    let mean = rows.iter().map(of).sum::<i64>() as f64 / 4.0;
    assert!((all["summary"]["measured"]["mean_ns"].as_f64().unwrap() - mean).abs() <= 1.0);
    for command in ["path", "gaps", "breakdown"] {
        let all = json(&[command, &sample, "--iteration", "all"]);
        assert_eq!(all["iterations"].as_array().unwrap().len(), 4, "{command}");
    }
    let refusal = failure(1, &["ops", &sample, "--iteration", "all"]);
    assert!(refusal.contains("models one step") && refusal.lines().count() == 1, "{refusal}");
}

#[test]
fn the_path_of_the_measured_times_adds_up_and_tasks_have_slack() {
    let sample = sample(CPU);
    let path = json(&["path", &sample, "--measured", "--slack"]);
    let sum = |key: &str| -> i64 {
        path[key].as_array().unwrap().iter().map(|segment| segment["duration_ns"].as_i64().unwrap()).sum()
    };
    assert_eq!(path["times"], "measured");
    assert_eq!(sum("segments"), path["length_ns"].as_i64().unwrap());
    let simulated = json(&["simulate", &sample]);
    assert_eq!(path["length_ns"], simulated["measured_ns"]);
    let tasks = path["tasks"].as_array().unwrap();
    assert!(tasks.iter().filter(|task| task["on_path"] == true).all(|task| task["slack_ns"] == 0));
    assert!(failure(1, &["path", &sample, "--measured", "--step", "scale kind=T1 x0"]).contains("no edits"));
}

#[test]
fn the_roofline_lies_under_its_roofs_and_takes_a_hypothetical_device() {
    let answer = json(&["roofline", &sample(GPU), "--device", "V100", "--algorithms"]);
    let (ridge, points) = (answer["ridge"].as_f64().unwrap(), answer["points"].as_array().unwrap());
    assert!((ridge - 15.7e12 / 900e9).abs() < 0.5, "{ridge}");
    assert!(!points.is_empty());
    for point in points {
        let Some(intensity) = point["intensity"].as_f64() else { continue };
        let is_memory = point["bound"] == "memory";
        let is_otherwise = point["precision"] != "fp32" || point["bound"] == "accesses";
        assert!(is_otherwise || is_memory == (intensity < ridge), "{point}");
    }
    let mut names: Vec<&str> =
        answer["algorithms"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    names.dedup();
    assert_eq!(names.len(), 7);
    let other = json(&["roofline", &sample(GPU), "--level", "model", "--peak", "10", "--bandwidth", "1000"]);
    assert!((other["ridge"].as_f64().unwrap() - 10.0).abs() < 1e-9);
    assert_eq!(other["points"].as_array().unwrap().len(), 1);
    assert!(failure(2, &["roofline", &sample(GPU), "--peak", "0"]).contains("--peak"));
}

#[test]
fn layers_add_up_and_several_runs_are_trimmed_means() {
    let names = ["layers", "layer_latency", "layer_memory", "count_by_type", "latency_by_type", "memory_by_type"];
    let more = ["kernels", "kernel_roofline", "kernels_by_name", "kernels_by_layer", "layer_work", "layer_host"];
    let one = json(&["layers", &sample(CPU)]);
    for name in names.into_iter().chain(more).chain(["batch_sizes", "layer_roofline", "model", "stages"]) {
        assert!(!one[name].as_array().unwrap().is_empty(), "{name}");
    }
    let sum = |rows: &Value, field: &str| -> i64 {
        rows.as_array().unwrap().iter().map(|row| row[field].as_i64().unwrap()).sum()
    };
    assert_eq!(sum(&one["layers"], "latency_ns"), sum(&one["latency_by_type"], "value"));
    assert_eq!(sum(&one["kernels"], "duration_ns"), sum(&one["kernels_by_name"], "latency_ns"));
    for layer in one["layer_host"].as_array().unwrap() {
        assert!(layer["host_ns"].as_i64().unwrap() >= 0, "{layer}");
    }
    let folder = tempfile::tempdir().unwrap();
    let again = folder.path().join("again.json");
    let mut text = String::new();
    flate2::read::GzDecoder::new(fs::File::open(sample(CPU)).unwrap()).read_to_string(&mut text).unwrap();
    // Of a run that is not the same to the last nanosecond.
    fs::write(&again, text.replacen("\"dur\": 36.355", "\"dur\": 36.356", 1)).unwrap();
    let two = json(&["layers", &sample(CPU), again.to_str().unwrap(), &sample("mlp-b256-fp32-cpu.kineto.json.gz")]);
    assert_eq!(two["batch_sizes"][0]["runs"], 2);
    assert_eq!(two["other_runs"], 1, "another model is no run of this");
    let twice = json(&["layers", &sample(CPU), "--batch", "512"]);
    assert_eq!(twice["batch_sizes"][0]["batch"], 512);
    assert_eq!(two["traces"].as_array().unwrap().len(), 3);
    assert!(two["diagnostics"].is_array());
}

#[test]
fn a_device_is_shown_with_every_figure_its_source_its_fits_and_its_collectives() {
    let device = &json(&["devices", "show", "A100-80"])["devices"][0];
    let figures = device["figures"].as_array().unwrap();
    for key in
        ["sm_count", "clock_mhz", "l2_mib", "l2_gb_s", "dram_gb_s", "dram_measured_gb_s", "peak_tflops.bf16_tensor"]
    {
        let figure = figures.iter().find(|figure| figure["key"] == key).unwrap();
        assert!(figure["value"].as_f64().unwrap() > 0.0 && !figure["source"].as_str().unwrap().is_empty(), "{figure}");
    }
    let fits = device["fits"].as_array().unwrap();
    assert!(fits.iter().all(|fit| fit["error"].as_f64().unwrap() > 0.0), "{fits:?}");
    let curves = device["link"]["curves"].as_array().unwrap();
    assert!(
        curves
            .iter()
            .any(|curve| curve["collective"] == "all-reduce" && curve["ranks"] == 8 && curve["carried"] == false)
    );
}

#[test]
fn bad_tables_of_measurements_are_refused_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |text: &str| {
        let (table, device) = (folder.path().join("table.csv"), folder.path().join("out.toml"));
        fs::write(&table, text).unwrap();
        let message = failure(1, &["calibrate", table.to_str().unwrap(), "--out", device.to_str().unwrap()]);
        assert!(!device.exists(), "nothing is written");
        message
    };
    let head = "system,gemm_dtype,m,n,k,latency_ms\n";
    let says = |message: &str, parts: &[&str]| assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    says(&refused("system,gemm_dtype,m,n,latency_ms\nh100_sxm,bfloat16,1,1,1\n"), &["table.csv", "no column `k`"]);
    says(&refused(&format!("{head}h100_sxm,bfloat16,64,64,64,NaN\n")), &["line 2", "`latency_ms`", "NaN"]);
    says(&refused(&format!("{head}h100_sxm,bfloat16,64,-1,64,1\n")), &["line 2", "`n`", "-1"]);
    says(&refused(head), &["no measurements"]);
    says(&refused(&format!("{head}h100_sxm,bfloat16,4096,4096,4096,0.2\n")), &["at least"]);
    let nanoseconds = format!("{head}h100_sxm,bfloat16,8192,8192,8192,0.000002\n");
    says(&refused(&nanoseconds), &["line 2", "unit"]);
}

#[test]
fn layers_over_all_steps_are_the_trimmed_means_of_the_steps() {
    let steps = json(&["simulate", &sample(CPU), "--iteration", "all"]);
    let mut times: Vec<i64> =
        steps["iterations"].as_array().unwrap().iter().map(|step| step["measured_ns"].as_i64().unwrap()).collect();
    times.sort_unstable();
    let cut = if times.len() < 3 { 0 } else { (times.len() / 5).max(1) };
    let kept = &times[cut..times.len() - cut];
    let mean = kept.iter().sum::<i64>() / kept.len() as i64;
    let layers = json(&["layers", &sample(CPU), "--iteration", "all"]);
    assert_eq!(
        (layers["runs"].as_u64().unwrap() as usize, layers["batch_sizes"][0]["latency_ns"].as_i64().unwrap()),
        (times.len(), mean)
    );
    assert!(times.len() >= 3, "{times:?}");
}

#[test]
fn layers_of_an_edited_run_take_their_edited_times() {
    let time = |step: &str| {
        let answer = json(&["layers", &sample(CPU), "--step", step]);
        answer["layers"].as_array().unwrap().iter().map(|row| row["latency_ns"].as_i64().unwrap()).sum::<i64>() as f64
    };
    let half = time("scale kind=op x0.5") / time("scale kind=op x1");
    assert!((0.4..0.7).contains(&half), "{half}");
}

#[test]
fn overheads_of_another_source_are_a_first_step_that_sets_host_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("overheads.json").display().to_string();
    json(&["overheads", &sample(GPU), "--save", &path]);
    let mut database: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    for row in database["rows"].as_array_mut().unwrap() {
        row["mean_us"] = (row["mean_us"].as_f64().unwrap() * 3.0).into();
        let calls = row["calls_us"].as_array().unwrap().iter().map(|us| us.as_f64().unwrap() * 3.0);
        row["calls_us"] = calls.collect::<Vec<_>>().into();
    }
    fs::write(&path, database.to_string()).unwrap();
    let slow = json(&["simulate", &sample(GPU), "--overheads", &path]);
    assert!(slow["simulated_ns"].as_i64() > slow["base_simulated_ns"].as_i64());
    assert_eq!(
        (&slow["overheads"], &slow["steps"][0]["transform"]),
        (&path.as_str().into(), &format!("overheads {path}").into())
    );
    assert_eq!(json(&["simulate", &sample(GPU)])["overheads"], "measured");
    assert!(failure(1, &["simulate", &sample(GPU), "--overheads", "no-such.json"]).contains("no-such.json"));
}

#[test]
fn compare_tells_which_is_faster_only_beyond_the_error() {
    let two = [sample(CPU), sample("dlrm-ddp-fused-b256-fp32-cpu.kineto.json.gz")];
    let traces = json(&["compare", &two[0], &two[1]]);
    let has = keys(&traces);
    for field in ["a", "b", "delta_ns", "error_ns", "rows", "traces", "verdict", "diagnostics"] {
        assert!(has.contains(&field), "{field}");
    }
    assert_eq!(traces["traces"].as_array().unwrap().len(), 2);
    let measured = |name: &String| json(&["simulate", name])["base_steady_ns"].as_i64().unwrap();
    assert_eq!(traces["delta_ns"].as_i64().unwrap(), measured(&two[1]) - measured(&two[0]));
    let row = |answer: &Value, name: &str| {
        answer["rows"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"].as_str().unwrap().contains(name))
            .unwrap()
            .clone()
    };
    let linear = row(&traces, "aten::linear");
    assert_eq!(linear["a_count"], linear["matched"], "both have the same layers");
    let same = json(&["compare", &two[0], &two[0]]);
    assert_eq!((&same["verdict"], &same["delta_ns"]), (&"cannot-tell".into(), &0.into()));

    let folder = tempfile::tempdir().unwrap();
    let scenario = |name: &str, steps: &str| {
        let path = folder.path().join(name);
        fs::write(&path, format!("format = \"retime-scenario-1\"\nsteps = [{steps}]\n")).unwrap();
        path.display().to_string()
    };
    let (slow, fast) =
        (scenario("slow.toml", "\"scale kind=kernel x3\""), scenario("fast.toml", "\"scale kind=kernel x2\""));
    let answer = json(&["compare", &slow, &fast, "--on", &sample(GPU)]);
    assert_eq!(answer["verdict"], "cannot-tell", "times of the trace are predictions, which are off by more");
    let with = |file: &str| json(&["simulate", &sample(GPU), "--scenario", file])["simulated_ns"].as_i64().unwrap();
    assert_eq!(answer["delta_ns"].as_i64().unwrap(), with(&fast) - with(&slow));
    let linear = row(&answer, "aten::linear");
    let [a, b] = ["a_ns", "b_ns"].map(|field| linear[field].as_f64().unwrap());
    assert!((a / b - 1.5).abs() < 0.01, "{linear}");
    let calls = json(&["compare", &sample(GPU), "--step", "remove name~relu", "--calls"]);
    assert_eq!(calls["a"]["name"], "unedited");
    assert!(failure(1, &["compare", &sample(GPU)]).contains("two traces"));
}

#[test]
fn compare_scores_a_prediction_and_says_where_it_erred() {
    let traces =
        [sample("dlrm-ddp-b64-fp32-cpu.kineto.json.gz"), sample("dlrm-ddp-fused-b256-fp32-cpu.kineto.json.gz")];
    let answer = json(&["compare", &traces[0], &traces[1], "--step", "fuse-embedding-bags", "--batch", "256"]);
    let score = &answer["score"];
    let number = |value: &Value| value.as_i64().unwrap();
    let predicted =
        json(&["simulate", &traces[0], "--step", "fuse-embedding-bags", "--batch", "256"])["simulated_ns"].clone();
    assert_eq!(score["predicted_ns"], predicted);
    assert_eq!(number(&score["error_ns"]), number(&predicted) - number(&answer["b"]["iteration_ns"]));
    assert_eq!(score["is_direction_right"], true);
    for parts in ["by_operator", "by_kind"] {
        let parts = score[parts].as_array().unwrap();
        let sum: i64 = parts.iter().map(|part| number(&part["error_ns"])).sum();
        let off = (sum - number(&score["error_ns"])) as f64 / number(&answer["b"]["iteration_ns"]) as f64;
        assert!(off.abs() < 0.01, "parts add up to {sum}, not {}", score["error_ns"]);
        let sizes: Vec<i64> = parts.iter().map(|part| number(&part["error_ns"]).abs()).collect();
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    }
    let rows = answer["rows"].as_array().unwrap();
    for (side, total) in [("a_path_ns", &predicted), ("b_path_ns", &answer["b"]["iteration_ns"])] {
        let sum: i64 = rows.iter().map(|row| number(&row[side])).sum();
        assert!((sum as f64 / number(total) as f64 - 1.0).abs() < 0.01, "{side}: {sum} of {total}");
    }
    let unedited = json(&["compare", &traces[0], &traces[1]]);
    assert!(unedited["score"].is_null(), "what was measured predicts nothing");
    assert_eq!(unedited["per_sample"]["verdict"], "b-faster", "four times the samples");
    assert_eq!(unedited["verdict"], "a-faster");
}

#[test]
fn compare_takes_any_number_of_sides() {
    let traces = [sample(CPU), sample("dlrm-ddp-fused-b256-fp32-cpu.kineto.json.gz")];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("half.toml").display().to_string();
    fs::write(&path, "format = \"retime-scenario-1\"\nsteps = [\"scale kind=compute x0.5\"]\n").unwrap();
    let answer = json(&["compare", &traces[0], &path, &traces[1]]);
    let sides = answer["sides"].as_array().unwrap();
    assert_eq!(sides.len(), 3);
    assert_eq!(sides[0]["difference"], Value::Null);
    assert_eq!(sides[1]["difference"]["verdict"], "b-faster");
    assert_eq!(sides[1]["steps"][0], "scale kind=compute x0.5");
    assert_eq!(sides[2]["source"], "measured");
    let operators = answer["operators"].as_array().unwrap();
    assert!(operators.iter().all(|row| row["times_ns"].as_array().unwrap().len() == 3));
    let bags = operators.iter().find(|row| row["name"] == "aten::embedding_bag").unwrap();
    assert_eq!(bags["counts"][1], bags["counts"][0]);
    assert_ne!(bags["counts"][2], bags["counts"][0], "fused");
    let text = retime().args(["compare", &traces[0], &path, &traces[1]]).assert().success();
    let text = String::from_utf8(text.get_output().stdout.clone()).unwrap();
    assert!(text.contains("half.toml") && text.contains("after A what is different"), "{text}");
}

#[cfg(feature = "tui")]
#[test]
fn a_second_trace_that_is_opened_on_the_screen_tells_how_the_model_grows() {
    let Some(captures) = shared("cpu-captured") else { return };
    let capture = |batch: u32| captures.join(format!("mlp-b{batch}-fp32-cpu.kineto.json.gz"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("script.retime");
    fs::write(&path, format!("batch 1024\nview path\nlearn {}\nview timeline\n", capture(256).display())).unwrap();
    let output = retime().arg("run").arg(&path).arg(capture(64)).arg("--json").output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let simulated = |line: usize| answer["lines"][line]["simulated_ns"].as_i64().unwrap();
    assert_ne!(simulated(1), simulated(3), "{answer}");
    let mut both = retime();
    both.args(["simulate", "--json", "--batch", "1024", "--learn"]).arg(capture(256)).arg(capture(64));
    let told: Value = serde_json::from_slice(&both.output().unwrap().stdout).unwrap();
    assert_eq!(told["simulated_ns"].as_i64().unwrap(), simulated(3));
}

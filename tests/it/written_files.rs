//! What `export`, reports and pictures write: what it holds, that it opens again, and that nothing is overwritten.

use std::fs;

use serde_json::Value;

use crate::support::program::{failure, json, retime, sample};

const CPU: &str = "dlrm-ddp-b256-fp32-cpu.kineto.json.gz";
const GPU: &str = "dlrm-ddp-b256-on-v100.predicted.json.gz";

#[test]
fn existing_files_are_kept_unless_forced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    fs::write(&path, "precious").unwrap();
    let out = path.display().to_string();
    let message = failure(1, &["export", &sample(CPU), "-o", &out]);
    assert!(message.contains("--force"), "{message}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    let written = json(&["export", &sample(CPU), "-o", &out, "--force"]);
    assert_eq!(written["files"], serde_json::json!([out]));
    assert_eq!(written["size_bytes"], fs::metadata(&path).unwrap().len());
}

#[test]
fn no_command_writes_over_what_it_read() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, script, steps, saved) = (place("t.json.gz"), place("s.retime"), place("steps.toml"), place("o.json"));
    fs::copy(sample("mlp-b256-fp32-cpu.kineto.json.gz"), &trace).unwrap();
    fs::write(&script, format!("step scale * x0.5\nsave! {trace}\n")).unwrap();
    fs::write(place("own.retime"), format!("export! {}\n", place("own.retime"))).unwrap();
    fs::write(place("first.retime"), format!("step scale * x0.5\nsave {steps}\n")).unwrap();
    retime().args(["run", &place("first.retime"), &trace]).assert().success();
    retime().args(["overheads", &trace, "--save", &saved]).assert().success();
    let kept = |name: &str| fs::read(name).unwrap();
    for (name, arguments) in [
        (&trace, vec!["overheads", &trace, "--save", &trace, "--force"]),
        (&trace, vec!["run", &script, &trace]),
        (&trace, vec!["simulate", &trace, "--log", &trace]),
        (&steps, vec!["export", &trace, "--scenario", &steps, "--force", "-o", &steps]),
        (&saved, vec!["export", &trace, "--overheads", &saved, "--force", "-o", &saved]),
        (&saved, vec!["overheads", &trace, "--merge", &saved, "--force", "--save", &saved]),
        (&place("own.retime"), vec!["run", &place("own.retime"), &trace]),
    ] {
        let before = kept(name);
        let output = retime().args(&arguments).output().unwrap();
        assert!(!output.status.success() && kept(name) == before, "{arguments:?} wrote over {name}");
    }
    // Databases without a trace are merged with one another alone.
    let both = place("both.json");
    retime().args(["overheads", "--merge", &saved, &saved, "--save", &both]).assert().success();
    let rows = |arguments: &[&str]| json(arguments)["rows"].as_array().unwrap().clone();
    let (one, two) = (rows(&["overheads", &trace]), rows(&["overheads", "--merge", &both]));
    assert_eq!(one.len(), two.len());
    for (one, two) in one.iter().zip(&two) {
        assert_eq!((&one["op"], &one["type"]), (&two["op"], &two["type"]));
        assert_eq!(2 * one["count"].as_u64().unwrap(), two["count"].as_u64().unwrap());
    }
}

#[test]
fn a_comparison_is_written_as_a_report_and_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both.md").display().to_string();
    let arguments = ["compare", &sample(GPU), "--step", "scale kind=T1 x3", "-o", &path];
    let answer = json(&arguments);
    let text = fs::read_to_string(&path).unwrap();
    let of_side = |at: usize| answer["sides"][at]["iteration_ns"].as_i64().unwrap();
    assert!(of_side(1) > of_side(0));
    assert!(text.contains("Side by side") && text.contains("scale kind=T1 x3") && text.contains("slower"), "{text}");
    assert!(failure(1, &arguments).contains("exists already"));
    let other = ["compare", &sample(GPU), "--step", "scale kind=T1 x3", "-o", "both.svg"];
    assert!(failure(1, &other).contains("expected .md or .html"));
}

#[test]
fn a_report_holds_the_figures_of_the_json_answer_and_stands_alone() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str| {
        let path = folder.path().join(name);
        let step = "scale kind=T1 x0.5";
        retime().args(["export", &sample(GPU), "--step", step, "-o"]).arg(&path).assert().success();
        fs::read_to_string(path).unwrap()
    };
    let answer = json(&["simulate", &sample(GPU), "--step", "scale kind=T1 x0.5"]);
    let ms = |field: &str| format!("{:.2} ms", answer[field].as_f64().unwrap() / 1e6);
    let markdown = write("report.md");
    assert!(markdown.contains(&format!("{} → {}", ms("base_steady_ns"), ms("steady_ns"))), "{markdown}");
    for heading in ["## Steps", "## Critical path", "## Largest gaps", "## Where the times come from"] {
        assert!(markdown.contains(heading), "{heading}");
    }
    assert!(markdown.contains("--step 'scale kind=T1 x0.5'"), "{markdown}");
    let html = write("report.html");
    assert!(html.contains("<svg") && html.ends_with("</html>\n"));
    assert!(!html.contains("src=") && !html.contains("href="), "it loads something");
}

#[test]
fn a_report_has_charts_of_roofs_and_batches_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let written = |trace: &str, more: &[&str]| {
        retime().args(["export", trace, "--force", "-o"]).arg(&path).args(more).assert().success();
        fs::read_to_string(&path).unwrap()
    };
    let vgg = sample("public/vgg13-train-h100.json.gz");
    let html = written(&vgg, &["--step", "mixed-precision bf16"]);
    for shown in
        ["roofs of H100-SXM", ">bf16 989 TFLOP/s<", ">tf32 495 TFLOP/s<", "Samples per second", "has 80.00 GiB"]
    {
        assert!(html.contains(shown), "{shown}");
    }
    // The present batch is a point of the chart, with the iteration that `simulate` gives.
    let answer = json(&["simulate", &vgg, "--step", "mixed-precision bf16"]);
    let present = format!("{:.1} ms", answer["steady_ns"].as_f64().unwrap() / 1e6);
    assert!(html.lines().any(|line| line.contains("<title>512: ") && line.contains(&present)), "{present}");
    let html = written("tests/inputs/unsorted.json", &[]);
    assert!(html.contains("no chart of rooflines: ") && html.contains("no chart of batch sizes: "), "{html}");
}

#[test]
fn the_picture_shows_every_lane_and_what_is_critical() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("timeline.svg");
    retime().args(["export", &sample(GPU), "-o"]).arg(&path).assert().success();
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(">stream 7</text>") && text.contains(">thread "));
    assert!(text.contains(">gemm</text>") && text.contains("fill=\"#d1242f\""));
    let opened = text.matches("<rect").count();
    assert_eq!(opened, text.matches("</rect>").count() + text.matches("/>").count() - text.matches("<line").count());
}

#[test]
fn an_exported_trace_opens_again_with_the_same_figures_untouched_and_edited() {
    let folder = tempfile::tempdir().unwrap();
    for (name, steps) in [("same.json", &[][..]), ("edited.json", &["--step", "scale kind=T1 x0.5", "--gpu", "H100"])] {
        let path = folder.path().join(name).display().to_string();
        retime().args(["export", &sample(GPU), "-o", &path]).args(steps).assert().success();
        let before = json(&[&["simulate", &sample(GPU)], steps].concat());
        let after = json(&["simulate", &path]);
        assert_eq!(after["measured_ns"], before["simulated_ns"], "{name}");
        for field in ["simulated_ns", "gpu_busy", "kernel_only_ns"] {
            let (a, b) = (after[field].as_f64().unwrap(), before[field].as_f64().unwrap());
            assert!((a / b - 1.0).abs() < 1e-3, "{name}: {field} {a} {b}");
        }
        let steps = &json(&["info", &path])["traces"][0];
        let last = steps["iterations"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(last["duration_ns"], before["simulated_ns"], "the step lasts through its synchronisation");
    }
}

/// A tool that rounds starts up and ends down to whole microseconds gives no event of a device a negative length.
#[test]
fn an_export_says_what_it_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    retime().current_dir(&folder).args(["export", &sample(GPU), "-o", "-"]).assert().code(2);
    assert!(!folder.path().join("-").exists(), "a dash is no file");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let same = json(&["export", &sample(GPU), "--step", "scale kind=kernel x0.5", "-o", &path("same.json")]);
    assert!(same.get("opened_again").is_none(), "{same}");
    let job = sample("public/dlrm-v100x8");
    let exported = |step: &str, into: &str| {
        fs::create_dir(path(into)).unwrap();
        json(&["export", &job, "--format", "chrome", "--step", step, "-o", &path(into)])
    };
    let repeated = exported("accumulate 4", "repeated");
    assert!(repeated.get("opened_again").is_none(), "{repeated}");
    let alone = "remove kind=collective";
    let other = exported(alone, "ranks");
    let again = json(&["simulate", &path("ranks")]);
    let ms = |ns: &Value| ns.as_f64().unwrap() / 1e6;
    let own = ms(&json(&["simulate", &job, "--step", alone])["steady_ns"]);
    let same = ms(&again["steady_ns"]);
    assert!((same / own - 1.0).abs() > 0.005, "{own} {same}");
    assert_eq!(other["opened_again"], format!("opened again it has {same:.2} ms for {own:.2} ms"));
    // However exact the file says that it is, both figures are the prediction.
    for rank in fs::read_dir(path("ranks")).unwrap().map(|entry| entry.unwrap().path()) {
        let text = fs::read_to_string(&rank).unwrap();
        let (before, rest) = text.split_once("\"retimeError\":").unwrap();
        let after = &rest[rest.find(',').unwrap()..];
        fs::write(&rank, format!("{before}\"retimeError\":0.0{after}")).unwrap();
    }
    let exact = json(&["simulate", &path("ranks")]);
    let band = &exact["steady_band"];
    let [low, high, measured] =
        [&band["low_ns"], &band["high_ns"], &exact["measured_ns"]].map(|ns| ns.as_i64().unwrap());
    assert!(low <= measured && measured <= high, "{low} {measured} {high}");
}

#[test]
fn exported_device_work_contains_a_whole_microsecond_or_stands_on_one_and_opens_again_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let vgg = sample("public/vgg13-train-h100.json.gz");
    for (name, steps) in [("same.json", &[][..]), ("edited.json", &["--step", "scale kind=kernel x0.37"])] {
        let path = folder.path().join(name).display().to_string();
        retime().args(["export", &vgg, "-o", &path]).args(steps).assert().success();
        let trace: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let of_device = |event: &&Value| ["kernel", "gpu_memset", "gpu_memcpy"].iter().any(|it| event["cat"] == *it);
        let events: Vec<&Value> = trace["traceEvents"].as_array().unwrap().iter().filter(of_device).collect();
        let rounded = |event: &&Value| {
            let (start, length) = (event["ts"].as_f64().unwrap(), event["dur"].as_f64().unwrap());
            (start + length).floor() - start.ceil()
        };
        assert!(events.iter().all(|event| rounded(event) >= 0.0), "{name}");
        assert!(events.iter().any(|event| event["args"]["retime start"].is_number()), "{name} has short memsets");
        let (before, after) = (json(&[&["simulate", &vgg], steps].concat()), json(&["simulate", &path]));
        assert_eq!(after["measured_ns"], before["simulated_ns"], "{name}");
        let again = folder.path().join(format!("again-{name}")).display().to_string();
        retime().args(["export", &path, "-o", &again]).assert().success();
        let starts = |path: &str| -> Vec<String> {
            let trace: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
            let all = trace["traceEvents"].as_array().unwrap().iter();
            let own = |event: &Value| event["args"].get("retime start").unwrap_or(&event["ts"]).to_string();
            all.filter(|event| event["cat"] == "gpu_memset").map(own).collect()
        };
        assert_eq!(starts(&path), starts(&again), "{name}");
    }
}

#[test]
fn several_ranks_are_exported_as_a_job_that_replays_to_the_same_figures() {
    let folder = tempfile::tempdir().unwrap();
    let ranks = [0, 1].map(|rank| sample(&format!("dlrm-ddp-b128-fp32-cpu-ws2-r{rank}.kineto.json.gz")));
    let into = folder.path().join("ranks");
    for (out, files, steps) in [
        (format!("{}/", into.display()), ["ranks/rank0.json", "ranks/rank1.json"], &[][..]),
        (
            folder.path().join("edited.json").display().to_string(),
            ["rank0.edited.json", "rank1.edited.json"],
            &["--step", "scale name~embedding x2"],
        ),
    ] {
        let given = [&["export", ranks[0].as_str(), &ranks[1], "-o", &out], steps].concat();
        retime().args(&given).assert().success();
        assert!(failure(1, &given).contains("exists already"));
        let written = files.map(|file| folder.path().join(file).display().to_string());
        let before = json(&[&["simulate", ranks[0].as_str(), &ranks[1]], steps].concat());
        let after = json(&["simulate", &written[0], &written[1]]);
        let info = json(&["info", &written[0], &written[1]]);
        assert_eq!(info["traces"].as_array().unwrap().len(), 1, "one job");
        assert_eq!(after["ranks"].as_array().unwrap().len(), 2);
        for field in ["measured_ns", "simulated_ns"] {
            let (a, b) = (after[field].as_f64().unwrap(), before["simulated_ns"].as_f64().unwrap());
            assert!((a / b - 1.0).abs() < 0.01, "{out} {field}: {a} {b}");
        }
    }
    // More traces beside those of a job would make the folder hold two.
    let into = format!("{}/", into.display());
    assert!(failure(1, &["export", &into, "-o", &into, "--force"]).contains("holds the traces"));
}

#[test]
fn no_trace_is_written_beside_those_that_are_named_from_their_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["r0.kineto.json.gz", "r1.kineto.json.gz"];
    for (rank, name) in names.iter().enumerate() {
        let from = sample(&format!("dlrm-ddp-b128-fp32-cpu-ws2-r{rank}.kineto.json.gz"));
        fs::copy(from, folder.path().join(name)).unwrap();
    }
    for arguments in
        [&[names[0], names[1], "-o", "./"][..], &[names[0], "-o", "."], &[names[0], names[1], "-o", "e.json"]]
    {
        let refused = retime().current_dir(&folder).arg("export").args(arguments).assert().code(1);
        let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(said.contains("holds the traces"), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is written");
    retime().current_dir(&folder).args(["export", names[0], names[1], "-o", "out/"]).assert().success();
    assert!(folder.path().join("out/rank1.json").is_file());
}

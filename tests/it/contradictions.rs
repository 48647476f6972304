//! Recordings that contradict themselves: what they say is told, and no figure looks exact that is not.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use retime_core::engine::{EngineError, Loaded};
use retime_core::graph::BuildOptions;
use retime_core::trace::OpenOptions;
use serde_json::{Value, json};

use crate::support::engine;

/// Three steps of five launches each, whose kernels follow 40 µs later; times in µs from 1 s on.
fn three_steps() -> Value {
    let (mut events, mut id) = (Vec::new(), 0);
    for step in 0..3 {
        let start = 1e6 + 2e3 * f64::from(step);
        let name = format!("ProfilerStep#{}", 10 + step);
        events.push(
            json!({"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": start, "dur": 1900}),
        );
        for launch in 0..5 {
            id += 1;
            let at = start + 200.0 * f64::from(launch);
            let arguments = json!({"correlation": id});
            events
                .push(json!({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at, "dur": 30}));
            events.push(json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                "ts": at + 5.0, "dur": 10, "args": arguments}));
            let arguments = json!({"correlation": id, "device": 0, "stream": 7});
            events.push(json!({"ph": "X", "cat": "kernel", "name": format!("gemm_{launch}"), "pid": 0, "tid": 7,
                "ts": at + 40.0, "dur": 100, "args": arguments}));
        }
    }
    json!({"traceEvents": events})
}

/// The trace with a figure of the kernel of launch `id` changed.
fn with_kernel(id: u64, key: &str, value: f64) -> Value {
    let mut trace = three_steps();
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let kernel = events.iter_mut().find(|event| event["cat"] == "kernel" && event["args"]["correlation"] == id);
    kernel.unwrap()[key] = value.into();
    trace
}

fn load_all(files: &[(&str, String)]) -> Result<Vec<Loaded>, EngineError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |(name, text): &(&str, String)| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let paths: Vec<_> = files.iter().map(write).collect();
    engine().load(&paths, &OpenOptions::default(), &BuildOptions::default())
}

fn load(trace: &Value) -> Loaded {
    load_all(&[("trace.json", trace.to_string())]).unwrap().remove(0)
}

fn told(loaded: &Loaded, code: &str) -> Option<String> {
    loaded.diagnostics().sorted().into_iter().find(|found| found.code == code).map(|found| found.message.clone())
}

#[test]
fn work_away_from_its_launch_is_told_with_how_far() {
    let sound = load(&three_steps());
    assert!(
        ["early-work", "late-work", "overlapping-kernels", "missing-stream"]
            .iter()
            .all(|code| told(&sound, code).is_none())
    );
    let early = told(&load(&with_kernel(8, "ts", 2_440.0)), "early-work").unwrap();
    assert!(early.contains("starts before its launch call 1 times, by up to 1000.0 ms"), "{early}");
    let late = told(&load(&with_kernel(9, "ts", 2_002_640.0)), "late-work").unwrap();
    assert!(
        late.contains("launched later 1 times, up to 999.8 ms after its launch") || late.contains("1.00 s after"),
        "{late}"
    );
}

/// The same trace with all kernels as much earlier, in µs.
fn with_early_kernels(by: f64) -> Value {
    let mut trace = three_steps();
    let events = trace["traceEvents"].as_array_mut().unwrap();
    for event in events.iter_mut().filter(|event| event["cat"] == "kernel") {
        event["ts"] = (event["ts"].as_f64().unwrap() - by).into();
    }
    trace
}

#[test]
fn work_before_its_launch_by_a_constant_is_put_where_it_ran() {
    let figures = |loaded: &Loaded| {
        let summary = &loaded.replay.summary;
        (summary.gpu_active_ns, summary.kernel_only_ns, summary.steady_ns, summary.gpu_busy.to_bits())
    };
    let sound = load(&three_steps());
    assert_eq!(figures(&sound).0.0, 500_000);
    for by in [60.0, 100.0, 5_000.0, 1e6] {
        let early = load(&with_early_kernels(by));
        assert_eq!(figures(&early), figures(&sound), "{by} µs");
        let text = told(&early, "device-clock").unwrap();
        assert!(text.starts_with("work of device 0 was recorded to start up to"), "{text}");
        assert!(told(&early, "early-work").is_none());
    }
    let late = load(&with_early_kernels(20.0));
    assert!([&sound, &late].iter().all(|loaded| told(loaded, "device-clock").is_none()), "nothing starts too early");
}

#[test]
fn one_kernel_before_its_launch_is_no_clock() {
    let one = load(&with_kernel(8, "ts", 2_440.0));
    assert!(told(&one, "early-work").is_some() && told(&one, "device-clock").is_none());
}

/// Device time of the iteration in ns.
fn device_time(loaded: &Loaded) -> i64 {
    loaded.replay.summary.device_time.base_ns.0
}

#[test]
fn work_before_its_launch_is_of_the_step_that_launched_it() {
    for by in [300.0, 900.0, 1_100.0, 2_500.0, 5_000.0] {
        let mut trace = three_steps();
        let is_third = |event: &&mut Value| event["cat"] == "kernel" && event["name"] == "gemm_2";
        for event in events_of(&mut trace).iter_mut().filter(is_third) {
            event["ts"] = (event["ts"].as_f64().unwrap() - by).into();
        }
        let loaded = load(&trace);
        let figures = (device_time(&loaded), loaded.replay.summary.gpu_active_ns.0);
        assert_eq!(figures, (500_000, 500_000), "{by} µs early");
        let text = told(&loaded, "early-work").unwrap();
        assert!(text.contains("starts before its launch call 3 times"), "{text}");
    }
    let mut one = three_steps();
    events_of(&mut one).truncate(4);
    events_of(&mut one)[3]["ts"] = 999_000.into();
    assert_eq!(device_time(&load(&one)), 100_000, "the only one");
}

#[test]
fn the_work_of_a_device_whose_clock_is_behind_another_one_s_is_not_lost() {
    let of = |late: f64| {
        let mut trace = three_steps();
        let of_second = |event: &&mut Value| {
            event["cat"] == "kernel" && event["args"]["correlation"].as_u64().unwrap().is_multiple_of(2)
        };
        for event in events_of(&mut trace).iter_mut().filter(of_second) {
            event["args"]["device"] = 1.into();
            event["pid"] = 1.into();
            event["ts"] = (event["ts"].as_f64().unwrap() + late).into();
        }
        load(&trace)
    };
    let sound = of(0.0);
    assert_eq!((device_time(&sound), told(&sound, "device-clock")), (500_000, None));
    for late in [1_000.0, 5_000.0, 1e6] {
        let late = of(late);
        assert_eq!(device_time(&late), 500_000);
        assert_eq!(late.replay.summary.steady_ns, sound.replay.summary.steady_ns);
        assert!(told(&late, "device-clock").unwrap().contains("its clock was that much behind"));
    }
}

#[test]
fn sizes_that_are_no_whole_numbers_are_told() {
    for size in ["NaN", "1e308", "1.5"] {
        let text = three_steps().to_string().replacen(
            r#""name":"aten::mm""#,
            &format!(r#""args":{{"Input Dims":[[{size},1024],[1024,1024]],"Input type":["float","float"]}},"name":"aten::mm""#),
            1,
        );
        let loaded = load_all(&[("trace.json", text)]).unwrap().remove(0);
        assert!(told(&loaded, "unreadable-size").is_some_and(|told| told.contains("[[?,1024],[1024,1024]]")), "{size}");
    }
}

#[test]
fn negative_sizes_are_told_and_no_batch_follows() {
    let of = |batch: i64| {
        let mut trace = three_steps();
        let events = trace["traceEvents"].as_array_mut().unwrap();
        for event in events.iter_mut().filter(|event| event["cat"] == "cpu_op") {
            event["name"] = json!("aten::linear");
            event["args"] = json!({"Input Dims": [[batch, 1024], [1024, 1024]], "Input type": ["float", "float"]});
        }
        load(&trace)
    };
    let (sound, negative) = (of(64), of(-64));
    assert_eq!((sound.graph.batch_size, told(&sound, "negative-size")), (Some(64), None));
    assert_eq!(negative.graph.batch_size, None);
    assert!(told(&negative, "negative-size").unwrap().contains("[[-64,1024],[1024,1024]]"));
}

#[test]
fn no_arithmetic_is_no_negative_arithmetic() {
    let folder = tempfile::tempdir().unwrap();
    let (is_done, said, _) = ran(&["layers", &written(folder.path(), &three_steps())]);
    assert!(is_done && said.contains(": 0.000 GFLOP") && !said.contains("-0"), "{said}");
}

#[test]
fn one_kernel_over_all_others_of_its_stream_is_told_by_their_number() {
    let text = told(&load(&with_kernel(8, "dur", 1e7)), "overlapping-kernels").unwrap();
    assert!(text.contains("lie within another one"), "{text}");
}

#[test]
fn a_kernel_without_a_stream_is_counted() {
    let mut trace = three_steps();
    for event in
        trace["traceEvents"].as_array_mut().unwrap().iter_mut().filter(|event| event["cat"] == "kernel").take(2)
    {
        event.as_object_mut().unwrap().remove("tid");
        event["args"].as_object_mut().unwrap().remove("stream");
    }
    assert_eq!(load(&trace).diagnostics().count("missing-stream"), 2);
}

#[test]
fn text_behind_the_document_is_told_with_its_length() {
    let text = three_steps().to_string();
    let two = load_all(&[("two.json", format!("{text}\n{text}\n"))]).unwrap().remove(0);
    let expected = format!("{} bytes after the end of the JSON document are not read", text.len());
    assert_eq!(told(&two, "trailing-text"), Some(expected));
    assert!(told(&load(&three_steps()), "trailing-text").is_none());
}

#[test]
fn ranks_that_a_job_does_not_have_are_told() {
    let of = |rank: u32, world: u32, first: u32| {
        let mut trace = three_steps();
        trace["distributedInfo"] = json!({"rank": rank, "world_size": world});
        for event in trace["traceEvents"].as_array_mut().unwrap() {
            if let Some(step) = event["name"].as_str().unwrap().strip_prefix("ProfilerStep#1") {
                event["name"] = format!("ProfilerStep#{first}{step}").into();
            }
        }
        trace.to_string()
    };
    let job = |a: String, b: String| load_all(&[("a.json", a), ("b.json", b)]).unwrap().remove(0);
    let beyond = job(of(0, 2, 1), of(5, 2, 1));
    assert_eq!(told(&beyond, "impossible-rank").unwrap(), "rank 5 was recorded of a job of 2, whose ranks are 0 to 1");
    assert!(told(&beyond, "missing-ranks").unwrap().starts_with("1 of 2 ranks are loaded, not 1"));
    assert!(told(&job(of(0, 0, 1), of(1, 0, 1)), "impossible-rank").unwrap().starts_with("a job of 0 ranks"));
    let other = told(&job(of(0, 2, 1), of(1, 2, 5)), "different-iterations").unwrap();
    assert!(other.contains("rank 1 did not record ProfilerStep#11"), "{other}");
    let sound = job(of(0, 2, 1), of(1, 2, 1));
    assert!(
        ["impossible-rank", "missing-ranks", "different-iterations"].iter().all(|code| told(&sound, code).is_none())
    );
}

#[test]
fn a_rank_whose_times_are_in_another_unit_is_told() {
    let of = |rank: u32, unit: f64| {
        let mut trace = three_steps();
        trace["distributedInfo"] = json!({"rank": rank, "world_size": 3});
        for event in trace["traceEvents"].as_array_mut().unwrap() {
            for key in ["ts", "dur"] {
                event[key] = (event[key].as_f64().unwrap() * unit).into();
            }
        }
        (["a.rank0.json", "a.rank1.json", "a.rank2.json"][rank as usize], trace.to_string())
    };
    let job = |units: [f64; 3]| {
        let files = [0, 1, 2].map(|rank| of(rank, units[rank as usize]));
        let loaded = load_all(&files).unwrap().remove(0);
        assert_eq!(loaded.job.ranks.len(), 3);
        told(&loaded, "different-units")
    };
    assert_eq!(job([1.0; 3]), None);
    assert_eq!(job([1.0, 3.0, 1.0]), None);
    for unit in [1e3, 1e-3] {
        let text = job([1.0, 1.0, unit]).unwrap();
        assert!(text.contains("of rank 2 lasts") && text.contains("that of the median rank"), "{text}");
    }
}

/// A range of a step on the thread of the others, from `ts` on for `dur` µs.
fn range(name: &str, ts: f64, dur: f64) -> Value {
    json!({"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur})
}

#[test]
fn steps_that_lie_within_one_another_or_overlap_are_told() {
    let codes = ["repeated-steps", "nested-steps", "overlapping-steps", "small-steps"];
    let sound = load(&three_steps());
    assert!(codes.iter().all(|code| told(&sound, code).is_none()));
    let with = |ranges: &[Value]| {
        let mut trace = three_steps();
        trace["traceEvents"].as_array_mut().unwrap().extend(ranges.iter().cloned());
        load(&trace)
    };
    let inner = range("ProfilerStep#11", 1e6 + 2_100.0, 400.0);
    let cases = [(range("ProfilerStep#11", 1e6 + 2_000.0, 1_900.0), codes[0]), (inner, codes[1])];
    for (more, code) in cases {
        let loaded = with(&[more]);
        assert!(told(&loaded, code).unwrap().starts_with("rank 0: 1 ranges of steps"), "{code}");
        assert_eq!(loaded.graph.measured, sound.graph.measured, "{code}");
    }
    let mut trace = three_steps();
    for event in trace["traceEvents"].as_array_mut().unwrap().iter_mut() {
        if event["name"].as_str().unwrap().starts_with("ProfilerStep") {
            event["dur"] = 3_400.into();
        }
    }
    let overlapping = load(&trace);
    assert!(told(&overlapping, codes[2]).unwrap().starts_with("rank 0: 2 ranges of steps"));
    assert_eq!(overlapping.graph.measured.0, 2_000_000, "steps begin 2 ms apart");
}

#[test]
fn a_step_with_an_evaluation_in_it_leaves_the_others_to_choose_from() {
    let mut trace = three_steps();
    let events = trace["traceEvents"].as_array_mut().unwrap();
    events.extend((0..80).map(|at| {
        json!({"ph": "X", "cat": "cpu_op", "name": "aten::eval", "pid": 1, "tid": 1,
               "ts": 1e6 + 4_000.0 + 1_300.0 + 5.0 * f64::from(at), "dur": 4})
    }));
    let loaded = load(&trace);
    assert_eq!(loaded.graph.ranks[0].iteration, "ProfilerStep#11");
    assert!(told(&loaded, "small-steps").is_none(), "none is left out");
    events_of(&mut trace).push(range("ProfilerStep#13", 1e6 + 6_000.0, 1_900.0));
    assert!(told(&load(&trace), "small-steps").unwrap().starts_with("1 of 4 steps have less than half"));
}

#[test]
fn steps_that_differ_from_the_modelled_one_are_told_with_their_mean() {
    let of = |long: f64| {
        let mut events = Vec::new();
        let mut at = 1e6;
        for step in 0..9 {
            let dur = if step % 2 == 0 { long } else { 500.0 };
            events.push(range(&format!("ProfilerStep#{step}"), at, dur));
            events.push(
                json!({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at + 5.0, "dur": 400}),
            );
            at += dur;
        }
        load(&json!({"traceEvents": events}))
    };
    assert_eq!(told(&of(510.0), "unlike-steps"), None);
    // Eight steps after the first, four of either kind.
    let text = told(&of(620.0), "unlike-steps").unwrap();
    assert!(text.starts_with("8 steps in a row take 560.0 µs each on average"), "{text}");
}

#[test]
fn that_steps_take_turns_is_in_the_text_of_info_and_simulate() {
    let mut events = Vec::new();
    for step in 0..12 {
        let at = 1e6 + 1e3 * f64::from(step);
        events.push(range(&format!("ProfilerStep#{step}"), at, 1e3));
        for call in 0..if step % 3 == 0 { 9 } else { 4 } {
            let ts = at + 50.0 * f64::from(call);
            events
                .push(json!({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": ts, "dur": 40}));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &json!({"traceEvents": events}));
    for command in ["info", "simulate"] {
        let (_, text, said) = ran(&[command, &path]);
        assert!(text.contains("steps of 3 kinds take turns: 3 of them are one iteration"), "{text}{said}");
    }
}

fn events_of(trace: &mut Value) -> &mut Vec<Value> {
    trace["traceEvents"].as_array_mut().unwrap()
}

#[test]
fn correlation_ids_are_kept_apart_however_wide_and_what_is_none_is_told() {
    let with_ids = |of: fn(u64) -> Value| {
        let mut trace = three_steps();
        for event in events_of(&mut trace).iter_mut().filter(|event| event["args"]["correlation"].is_u64()) {
            event["args"]["correlation"] = of(event["args"]["correlation"].as_u64().unwrap());
        }
        load(&trace)
    };
    let (plain, wide) = (with_ids(Value::from), with_ids(|id| (id + (1 << 40)).into()));
    assert_eq!(wide.graph.measured, plain.graph.measured);
    assert_eq!(wide.diagnostics().count("missing-launch"), 0);
    let mut trace = three_steps();
    for event in events_of(&mut trace) {
        if let Some(id) = event["args"]["correlation"].as_i64() {
            event["args"]["correlation"] = (-id).into();
        }
    }
    let refused = load_all(&[("trace.json", trace.to_string())]).unwrap_err().to_string();
    assert!(refused.contains("rank 0: 15 kernels and copies have no recorded launch"), "{refused}");
}

#[test]
fn a_time_that_is_no_number_is_not_called_too_long() {
    let said = |key: &str, value: Value| {
        let mut trace = three_steps();
        events_of(&mut trace)[5][key] = value;
        told(&load(&trace), "damaged-time").unwrap().replace("; skipped", "")
    };
    assert_eq!(said("dur", json!("100us")), "an event whose length is no number of microseconds");
    assert_eq!(said("dur", json!([100])), "an event whose length is no number of microseconds");
    assert_eq!(said("ts", json!("now")), "an event whose start is no number of microseconds");
    assert_eq!(said("dur", json!(1e300)), "an event whose length does not fit 64 bits of nanoseconds");
    assert_eq!(said("ts", json!("9e99")), "an event whose start does not fit 64 bits of nanoseconds");
}

#[test]
fn exported_lanes_of_two_devices_of_a_rank_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = three_steps();
    for event in events_of(&mut trace).iter_mut().filter(|event| event["name"] == "gemm_3") {
        (event["pid"], event["args"]["device"]) = (1.into(), 1.into());
    }
    let path = written(folder.path(), &trace);
    let csv = folder.path().join("out.csv");
    let (succeeded, _, said) = ran(&["export", &path, "-o", csv.to_str().unwrap()]);
    assert!(succeeded, "{said}");
    let text = fs::read_to_string(csv).unwrap();
    let lanes: std::collections::BTreeSet<&str> =
        text.lines().filter(|line| line.contains("gemm_")).filter_map(|line| line.split(',').nth(1)).collect();
    assert_eq!(lanes.into_iter().collect::<Vec<_>>(), ["gpu0 stream 7", "gpu1 stream 7"]);
}

fn ran(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::cargo_bin("retime").unwrap().args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

fn written(folder: &Path, trace: &Value) -> String {
    let path = folder.join("trace.json");
    fs::write(&path, trace.to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn where_the_launches_of_no_kernel_were_recorded_nothing_is_told_of_a_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = three_steps();
    for event in trace["traceEvents"].as_array_mut().unwrap().iter_mut().filter(|event| event["cat"] == "kernel") {
        event["args"]["correlation"] = (1_000 + event["args"]["correlation"].as_u64().unwrap()).into();
    }
    let path = written(folder.path(), &trace);
    for command in ["simulate", "info"] {
        let (succeeded, _, said) = ran(&[command, &path]);
        let why = "15 kernels and copies have no recorded launch, and which step they are of is not known";
        assert!(!succeeded && said.contains(why), "{said}");
    }
    let long = written(folder.path(), &with_kernel(3, "dur", 1e7));
    let (succeeded, _, said) = ran(&["simulate", &long]);
    assert!(!succeeded && said.contains("work of the step before ended") && said.contains("--iteration"), "{said}");
}

#[test]
fn a_script_that_is_recorded_is_not_written_over_and_endless_lines_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), &three_steps());
    let (script, record) = (folder.path().join("a.script"), folder.path().join("b.csv"));
    let play = |text: String| {
        fs::write(&script, text).unwrap();
        ran(&["run", script.to_str().unwrap(), &path])
    };
    let record = record.display();
    let (succeeded, _, said) = play(format!("record {record}\nops\nexport! {record}\n"));
    assert!(!succeeded && said.contains("is being recorded to"), "{said}");
    let (succeeded, out, said) = play("x".repeat(1 << 20));
    assert!(!succeeded && out.len() + said.len() < 10_000, "{} bytes", out.len() + said.len());
}

#[test]
fn calls_that_outlast_the_next_ones_of_their_thread_are_why_nothing_is_left() {
    let mut trace = three_steps();
    for event in events_of(&mut trace).iter_mut().filter(|event| event["cat"] == "cuda_runtime") {
        event["dur"] = 3000.into();
    }
    let folder = tempfile::tempdir().unwrap();
    let (succeeded, _, said) = ran(&["simulate", &written(folder.path(), &trace)]);
    let wanted = "14 calls of host threads begin before the one before them has ended (cudaLaunchKernel of 3.00 ms)";
    assert!(!succeeded && said.contains(wanted), "{said}");
}

//! Inputs and edits that tell what no machine could do: it is refused or left out and said, never shown as a figure.

use retime::session::{Engine, Sweep, SweepRun};
use retime_core::analysis::lanes::Times;
use retime_core::analysis::operators::{self, Grouping, Level, Predictor};
use retime_core::analysis::roofline::{Place, points};
use retime_core::cost::Family;
use retime_core::device::{DeviceProfile, Precision};
use retime_core::engine::{Loaded, Outcome};
use retime_core::graph::{BuildOptions, TaskKind};
use retime_core::scenario::{Scenario, parse_step};
use retime_core::trace::OpenOptions;
use retime_core::units::DurNs;
use serde_json::Value;

use crate::support::program::{json, retime};
use crate::support::{engine, sample};

const CPU: &str = "dlrm-ddp-b256-fp32-cpu.kineto.json.gz";

fn load_sample(name: &str) -> Loaded {
    let (open, build) = (OpenOptions::default(), BuildOptions::default());
    engine().load(&[sample(name)], &open, &build).unwrap().remove(0)
}

/// A product of square matrices of `size` in 20 µs on an A100.
fn product(size: u64) -> String {
    let event = |category: &str, name: &str, track: &str, span: &str, args: &str| {
        format!(r#"{{"ph":"X","cat":"{category}","name":"{name}",{track},{span},"args":{{{args}}}}}"#)
    };
    let (host, stream) = (r#""pid":1,"tid":1"#, r#""pid":0,"tid":7"#);
    let dims = format!(
        r#""External id":1,"Input Dims":[[{size},{size}],[{size},{size}]],"Input type":["float","float"],"Concrete Inputs":["",""]"#
    );
    let events = [
        event("user_annotation", "ProfilerStep#0", host, r#""ts":100,"dur":60"#, ""),
        event("cpu_op", "aten::mm", host, r#""ts":105,"dur":20"#, &dims),
        event("cuda_runtime", "cudaLaunchKernel", host, r#""ts":110,"dur":5"#, r#""correlation":1,"External id":1"#),
        event(
            "kernel",
            "ampere_sgemm_128x64_tn",
            stream,
            r#""ts":120,"dur":20"#,
            r#""correlation":1,"External id":1,"stream":7,"device":0,"grid":[8,8,1],"block":[128,1,1]"#,
        ),
        event("cuda_runtime", "cudaDeviceSynchronize", host, r#""ts":130,"dur":15"#, r#""correlation":2"#),
    ];
    let device = r#"{"id":0,"name":"NVIDIA A100-SXM4-80GB"}"#;
    format!(r#"{{"deviceProperties":[{device}],"traceEvents":[{}]}}"#, events.join(","))
}

fn evaluated(engine: &Engine, loaded: &Loaded, lines: &[&str]) -> Outcome {
    let steps = lines.iter().map(|line| parse_step(line).unwrap()).collect();
    engine.evaluate(loaded, &Scenario { steps, ..Scenario::default() }, 0)
}

#[test]
fn sizes_that_no_machine_works_off_in_the_recorded_time_tell_nothing() {
    let engine = engine();
    let told = |size: u64, lines: &[&str]| {
        let loaded = engine.load_bytes(product(size).as_bytes(), "product.json", &BuildOptions::default()).unwrap();
        let outcome = evaluated(&engine, &loaded, lines);
        let resolved = &outcome.resolved;
        let times = Times::Simulated { timed: &resolved.timed, schedule: &outcome.schedule };
        let devices: Vec<_> = resolved.devices.iter().map(|device| Some(&**device)).collect();
        let predictor = Predictor { models: &engine.models, devices: &devices };
        let tasks = (&*resolved.graph, &*resolved.works);
        let rows = operators::rows(tasks, times, Some(predictor), Level::Kernel, Grouping::Name);
        (rows[0].predicted_ns.is_some(), rows[0].flop > 0.0)
    };
    // 2^31 squared overflows whatever it is multiplied into; 2^13 takes an A100 56 ms, where 20 µs were recorded.
    for size in [1 << 31, 1 << 20, 1 << 16, 1 << 13] {
        for lines in [&[][..], &["mixed-precision bf16"]] {
            assert_eq!(told(size, lines), (false, false), "{size} {lines:?}");
        }
    }
    assert_eq!(told(512, &[]), (true, true));
}

#[test]
fn a_kernel_that_takes_less_than_its_device_needs_reaches_no_rate_and_it_is_said() {
    let engine = engine();
    let named = |text: &str| {
        let loaded = engine.load_bytes(text.as_bytes(), "product.json", &BuildOptions::default()).unwrap();
        let notes = loaded.notes.count("impossible-rate");
        let tasks = (&*loaded.graph, &loaded.base.kernel_work());
        let place = Place { device: &loaded.context.devices[0].profile, factors: [1.0; 3], beside: &[] };
        (points(tasks, Times::Measured, &place, Level::Kernel).len(), notes)
    };
    let whole = product(512);
    let short = whole.replace(r#""ts":120,"dur":20"#, r#""ts":120,"dur":0.001"#);
    assert_ne!(whole, short);
    assert_eq!(named(&whole), (1, 0));
    // 2.7e8 FLOP in a nanosecond: 14 000 times what an A100 reaches.
    assert_eq!(named(&short), (0, 1));
}

#[test]
fn kernels_of_one_stream_that_overlap_share_its_time_and_it_is_said() {
    let engine = engine();
    let whole = product(512);
    let (before, kernel) = whole.split_once(r#"{"ph":"X","cat":"kernel""#).unwrap();
    let kernel = format!(r#"{{"ph":"X","cat":"kernel"{}"#, kernel.split_once("}}").unwrap().0);
    let again = kernel.replace(r#""ts":120"#, r#""ts":121"#);
    let twice = format!("{before}{again}}}}},{}", &whole[before.len()..]);
    let figures = |text: &str| {
        let loaded = engine.load_bytes(text.as_bytes(), "product.json", &BuildOptions::default()).unwrap();
        (loaded.notes.count("overlapping-kernels"), loaded.replay.summary.kernel_only_ns)
    };
    assert_eq!(figures(&whole), (0, DurNs(20_000)));
    let (notes, together) = figures(&twice);
    assert_eq!(notes, 1);
    assert!(together <= DurNs(21_000), "{together}: one behind the other they would take 40 µs");
}

#[test]
fn the_launch_of_an_added_kernel_is_a_prediction_with_an_error() {
    let engine = engine();
    let loaded = engine.load_bytes(product(512).as_bytes(), "product.json", &BuildOptions::default()).unwrap();
    let outcome = evaluated(&engine, &loaded, &["insert kernel k 1us after kind=kernel"]);
    let launch = outcome.resolved.added.iter().find(|added| added.kind == TaskKind::Runtime).unwrap();
    assert_eq!(launch.prediction.duration, DurNs(5_000));
    assert!((launch.prediction.error - 0.3).abs() < 1e-6, "{launch:?}");
}

#[test]
fn a_batch_or_a_memory_beyond_all_machines_is_not_told() {
    let engine = engine();
    let text = product(1 << 40).replace("aten::mm", "aten::linear");
    let loaded = engine.load_bytes(text.as_bytes(), "product.json", &BuildOptions::default()).unwrap();
    assert_eq!(loaded.graph.batch_size, None);
    let memory = loaded.replay.summary.memory_bytes;
    assert!(memory.is_none_or(|bytes| bytes.0 < 1 << 53), "{memory:?}");
}

#[test]
fn steps_beyond_what_is_computed_are_not_done_and_say_so() {
    let (engine, loaded) = (engine(), load_sample(CPU));
    let slower = "scale * x1000000";
    let two = evaluated(&engine, &loaded, &["scale kind=T5 x2", slower]);
    let four = evaluated(&engine, &loaded, &["scale kind=T5 x2", slower, slower, "scale kind=T1 x0.5"]);
    assert_eq!(four.summary.steady_ns, two.summary.steady_ns);
    assert_eq!(four.summary.error_band, two.summary.error_band);
    assert_eq!(four.scenario.steps.len(), 4, "the scenario keeps what it asks for");
    let done: Vec<bool> = four.steps.iter().map(|step| !step.is_impossible).collect();
    assert_eq!(done, [true, true, false, false]);
    assert!(four.steps[2].no_effect().unwrap().contains("beyond what is computed"));
    let gains = engine.with_gains(&loaded, four, &[], &|| false).unwrap();
    assert!(gains.steps[1].marginal_ns.unwrap() > DurNs::ZERO && gains.steps[2].marginal_ns == Some(DurNs::ZERO));
}

#[test]
fn what_a_step_gains_beyond_what_is_computed_is_not_told_where_others_bring_it_back() {
    let (engine, loaded) = (engine(), load_sample(CPU));
    let slower = "scale * x1000000";
    let outcome = evaluated(&engine, &loaded, &[slower, slower, "scale * x0"]);
    let steps = engine.with_gains(&loaded, outcome, &[], &|| false).unwrap().steps;
    assert!(steps.iter().all(|step| !step.is_impossible), "all are done");
    let told: Vec<bool> = steps.iter().map(|step| step.marginal_ns.is_some()).collect();
    assert_eq!(told, [true, false, false]);
}

#[test]
fn points_of_a_sweep_beyond_what_is_computed_have_no_figures() {
    let (engine, loaded) = (engine(), load_sample(CPU));
    let scenario = Scenario::parse(["scale * x1000000"]).unwrap();
    let sweeps = [Sweep::new("kind=T1", vec![0.5, 1.0, 1e6]).unwrap()];
    let points = SweepRun::new(&engine, &loaded, &scenario, &sweeps).points(&[vec![0.5], vec![1.0], vec![1e6]]);
    let done: Vec<bool> = points.iter().map(|point| point.not_done.is_none()).collect();
    assert_eq!(done, [true, true, false]);
    assert!(points[2].not_done.as_ref().unwrap().contains("beyond what is computed"), "{points:?}");
}

#[test]
fn values_of_a_sweep_are_finite_however_small_or_large() {
    for text in ["1e-300..1", "1e-308..1e308x7", "5e-324..1", "1..1.7e308x3"] {
        let values = Sweep::parse_values(text).unwrap();
        assert!(values.iter().all(|value| value.is_finite()), "{text}: {values:?}");
    }
}

#[test]
fn no_figure_of_a_device_is_beyond_all_machines() {
    const FIGURES: [&str; 18] = [
        "sm_count",
        "clock_mhz",
        "l2_mib",
        "l2_gb_s",
        "memory_gib",
        "dram_gb_s",
        "dram_measured_gb_s",
        "host_link_gb_s",
        "peer_link_gb_s",
        "launch_latency_us",
        "kernel_start_us",
        "product_share",
        "sm_threads",
        "sm_blocks",
        "sm_registers",
        "sm_shared_kib",
        "board_w",
        "process_nm",
    ];
    let entries = FIGURES.map(|figure| ("figures", figure)).into_iter().chain([("peak_tflops", "fp32")]);
    for (table, figure) in entries {
        for value in ["1e300", "1e30", "-1", "nan", "inf"] {
            let text = format!(
                "[Mine]\ninherits = \"H100\"\n[Mine.{table}]\n{figure} = {value}\n[Mine.sources]\ndefault = \"mine\"\n"
            );
            let refused = Engine::with_devices(&[("mine.toml".to_owned(), text)]).unwrap_err().to_string();
            assert!(refused.starts_with("mine.toml:4: Mine.") && refused.contains(figure), "{refused}");
        }
    }
    let copy = "[[H100.copy]]\nroute = \"host-to-device\"\nstart_us = 1e30\nrate = 1.0\nerror = 0.1\n";
    let scale = "[[H100.scale]]\nkind = \"strided\"\nfactor = 1e30\nerror = 0.1\n";
    for text in [copy, scale] {
        let text = format!("[H100]\ninherits = \"H100\"\n{text}");
        assert!(Engine::with_devices(&[("mine.toml".to_owned(), text)]).is_err());
    }
}

#[test]
fn what_is_not_modelled_is_a_share_of_what_was_traced_however_often_it_is_said() {
    let (engine, loaded) = (engine(), load_sample("public/vgg13-train-h100.json.gz"));
    let outcome = evaluated(&engine, &loaded, &["checkpoint phase=forward"; 5]);
    for step in &outcome.steps {
        assert!((0.0..=1.0).contains(&step.unhandled_share), "{step:?}");
        assert!(
            step.effects.iter().filter_map(|told| told.share).all(|share| (0.0..=1.0).contains(&share)),
            "{step:?}"
        );
    }
}

#[test]
fn what_steps_gain_is_the_same_found_at_once_and_step_by_step() {
    let (engine, loaded) = (engine(), load_sample(CPU));
    let lines = ["scale kind=T1 x0.5", "fuse-optimizer", "scale name~mm x0.9", "resize-batch 512", "scale kind=T5 x2"];
    let gains = |count: usize, known: &[_]| {
        engine.with_gains(&loaded, evaluated(&engine, &loaded, &lines[..count]), known, &|| false).unwrap()
    };
    let mut known = Vec::new();
    for count in 1..=lines.len() {
        let (alone, all) = (gains(count, &known), gains(count, &[]));
        assert_eq!((&alone.steps, alone.summary.steady_band), (&all.steps, all.summary.steady_band));
        let whole: DurNs = all.steps.iter().filter_map(|step| step.marginal_ns).sum();
        assert_eq!(whole, all.summary.steady_ns - all.summary.base_steady_ns);
        known = alone.steps;
    }
}

#[test]
fn nothing_is_predicted_for_a_device_that_nobody_knows() {
    let engine = engine();
    let evaluate = |name: &str, line: &str| {
        let text = product(512).replace("NVIDIA A100-SXM4-80GB", name);
        let loaded = engine.load_bytes(text.as_bytes(), "product.json", &BuildOptions::default()).unwrap();
        let outcome = evaluated(&engine, &loaded, &[line]);
        let step = &outcome.steps[0];
        let changed = outcome.summary.steady_ns != loaded.replay.summary.steady_ns;
        (step.is_impossible, changed, step.no_effect().unwrap_or_default().to_owned())
    };
    for line in ["mixed-precision bf16", "swap-gpu H100-SXM", "scale-device flops x2"] {
        let (is_impossible, changed, why) = evaluate("Nobody 9000", line);
        assert!(is_impossible && !changed && why.contains("Nobody 9000"), "{line}: {why}");
        assert!(!evaluate("NVIDIA A100-SXM4-80GB", line).0, "{line}");
    }
    // What needs no figures of the device is done.
    let (is_impossible, changed, why) = evaluate("Nobody 9000", "scale kind=kernel x2");
    assert!(!is_impossible && changed, "{why}");
}

#[test]
fn kernels_on_a_stream_of_their_own_leave_the_window_what_was_there() {
    let engine = engine();
    for name in ["dlrm-ddp-b256-on-v100.predicted.json.gz", "public/vgg13-train-h100.json.gz"] {
        let loaded = load_sample(name);
        let summary = evaluated(&engine, &loaded, &["insert kernel k 1us on stream 977 after kind=kernel"]).summary;
        let base = &loaded.replay.summary;
        assert!(summary.simulated_ns >= base.simulated_ns, "{name}: {}", summary.simulated_ns);
        assert!(summary.gpu_active_ns >= base.gpu_active_ns, "{name}: {}", summary.gpu_active_ns);
    }
}

#[test]
fn a_step_that_needs_more_memory_than_is_told_of_is_not_done_and_says_so() {
    let (engine, loaded) = (engine(), load_sample("public/vgg13-train-h100.json.gz"));
    let outcome = evaluated(&engine, &loaded, &["resize-batch 1073741824"]);
    assert!(outcome.steps[0].is_impossible && outcome.steps[0].no_effect().unwrap().contains("hold more than"));
    assert_eq!(outcome.summary.memory_bytes, loaded.replay.summary.memory_bytes);
}

#[test]
fn a_step_that_makes_a_kernel_move_more_than_any_memory_holds_is_not_done() {
    let engine = engine();
    let text = r#"{"deviceProperties": [{"name": "Tesla V100-SXM2-32GB", "id": 0}], "traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 100, "dur": 2000},
        {"ph": "X", "cat": "cpu_op", "name": "aten::relu_", "pid": 1, "tid": 1, "ts": 110, "dur": 50, "args": {"External id": 1,
         "Input Dims": [[256, 1048576]], "Input type": ["float"], "Concrete Inputs": [""]}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 120, "dur": 5,
         "args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "vectorized_elementwise_kernel", "pid": 0, "tid": 7, "ts": 130, "dur": 1500,
         "args": {"External id": 1, "device": 0, "stream": 7, "correlation": 1}}]}"#;
    let loaded = engine.load_bytes(text.as_bytes(), "relu.json", &BuildOptions::default()).unwrap();
    let outcome = evaluated(&engine, &loaded, &["resize-batch 1073741824 from 256"]);
    assert!(outcome.steps[0].is_impossible, "{:?}", outcome.summary.memory_bytes);
}

#[test]
fn an_instance_of_a_device_has_its_own_multiprocessors_and_memory() {
    let of = |name: &str, memory: u64, sms: u32| {
        let text = format!(
            r#"{{"deviceProperties": [{{"name": "{name}", "id": 0, "totalGlobalMem": {memory}, "numSms": {sms}}}], "traceEvents": [
            {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 120, "dur": 5,
             "args": {{"correlation": 1}}}},
            {{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 130, "dur": 1500,
             "args": {{"device": 0, "stream": 7, "correlation": 1}}}}]}}"#
        );
        let loaded = engine().load_bytes(text.as_bytes(), "part.json", &BuildOptions::default()).unwrap();
        let found = loaded.diagnostics();
        let parts = found.sorted().into_iter().filter(|note| note.code == "part-of-device");
        let said: Vec<String> = parts.map(|note| note.message.clone()).collect();
        (DeviceProfile::clone(&loaded.context.devices[0].profile), said)
    };
    let (whole, none) = of("NVIDIA A100-SXM4-80GB", 84_929_347_584, 108);
    assert_eq!((whole.id.as_str(), none.len()), ("A100-80", 0));
    let (part, said) = of("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 10_200_547_328, 14);
    assert_eq!((part.sm_count, part.memory.0), (14, 10_200_547_328));
    assert!(said.len() == 1 && said[0].contains("whose figures are divided so"), "{said:?}");
    let share = |of: fn(&DeviceProfile) -> f64| of(&part) / of(&whole);
    assert!((share(|device| device.peak_rate(Precision::Fp32).0) - 14.0 / 108.0).abs() < 1e-9);
    assert!((0.1..0.13).contains(&share(|device| device.bandwidth().0)), "bandwidth is divided as memory is");
    let (shared, said) = of("NVIDIA A100-SXM4-80GB", 10_200_547_328, 108);
    assert!(said[0].contains("rates are those of the whole") && !said[0].contains("divided"), "{said:?}");
    let (_, said) = of("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 42_290_118_656, 0);
    assert!(said[0].contains("how fast it is, is not known") && !said[0].contains("divided"), "{said:?}");
    assert!((shared.bandwidth().0 - whole.bandwidth().0).abs() < 1.0, "all multiprocessors, in turn with others");
}

#[test]
fn ranks_on_unlike_devices_are_told_and_not_put_under_one_roof() {
    let folder = tempfile::tempdir().unwrap();
    let write = |devices: [&str; 2]| {
        for (rank, device) in devices.iter().enumerate() {
            let long = 1500 + 400 * rank;
            let text = format!(
                r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}},
                "deviceProperties": [{{"name": "{device}", "id": 0}}], "traceEvents": [
                {{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 110, "dur": 30, "args": {{
                 "External id": 1, "Input Dims": [[1024, 1024], [1024, 1024]], "Input type": ["float", "float"]}}}},
                {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 120, "dur": 5,
                 "args": {{"External id": 1, "correlation": 1}}}},
                {{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 130, "dur": {long},
                 "args": {{"External id": 1, "device": 0, "stream": 7, "correlation": 1}}}}]}}"#
            );
            std::fs::write(folder.path().join(format!("rank{rank}.json")), text).unwrap();
        }
        let path = folder.path().to_str().unwrap();
        let output = assert_cmd::Command::cargo_bin("retime").unwrap().args(["roofline", path]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let run = |arguments: &[&str]| {
        let run =
            assert_cmd::Command::cargo_bin("retime").unwrap().args(arguments).arg(folder.path()).output().unwrap();
        String::from_utf8_lossy(&run.stdout).into_owned()
    };
    let report = folder.path().join("report.html");
    let reported = || {
        run(&["export", "-o", report.to_str().unwrap()]);
        let text = std::fs::read_to_string(&report).unwrap();
        std::fs::remove_file(&report).unwrap();
        text
    };
    let (alike, none) = write(["NVIDIA A100-SXM4-80GB"; 2]);
    assert!(!reported().contains("left out") && run(&["info"]).contains("device      NVIDIA A100-SXM4-80GB\n"));
    assert!(!alike.contains("left out") && !none.contains("unlike"), "{alike}{none}");
    let (unlike, warned) = write(["NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB"]);
    assert!(warned.contains("the ranks ran on unlike devices: rank 0 on A100-80, rank 1 on V100"), "{warned}");
    assert!(
        unlike.contains("the work of 1 of 2 ranks, which ran on other devices than A100-80, is left out"),
        "{unlike}"
    );
    assert!(unlike.contains(" 1500.0 "), "{unlike}");
    assert!(run(&["info"]).contains("device      NVIDIA A100-SXM4-80GB, Tesla V100-SXM2-16GB\n"));
    assert!(reported().contains("ran on other devices than A100-80, is left out</text>"));
}

#[test]
fn what_ran_on_two_unlike_devices_moves_to_no_other() {
    let of = |second: &str| {
        let kernel = |id: u32, ts: u32| {
            format!(
                r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {ts}, "dur": 5,
             "args": {{"correlation": {}}}}},
            {{"ph": "X", "cat": "kernel", "name": "gemm", "pid": {id}, "tid": 7, "ts": {}, "dur": 500,
             "args": {{"device": {id}, "stream": 7, "correlation": {}}}}}"#,
                id + 1,
                ts + 10,
                id + 1
            )
        };
        let devices = format!(r#"{{"name": "Tesla V100-SXM2-16GB", "id": 0}}, {{"name": "{second}", "id": 1}}"#);
        let text =
            format!(r#"{{"deviceProperties": [{devices}], "traceEvents": [{}, {}]}}"#, kernel(0, 120), kernel(1, 140));
        let engine = engine();
        let loaded = engine.load_bytes(text.as_bytes(), "two.json", &BuildOptions::default()).unwrap();
        let outcome = evaluated(&engine, &loaded, &["swap-gpu A100-80"]);
        outcome.steps[0].is_impossible
    };
    assert!(of("NVIDIA H100 80GB HBM3"));
    assert!(!of("Tesla V100-SXM2-16GB"));
}

#[test]
fn an_embedding_of_more_numbers_than_a_machine_addresses_stops_nothing() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs/embedding_of_wide_rows.json");
    let loaded = engine().load(&[path], &OpenOptions::default(), &BuildOptions::default()).unwrap().remove(0);
    let memory = loaded.replay.summary.memory_bytes;
    assert!(memory.is_none_or(|bytes| bytes <= retime_core::units::Bytes::MOST), "{memory:?}");
}

/// The largest share of its roof that work of `family` reaches after `lines`, in the sample `name`.
fn most_of_roof(name: &str, lines: &[&str], family: Family) -> f64 {
    let (engine, loaded) = (engine(), load_sample(name));
    let outcome = evaluated(&engine, &loaded, lines);
    let resolved = &outcome.resolved;
    let times = Times::Simulated { timed: &resolved.timed, schedule: &outcome.schedule };
    let place = Place { device: &resolved.devices[0], factors: [1.0; 3], beside: &[] };
    let points = points((&resolved.graph, &resolved.works), times, &place, Level::Kernel);
    let points = points.iter().filter(|point| point.family == family);
    points.map(|point| point.throughput / point.attainable).fold(0.0, f64::max)
}

#[test]
fn another_algorithm_of_a_convolution_is_under_the_roofs_of_another_device() {
    let lines = ["swap-gpu RTX-5090", "conv-algorithm best"];
    let most = most_of_roof("public/vgg13-train-h100.json.gz", &lines, Family::Conv);
    assert!(0.5 < most && most <= 1.001, "{most}");
}

#[test]
fn another_algorithm_of_a_convolution_is_priced_once_on_another_device() {
    let (engine, open, build) = (engine(), OpenOptions::default(), BuildOptions::default());
    let loaded = engine.load(&[sample("public/vgg13-train-h100.json.gz")], &open, &build).unwrap().remove(0);
    for algorithm in ["direct", "fft", "winograd", "im2col"] {
        let step = format!("conv-algorithm {algorithm}");
        let time = |device: &str| {
            let swapped = format!("swap-gpu {device}");
            evaluated(&engine, &loaded, &[&step, &swapped]).summary.steady_ns.0 as f64
        };
        // Arithmetic is as fast, memory faster.
        assert!(time("H200") <= 1.02 * time("H100-SXM"), "{algorithm}: {} for {}", time("H200"), time("H100-SXM"));
    }
}

#[test]
fn what_no_model_covers_keeps_its_time_on_another_host() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inputs/unsorted.json");
    let (engine, open, build) = (engine(), OpenOptions::default(), BuildOptions::default());
    let loaded = engine.load(&[path], &open, &build).unwrap().remove(0);
    for host in ["Karst", "Carbonate", "BLIMP"] {
        let outcome = evaluated(&engine, &loaded, &[&format!("place-on {host}")]);
        let summary = &outcome.summary;
        assert!(summary.steady_ns >= DurNs(40_000), "{host}: {} of 60 µs", summary.steady_ns);
        assert!(summary.steady_band.high_ns > summary.steady_band.low_ns, "{host}: {:?}", summary.steady_band);
    }
}

#[test]
fn what_is_above_the_compute_roof_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let told = |size: u64| {
        let path = folder.path().join("product.json");
        std::fs::write(&path, product(size)).unwrap();
        let path = path.display().to_string();
        let answer = json(&["roofline", &path]);
        let is_told = |found: &Value| found["code"] == "above-compute-roof";
        let output = retime().args(["roofline", &path]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            answer["diagnostics"].as_array().unwrap().iter().any(is_told),
            text.contains("above 100 % of the compute roof"),
        )
    };
    // 13 and 107 TFLOP/s, of which an A100 reaches 19.5 in single precision.
    assert_eq!(told(512), (false, false));
    assert_eq!(told(1024), (true, true));
}

#[test]
fn what_is_above_the_network_roof_is_said() {
    let folder = tempfile::tempdir().unwrap();
    // Of two A100, whose link carries 300 GB/s each way.
    let told = |length: u64| {
        let path = folder.path().join("reduced.json");
        std::fs::write(&path, reduced(length)).unwrap();
        let path = path.display().to_string();
        let answer = json(&["roofline", &path]);
        let is_told = |found: &Value| found["code"] == "above-network-roof";
        let output = retime().args(["roofline", &path]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (
            answer["diagnostics"].as_array().unwrap().iter().any(is_told),
            text.contains("above 100 % of the network roof"),
        )
    };
    assert_eq!(told(20), (false, false));
    assert_eq!(told(5), (true, true));
}

/// The kernel of [`product`] as an all-reduce of 4 MiB between two ranks that takes `length` µs.
fn reduced(length: u64) -> String {
    let args = concat!(
        r#""Collective name":"allreduce","In msg nelems":1048576,"Out msg nelems":1048576,"Group size":2,"dtype":"Float","#,
        r#""Process Group Name":"0","Process Group Ranks":"[0, 1]","correlation":1"#
    );
    let trace = product(512).replace("ampere_sgemm_128x64_tn", "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    let from = r#""ts":120,"dur":20,"args":{"correlation":1"#;
    trace.replace(from, &format!(r#""ts":120,"dur":{length},"args":{{{args}"#))
}

#[test]
fn a_collective_of_unlike_devices_takes_as_long_on_each_of_its_ranks() {
    let folder = tempfile::tempdir().unwrap();
    for (rank, device) in [(0, "NVIDIA A100-SXM4-80GB"), (1, "NVIDIA H100 80GB HBM3")] {
        let info = format!(r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"#);
        let trace = reduced(40).replace("NVIDIA A100-SXM4-80GB", device).replacen('{', &info, 1);
        std::fs::write(folder.path().join(format!("rank{rank}.json")), trace).unwrap();
    }
    let path = folder.path().to_str().unwrap();
    for device in ["H200", "A100"] {
        let answer = json(&["simulate", path, "--gpu", device]);
        let transfers: Vec<u64> =
            answer["ranks"].as_array().unwrap().iter().map(|rank| rank["transfer_ns"].as_u64().unwrap()).collect();
        assert_eq!((transfers.len(), transfers[0]), (2, transfers[1]), "{device}");
    }
}

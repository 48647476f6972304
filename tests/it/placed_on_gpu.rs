//! A model traced on a host, put on a GPU; the bundled sample made that way; and what is exported, opened again.

use retime::session::{Engine, Loaded, Outcome, Timeline, sample};
use retime_core::cost::{OverheadKind, Provenance};
use retime_core::graph::{BuildOptions, HostPart, LaneKind, TaskKind};
use retime_core::scenario::Scenario;

use crate::support::jobs::loaded;
use crate::support::{engine, sample};

const HOST: &str = "dlrm-ddp-b256-fp32-cpu.kineto.json.gz";

fn open(name: &str) -> &'static Loaded {
    loaded(&[sample(name)])
}

/// The bundled sample that is predicted.
fn bundled(engine: &Engine) -> Loaded {
    sample::find("dlrm-on-v100").unwrap().load(engine, &BuildOptions::default()).unwrap()
}

fn placed(engine: &Engine, loaded: &Loaded, device: &str) -> Outcome {
    let scenario = Scenario::parse([format!("place-on {device}").as_str()]).unwrap();
    engine.evaluate(loaded, &scenario, 0)
}

fn again(engine: &Engine, outcome: &Outcome, loaded: &Loaded) -> Loaded {
    let bytes = Timeline::new(outcome).chrome(loaded).unwrap();
    engine.load_bytes(&bytes, "again.json", &BuildOptions::default()).unwrap()
}

/// `a` off `b`, in per cent.
fn off(a: retime_core::units::DurNs, b: retime_core::units::DurNs) -> f64 {
    100.0 * (a.0 as f64 / b.0 as f64 - 1.0).abs()
}

#[test]
fn the_sample_is_a_gpu_trace_marked_as_predicted_that_replays_exactly() {
    let engine = engine();
    let loaded = bundled(&engine);
    assert_eq!(loaded.predicted(), Some("place-on V100"), "as the file says");
    assert_eq!(loaded.device_names(), ["V100"]);
    let graph = &loaded.graph;
    let kernels = graph.tasks.node_weights().filter(|task| task.kind == TaskKind::Kernel).count();
    let streams = graph.lanes.iter().filter(|lane| matches!(lane.kind, LaneKind::Stream { .. })).count();
    assert!(kernels > 100 && streams == 1, "{kernels} kernels on {streams} streams");
    assert_eq!(graph.batch_size, Some(256));
    let summary = &loaded.replay.summary;
    assert!(off(summary.simulated_ns, summary.measured_ns) < 0.1, "{:?}", summary.replay_error);
}

#[test]
fn the_sample_is_what_its_manifest_says_it_was_made_by() {
    let engine = engine();
    let made = placed(&engine, open(HOST), "V100").summary;
    let kept = bundled(&engine).replay.summary.clone();
    let apart = off(kept.simulated_ns, made.simulated_ns);
    // Models may be fitted anew; when this fails, run `made_by` of sample_traces/manifest.json.
    assert!(apart < 3.0, "{apart} %: {} and {}", kept.simulated_ns, made.simulated_ns);
    assert!(off(kept.kernel_only_ns, made.kernel_only_ns) < 10.0, "{} {}", kept.kernel_only_ns, made.kernel_only_ns);
}

#[test]
fn an_untouched_trace_that_is_exported_opens_as_the_same_iteration() {
    let engine = engine();
    let loaded = bundled(&engine);
    let second = again(&engine, &loaded.replay, &loaded);
    let (before, after) = (&loaded.replay.summary, &second.replay.summary);
    assert!(off(after.measured_ns, before.simulated_ns) < 0.1);
    assert!(off(after.simulated_ns, before.simulated_ns) < 0.1);
    let count = |loaded: &Loaded, kind| loaded.graph.tasks.node_weights().filter(|task| task.kind == kind).count();
    for kind in [TaskKind::Kernel, TaskKind::Runtime] {
        assert_eq!(count(&second, kind), count(&loaded, kind), "{kind:?}");
    }
    assert_eq!(second.graph.operators.len(), loaded.graph.operators.len());
    assert_eq!(second.predicted(), loaded.predicted());
}

#[test]
fn a_placed_model_that_is_exported_replays_to_the_predicted_time() {
    let engine = engine();
    let loaded = open(HOST);
    let outcome = placed(&engine, loaded, "V100");
    let summary = &again(&engine, &outcome, loaded).replay.summary;
    assert!(off(summary.measured_ns, outcome.summary.simulated_ns) < 0.1, "{summary:?}");
    assert!(off(summary.simulated_ns, outcome.summary.simulated_ns) < 0.1, "{summary:?}");
}

#[test]
fn host_time_is_the_databases_and_kernels_are_the_models() {
    let engine = engine();
    let loaded = open(HOST);
    let outcome = placed(&engine, loaded, "V100");
    let added = &outcome.resolved.added;
    let launch = engine.overheads.get(OverheadKind::T4, "cudaLaunchKernel").unwrap().mean_us;
    for call in added.iter().filter(|added| &*added.name == "cudaLaunchKernel") {
        assert!((call.prediction.duration.0 as f64 / 1e3 - launch).abs() < 1e-3);
    }
    let before = engine.overheads.get(OverheadKind::T2, "aten::linear").unwrap().mean_us;
    let linear = |added: &&retime_core::scenario::AddedTask| {
        &*added.name == "aten::linear" && added.kind == TaskKind::Host(HostPart::BeforeLaunch)
    };
    let found: Vec<_> = added.iter().filter(linear).map(|added| added.prediction.duration.0 as f64 / 1e3).collect();
    assert!(found.len() >= 8 && found.iter().all(|us| (us - before).abs() < 1e-3), "{found:?} {before}");
    let kernels: Vec<_> = added.iter().filter(|added| added.kind == TaskKind::Kernel).collect();
    let calls = added.iter().filter(|added| &*added.name == "cudaLaunchKernel").count();
    assert_eq!(calls, kernels.len());
    // Two steps are simulated; each has 8 layers forward, 24 products and sums of gradients, 8 lookups both ways.
    assert!((300..1500).contains(&kernels.len()), "{}", kernels.len());
    let modelled = kernels.iter().filter(|kernel| kernel.prediction.provenance == Provenance::Absolute).count();
    assert!(modelled * 10 >= kernels.len() * 9, "{modelled} of {}", kernels.len());
}

#[test]
fn a_faster_gpu_is_not_slower() {
    let engine = engine();
    let loaded = open(HOST);
    let work = |device| placed(&engine, loaded, device).summary.kernel_only_ns;
    let time = |device| placed(&engine, loaded, device).summary.simulated_ns;
    assert!(work("H100") < work("V100"));
    assert!(time("H100") <= time("V100"));
    assert!(time("V100") < loaded.replay.summary.simulated_ns);
}

#[test]
fn what_cannot_be_placed_changes_nothing_and_says_why() {
    let engine = engine();
    let host = open(HOST);
    let outcome = placed(&engine, host, "V10O");
    assert_eq!(outcome.summary.simulated_ns, host.replay.summary.simulated_ns);
    assert!(outcome.steps[0].unhandled[0].contains("V100"), "{:?}", outcome.steps[0].unhandled);
    let placed_already = again(&engine, &placed(&engine, host, "V100"), host);
    let outcome = placed(&engine, &placed_already, "V100");
    assert!(outcome.steps[0].effects.is_empty(), "it is there already: {:?}", outcome.steps[0].effects);
    assert_eq!(outcome.summary.simulated_ns, placed_already.replay.summary.simulated_ns);
}

/// A step that begins with 3 ms of host time and launches so much that a queue of about a thousand holds the host back.
fn queued() -> String {
    const LAUNCHES: usize = 1_200;
    const QUEUE: usize = 1_022;
    let (mut events, mut ends) = (Vec::new(), Vec::<f64>::new());
    let (mut host, mut device) = (3_000.0_f64, 3_006.0_f64);
    let mut add = |category: &str, name: &str, pid: u32, span: (f64, f64), args: &str| {
        let times = format!(r#""ts":{:.3},"dur":{:.3}"#, span.0, span.1 - span.0);
        events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{pid},{times},"args":{{{args}}}}}"#
        ));
    };
    for index in 0..LAUNCHES {
        let own = host + 5.0;
        let end = index.checked_sub(QUEUE).map_or(own, |older| own.max(ends[older]));
        let args = format!(r#""correlation":{},"device":0,"stream":7"#, index + 1);
        add("cuda_runtime", "cudaLaunchKernel", 1, (host, end), &args);
        device = device.max(end + 1.0);
        add("kernel", "kernel", 0, (device, device + 50.0), &args);
        device += 50.0;
        ends.push(device);
        host = end + 1.0;
    }
    add("user_annotation", "ProfilerStep#6", 1, (0.0, host + 500.0), "");
    format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
}

#[test]
fn launches_that_waited_for_the_queue_and_host_time_before_the_first_are_exported() {
    let engine = engine();
    let loaded = engine.load_bytes(queued().as_bytes(), "queued.json", &BuildOptions::default()).unwrap();
    for edit in ["scale kind=host x1", "scale kind=kernel x0.5"] {
        let outcome = engine.evaluate(&loaded, &Scenario::parse([edit]).unwrap(), 0);
        let opened = again(&engine, &outcome, &loaded).replay.summary.clone();
        assert!(off(opened.measured_ns, outcome.summary.simulated_ns) < 0.1, "{edit}: {}", opened.measured_ns);
        assert!(off(opened.simulated_ns, outcome.summary.simulated_ns) < 0.1, "{edit}: {}", opened.simulated_ns);
    }
}

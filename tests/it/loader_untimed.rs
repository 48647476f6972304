//! Execution traces: alone they become a predicted timeline, attached they give a profiler trace its shapes.

use std::path::PathBuf;

use retime::session::{Engine, Loaded, Outcome};
use retime_core::diagnostic::Severity;
use retime_core::graph::{BuildOptions, TaskKind};
use retime_core::scenario::Scenario;
use retime_core::trace::{self, OpenOptions};

use crate::support::jobs::loaded;
use crate::support::{engine, input, sample, shared};

const ALONE: &str = "mlp-b256-fp32-cpu.et.json.gz";
const TIMED: &str = "mlp-b256-fp32-cpu.kineto.json.gz";

fn load(path: PathBuf) -> &'static Loaded {
    loaded(&[path])
}

fn on(engine: &Engine, loaded: &Loaded, device: &str) -> Outcome {
    engine.evaluate(loaded, &Scenario::parse([format!("place-on {device}").as_str()]).unwrap(), 0)
}

/// Kernels of the simulated timeline.
fn kernels(outcome: &Outcome) -> usize {
    let resolved = &outcome.resolved;
    let graph = &resolved.graph;
    let traced = graph.tasks.node_indices().filter(|&node| !resolved.is_removed(node));
    traced.filter(|&node| graph.tasks[node].kind == TaskKind::Kernel).count()
        + resolved.added.iter().filter(|added| added.kind == TaskKind::Kernel).count()
}

#[test]
fn an_execution_trace_alone_is_a_predicted_timeline_and_says_so() {
    let loaded = load(sample(ALONE));
    assert_eq!((loaded.predicted(), loaded.device_names()), (Some("place-on V100"), vec!["V100".to_owned()]));
    let trace = loaded.traces().next().unwrap();
    assert_eq!((trace.format, trace.events_in_file), ("execution-trace", 176));
    // 176 nodes, 2 of them the process and its thread, 6 ranges that the user named; what is never reached has no time.
    assert!((160..=168).contains(&loaded.graph.operators.len()), "{}", loaded.graph.operators.len());
    assert_eq!(loaded.graph.batch_size, Some(256));
    let found = loaded.diagnostics();
    let warning = found.sorted().into_iter().find(|d| d.code == "predicted-times").unwrap().clone();
    assert_eq!((warning.severity, warning.count), (Severity::Warning, 1));
    assert!(loaded.replay.summary.simulated_ns.0 > 0 && kernels(&loaded.replay) > 0);
}

#[test]
fn a_step_moves_it_to_another_gpu() {
    let engine = engine();
    let loaded = load(sample(ALONE));
    let base = loaded.replay.summary.simulated_ns;
    let same = on(&engine, loaded, "V100");
    assert_eq!((same.summary.simulated_ns, same.steps[0].unhandled.len()), (base, 0));
    let faster = on(&engine, loaded, "H100");
    assert!(faster.summary.simulated_ns < base, "{} {base}", faster.summary.simulated_ns);
    assert_eq!(kernels(&faster), kernels(&loaded.replay));
}

#[test]
fn shapes_without_times_give_the_device_work_that_the_timed_trace_of_the_same_step_does() {
    let engine = engine();
    let alone = load(sample(ALONE)).replay.summary.clone();
    let timed = on(&engine, load(sample(TIMED)), "V100").summary;
    let ratio = alone.kernel_only_ns.0 as f64 / timed.kernel_only_ns.0 as f64;
    assert!((0.9..1.1).contains(&ratio), "{} alone, {} timed", alone.kernel_only_ns, timed.kernel_only_ns);
    // What the host does between operators is in no execution trace.
    assert!(alone.simulated_ns < timed.simulated_ns, "{} alone, {} timed", alone.simulated_ns, timed.simulated_ns);
}

#[test]
fn every_shared_execution_trace_is_predicted_alone() {
    let engine = engine();
    for (path, least_kernels) in [
        ("et-1.1.1-pt2/pt2_et.json.tar.gz", 2),
        ("tiny-simple-add-et/benchmark_simple_add_et.json.gz", 4),
        ("linear-2080ti-et/linear_et.json.gz", 200),
        ("resnet-2080ti-et/resnet_et.json.gz", 150),
    ] {
        let Some(file) = shared(path) else { continue };
        let loaded = load(file);
        assert!(loaded.predicted().is_some(), "{path}");
        assert!(kernels(&loaded.replay) >= least_kernels, "{path}: {}", kernels(&loaded.replay));
        assert!(on(&engine, loaded, "A100").steps[0].unhandled.iter().all(|why| !why.contains("nothing")), "{path}");
    }
}

#[test]
fn an_attached_execution_trace_gives_shapes_to_a_trace_without() {
    for (folder, least) in [("tiny-simple-add-et", 20), ("linear-2080ti-et", 500)] {
        let Some(folder) = shared(folder) else { continue };
        let opened = trace::open(std::slice::from_ref(&folder), &OpenOptions::default()).unwrap();
        let trace = opened.jobs[0].ranks[0].trace.as_ref().unwrap();
        let with_lists = trace.operators.iter().filter(|(_, args)| args.tensors.is_some()).count();
        assert!(trace.has_shapes && with_lists >= least, "{}: {with_lists}", folder.display());
        assert_eq!(trace.diagnostics.count("shapes-from-execution-trace"), 1);
        let find = |name: &str| trace.events.ids().find(|&id| trace.names.get(trace.events.name(id)) == name);
        let addition = find("aten::add_").or_else(|| find("aten::add")).unwrap();
        if let Some(list) = trace.operators.get(addition).and_then(|args| args.tensors) {
            let types = trace.names.get(trace.tensor_args[list.index()].types);
            assert!(types.starts_with(r#"["float","float""#), "{types}");
        }
    }
}

#[test]
fn one_job_that_cannot_be_modelled_is_a_diagnostic_of_the_others() {
    let engine = engine();
    let paths = [sample(TIMED), input("counter_ranges_only.json"), input("plain_text.json")];
    let loaded = engine.load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap();
    let found = loaded[0].diagnostics();
    assert_eq!((loaded.len(), found.count("nothing-to-model"), found.count("unreadable-file")), (1, 1, 1));
}

/// Bytes of all copies to the device, largest first.
fn copied_to_the_device(loaded: &Loaded) -> Vec<u64> {
    let graph = &loaded.replay.resolved.graph;
    let own = loaded.base.iteration_tasks();
    let tasks = graph.tasks.node_indices().filter(|node| own[node.index()]).map(|node| &graph.tasks[node]);
    let copies = tasks.filter(|task| task.kind == TaskKind::Memcpy && graph.names.get(task.name).contains("HtoD"));
    let mut bytes: Vec<u64> = copies.map(|task| task.bytes.0).collect();
    bytes.sort_by_key(|&bytes| std::cmp::Reverse(bytes));
    bytes
}

#[test]
fn an_execution_trace_of_a_gpu_tells_what_is_copied_to_it() {
    for name in ["mlp-b4096-fp32-cuda", "dlrm-default-b512-fp32-cuda", "dlrm-mlperf-fused-b512-fp32-cuda"] {
        let of = |ending: &str| load(sample(&format!("h100/{name}.{ending}.json.gz")));
        let (told, recorded) = (of("et"), of("kineto"));
        assert!(!copied_to_the_device(recorded).is_empty());
        assert_eq!(copied_to_the_device(told), copied_to_the_device(recorded), "{name}");
        let placed = on(&engine(), told, "H100").summary.kernel_only_ns;
        let off = placed.0 as f64 / recorded.replay.summary.kernel_only_ns.0 as f64 - 1.0;
        assert!(off.abs() < 0.25, "{name}: {placed}, {off:+.2}");
        let found = told.diagnostics();
        let assumed: Vec<_> = found.sorted().into_iter().filter(|it| it.code == "predicted-so").collect();
        let is_of_copies = |text: &str| text.contains("copied without a wait of the host: taken as from or to pinned");
        assert!(assumed.iter().any(|it| is_of_copies(&it.message)), "{name}: {assumed:?}");
    }
}

#[test]
fn what_a_placement_assumes_is_told_of_what_is_predicted() {
    let found = load(sample(ALONE)).diagnostics();
    let assumed: Vec<_> = found.sorted().into_iter().filter(|it| it.code == "predicted-so").collect();
    assert!(assumed.iter().any(|it| it.message.contains("copied from memory that is not pinned")), "{assumed:?}");
}

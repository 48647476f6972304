//! Kernels of replayed graphs get the operators of the run that captured the graphs.

use std::path::Path;

use retime_core::graph::{BuildOptions, Captures, ExecutionGraph, NodeId, Rank, TaskKind};
use retime_core::trace::{Trace, load_bytes};
use serde_json::{Value, json as made};

use crate::support::jobs::Opened;
use crate::support::program::json;
use crate::support::{engine, sample};

fn trace(events: &[Value]) -> Trace {
    let text = made!({ "deviceProperties": [{ "id": 0, "name": "AMD Instinct MI300X" }], "traceEvents": events });
    load_bytes(text.to_string().as_bytes(), "made.json").unwrap()
}

fn call(name: &str, at: u64, correlation: u64, kernel: Option<&str>) -> Value {
    let mut args = made!({ "correlation": correlation });
    if let Some(kernel) = kernel {
        args["kernel"] = made!(kernel);
    }
    made!({ "ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 2, "args": args })
}

fn operator(name: &str, at: u64, dur: u64, rows: u64) -> Value {
    let args = made!({ "Input Dims": [[rows, 64], [64, 64]], "Input type": ["c10::BFloat16", "c10::BFloat16"] });
    made!({ "ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": dur, "args": args })
}

/// The capture of a graph of `kernels`, each launched by a product of `rows` rows.
fn capture(kernels: &[&str], rows: u64) -> Vec<Value> {
    let mut events = vec![call("hipStreamBeginCapture", 0, 1, None)];
    for (at, kernel) in (1..).zip(kernels) {
        events.push(operator("aten::linear", 100 * at, 90, rows));
        events.push(operator("aten::mm", 100 * at + 10, 60, rows));
        events.push(call("hipModuleLaunchKernel", 100 * at + 20, 10 + at, Some(kernel)));
    }
    let end = 100 * (1 + kernels.len() as u64);
    events.push(call("hipStreamEndCapture", end, 2, None));
    events
}

/// A run that launches a graph of `kernels` twice.
fn replay(kernels: &[&str]) -> Trace {
    let mut events = Vec::new();
    for launch in [1, 2_u64] {
        events.push(operator("aten::add", 1_000 * launch - 100, 5, 8));
        events.push(call("hipGraphLaunch", 1_000 * launch, launch, None));
        for (at, kernel) in (1..).zip(kernels) {
            let args = made!({ "device": 0, "stream": 7, "correlation": launch });
            events.push(made!({
                "ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7,
                "ts": 1_000 * launch + 20 * at, "dur": 15, "args": args,
            }));
        }
    }
    trace(&events)
}

fn graph_of(trace: &Trace) -> ExecutionGraph {
    let input = retime_core::graph::build::RankInput { rank: Rank(0), trace_index: 0, trace, others: &[] };
    retime_core::graph::build::build_ranks(&[input], &BuildOptions::default()).unwrap()
}

fn kernels(graph: &ExecutionGraph) -> Vec<NodeId> {
    graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel).collect()
}

/// The operator of each kernel, with what it was called from and how many rows it works on.
fn operators(graph: &ExecutionGraph) -> Vec<Option<(String, String, u64)>> {
    let name = |id: retime_core::graph::OperatorId| graph.names.get(graph.operators[id.0 as usize].name).to_owned();
    let of = |node: NodeId| {
        let id = graph.tasks[node].operator?;
        let operator = &graph.operators[id.0 as usize];
        let rows = graph.operands[operator.operands?.0 as usize].dims(0)?[0];
        Some((name(id), operator.parent.map(name).unwrap_or_default(), rows))
    };
    kernels(graph).into_iter().map(of).collect()
}

#[test]
fn every_kernel_of_every_replay_has_the_operator_that_launched_it() {
    let replay = replay(&["a", "b", "a"]);
    let mut graph = graph_of(&replay);
    let before = (graph.measured, graph.tasks.edge_count());
    let captures = Captures::read([&trace(&capture(&["a", "b", "a"], 32))]);
    assert_eq!(captures.lack(), None);
    captures.join(&mut graph);
    let expected = Some(("aten::mm".to_owned(), "aten::linear".to_owned(), 32));
    assert_eq!(operators(&graph), vec![expected; 6]);
    assert_eq!(before, (graph.measured, graph.tasks.edge_count()), "how it replays is as it was");
    for (index, operator) in graph.operators.iter().enumerate() {
        let id = index as u32;
        assert!(operator.parent.is_none_or(|parent| parent.0 < id), "callers stand first");
        assert!(operator.subtree_end.0 > id);
    }
    let starts: Vec<_> = graph.operators.iter().map(|operator| (operator.lane, operator.start)).collect();
    assert!(starts.is_sorted(), "{starts:?}");
}

#[test]
fn another_graph_gives_nothing_and_two_that_differ_in_sizes_alone_are_told() {
    let replay = replay(&["a", "b", "a"]);
    let mut other = graph_of(&replay);
    Captures::read([&trace(&capture(&["a", "c", "a"], 32))]).join(&mut other);
    assert!(operators(&other).iter().all(Option::is_none));
    let mut either = graph_of(&replay);
    let (small, large) = (trace(&capture(&["a", "b", "a"], 32)), trace(&capture(&["a", "b", "a"], 64)));
    Captures::read([&small, &large]).join(&mut either);
    assert!(operators(&either).iter().all(Option::is_none));
    assert!(either.diagnostics.sorted().iter().any(|told| told.code == "ambiguous-capture"));
    let mut same = graph_of(&replay);
    Captures::read([&small, &small]).join(&mut same);
    assert!(operators(&same).iter().all(Option::is_some));
}

#[test]
fn a_recording_without_captures_or_without_names_says_what_it_lacks() {
    let plain = trace(&[operator("aten::mm", 0, 50, 8), call("hipModuleLaunchKernel", 10, 1, Some("a"))]);
    assert!(Captures::read([&plain]).lack().is_some_and(|lack| lack.contains("no graph was captured")));
    let mut unnamed = capture(&["a"], 8);
    unnamed[3] = call("cudaLaunchKernel", 120, 11, None);
    assert!(Captures::read([&trace(&unnamed)]).lack().is_some_and(|lack| lack.contains("do not name")));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plain.json");
    std::fs::write(&path, made!({ "traceEvents": [operator("aten::mm", 0, 50, 8)] }).to_string()).unwrap();
    let error = engine().read_captures(&[path]).unwrap_err().to_string();
    assert!(error.contains("plain.json") && error.contains("no graph was captured"), "{error}");
}

#[test]
fn a_kernel_added_to_a_graph_is_launched_with_it_and_the_last_one_takes_the_launch_along() {
    let opened = Opened::of(Path::new("made.json"), graph_of(&replay(&["a", "b", "a"])));
    let added = opened.resolve(&["insert kernel k 1us after kernel=a"]).added;
    assert_eq!(added.iter().map(|added| added.kind).collect::<Vec<_>>(), vec![TaskKind::Kernel; 4]);
    let graph = opened.graph();
    let launches_gone = |line: &str| {
        let removed = opened.resolve(&[line]).removed;
        removed.iter().filter(|&&node| graph.names.get(graph.tasks[node].name) == "hipGraphLaunch").count()
    };
    assert_eq!(launches_gone("remove kernel=b"), 0);
    assert_eq!(launches_gone("remove kind=kernel"), 2);
}

/// On each stream the optimizer's kernels, which the main thread launches, come behind those of the backward pass, which another does.
#[test]
fn what_was_captured_opens_again_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("graph.json").display().to_string();
    let trace = sample("h100/mlp-b4096-fp32-cuda.kineto.json.gz").display().to_string();
    let written = json(&["export", &trace, "--step", "cuda-graph", "-o", &file]);
    assert!(written.get("opened_again").is_none(), "{written}");
    let steady = |arguments: &[&str]| json(arguments)["steady_ns"].as_f64().unwrap();
    let (own, again) = (steady(&["simulate", &trace, "--step", "cuda-graph"]), steady(&["simulate", &file]));
    assert!((again / own - 1.0).abs() < 0.005, "{again} for {own}");
}

/// No graph holds a wait of the host for the device: what is launched behind one is another graph's.
#[test]
fn a_wait_for_the_device_parts_a_graph_so_that_the_export_takes_further_edits_alike() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("graph.json").display().to_string();
    let trace = sample("h200/gpt2-small-b8-fp32-cuda.kineto.json.gz").display().to_string();
    json(&["export", &trace, "--step", "cuda-graph", "-o", &file]);
    let steady = |arguments: &[&str]| json(arguments)["steady_ns"].as_f64().unwrap();
    let faster = "scale kind=kernel x0.5";
    let own = steady(&["simulate", &trace, "--step", "cuda-graph", "--step", faster]);
    let again = steady(&["simulate", &file, "--step", faster]);
    assert!((again / own - 1.0).abs() < 0.01, "{again} for {own}");
}

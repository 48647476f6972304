//! Execution traces that are damaged, or of another run than the profiler trace beside them: what cannot be is told, never taken.

use std::fs;

use retime_core::engine::Loaded;
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;
use serde_json::{Value, json};

use crate::support::engine;

/// Products in a row, of so many rows.
const PRODUCTS: u64 = 8;

/// The nodes of an execution trace: the process, its thread, and products of `rows` rows.
fn nodes(rows: u64) -> Vec<Value> {
    let range = |id: u64, parent: u64, name: &str| json!({"id": id, "parent": parent, "name": name, "rf_id": 0});
    let mut nodes = vec![
        range(1, 1, "[pytorch|profiler|execution_trace|process]"),
        range(2, 1, "[pytorch|profiler|execution_trace|thread]"),
    ];
    let tensor = |id: u64, elements: u64| json!([id, id, 0, elements, 4, "cpu"]);
    nodes.extend((0..PRODUCTS).map(|at| {
        json!({
            "id": 3 + at, "parent": 2, "name": "aten::mm", "rf_id": 1 + at, "tid": 1, "seq_id": -1,
            "inputs": [tensor(100 + at, rows * 1024), tensor(200 + at, 1024 * 1024)],
            "input_shapes": [[rows, 1024], [1024, 1024]],
            "input_types": ["Tensor(float)", "Tensor(float)"],
            "outputs": [tensor(300 + at, rows * 1024)],
            "output_shapes": [[rows, 1024]],
            "output_types": ["Tensor(float)"],
        })
    }));
    nodes
}

fn execution_trace(nodes: &[Value]) -> Value {
    json!({"schema": "1.0.1", "pid": 1, "nodes": nodes})
}

fn load(files: &[(&str, Value)]) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text.to_string()).unwrap();
    }
    let paths = [folder.path().to_owned()];
    engine().load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0)
}

fn alone(nodes: &[Value]) -> Loaded {
    load(&[("a.et.json", execution_trace(nodes))])
}

fn told(loaded: &Loaded, code: &str) -> Option<(String, u64)> {
    let found = loaded.diagnostics();
    found.sorted().into_iter().find(|one| one.code == code).map(|one| (one.message.clone(), one.count))
}

#[test]
fn a_node_whose_id_is_there_already_counts_once() {
    let sound = alone(&nodes(256));
    let twice: Vec<Value> = nodes(256).into_iter().flat_map(|node| [node.clone(), node]).collect();
    let twice = alone(&twice);
    assert_eq!(twice.replay.summary.simulated_ns, sound.replay.summary.simulated_ns);
    assert_eq!(twice.graph.operators.len(), sound.graph.operators.len());
    let (message, count) = told(&twice, "repeated-node").unwrap();
    assert!(count == PRODUCTS + 2 && message.contains("has the id of a node that is there already"), "{message}");
    let trace = twice.traces().next().unwrap();
    assert_eq!((trace.events_in_file, trace.skipped_events), (2 * (PRODUCTS + 2), PRODUCTS + 2));
    assert!(told(&sound, "repeated-node").is_none() && told(&sound, "damaged-parent").is_none());
}

#[test]
fn sizes_are_read_however_they_are_written_and_others_are_not_modelled() {
    let engine = engine();
    let with = |rows: Value| {
        let mut nodes = nodes(256);
        nodes[2..].iter_mut().for_each(|node| node["input_shapes"][0][0] = rows.clone());
        alone(&nodes)
    };
    let sound = with(json!(256));
    for alike in [json!("256"), json!(256.0)] {
        let loaded = with(alike);
        assert_eq!(loaded.replay.summary.simulated_ns, sound.replay.summary.simulated_ns);
        assert!(told(&loaded, "damaged-sizes").is_none());
    }
    for damaged in [json!(-256), json!(256.5), json!("many"), json!(null), json!(1_u64 << 63), json!(1e30)] {
        let loaded = with(damaged.clone());
        assert_eq!(told(&loaded, "damaged-sizes").unwrap().1, PRODUCTS, "{damaged}");
        let moved = engine.evaluate(&loaded, &Scenario::parse(["place-on A100"]).unwrap(), 0);
        let unhandled = moved.steps[0].unhandled.join("\n");
        assert!(unhandled.contains("aten::mm ×8"), "{damaged}: {unhandled}");
    }
}

#[test]
fn sizes_that_make_another_number_of_elements_are_told() {
    let with = |elements: u64, element_size: u64| {
        let mut nodes = nodes(256);
        for node in &mut nodes[2..5] {
            node["inputs"][1] = json!([900, 900, 0, elements, element_size, "cpu"]);
        }
        told(&alone(&nodes), "contradicting-sizes")
    };
    let (message, count) = with(4096, 4).unwrap();
    assert!(count == 3 && message.contains("a tensor of 4096 elements whose sizes make 1048576"), "{message}");
    assert_eq!(with(1024 * 1024, 4), None);
    assert_eq!(with(0, 0), None, "a sparse tensor has no storage of its own");
}

#[test]
fn a_node_that_contains_itself_is_told() {
    let mut nodes = nodes(256);
    for node in &mut nodes[2..] {
        node["parent"] = node["id"].clone();
    }
    let (message, count) = told(&alone(&nodes), "damaged-parent").unwrap();
    assert!(count == PRODUCTS && message.starts_with("aten::mm is said to contain itself"), "{message}");
}

#[test]
fn nodes_that_contain_one_another_are_told_and_nothing_else_changes() {
    let sound = alone(&nodes(256));
    let mut swapped = nodes(256);
    (swapped[4]["parent"], swapped[5]["parent"]) = (swapped[5]["id"].clone(), swapped[4]["id"].clone());
    let loaded = alone(&swapped);
    let (message, count) = told(&loaded, "damaged-parent").unwrap();
    assert!(count == 2 && message.starts_with("aten::mm is said to contain what contains it"), "{message}");
    let operators = |loaded: &Loaded| -> Vec<i64> {
        let events = &loaded.traces().next().unwrap().events;
        events.ids().map(|id| events.dur(id).0).collect()
    };
    assert_eq!(operators(&loaded), operators(&sound));
    assert_eq!(loaded.replay.summary.simulated_ns, sound.replay.summary.simulated_ns);
}

#[test]
fn nodes_in_a_node_that_is_not_there_are_counted() {
    let mut without = nodes(256);
    assert!(told(&alone(&without), "missing-parent").is_none());
    for node in &mut without[2..4] {
        node["parent"] = json!(1_000_000_000);
    }
    let (message, count) = told(&alone(&without), "missing-parent").unwrap();
    assert!(count == 2 && message.contains("is in a node that is not in the file"), "{message}");
}

/// What the profiler recorded of the same products.
fn profiled(rows: u64) -> Value {
    let product = |at: u64| {
        json!({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1000 + 100 * at, "dur": 80, "args": {
            "Record function id": 1 + at, "External id": 1 + at,
            "Input Dims": [[rows, 1024], [1024, 1024]], "Input type": ["float", "float"], "Concrete Inputs": ["", ""],
        }})
    };
    json!({"schemaVersion": 1, "traceEvents": (0..PRODUCTS).map(product).collect::<Vec<_>>()})
}

#[test]
fn an_execution_trace_of_other_sizes_is_not_joined() {
    let pair = |rows| load(&[("a.kineto.json", profiled(64)), ("a.et.json", execution_trace(&nodes(rows)))]);
    let (same, other) = (pair(64), pair(1024));
    assert!(same.job.ranks[0].execution_trace.is_some() && told(&same, "different-sizes").is_none());
    assert!(other.job.ranks[0].execution_trace.is_none());
    let (message, _) = told(&other, "different-sizes").unwrap();
    let wanted = "8 of 8 operators have other sizes there (aten::mm [[64,1024],[1024,1024]] here";
    assert!(message.contains("a.et.json is not of the run of") && message.contains(wanted), "{message}");
}

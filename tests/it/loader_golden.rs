//! Every bundled trace against numbers counted by hand, next to a snapshot of its whole summary.
//!
//! The numbers were counted from the files with a script that shares nothing with this program (decimal arithmetic on the
//! text, sums over `ph`, `cat` and `args`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use retime::session::Loaded;
use retime_core::graph::TaskKind;
use retime_core::graph::iteration::steps;
use retime_core::trace::execution_trace::EtValue;
use retime_core::trace::{self, Category, ExecutionTrace, OpenOptions, Trace};

use crate::support::jobs::loaded;
use crate::support::samples;

struct Kineto {
    file: &'static str,
    entries: u64,
    events: usize,
    operators: usize,
    runtime: usize,
    kernels: usize,
    /// Kernels whose correlation id is that of a call.
    joined: usize,
    with_dims: usize,
    steps: usize,
    operator_ns: i64,
    kernel_ns: i64,
    span_ns: i64,
    /// Length of the first step.
    step_ns: i64,
}

struct Execution {
    file: &'static str,
    schema: &'static str,
    nodes: usize,
    with_schema: usize,
    /// Arguments that are tensors, not in lists.
    tensor_inputs: usize,
    names: usize,
}

const KINETO: [Kineto; 7] = [
    Kineto {
        file: "dlrm-ddp-b128-fp32-cpu-ws2-r0.kineto.json.gz",
        entries: 4528,
        events: 4218,
        operators: 4160,
        runtime: 0,
        kernels: 0,
        joined: 0,
        with_dims: 3932,
        steps: 4,
        operator_ns: 239_042_141,
        kernel_ns: 0,
        span_ns: 102_330_692,
        step_ns: 21_994_921,
    },
    Kineto {
        file: "dlrm-ddp-b128-fp32-cpu-ws2-r1.kineto.json.gz",
        entries: 4528,
        events: 4218,
        operators: 4160,
        runtime: 0,
        kernels: 0,
        joined: 0,
        with_dims: 3932,
        steps: 4,
        operator_ns: 243_202_081,
        kernel_ns: 0,
        span_ns: 101_390_681,
        step_ns: 22_104_418,
    },
    Kineto {
        file: "dlrm-ddp-b256-fp32-cpu.kineto.json.gz",
        entries: 5219,
        events: 4897,
        operators: 4868,
        runtime: 0,
        kernels: 0,
        joined: 0,
        with_dims: 4616,
        steps: 4,
        operator_ns: 314_966_322,
        kernel_ns: 0,
        span_ns: 124_872_748,
        step_ns: 25_468_142,
    },
    Kineto {
        file: "dlrm-ddp-b256-on-v100.predicted.json.gz",
        entries: 4910,
        events: 3368,
        operators: 2434,
        runtime: 467,
        kernels: 429,
        joined: 429,
        with_dims: 2308,
        steps: 2,
        operator_ns: 27_967_518,
        kernel_ns: 1_782_580,
        span_ns: 18_054_954,
        step_ns: 9_074_710,
    },
    Kineto {
        file: "dlrm-ddp-b64-fp32-cpu.kineto.json.gz",
        entries: 5219,
        events: 4897,
        operators: 4868,
        runtime: 0,
        kernels: 0,
        joined: 0,
        with_dims: 4616,
        steps: 4,
        operator_ns: 115_239_621,
        kernel_ns: 0,
        span_ns: 45_648_604,
        step_ns: 7_540_175,
    },
    Kineto {
        file: "dlrm-ddp-fused-b256-fp32-cpu.kineto.json.gz",
        entries: 2659,
        events: 2385,
        operators: 2356,
        runtime: 0,
        kernels: 0,
        joined: 0,
        with_dims: 2156,
        steps: 4,
        operator_ns: 209_847_187,
        kernel_ns: 0,
        span_ns: 86_162_502,
        step_ns: 18_887_703,
    },
    Kineto {
        file: "mlp-b256-fp32-cpu.kineto.json.gz",
        entries: 783,
        events: 701,
        operators: 672,
        runtime: 0,
        kernels: 0,
        joined: 0,
        with_dims: 612,
        steps: 4,
        operator_ns: 975_905_629,
        kernel_ns: 0,
        span_ns: 394_378_094,
        step_ns: 96_906_476,
    },
];

const EXECUTION: [Execution; 6] = [
    Execution {
        file: "dlrm-ddp-b128-fp32-cpu-ws2-r0.et.json.gz",
        schema: "1.1.1-chakra.0.0.4",
        nodes: 1056,
        with_schema: 876,
        tensor_inputs: 1210,
        names: 114,
    },
    Execution {
        file: "dlrm-ddp-b128-fp32-cpu-ws2-r1.et.json.gz",
        schema: "1.1.1-chakra.0.0.4",
        nodes: 1056,
        with_schema: 876,
        tensor_inputs: 1210,
        names: 114,
    },
    Execution {
        file: "dlrm-ddp-b256-fp32-cpu.et.json.gz",
        schema: "1.1.1-chakra.0.0.4",
        nodes: 1225,
        with_schema: 1075,
        tensor_inputs: 1417,
        names: 95,
    },
    Execution {
        file: "dlrm-ddp-b64-fp32-cpu.et.json.gz",
        schema: "1.1.1-chakra.0.0.4",
        nodes: 1225,
        with_schema: 1075,
        tensor_inputs: 1417,
        names: 95,
    },
    Execution {
        file: "dlrm-ddp-fused-b256-fp32-cpu.et.json.gz",
        schema: "1.1.1-chakra.0.0.4",
        nodes: 597,
        with_schema: 473,
        tensor_inputs: 648,
        names: 97,
    },
    Execution {
        file: "mlp-b256-fp32-cpu.et.json.gz",
        schema: "1.1.1-chakra.0.0.4",
        nodes: 176,
        with_schema: 132,
        tensor_inputs: 186,
        names: 50,
    },
];

fn folder() -> PathBuf {
    samples()
}

/// The one rank of a file that is opened by itself, in a folder where nothing lies beside it.
fn alone(file: &str) -> trace::RankTrace {
    let place = tempfile::tempdir().unwrap();
    std::fs::copy(folder().join(file), place.path().join(file)).unwrap();
    let opened = trace::open(&[place.path().join(file)], &OpenOptions::default()).unwrap();
    let mut ranks: Vec<_> = opened.jobs.into_iter().flat_map(|job| job.ranks).collect();
    assert_eq!(ranks.len(), 1, "{file}");
    ranks.remove(0)
}

fn of(trace: &Trace, category: Category) -> (usize, i64) {
    let ids = trace.events.ids().filter(|&id| trace.events.category(id) == category);
    ids.fold((0, 0), |(count, ns), id| (count + 1, ns + trace.events.dur(id).0))
}

fn joined(trace: &Trace) -> usize {
    let by = |category| trace.events.ids().filter(move |&id| trace.events.category(id) == category);
    let calls: Vec<u32> = by(Category::Runtime).map(|id| trace.events.correlation(id)).collect();
    by(Category::Kernel).filter(|&id| calls.contains(&trace.events.correlation(id))).count()
}

#[test]
fn every_bundled_profiler_trace_holds_what_was_counted() {
    for expected in &KINETO {
        let trace = alone(expected.file).trace.unwrap();
        let file = expected.file;
        let (operators, operator_ns) = of(&trace, Category::Operator);
        let (kernels, kernel_ns) = of(&trace, Category::Kernel);
        let with_dims = trace.operators.iter().filter(|(id, args)| {
            let is_operator = trace.events.category(*id) == Category::Operator;
            is_operator && args.tensors.is_some_and(|list| trace.tensor_args[list.index()].dims.0 != 0)
        });
        let steps = steps(&trace);
        let end = trace.events.ids().map(|id| trace.events.end(id).0).max().unwrap();
        assert_eq!((trace.events_in_file, trace.events.len()), (expected.entries, expected.events), "{file}");
        assert_eq!((operators, operator_ns), (expected.operators, expected.operator_ns), "{file}");
        assert_eq!((kernels, kernel_ns), (expected.kernels, expected.kernel_ns), "{file}");
        assert_eq!((of(&trace, Category::Runtime).0, joined(&trace)), (expected.runtime, expected.joined), "{file}");
        assert_eq!((with_dims.count(), end), (expected.with_dims, expected.span_ns), "{file}");
        assert_eq!((steps.len(), steps[0].dur.0), (expected.steps, expected.step_ns), "{file}");
    }
}

#[test]
fn every_bundled_execution_trace_holds_what_was_counted() {
    for expected in &EXECUTION {
        let trace = alone(expected.file).execution_trace.unwrap();
        let with_schema = trace.nodes.iter().filter(|node| !trace.names.get(node.op_schema).is_empty()).count();
        let names: std::collections::BTreeSet<&str> =
            trace.nodes.iter().map(|node| trace.names.get(node.name)).collect();
        let found = (trace.schema.as_str(), trace.nodes.len(), with_schema, tensor_inputs(&trace), names.len());
        let Execution { file, schema, nodes, with_schema, tensor_inputs, names } = *expected;
        assert_eq!(found, (schema, nodes, with_schema, tensor_inputs, names), "{file}");
    }
}

fn tensor_inputs(trace: &ExecutionTrace) -> usize {
    let of_node = |node: &trace::execution_trace::EtNode| {
        let values = trace.values_of(&node.inputs);
        let tensors = values.iter().filter(|value| matches!(value, EtValue::Tensor(_))).count();
        let in_lists: usize =
            values.iter().map(|value| if let EtValue::List(count) = value { *count as usize } else { 0 }).sum();
        tensors - in_lists
    };
    trace.nodes.iter().map(of_node).sum()
}

#[test]
fn no_bundled_trace_is_left_out_here() {
    let mut files: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json.gz"))
        .collect();
    files.sort();
    let mut known: Vec<&str> = KINETO.iter().map(|row| row.file).chain(EXECUTION.iter().map(|row| row.file)).collect();
    known.sort_unstable();
    assert_eq!(files, known);
}

/// What a bundled profiler trace, with the execution trace beside it, was read as and replays to.
fn summary(loaded: &Loaded) -> String {
    let mut text = String::new();
    for rank in &loaded.job.ranks {
        let trace = rank.trace.as_ref().unwrap();
        let mut categories: BTreeMap<String, usize> = BTreeMap::new();
        for id in trace.events.ids() {
            *categories.entry(format!("{:?}", trace.events.category(id))).or_default() += 1;
        }
        let _ = writeln!(
            text,
            "rank {} of {:?}, {:?}, predicted {:?}",
            rank.rank, rank.world_size, trace.format, trace.predicted
        );
        let _ = writeln!(
            text,
            "entries {}, skipped {}, tracks {}",
            trace.events_in_file,
            trace.skipped_events,
            trace.tracks.len()
        );
        let _ = writeln!(text, "events {categories:?}");
        let _ = writeln!(
            text,
            "distinct argument lists {}, collectives {}",
            trace.tensor_args.len(),
            trace.collectives.len()
        );
        let nodes = rank.execution_trace.as_ref().map(|trace| trace.nodes.len());
        let _ = writeln!(text, "execution trace nodes {nodes:?}");
        for step in steps(trace) {
            let _ =
                writeln!(text, "{} {} ns, {} events, observed {}", step.name, step.dur.0, step.events, step.observed);
        }
    }
    let graph = &loaded.graph;
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for task in graph.tasks.node_weights() {
        let kind = match task.kind {
            TaskKind::Host(part) => format!("{part:?}"),
            TaskKind::Collective(_) => "Collective".to_owned(),
            other => format!("{other:?}"),
        };
        *kinds.entry(kind).or_default() += 1;
    }
    let summary = &loaded.replay.summary;
    let _ = writeln!(
        text,
        "modelled {}, batch {:?}, operators {}",
        graph.ranks[0].iteration,
        graph.batch_size,
        graph.operators.len()
    );
    let _ = writeln!(text, "tasks {kinds:?}, dependencies {}", graph.tasks.edge_count());
    let _ = writeln!(text, "measured {} ns, replayed {} ns", summary.measured_ns.0, summary.simulated_ns.0);
    for found in loaded.diagnostics().sorted() {
        let _ = writeln!(text, "{:?} {} ×{}", found.severity, found.code, found.count);
    }
    text
}

#[test]
fn every_bundled_trace_is_summed_up_as_before() {
    for row in &KINETO {
        let path = folder().join(row.file);
        let loaded = loaded(&[path]);
        insta::assert_snapshot!(row.file.trim_end_matches(".json.gz"), summary(loaded));
    }
}

//! Edits on real traces: what they must do to the iteration, and that undoing them gives the base bit for bit.

use std::collections::BTreeMap;
use std::sync::Arc;

use retime_core::analysis::replay::period;
use retime_core::cost::classify::family_of_task;
use retime_core::cost::{Family, Overheads};
use retime_core::graph::{ExecutionGraph, NodeId, TaskKind, TimedGraph};
use retime_core::scenario::{Base, Context, Databases, Resolved, Scenario, resolve};
use retime_core::sim::{Schedule, simulate};
use retime_core::units::DurNs;

use crate::support::jobs::{of_sample, of_shared};

fn open(path: &str) -> Option<(&'static Base, &'static Context)> {
    let opened = of_shared(path)?;
    Some((&opened.base, &opened.context))
}

fn run(base: &Base, context: &Context, lines: &[&str]) -> Resolved {
    resolve(base, &Scenario::parse(lines.iter().copied()).unwrap(), context)
}

fn iteration(graph: &ExecutionGraph, timed: &TimedGraph) -> DurNs {
    let mut schedule = Schedule::default();
    simulate(timed, &mut schedule);
    graph.ranks.iter().map(|part| period(timed, &schedule, part)).max().unwrap()
}

fn time(base: &Base, context: &Context, lines: &[&str]) -> f64 {
    iteration(base.graph(), &run(base, context, lines).timed).0 as f64 / 1e6
}

fn assert_same(a: &TimedGraph, b: &TimedGraph) {
    assert_eq!(a.predecessors, b.predecessors);
    assert_eq!(a.lags, b.lags);
    assert_eq!(a.durations, b.durations);
    assert_eq!((&a.node_of, &a.task_of), (&b.node_of, &b.task_of));
}

const VGG: &str = "vgg13-h100-train/profiler_vgg13-iter41.json.gz";
const RECSYS: &str = "recsys-a100x8-rank3/control.json.gz";

#[test]
fn no_steps_and_steps_that_change_nothing_give_the_base_bit_for_bit() {
    for path in [VGG, RECSYS] {
        let Some((base, context)) = open(path) else { continue };
        let lowered = TimedGraph::lower(base.graph());
        let own = context.devices[0].profile.id.clone();
        let same_gpu = format!("swap-gpu {own}");
        for lines in [&[][..], &["scale kind=kernel x1"], &[same_gpu.as_str()]] {
            let resolved = run(base, context, lines);
            assert_same(&resolved.timed, &lowered);
            assert!(resolved.changes.is_empty(), "{path} {lines:?}");
        }
    }
}

#[test]
fn scaling_answers_as_the_replay_does() {
    let Some((base, context)) = open(VGG) else { return };
    let before = time(base, context, &[]);
    let doubled = time(base, context, &["scale kind=kernel x2"]) / before;
    assert!((doubled / 1.99 - 1.0).abs() < 0.03, "{doubled}");
    let twice = time(base, context, &["scale kind=kernel x2", "scale kind=kernel x0.5"]);
    assert!((twice / before - 1.0).abs() < 1e-3, "{twice} {before}");
}

#[test]
fn what_is_removed_takes_no_time_and_launches_nothing() {
    let Some((base, context)) = open(VGG) else { return };
    let resolved = run(base, context, &["remove name~relu"]);
    let graph = base.graph();
    assert!(!resolved.removed.is_empty());
    let kinds =
        |kind: fn(&TaskKind) -> bool| resolved.removed.iter().filter(|&&node| kind(&graph.tasks[node].kind)).count();
    assert!(kinds(|kind| *kind == TaskKind::Kernel) > 0 && kinds(|kind| *kind == TaskKind::Runtime) > 0);
    let durations = &resolved.timed.durations;
    assert!(resolved.removed.iter().all(|&node| durations[resolved.timed.task(node).0 as usize] == 0));
    assert!(iteration(graph, &resolved.timed) < iteration(graph, base.timed()));
}

#[test]
fn a_faster_gpu_is_faster_and_a_slower_one_slower() {
    let Some((base, context)) = open(VGG) else { return };
    assert!(context.devices[0].recognised);
    let (now, fast, slow) =
        (time(base, context, &[]), time(base, context, &["swap-gpu B200"]), time(base, context, &["swap-gpu V100"]));
    println!("vgg13 {now:.1} ms, on B200 {fast:.1} ms, on V100 {slow:.1} ms");
    assert!(fast < 0.9 * now && slow > 1.5 * now, "{fast} {now} {slow}");
}

/// The host time that T1 to T5 take.
fn host_time(resolved: &Resolved) -> f64 {
    let host = |kind| matches!(kind, TaskKind::Host(_) | TaskKind::Runtime);
    let tasks = resolved.graph.tasks.node_indices().filter(|&node| host(resolved.graph.tasks[node].kind));
    tasks.map(|node| resolved.prediction(node).duration.0 as f64).sum()
}

fn sample(name: &str) -> (&'static Base, &'static Context) {
    let opened = of_sample(name);
    (&opened.base, &opened.context)
}

const PREDICTED: &str = "dlrm-ddp-b256-on-v100.predicted.json.gz";

#[test]
fn mean_overheads_keep_the_total_and_take_the_differences_between_calls_away() {
    let (base, context) = sample(PREDICTED);
    let (before, mean) = (run(base, context, &[]), run(base, context, &["overheads mean"]));
    assert!((host_time(&mean) / host_time(&before) - 1.0).abs() < 0.001);
    for path in [VGG, RECSYS] {
        let Some((base, context)) = open(path) else { continue };
        let (before, mean) = (run(base, context, &[]), run(base, context, &["overheads mean"]));
        eprintln!("{path}: {}", mean.reports[0].summary);
        let share = host_time(&mean) / host_time(&before);
        assert!((share - 1.0).abs() < 0.001, "{path}: {share}");
        let graph = base.graph();
        let launches = graph.tasks.node_indices().filter(|&node| {
            graph.tasks[node].kind == TaskKind::Runtime && graph.names.get(graph.tasks[node].name) == "cudaLaunchKernel"
        });
        let (mut times, mut same) = (BTreeMap::<DurNs, usize>::new(), 0);
        for node in launches {
            *times.entry(mean.prediction(node).duration).or_default() += 1;
            same += 1;
        }
        assert!(times.values().max().unwrap() * 10 > same * 7, "{path}: most launches take the mean launch");
    }
}

#[test]
fn a_database_sets_the_overheads_and_twice_the_database_twice_the_time() {
    let (base, context) = sample(PREDICTED);
    let mut context = context.clone();
    let own = Arc::clone(base.overheads().1);
    let doubled = own.to_json();
    let mut doubled: serde_json::Value = serde_json::from_str(&doubled).unwrap();
    for row in doubled["rows"].as_array_mut().unwrap() {
        row["mean_us"] = (row["mean_us"].as_f64().unwrap() * 2.0).into();
        let calls = row["calls_us"].as_array().unwrap().iter();
        row["calls_us"] = calls.map(|us| us.as_f64().unwrap() * 2.0).collect::<Vec<_>>().into();
    }
    let doubled = Arc::new(Overheads::from_json(&doubled.to_string()).unwrap());
    context.databases = Databases::new(move |file| match file {
        "own.json" => Ok(Arc::clone(&own)),
        "doubled.json" => Ok(Arc::clone(&doubled)),
        _ => Err(format!("{file}: no such file")),
    });
    let [once, twice] = ["own", "doubled"].map(|name| run(base, &context, &[&format!("overheads {name}.json")]));
    let long_gaps: f64 = {
        let (stretches, graph) = (base.overheads().0, base.graph());
        stretches.iter().filter(|s| !s.is_overhead).map(|s| stretches.time(s, graph).0 as f64).sum()
    };
    let overheads = |resolved: &Resolved| host_time(resolved) - long_gaps;
    assert!((overheads(&twice) / overheads(&once) - 2.0).abs() < 1e-4);
    assert!(iteration(base.graph(), &twice.timed) > iteration(base.graph(), &once.timed));
    let absent = run(base, &context, &["overheads absent.json"]);
    assert!(absent.changes.is_empty() && absent.reports[0].lines()[0].contains("no such file"));
    let back = run(base, &context, &["overheads doubled.json", "overheads measured"]);
    assert_same(&back.timed, base.timed());
    let halved = run(base, &context, &["overheads doubled.json", "scale kind=T2 x0.5"]);
    assert!(host_time(&halved) < host_time(&twice), "later steps build on it");
}

#[test]
fn kernels_without_an_operator_follow_their_twins_or_their_roof_to_another_device() {
    for (path, gpu) in [("qwen05b-h100/h100.json.gz", "H200"), ("weird-gpu-only-mi210", "MI300X")] {
        let Some((base, context)) = open(path) else { continue };
        let resolved = run(base, context, &[&format!("swap-gpu {gpu}")]);
        let report = &resolved.reports[0];
        assert!(report.lines().iter().all(|line| !line.contains("traced time kept")), "{:?}", report.lines());
        let tasks = &base.graph().tasks;
        // Products keep their time where only the memory is another, and short kernels their start.
        let may_move = |&node: &NodeId| {
            let task = &tasks[node];
            task.kind == TaskKind::Kernel && family_of_task(base.graph(), task) != Family::Gemm
        };
        let may: Vec<NodeId> = tasks.node_indices().filter(may_move).collect();
        let moved = may.iter().filter(|&&node| resolved.prediction(node).duration != tasks[node].duration).count();
        assert!(moved > may.len() / 2, "{path}: {moved} of {} moved", may.len());
    }
}

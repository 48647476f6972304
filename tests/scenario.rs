//! Edits on real traces: what they must do to the iteration, and that undoing them gives the base bit for bit.
#![expect(clippy::unwrap_used, reason = "a trace that cannot be opened or built should fail its test")]

use std::path::Path;
use std::sync::Arc;

use retime::analysis::replay::period;
use retime::graph::{self, BuildOptions, ExecutionGraph, TaskKind, TimedGraph};
use retime::scenario::{Base, Context, Resolved, Scenario, resolve};
use retime::sim::{Schedule, simulate};
use retime::trace::{self, OpenOptions};
use retime::units::DurNs;

fn open(path: &str) -> Option<(Base, Context)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traces").join(path);
    if !file.exists() {
        eprintln!("skipped: {} is not there", file.display());
        return None;
    }
    let opened = trace::open(&[file], &OpenOptions::default()).unwrap();
    let graph = Arc::new(graph::build(&opened.jobs[0], &BuildOptions::default()).unwrap());
    let context = Context::builtin(&graph).unwrap();
    Some((Base::new(graph), context))
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
            let resolved = run(&base, &context, lines);
            assert_same(&resolved.timed, &lowered);
            assert!(resolved.changes.is_empty(), "{path} {lines:?}");
        }
    }
}

#[test]
fn scaling_answers_as_the_replay_does() {
    let Some((base, context)) = open(VGG) else { return };
    let before = time(&base, &context, &[]);
    let doubled = time(&base, &context, &["scale kind=kernel x2"]) / before;
    assert!((doubled / 1.99 - 1.0).abs() < 0.03, "{doubled}");
    let twice = time(&base, &context, &["scale kind=kernel x2", "scale kind=kernel x0.5"]);
    assert!((twice / before - 1.0).abs() < 1e-3, "{twice} {before}");
}

#[test]
fn what_is_removed_takes_no_time_and_launches_nothing() {
    let Some((base, context)) = open(VGG) else { return };
    let resolved = run(&base, &context, &["remove name~relu"]);
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
    let (now, fast, slow) = (
        time(&base, &context, &[]),
        time(&base, &context, &["swap-gpu B200"]),
        time(&base, &context, &["swap-gpu V100"]),
    );
    println!("vgg13 {now:.1} ms, on B200 {fast:.1} ms, on V100 {slow:.1} ms");
    assert!(fast < 0.9 * now && slow > 1.5 * now, "{fast} {now} {slow}");
}

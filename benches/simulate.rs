//! Simulating, critical path included: the pass over flat arrays against petgraph with its order cached, and
//! the last tenth anew against all, in the same run.
//!
//! `cargo bench --bench simulate`; `-- TASKS` takes another number of tasks than 100 k and 1 M.

#[path = "common/noise.rs"]
mod noise;

use std::hint::black_box;
use std::time::{Duration, Instant};

use petgraph::Direction::Incoming;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;

use noise::Noise;
use retime_core::graph::timed::NO_TASK;
use retime_core::graph::{TaskId, TimedGraph};
use retime_core::sim::{Schedule, resimulate_from, simulate};
use retime_core::units::DurNs;

const ROUNDS: usize = 11;
const RANKS: usize = 2;

/// Ranks of one thread and two streams: host work, launches, kernels, now and then a wait for the device.
fn graph(tasks: usize) -> TimedGraph {
    let (mut graph, mut noise) = (TimedGraph::default(), Noise(3));
    let origin = graph.push(0, DurNs(0), &[]);
    let (mut thread, mut streams) = ([origin; RANKS], [[origin; 2]; RANKS]);
    while graph.len() < tasks {
        let rank = noise.below(RANKS as u64) as usize;
        let stream = usize::from(noise.below(8) == 0);
        let node = graph.len() as u32;
        let mut before = vec![(thread[rank], DurNs(0))];
        if noise.below(40) == 0 {
            before.push((streams[rank][stream], DurNs(700)));
        }
        thread[rank] = graph.push(node, DurNs(500 + noise.below(3_000)), &before);
        let launch = graph.push(node + 1, DurNs(1_000 + noise.below(2_000)), &[(thread[rank], DurNs(0))]);
        thread[rank] = launch;
        let last = streams[rank][stream];
        let kernel =
            graph.push(node + 2, DurNs(1_000 + noise.below(9_000)), &[(launch, DurNs(1_500)), (last, DurNs(900))]);
        streams[rank][stream] = kernel;
    }
    graph
}

/// The same as nodes and edges; weights are durations and lags.
fn as_petgraph(graph: &TimedGraph) -> DiGraph<i64, i64> {
    let mut nodes = DiGraph::with_capacity(graph.len(), 2 * graph.len());
    for &duration in &graph.durations {
        nodes.add_node(duration);
    }
    for (task, (predecessors, lags)) in graph.predecessors.iter().zip(&graph.lags).enumerate() {
        for (&predecessor, &lag) in predecessors.iter().zip(lags).filter(|(it, _)| **it != NO_TASK) {
            nodes.add_edge(NodeIndex::new(predecessor as usize), NodeIndex::new(task), i64::from(lag));
        }
    }
    nodes
}

/// Longest path with critical predecessors over petgraph, in an order found before.
fn with_petgraph(graph: &DiGraph<i64, i64>, order: &[NodeIndex], end: &mut [i64], critical: &mut [NodeIndex]) {
    for &node in order {
        let (mut start, mut decided) = (0, NodeIndex::end());
        for edge in graph.edges_directed(node, Incoming) {
            let ready = end[edge.source().index()] + edge.weight();
            if ready >= start {
                (start, decided) = (ready, edge.source());
            }
        }
        end[node.index()] = start + graph[node];
        critical[node.index()] = decided;
    }
}

/// How many tasks the critical path to `goal` has.
fn critical_path(graph: &TimedGraph, schedule: &Schedule, goal: TaskId) -> usize {
    std::iter::successors(Some(goal), |&task| schedule.critical_predecessor(graph, task)).count()
}

/// The same with petgraph.
fn walked(critical: &[NodeIndex], goal: TaskId) -> usize {
    let before = |&node: &NodeIndex| Some(critical[node.index()]).filter(|&before| before != NodeIndex::end());
    std::iter::successors(Some(NodeIndex::new(goal.0 as usize)), before).count()
}

/// The shortest of several runs of each, taken in turn so that a busy machine disturbs all alike.
fn best<const N: usize>(mut runs: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut shortest = [Duration::MAX; N];
    for _ in 0..ROUNDS {
        for (run, shortest) in runs.iter_mut().zip(&mut shortest) {
            let start = Instant::now();
            run();
            *shortest = (*shortest).min(start.elapsed());
        }
    }
    shortest
}

fn one_pass(tasks: usize) {
    let graph = graph(tasks);
    let nodes = as_petgraph(&graph);
    let order = petgraph::algo::toposort(&nodes, None).unwrap_or_default();
    let (mut end, mut critical) = (vec![0; graph.len()], vec![NodeIndex::end(); graph.len()]);
    let (mut schedule, mut updated) = (Schedule::default(), Schedule::default());
    simulate(&graph, &mut updated);
    let late = TaskId((graph.len() - graph.len() / 10) as u32);
    let goal = (0..graph.len() as u32).map(TaskId).max_by_key(|&task| updated.end(task)).unwrap_or(late);
    let (mut path, mut petgraph_path) = (0, 0);
    let [flat, petgraph, update] = best([
        &mut || simulate(black_box(&graph), &mut schedule),
        &mut || with_petgraph(black_box(&nodes), &order, &mut end, &mut critical),
        &mut || resimulate_from(black_box(&graph), late, &mut updated),
    ]);
    let [flat_path, petgraph_way] =
        best([&mut || path = black_box(critical_path(&graph, &schedule, goal)), &mut || {
            petgraph_path = black_box(walked(&critical, goal));
        }]);
    assert_eq!(schedule.makespan().0, end.iter().copied().max().unwrap_or(0), "both find the same makespan");
    assert_eq!(path, petgraph_path, "and critical paths of the same length");
    let per_task = |time: Duration| time.as_secs_f64() * 1e9 / graph.len() as f64;
    println!(
        "{:>8} tasks: flat {:>5.2} ns a task, petgraph {:>5.2}: {:.2} times as fast; with the critical path {:.2} and {:.2}: {:.2} times",
        graph.len(),
        per_task(flat),
        per_task(petgraph),
        petgraph.as_secs_f64() / flat.as_secs_f64(),
        per_task(flat + flat_path),
        per_task(petgraph + petgraph_way),
        (petgraph + petgraph_way).as_secs_f64() / (flat + flat_path).as_secs_f64(),
    );
    println!(
        "{:>8} tasks: last tenth anew {:.3} ms, {:.1} times as fast as all",
        graph.len(),
        update.as_secs_f64() * 1e3,
        flat.as_secs_f64() / update.as_secs_f64()
    );
}

fn main() {
    let number = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    for tasks in number.map_or_else(|| vec![100_000, 1_000_000], |tasks: usize| vec![tasks]) {
        one_pass(tasks);
    }
}

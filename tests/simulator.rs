//! Properties of the simulator, and its agreement with the algorithms of both papers to the nanosecond.

use proptest::prelude::*;

use retime::graph::{TaskId, TimedGraph};
use retime::sim::{Schedule, Variant, resimulate_from, simulate, slack, sweep};
use retime::units::{DurNs, TimeNs};

/// Duration, and predecessors as distances back, with lags.
type Draft = Vec<(i64, Vec<(usize, i64)>)>;

fn drafts(lags: std::ops::Range<i64>) -> impl Strategy<Value = Draft> {
    let task = (0_i64..10_000, prop::collection::vec((1_usize..40, lags), 0..6));
    prop::collection::vec(task, 1..300)
}

fn edges(draft: &Draft) -> impl Iterator<Item = (usize, usize, i64)> + '_ {
    let edge = |i: usize, &(back, lag): &(usize, i64)| i.checked_sub(back).map(|from| (from, i, lag));
    draft.iter().enumerate().flat_map(move |(i, (_, before))| before.iter().filter_map(move |it| edge(i, it)))
}

/// The graph, and the task of each drafted one (joints come between them).
fn built(draft: &Draft, factor: i64) -> (TimedGraph, Vec<TaskId>) {
    let (mut graph, mut tasks) = (TimedGraph::default(), Vec::new());
    let mut incoming = vec![Vec::new(); draft.len()];
    for (from, to, lag) in edges(draft) {
        incoming[to].push((from, lag));
    }
    for (i, (duration, _)) in draft.iter().enumerate() {
        let before: Vec<(TaskId, DurNs)> =
            incoming[i].iter().map(|&(from, lag)| (tasks[from], DurNs(lag * factor))).collect();
        tasks.push(graph.push(i as u32, DurNs(duration * factor), &before));
    }
    (graph, tasks)
}

fn simulated(graph: &TimedGraph) -> Schedule {
    let mut schedule = Schedule::default();
    simulate(graph, &mut schedule);
    schedule
}

/// The longest path that ends with task `i`, by its definition.
fn longest_path(draft: &Draft, i: usize, known: &mut Vec<Option<i64>>) -> i64 {
    if let Some(length) = known[i] {
        return length;
    }
    let before: Vec<(usize, i64)> = edges(draft).filter(|edge| edge.1 == i).map(|(from, _, lag)| (from, lag)).collect();
    let start = before.into_iter().map(|(from, lag)| longest_path(draft, from, known) + lag).fold(0, i64::max);
    known[i] = Some(start + draft[i].0);
    start + draft[i].0
}

proptest! {
    #[test]
    fn every_task_ends_with_the_longest_path_to_it(draft in drafts(-500..2_000)) {
        let (graph, tasks) = built(&draft, 1);
        let schedule = simulated(&graph);
        let mut known = vec![None; draft.len()];
        let paths: Vec<i64> = (0..draft.len()).map(|i| longest_path(&draft, i, &mut known)).collect();
        let ends: Vec<i64> = tasks.iter().map(|&task| schedule.end(task).0).collect();
        prop_assert_eq!(&ends, &paths);
        prop_assert_eq!(Some(schedule.makespan().0), paths.into_iter().max());
    }

    #[test]
    fn no_task_starts_before_its_predecessors_end_and_the_critical_one_decides(draft in drafts(-500..2_000)) {
        let (graph, tasks) = built(&draft, 1);
        let schedule = simulated(&graph);
        for (from, to, lag) in edges(&draft) {
            prop_assert!(schedule.start(&graph, tasks[to]) >= schedule.end(tasks[from]) + DurNs(lag));
        }
        for task in (0..graph.len() as u32).map(TaskId) {
            let start = schedule.start(&graph, task);
            match schedule.critical_predecessor(&graph, task) {
                None => prop_assert_eq!(start, TimeNs(0)),
                Some(before) => {
                    let slot = graph.predecessors[task.0 as usize].iter().position(|&it| it == before.0).unwrap();
                    let reaches = |slot: usize| schedule.end(before) + DurNs(i64::from(graph.lags[task.0 as usize][slot]));
                    prop_assert!((slot..3).any(|slot| graph.predecessors[task.0 as usize][slot] == before.0 && reaches(slot) == start));
                }
            }
        }
    }

    #[test]
    fn doubling_durations_and_lags_doubles_the_makespan(draft in drafts(-500..2_000)) {
        let (once, twice) = (simulated(&built(&draft, 1).0), simulated(&built(&draft, 2).0));
        prop_assert_eq!(once.makespan().0 * 2, twice.makespan().0);
    }

    #[test]
    fn an_update_from_the_first_change_equals_a_full_simulation(draft in drafts(-500..2_000), place in 0.0..1.0, duration in 0_i64..50_000) {
        let (mut graph, _) = built(&draft, 1);
        let mut schedule = simulated(&graph);
        let changed = (place * graph.len() as f64) as usize;
        graph.durations[changed] = duration;
        resimulate_from(&graph, TaskId(changed as u32), &mut schedule);
        let whole = simulated(&graph);
        for task in (0..graph.len() as u32).map(TaskId) {
            prop_assert_eq!(schedule.end(task), whole.end(task));
            prop_assert_eq!(schedule.critical_predecessor(&graph, task), whole.critical_predecessor(&graph, task));
        }
    }

    #[test]
    fn a_sweep_gives_what_simulating_each_variant_gives(
        draft in drafts(-500..2_000),
        factors in prop::collection::vec(0_i64..4, 1..40),
        scale in prop::sample::select(vec![1_i64, 20_000]),
        own_lags in any::<bool>(),
    ) {
        let (graph, tasks) = built(&draft, 1);
        let scaled: Vec<(Vec<i64>, Vec<[i32; 3]>)> = factors.iter().map(|&factor| (
            graph.durations.iter().map(|ns| ns * factor * scale).collect(),
            graph.lags.iter().map(|lags| lags.map(|lag| lag * factor as i32)).collect(),
        )).collect();
        let variants: Vec<Variant<'_>> =
            scaled.iter().map(|(durations, lags)| Variant { durations, lags: own_lags.then_some(lags.as_slice()) }).collect();
        let outcomes = sweep(&graph, &variants, &tasks);
        for (outcome, (durations, lags)) in outcomes.iter().zip(&scaled) {
            let mut alone = TimedGraph { durations: durations.clone(), ..graph.clone() };
            if own_lags {
                alone.lags.clone_from(lags);
            }
            let schedule = simulated(&alone);
            prop_assert_eq!(outcome.makespan, schedule.makespan());
            let ends: Vec<TimeNs> = tasks.iter().map(|&task| schedule.end(task)).collect();
            prop_assert_eq!(&outcome.ends, &ends);
        }
    }

    #[test]
    fn slack_is_how_much_longer_a_task_may_take(draft in drafts(0..2_000), place in 0.0..1.0) {
        let (mut graph, tasks) = built(&draft, 1);
        let schedule = simulated(&graph);
        let goal = tasks[draft.len() - 1];
        let room = slack(&graph, &schedule, goal);
        let task = tasks[(place * draft.len() as f64) as usize];
        let extra = room[task.0 as usize].map_or(1_000_000, |room| room.0);
        graph.durations[task.0 as usize] += extra;
        prop_assert_eq!(simulated(&graph).end(goal), schedule.end(goal));
        if room[task.0 as usize].is_some() {
            graph.durations[task.0 as usize] += 1;
            prop_assert_eq!(simulated(&graph).end(goal), schedule.end(goal) + DurNs(1));
        }
    }
}

#[test]
fn times_saturate_instead_of_wrapping() {
    let mut graph = TimedGraph::default();
    let first = graph.push(0, DurNs(i64::MAX), &[]);
    let second = graph.push(1, DurNs(i64::MAX), &[(first, DurNs(i64::MAX))]);
    assert!(simulated(&graph).end(second).0 > 1 << 60);
}

/// One operator of an execution trace: overheads T1 to T5 in ns and its kernels' times.
#[derive(Clone, Debug)]
struct Op {
    t: [i64; 6],
    kernels: Vec<i64>,
    collective: bool,
    reads_collective: bool,
}

fn operators() -> impl Strategy<Value = Op> {
    let times = prop::array::uniform6(0_i64..20_000);
    (times, prop::collection::vec(0_i64..90_000, 0..4), 0..5, 0..4).prop_map(|(t, kernels, a, b)| Op {
        t,
        collective: a == 0 && !kernels.is_empty(),
        reads_collective: b == 0,
        kernels,
    })
}

const GAP: i64 = 1_000;

/// [Lin22 Alg. 1]: one operator; moves the host's and the stream's front.
fn host_and_stream(op: &Op, cpu: &mut i64, gpu: &mut i64) {
    *cpu += op.t[1];
    if op.kernels.is_empty() {
        *cpu += op.t[5];
        return;
    }
    *cpu += op.t[2];
    for (i, kernel) in op.kernels.iter().enumerate() {
        *gpu = (*gpu + GAP).max(*cpu + op.t[4] / 2) + kernel;
        *cpu += op.t[4];
        if i + 1 < op.kernels.len() {
            *cpu += op.t[5];
        }
    }
    *cpu += op.t[3];
}

/// [Lin24 Alg. 1]: the same operators on several ranks, each with a compute and a communication stream.
fn ranks_and_streams(ranks: &[Vec<Op>]) -> i64 {
    let (mut cpu, mut compute, mut comm) = (vec![0; ranks.len()], vec![0; ranks.len()], vec![0; ranks.len()]);
    for i in 0..ranks[0].len() {
        let collective = ranks[0][i].collective;
        for (rank, ops) in ranks.iter().enumerate() {
            if collective || ranks[0][i].reads_collective {
                compute[rank] = comm[rank].max(compute[rank]);
                comm[rank] = compute[rank];
            }
            let front = if collective { &mut comm[rank] } else { &mut compute[rank] };
            host_and_stream(&ops[i], &mut cpu[rank], front);
        }
        if collective {
            let last = comm.iter().copied().fold(0, i64::max);
            comm.fill(last);
        }
    }
    cpu.into_iter().chain(compute).chain(comm).fold(0, i64::max)
}

/// One operator as tasks; moves the last task of the thread and of the stream.
fn push_operator(graph: &mut TimedGraph, op: &Op, cpu: &mut TaskId, gpu: &mut TaskId) {
    let mut host = |graph: &mut TimedGraph, ns| *cpu = graph.push(u32::MAX, DurNs(ns), &[(*cpu, DurNs(0))]);
    host(graph, op.t[1]);
    host(graph, if op.kernels.is_empty() { op.t[5] } else { op.t[2] });
    for (i, &kernel) in op.kernels.iter().enumerate() {
        let launched = TaskId(graph.len() as u32);
        host(graph, op.t[4] / 2);
        *gpu = graph.push(u32::MAX, DurNs(kernel), &[(*gpu, DurNs(GAP)), (launched, DurNs(0))]);
        host(graph, op.t[4] - op.t[4] / 2);
        if i + 1 < op.kernels.len() {
            host(graph, op.t[5]);
        }
    }
    if !op.kernels.is_empty() {
        host(graph, op.t[3]);
    }
}

fn join(graph: &mut TimedGraph, tasks: &[TaskId]) -> TaskId {
    let before: Vec<(TaskId, DurNs)> = tasks.iter().map(|&task| (task, DurNs(0))).collect();
    graph.push(u32::MAX, DurNs(0), &before)
}

fn graph_of_ranks(ranks: &[Vec<Op>]) -> TimedGraph {
    let mut graph = TimedGraph::default();
    let origin = graph.push(u32::MAX, DurNs(0), &[]);
    let (mut cpu, mut compute, mut comm) =
        (vec![origin; ranks.len()], vec![origin; ranks.len()], vec![origin; ranks.len()]);
    for i in 0..ranks[0].len() {
        let collective = ranks[0][i].collective;
        for (rank, ops) in ranks.iter().enumerate() {
            if collective || ranks[0][i].reads_collective {
                compute[rank] = join(&mut graph, &[compute[rank], comm[rank]]);
                comm[rank] = compute[rank];
            }
            let front = if collective { &mut comm[rank] } else { &mut compute[rank] };
            push_operator(&mut graph, &ops[i], &mut cpu[rank], front);
        }
        if collective {
            let last = join(&mut graph, &comm);
            comm.fill(last);
        }
    }
    graph
}

proptest! {
    #[test]
    fn one_device_agrees_with_the_first_paper_to_the_nanosecond(ops in prop::collection::vec(operators(), 1..60)) {
        let (mut cpu, mut gpu) = (0, 0);
        let mut graph = TimedGraph::default();
        let origin = graph.push(u32::MAX, DurNs(0), &[]);
        let (mut thread, mut stream) = (origin, origin);
        for op in &ops {
            host_and_stream(op, &mut cpu, &mut gpu);
            push_operator(&mut graph, op, &mut thread, &mut stream);
        }
        prop_assert_eq!(simulated(&graph).makespan().0, cpu.max(gpu));
    }

    #[test]
    fn several_devices_agree_with_the_second_paper_to_the_nanosecond(
        template in prop::collection::vec(operators(), 1..30),
        skews in prop::collection::vec(0_i64..7, 2..6),
    ) {
        // All ranks run the same operators, each at its own pace.
        let ranks: Vec<Vec<Op>> = skews.iter().map(|skew| {
            let slower = |ns: &i64| ns * (3 + skew * (ns % 5)) / 3;
            template.iter().map(|op| Op { t: op.t.map(|ns| slower(&ns)), kernels: op.kernels.iter().map(slower).collect(), ..op.clone() }).collect()
        }).collect();
        prop_assert_eq!(simulated(&graph_of_ranks(&ranks)).makespan().0, ranks_and_streams(&ranks));
    }
}

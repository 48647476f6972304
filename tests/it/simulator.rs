//! Properties of the simulator, and its agreement with the algorithms of both papers to the nanosecond.

use proptest::prelude::*;

use retime_core::analysis::published::{PublishedOp, graph_of_device, graph_of_ranks, one_device, several_ranks};
use retime_core::graph::{TaskId, TimedGraph};
use retime_core::sim::{Schedule, resimulate_from, simulate, slack};
use retime_core::units::{DurNs, TimeNs};

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

fn operators() -> impl Strategy<Value = PublishedOp> {
    let times = prop::array::uniform6(0_i64..20_000);
    (times, prop::collection::vec(0_i64..90_000, 0..4), 0..5, 0..4).prop_map(|(overheads, kernels, a, b)| PublishedOp {
        overheads,
        is_collective: a == 0 && !kernels.is_empty(),
        reads_collective: b == 0,
        kernels,
    })
}

proptest! {
    #[test]
    fn one_device_agrees_with_the_first_paper_to_the_nanosecond(ops in prop::collection::vec(operators(), 1..60)) {
        prop_assert_eq!(simulated(&graph_of_device(&ops)).makespan(), one_device(&ops));
    }

    #[test]
    fn several_devices_agree_with_the_second_paper_to_the_nanosecond(
        template in prop::collection::vec(operators(), 1..30),
        skews in prop::collection::vec(0_i64..7, 2..6),
    ) {
        // All ranks run the same operators, each at its own pace.
        let ranks: Vec<Vec<PublishedOp>> = skews.iter().map(|skew| {
            let slower = |ns: &i64| ns * (3 + skew * (ns % 5)) / 3;
            let op = |op: &PublishedOp| PublishedOp {
                overheads: op.overheads.map(|ns| slower(&ns)),
                kernels: op.kernels.iter().map(slower).collect(),
                ..op.clone()
            };
            template.iter().map(op).collect()
        }).collect();
        prop_assert_eq!(simulated(&graph_of_ranks(&ranks)).makespan(), several_ranks(&ranks));
    }
}

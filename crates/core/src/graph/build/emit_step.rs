//! Rule 13: the markers at which everything a step launched has ended.

use crate::graph::{Dependency, DependencyKind, TaskKind};
use crate::units::{DurNs, TimeNs};

use super::activities::{ActivityKind, Stream};
use super::draft::NONE;
use super::emit::{RankWriter, What};
use super::emit_device::last_of;
use super::emit_host::{ending_at, main_thread};
use super::unrecorded;

/// Writes the markers of the step before (where simulated) and of the chosen step.
///
/// # Returns
/// Both markers, and the measured times (in the trace's time) between which the period lies.
pub(super) fn emit(writer: &mut RankWriter<'_, '_>) -> (Option<u32>, u32, (TimeNs, TimeNs)) {
    let window = writer.window;
    let from = TimeNs(i64::MIN);
    let to = if window.main.is_none() { TimeNs(i64::MAX) } else { window.end };
    let Some(split) = window.split else {
        let begin = backlog_marker(writer);
        let (end, measured) = marker(writer, (from, to), window.end);
        let measured_begin = begin.map_or(window.start, |(_, measured)| measured);
        return (begin.map(|(begin, _)| begin), end, (measured_begin, measured));
    };
    let (begin, measured_begin) = marker(writer, (from, split), split);
    let (end, measured_end) = marker(writer, (split, to), window.end);
    (Some(begin), end, (measured_begin, measured_end))
}

/// The end of what the trace's first work waited for: the iteration begins there, the step before it was not recorded.
fn backlog_marker(writer: &mut RankWriter<'_, '_>) -> Option<(u32, TimeNs)> {
    let mut before = writer.backlogs.clone();
    before.extend(recorded_backlogs(writer));
    let end = before.iter().map(|&(_, end)| end).max()?;
    Some((step_end(writer, &before, end), end))
}

/// Of steps the work recorded ahead of all launches behind which work of the step was queued, and when it ends. Where no steps were
/// told it counts as all else does, and so it does where collectives are of it: those wait for ranks that began at other times.
fn recorded_backlogs(writer: &RankWriter<'_, '_>) -> Vec<(u32, TimeNs)> {
    let observed = writer.observed;
    let backlog = |(count, last): (usize, u32)| {
        let before = observed.activity(last);
        let next = observed.activity(*observed.activities.streams[before.stream as usize].activities.get(count)?);
        let task = writer.activities[last as usize];
        let is_queued = before.end.since(next.launched) > unrecorded::HELD_BACK;
        (is_queued && task != NONE && before.end > writer.window.start).then_some((task, before.end))
    };
    let ahead = ahead_of_launches(writer);
    let is_collective = |&index: &u32| observed.activity(index).kind == ActivityKind::Collective;
    let waits_for_ranks = |&(count, last): &(usize, u32)| {
        let stream = &observed.activities.streams[observed.activity(last).stream as usize];
        stream.activities.iter().take(count).any(is_collective)
    };
    if writer.window.main.is_none() || ahead.iter().any(waits_for_ranks) {
        return Vec::new();
    }
    ahead.into_iter().filter_map(backlog).collect()
}

/// How many pieces of work are recorded ahead of all that recorded calls launched, and how long after the window's begin the last of them
/// ends, where they kept the device for long.
pub(super) fn without_launch(writer: &RankWriter<'_, '_>) -> Option<(usize, DurNs)> {
    let ahead = ahead_of_launches(writer);
    let end = |&(_, index): &(usize, u32)| writer.observed.activity(index).end.since(writer.window.start);
    let until = ahead.iter().map(end).max().filter(|&until| until > unrecorded::HELD_BACK)?;
    Some((ahead.iter().map(|&(count, _)| count).sum(), until))
}

/// By stream how many pieces of work are recorded ahead of all that recorded calls launched, and the last of them.
fn ahead_of_launches(writer: &RankWriter<'_, '_>) -> Vec<(usize, u32)> {
    let ahead = |stream: &Stream| {
        let is_launched = |&index: &u32| writer.observed.activity(index).call.is_some();
        let first = stream.activities.iter().position(is_launched)?;
        Some((first, *stream.activities.get(first.checked_sub(1)?)?))
    };
    writer.observed.activities.streams.iter().filter_map(ahead).collect()
}

fn marker(writer: &mut RankWriter<'_, '_>, launched: (TimeNs, TimeNs), host_end: TimeNs) -> (u32, TimeNs) {
    let mut last = last_of(writer, launched.0, launched.1);
    let main = main_thread(writer);
    for thread in 0..writer.observed.threads.list.len() {
        let stepless = writer.window.main.is_none();
        if stepless || main == Some(thread) {
            last.extend(end_of_thread(writer, thread, host_end));
        }
    }
    let end = last.iter().map(|&(_, end)| end).max().unwrap_or(host_end);
    (step_end(writer, &last, end), end)
}

/// The marker at which the last tasks have ended.
fn step_end(writer: &mut RankWriter<'_, '_>, last: &[(u32, TimeNs)], end: TimeNs) -> u32 {
    let what = What::default();
    let marker = writer.task(TaskKind::StepEnd, writer.virtual_lane, what, (end, end), DurNs::ZERO);
    for &(task, _) in last {
        writer.edge(task, marker, Dependency::on_end(DependencyKind::StepEnd, DurNs::ZERO));
    }
    marker
}

/// The last task of a thread at `time`, and when it ends.
fn end_of_thread(writer: &RankWriter<'_, '_>, thread: usize, time: TimeNs) -> Option<(u32, TimeNs)> {
    let task = ending_at(writer, thread, time);
    let started = writer.ends[thread].partition_point(|&(end, _)| end <= time);
    let across = writer.ends[thread].get(started).copied();
    let started_before = |task: u32| {
        let start = writer.shared.draft.tasks[task as usize].measured_start;
        start < TimeNs(time.since(writer.zero).0)
    };
    match across {
        Some((end, across)) if started_before(across) => Some((across, end)),
        _ => (task != NONE).then(|| (task, writer.ends[thread][started - 1].0)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Draft, MAIN, period};
    use crate::graph::{ExecutionGraph, TaskKind};
    use crate::units::DurNs;

    /// 99 kernels that no recorded call launched, 100 µs each, and five behind them that were launched meanwhile.
    fn ahead() -> Draft {
        let mut draft = Draft::default();
        for index in 0..99 {
            draft.activity("kernel", 7, 1.0 + 101.0 * f64::from(index), 100.0, 9_000 + index);
        }
        for index in (0..5).map(f64::from) {
            draft.launch(MAIN, 10.0 * index, 7, 10_000.0 + 101.0 * index, 100.0);
        }
        draft
    }

    fn told(graph: &ExecutionGraph) -> Vec<String> {
        graph.diagnostics.sorted().iter().map(|found| found.message.clone()).collect()
    }

    #[test]
    fn recorded_work_that_no_recorded_call_launched_is_told() {
        let graph = ahead().graph();
        assert_eq!((graph.measured, graph.ranks[0].backlog), (DurNs(10_504_000), None), "it counts");
        let told = told(&graph);
        assert!(told.iter().any(|text| text.contains("99 kernels and copies of the first 10.00 ms")), "{told:?}");
    }

    #[test]
    fn of_a_step_such_work_is_of_the_one_before_where_nothing_else_was_recorded_of_that() {
        let mut draft = ahead();
        draft.step(1, 0.0, 5_000.0);
        // What the step launched on another stream is its own, though it ends while the work from before still runs.
        draft.launch(MAIN, 60.0, 9, 100.0, 100.0);
        let graph = draft.graph();
        assert_eq!((graph.measured, graph.ranks[0].backlog), (DurNs(505_000), Some(DurNs(9_999_000))));
        let belongs = graph.iteration_tasks();
        let kernels = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Kernel);
        assert_eq!(kernels.filter(|node| belongs[node.index()]).count(), 6);
        let told = told(&graph);
        assert!(told.iter().any(|text| text.contains("the iteration begins where they have ended")), "{told:?}");
        assert!((period(&graph, 0.5, |task| task.kind.is_device()) - 252.5).abs() < 3.0);
    }
}

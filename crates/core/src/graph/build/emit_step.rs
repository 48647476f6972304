//! Rule 13: the markers at which everything a step launched has ended.

use crate::graph::{Dependency, DependencyKind, TaskKind};
use crate::units::{DurNs, TimeNs};

use super::activities::Stream;
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
    let mut backlogs = writer.backlogs.clone();
    backlogs.extend(launched_before_all(writer));
    let end = backlogs.iter().map(|&(_, end)| end).max()?;
    Some((step_end(writer, &backlogs, end), end))
}

/// The last work of each stream that was recorded ahead of all that the recorded calls launched, and when it ended, where it kept the
/// device for long.
fn launched_before_all(writer: &RankWriter<'_, '_>) -> Vec<(u32, TimeNs)> {
    let (observed, begins) = (writer.observed, writer.window.start + unrecorded::HELD_BACK);
    let last = |stream: &Stream| {
        let first = stream.activities.iter().position(|&index| observed.activity(index).call.is_some())?;
        let last = *stream.activities.get(first.checked_sub(1)?)?;
        Some((writer.activities[last as usize], observed.activity(last).end))
    };
    let last = observed.activities.streams.iter().filter_map(last);
    last.filter(|&(task, end)| task != NONE && end > begins).collect()
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
    use super::super::tests::{Draft, MAIN};
    use crate::analysis::replay::ReplayReport;
    use crate::units::DurNs;

    #[test]
    fn recorded_work_that_no_recorded_call_launched_is_of_the_step_before() {
        let mut draft = Draft::default();
        for index in 0..99 {
            draft.activity("kernel", 7, 1.0 + 101.0 * f64::from(index), 100.0, 9_000 + index);
        }
        for index in (0..5).map(f64::from) {
            draft.launch(MAIN, 10.0 * index, 7, 10_000.0 + 101.0 * index, 100.0);
        }
        let graph = draft.graph();
        let report = ReplayReport::of(&graph);
        assert_eq!((graph.measured, report.simulated), (DurNs(505_000), DurNs(505_000)), "from where it had ended");
        let belongs = graph.iteration_tasks();
        let kernels = graph.tasks.node_indices().filter(|node| graph.tasks[*node].kind.is_device());
        let counts: Vec<bool> = kernels.map(|node| belongs[node.index()]).collect();
        assert_eq!((counts.len(), counts.iter().filter(|of_step| **of_step).count()), (104, 5));
        assert!(graph.ranks[0].backlog.is_some());
    }
}

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
    let backlogs = writer.backlogs.clone();
    let end = backlogs.iter().map(|&(_, end)| end).max()?;
    Some((step_end(writer, &backlogs, end), end))
}

/// How many pieces of work are recorded ahead of all that recorded calls launched, and how long after the window's begin the last of them
/// ends, where they kept the device for long.
pub(super) fn without_launch(writer: &RankWriter<'_, '_>) -> Option<(usize, DurNs)> {
    let observed = writer.observed;
    let ahead = |stream: &Stream| {
        let first = stream.activities.iter().position(|&index| observed.activity(index).call.is_some())?;
        let last = observed.activity(*stream.activities.get(first.checked_sub(1)?)?);
        Some((first, last.end.since(writer.window.start)))
    };
    let ahead: Vec<(usize, DurNs)> = observed.activities.streams.iter().filter_map(ahead).collect();
    let until = ahead.iter().map(|&(_, until)| until).max().filter(|&until| until > unrecorded::HELD_BACK)?;
    Some((ahead.iter().map(|&(count, _)| count).sum(), until))
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
    use crate::units::DurNs;

    #[test]
    fn recorded_work_that_no_recorded_call_launched_is_told() {
        let mut draft = Draft::default();
        for index in 0..99 {
            draft.activity("kernel", 7, 1.0 + 101.0 * f64::from(index), 100.0, 9_000 + index);
        }
        for index in (0..5).map(f64::from) {
            draft.launch(MAIN, 10.0 * index, 7, 10_000.0 + 101.0 * index, 100.0);
        }
        let graph = draft.graph();
        assert_eq!((graph.measured, graph.ranks[0].backlog), (DurNs(10_504_000), None), "it counts");
        let told: Vec<String> = graph.diagnostics.sorted().iter().map(|found| found.message.clone()).collect();
        assert!(told.iter().any(|text| text.contains("99 kernels and copies of the first 10.00 ms")), "{told:?}");
    }
}

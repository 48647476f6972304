//! Rule 13: the markers at which everything a step launched has ended.

use crate::graph::{Dependency, DependencyKind, TaskKind};
use crate::units::{DurNs, TimeNs};

use super::draft::NONE;
use super::emit::{RankWriter, What};
use super::emit_device::last_of;
use super::emit_host::{ending_at, main_thread};

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

//! Device tasks with the edges of rules 2, 3, 6, 9, 10 and 11.

use crate::graph::{CollectiveId, Dependency, DependencyKind, LaneId, TaskKind};
use crate::units::{DurNs, TimeNs};

use super::activities::{Activity, ActivityKind};
use super::draft::{Edge, NONE};
use super::emit::{RankWriter, What};
use super::emit_host::{last_end, main_thread};
use super::late::Cause;
use super::observed::Observed;
use super::threads::Call;
use super::{compute, follow, launch};

/// What stands for work that was not recorded is called.
const NOT_RECORDED: &str = "(not recorded)";

/// Writes the device work of the window; its unexplained late starts.
pub(super) fn emit(writer: &mut RankWriter<'_, '_>) -> Vec<(u32, DurNs)> {
    let observed = writer.observed;
    for index in 0..observed.activities.list.len() as u32 {
        if in_window(writer, observed.activity(index)) {
            let task = add(writer, observed.activity(index));
            writer.activities[index as usize] = task;
        }
    }
    for index in 0..observed.activities.list.len() as u32 {
        if writer.activities[index as usize] != NONE {
            connect(writer, index);
        }
    }
    connect_late(writer)
}

/// Launched in the window, or before it but still there when it begins.
fn in_window(writer: &RankWriter<'_, '_>, activity: &Activity) -> bool {
    let all = writer.window.main.is_none();
    all || (activity.launched < writer.window.tail && activity.end > writer.window.start)
}

fn launched_before(writer: &RankWriter<'_, '_>, activity: &Activity) -> bool {
    activity.call.is_some() && activity.launched < writer.window.start
}

fn add(writer: &mut RankWriter<'_, '_>, activity: &Activity) -> u32 {
    let observed = writer.observed;
    let call = activity.call.map(|call| &observed.threads.calls[call as usize]);
    // The kernels of a graph are launched by one call and have each an operator of its own.
    let own = writer.named.get(&observed.trace.events.external(activity.event)).copied();
    let own = own.filter(|_| activity.call.is_some_and(|call| observed.activities.launches_several(call)));
    let around = |call: &Call| writer.operator(call.thread as usize, launching(observed, activity, call));
    let operator = own.or_else(|| call.and_then(around));
    let name = writer.name(observed.trace.events.name(activity.event));
    let kind = match activity.kind {
        ActivityKind::Kernel => TaskKind::Kernel,
        ActivityKind::Memset => TaskKind::Memset,
        ActivityKind::Collective => TaskKind::Collective(CollectiveId(0)),
        _ => TaskKind::Memcpy,
    };
    let what = What { name, operator, event: Some(activity.event) };
    let lane = LaneId(writer.stream_lanes + activity.stream);
    let task = writer.task(kind, lane, what, (activity.start, activity.end), activity.dur());
    if let Some(copy) = observed.trace.copies.get(activity.event) {
        writer.shared.draft.tasks[task as usize].bytes = copy.bytes;
    }
    task
}

/// The operator around a call. Calls and operators have clocks of their own: a kernel whose launch seems to lie in an operator
/// that only describes or allocates tensors is of the one that this was called by.
fn launching(observed: &Observed<'_>, activity: &Activity, call: &Call) -> Option<u32> {
    let operators = &observed.threads.list[call.thread as usize].operators;
    let mut operator = call.operator?;
    while activity.kind == ActivityKind::Kernel
        && let Some(parent) = operators[operator as usize].parent
        && compute::is_description(
            observed.trace.names.get(observed.trace.events.name(operators[operator as usize].event)),
        )
    {
        operator = parent;
    }
    Some(operator)
}

fn connect(writer: &mut RankWriter<'_, '_>, index: u32) {
    let observed = writer.observed;
    let activity = observed.activity(index);
    let task = writer.activities[index as usize];
    let edges = writer.shared.draft.edges.len();
    if let Some((dependency, _)) = launch::dependency(observed, index) {
        let call = writer.calls[activity.call.unwrap_or(0) as usize];
        let from = if dependency.of_predecessor > 0.0 { call.own } else { call.end };
        writer.edge(from, task, dependency);
    }
    if activity.on_host {
        connect_host(writer, task, activity);
    } else if activity.previous.is_none() && activity.call.is_none() || launched_before(writer, activity) {
        writer.anchor(task, activity.start);
    }
    for (previous, dependency, _) in follow::dependencies(observed, activity) {
        writer.edge(writer.activities[previous as usize], task, dependency);
    }
    let lag = observed.constants.event.lag;
    for wait in observed.event_waits_of(index) {
        let from = writer.activities[wait.target as usize];
        writer.edge(from, task, Dependency::on_end(DependencyKind::EventWait, lag));
    }
    if writer.shared.draft.edges.len() == edges {
        writer.anchor(task, activity.start);
    }
    add_unrecorded(writer, index, edges);
}

/// Adds the task that stands for what was not recorded ahead of an activity, where there was any: of before the trace from
/// where the window begins, else from where the activity, whose edges begin at `edges`, could have started.
fn add_unrecorded(writer: &mut RankWriter<'_, '_>, index: u32, edges: usize) {
    let observed = writer.observed;
    let (activity, task) = (observed.activity(index), writer.activities[index as usize]);
    let Some(late) = observed.late_of(index).filter(|_| !launched_before(writer, activity)) else { return };
    let (from, duration) = match late.cause {
        Cause::Backlog => (writer.window.start, activity.start.since(writer.window.start)),
        Cause::Unrecorded(duration) => (activity.start - late.by, duration),
        _ => return,
    };
    let from = observed.previous(activity).map_or(from, |(previous, _)| from.max(previous.start));
    let what = What { name: writer.shared.names.intern(NOT_RECORDED), ..What::default() };
    let lane = LaneId(writer.stream_lanes + activity.stream);
    let before = writer.task(TaskKind::Unrecorded, lane, what, (from, activity.start), duration);
    if late.cause == Cause::Backlog {
        writer.begin(before, from);
        writer.backlogs.push((before, activity.start));
    } else {
        for at in edges..writer.shared.draft.edges.len() {
            let Edge { from, dependency, .. } = writer.shared.draft.edges[at];
            writer.edge(from, before, dependency);
        }
    }
    writer.edge(before, task, Dependency::on_end(DependencyKind::Stream, DurNs::ZERO));
    writer.unrecorded.insert(index, before);
}

/// A collective of a host backend starts after what the main thread had done when it did.
fn connect_host(writer: &mut RankWriter<'_, '_>, task: u32, activity: &Activity) {
    let before = main_thread(writer).and_then(|main| last_end(writer, main, activity.start));
    if let Some((end, from)) = before {
        writer.edge(from, task, Dependency::on_end(DependencyKind::HandOver, activity.start.since(end)));
    }
}

fn connect_late(writer: &mut RankWriter<'_, '_>) -> Vec<(u32, DurNs)> {
    let observed = writer.observed;
    let mut unexplained = Vec::new();
    for late in &observed.late {
        let task = writer.activities[late.activity as usize];
        let activity = observed.activity(late.activity);
        if task == NONE || launched_before(writer, activity) {
            continue;
        }
        match late.cause {
            Cause::Activity(target, dependency) => writer.edge(writer.activities[target as usize], task, dependency),
            Cause::Enqueuing(lag) => {
                let call = activity.call.map_or(NONE, |call| writer.calls[call as usize].own);
                writer.edge(call, task, Dependency::on_start(DependencyKind::Launch, lag));
            }
            Cause::BesideUnrecorded(other, dependency) => {
                let other = writer.unrecorded.get(&other).copied().unwrap_or(NONE);
                writer.edge(other, task, dependency);
            }
            Cause::Backlog | Cause::Unrecorded(_) => {}
            Cause::BeforeTrace => writer.anchor(task, activity.start),
            Cause::Unknown if activity.launched >= writer.window.end => {}
            Cause::Unknown => unexplained.push((task, late.by)),
        }
    }
    unexplained
}

/// The device tasks that a step launched which nothing of that step follows on their stream, and when they end.
pub(super) fn last_of(writer: &RankWriter<'_, '_>, from: TimeNs, to: TimeNs) -> Vec<(u32, TimeNs)> {
    let observed = writer.observed;
    let mut last = Vec::new();
    for stream in &observed.activities.streams {
        let activities = stream.activities.iter().copied().filter(|&activity| {
            let launched = observed.activity(activity).launched;
            writer.activities[activity as usize] != NONE && launched >= from && launched < to
        });
        let Some((newest, latest)) = activities.fold(None, |found: Option<(u32, u32)>, activity| {
            let latest = found.map_or(activity, |(_, latest)| latest);
            let later = observed.activity(activity).end >= observed.activity(latest).end;
            Some((activity, if later { activity } else { latest }))
        }) else {
            continue;
        };
        last.push((latest, observed.activity(latest).end));
        if newest != latest {
            last.push((newest, observed.activity(newest).end));
        }
    }
    last.into_iter().map(|(activity, end)| (writer.activities[activity as usize], end)).collect()
}

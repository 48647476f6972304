//! Device tasks with the edges of rules 2, 3, 6, 9, 10 and 11.

use crate::graph::{CollectiveId, Dependency, DependencyKind, LaneId, TaskKind};
use crate::units::{DurNs, TimeNs};

use super::draft::NONE;
use super::emit::{Emission, What};
use super::emit_host::{last_end, main_thread};
use super::late::Cause;
use super::works::{Work, WorkKind};
use super::{follow, launch};

/// Writes the device work of the window; its unexplained late starts.
pub(super) fn emit(emission: &mut Emission<'_, '_>) -> Vec<(u32, DurNs)> {
    let observed = emission.observed;
    for index in 0..observed.works.list.len() as u32 {
        if in_window(emission, observed.work(index)) {
            let task = add(emission, observed.work(index));
            emission.works[index as usize] = task;
        }
    }
    for index in 0..observed.works.list.len() as u32 {
        if emission.works[index as usize] != NONE {
            connect(emission, index);
        }
    }
    connect_late(emission)
}

/// Launched in the window, or before it but still there when it begins.
fn in_window(emission: &Emission<'_, '_>, work: &Work) -> bool {
    let all = emission.window.main.is_none();
    all || (work.launched < emission.window.tail && work.end > emission.window.start)
}

fn launched_before(emission: &Emission<'_, '_>, work: &Work) -> bool {
    work.call.is_some() && work.launched < emission.window.start
}

fn add(emission: &mut Emission<'_, '_>, work: &Work) -> u32 {
    let observed = emission.observed;
    let call = work.call.map(|call| &observed.threads.calls[call as usize]);
    let operator = call.and_then(|call| emission.operator(call.thread as usize, call.operator));
    let name = emission.name(observed.trace.events.name(work.event));
    let kind = match work.kind {
        WorkKind::Kernel => TaskKind::Kernel,
        WorkKind::Memset => TaskKind::Memset,
        WorkKind::Collective => TaskKind::Collective(CollectiveId(0)),
        _ => TaskKind::Memcpy,
    };
    let what = What { name, operator, event: Some(work.event) };
    let lane = LaneId(emission.stream_lanes + work.stream);
    let task = emission.task(kind, lane, what, (work.start, work.end), work.dur());
    if let Some(copy) = observed.trace.copies.get(work.event) {
        emission.shared.draft.tasks[task as usize].bytes = copy.bytes;
    }
    task
}

fn connect(emission: &mut Emission<'_, '_>, index: u32) {
    let observed = emission.observed;
    let work = observed.work(index);
    let task = emission.works[index as usize];
    let edges = emission.shared.draft.edges.len();
    if let Some((dependency, _)) = launch::dependency(observed, work) {
        let call = emission.calls[work.call.unwrap_or(0) as usize];
        let from = if dependency.of_predecessor > 0.0 { call.own } else { call.end };
        emission.edge(from, task, dependency);
    }
    if work.on_host {
        connect_host(emission, task, work);
    } else if work.previous.is_none() && work.call.is_none() || launched_before(emission, work) {
        emission.anchor(task, work.start);
    }
    for (previous, dependency, _) in follow::dependencies(observed, work) {
        emission.edge(emission.works[previous as usize], task, dependency);
    }
    let lag = observed.constants.event.lag;
    for wait in observed.event_waits_of(index) {
        let from = emission.works[wait.target as usize];
        emission.edge(from, task, Dependency::on_end(DependencyKind::EventWait, lag));
    }
    if emission.shared.draft.edges.len() == edges {
        emission.anchor(task, work.start);
    }
}

/// A collective of a host backend starts after what the main thread had done when it did.
fn connect_host(emission: &mut Emission<'_, '_>, task: u32, work: &Work) {
    let before = main_thread(emission).and_then(|main| last_end(emission, main, work.start));
    if let Some((end, from)) = before {
        emission.edge(from, task, Dependency::on_end(DependencyKind::HandOver, work.start.since(end)));
    }
}

fn connect_late(emission: &mut Emission<'_, '_>) -> Vec<(u32, DurNs)> {
    let observed = emission.observed;
    let mut unexplained = Vec::new();
    for late in &observed.late {
        let task = emission.works[late.work as usize];
        let work = observed.work(late.work);
        if task == NONE || launched_before(emission, work) {
            continue;
        }
        match late.cause {
            Cause::Work(target, dependency) => emission.edge(emission.works[target as usize], task, dependency),
            Cause::BeforeTrace => emission.anchor(task, work.start),
            Cause::Unknown if work.launched >= emission.window.end => {}
            Cause::Unknown => unexplained.push((task, late.by)),
        }
    }
    unexplained
}

/// The device tasks that a step launched which nothing of that step follows on their stream, and when they end.
pub(super) fn last_of(emission: &Emission<'_, '_>, from: TimeNs, to: TimeNs) -> Vec<(u32, TimeNs)> {
    let observed = emission.observed;
    let mut last = Vec::new();
    for stream in &observed.works.streams {
        let works = stream.works.iter().copied().filter(|&work| {
            let launched = observed.work(work).launched;
            emission.works[work as usize] != NONE && launched >= from && launched < to
        });
        let Some((newest, latest)) = works.fold(None, |found: Option<(u32, u32)>, work| {
            let latest = found.map_or(work, |(_, latest)| latest);
            let later = observed.work(work).end >= observed.work(latest).end;
            Some((work, if later { work } else { latest }))
        }) else {
            continue;
        };
        last.push((latest, observed.work(latest).end));
        if newest != latest {
            last.push((newest, observed.work(newest).end));
        }
    }
    last.into_iter().map(|(work, end)| (emission.works[work as usize], end)).collect()
}

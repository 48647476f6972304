//! Rule 10: work that started later than launch, stream order and events explain.

use crate::graph::{Dependency, DependencyKind};
use crate::units::{DurNs, TimeNs};

use super::calls::CallClass;
use super::observed::Observed;
use super::works::{Stream, Work};
use super::{follow, launch};

/// Starts later than this are looked into.
const LATE: DurNs = DurNs(20_000);

/// A start this near the end of work elsewhere followed it.
const AT_ITS_END: DurNs = DurNs(15_000);

/// What held a late start back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cause {
    /// Work elsewhere, and how.
    Work(u32, Dependency),
    /// Work from before the trace: its stream was told to wait, and nothing it could wait for was recorded.
    BeforeTrace,
    /// Unexplained.
    Unknown,
}

/// A late start and its cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Late {
    /// The work that started late.
    pub(super) work: u32,
    /// How much later than allowed.
    pub(super) by: DurNs,
    /// What held it back.
    pub(super) cause: Cause,
}

/// Finds all late starts, by work.
pub(super) fn find(observed: &Observed<'_>) -> Vec<Late> {
    let late = (0..observed.works.list.len() as u32).filter_map(|index| {
        let work = observed.work(index);
        let allowed = allowed_start(observed, index).filter(|_| !work.on_host)?;
        let by = work.start.since(allowed);
        (by > LATE).then(|| Late { work: index, by, cause: cause(observed, work, allowed) })
    });
    late.collect()
}

/// The earliest start that rules 2 to 9 allow by measured times; `None` when none of them applies.
fn allowed_start(observed: &Observed<'_>, index: u32) -> Option<TimeNs> {
    let work = observed.work(index);
    let launched = launch::dependency(observed, work).map(|(_, ready)| ready);
    let followed = follow::dependencies(observed, work).into_iter().map(|(_, _, ready)| ready).max();
    let lag = observed.constants.event.lag;
    let waited = observed.event_waits_of(index).iter().map(|wait| observed.work(wait.target).end + lag).max();
    launched.max(followed).max(waited)
}

fn cause(observed: &Observed<'_>, work: &Work, allowed: TimeNs) -> Cause {
    match cause_elsewhere(observed, work, allowed) {
        Some((target, dependency)) => Cause::Work(target, dependency),
        None if waits_for_the_past(observed, work) => Cause::BeforeTrace,
        None => Cause::Unknown,
    }
}

/// Whether `work` is the first on its stream, and its thread made some stream wait for an event before launching it.
fn waits_for_the_past(observed: &Observed<'_>, work: &Work) -> bool {
    let Some(index) = work.call.filter(|_| work.previous.is_none()) else { return false };
    let thread = &observed.threads.list[observed.threads.calls[index as usize].thread as usize];
    let before = &observed.threads.calls[thread.first_call as usize..index as usize];
    before.iter().any(|call| call.class == CallClass::StreamWait)
}

fn cause_elsewhere(observed: &Observed<'_>, work: &Work, allowed: TimeNs) -> Option<(u32, Dependency)> {
    let others = || {
        let streams = observed.works.streams.iter().enumerate();
        streams.filter(|&(index, _)| index != work.stream as usize).map(|(_, stream)| stream)
    };
    let ending = others().filter_map(|stream| ending_near(observed, stream, work.start)).min();
    if let Some((_, target)) = ending {
        let lag = work.start.since(observed.work(target).end);
        return Some((target, Dependency::on_end(DependencyKind::LateStart, lag)));
    }
    let target = others().find_map(|stream| running_throughout(observed, stream, allowed, work.start))?;
    Some((target, contention(observed.work(target), work.start)))
}

/// The work on `stream` that ends nearest `time`, with its distance.
fn ending_near(observed: &Observed<'_>, stream: &Stream, time: TimeNs) -> Option<(DurNs, u32)> {
    let after = stream.works.partition_point(|&other| observed.work(other).end <= time);
    let near = after.saturating_sub(1)..(after + 1).min(stream.works.len());
    near.map(|i| stream.works[i])
        .map(|other| (observed.work(other).end.since(time).abs(), other))
        .filter(|&(distance, other)| distance <= AT_ITS_END && observed.work(other).start < time)
        .min()
}

/// The work on `stream` that ran from `from` to `to` at least.
fn running_throughout(observed: &Observed<'_>, stream: &Stream, from: TimeNs, to: TimeNs) -> Option<u32> {
    let started = stream.works.partition_point(|&other| observed.work(other).start <= from);
    let other = stream.works[started.checked_sub(1)?];
    (observed.work(other).end >= to).then_some(other)
}

/// Starts when `other` is as far done as measured.
fn contention(other: &Work, start: TimeNs) -> Dependency {
    let dur = other.dur().0.max(1) as f64;
    let done = start.since(other.start).0 as f64 / dur;
    Dependency { kind: DependencyKind::Contention, lag: DurNs::ZERO, of_predecessor: (1.0 - done) as f32 }
}

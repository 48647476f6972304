//! Rule 10: work that started later than launch, stream order and events explain. What follows from work that was not
//! recorded is for `unrecorded`.

use crate::graph::{Dependency, DependencyKind};
use crate::units::{DurNs, TimeNs};

use super::activities::{Activity, Stream};
use super::calls::CallClass;
use super::observed::Observed;
use super::{follow, launch, unrecorded};

/// Starts later than this are looked into.
const LATE: DurNs = DurNs(20_000);

/// A start this near the end of work elsewhere followed it.
const AT_ITS_END: DurNs = DurNs(15_000);

/// What held a late start back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cause {
    /// Work elsewhere, and how.
    Activity(u32, Dependency),
    /// The host was still enqueuing the graph that it is of: it starts so long after its launch call.
    Enqueuing(DurNs),
    /// Work from before the trace that was not recorded.
    Backlog,
    /// Work that was not recorded, so long.
    Unrecorded(DurNs),
    /// Work that was not recorded ahead of other work, which shared the device, and how.
    BesideUnrecorded(u32, Dependency),
    /// Work from before the trace: its stream was told to wait, and nothing it could wait for was recorded.
    BeforeTrace,
    /// Unexplained.
    Unknown,
}

/// A late start and its cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Late {
    /// The work that started late.
    pub(super) activity: u32,
    /// How much later than allowed.
    pub(super) by: DurNs,
    /// What held it back.
    pub(super) cause: Cause,
}

/// Finds all late starts, by work.
pub(super) fn find(observed: &Observed<'_>) -> Vec<Late> {
    let late = (0..observed.activities.list.len() as u32).filter_map(|index| {
        let activity = observed.activity(index);
        let allowed = allowed_start(observed, index).filter(|_| !activity.on_host)?;
        let by = activity.start.since(allowed);
        (by > LATE).then(|| Late { activity: index, by, cause: cause(observed, activity, allowed) })
    });
    let mut late: Vec<Late> = late.collect();
    unrecorded::find(observed, &mut late);
    late
}

/// The earliest start that rules 2 to 9 allow by measured times; `None` when none of them applies.
fn allowed_start(observed: &Observed<'_>, index: u32) -> Option<TimeNs> {
    let activity = observed.activity(index);
    let launched = launch::dependency(observed, index).map(|(_, ready)| ready);
    let followed = follow::dependencies(observed, activity).into_iter().map(|(_, _, ready)| ready).max();
    let lag = observed.constants.event.lag;
    let waited = observed.event_waits_of(index).iter().map(|wait| observed.activity(wait.target).end + lag).max();
    launched.max(followed).max(waited)
}

fn cause(observed: &Observed<'_>, activity: &Activity, allowed: TimeNs) -> Cause {
    let call = activity.call.map(|call| &observed.threads.calls[call as usize]);
    if let Some(call) = call.filter(|call| call.class == CallClass::GraphLaunch && activity.start < call.end) {
        return Cause::Enqueuing(activity.start.since(call.start));
    }
    match cause_elsewhere(observed, activity, allowed) {
        Some((target, dependency)) => Cause::Activity(target, dependency),
        None if unrecorded::is_behind_backlog(observed, activity, allowed) => Cause::Backlog,
        None if waits_for_the_past(observed, activity) => Cause::BeforeTrace,
        None => Cause::Unknown,
    }
}

/// Whether `activity` is the first on its stream, and its thread made some stream wait for an event before launching it.
fn waits_for_the_past(observed: &Observed<'_>, activity: &Activity) -> bool {
    let Some(index) = activity.call.filter(|_| activity.previous.is_none()) else { return false };
    let thread = &observed.threads.list[observed.threads.calls[index as usize].thread as usize];
    let before = &observed.threads.calls[thread.first_call as usize..index as usize];
    before.iter().any(|call| call.class == CallClass::StreamWait)
}

fn cause_elsewhere(observed: &Observed<'_>, activity: &Activity, allowed: TimeNs) -> Option<(u32, Dependency)> {
    let others = || {
        let streams = observed.activities.streams.iter().enumerate();
        streams.filter(|&(index, _)| index != activity.stream as usize).map(|(_, stream)| stream)
    };
    let ending = others().filter_map(|stream| ending_near(observed, stream, activity.start)).min();
    if let Some((_, target)) = ending {
        let lag = activity.start.since(observed.activity(target).end);
        return Some((target, Dependency::on_end(DependencyKind::LateStart, lag)));
    }
    let target = others().find_map(|stream| running_throughout(observed, stream, allowed, activity.start))?;
    let other = observed.activity(target);
    Some((target, contention((other.start, other.end), activity.start)))
}

/// The work on `stream` that ends nearest `time`, with its distance.
fn ending_near(observed: &Observed<'_>, stream: &Stream, time: TimeNs) -> Option<(DurNs, u32)> {
    let after = stream.activities.partition_point(|&other| observed.activity(other).end <= time);
    let near = after.saturating_sub(1)..(after + 1).min(stream.activities.len());
    near.map(|i| stream.activities[i])
        .map(|other| (observed.activity(other).end.since(time).abs(), other))
        .filter(|&(distance, other)| distance <= AT_ITS_END && observed.activity(other).start < time)
        .min()
}

/// The work on `stream` that ran from `from` to `to` at least.
fn running_throughout(observed: &Observed<'_>, stream: &Stream, from: TimeNs, to: TimeNs) -> Option<u32> {
    let started = stream.activities.partition_point(|&other| observed.activity(other).start <= from);
    let other = stream.activities[started.checked_sub(1)?];
    (observed.activity(other).end >= to).then_some(other)
}

/// Starts when what ran in `span` is as far done as measured.
pub(super) fn contention(span: (TimeNs, TimeNs), start: TimeNs) -> Dependency {
    let dur = span.1.since(span.0).0.max(1) as f64;
    let done = start.since(span.0).0 as f64 / dur;
    Dependency { kind: DependencyKind::Contention, lag: DurNs::ZERO, of_predecessor: (1.0 - done) as f32 }
}

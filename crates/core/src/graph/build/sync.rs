//! Rules 4 to 6: host calls that wait for device work.

use rustc_hash::FxHashMap;

use crate::trace::SyncArgs;
use crate::units::{DurNs, TimeNs};

use super::activities::ActivityKind;
use super::calls::CallClass;
use super::constants::{WaitKind, median, per_group};
use super::events;
use super::launch::is_blocking_copy;
use super::observed::Observed;
use super::threads::Call;

/// A call that waits, with what it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The call.
    pub(super) call: u32,
    /// What sort of wait it is.
    pub(super) kind: WaitKind,
    /// The work it waits for.
    pub(super) targets: Vec<u32>,
    /// The call's own time, waiting excluded.
    pub(super) own: DurNs,
    /// From the end of each target to the end of the call.
    pub(super) lag: DurNs,
    /// Whether the lag is this call's own remainder, not the constant of its kind.
    pub(super) own_lag: bool,
}

/// Returns later than this after the awaited work are not the wait's doing.
const PROMPT: DurNs = DurNs(200_000);

/// Host and device clocks differ by up to this much (EVENTS.md, quirk 7).
pub(super) const CLOCK_ERROR: DurNs = DurNs(60_000);

/// A target that ends this much after a call was not what the call waited for.
const OVERSHOOT: DurNs = DurNs(-60_000);

/// Finds all waiting calls and estimates own times and return lags.
pub(super) fn apply(observed: &mut Observed<'_>) {
    let mut waits = find(observed);
    estimate_lags(observed, &waits);
    let own = own_times(observed, &waits);
    for wait in &mut waits {
        settle(observed, wait, &own);
    }
    observed.waits = waits;
}

fn find(observed: &Observed<'_>) -> Vec<Wait> {
    let records = events::records(observed);
    let recording = if records.is_empty() { FxHashMap::default() } else { events::recording_calls(observed) };
    let calls = observed.threads.calls.iter().enumerate();
    calls
        .filter_map(|(index, call)| {
            let index = index as u32;
            let (kind, targets) = match call.class {
                CallClass::DeviceSync => (WaitKind::Device, every_stream(observed, call.start)),
                CallClass::Free => (WaitKind::Free, every_stream(observed, call.start)),
                CallClass::StreamSync => (WaitKind::Stream, stream_targets(observed, index, &records)),
                CallClass::EventSync => (WaitKind::Event, event_targets(observed, call, &records, &recording)),
                CallClass::Copy => copy_targets(observed, index, call)?,
                _ => return None,
            };
            let wait = Wait { call: index, kind, targets, own: DurNs::ZERO, lag: DurNs::ZERO, own_lag: false };
            Some(wait).filter(|wait| !wait.targets.is_empty())
        })
        .collect()
}

/// The last work launched before `time` on every stream.
fn every_stream(observed: &Observed<'_>, time: TimeNs) -> Vec<u32> {
    (0..observed.activities.streams.len())
        .filter_map(|stream| observed.activities.last_launched_before(stream, time))
        .collect()
}

fn copy_targets(observed: &Observed<'_>, index: u32, call: &Call) -> Option<(WaitKind, Vec<u32>)> {
    let blocking = |&activity: &u32| is_blocking_copy(observed, observed.activity(activity), call);
    let targets: Vec<u32> = observed.activities.of_call(index).filter(blocking).collect();
    let copy = observed.activity(*targets.first()?);
    let kind = match copy.kind {
        ActivityKind::HostToDevice if call.end < copy.end => WaitKind::StagedIn,
        ActivityKind::HostToDevice => WaitKind::CopyIn,
        _ => WaitKind::CopyOut,
    };
    Some((kind, targets))
}

/// How many calls earlier a copy may be that tells which stream a synchronisation is for.
const COPY_WITHIN: u32 = 3;

fn stream_targets(observed: &Observed<'_>, index: u32, records: &FxHashMap<u32, SyncArgs>) -> Vec<u32> {
    let call = &observed.threads.calls[index as usize];
    let stream = recorded_stream(observed, call, records)
        .or_else(|| stream_of_recent_copy(observed, index))
        .or_else(|| latest_stream(observed, call));
    stream.and_then(|stream| observed.activities.last_launched_before(stream, call.start)).into_iter().collect()
}

fn recorded_stream(observed: &Observed<'_>, call: &Call, records: &FxHashMap<u32, SyncArgs>) -> Option<usize> {
    let args = records.get(&observed.trace.events.correlation(call.event))?;
    let number = args.stream?;
    observed.activities.streams.iter().position(|stream| stream.number == number)
}

fn stream_of_recent_copy(observed: &Observed<'_>, index: u32) -> Option<usize> {
    let thread = observed.threads.calls[index as usize].thread;
    let first = observed.threads.list[thread as usize].first_call.max(index.saturating_sub(COPY_WITHIN));
    (first..index)
        .rev()
        .filter(|&call| observed.threads.calls[call as usize].class == CallClass::Copy)
        .find_map(|call| observed.activities.of_call(call).next())
        .map(|activity| observed.activity(activity).stream as usize)
}

/// The stream whose last launched work ends latest before the call does.
fn latest_stream(observed: &Observed<'_>, call: &Call) -> Option<usize> {
    let last_end = |stream: usize| {
        let activity = observed.activities.last_launched_before(stream, call.start)?;
        Some(observed.activity(activity).end).filter(|&end| end <= call.end)
    };
    (0..observed.activities.streams.len()).filter_map(|stream| Some((last_end(stream)?, stream))).max().map(|(_, s)| s)
}

fn event_targets(
    observed: &Observed<'_>,
    call: &Call,
    records: &FxHashMap<u32, SyncArgs>,
    recording: &FxHashMap<u32, u32>,
) -> Vec<u32> {
    let recorded = || {
        let args = records.get(&observed.trace.events.correlation(call.event))?;
        let number = args.wait_on_stream?;
        let stream = observed.activities.streams.iter().position(|stream| stream.number == number)?;
        let record = &observed.threads.calls[*recording.get(&args.record_correlation)? as usize];
        observed.activities.last_launched_before(stream, record.start)
    };
    recorded().or_else(|| newest_ending_inside(observed, call)).into_iter().collect()
}

/// The newest launched work that ends while the call lasts.
fn newest_ending_inside(observed: &Observed<'_>, call: &Call) -> Option<u32> {
    let inside = |stream: &super::activities::Stream| {
        let launched = stream.activities.partition_point(|&activity| observed.activity(activity).launched < call.start);
        let ended = stream.activities.partition_point(|&activity| observed.activity(activity).end <= call.end);
        let activity = stream.activities[launched.min(ended).checked_sub(1)?];
        (observed.activity(activity).end > call.start).then_some(activity)
    };
    observed.activities.streams.iter().filter_map(inside).max_by_key(|&activity| observed.activity(activity).launched)
}

/// The measured time from the end of the last target to the end of the call, when the call truly blocked.
fn blocked_for(observed: &Observed<'_>, wait: &Wait) -> Option<DurNs> {
    let call = &observed.threads.calls[wait.call as usize];
    let target = wait.targets.iter().map(|&target| observed.activity(target).end).max()?;
    let remainder = call.end.since(target);
    let on_purpose = wait.kind == WaitKind::StagedIn;
    (target > call.start && (remainder > OVERSHOOT || on_purpose)).then_some(remainder)
}

fn is_sample(observed: &Observed<'_>, wait: &Wait) -> bool {
    observed.is_sample(observed.threads.calls[wait.call as usize].start)
}

fn estimate_lags(observed: &mut Observed<'_>, waits: &[Wait]) {
    let mut groups: [Vec<DurNs>; WaitKind::ALL.len()] = std::array::from_fn(|_| Vec::new());
    for wait in waits.iter().filter(|wait| is_sample(observed, wait)) {
        if let Some(remainder) = blocked_for(observed, wait).filter(|&r| r < PROMPT && wait.kind != WaitKind::Free) {
            groups[wait.kind as usize].push(remainder);
        }
    }
    let counts = groups.each_ref().map(Vec::len);
    let own = groups.each_mut().map(|group| median(group));
    let pooled = per_group(groups, median);
    for kind in WaitKind::ALL {
        let index = kind as usize;
        observed.constants.wait[index] = pooled[index];
        if counts[index] > 0 {
            observed.constants.wait[index].lag = own[index];
            observed.constants.wait[index].samples = counts[index] as u32;
        }
    }
}

/// The median length of unblocked calls of each kind; where all blocked, the return lag of the kind.
fn own_times(observed: &Observed<'_>, waits: &[Wait]) -> [DurNs; WaitKind::ALL.len()] {
    let mut unblocked: [Vec<DurNs>; WaitKind::ALL.len()] = std::array::from_fn(|_| Vec::new());
    for wait in waits.iter().filter(|wait| is_sample(observed, wait) && blocked_for(observed, wait).is_none()) {
        let call = &observed.threads.calls[wait.call as usize];
        unblocked[wait.kind as usize].push(call.end.since(call.start));
    }
    WaitKind::ALL.map(|kind| match unblocked[kind as usize].as_mut_slice() {
        [] => observed.constants.wait(kind).max(DurNs::ZERO),
        durations => median(durations),
    })
}

fn settle(observed: &Observed<'_>, wait: &mut Wait, own: &[DurNs]) {
    let call = &observed.threads.calls[wait.call as usize];
    let dur = call.end.since(call.start);
    let usual = observed.constants.wait(wait.kind);
    match blocked_for(observed, wait) {
        Some(remainder) if wait.kind == WaitKind::Free => {
            (wait.own, wait.lag) = (dur.min(remainder.max(DurNs::ZERO)), remainder);
        }
        Some(remainder) => {
            wait.own = dur.min(own[wait.kind as usize]);
            wait.own_lag = remainder >= PROMPT || !observed.constants.wait[wait.kind as usize].is_constant();
            wait.lag = if wait.own_lag { remainder } else { usual };
        }
        None => {
            let late = wait.targets.iter().any(|&activity| observed.activity(activity).end > call.end + CLOCK_ERROR);
            if late {
                wait.targets.retain(|&activity| observed.activity(activity).end <= call.end + CLOCK_ERROR);
            }
            (wait.own, wait.lag) = (dur, usual.min(dur));
        }
    }
}

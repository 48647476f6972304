//! Rule 9: streams that wait for events of other streams, recorded or inferred.

use rustc_hash::FxHashMap;

use crate::trace::SyncArgs;
use crate::units::{DurNs, TimeNs};

use super::calls::CallClass;
use super::constants::{Lag, median};
use super::launch;
use super::observed::Observed;
use super::threads::Call;

/// An activity that waits for another on a different stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventWait {
    /// The work that waits.
    pub(super) activity: u32,
    /// The work it waits for.
    pub(super) target: u32,
}

/// Clock rounding: work that ends this little after another's start counts as ended before it.
const ROUNDING: DurNs = DurNs(2_000);

/// A wait that decided a start did so within this time.
const PROMPT: std::ops::RangeInclusive<DurNs> = DurNs(-5_000)..=DurNs(20_000);

/// Finds all waits, by work: from records where the trace has any, else from the order of calls.
pub(super) fn find(observed: &Observed<'_>) -> Vec<EventWait> {
    let mut found = recorded(observed);
    if found.is_empty() {
        found = inferred(observed);
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The synchronisation records of a trace by the correlation id of their call.
pub(super) fn records(observed: &Observed<'_>) -> FxHashMap<u32, SyncArgs> {
    let events = &observed.trace.events;
    observed.trace.syncs.iter().map(|(id, args)| (events.correlation(id), *args)).filter(|&(id, _)| id != 0).collect()
}

/// The call of each correlation id that a record names as the one that recorded the event waited for.
pub(super) fn recording_calls(observed: &Observed<'_>) -> FxHashMap<u32, u32> {
    let events = &observed.trace.events;
    observed.threads.folded.iter().map(|&(event, call)| (events.correlation(event), call)).collect()
}

fn recorded(observed: &Observed<'_>) -> Vec<EventWait> {
    if observed.trace.syncs.is_empty() {
        return Vec::new();
    }
    let records = records(observed);
    let calls = recording_calls(observed);
    let mut found = Vec::new();
    for call in observed.threads.calls.iter().filter(|call| call.class == CallClass::StreamWait) {
        let correlation = observed.trace.events.correlation(call.event);
        let Some(args) = records.get(&correlation) else { continue };
        found.extend(recorded_wait(observed, call, args, &calls));
    }
    found
}

fn recorded_wait(
    observed: &Observed<'_>,
    call: &Call,
    args: &SyncArgs,
    calls: &FxHashMap<u32, u32>,
) -> Option<EventWait> {
    let stream_named = |number: i64| observed.activities.streams.iter().position(|stream| stream.number == number);
    let waiting = &observed.activities.streams[stream_named(args.stream?)?].activities;
    let from = stream_named(args.wait_on_stream?)?;
    let record = &observed.threads.calls[*calls.get(&args.record_correlation)? as usize];
    let target = observed.activities.last_launched_before(from, record.start)?;
    let next = waiting.partition_point(|&activity| observed.activity(activity).launched < call.start);
    let activity = *waiting.get(next)?;
    (activity != target && observed.activity(target).end <= observed.activity(activity).start + ROUNDING)
        .then_some(EventWait { activity, target })
}

/// The first work that a thread launches after a wait depends, per other stream, on the newest earlier-launched work
/// that had ended before it began.
fn inferred(observed: &Observed<'_>) -> Vec<EventWait> {
    let mut found = Vec::new();
    for thread in &observed.threads.list {
        let mut waited: Option<TimeNs> = None;
        for (offset, call) in observed.threads.calls_of(thread).iter().enumerate() {
            if call.class == CallClass::StreamWait {
                waited = Some(call.start);
                continue;
            }
            let Some(at) = waited else { continue };
            let Some(activity) = observed.activities.of_call(thread.first_call + offset as u32).next() else {
                continue;
            };
            waited = None;
            let own = observed.activity(activity).stream as usize;
            let others = (0..observed.activities.streams.len()).filter(|&stream| stream != own);
            found.extend(others.filter_map(|stream| newest_ended(observed, stream, at, activity)));
        }
    }
    found
}

fn newest_ended(observed: &Observed<'_>, stream: usize, launched_before: TimeNs, activity: u32) -> Option<EventWait> {
    let activities = &observed.activities.streams[stream].activities;
    let by = observed.activity(activity).start + ROUNDING;
    let launched = activities.partition_point(|&other| observed.activity(other).launched < launched_before);
    let ended = activities.partition_point(|&other| observed.activity(other).end <= by);
    let target = activities[launched.min(ended).checked_sub(1)?];
    Some(EventWait { activity, target })
}

/// Estimates the lag from waits that decided a start: ended after the launch call, and shortly before the start.
pub(super) fn estimate(observed: &mut Observed<'_>) {
    let mut samples: Vec<DurNs> = Vec::new();
    for wait in &observed.event_waits {
        let (activity, target) = (observed.activity(wait.activity), observed.activity(wait.target));
        let launched = launch::dependency(observed, wait.activity).is_none_or(|(_, ready)| ready <= target.end);
        let lag = activity.start.since(target.end);
        if launched && observed.is_sample(activity.start) && PROMPT.contains(&lag) {
            samples.push(lag);
        }
    }
    let count = samples.len() as u32;
    observed.constants.event = Lag { lag: median(&mut samples), samples: count };
}

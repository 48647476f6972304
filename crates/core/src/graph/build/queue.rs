//! Rule 7: the launch queue of a CUDA stream holds about a thousand launch calls; a launch waits while it is full.

use rustc_hash::FxHashMap;

use crate::intern::NameId;
use crate::units::DurNs;

use super::constants::{Lag, WaitKind, lower_quartile, median};
use super::observed::Observed;
use super::sync::Wait;

/// Launch calls that the queue holds.
pub(super) const DEPTH: usize = 1022;

/// A launch that ends this near the end of the older work, and lasts longer than usual, was held back by the queue.
const NEAR: DurNs = DurNs(200_000);

/// Adds, for every launch call, the wait for the work of the call [`DEPTH`] calls before it on the same stream.
pub(super) fn apply(observed: &mut Observed<'_>) {
    if observed.is_hip() {
        return;
    }
    let launches = launch_calls(observed);
    let own = usual_times(observed, &launches);
    let streams = launches.chunk_by(|a, b| a.stream == b.stream);
    let pairs = streams.flat_map(|calls| calls.windows(DEPTH + 1)).map(|calls| (calls[0], calls[DEPTH]));
    let mut waits: Vec<(Wait, Option<DurNs>)> =
        pairs.map(|(older, newer)| wait(observed, older.last, newer.call, &own)).collect();
    if waits.is_empty() {
        return;
    }
    let sampled = |wait: &Wait| observed.is_sample(observed.threads.calls[wait.call as usize].start);
    let mut samples: Vec<DurNs> =
        waits.iter().filter(|(wait, _)| sampled(wait)).filter_map(|&(_, blocked)| blocked).collect();
    let lag = Lag { lag: median(&mut samples), samples: samples.len() as u32 };
    observed.constants.wait[WaitKind::Queue as usize] = lag;
    for (wait, _) in &mut waits {
        wait.lag = lag.lag;
    }
    observed.queue = waits.into_iter().map(|(wait, _)| wait).collect();
    observed.queue.sort_by_key(|wait| wait.call);
    // A call that launched on several streams waits for each of their queues.
    observed.queue.dedup_by(|later, first| {
        let same = later.call == first.call;
        if same {
            first.targets.append(&mut later.targets);
            first.own = first.own.min(later.own);
        }
        same
    });
}

/// A call that launched device work on a stream.
#[derive(Clone, Copy)]
struct Launch {
    stream: u32,
    call: u32,
    /// The last to end of what it launched there.
    last: u32,
}

/// Calls that launched device work, by stream, each in order of start.
fn launch_calls(observed: &Observed<'_>) -> Vec<Launch> {
    let calls = &observed.threads.calls;
    let activities = observed.activities.list.iter().zip(0..).filter_map(|(activity, last)| {
        let call = activity.call.filter(|&call| calls[call as usize].class.launches())?;
        Some(Launch { stream: activity.stream, call, last })
    });
    let key = |launch: &Launch| (launch.stream, calls[launch.call as usize].start, launch.call);
    let mut launches: Vec<Launch> = activities.collect();
    launches.sort_by_key(|launch| (key(launch), std::cmp::Reverse(observed.activity(launch.last).end)));
    launches.dedup_by_key(|launch| key(launch));
    launches
}

/// The lower quartile of the length of each launch call, by name.
fn usual_times(observed: &Observed<'_>, launches: &[Launch]) -> FxHashMap<NameId, DurNs> {
    let mut by_name: FxHashMap<NameId, Vec<DurNs>> = FxHashMap::default();
    let calls = launches.iter().map(|launch| &observed.threads.calls[launch.call as usize]);
    for call in calls.filter(|call| observed.is_sample(call.start)) {
        by_name.entry(observed.trace.events.name(call.event)).or_default().push(call.end.since(call.start));
    }
    by_name.into_iter().map(|(name, mut durations)| (name, lower_quartile(&mut durations))).collect()
}

/// The wait of `call` for the activity `target`, with the measured return lag when it was held back.
fn wait(observed: &Observed<'_>, target: u32, call: u32, usual: &FxHashMap<NameId, DurNs>) -> (Wait, Option<DurNs>) {
    let measured = &observed.threads.calls[call as usize];
    let dur = measured.end.since(measured.start);
    let usual = usual.get(&observed.trace.events.name(measured.event)).copied().unwrap_or(dur);
    let target_end = observed.activity(target).end;
    let remainder = measured.end.since(target_end);
    let held_back = target_end > measured.start && remainder.abs() < NEAR && dur > usual * 2;
    let own = if held_back { usual.min(dur) } else { dur };
    let wait = Wait { call, kind: WaitKind::Queue, targets: vec![target], own, lag: DurNs::ZERO, own_lag: false };
    (wait, held_back.then_some(remainder))
}

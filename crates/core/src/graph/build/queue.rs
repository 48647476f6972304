//! Rule 7: the launch queue of CUDA holds about a thousand launch calls; a launch waits while it is full.

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

/// Adds, for every launch call, the wait for the work of the call [`DEPTH`] calls before it.
pub(super) fn apply(observed: &mut Observed<'_>) {
    let trace = observed.trace;
    let hip = observed
        .threads
        .calls
        .iter()
        .find(|call| call.class.launches())
        .is_some_and(|call| trace.names.get(trace.events.name(call.event)).starts_with("hip"));
    let launches = launch_calls(observed);
    if hip || launches.len() <= DEPTH {
        return;
    }
    let own = usual_times(observed, &launches);
    let mut waits: Vec<(Wait, Option<DurNs>)> =
        launches.windows(DEPTH + 1).filter_map(|calls| wait(observed, calls[0], calls[DEPTH], &own)).collect();
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
}

/// Calls that launched device work, in order of start.
fn launch_calls(observed: &Observed<'_>) -> Vec<u32> {
    let calls = &observed.threads.calls;
    let mut launches: Vec<u32> = (0..calls.len() as u32)
        .filter(|&call| calls[call as usize].class.launches() && observed.activities.of_call(call).next().is_some())
        .collect();
    launches.sort_by_key(|&call| (calls[call as usize].start, call));
    launches
}

/// The lower quartile of the length of each launch call, by name.
fn usual_times(observed: &Observed<'_>, launches: &[u32]) -> FxHashMap<NameId, DurNs> {
    let mut by_name: FxHashMap<NameId, Vec<DurNs>> = FxHashMap::default();
    let calls = launches.iter().map(|&call| &observed.threads.calls[call as usize]);
    for call in calls.filter(|call| observed.is_sample(call.start)) {
        by_name.entry(observed.trace.events.name(call.event)).or_default().push(call.end.since(call.start));
    }
    by_name.into_iter().map(|(name, mut durations)| (name, lower_quartile(&mut durations))).collect()
}

/// The wait of `call` for the work of `older`, with the measured return lag when it was held back.
fn wait(
    observed: &Observed<'_>,
    older: u32,
    call: u32,
    usual: &FxHashMap<NameId, DurNs>,
) -> Option<(Wait, Option<DurNs>)> {
    let target = observed.activities.of_call(older).max_by_key(|&activity| observed.activity(activity).end)?;
    let measured = &observed.threads.calls[call as usize];
    let dur = measured.end.since(measured.start);
    let usual = usual.get(&observed.trace.events.name(measured.event)).copied().unwrap_or(dur);
    let target_end = observed.activity(target).end;
    let remainder = measured.end.since(target_end);
    let held_back = target_end > measured.start && remainder.abs() < NEAR && dur > usual * 2;
    let own = if held_back { usual.min(dur) } else { dur };
    let wait = Wait { call, kind: WaitKind::Queue, targets: vec![target], own, lag: DurNs::ZERO, own_lag: false };
    Some((wait, held_back.then_some(remainder)))
}

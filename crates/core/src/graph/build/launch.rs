//! Rules 2 and 6: how long after its launch call an activity can start.

use crate::graph::{Dependency, DependencyKind};
use crate::units::{DurNs, TimeNs};

use super::activities::{Activity, ActivityKind};
use super::calls::CallClass;
use super::constants::{Lag, median, per_group};
use super::observed::Observed;
use super::sync::CLOCK_ERROR;
use super::threads::Call;

/// Whether work is launched from the start of its call: graphs, and copies that the host itself moves in parts.
pub(super) fn from_start(observed: &Observed<'_>, activity: &Activity, call: &Call) -> bool {
    call.class == CallClass::GraphLaunch || is_blocking_copy(observed, activity, call) || is_staged(activity)
}

/// Whether the host stages the copy: from pageable memory to the device.
fn is_staged(activity: &Activity) -> bool {
    activity.kind == ActivityKind::HostToDevice && activity.pageable
}

/// Whether the call waited for its copy, and is of a sort that does so on purpose.
pub(super) fn is_blocking_copy(observed: &Observed<'_>, activity: &Activity, call: &Call) -> bool {
    if call.class != CallClass::Copy
        || !matches!(activity.kind, ActivityKind::HostToDevice | ActivityKind::DeviceToHost)
    {
        return false;
    }
    let trace = observed.trace;
    let synchronous = !trace.names.get(trace.events.name(call.event)).contains("Async");
    let pinned = trace.names.get(trace.events.name(activity.event)).contains("Pinned");
    let by_name = activity.pageable || synchronous || (activity.kind == ActivityKind::DeviceToHost && !pinned);
    let returned_by = if synchronous { call.end + CLOCK_ERROR } else { call.end };
    let returned = returned_by >= activity.end || returned_while_staged(activity, call);
    by_name && returned
}

/// The call of a staged copy returns when the last part is on its way, at most this long before the copy ends.
const LAST_PART: DurNs = DurNs(400_000);

/// Whether the call returned after its copy had begun, with no more than the last part still on its way.
fn returned_while_staged(activity: &Activity, call: &Call) -> bool {
    is_staged(activity) && call.end > activity.start && activity.end.since(call.end) < LAST_PART
}

/// A start this far from its launch has other causes.
const FAR: DurNs = DurNs(200_000);

/// From a launch to the start of its work on an idle stream, at most, where none was recorded.
const AT_MOST_CUDA: DurNs = DurNs(5_000);

/// As [`AT_MOST_CUDA`], of HIP.
const AT_MOST_HIP: DurNs = DurNs(8_000);

/// Work that starts this long before its launch call allows was on its way before the call ended.
const BEFORE_THE_END: DurNs = DurNs(20_000);

/// Estimates `L` of every kind: the median over work whose stream was idle when its call ended.
pub(super) fn estimate(observed: &mut Observed<'_>) {
    let (mut from_end, mut from_call_start) = (groups(), groups());
    for (index, activity) in observed.activities.list.iter().enumerate() {
        let Some(call) = activity.call.map(|call| &observed.threads.calls[call as usize]) else { continue };
        let start_based = from_start(observed, activity, call);
        let group = if start_based { &mut from_call_start } else { &mut from_end };
        if observed.is_sample(call.start) && observed.event_waits_of(index as u32).is_empty() {
            group[activity.kind as usize].extend(own_lag(observed, activity, call));
        }
    }
    let most = if observed.is_hip() { AT_MOST_HIP } else { AT_MOST_CUDA };
    let bounded = |lags: [Lag; ActivityKind::ALL.len()], start_based: bool| {
        let bound = least_wait(observed, start_based).map_or(most, |least| most.min(least));
        lags.map(|lag| if lag.samples == 0 { Lag { lag: bound, samples: 0 } } else { lag })
    };
    let launch = bounded(per_group(from_end, median), false);
    let launch_from_start = bounded(per_group(from_call_start, median), true);
    (observed.constants.launch, observed.constants.launch_from_start) = (launch, launch_from_start);
}

/// The shortest time from a launch to the start of its work.
fn least_wait(observed: &Observed<'_>, start_based: bool) -> Option<DurNs> {
    let calls = observed.activities.list.iter().filter_map(|activity| {
        let call = &observed.threads.calls[activity.call? as usize];
        (from_start(observed, activity, call) == start_based).then_some((activity, call))
    });
    calls.map(|(activity, call)| activity.start.since(if start_based { call.start } else { call.end })).min()
}

/// The measured lag of work that found its stream idle.
fn own_lag(observed: &Observed<'_>, activity: &Activity, call: &Call) -> Option<DurNs> {
    let ready = if from_start(observed, activity, call) { call.start } else { call.end };
    let idle = observed.previous(activity).is_none_or(|(previous, _)| previous.end <= ready);
    Some(activity.start.since(ready)).filter(|lag| idle && lag.abs() <= FAR)
}

/// The constant; the work's own lag where there are too few samples for one.
fn lag(observed: &Observed<'_>, index: u32, call: &Call, constants: &[Lag]) -> DurNs {
    let activity = observed.activity(index);
    let constant = constants[activity.kind as usize];
    if constant.is_constant() {
        return constant.lag;
    }
    let waited = !observed.event_waits_of(index).is_empty();
    own_lag(observed, activity, call).filter(|_| !waited).unwrap_or(constant.lag)
}

fn groups() -> [Vec<DurNs>; ActivityKind::ALL.len()] {
    std::array::from_fn(|_| Vec::new())
}

/// The launch edge of the activity at `index` and the earliest start it allows by measured times.
///
/// # Complexity
/// O(log work), however much work the same call launched.
pub(super) fn dependency(observed: &Observed<'_>, index: u32) -> Option<(Dependency, TimeNs)> {
    let activity = observed.activity(index);
    let call = &observed.threads.calls[activity.call? as usize];
    let constants = &observed.constants;
    if !from_start(observed, activity, call) {
        let lag = lag(observed, index, call, &constants.launch);
        if activity.start.since(call.end + lag) >= -BEFORE_THE_END {
            return Some((Dependency::on_end(DependencyKind::Launch, lag), call.end + lag));
        }
        let free = observed.previous(activity).map_or(call.start, |(previous, _)| previous.end);
        let lag = activity.start.since(call.start.max(free.min(activity.start)));
        return Some((Dependency::on_start(DependencyKind::Launch, lag), call.start + lag));
    }
    let lag =
        staging(observed, activity, call).unwrap_or_else(|| lag(observed, index, call, &constants.launch_from_start));
    Some((Dependency::on_start(DependencyKind::Launch, lag), call.start + lag))
}

/// Measured staging of a copy from pageable memory: from where both the call had begun and the stream was free.
pub(super) fn staging(observed: &Observed<'_>, activity: &Activity, call: &Call) -> Option<DurNs> {
    let free = observed.previous(activity).map_or(call.start, |(previous, _)| previous.end);
    is_staged(activity).then(|| activity.start.since(call.start.max(free)))
}

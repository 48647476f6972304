//! Rule 3: in-order execution of a stream.

use crate::graph::{Dependency, DependencyKind};
use crate::units::{DurNs, TimeNs};

use super::activities::{Activity, ActivityKind};
use super::constants::{Lag, per_group, trimmed_mean};
use super::launch;
use super::observed::Observed;

const KINDS: usize = ActivityKind::ALL.len();

/// Gaps up to this long count as back to back.
const BACK_TO_BACK: DurNs = DurNs(20_000);

/// Gaps up to this long are how queued work follows where no gap is shorter.
const APART: DurNs = DurNs(200_000);

/// Work that starts this long before the work before it has ended does not follow it: the two run side by side.
const SIDE_BY_SIDE: DurNs = DurNs(-10_000);

/// Estimates `G`: the trimmed mean over pairs whose second was launched long before the first ended.
pub(super) fn estimate(observed: &mut Observed<'_>) {
    let mut groups: [Vec<DurNs>; KINDS * KINDS] = std::array::from_fn(|_| Vec::new());
    let mut apart = groups.clone();
    for (index, activity) in observed.activities.list.iter().enumerate() {
        let Some((previous, gap)) = observed.previous(activity) else { continue };
        let queued = launch::dependency(observed, index as u32).is_none_or(|(_, ready)| ready <= previous.end);
        let staged = activity.kind == ActivityKind::HostToDevice && activity.pageable;
        let near = observed.is_sample(activity.start) && (SIDE_BY_SIDE..=APART).contains(&gap);
        if queued && near && !staged && !activity.on_host && observed.event_waits_of(index as u32).is_empty() {
            let groups = if gap <= BACK_TO_BACK { &mut groups } else { &mut apart };
            groups[previous.kind as usize * KINDS + activity.kind as usize].push(gap);
        }
    }
    // Where nothing ran back to back, this far apart is how queued work follows.
    let groups = if groups.iter().all(Vec::is_empty) { apart } else { groups };
    let flat = per_group(groups, trimmed_mean);
    let mut follow = [[Lag::default(); KINDS]; KINDS];
    for (index, lag) in flat.into_iter().enumerate() {
        follow[index / KINDS][index % KINDS] = lag;
    }
    observed.constants.follow = follow;
}

/// The edges from earlier work on the stream of `activity`, and the earliest start each allows by measured times.
pub(super) fn dependencies(observed: &Observed<'_>, activity: &Activity) -> Vec<(u32, Dependency, TimeNs)> {
    let (Some(index), Some((previous, gap))) = (activity.previous, observed.previous(activity)) else {
        return Vec::new();
    };
    let call = activity.call.map(|call| &observed.threads.calls[call as usize]);
    let staging = call.and_then(|call| launch::staging(observed, activity, call));
    let lag = staging.unwrap_or(observed.constants.follow(previous.kind, activity.kind));
    if gap >= lag.min(DurNs::ZERO) + SIDE_BY_SIDE {
        return vec![(index, Dependency::on_end(DependencyKind::Stream, lag), previous.end + lag)];
    }
    let beside = Dependency::on_start(DependencyKind::Stream, DurNs::ZERO);
    let mut edges = vec![(index, beside, previous.start)];
    if let Some(ended) = last_ended(observed, activity) {
        let before = observed.activity(ended);
        let lag = observed.constants.follow(before.kind, activity.kind);
        edges.push((ended, Dependency::on_end(DependencyKind::Stream, lag), before.end + lag));
    }
    edges
}

/// How far back work that runs side by side is looked through.
const LOOK_BACK: usize = 32;

/// The newest work before `activity` on its stream that had ended when it started.
fn last_ended(observed: &Observed<'_>, activity: &Activity) -> Option<u32> {
    let mut at = activity.previous;
    for _ in 0..LOOK_BACK {
        let index = at?;
        if observed.activity(index).end <= activity.start {
            return Some(index);
        }
        at = observed.activity(index).previous;
    }
    None
}

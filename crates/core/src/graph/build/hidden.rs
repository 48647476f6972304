//! Rule 14: waits that no call shows. A host that polls an event looks like one that thinks for a long time and goes on
//! just after a stream has run empty; several ranks doing so in the same place tell the two apart.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::trace::EventId;
use crate::units::{DurNs, TimeNs};

use super::emit_host;
use super::host::{self, HostActivity, HostSpan};
use super::observed::Observed;
use super::threads::Thread;

/// Think time from which on a wait may hide in it.
const LONG: DurNs = DurNs(500_000);

/// A host that polled goes on this soon after what it waited for has ended.
const SOON: std::ops::RangeInclusive<DurNs> = DurNs(5_000)..=DurNs(100_000);

/// Work this long ends just before a host goes on in few places by chance.
const TELLING: DurNs = DurNs(300_000);

/// A host span that is a wait for an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HiddenWait {
    /// Position of its thread.
    pub(super) thread: usize,
    /// Start of the host span.
    pub(super) host_span: TimeNs,
    /// The work waited for.
    pub(super) target: u32,
}

/// Where a wait was found: name of the host work, name of the device work.
type Place = (String, String);

/// Finds the hidden waits of all ranks: those found in the same place on two ranks, and half of them, at least.
///
/// # Arguments
/// `counts`: how many ranks each stands for.
///
/// # Complexity
/// O(operators + calls + long host spans · streams · log work).
pub(super) fn find(ranks: &mut [&mut Observed<'_>], counts: &[usize]) -> usize {
    let count = if counts.iter().sum::<usize>() < 2 { 0 } else { find_on_several(ranks, counts) };
    ranks.par_iter_mut().for_each(|observed| {
        let waits = host_waits(observed);
        observed.hidden.extend(waits);
        observed.hidden.sort_unstable();
        observed.hidden.dedup_by_key(|wait| (wait.thread, wait.host_span));
    });
    count
}

fn find_on_several(ranks: &mut [&mut Observed<'_>], counts: &[usize]) -> usize {
    let found: Vec<Vec<(Place, HiddenWait)>> = ranks.par_iter().map(|observed| candidates(observed)).collect();
    let mut seen: BTreeMap<&Place, BTreeSet<usize>> = BTreeMap::new();
    for (rank, candidates) in found.iter().enumerate() {
        for (place, _) in candidates {
            seen.entry(place).or_default().insert(rank);
        }
    }
    let enough = 2.max(counts.iter().sum::<usize>().div_ceil(2));
    let there = |ranks: &BTreeSet<usize>| ranks.iter().map(|&rank| counts[rank]).sum::<usize>();
    let mut count = 0;
    for (observed, candidates) in ranks.iter_mut().zip(&found) {
        let confirmed =
            candidates.iter().filter(|(place, _)| seen.get(place).is_some_and(|ranks| there(ranks) >= enough));
        observed.hidden = confirmed.map(|&(_, wait)| wait).collect();
        count += observed.hidden.len();
    }
    count
}

/// A host that waits for a collective of a host backend goes on this soon after it.
const SOON_AFTER_HOST: DurNs = DurNs(500_000);

/// Shorter host spans outside operators are no waits.
const LEAST_WAIT: DurNs = DurNs(100_000);

/// Waits for collectives that run on host threads: in operators named for waiting, or outside operators.
fn host_waits(observed: &Observed<'_>) -> Vec<HiddenWait> {
    let mut activities: Vec<u32> =
        (0..observed.activities.list.len() as u32).filter(|&activity| observed.activity(activity).on_host).collect();
    activities.sort_by_key(|&activity| (observed.activity(activity).end, activity));
    let mut found = Vec::new();
    for (index, thread) in observed.threads.list.iter().enumerate().filter(|_| !activities.is_empty()) {
        for host_span in all_host_spans(observed, thread) {
            let ended = activities.partition_point(|&activity| observed.activity(activity).end <= host_span.end);
            let Some(&target) = ended.checked_sub(1).map(|i| &activities[i]) else { continue };
            let end = observed.activity(target).end;
            if end > host_span.start
                && host_span.end.since(end) < SOON_AFTER_HOST
                && may_wait(observed, thread, &host_span)
            {
                found.push(HiddenWait { thread: index, host_span: host_span.start, target });
            }
        }
    }
    found
}

fn may_wait(observed: &Observed<'_>, thread: &Thread, host_span: &HostSpan) -> bool {
    match host_span.doing {
        HostActivity::Call(_) => false,
        HostActivity::Host(None) => host_span.end.since(host_span.start) >= LEAST_WAIT,
        HostActivity::Host(Some(operator)) => {
            name(observed, Some(thread.operators[operator as usize].event)).to_ascii_lowercase().contains("wait")
        }
    }
}

fn all_host_spans(observed: &Observed<'_>, thread: &Thread) -> Vec<HostSpan> {
    let everything = (TimeNs(i64::MIN / 4), TimeNs(i64::MAX / 4));
    host::host_spans(thread, observed.threads.calls_of(thread), &emit_host::annotation_cuts(thread), everything)
}

fn candidates(observed: &Observed<'_>) -> Vec<(Place, HiddenWait)> {
    let mut found = Vec::new();
    for (index, thread) in observed.threads.list.iter().enumerate() {
        let host_spans = all_host_spans(observed, thread);
        let inner = host_spans.iter().skip(1).rev().skip(1).rev();
        for host_span in inner.filter(|host_span| host_span.end.since(host_span.start) >= LONG) {
            let HostActivity::Host(operator) = host_span.doing else { continue };
            if let Some(target) = awaited(observed, host_span) {
                let event = emit_host::event_of(thread, operator, host_span.start);
                let place = (name(observed, event), name(observed, Some(observed.activity(target).event)));
                found.push((place, HiddenWait { thread: index, host_span: host_span.start, target }));
            }
        }
    }
    found
}

fn name(observed: &Observed<'_>, event: Option<EventId>) -> String {
    event.map(|event| observed.trace.names.get(observed.trace.events.name(event)).to_owned()).unwrap_or_default()
}

/// The work that a host span may have waited for: launched before the host span, it ended shortly before the host span did,
/// and with it its stream ran empty or it was long itself (a long one ends there by chance in few places only). Of
/// several the last.
fn awaited(observed: &Observed<'_>, host_span: &HostSpan) -> Option<u32> {
    let found = (0..observed.activities.streams.len()).flat_map(|stream| {
        let activities = &observed.activities.streams[stream].activities;
        let to =
            activities.partition_point(|&activity| observed.activity(activity).end <= host_span.end - *SOON.start());
        let from =
            activities.partition_point(|&activity| observed.activity(activity).end < host_span.end - *SOON.end());
        let last = observed.activities.last_launched_before(stream, host_span.end);
        activities[from.min(to)..to]
            .iter()
            .copied()
            .filter(move |&activity| observed.activity(activity).launched < host_span.start)
            .filter(move |&activity| observed.activity(activity).dur() >= TELLING || last == Some(activity))
    });
    found.max_by_key(|&activity| observed.activity(activity).end)
}

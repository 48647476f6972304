//! Device clocks that are ahead of the host's: by how much, told from launches, since nothing starts before the call that launches it.
//!
//! Knows events by kind, track and correlation only; which call does what is not its business.

use rustc_hash::FxHashMap;

use super::{Category, EventId, EventTable, Trace, TrackId, TrackKind};
use crate::diagnostic::Severity;
use crate::units::{DurNs, TimeNs};

/// Clocks of host and device are closer to one another than this, beside a constant offset.
pub(crate) const CLOCK_ERROR: DurNs = DurNs(1_000_000);

/// Takes out of `trace`, whose events are in order, what the clock of each device is ahead of the host's, and says so.
///
/// # Returns
/// Whether any event moved: they are out of order then.
///
/// # Complexity
/// O(events + launches · log launches).
pub(super) fn take_out(trace: &mut Trace) -> bool {
    // What was predicted, and times that are nominal, are of one clock.
    if trace.predicted.is_some() || trace.untimed {
        return false;
    }
    let ahead = ahead(trace);
    for &(device, by) in &ahead {
        let scope = device.to_string();
        trace.diagnostics.add(Severity::Warning, "device-clock", &scope, None, || {
            format!(
                "work of device {device} was recorded to start up to {by} before its launch, which cannot be: its clock was \
                 that much ahead of the host's, and all its work is taken to have run as much later"
            )
        });
        let of_device: Vec<bool> = trace.tracks.iter().map(|track| device_of(track.kind) == Some(device)).collect();
        let is_moved = |events: &EventTable, id| is_of_device(events.category(id)) && on(&of_device, events.track(id));
        trace.events.delay(by, is_moved);
    }
    !ahead.is_empty()
}

fn on(tracks: &[bool], track: TrackId) -> bool {
    tracks.get(track.0 as usize) == Some(&true)
}

/// Whether an event has its times from the device.
fn is_of_device(category: Category) -> bool {
    category.is_device_work() || category == Category::GpuAnnotation
}

fn device_of(kind: TrackKind) -> Option<i64> {
    match kind {
        TrackKind::Stream { device, .. } => Some(device),
        TrackKind::Thread { .. } | TrackKind::Other { .. } => None,
    }
}

/// Devices whose clocks are ahead, in order, and by how much.
fn ahead(trace: &Trace) -> Vec<(i64, DurNs)> {
    let launches = launches(trace);
    let mut streams: FxHashMap<TrackId, Vec<EventId>> = FxHashMap::default();
    for id in trace.events.ids().filter(|&id| trace.events.category(id).is_device_work()) {
        streams.entry(trace.events.track(id)).or_default().push(id);
    }
    let mut leads: std::collections::BTreeMap<i64, Vec<DurNs>> = std::collections::BTreeMap::new();
    for (track, work) in streams {
        let Some(device) = trace.tracks.get(track.0 as usize).and_then(|track| device_of(track.kind)) else { continue };
        add_leads(trace, &launches, &work, leads.entry(device).or_default());
    }
    leads.into_iter().filter_map(|(device, leads)| Some((device, confirmed(leads)?))).collect()
}

/// When the first call of each correlation id began.
fn launches(trace: &Trace) -> FxHashMap<u32, TimeNs> {
    let events = &trace.events;
    let calls = events.ids().filter(|&id| events.category(id) == Category::Runtime && events.correlation(id) != 0);
    let mut found = FxHashMap::default();
    calls.for_each(|id| {
        found.entry(events.correlation(id)).or_insert_with(|| events.start(id));
    });
    found
}

/// By how much each piece of work of a stream starts before its launch; without those that were launched after work that runs behind
/// them: their own time or correlation id is wrong.
fn add_leads(trace: &Trace, launches: &FxHashMap<u32, TimeNs>, work: &[EventId], leads: &mut Vec<DurNs>) {
    let mut next = TimeNs(i64::MAX);
    for &id in work.iter().rev() {
        let Some(&launched) = launches.get(&trace.events.correlation(id)) else { continue };
        if launched <= next {
            leads.push(launched.since(trace.events.start(id)));
        }
        next = next.min(launched);
    }
}

/// The largest of `leads` that another one is near, where it is more than rounding: one alone is that event's error.
fn confirmed(mut leads: Vec<DurNs>) -> Option<DurNs> {
    leads.retain(|lead| *lead > DurNs::ZERO);
    leads.sort_unstable();
    leads.windows(2).rev().find(|pair| pair[1] - pair[0] <= CLOCK_ERROR).map(|pair| pair[1])
}

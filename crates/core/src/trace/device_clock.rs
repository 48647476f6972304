//! Device clocks that are ahead of the host's, or behind those of other devices: by how much, told from launches, since nothing starts before
//! the call that launches it, and a device that runs nothing lets no work wait.
//!
//! Knows events by kind, track and correlation only; which call does what is not its business.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Category, EventId, EventTable, Trace, TrackId, TrackKind};
use crate::diagnostic::Severity;
use crate::units::{DurNs, TimeNs};

/// Clocks of host and device are closer to one another than this, beside a constant offset.
pub(crate) const CLOCK_ERROR: DurNs = DurNs(1_000_000);

/// Takes out of `trace`, whose events are in order, what the clock of each device is ahead of the host's or behind another device's, and says
/// so.
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
    let launches = launches(trace);
    let leads = leads(trace, &launches);
    let ahead: Vec<(i64, DurNs)> =
        leads.iter().filter_map(|(&device, leads)| Some((device, confirmed(leads)?))).collect();
    let behind = behind(trace, &launches, &leads);
    for &(device, by) in &ahead {
        let scope = device.to_string();
        trace.diagnostics.add(Severity::Warning, "device-clock", &scope, None, || {
            format!(
                "work of device {device} was recorded to start up to {by} before its launch, which cannot be: its clock was \
                 that much ahead of the host's, and all its work is taken to have run as much later"
            )
        });
        delay(trace, device, by);
    }
    for &(device, by) in &behind {
        trace.diagnostics.add(Severity::Warning, "device-clock", &device.to_string(), None, || {
            format!(
                "all work of device {device} was recorded to start {by} longer after its launch than that of other devices, though it \
                 runs nothing meanwhile: its clock was that much behind, and all its work is taken to have run as much earlier"
            )
        });
        delay(trace, device, DurNs::ZERO - by);
    }
    !(ahead.is_empty() && behind.is_empty())
}

/// Moves all that has its times from `device`.
fn delay(trace: &mut Trace, device: i64, by: DurNs) {
    let of_device: Vec<bool> = trace.tracks.iter().map(|track| device_of(track.kind) == Some(device)).collect();
    let is_moved = |events: &EventTable, id| is_of_device(events.category(id)) && on(&of_device, events.track(id));
    trace.events.delay(by, is_moved);
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

/// By how much work of each device starts before its launch, see [`add_leads`].
fn leads(trace: &Trace, launches: &FxHashMap<u32, TimeNs>) -> BTreeMap<i64, Vec<DurNs>> {
    let mut streams: FxHashMap<TrackId, Vec<EventId>> = FxHashMap::default();
    for id in trace.events.ids().filter(|&id| trace.events.category(id).is_device_work()) {
        streams.entry(trace.events.track(id)).or_default().push(id);
    }
    let mut leads: BTreeMap<i64, Vec<DurNs>> = BTreeMap::new();
    for (track, work) in streams {
        let Some(device) = trace.tracks.get(track.0 as usize).and_then(|track| device_of(track.kind)) else { continue };
        add_leads(trace, launches, &work, leads.entry(device).or_default());
    }
    for own in leads.values_mut() {
        own.sort_unstable();
    }
    leads
}

/// Devices all of whose work starts long after its launch while that of another does not, though nothing that was recorded holds it back: it
/// waits for no event, and the device runs nothing much of the time. By how much, beyond what work of the others waits.
fn behind(trace: &Trace, launches: &FxHashMap<u32, TimeNs>, leads: &BTreeMap<i64, Vec<DurNs>>) -> Vec<(i64, DurNs)> {
    let is_wait = |id: EventId| trace.names.get(trace.events.name(id)).contains("StreamWaitEvent");
    let least: Vec<(i64, DurNs)> =
        leads.iter().filter_map(|(&device, leads)| Some((device, least_delay(leads)?))).collect();
    let prompt = least.iter().map(|&(_, delay)| delay).filter(|&delay| delay <= CLOCK_ERROR).min();
    let Some(prompt) = prompt.filter(|_| !trace.events.ids().any(is_wait)) else { return Vec::new() };
    let late = least.into_iter().map(|(device, delay)| (device, delay - prompt.max(DurNs::ZERO)));
    late.filter(|&(device, by)| by >= CLOCK_ERROR && is_idle_with_work(trace, launches, device)).collect()
}

/// The shortest time from a launch to its work that another one is near; `None` of fewer.
///
/// # Arguments
/// `leads`: in order.
fn least_delay(leads: &[DurNs]) -> Option<DurNs> {
    leads.windows(2).rev().find(|pair| pair[1] - pair[0] <= CLOCK_ERROR).map(|pair| DurNs::ZERO - pair[1])
}

/// Whether a device runs nothing for at least a quarter of the time from the start of its first work to the end of its last, though the work
/// that follows was launched already.
fn is_idle_with_work(trace: &Trace, launches: &FxHashMap<u32, TimeNs>, device: i64) -> bool {
    let events = &trace.events;
    let is_own = |id: &EventId| {
        let track = trace.tracks.get(events.track(*id).0 as usize);
        events.category(*id).is_device_work() && track.is_some_and(|track| device_of(track.kind) == Some(device))
    };
    let (mut idle, mut all) = (DurNs::ZERO, None);
    for id in events.ids().filter(is_own) {
        let (first, until) = all.unwrap_or((events.start(id), events.start(id)));
        if let Some(&launched) = launches.get(&events.correlation(id)) {
            idle += events.start(id).since(until.max(launched)).max(DurNs::ZERO);
        }
        all = Some((first, until.max(events.end(id))));
    }
    all.is_some_and(|(first, until)| idle * 4 >= until.since(first) && idle > DurNs::ZERO)
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

/// The largest of `leads`, which are in order, that another one is near, where it is more than rounding: one alone is that event's error.
fn confirmed(leads: &[DurNs]) -> Option<DurNs> {
    let early = &leads[leads.partition_point(|lead| *lead <= DurNs::ZERO)..];
    early.windows(2).rev().find(|pair| pair[1] - pair[0] <= CLOCK_ERROR).map(|pair| pair[1])
}

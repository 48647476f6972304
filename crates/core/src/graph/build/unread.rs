//! What a recording lacks or holds of which the figures of an iteration tell nothing: work of a device that was not recorded, other
//! processes, and devices that do the same once more.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::diagnostic::Diagnostics;
use crate::intern::NameId;
use crate::trace::{Category, Trace, Track, TrackKind};

use super::Prepared;
use super::activities::ActivityKind;
use super::compute;
use super::observed::Observed;

/// A process with a smaller share of the operators does something beside.
const OTHER_PROCESS: f64 = 0.05;
/// Devices that share as much of their kernels, by name, do the same.
const SAME_KERNELS: f64 = 0.8;

/// Says so of all ranks.
///
/// # Complexity
/// O(device work); of files of several processes O(events).
pub(super) fn note(found: &mut Diagnostics, ranks: &[Prepared<'_>]) {
    note_device(found, ranks);
    for rank in ranks {
        let number = rank.input.rank.0;
        if let Some(count) = processes(rank.input.trace) {
            let text = format!(
                "rank {number}: operators of {count} processes are in one file, as of files that were joined: they are taken for threads of one rank, batch and throughput are of one; open a file of each"
            );
            found.warn("several-processes", text);
        } else if let Some(count) = replicas(&rank.observed) {
            let text = format!(
                "rank {number}: {count} devices of one process do the same, as copies of one model do, or shares of it: batch and throughput are as the operators of one show, memory is not told apart"
            );
            found.warn("several-devices", text);
        }
    }
}

/// Says where work of a device was launched and not recorded, or is in what the file lacks.
fn note_device(found: &mut Diagnostics, ranks: &[Prepared<'_>]) {
    let follows = "times are those of launches, and no edit of what the device does can be re-timed";
    let is_cut = |rank: &Prepared<'_>| {
        let trace = rank.input.trace;
        trace.diagnostics.count("cut-off") > 0 && !trace.devices.is_empty() && rank.observed.activities.list.is_empty()
    };
    if ranks.iter().any(|rank| compute::lacks_device(&rank.observed)) {
        let text = format!("operators of a device ran and none of its work was recorded: {follows}");
        found.warn("device-not-recorded", text);
    } else if ranks.iter().any(|rank| compute::lacks_kernels(&rank.observed)) {
        found.warn("device-not-recorded", format!("kernels were launched and none was recorded: {follows}"));
    } else if ranks.iter().any(is_cut) {
        let text = format!("no work of a device is in what is left of a file that is cut off: {follows}");
        found.warn("device-not-recorded", text);
    }
}

/// How many processes ran operators, where several did.
fn processes(trace: &Trace) -> Option<usize> {
    let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
    let process = |track: &Track| if let TrackKind::Thread { pid, .. } = track.kind { Some(pid) } else { None };
    let mut pids = trace.tracks.iter().filter_map(process);
    let first = pids.next()?;
    if pids.all(|pid| pid == first) {
        return None;
    }
    let operators = || trace.events.ids().filter(|&event| trace.events.category(event) == Category::Operator);
    for event in operators() {
        if let Some(pid) = process(&trace.tracks[trace.events.track(event).0 as usize]) {
            *counts.entry(pid).or_default() += 1;
        }
    }
    let least = OTHER_PROCESS * operators().count() as f64;
    let several = counts.values().filter(|&&count| count as f64 > least).count();
    (several > 1).then_some(several)
}

/// On how many devices the kernels of the busiest one run, where several do the same.
fn replicas(observed: &Observed<'_>) -> Option<usize> {
    let device = |stream: u32| observed.activities.streams[stream as usize].device;
    let first = observed.activities.streams.first()?.device;
    if observed.activities.streams.iter().all(|stream| stream.device == first) {
        return None;
    }
    let mut kernels: BTreeMap<i64, FxHashMap<NameId, u32>> = BTreeMap::new();
    for activity in observed.activities.list.iter().filter(|it| it.kind == ActivityKind::Kernel && !it.on_host) {
        let name = observed.trace.events.name(activity.event);
        *kernels.entry(device(activity.stream)).or_default().entry(name).or_default() += 1;
    }
    let count = |of: &FxHashMap<NameId, u32>| of.values().map(|&count| u64::from(count)).sum::<u64>();
    let most = kernels.values().max_by_key(|of| count(of))?;
    let alike = |of: &&FxHashMap<NameId, u32>| {
        let shared: u64 = of.iter().map(|(name, &own)| u64::from(own.min(most.get(name).copied().unwrap_or(0)))).sum();
        shared as f64 >= SAME_KERNELS * count(most) as f64
    };
    let several = kernels.values().filter(alike).count();
    (several > 1).then_some(several)
}

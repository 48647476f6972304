//! The device side of a trace: what ran on each stream, in which order, and which call launched it.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::intern::NameId;
use crate::trace::{Category, EventId, Trace, TrackId, TrackKind};
use crate::units::{DurNs, TimeNs};

use super::calls::CallClass;
use super::threads::Threads;

/// Kinds of device work that launch and follow one another with lags of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ActivityKind {
    /// A kernel.
    Kernel,
    /// A memset.
    Memset,
    /// A copy from host to device.
    HostToDevice,
    /// A copy from device to host.
    DeviceToHost,
    /// A copy on one device or between two.
    DeviceToDevice,
    /// A collective's kernel.
    Collective,
}

impl ActivityKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Kernel, Self::Memset, Self::HostToDevice, Self::DeviceToHost, Self::DeviceToDevice, Self::Collective];

    fn of(category: Category, name: &str) -> Self {
        match category {
            Category::Memset => Self::Memset,
            Category::Memcpy if name.contains("HtoD") => Self::HostToDevice,
            Category::Memcpy if name.contains("DtoH") => Self::DeviceToHost,
            Category::Memcpy => Self::DeviceToDevice,
            Category::Annotation => Self::Collective,
            _ if is_collective_kernel(name) => Self::Collective,
            _ => Self::Kernel,
        }
    }
}

/// How the profiler names the collectives of the host backend.
const HOST_COLLECTIVE: &str = "gloo:";

/// Whether `name` is that of a kernel by which devices exchange data: of a collective library, or one that reads the memory of others
/// by itself, as those over symmetric memory and the all-reduces that inference engines bring along.
pub(super) fn is_collective_kernel(name: &str) -> bool {
    const LIBRARIES: [&str; 3] = ["nccl", "rccl", "msccl"];
    const EXCHANGES: [&str; 5] = ["allreduce", "allgather", "reducescatter", "alltoall", "crossdevicereduce"];
    let plain = plain_kernel_name(name);
    let starts = |prefix: &&str| plain.starts_with(prefix);
    // A compiler names its kernels for all operators around them.
    LIBRARIES.iter().any(starts) || (!starts(&"triton") && EXCHANGES.iter().any(|part| plain.contains(part)))
}

/// A kernel's name without return type, namespaces that have no name, template and arguments: letters and digits, in lower case.
pub(super) fn plain_kernel_name(name: &str) -> String {
    let name = name.replace("(anonymous namespace)::", "");
    let name = name.strip_prefix("void ").unwrap_or(&name);
    let plain = name.chars().take_while(|&c| c != '(' && c != '<').filter(char::is_ascii_alphanumeric);
    plain.map(|c| c.to_ascii_lowercase()).collect()
}

/// One piece of device work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    /// Its event.
    pub(super) event: EventId,
    /// Position of its stream.
    pub(super) stream: u32,
    /// What it is.
    pub(super) kind: ActivityKind,
    /// Whether it copies from or to memory that the device cannot reach by itself.
    pub(super) pageable: bool,
    /// Its start.
    pub(super) start: TimeNs,
    /// Its end.
    pub(super) end: TimeNs,
    /// The call that launched it, where recorded.
    pub(super) call: Option<u32>,
    /// When it was launched at the latest, never falling along its stream; from its neighbours where not recorded.
    pub(super) launched: TimeNs,
    /// The work before it on its stream.
    pub(super) previous: Option<u32>,
    /// Whether it is a collective of a host backend, on a host thread.
    pub(super) on_host: bool,
}

impl Activity {
    /// How long it ran.
    pub(super) fn dur(&self) -> DurNs {
        self.end.since(self.start)
    }
}

/// A stream and its work in order of start.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// Its track.
    pub(super) track: TrackId,
    /// Device number.
    pub(super) device: i64,
    /// Stream number.
    pub(super) number: i64,
    /// Its work.
    pub(super) activities: Vec<u32>,
    /// Whether it is a host thread that runs collectives.
    pub(super) on_host: bool,
}

/// What each name of device work says: names are few, work is not.
#[derive(Default)]
struct Kinds(FxHashMap<(Category, NameId), (ActivityKind, bool)>);

impl Kinds {
    /// The kind of an activity, and whether it moves pageable memory.
    fn of(&mut self, trace: &Trace, id: EventId) -> (ActivityKind, bool) {
        let (category, name) = (trace.events.category(id), trace.events.name(id));
        *self.0.entry((category, name)).or_insert_with(|| {
            let text = trace.names.get(name);
            (ActivityKind::of(category, text), text.contains("Pageable"))
        })
    }
}

/// All device work.
#[derive(Debug, Default)]
pub(super) struct Activities {
    /// By start.
    pub(super) list: Vec<Activity>,
    /// By track.
    pub(super) streams: Vec<Stream>,
    /// By how much each piece of work was recorded to start before its launch call, of those that were; it is no longer there.
    pub(super) early: Vec<DurNs>,
    /// How much work has the correlation id of several launches; it is taken to be of the last.
    pub(super) ambiguous: usize,
    /// Work by the call that launched it, then start.
    by_call: Vec<(u32, u32)>,
}

impl Activities {
    /// Reads the device side of `trace`; which call launched what is for [`Self::join`].
    ///
    /// # Complexity
    /// O(events).
    pub(super) fn read(trace: &Trace) -> Self {
        let mut activities = Self::default();
        let mut stream_of: FxHashMap<TrackId, u32> = FxHashMap::default();
        let mut kinds = Kinds::default();
        let host: Vec<bool> = trace.names.iter().map(|(_, name)| name.starts_with(HOST_COLLECTIVE)).collect();
        let on_host = |id| trace.events.category(id) == Category::Annotation && host[trace.events.name(id).0 as usize];
        for id in trace.events.ids().filter(|&id| trace.events.category(id).is_device_work() || on_host(id)) {
            let track = trace.events.track(id);
            let stream = *stream_of.entry(track).or_insert_with(|| activities.add_stream(trace, track));
            activities.add(trace, id, stream, kinds.of(trace, id));
        }
        activities
    }

    /// Joins the work to the calls of `threads` that launched it, by correlation, and puts behind its launch what was recorded before it.
    ///
    /// # Complexity
    /// O(work · log work).
    pub(super) fn join(&mut self, trace: &Trace, threads: &Threads) {
        let launching = launching_calls(trace, threads);
        for activity in &mut self.list {
            let found = launching.get(&trace.events.correlation(activity.event));
            activity.call = found.map(|launching| launching.call);
            self.ambiguous += usize::from(found.is_some_and(|launching| launching.is_ambiguous));
        }
        self.set_behind_launches(threads);
        self.by_call = (0..).zip(&self.list).filter_map(|(i, activity)| Some((activity.call?, i))).collect();
        self.by_call.sort_unstable();
        self.estimate_launch_times(threads);
    }

    /// Work that was recorded to start before its launch call is of that launch all the same: it is taken to have started with it, or behind
    /// what was launched on its stream before it.
    fn set_behind_launches(&mut self, threads: &Threads) {
        let launch = |activity: &Activity| activity.call.map(|call| threads.calls[call as usize].start);
        let lead = |activity: &Activity| launch(activity).map_or(DurNs::ZERO, |launch| launch.since(activity.start));
        self.early = self.list.iter().map(lead).filter(|&lead| lead > DurNs::ZERO).collect();
        if self.early.is_empty() {
            return;
        }
        for stream in &self.streams {
            if stream.activities.iter().all(|&index| lead(&self.list[index as usize]) <= DurNs::ZERO) {
                continue;
            }
            let mut in_order = stream.activities.clone();
            in_order.sort_by_key(|&index| {
                let activity = &self.list[index as usize];
                launch(activity).unwrap_or(activity.start)
            });
            let mut free = TimeNs(i64::MIN);
            for index in in_order {
                let activity = &mut self.list[index as usize];
                if let Some(launch) = launch(activity).filter(|&launch| launch > activity.start) {
                    let dur = activity.dur();
                    activity.start = launch.max(free);
                    activity.end = activity.start + dur;
                }
                free = free.max(activity.end);
            }
        }
        self.put_in_order();
    }

    /// Numbers the work by start again, on its streams too.
    fn put_in_order(&mut self) {
        self.list.sort_by_key(|activity| activity.start);
        self.streams.iter_mut().for_each(|stream| stream.activities.clear());
        for (index, activity) in (0..).zip(&mut self.list) {
            let on_stream = &mut self.streams[activity.stream as usize].activities;
            activity.previous = on_stream.last().copied();
            on_stream.push(index);
        }
    }

    fn add_stream(&mut self, trace: &Trace, track: TrackId) -> u32 {
        let (device, stream) = match trace.tracks[track.0 as usize].kind {
            TrackKind::Stream { device, stream } => (device, stream),
            TrackKind::Thread { pid, tid } | TrackKind::Other { pid, tid } => (pid, tid),
        };
        let on_host = matches!(trace.tracks[track.0 as usize].kind, TrackKind::Thread { .. });
        self.streams.push(Stream { track, device, number: stream, activities: Vec::new(), on_host });
        self.streams.len() as u32 - 1
    }

    fn add(&mut self, trace: &Trace, id: EventId, stream: u32, (kind, pageable): (ActivityKind, bool)) {
        let index = self.list.len() as u32;
        let on_stream = &mut self.streams[stream as usize].activities;
        let previous = on_stream.last().copied();
        on_stream.push(index);
        self.list.push(Activity {
            event: id,
            stream,
            kind,
            pageable,
            start: trace.events.start(id),
            end: trace.events.end(id),
            call: None,
            launched: TimeNs(i64::MIN),
            previous,
            on_host: trace.events.category(id) == Category::Annotation,
        });
    }

    /// The work a call launched, by start.
    pub(super) fn of_call(&self, call: u32) -> impl Iterator<Item = u32> + '_ {
        let from = self.by_call.partition_point(|&(c, _)| c < call);
        self.by_call[from..].iter().take_while(move |&&(c, _)| c == call).map(|&(_, activity)| activity)
    }

    /// Whether a call launched more than one piece of work, as that of a graph does.
    pub(super) fn launches_several(&self, call: u32) -> bool {
        self.of_call(call).nth(1).is_some()
    }

    /// Whether any call did.
    pub(super) fn have_graphs(&self) -> bool {
        self.by_call.windows(2).any(|pair| pair[0].0 == pair[1].0)
    }

    /// The last work on `stream` that was launched before `time`.
    pub(super) fn last_launched_before(&self, stream: usize, time: TimeNs) -> Option<u32> {
        let activities = &self.streams[stream].activities;
        let count = activities.partition_point(|&activity| self.list[activity as usize].launched < time);
        count.checked_sub(1).map(|i| activities[i])
    }

    /// Rule 11: work without a launch record counts as launched with the work before it on its stream, or before the
    /// synchronisation during which it started; no later than what follows it on its stream.
    fn estimate_launch_times(&mut self, threads: &Threads) {
        let mut waits: Vec<(TimeNs, TimeNs)> = threads
            .calls
            .iter()
            .filter(|call| matches!(call.class, CallClass::DeviceSync | CallClass::StreamSync | CallClass::EventSync))
            .map(|call| (call.start, call.end))
            .collect();
        waits.sort_unstable();
        for stream in &self.streams {
            let mut next = TimeNs(i64::MAX);
            for &activity in stream.activities.iter().rev() {
                let activity = &mut self.list[activity as usize];
                activity.launched = match activity.call {
                    _ if activity.on_host => activity.start,
                    Some(call) => threads.calls[call as usize].start,
                    None => before_the_wait(&waits, activity.start).min(next),
                };
                next = next.min(activity.launched);
            }
            let mut latest = TimeNs(i64::MIN);
            for &activity in &stream.activities {
                let activity = &mut self.list[activity as usize];
                latest = latest.max(activity.launched);
                activity.launched = latest;
            }
        }
    }
}

/// Just before the last wait that began before `start`, when it still lasted then.
fn before_the_wait(waits: &[(TimeNs, TimeNs)], start: TimeNs) -> TimeNs {
    let before = waits.partition_point(|&(from, _)| from <= start);
    match before.checked_sub(1).map(|i| waits[i]) {
        Some((from, to)) if start < to => from - DurNs(1),
        _ => TimeNs(i64::MIN),
    }
}

/// The call behind a correlation id: the last that launches, else the first.
struct Launching {
    call: u32,
    /// Whether several launch.
    is_ambiguous: bool,
}

/// The call behind each correlation id of a runtime or driver call.
fn launching_calls(trace: &Trace, threads: &Threads) -> FxHashMap<u32, Launching> {
    let mut calls: FxHashMap<u32, Launching> = FxHashMap::default();
    let launches = |call: u32| threads.calls[call as usize].class.launches();
    for &(event, call) in &threads.folded {
        let correlation = trace.events.correlation(event);
        if correlation == 0 {
            continue;
        }
        match calls.entry(correlation) {
            Entry::Vacant(entry) => _ = entry.insert(Launching { call, is_ambiguous: false }),
            Entry::Occupied(mut entry) if launches(call) => {
                let before = entry.get();
                let is_ambiguous = before.is_ambiguous || before.call != call && launches(before.call);
                entry.insert(Launching { call, is_ambiguous });
            }
            Entry::Occupied(_) => {}
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::is_collective_kernel;

    #[test]
    fn kernels_that_exchange_data_are_told_from_reductions_on_one_device() {
        let exchange = [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
            "void vllm::cross_device_reduce_1stage<__hip_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)",
        ];
        assert!(exchange.iter().all(|name| is_collective_kernel(name)));
        let alone = [
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >",
            "triton_poi_fused_all_reduce_0",
            "void consume<allreduce>(float*)",
        ];
        assert!(!alone.iter().any(|name| is_collective_kernel(name)));
    }
}

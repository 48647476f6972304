//! The memory of the simulated iteration as the profiler records it: what the allocator gives and takes, and when.

use super::Timeline;
use super::event::{Args, Event, Memory};
use crate::graph::{Lane, LaneKind, OperatorId};
use crate::memory::{BEFORE, Simulated};
use crate::trace::StatedMemory;
use crate::units::{DurNs, TimeNs};

/// What is there from the start was given so long before the first step.
const EARLIER: TimeNs = TimeNs(-1_000);
/// Addresses are multiples of what the allocator rounds sizes up to.
const GRAIN: u64 = 512;

impl<'a> Timeline<'a> {
    /// Adds what the rank at position `place` holds to `events`, on its thread `main` where it has one.
    ///
    /// Each call stands at least a nanosecond behind the one before it, so that their order is kept.
    ///
    /// # Returns
    /// How that is known; `None` where nothing is.
    pub(super) fn memory(&self, place: usize, main: Option<Lane>, events: &mut Vec<Event<'a>>) -> Option<StatedMemory> {
        let resolved = &*self.outcome.resolved;
        let memory = resolved.memory.get(place)?.as_ref()?;
        let rank = self.graph.ranks.get(place)?.rank;
        let own = || self.graph.lanes.iter().filter(|lane| lane.rank == rank);
        let is_thread = |lane: &&Lane| matches!(lane.kind, LaneKind::Thread { .. });
        let main = main.or_else(|| own().find(is_thread).copied())?;
        let device = own().find_map(|lane| match lane.kind {
            LaneKind::Stream { .. } => Some(self.process(lane).0),
            _ => None,
        });
        let simulated = Simulated { graph: self.graph, timed: &resolved.timed, schedule: &self.outcome.schedule };
        let times = simulated.host_times(place);
        let peak = memory.peak().bytes;
        let reserved = memory.reserve.map(|share| (peak.0 as f64 * (1.0 + share)).round() as u64);
        let (mut last, mut total) = (TimeNs(-1), 0_u64);
        for (index, comes) in memory.in_order() {
            let buffer = &memory.buffers[index];
            let bytes = i64::try_from(buffer.bytes.0).unwrap_or(i64::MAX);
            if bytes == 0 {
                continue;
            }
            let measured = if comes { buffer.from } else { buffer.until };
            let at = if measured == BEFORE { EARLIER } else { times.at(measured).max(last + DurNs(1)) };
            last = last.max(at);
            total = if comes { total.saturating_add(buffer.bytes.0) } else { total.saturating_sub(buffer.bytes.0) };
            let memory = Some(Box::new(Memory {
                address: Some((index as u64 + 1) * GRAIN),
                bytes: Some(if comes { bytes } else { -bytes }),
                device_type: Some(u32::from(device.is_some())),
                device_id: Some(device.unwrap_or(-1)),
                total_allocated: Some(total),
                total_reserved: reserved,
                holds: comes.then(|| buffer.holds.name()),
            }));
            let external_id = buffer.operator.filter(|_| comes).map(external);
            let args = Args { external_id, memory, ..Args::default() };
            events.push(Event::memory(self.process(&main), at, args));
        }
        let (source, unknown, missing) =
            (memory.source.name().to_owned(), memory.unknown.clone(), memory.missing.clone());
        Some(StatedMemory { source, unknown, missing })
    }
}

/// The number that an operator has in the file.
pub(super) fn external(id: OperatorId) -> u64 {
    u64::from(id.0) + 1
}

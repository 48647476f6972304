//! Device memory as the profiler recorded it, and what a batch of another size needs.
//!
//! The allocator's total within the window is split in what is always there (parameters, gradients, optimizer state:
//! its minimum) and what comes and goes (activations: peak less minimum), which grows with the batch.

use std::sync::Arc;

use crate::device::DeviceProfile;
use crate::graph::ExecutionGraph;
use crate::trace::Job;
use crate::units::Bytes;

/// Recorded device memory of one rank within the modelled window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankMemory {
    /// Lowest total.
    pub floor: Bytes,
    /// Highest total.
    pub peak: Bytes,
}

/// The recorded memory of every rank that recorded any.
pub fn measured(job: &Job, graph: &ExecutionGraph) -> Vec<RankMemory> {
    let of_rank = |part: &crate::graph::RankPart| {
        let trace = job.ranks.get(part.trace_index)?.trace.as_ref()?;
        let inside = trace
            .memory
            .iter()
            .filter(|(_, args)| args.on_device && args.at >= part.window_start && args.at <= part.window_end);
        let totals = inside.filter_map(|(_, args)| args.total_allocated);
        let (floor, peak) = totals.fold((u64::MAX, 0), |(low, high), total| (low.min(total), high.max(total)));
        (peak > 0).then_some(RankMemory { floor: Bytes(floor), peak: Bytes(peak) })
    };
    graph.ranks.iter().filter_map(of_rank).collect()
}

/// What the fullest rank needs at the new batch size, `freed` of what comes and goes no longer kept; `None` where no
/// memory was recorded.
pub fn needed(ranks: &[RankMemory], batch: Option<(u64, u64)>, freed: Bytes) -> Option<Bytes> {
    let growth = batch.filter(|&(old, _)| old > 0).map_or(1.0, |(old, new)| new as f64 / old as f64);
    let need = |rank: &RankMemory| {
        let moving = rank.peak.0.saturating_sub(rank.floor.0) as f64 * growth;
        Bytes(rank.floor.0.saturating_add((moving as u64).saturating_sub(freed.0)))
    };
    ranks.iter().map(need).max()
}

/// Whether `bytes` fit every device.
pub fn fits(bytes: Bytes, devices: &[Arc<DeviceProfile>]) -> Option<bool> {
    let smallest = devices.iter().map(|device| device.memory).filter(|memory| memory.0 > 0).min()?;
    Some(bytes <= smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_and_goes_grows_with_the_batch() {
        let ranks = [RankMemory { floor: Bytes(100), peak: Bytes(150) }];
        assert_eq!(needed(&ranks, Some((8, 16)), Bytes(0)), Some(Bytes(200)));
        assert_eq!(needed(&ranks, None, Bytes(0)), Some(Bytes(150)));
        assert_eq!(needed(&ranks, Some((8, 16)), Bytes(30)), Some(Bytes(170)));
        assert_eq!(needed(&ranks, None, Bytes(1000)), Some(Bytes(100)));
        assert_eq!(needed(&[], None, Bytes(0)), None);
    }
}

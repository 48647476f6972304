//! The forward and backward passes of a step that runs on several batches, or trains on one and evaluates on another, and how large each
//! batch is.

use crate::units::TimeNs;

use super::{ExecutionGraph, OperatorId, Rank, RankPart};

/// A forward pass of a rank on one batch, with the backward pass over it if there is one; it lasts until the next forward pass of the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Whose it is.
    pub rank: Rank,
    /// When its forward pass begins, from the window's start.
    pub from: TimeNs,
    /// How many samples it runs on.
    pub batch: u64,
    /// Whether its samples are those of the chosen iteration: not those of other steps, nor of a pass that trains nothing.
    pub is_counted: bool,
}

impl ExecutionGraph {
    /// How many samples the pass of operator `id` runs on, where those of a step differ; else `None`.
    ///
    /// # Complexity
    /// O(log passes).
    pub fn batch_of(&self, id: OperatorId) -> Option<u64> {
        if self.passes.is_empty() {
            return None;
        }
        let operator = self.operators.get(id.0 as usize)?;
        let rank = self.lanes.get(operator.lane.0 as usize)?.rank;
        // A backward pass may run behind forward passes of later batches.
        let forward = operator.forward.and_then(|id| self.operators.get(id.0 as usize));
        let at = forward.map_or(operator.start, |forward| forward.start);
        let until = self.passes.partition_point(|pass| (pass.rank, pass.from) <= (rank, at));
        let pass = self.passes.get(until.checked_sub(1)?)?;
        (pass.rank == rank).then_some(pass.batch)
    }

    /// How many samples most passes of the chosen iteration run on, the larger of as many, where they differ and all ranks tell theirs.
    pub(super) fn usual_pass(&self) -> Option<u64> {
        let counted = || self.passes.iter().filter(|pass| pass.is_counted);
        let is_told = |part: &RankPart| counted().any(|pass| pass.rank == part.rank);
        let mut sizes: Vec<u64> = counted().map(|pass| pass.batch).collect();
        sizes.sort_unstable();
        let most = sizes.chunk_by(u64::eq).map(|alike| (alike.len(), alike[0])).max();
        most.filter(|_| self.ranks.iter().all(is_told)).map(|(_, size)| size)
    }

    /// Samples of the chosen iteration of a rank on average, as a share of [`batches`](Self::batches) of the batch size; 1 where all run
    /// on as many.
    pub fn mean_pass(&self) -> f64 {
        let counted = || self.passes.iter().filter(|pass| pass.is_counted);
        // A rank stands for all that are like it.
        let samples: f64 = counted().map(|pass| pass.batch as f64 * f64::from(self.count_of(pass.rank))).sum();
        let mut ranks: Vec<Rank> = counted().map(|pass| pass.rank).collect();
        ranks.dedup();
        match (ranks.into_iter().map(|rank| self.count_of(rank)).sum::<u32>(), self.batch_size) {
            (count @ 1.., Some(size @ 1..)) => samples / (f64::from(count) * f64::from(self.batches) * size as f64),
            _ => 1.0,
        }
    }

    /// How many samples the chosen iteration of one rank has; `None` where the batch size is not known.
    pub fn samples_of(&self, part: &RankPart) -> Option<f64> {
        let own = self.passes.iter().filter(|pass| pass.is_counted && pass.rank == part.rank);
        let samples: u64 = own.map(|pass| pass.batch).fold(0, u64::saturating_add);
        let batch = self.batch_size? as f64;
        Some(if samples > 0 { samples as f64 } else { batch * f64::from(part.batches) })
    }
}

//! The forward and backward passes of a step that runs on several batches, and how large each batch is.

use crate::units::TimeNs;

use super::{ExecutionGraph, OperatorId, Rank, RankPart};

/// A forward pass of a rank on one batch, with the backward pass over it; it lasts until the next forward pass of the rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Whose it is.
    pub rank: Rank,
    /// When its forward pass begins, from the window's start.
    pub from: TimeNs,
    /// How many samples it runs on.
    pub batch: u64,
    /// Whether it is of the chosen iteration.
    pub is_chosen: bool,
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
        let chosen = || self.passes.iter().filter(|pass| pass.is_chosen);
        let is_told = |part: &RankPart| chosen().any(|pass| pass.rank == part.rank);
        let mut sizes: Vec<u64> = chosen().map(|pass| pass.batch).collect();
        sizes.sort_unstable();
        let most = sizes.chunk_by(u64::eq).map(|alike| (alike.len(), alike[0])).max();
        most.filter(|_| self.ranks.iter().all(is_told)).map(|(_, size)| size)
    }

    /// Samples of the chosen iteration of a rank on average, as a share of [`batches`](Self::batches) of the batch size; 1 where all run
    /// on as many.
    pub fn mean_pass(&self) -> f64 {
        let chosen = || self.passes.iter().filter(|pass| pass.is_chosen);
        // A rank stands for all that are like it.
        let samples: f64 = chosen().map(|pass| pass.batch as f64 * f64::from(self.count_of(pass.rank))).sum();
        let mut ranks: Vec<Rank> = chosen().map(|pass| pass.rank).collect();
        ranks.dedup();
        match (ranks.into_iter().map(|rank| self.count_of(rank)).sum::<u32>(), self.batch_size) {
            (count @ 1.., Some(size @ 1..)) => samples / (f64::from(count) * f64::from(self.batches) * size as f64),
            _ => 1.0,
        }
    }
}

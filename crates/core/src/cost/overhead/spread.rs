//! How the calls of one kind of overhead spread: their times in order, so that a database gives long calls as well as the mean.

use std::collections::BTreeMap;

use crate::graph::ExecutionGraph;
use crate::intern::NameId;
use crate::stats;

use super::{OverheadKind, OverheadSpans};

/// Most values kept of one overhead; of more calls each value is the mean of equally many in order, so that the sum stays.
const MOST: usize = 64;

/// Times of calls in rising order, in µs, as recorded: outliers and the profiler's cost are in them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread(Vec<f64>);

impl Spread {
    /// Of these times, each as long as its `weight` in calls; a time of many calls is in as many parts as it takes.
    pub fn of(mut weighted: Vec<(f64, f64)>) -> Self {
        weighted.retain(|(us, weight)| us.is_finite() && *weight > 0.0);
        weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = weighted.iter().map(|&(_, weight)| weight).sum();
        let count = (all.round() as usize).clamp(usize::from(!weighted.is_empty()), MOST);
        let each = all / count.max(1) as f64;
        let (mut bins, mut reached) = (vec![(0.0, 0.0); count], 0.0);
        for (us, weight) in weighted {
            let parts = (weight / each).ceil().max(1.0);
            let part = weight / parts;
            for _ in 0..parts as usize {
                let at = (((reached + part / 2.0) / all * count as f64) as usize).min(count.saturating_sub(1));
                reached += part;
                if let Some((sum, weights)) = bins.get_mut(at) {
                    (*sum, *weights) = (*sum + us * part, *weights + part);
                }
            }
        }
        let mean = |(sum, weight): (f64, f64)| (weight > 0.0).then(|| sum / weight);
        Self(bins.into_iter().filter_map(mean).collect())
    }

    /// As a database has it, in µs, each of equally many calls.
    pub(super) fn of_equal(calls_us: Vec<f64>) -> Self {
        if calls_us.len() > MOST {
            return Self::of(calls_us.into_iter().map(|us| (us, 1.0)).collect());
        }
        let mut calls_us = calls_us;
        calls_us.sort_by(f64::total_cmp);
        Self(calls_us)
    }

    /// As a database has it, in µs; empty where it is not known.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// The mean of all calls in µs.
    pub fn mean(&self) -> Option<f64> {
        stats::mean(&self.0)
    }

    /// The least and the most that the mean of at least half of the calls comes to, in µs.
    pub(super) fn means_of_half(&self) -> Option<(f64, f64)> {
        let half = self.0.len().div_ceil(2);
        Some((stats::mean(self.0.get(..half)?)?, stats::mean(self.0.get(self.0.len() - half..)?)?))
    }

    /// The time of the call that the share `rank` (0…1) of all calls come before, in µs.
    pub fn at(&self, rank: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        self.0.get(((rank * self.0.len() as f64) as usize).min(last)).copied()
    }

    /// Of the calls of both, by how many there were.
    #[must_use]
    pub fn merged(&self, calls: u64, other: &Self, others: u64) -> Self {
        let weighted = |spread: &Self, calls: u64| {
            let each = calls.max(1) as f64 / spread.0.len().max(1) as f64;
            spread.0.iter().map(|&us| (us, each)).collect::<Vec<_>>()
        };
        Self::of([weighted(self, calls), weighted(other, others)].concat())
    }
}

/// Of every stretch of `spans` the share of its like that are shorter.
///
/// # Complexity
/// O(stretches · log stretches).
pub fn ranks(graph: &ExecutionGraph, spans: &OverheadSpans) -> Vec<f64> {
    let mut alike: BTreeMap<(OverheadKind, NameId), Vec<(i64, usize)>> = BTreeMap::new();
    for (at, stretch) in spans.iter().enumerate().filter(|(_, stretch)| stretch.is_overhead) {
        alike.entry((stretch.kind, stretch.op)).or_default().push((spans.time(stretch, graph).0, at));
    }
    let mut ranks = vec![0.5; spans.iter().count()];
    for mut calls in alike.into_values() {
        calls.sort_unstable();
        let count = calls.len() as f64;
        for (place, (_, at)) in calls.into_iter().enumerate() {
            ranks[at] = (place as f64 + 0.5) / count;
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(values: &[f64]) -> Spread {
        Spread::of(values.iter().map(|&us| (us, 1.0)).collect())
    }

    #[test]
    fn the_sum_of_all_calls_stays_however_many_there_are() {
        for count in [1, 5, 64, 65, 1000] {
            let calls: Vec<f64> = (0..count).map(|at| f64::from(at * at % 97)).collect();
            let spread = even(&calls);
            let given: f64 = (0..count).filter_map(|at| spread.at((f64::from(at) + 0.5) / f64::from(count))).sum();
            let sum: f64 = calls.iter().sum();
            assert!((given - sum).abs() <= 1e-6 * sum.max(1.0), "{count}: {given} for {sum}");
        }
    }

    #[test]
    fn long_calls_stay_long_and_two_samples_are_merged_by_how_many_they_are() {
        let spread = even(&[1.0, 1.0, 1.0, 100.0]);
        assert_eq!((spread.at(0.0), spread.at(0.99)), (Some(1.0), Some(100.0)));
        let both = even(&[1.0, 2.0]).merged(2, &even(&[10.0]), 1);
        assert_eq!(both.values(), [1.0, 2.0, 10.0]);
        let often = even(&[1.0]).merged(2, &even(&[10.0]), 6);
        assert_eq!(often.mean(), Some(62.0 / 8.0), "six calls of ten µs count as six");
        assert_eq!(Spread::default().at(0.5), None);
        assert_eq!(spread.means_of_half(), Some((1.0, 50.5)));
    }
}

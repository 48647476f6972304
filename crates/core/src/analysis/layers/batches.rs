//! Analysis 1: throughput by batch size, and the batch size worth taking.

use std::collections::BTreeMap;

use crate::units::DurNs;

/// Doubling the batch must gain more than this share of throughput [Li 2019 §4.1].
const WORTHWHILE_GAIN: f64 = 0.05;

/// The batch size whose doubling gains at most 5 % in throughput; with a `latency` target, the largest batch within it.
///
/// # Arguments
/// `runs`: batch sizes with the latency of a batch, in any order.
///
/// `None` when no two sizes are a doubling apart, or nothing is within the target. Where every doubling pays, the
/// largest doubled size.
pub fn optimal_batch(runs: &[(u64, DurNs)], latency: Option<DurNs>) -> Option<u64> {
    if let Some(target) = latency {
        return runs.iter().filter(|(_, took)| *took <= target).map(|&(batch, _)| batch).max();
    }
    let timed = runs.iter().filter(|(_, took)| took.0 > 0);
    optimal_throughput(timed.map(|&(batch, took)| (batch, batch as f64 / took.secs())))
}

/// Whether twice a batch is worth its latency: its throughput is more than 5 % above that of the batch.
pub fn is_worthwhile(throughput: f64, doubled: f64) -> bool {
    doubled > throughput * (1.0 + WORTHWHILE_GAIN)
}

/// The batch size whose doubling gains at most 5 % in throughput, by the rule of [`optimal_batch`].
///
/// # Arguments
/// `sizes`: batch sizes with their throughput in samples per second, in any order.
fn optimal_throughput(sizes: impl Iterator<Item = (u64, f64)>) -> Option<u64> {
    let sorted: BTreeMap<u64, f64> = sizes.collect();
    let mut best = None;
    for (&batch, &throughput) in &sorted {
        let Some(&doubled) = sorted.get(&(2 * batch)) else { continue };
        if !is_worthwhile(throughput, doubled) {
            return Some(batch);
        }
        best = Some(2 * batch);
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_optimal_batch_is_where_doubling_stops_paying_or_the_largest_within_a_latency() {
        let ms = |ms: f64| DurNs::from_us_f64(ms * 1e3);
        let runs = [(128, ms(142.89)), (32, ms(40.03)), (64, ms(74.03)), (256, ms(275.05))];
        assert_eq!(optimal_batch(&runs, None), Some(64));
        assert_eq!(optimal_batch(&runs[1..3], None), Some(64), "32 to 64 still pays");
        assert_eq!(optimal_batch(&runs, Some(ms(150.0))), Some(128));
        assert_eq!(optimal_batch(&runs, Some(ms(1.0))), None);
        assert_eq!(optimal_batch(&runs[..1], None), None);
    }
}

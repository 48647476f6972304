//! Clocks of ranks against the first rank's, from when collectives end: all ranks leave one at about the same time.

use crate::graph::Clock;
use crate::units::{DurNs, TimeNs};

use super::constants::median;
use crate::stats;

/// An end of a collective on the first rank's clock, and how much later the other rank's clock had it.
pub(super) type End = (TimeNs, DurNs);

/// Fewest ends that tell a drift from chance.
const LEAST_ENDS: usize = 16;
/// Part of the scatter around a constant offset that a drift has to explain.
const EXPLAINED: f64 = 0.5;
/// Crystals are off by less than this, in parts per million; what seems more is something else.
const MOST_PPM: f64 = 300.0;

/// The clock of a rank: `offset + drift·(t − at)` later than the first rank's.
///
/// The drift is the median slope between ends half the recording apart (Theil and Sen, with one partner each), kept where it
/// explains most of what is left beside a constant offset.
///
/// # Arguments
/// `at`: the time at which the offset is told.
///
/// # Complexity
/// O(ends · log ends).
pub(super) fn estimate(mut ends: Vec<End>, at: TimeNs) -> Clock {
    ends.sort_unstable();
    let constant = Clock { offset: middle(&ends, at, 0.0), drift_ppm: 0.0 };
    let half = ends.len() / 2;
    if ends.len() < LEAST_ENDS {
        return constant;
    }
    let pairs = ends[..ends.len() - half].iter().zip(&ends[half..]).filter(|(early, late)| late.0 > early.0);
    let mut slopes: Vec<f64> =
        pairs.map(|(early, late)| (late.1 - early.1).0 as f64 * 1e6 / late.0.since(early.0).0 as f64).collect();
    let drift_ppm = stats::upper_quantile(&mut slopes, (1, 2)).filter(|ppm| ppm.abs() <= MOST_PPM);
    let Some(drift_ppm) = drift_ppm else { return constant };
    let drifting = Clock { offset: middle(&ends, at, drift_ppm), drift_ppm };
    let is_explained =
        (scatter(&ends, drifting, at).0 as f64) < (1.0 - EXPLAINED) * scatter(&ends, constant, at).0 as f64;
    if is_explained { drifting } else { constant }
}

/// How much later than the first rank's a clock is at a time of the first rank's.
pub(super) fn ahead(clock: Clock, at: TimeNs, time: TimeNs) -> DurNs {
    clock.offset + drifted(clock.drift_ppm, at, time)
}

fn drifted(ppm: f64, at: TimeNs, time: TimeNs) -> DurNs {
    time.since(at).scale(ppm * 1e-6)
}

fn middle(ends: &[End], at: TimeNs, ppm: f64) -> DurNs {
    median(&mut ends.iter().map(|&(time, later)| later - drifted(ppm, at, time)).collect::<Vec<_>>())
}

/// Median distance of the ends from what the clock says.
fn scatter(ends: &[End], clock: Clock, at: TimeNs) -> DurNs {
    let off = |&(time, later): &End| (later - ahead(clock, at, time)).abs();
    median(&mut ends.iter().map(off).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends every 10 ms for a second, scattered by up to ±2 µs.
    fn ends(offset: i64, ppm: f64) -> Vec<End> {
        let scatter = |i: i64| (i * 7919) % 4001 - 2000;
        (0..100)
            .map(|i| {
                (TimeNs(i * 10_000_000), DurNs(offset + scatter(i)) + drifted(ppm, TimeNs(0), TimeNs(i * 10_000_000)))
            })
            .collect()
    }

    #[test]
    fn offset_and_drift_are_found_again() {
        let at = TimeNs(500_000_000);
        for (offset, ppm) in [(0, 40.0), (-1_000_000, -25.0), (70_000, 100.0)] {
            let clock = estimate(ends(offset, ppm), at);
            assert!((clock.drift_ppm - ppm).abs() < 1.0, "{clock:?}");
            assert!((clock.offset.0 - offset - (500.0 * ppm) as i64).abs() < 600, "{clock:?}");
        }
    }

    #[test]
    fn scatter_is_no_drift_and_few_ends_tell_none() {
        assert_eq!(estimate(ends(5_000, 0.0), TimeNs(0)).drift_ppm.to_bits(), 0.0_f64.to_bits());
        assert_eq!(estimate(ends(0, 50.0)[..15].to_vec(), TimeNs(0)).drift_ppm.to_bits(), 0.0_f64.to_bits());
        assert_eq!(estimate(ends(0, 5_000.0), TimeNs(0)).drift_ppm.to_bits(), 0.0_f64.to_bits());
        assert_eq!(estimate(Vec::new(), TimeNs(0)), Clock::default());
    }
}

//! The data-movement curve of a memory from streaming kernels of many sizes.

use super::search::minimise;
use retime_core::device::BandwidthCurve;

/// Fewest measurements a curve is fitted to.
const FEWEST: usize = 30;

/// The three-region curve through `points` (bytes, µs), by mean absolute error of the logarithm; `None` of few points or of
/// sizes that span less than a factor of 1000.
pub(super) fn bandwidth_curve(points: &[(f64, f64)]) -> Option<BandwidthCurve> {
    let points: Vec<(f64, f64)> = points.iter().copied().filter(|(bytes, us)| *bytes > 0.0 && *us > 0.0).collect();
    let extreme = |pick: fn(f64, f64) -> f64, of: fn(&(f64, f64)) -> f64| points.iter().map(of).reduce(pick);
    let (low, high) = (extreme(f64::min, |point| point.0)?, extreme(f64::max, |point| point.0)?);
    let (start, fastest) = (extreme(f64::min, |point| point.1)?, extreme(f64::max, |point| point.0 / point.1 / 1e3)?);
    if points.len() < FEWEST || high < 1000.0 * low {
        return None;
    }
    let curve = |p: &[f64]| BandwidthCurve {
        start_us: p[0],
        m1_bytes: low,
        m2_bytes: high,
        max_gb_s: p[1],
        height: p[2],
        midpoint: p[3],
        steepness: p[4],
        base: p[1].log10() - p[2],
    };
    let cost = |p: &[f64]| {
        let curve = curve(p);
        points.iter().map(|(bytes, us)| (curve.time_us(*bytes) / us).max(1e-9).ln().abs()).sum::<f64>()
    };
    let bounds = [(0.3 * start, 3.0 * start), (0.2 * fastest, 1.2 * fastest), (0.5, 6.0), (8.0, 30.0), (0.1, 2.0)];
    let (best, _) = minimise(&[start, 0.9 * fastest, 2.0, 18.0, 0.5], &bounds, &[0, 1, 2, 3, 4], 80, cost);
    Some(curve(&best))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_and_a_bandwidth_are_found_again() {
        let points: Vec<(f64, f64)> =
            (12..120).map(|i| 2f64.powf(f64::from(i) / 4.0)).map(|bytes| (bytes, 3.0 + bytes / 800e3)).collect();
        let curve = bandwidth_curve(&points).unwrap();
        for (bytes, us) in points {
            assert!((curve.time_us(bytes) / us - 1.0).abs() < 0.35, "{bytes}: {} {us}", curve.time_us(bytes));
        }
        assert!(bandwidth_curve(&[(1.0, 1.0)]).is_none());
    }
}

//! Curves of three regions: of a memory from streaming kernels of many sizes, of a collective from messages of many sizes.

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

/// Fewest sizes of messages that the curve of a collective is fitted to: it has eight parameters, two of which follow from the others.
const FEWEST_SIZES: usize = 8;

/// The three-region curve [Lin 2024 §IV-A] of a collective through `points` (bytes of the buffer, µs), of which `factor` times as many
/// bytes are on the bus, by mean absolute error of the logarithm; `None` of few points.
///
/// Continuous, and never falls: the first region ends where the sigmoid's time reaches the start, and the third goes on from
/// the end of the second.
pub(super) fn message_curve(points: &[(f64, f64)], factor: f64) -> Option<BandwidthCurve> {
    let (low, high) = (points.first()?, points.last()?);
    if points.len() < FEWEST_SIZES || factor <= 0.0 {
        return None;
    }
    let start = points.iter().map(|point| point.1).reduce(f64::min)?;
    let fastest = points.iter().map(|point| factor * point.0 / point.1 / 1e3).reduce(f64::max)?;
    let curve = |p: &[f64]| BandwidthCurve {
        start_us: p[0],
        m1_bytes: 0.0,
        m2_bytes: p[5],
        max_gb_s: p[1],
        height: p[2],
        midpoint: p[3],
        steepness: p[4],
        base: p[1].log10() - p[2],
    };
    let cost = |p: &[f64]| {
        let curve = curve(p);
        let off = |(bytes, us): &(f64, f64)| (curve.transfer_us(*bytes, factor) / us).max(1e-9).ln().abs();
        points.iter().map(off).sum::<f64>()
    };
    let bounds = [
        (0.3 * start, 3.0 * start),
        (0.2 * fastest, 1.5 * fastest),
        (0.3, 8.0),
        (4.0, 32.0),
        (0.05, 2.0),
        (low.0.max(1.0), 4.0 * high.0),
    ];
    // Sigmoids of other places and widths are other valleys of the cost.
    let starts = [14.0, 18.0, 22.0].into_iter().flat_map(|midpoint| [0.25, 0.6].map(|steepness| (midpoint, steepness)));
    let found = starts.map(|(midpoint, steepness)| {
        let from = [start, 0.9 * fastest, 2.0, midpoint, steepness, high.0];
        minimise(&from, &bounds, &[0, 1, 2, 3, 4, 5], 200, cost)
    });
    let (best, _) = found.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let open = curve(&best);
    let (mut least, mut most) = (0.0, open.m2_bytes.log2());
    for _ in 0..60 {
        let middle = f64::midpoint(least, most);
        let is_start = open.transfer_us(middle.exp2(), factor) <= open.start_us;
        (least, most) = if is_start { (middle, most) } else { (least, middle) };
    }
    Some(BandwidthCurve { m1_bytes: least.exp2(), ..open })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_regions_are_found_again_and_joined() {
        let made = BandwidthCurve {
            start_us: 100.0,
            m1_bytes: 4096.0,
            m2_bytes: f64::from(1 << 27),
            max_gb_s: 60.0,
            height: 4.0,
            midpoint: 15.0,
            steepness: 0.3,
            base: 60f64.log10() - 4.0,
        };
        for factor in [0.75, 1.75] {
            let points: Vec<(f64, f64)> =
                (8..31).map(|e| 2f64.powi(e)).map(|m| (m, made.transfer_us(m, factor))).collect();
            let curve = message_curve(&points, factor).unwrap();
            let off = points.iter().map(|(m, us)| (curve.transfer_us(*m, factor) / us - 1.0).abs());
            let mean = off.sum::<f64>() / points.len() as f64;
            assert!(mean < 0.1, "{factor}: {mean} {curve:?}");
            let times: Vec<f64> = (0..3200).map(|i| curve.transfer_us((f64::from(i) / 100.0).exp2(), factor)).collect();
            assert!(times.windows(2).all(|pair| pair[0] <= pair[1] && pair[1] < 1.02 * pair[0]), "falls or jumps");
        }
        assert!(message_curve(&[(1.0, 1.0); 7], 1.0).is_none());
    }

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

//! The bands stated beside predictions of a device's time, and of a sum of kernels.

use std::collections::BTreeMap;

use retime::session::Outcome;
use retime_core::cost::{CostModels, Work};
use retime_core::device::DeviceProfile;

/// Half the width of the band around the device's time, as a share of it: the errors of one model as one, of several as
/// independent.
pub(crate) fn of_device(outcome: &Outcome) -> f64 {
    let resolved = &outcome.resolved;
    let tasks = &resolved.graph.tasks;
    let mut total: f64 =
        tasks.node_weights().filter(|task| task.kind.is_device()).map(|task| task.measured.0 as f64).sum();
    let mut models: BTreeMap<&str, f64> = BTreeMap::new();
    for (node, prediction) in resolved.changes.iter().filter(|(node, _)| tasks[*node].kind.is_device()) {
        total += (prediction.duration - tasks[*node].measured).0 as f64;
        *models.entry(prediction.model).or_default() += f64::from(prediction.error) * prediction.duration.0 as f64;
    }
    together(&models) / total.max(1.0)
}

/// The same of `works`, each with how often it runs.
pub(crate) fn of_works(models: &CostModels, works: &[(f64, Work)], device: &DeviceProfile) -> Option<f64> {
    let (mut errors, mut total) = (BTreeMap::<&str, f64>::new(), 0.0);
    for (times, work) in works {
        let estimate = models.estimate(work, device)?;
        let time = times * estimate.duration.0 as f64;
        total += time;
        *errors.entry(estimate.model).or_default() += time * f64::from(estimate.error);
    }
    Some(together(&errors) / total)
}

fn together(errors: &BTreeMap<&str, f64>) -> f64 {
    errors.values().map(|error| error * error).sum::<f64>().sqrt()
}

/// The band around a time that grows from `from` as the models' sums of it do, from the first to the second of `modelled`; half its
/// width is the share `band`. What those sums leave unexplained of `from` (the framework, the host, other kernels) need not grow
/// along: on the side of that the band reaches there, too.
pub(crate) fn reaching(from: f64, modelled: [f64; 2], band: f64) -> [f64; 2] {
    let got = from * modelled[1] / modelled[0];
    let kept = (from - modelled[0]).max(0.0) + modelled[1].min(got);
    let [low, high] = around(got, band);
    let reach = (kept - got).hypot(got * band);
    if kept < got { [got - reach, high] } else { [low, got + reach] }
}

/// The time at another batch size on one device, with its band, where the models speak for all that a trace has on the device: their part of
/// `from` grows as they say, from the first to the second of `modelled`, half its width the share `band`. What they leave
/// unexplained is the host's and stays: the band reaches to where it grows along. Models that say more than was measured have no such
/// part, and only their ratio is used. (A list of a network's larger operators leaves device work unexplained, too: see [`reaching`].)
pub(crate) fn resized(from: f64, modelled: [f64; 2], band: f64) -> (f64, [f64; 2]) {
    let grown = from * modelled[1] / modelled[0];
    let explained = modelled[0].min(from);
    let got = from - explained + explained * modelled[1] / modelled[0];
    let half = band * (got - (from - explained));
    let reach = (grown - got).hypot(half);
    (got, if grown > got { [got - half, got + reach] } else { [got - reach, got + half] })
}

/// The band around `got` whose half width is the share `band` of it.
pub(crate) fn around(got: f64, band: f64) -> [f64; 2] {
    [got * (1.0 - band), got * (1.0 + band)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_reaches_to_where_the_unexplained_part_does_not_grow() {
        // Of 100 the models explain 60, which doubles: 160 where the rest stays, 200 where it grows along.
        let [low, high] = reaching(100.0, [60.0, 120.0], 0.05);
        assert!((low - (200.0 - 40.0_f64.hypot(10.0))).abs() < 1e-9 && (high - 210.0).abs() < 1e-9);
        // The other way round it reaches up.
        let [low, high] = reaching(200.0, [120.0, 60.0], 0.05);
        assert!((low - 95.0).abs() < 1e-9 && (high - (100.0 + 40.0_f64.hypot(5.0))).abs() < 1e-9);
        // Models that say more than was measured leave nothing unexplained.
        let [low, high] = reaching(100.0, [120.0, 240.0], 0.1);
        assert!((low - 180.0).abs() < 1e-9 && (high - 220.0).abs() < 1e-9);
    }

    #[test]
    fn at_another_batch_the_unexplained_part_stays_and_the_band_reaches_to_where_it_grows() {
        let (got, [low, high]) = resized(100.0, [60.0, 120.0], 0.05);
        assert!((got - 160.0).abs() < 1e-9 && (low - 154.0).abs() < 1e-9);
        assert!((high - (160.0 + 40.0_f64.hypot(6.0))).abs() < 1e-9);
        let (got, [low, high]) = resized(100.0, [120.0, 240.0], 0.1);
        assert!((got - 200.0).abs() < 1e-9 && (low - 180.0).abs() < 1e-9 && (high - 220.0).abs() < 1e-9);
        let (got, [low, high]) = resized(160.0, [120.0, 60.0], 0.0);
        assert!((got - 100.0).abs() < 1e-9 && (low - 80.0).abs() < 1e-9 && (high - 100.0).abs() < 1e-9);
    }
}

//! Why a fit falls short of its aim, computed from the table it is checked on: how much measurements scatter that should be alike,
//! how they jump between neighbouring sizes, and how well it knows the rows that it learnt from.

use std::collections::BTreeMap;

use crate::{ErrorSummary, Measurement, assess, batch_of, is_held_out, is_kernel, predicted_us, summarise};
use retime_core::cost::domain::Domain;
use retime_core::cost::fits::Fit;
use retime_core::cost::structured::structured_us;
use retime_core::cost::work::{Shape, Work};
use retime_core::device::DeviceProfile;

/// Mean absolute relative deviation, and what it was found on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    error: f64,
    n: usize,
}

/// Fewest pairs or triples that say something.
const FEWEST: usize = 10;
/// How far the steps of two like launches may be apart, as a share.
const NEARLY: f64 = 0.05;
/// Most steps between neighbouring sizes, as a factor.
const NEXT: f64 = 2.5;

/// In words why `fit` errs as it does on the held-out part of `rows`, of which `counted` are its errors.
pub(super) fn reason(fit: &Fit, device: &DeviceProfile, rows: &[&Measurement], counted: &ErrorSummary) -> String {
    let percent = |share: f64| 100.0 * share;
    let kernels: Vec<&Measurement> = rows.iter().copied().filter(|row| is_kernel(fit, device, row)).collect();
    let rows = &kernels[..];
    let mut parts = Vec::new();
    if counted.n < 50 {
        parts.push(format!("only {} rows", counted.n));
    }
    let alike = like_launches(rows);
    if let Some(Spread { error, n }) = alike {
        parts.push(format!("like launches scatter by {:.1} % in the table ({n} pairs)", percent(error)));
    } else if let Some(Spread { error, n }) = roughness(fit.domain, device, &fit.parameters, rows) {
        parts.push(format!(
            "beside the waves of tiles, times jump by {:.1} % between neighbouring sizes ({n} triples)",
            percent(error)
        ));
    }
    let learnt: Vec<&Measurement> = rows.iter().copied().filter(|row| !is_held_out(&row.work)).collect();
    let own = assess(fit, device, &learnt).kernels;
    if own.n > 0 {
        parts.push(format!("on the {} rows it learnt from it errs by {:.1} %", own.n, percent(own.mape)));
    }
    let unseen = rows.iter().filter(|row| is_held_out(&row.work));
    let pairs: Vec<(f64, f64)> = unseen.map(|row| (predicted_us(fit, device, row), row.us)).collect();
    parts.extend(by_length(&pairs));
    parts.push(format!(
        "half of the rows are within {:.1} %, one in ten is more than {:.0} % off",
        percent(counted.p50),
        percent(counted.p90)
    ));
    parts.join("; ")
}

/// In words which of the pairs (predicted, measured) are off: the mean absolute error of each third by length. None of fewer than three.
pub fn by_length(pairs: &[(f64, f64)]) -> Option<String> {
    let mut pairs: Vec<(f64, f64)> = pairs.iter().copied().filter(|(_, us)| *us > 0.0).collect();
    pairs.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.total_cmp(&b.0)));
    let third = pairs.len() / 3;
    let [short, long] =
        [pairs.get(..third)?, &pairs[pairs.len() - third..]].map(|part| summarise(part.iter().copied()));
    let (last, first) = (pairs.get(third.checked_sub(1)?)?.1, pairs[pairs.len() - third].1);
    Some(format!(
        "the shortest third (up to {last:.0} µs) is {:.1} % off (leans {:+.1}), the longest (from {first:.0} µs) {:.1} % (leans {:+.1})",
        100.0 * short.mape,
        100.0 * short.bias,
        100.0 * long.mape,
        100.0 * long.bias
    ))
}

/// How much calls scatter that launch the same grid of the same kernel, with reductions (or traffic, where there are none) within 5 %
/// of one another: per step of the reduction, the mean difference over √2, which is one call's deviation where both deviate alike.
fn like_launches(rows: &[&Measurement]) -> Option<Spread> {
    let mut groups: BTreeMap<u64, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows {
        if let Some(launched) = row.launched {
            let steps = steps(&row.work);
            groups.entry(launched).or_default().push((steps, row.us / steps.max(1.0)));
        }
    }
    let mut differences = Vec::new();
    for group in groups.values_mut() {
        group.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        // Each measurement counts in one pair at most.
        let mut at = 0;
        while at + 1 < group.len() {
            let ((steps, us), (more, other)) = (group[at], group[at + 1]);
            if more <= steps * (1.0 + NEARLY) {
                differences.push((other / us).ln().abs() / std::f64::consts::SQRT_2);
                at += 1;
            }
            at += 1;
        }
    }
    mean(&differences)
}

/// What a call of one grid goes through one after the other.
fn steps(work: &Work) -> f64 {
    match work.shape {
        Shape::Gemm { k, .. } => k as f64,
        Shape::Conv { channels_in, r, s, .. } => (channels_in * r * s) as f64,
        _ => work.bytes().0 as f64,
    }
}

/// How far a measurement is from the line through its neighbours, which differ in the batch alone, in logarithms of what the structured
/// model leaves over: `|r₂ − (r₁ + r₃)/2| / √1.5`. What no smooth correction can follow.
fn roughness(domain: Domain, device: &DeviceProfile, parameters: &[f64], rows: &[&Measurement]) -> Option<Spread> {
    let mut groups: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for row in rows {
        let (rest, batch) = batch_of(&row.work);
        let left = (row.us / structured_us(domain, &row.work, device, parameters).max(1e-6)).ln();
        groups.entry(rest).or_default().push((batch, left));
    }
    mean(&groups.into_values().flat_map(jumps).collect::<Vec<_>>())
}

/// How far each of `series` (size, logarithm) is from the line through its neighbours, over √1.5.
fn jumps(mut series: Vec<(f64, f64)>) -> Vec<f64> {
    series.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let jump = |three: &[(f64, f64)]| {
        let [(first, a), (size, b), (last, c)] = [three[0], three[1], three[2]];
        let share = (size / first).ln() / (last / first).ln();
        let is_next = first < size && size < last && last <= first * NEXT * NEXT;
        is_next.then(|| (b - a - share * (c - a)).abs() / 1.5_f64.sqrt())
    };
    series.windows(3).filter_map(jump).collect()
}

/// How far times jump between neighbouring sizes, as a share: of each size and time that of the line through its neighbours in logarithms.
/// `None` where no three sizes are next to one another.
pub(super) fn mean_jump(times: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let jumps = jumps(times.map(|(size, us)| (size, us.max(1e-9).ln())).collect());
    (!jumps.is_empty()).then(|| jumps.iter().sum::<f64>() / jumps.len() as f64)
}

fn mean(list: &[f64]) -> Option<Spread> {
    let error = list.iter().sum::<f64>() / list.len().max(1) as f64;
    (list.len() >= FEWEST).then_some(Spread { error, n: list.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timed;
    use retime_core::cost::CostModels;
    use retime_core::cost::operators::{GemmSize, gemm_work};
    use retime_core::device::Catalog;
    use retime_core::graph::DType;

    fn row(m: u64, k: u64, us: f64, launched: Option<u64>) -> Measurement {
        let work = gemm_work(GemmSize { batch: 1, m, n: 4096, k }, DType::Fp32, false, 0);
        Measurement { timed: Timed::Call, launched, ..Measurement::of_kernel(work, "", us, 1) }
    }

    #[test]
    fn the_third_that_is_off_is_named() {
        let pairs = [(20.0, 10.0), (9.0, 9.0), (30.0, 30.0), (200.0, 200.0), (40.0, 40.0), (150.0, 300.0)];
        let said = by_length(&pairs).unwrap();
        assert!(
            said.starts_with(
                "the shortest third (up to 10 µs) is 50.0 % off (leans +50.0), the longest (from 200 µs) 25.0 %"
            ),
            "{said}"
        );
        assert_eq!(by_length(&pairs[..2]), None);
    }

    #[test]
    fn calls_that_launch_the_same_scatter_by_their_difference_over_the_root_of_two() {
        // Pairs of one grid, times per step of the reduction 10 % apart; one of another grid, one alone.
        let pairs = (0..12).flat_map(|i| {
            [row(64, 1000 * (i + 1), 1e3 * (i + 1) as f64, Some(i)), {
                row(100, 1000 * (i + 1), 1.1e3 * (i + 1) as f64, Some(i))
            }]
        });
        let rows: Vec<Measurement> = pairs.chain([row(64, 1000, 5e5, Some(99)), row(64, 3000, 1.0, None)]).collect();
        let found = like_launches(&rows.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.n, 12);
        assert!((found.error - 1.1_f64.ln() / 2.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!(like_launches(&rows[..8].iter().collect::<Vec<_>>()), None);
    }

    #[test]
    fn what_follows_the_model_is_smooth_and_what_alternates_is_not() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let device = catalog.find("H100-SXM").unwrap();
        let parameters = models.fits().parameters(Domain::Linear, device);
        let rough = |factor: f64| {
            let rows: Vec<Measurement> = (1..=20)
                .map(|i| {
                    let plain = row(i * 128, 4096, 1.0, None);
                    let us = structured_us(Domain::Linear, &plain.work, device, &parameters);
                    Measurement { us: if i % 2 == 0 { us * factor } else { us }, ..plain }
                })
                .collect();
            roughness(Domain::Linear, device, &parameters, &rows.iter().collect::<Vec<_>>()).unwrap().error
        };
        assert!(rough(1.0) < 1e-9);
        assert!((rough(1.2) - 1.2_f64.ln() / 1.5_f64.sqrt()).abs() < 1e-9);
    }
}

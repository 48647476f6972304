//! Errors of anchored predictions, as the fits' makers found them on pairs of held-out measurements.

use super::ValidationRow;
use crate::ErrorSummary;
use retime_core::cost::CostModels;
use retime_core::cost::anchor::{Anchored, PairError, Ratio};
use retime_core::cost::domain::Domain;

/// Mean absolute error aimed at when the batch changes, and when the device does; none where no aim was set.
fn targets(domain: Domain) -> (Option<f64>, Option<f64>) {
    match domain {
        Domain::Linear | Domain::BatchedGemm => (Some(0.08), Some(0.09)),
        Domain::Gemm16 => (Some(0.07), Some(0.07)),
        Domain::Conv => (None, Some(0.12)),
        Domain::Attention => (Some(0.05), Some(0.05)),
        Domain::Decode => (Some(0.08), Some(0.10)),
        _ => (None, None),
    }
}

/// The rows of `domain`: the batch doubled once to three times, and other devices; by fits, and by what devices share. Only fits
/// are held against the aims.
pub(super) fn rows(models: &CostModels, domain: Domain) -> Vec<ValidationRow> {
    let found = [Ratio::Fitted, Ratio::Shared].into_iter().filter_map(|by| models.fits().anchored(domain, by));
    let own: Vec<f64> = models.fits().iter().filter(|fit| fit.domain == domain).map(|fit| fit.error).collect();
    let mean = own.iter().sum::<f64>() / own.len().max(1) as f64;
    found.flat_map(|anchored| of(anchored, mean)).collect()
}

/// `own` is what the fits err by on their own, on average.
fn of(anchored: &Anchored, own: f64) -> Vec<ValidationRow> {
    let (batch, swap) = targets(anchored.domain);
    let aimed = |aim: Option<f64>| aim.filter(|_| anchored.by == Ratio::Fitted);
    let changes = ["batch x2", "batch x4", "batch x8"].into_iter().zip(anchored.doublings).map(|row| (row, batch));
    changes
        .chain([(("other device", anchored.swap), swap)])
        .filter(|((_, pairs), _)| pairs.n > 0)
        .map(|((change, pairs), aim)| row((anchored, own), change, pairs, aimed(aim)))
        .collect()
}

fn row((anchored, own): (&Anchored, f64), change: &str, pairs: PairError, target: Option<f64>) -> ValidationRow {
    let mean = ErrorSummary::of_mean(pairs.n as usize, pairs.error);
    ValidationRow {
        family: format!("anchored {}", anchored.domain.name()),
        device: change.to_owned(),
        model: anchored.by.name(),
        target,
        met: target.map(|aim| pairs.error <= aim),
        reason: target.filter(|aim| pairs.error > *aim).map(|_| {
            let (own, two) = (100.0 * own, 100.0 * std::f64::consts::SQRT_2 * own);
            format!("its fits err by {own:.1} % each on average, which makes {two:.1} % of two that err independently")
        }),
        ..ValidationRow::unmeasured(mean)
    }
}

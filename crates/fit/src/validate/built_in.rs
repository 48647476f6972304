//! Errors that the built-in models were shipped with: of each fit on the rows its maker held out, of each curve of a collective on sizes
//! left out. Nothing is measured anew.

use super::{Seen, ValidationRow, aim, anchored, collective, shared_row, smallest_us};
use crate::ErrorSummary;
use retime_core::cost::domain::Domain;
use retime_core::cost::fits::Fit;
use retime_core::cost::models::CostModels;
use retime_core::device::{CollectiveCurve, LinkProfile};

/// The table of what the models are known to err by, in order of family and device; needs no measurements.
pub fn shipped_errors(models: &CostModels) -> Vec<ValidationRow> {
    let mut fits: Vec<&Fit> = models.fits().iter().collect();
    fits.sort_by_key(|fit| (fit.domain, fit.devices.first()));
    let mut domains: Vec<Domain> = fits.iter().map(|fit| fit.domain).collect();
    domains.dedup();
    let mut table: Vec<ValidationRow> = fits.into_iter().map(of_fit).collect();
    table.extend(domains.iter().filter_map(|&domain| shared_row(models, domain)));
    table.extend(domains.iter().flat_map(|&domain| anchored::rows(models, domain)));
    let curves = models.links().iter().flat_map(|link| link.curves.iter().map(move |curve| (link, curve)));
    table.extend(curves.filter(|(_, curve)| !curve.carried && curve.n > 0).map(of_curve));
    table.extend([true, false].into_iter().filter_map(|fabrics| of_unmeasured_links(models, fabrics)));
    table
}

/// Interconnects that nobody measured, fabrics or buses: each bandwidth left out in turn, `n` counts points of curves.
fn of_unmeasured_links(models: &CostModels, fabrics: bool) -> Option<ValidationRow> {
    let (error, n) = models.links().unmeasured_error(fabrics)?;
    let device = if fabrics { "a fabric left out in turn" } else { "a bus left out in turn" };
    Some(ValidationRow {
        family: "collectives".to_owned(),
        device: device.to_owned(),
        model: "collective-peers",
        ..ValidationRow::unmeasured(ErrorSummary::of_mean(n, error))
    })
}

/// An aim holds for the rows that count; where those are not all, the shipped error cannot be held against it.
fn of_fit(fit: &Fit) -> ValidationRow {
    let n = fit.n_test as usize;
    let gmae = fit.geometric_error.unwrap_or(f64::NAN);
    let all = ErrorSummary { gmae, ..ErrorSummary::of_mean(n, fit.error) };
    let aim = aim(fit.domain, Seen::Table).filter(|_| smallest_us(fit.domain) <= 0.0);
    ValidationRow {
        family: fit.domain.name().to_owned(),
        device: fit.devices.first().cloned().unwrap_or_default(),
        model: fit.choice.name(),
        structured: ErrorSummary::of_mean(n, fit.structured_error),
        network: fit.network_error,
        target: aim,
        met: aim.map(|aim| fit.error <= aim),
        ..ValidationRow::unmeasured(all)
    }
}

fn of_curve((link, curve): (&LinkProfile, &CollectiveCurve)) -> ValidationRow {
    ValidationRow {
        family: format!("{} x{}", curve.collective, curve.ranks),
        device: link.id.clone(),
        model: "collective-curve",
        target: Some(collective::TARGET),
        met: Some(curve.error <= collective::TARGET),
        ..ValidationRow::unmeasured(ErrorSummary::of_mean(curve.n as usize, curve.error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fit_and_every_measured_curve_has_a_row() {
        let models = CostModels::builtin().unwrap();
        let table = shipped_errors(&models);
        let of = |family: &str, device: &str| table.iter().find(|row| row.family == family && row.device == device);
        for fit in models.fits().iter() {
            let row = of(fit.domain.name(), &fit.devices[0]).unwrap();
            assert_eq!((row.all.n, row.all.mape), (fit.n_test as usize, fit.error));
            assert!(
                fit.geometric_error.is_none_or(|error| (row.kernels.gmae - error).abs() < 1e-12 && error < fit.error),
                "{}",
                fit.source
            );
            assert!(row.all.p90.is_nan(), "a mean says nothing of percentiles");
        }
        let link = models.links().iter().find(|link| link.curves.iter().any(|curve| curve.n > 0)).unwrap();
        let curve = link.curves.iter().find(|curve| curve.n > 0).unwrap();
        assert!(of(&format!("{} x{}", curve.collective, curve.ranks), &link.id).is_some());
    }
}

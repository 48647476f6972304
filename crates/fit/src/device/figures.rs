//! What a calibration finds besides the fits of domains: figures, curves of copies and collectives, and factors of models that are not
//! fitted as a whole.

use std::collections::BTreeMap;

use super::super::collectives::{CollectiveRow, fit_curve, fit_three_regions};
use super::super::curve::bandwidth_curve;
use super::super::{ErrorSummary, FitErrors, Measurement, fit_scale, is_held_out, summarise};
use super::{DeviceCalibration, DomainReport, Model};
use crate::scale::FEWEST_SCALED;
use retime_core::cost::copies::{copy_curves, copy_us};
use retime_core::cost::domain::Domain;
use retime_core::cost::fits::Fits;
use retime_core::cost::scale::ScaleKind;
use retime_core::cost::work::{Route, Shape, Work};
use retime_core::cost::{CostModels, roofline};
use retime_core::device::{DeviceProfile, Links};
use retime_core::units::BytesPerSec;

impl DeviceCalibration {
    /// Bandwidths that the measurements show directly.
    pub(super) fn measure_figures(&mut self, device: &DeviceProfile, rows: &[Measurement]) {
        let rates = |wanted: &dyn Fn(&Work) -> bool, floor: u64| {
            let large = rows.iter().filter(|row| wanted(&row.work) && row.work.written.0 >= floor);
            let mut rates: Vec<f64> = large.map(|row| row.work.bytes().0 as f64 / row.us / 1e3).collect();
            rates.sort_by(f64::total_cmp);
            rates
        };
        let host = rates(&|work| matches!(work.shape, Shape::Copy { route: Route::HostToDevice, .. }), 4 << 20);
        if let Some(best) = host.get(host.len() * 9 / 10) {
            // Both sides of a copy count as traffic; large copies reach 0.8 of the link.
            self.figures.insert("host_link_gb_s", round(best / 2.0 / 0.8));
        }
        let streams =
            |work: &Work| Domain::of(work) == Some(Domain::Streaming) && work.flop.0 < 16.0 * work.bytes().0 as f64;
        let memory = rates(&streams, 4 * device.l2.0);
        if let Some(best) = memory.get(memory.len() * 9 / 10).filter(|_| memory.len() >= 5) {
            self.figures.insert("dram_measured_gb_s", round(best.min(device.dram_bandwidth.0 / 1e9)));
        }
        let streaming: Vec<(f64, f64)> =
            rows.iter().filter(|row| streams(&row.work)).map(|row| (row.work.bytes().0 as f64, row.us)).collect();
        self.dram_curve = bandwidth_curve(&streaming);
    }

    /// `device` with what was measured of it.
    pub(super) fn with_figures(&self, mut device: DeviceProfile) -> DeviceProfile {
        let rate = |key| self.figures.get(key).map(|gb_s| BytesPerSec(gb_s * 1e9));
        device.dram_bandwidth_measured = rate("dram_measured_gb_s").or(device.dram_bandwidth_measured);
        device.host_link = rate("host_link_gb_s").unwrap_or(device.host_link);
        device
    }

    /// Curves of copies by route and kind of host memory.
    pub(super) fn fit_copies(&mut self, device: &DeviceProfile, rows: &[Measurement]) {
        let copies = || rows.iter().filter(|row| matches!(row.work.shape, Shape::Copy { .. }));
        self.copies = copy_curves(copies().map(|row| (&row.work, device, row.us))).into_iter().collect();
        for ((_, route, pinned), curve) in &self.copies {
            let same = || copies().filter(|row| row.work.shape == Shape::Copy { route: *route, pinned: *pinned });
            let memory = pinned.map_or("", |pinned| if pinned { ", pinned" } else { ", pageable" });
            // The stated error is of every other row, which took no part; the plain figures are the baseline.
            let errors = ErrorSummary::of_mean(same().count() / 2, curve.error);
            let figures = summarise(same().filter_map(|row| Some((copy_us(&row.work, device, None)?.0, row.us))));
            self.report.push(DomainReport {
                domain: format!("copies {}{memory}", route.name()),
                model: format!("start {:.1} µs, rate ×{:.2}", curve.start_us, curve.rate),
                n_train: (same().count() - same().count() / 2) as u32,
                errors: FitErrors { roofline: figures, ..FitErrors::of(errors) },
                network: None,
            });
        }
        let left = copies().filter(|row| {
            let Shape::Copy { route, pinned } = row.work.shape else { return false };
            self.copies.iter().all(|((_, of, memory), _)| (*of, *memory) != (route, pinned))
        });
        let count = left.count();
        if count > 0 {
            self.unused.push(format!("{count} copies: fewer than 4 of their kind"));
        }
    }

    /// Factors of lookups, strided kernels and gradients over what the models say of them without.
    pub(super) fn fit_scales(&mut self, device: &DeviceProfile, known: &Fits, rows: &[Measurement]) {
        let mut fits = known.clone();
        for fit in &self.fits {
            // A fit of the wrong length cannot come out of a calibration.
            let _ = fits.add(fit.clone());
        }
        let Ok(links) = Links::builtin() else { return };
        let models = CostModels::new(fits, links);
        for kind in ScaleKind::ALL {
            let own: Vec<&Measurement> = rows.iter().filter(|row| ScaleKind::of(&row.work) == Some(kind)).collect();
            if own.is_empty() {
                continue;
            }
            let Some((scale, errors)) = fit_scale(kind, &own, &models, device) else {
                self.unused.push(format!("{} rows of {}: at least {FEWEST_SCALED} are needed", own.len(), kind.name()));
                continue;
            };
            let over = |predict: &dyn Fn(&Work) -> f64| {
                summarise(own.iter().filter(|row| is_held_out(&row.work)).map(|row| (predict(&row.work), row.us)))
            };
            self.report.push(DomainReport {
                domain: kind.name().to_owned(),
                model: format!("factor {:.2}", scale.factor),
                n_train: scale.n,
                errors: FitErrors {
                    structured: over(&|work| {
                        models.estimate(work, device).map_or(0.0, |one| one.duration.0 as f64 / 1e3)
                    }),
                    curve: over(&|work| roofline::curve_us(work, device)),
                    roofline: over(&|work| roofline::roofline_us(work, device)),
                    ..FitErrors::of(errors)
                },
                network: None,
            });
            self.scales.push(scale);
        }
    }

    pub(super) fn fit_curves(&mut self, rows: &[CollectiveRow], model: Model) {
        let mut groups: BTreeMap<(&str, u32), Vec<&CollectiveRow>> = BTreeMap::new();
        for row in rows.iter().filter(|row| !row.between_nodes) {
            groups.entry((row.collective, row.ranks)).or_default().push(row);
        }
        let outside = rows.iter().filter(|row| row.between_nodes).count();
        if outside > 0 {
            self.unused
                .push(format!("{outside} rows of collectives between nodes (a device file holds those within one)"));
        }
        let regions = model == Model::ThreeRegion;
        for ((collective, ranks), rows) in groups {
            let source = format!("calibrated from {} measurements", rows.len());
            let found = if regions { fit_three_regions(&rows, &source) } else { fit_curve(&rows, &source) };
            let Some((curve, errors)) = found else {
                let needed =
                    if regions { "sixteen sizes are needed, eight in each half" } else { "three sizes are needed" };
                self.unused.push(format!("{} rows of {collective} x{ranks}: {needed}", rows.len()));
                continue;
            };
            self.report.push(DomainReport {
                domain: format!("{collective} x{ranks}"),
                model: if regions { "collective-sigmoid" } else { "collective-curve" }.to_owned(),
                n_train: curve.n,
                errors: FitErrors { curve: errors, ..FitErrors::of(errors) },
                network: None,
            });
            self.curves.push(curve);
        }
    }
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

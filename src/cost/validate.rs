//! How wrong the models are on measurements: per domain and device, on rows that no fit has seen, with baselines beside.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::device::{Catalog, DeviceProfile};

use super::calibrate::collectives::{CollectiveRow, collective_rows, fit_curve};
use super::calibrate::{
    ErrorSummary, FitError, Measurement, assess, is_held_out, kernel_measurements, lookup_measurements, measurements,
    summarise,
};
use super::domain::Domain;
use super::models::CostModels;
use super::roofline;
use super::work::Work;

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValidationRow {
    /// Domain, or what was measured.
    pub family: String,
    /// Device or interconnect, by id.
    pub device: String,
    /// The model asked.
    pub model: &'static str,
    /// Whether the device had a fit, and the rows are those it has not seen.
    pub held_out: bool,
    /// All rows.
    pub all: ErrorSummary,
    /// Rows that count: well above the host's floor where whole calls were measured, from 5 µs for products on tensor
    /// cores, from 200 µs for convolutions.
    pub kernels: ErrorSummary,
    /// The structured model alone, on the rows that count.
    pub structured: ErrorSummary,
    /// Data-movement curve and host floor, on the rows that count.
    pub curve: ErrorSummary,
    /// The plain roofline, on the rows that count.
    pub roofline: ErrorSummary,
    /// Mean absolute error of a network trained on the same rows, on held-out rows; none where none was tried.
    pub network: Option<f64>,
    /// Mean absolute error aimed at; none where no aim was set.
    pub target: Option<f64>,
    /// Whether it was reached; none without an aim.
    pub met: Option<bool>,
    /// Why it was not, where that is known.
    pub reason: Option<&'static str>,
}

/// What keeps a fit from its aim where it is the measurements: scatter between calls that launch the same grid of the same
/// kernel with reductions within 5 % of one another, time per step of the reduction (mean difference over √2; pairs).
fn scatter(domain: Domain, device: &str) -> Option<&'static str> {
    match (domain, device) {
        (Domain::BatchedGemm, "T4") => Some("like calls scatter by 17 % in the table (33 pairs)"),
        (Domain::BatchedGemm, "L4") => Some("like calls scatter by 12 % in the table (26 pairs)"),
        (Domain::Linear, "T4") => Some("like calls scatter by 5 % in the table (63 pairs)"),
        (Domain::Linear, "L4") => Some("like calls scatter by 3.5 % in the table (46 pairs)"),
        _ => None,
    }
}

/// Mean absolute error aimed at on a device with a fit.
fn target(domain: Domain) -> f64 {
    match domain {
        Domain::Linear => 0.07,
        Domain::BatchedGemm | Domain::Attention => 0.04,
        Domain::Gemm16 => 0.05,
        Domain::Gemm8 => 0.06,
        Domain::Conv => 0.15,
        Domain::Norm | Domain::Softmax | Domain::Streaming => 0.025,
    }
}

/// Mean absolute error aimed at on a device without a fit; none where it is only reported.
fn unseen_target(domain: Domain) -> Option<f64> {
    match domain {
        Domain::Linear | Domain::BatchedGemm => Some(0.20),
        Domain::Gemm16 | Domain::Norm | Domain::Softmax | Domain::Streaming => Some(0.15),
        Domain::Gemm8 => Some(0.25),
        Domain::Conv => Some(0.22),
        Domain::Attention => None,
    }
}

/// Measured times below this do not count, in µs.
fn smallest_us(domain: Domain) -> f64 {
    match domain {
        Domain::Gemm16 | Domain::Gemm8 => 5.0,
        Domain::Conv => 200.0,
        _ => 0.0,
    }
}

/// Mean absolute error aimed at for collectives of a measured topology.
const COLLECTIVE_TARGET: f64 = 0.06;

/// The table for the measurements in `files` (name and contents), in order of family and device. Devices that the catalog
/// does not know are left out.
///
/// # Errors
/// The first file that cannot be used, with its name.
pub fn validate_models(
    models: &CostModels,
    catalog: &Catalog,
    files: &[(String, String)],
) -> Result<Vec<ValidationRow>, (String, FitError)> {
    let mut groups: BTreeMap<(Domain, String), Vec<Measurement>> = BTreeMap::new();
    let (mut lookups, mut collectives, mut traced) = (Vec::new(), Vec::new(), Vec::new());
    for (name, text) in files {
        let failed = |error| (name.clone(), error);
        if text.starts_with("system,nccl_version") {
            collectives.extend(collective_rows(text).map_err(failed)?);
        } else if let Some((rows, _)) = kernel_measurements(text).map_err(failed)? {
            traced.extend(rows);
        } else if let Some(rows) = lookup_measurements(text).map_err(failed)? {
            lookups.extend(rows);
        } else {
            for row in measurements(text).map_err(failed)? {
                match (Domain::of(&row.work), catalog.find(&row.device)) {
                    (Some(domain), Ok(device)) => groups.entry((domain, device.id.clone())).or_default().push(row),
                    (None, Ok(_)) => lookups.push(row),
                    (_, Err(_)) => {}
                }
            }
        }
    }
    let mut table: Vec<ValidationRow> = groups
        .into_iter()
        .filter_map(|((domain, id), rows)| {
            catalog.find(&id).ok().map(|device| domain_row(models, domain, device, &rows))
        })
        .collect();
    let measured: BTreeSet<Domain> =
        table.iter().filter_map(|row| Domain::ALL.into_iter().find(|domain| domain.name() == row.family)).collect();
    table.extend(measured.into_iter().filter_map(|domain| unseen_row(models, domain)));
    table.extend(traced_rows(models, catalog, &traced));
    table.extend(lookup_rows(models, catalog, &lookups));
    table.extend(collective_table(&collectives));
    Ok(table)
}

fn domain_row(models: &CostModels, domain: Domain, device: &DeviceProfile, rows: &[Measurement]) -> ValidationRow {
    let own = models.fits().find(domain, &device.id).filter(|fit| fit.devices.first() == Some(&device.id));
    let Some(fit) = own else { return unfitted_row(models, domain, device, rows) };
    let held_out: Vec<&Measurement> = rows.iter().filter(|row| is_held_out(&row.work)).collect();
    let counted: Vec<&Measurement> = held_out.iter().copied().filter(|row| row.us >= smallest_us(domain)).collect();
    let (all, counted) = (assess(fit, device, &held_out), assess(fit, device, &counted));
    let aim = target(domain);
    ValidationRow {
        family: domain.name().to_owned(),
        device: device.id.clone(),
        model: fit.choice.name(),
        held_out: true,
        all: all.held_out,
        kernels: counted.kernels,
        structured: counted.structured,
        curve: counted.curve,
        roofline: counted.roofline,
        network: fit.network_error,
        target: Some(aim),
        met: Some(counted.kernels.mape <= aim),
        reason: scatter(domain, &device.id).filter(|_| counted.kernels.mape > aim),
    }
}

/// A device without a fit of its own: every row is unseen. Whole calls of such devices are compared as they are.
fn unfitted_row(models: &CostModels, domain: Domain, device: &DeviceProfile, rows: &[Measurement]) -> ValidationRow {
    let counted = || rows.iter().filter(|row| row.us >= smallest_us(domain));
    let over = |predict: &dyn Fn(&Work) -> f64| summarise(counted().map(|row| (predict(&row.work), row.us)));
    let estimate = |work: &Work| models.estimate(work, device).map_or(0.0, |estimate| estimate.duration.0 as f64 / 1e3);
    ValidationRow {
        family: domain.name().to_owned(),
        device: device.id.clone(),
        model: "structured-unseen",
        held_out: false,
        all: summarise(rows.iter().map(|row| (estimate(&row.work), row.us))),
        kernels: over(&estimate),
        structured: over(&|work| super::models::unfitted_us(work, device).unwrap_or(0.0)),
        curve: over(&|work| roofline::curve_us(work, device)),
        roofline: over(&|work| roofline::roofline_us(work, device)),
        network: None,
        target: None,
        met: None,
        reason: None,
    }
}

/// Each fitted device in turn predicted from the devices of other chips, as the fits' makers found it; `n` counts devices.
fn unseen_row(models: &CostModels, domain: Domain) -> Option<ValidationRow> {
    let unseen = models.fits().unseen(domain)?;
    let none = ErrorSummary::default();
    let mean = ErrorSummary { n: unseen.devices as usize, mape: unseen.error, ..none };
    let target = unseen_target(domain);
    Some(ValidationRow {
        family: domain.name().to_owned(),
        device: "left out in turn".to_owned(),
        model: "structured-unseen",
        held_out: true,
        all: mean,
        kernels: mean,
        structured: mean,
        curve: none,
        roofline: none,
        network: None,
        target,
        met: target.map(|aim| unseen.error <= aim),
        reason: None,
    })
}

/// Kernels of traces, by family: the times are of kernels, and no fit has seen any of them.
fn traced_rows(models: &CostModels, catalog: &Catalog, rows: &[Measurement]) -> Vec<ValidationRow> {
    let mut groups: BTreeMap<(&'static str, String), Vec<&Measurement>> = BTreeMap::new();
    for row in rows {
        let Ok(device) = catalog.find(&row.device) else { continue };
        groups.entry((row.work.family.name(), device.id.clone())).or_default().push(row);
    }
    let summed = |((family, id), rows): ((&str, String), Vec<&Measurement>)| {
        let device = catalog.find(&id).ok()?;
        let over = |predict: &dyn Fn(&Work) -> f64| summarise(rows.iter().map(|row| (predict(&row.work), row.us)));
        let all = over(&|work| models.estimate(work, device).map_or(0.0, |found| found.duration.0 as f64 / 1e3));
        Some(ValidationRow {
            family: format!("traced {family}"),
            device: id,
            model: "estimate",
            held_out: true,
            all,
            kernels: all,
            structured: over(&|work| super::models::unfitted_us(work, device).unwrap_or(0.0)),
            curve: over(&|work| roofline::curve_us(work, device)),
            roofline: over(&|work| roofline::roofline_us(work, device)),
            network: None,
            target: None,
            met: None,
            reason: None,
        })
    };
    groups.into_iter().filter_map(summed).collect()
}

/// Lookups, forward and backward apart; nothing was fitted to them.
fn lookup_rows(models: &CostModels, catalog: &Catalog, rows: &[Measurement]) -> Vec<ValidationRow> {
    let mut groups: BTreeMap<(&'static str, String), Vec<&Measurement>> = BTreeMap::new();
    for row in rows {
        let super::work::Shape::Embedding { backward, .. } = row.work.shape else { continue };
        let Ok(device) = catalog.find(&row.device) else { continue };
        let family = if backward { "embedding backward" } else { "embedding forward" };
        groups.entry((family, device.id.clone())).or_default().push(row);
    }
    groups
        .into_iter()
        .filter_map(|((family, id), rows)| {
            let device = catalog.find(&id).ok()?;
            let over = |predict: &dyn Fn(&Work) -> f64| summarise(rows.iter().map(|row| (predict(&row.work), row.us)));
            let estimate =
                |work: &Work| models.estimate(work, device).map_or(0.0, |found| found.duration.0 as f64 / 1e3);
            let all = over(&estimate);
            let roofline = over(&|work| roofline::roofline_us(work, device));
            let curve = over(&|work| roofline::curve_us(work, device));
            let (family, model) = (family.to_owned(), "embedding-enhanced");
            Some(ValidationRow {
                family,
                device: id,
                model,
                held_out: false,
                all,
                kernels: all,
                structured: all,
                curve,
                roofline,
                network: None,
                target: None,
                met: None,
                reason: None,
            })
        })
        .collect()
}

/// Collectives: every other size is predicted from a curve through the rest.
fn collective_table(rows: &[CollectiveRow]) -> Vec<ValidationRow> {
    let mut groups: BTreeMap<(&str, &str, u32), Vec<&CollectiveRow>> = BTreeMap::new();
    for row in rows {
        groups.entry((&row.system, row.collective, row.ranks)).or_default().push(row);
    }
    groups
        .into_iter()
        .filter_map(|((system, collective, ranks), rows)| {
            let (_, all) = fit_curve(&rows, system)?;
            let none = ErrorSummary::default();
            Some(ValidationRow {
                family: format!("{collective} x{ranks}"),
                device: system.to_owned(),
                model: "collective-curve",
                held_out: true,
                all,
                kernels: all,
                structured: none,
                curve: none,
                roofline: none,
                network: None,
                target: Some(COLLECTIVE_TARGET),
                met: Some(all.mape <= COLLECTIVE_TARGET),
                reason: None,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_a_known_device_is_summed_up_by_domain() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let row = |m: u32| format!("h100_sxm,bfloat16,{m},4096,4096,{}\n", 2.0 * f64::from(m) * 4096.0 * 4096.0 / 6e11);
        let rows: String = [256, 512, 1024, 2048, 4096, 8192, 300, 700, 900, 1100, 1300].map(row).concat();
        let text = format!("system,gemm_dtype,m,n,k,latency_ms\n{rows}");
        let table = validate_models(&models, &catalog, &[("x.csv".to_owned(), text)]).unwrap();
        assert_eq!((table.len(), table[0].family.as_str(), table[0].device.as_str()), (2, "gemm16", "H100-SXM"));
        assert_eq!((table[1].family.as_str(), table[1].device.as_str()), ("gemm16", "left out in turn"));
    }

    #[test]
    fn a_bad_file_is_named() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let failed = validate_models(&models, &catalog, &[("bad.csv".to_owned(), "a\n1\n".to_owned())]).unwrap_err();
        assert_eq!(failed, ("bad.csv".to_owned(), FitError::UnknownFormat));
    }
}

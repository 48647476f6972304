//! Fitting one domain on one device: the structured model's parameters, then trees on what they leave over.

use std::collections::BTreeSet;

use serde::Serialize;

use super::forest::{Hyperparameters, enough, grow};
use super::held_out::{is_held_out, is_validation};
use super::mlp::{MlpConfig, search as search_network, train};
use super::search::minimise;
use super::structure::{KERNEL_OVER_FLOOR, TrainingRow, search, training_rows};
use super::{ErrorSummary, FitError, FitPrior, Measurement, Sample, summarise};
use retime_core::cost::call_overhead::BEFORE;
use retime_core::cost::domain::Domain;
use retime_core::cost::features::{features, sizes};
use retime_core::cost::fits::{Choice, Fit};
use retime_core::cost::forest::Forest;
use retime_core::cost::mlp::{Mlp, paper_features};
use retime_core::cost::operators::{GemmSize, gemm_work};
use retime_core::cost::roofline;
use retime_core::cost::significant::significant;
use retime_core::cost::structured::{BANDWIDTH, COMPUTE, START_US, defaults, structured_us, without_power_limit};
use retime_core::cost::work::Work;
use retime_core::device::{DeviceProfile, Precision};
use retime_core::graph::DType;

/// Fewest measurements that parameters and trees are fitted to.
pub(super) const FEWEST: usize = 60;
/// Fewest measurements that the three device constants are fitted to.
pub(super) const FEWEST_QUICK: usize = 5;
/// Least part of a call that is its kernel, for trees to learn from a kernel measured alone what they say of such calls.
const LEAST_SENSITIVITY: f64 = 0.5;

/// A fit and its errors on held-out rows.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The fit.
    pub fit: Fit,
    /// Its errors.
    pub errors: FitErrors,
}

/// Errors of a fit and of baselines on the same rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FitErrors {
    /// The fit on all rows (for a quick fit: each row predicted from the others).
    pub held_out: ErrorSummary,
    /// The same on rows well above the call overhead: what counts for kernels.
    pub kernels: ErrorSummary,
    /// The structured model alone, on those of `kernels`.
    pub structured: ErrorSummary,
    /// The data-movement curve (where the device has one) and the call overhead, on those of `kernels`.
    pub curve: ErrorSummary,
    /// The plain roofline, on those of `kernels`.
    pub roofline: ErrorSummary,
}

impl FitErrors {
    /// `errors` without baselines.
    pub(crate) fn of(errors: ErrorSummary) -> Self {
        let none = ErrorSummary::default();
        Self { held_out: errors, kernels: errors, structured: none, curve: none, roofline: none }
    }
}

/// How the candidates of a fit are made.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// How trees grow.
    pub hyperparameters: Hyperparameters,
    /// Networks tried.
    pub networks: Vec<MlpConfig>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self { hyperparameters: Hyperparameters::default(), networks: MlpConfig::small_grid() }
    }
}

/// Fits `sample`: parameters by search on up to 2000 rows; then, of trees, a network, the structured model alone and the curve, the
/// one with the least error on part of the rows, trained on all of them but the held-out ones. The same rows give the same
/// fit, to the last digit.
///
/// # Errors
/// Fewer than 60 measurements beside those held out, or none held out.
pub fn calibrate(
    sample: Sample<'_>,
    prior: FitPrior<'_>,
    source: &str,
    tuning: &Tuning,
) -> Result<Calibrated, FitError> {
    let (test, train): (Vec<&Measurement>, Vec<&Measurement>) =
        sample.rows.iter().partition(|row| is_held_out(&row.work));
    if train.len() < FEWEST || test.is_empty() {
        let (rows, held_out, domain) = (sample.rows.len(), test.len(), sample.domain.name());
        return Err(FitError::TooFewBeside { rows, held_out, domain, needed: FEWEST });
    }
    let (groups, calls) = training_rows(&sample, prior);
    let training_rows = groups.concat();
    let (parameters, host) = search(sample.domain, &[groups, calls].concat(), prior.common);
    let mut fit = Fit {
        domain: sample.domain,
        devices: vec![sample.device.id.clone()],
        choice: Choice::default(),
        parameters,
        host_floor_us: host.us,
        host_before: host.before,
        error: 0.0,
        geometric_error: None,
        structured_error: 0.0,
        sibling_error: 0.0,
        network_error: None,
        n_train: train.len() as u32,
        n_test: test.len() as u32,
        ranges: ranges(sample.domain, training_rows.iter().map(|one| one.row)),
        precisions: precisions(training_rows.iter().map(|one| one.row)),
        source: source.to_owned(),
        network: None,
        dram_gb_s: significant(sample.device.dram_bandwidth.0 / 1e9, 6),
        forest: Forest::default(),
    };
    let (candidate, config) = chosen(&fit, sample.device, &training_rows, tuning);
    fit.choice = candidate.choice;
    if candidate.network.is_some() {
        let network = Fit { choice: Choice::Mlp, ..candidate.clone() };
        fit.network_error = Some(significant(assess(&network, sample.device, &test).kernels.mape, 3));
    }
    match fit.choice {
        Choice::StructuredTrees => {
            let hyperparameters = Hyperparameters { trees: candidate.forest.len(), ..tuning.hyperparameters };
            fit.forest = residual(&fit, &training_rows, hyperparameters);
        }
        Choice::Mlp => fit.network = config.and_then(|config| trained(&training_rows, &config)),
        Choice::Structured | Choice::Curve => {}
    }
    let errors = assess(&fit, sample.device, &test);
    fit.error = significant(errors.kernels.mape, 4);
    fit.geometric_error = Some(significant(errors.kernels.gmae, 4));
    fit.structured_error = significant(errors.structured.mape, 4);
    Ok(Calibrated { fit, errors })
}

/// Most rows that a network is trained on, and rows that the grid of networks is searched with.
const TRAINED: usize = 4_000;
const SEARCHED_BY_NETWORKS: usize = 800;

/// `fit` with all candidates trained on part of the rows and the choice that has the least error on the rest; and the network's
/// configuration.
fn chosen(
    fit: &Fit,
    device: &DeviceProfile,
    training_rows: &[TrainingRow<'_>],
    tuning: &Tuning,
) -> (Fit, Option<MlpConfig>) {
    let (validation, training): (Vec<TrainingRow<'_>>, Vec<TrainingRow<'_>>) =
        training_rows.iter().partition(|one| is_validation(&one.row.work));
    let validation: Vec<TrainingRow<'_>> = validation.into_iter().filter(|one| one.device.id == device.id).collect();
    let (rows, targets) = network_rows(&training, SEARCHED_BY_NETWORKS);
    let config = search_network(&rows, &targets, &tuning.networks).map(|(_, config)| config);
    let mut best = Fit { network: config.and_then(|config| trained(&training, &config)), ..fit.clone() };
    best.forest = residual(fit, &training, tuning.hyperparameters);
    let (rows, targets) = residual_rows(fit, &validation);
    let enough = enough(&best.forest, &rows, &targets);
    best.forest = best.forest.part(0, enough);
    let validation: Vec<&Measurement> = validation.iter().map(|one| one.row).collect();
    let error = |choice: Choice| assess(&Fit { choice, ..best.clone() }, device, &validation).kernels.mape;
    let choices = [Choice::StructuredTrees, Choice::Structured, Choice::Mlp, Choice::Curve];
    let tried = choices.into_iter().filter(|choice| *choice != Choice::Mlp || best.network.is_some());
    let least = tried.map(|choice| (error(choice), choice)).min_by(|a, b| a.0.total_cmp(&b.0));
    best.choice = least.map(|(_, choice)| choice).unwrap_or_default();
    (best, config)
}

/// The papers' features and logarithms of times of up to `most` of `rows`, evenly spread.
fn network_rows(rows: &[TrainingRow<'_>], most: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
    let step = rows.len().div_ceil(most).max(1);
    let row = |TrainingRow { row, .. }: &TrainingRow<'_>| Some((paper_features(&row.work)?, row.us.ln()));
    rows.iter().step_by(step).filter_map(row).unzip()
}

fn trained(rows: &[TrainingRow<'_>], config: &MlpConfig) -> Option<Mlp> {
    let (rows, targets) = network_rows(rows, TRAINED);
    train(&rows, &targets, config)
}

/// Whether `row` is the kernel's: measured alone, or well longer than the host's floor.
pub(crate) fn is_kernel(fit: &Fit, device: &DeviceProfile, row: &Measurement) -> bool {
    !row.is_call()
        || structured_us(fit.domain, &row.work, device, &fit.parameters) >= KERNEL_OVER_FLOOR * fit.host_floor_us
}

/// Errors of `fit` on `rows` of `device`, with the baselines.
pub fn assess(fit: &Fit, device: &DeviceProfile, rows: &[&Measurement]) -> FitErrors {
    let kernel = |row: &Measurement| structured_us(fit.domain, &row.work, device, &fit.parameters);
    let called = |us: f64, row: &Measurement| if row.is_call() { fit.host().call_us(us) } else { us };
    let own: Vec<&&Measurement> = rows.iter().filter(|row| is_kernel(fit, device, row)).collect();
    let over = |predict: &dyn Fn(&Measurement) -> f64| summarise(own.iter().map(|row| (predict(row), row.us)));
    let predicted = |row: &Measurement| predicted_us(fit, device, row);
    FitErrors {
        held_out: summarise(rows.iter().map(|row| (predicted(row), row.us))),
        kernels: over(&predicted),
        structured: over(&|row| called(kernel(row), row)),
        roofline: over(&|row| roofline::roofline_us(&row.work, device)),
        curve: over(&|row| called(roofline::curve_us(&row.work, device), row)),
    }
}

/// What `fit` says of `row`: of the whole call where that was measured.
pub(crate) fn predicted_us(fit: &Fit, device: &DeviceProfile, row: &Measurement) -> f64 {
    if row.is_call() { fit.whole_call_us(&row.work, device) } else { fit.kernel_us(&row.work, device) }
}

/// Share of those of `rows` that are kernels within the error that `fit` states of its own table's: the claim of the *same run*.
pub(crate) fn share_inside(fit: &Fit, device: &DeviceProfile, rows: &[&Measurement]) -> Option<f64> {
    let within = |row: &&&Measurement| {
        let us = predicted_us(fit, device, row);
        (row.us - us).abs() <= fit.error * us
    };
    let kernels: Vec<&&Measurement> = rows.iter().filter(|row| is_kernel(fit, device, row)).collect();
    let inside = kernels.iter().copied().filter(within).count();
    (!kernels.is_empty()).then(|| inside as f64 / kernels.len() as f64)
}

/// Trees on the logarithm of measured over structured.
fn residual(fit: &Fit, training_rows: &[TrainingRow<'_>], hyperparameters: Hyperparameters) -> Forest {
    let (rows, targets) = residual_rows(fit, training_rows);
    grow(&rows, &targets, hyperparameters)
}

/// What trees ask of each training and are to answer. They speak of whole calls; a kernel measured alone counts as much as it would
/// be of its call, the way predictions of kernels undo it.
fn residual_rows(fit: &Fit, training_rows: &[TrainingRow<'_>]) -> (Vec<Vec<f32>>, Vec<f64>) {
    let row = |one: &TrainingRow<'_>| {
        let kernel = structured_us(fit.domain, &one.row.work, one.device, &fit.parameters);
        let (whole, sensitivity) = (fit.host().call_us(kernel), fit.host().sensitivity(kernel));
        let target = match one.has_floor {
            true => (one.us / whole.max(1e-6)).ln(),
            false if sensitivity >= LEAST_SENSITIVITY => (one.us / kernel.max(1e-6)).ln() / sensitivity,
            false => return None,
        };
        Some((features(fit.domain, &one.row.work, one.device, whole), target.clamp(-1.9, 1.9)))
    };
    training_rows.iter().filter_map(row).unzip()
}

/// Smallest and largest of each size among `rows`.
fn ranges<'a>(domain: Domain, rows: impl Iterator<Item = &'a Measurement>) -> Vec<(f32, f32)> {
    let mut ranges: Vec<(f32, f32)> = Vec::new();
    for row in rows {
        let sizes = sizes(domain, &row.work);
        ranges.resize(sizes.len(), (f32::INFINITY, f32::NEG_INFINITY));
        for (range, size) in ranges.iter_mut().zip(sizes) {
            *range = (range.0.min(size), range.1.max(size));
        }
    }
    ranges
}

fn precisions<'a>(rows: impl Iterator<Item = &'a Measurement>) -> Vec<Precision> {
    rows.map(|row| row.work.precision).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Five products that tell a device's three constants: two bound by arithmetic, two by bandwidth, one by its floor.
pub fn quick_shapes() -> [GemmSize; 5] {
    let size = |m, n, k| GemmSize { batch: 1, m, n, k };
    [size(4096, 4096, 4096), size(8192, 8192, 2048), size(16, 8192, 8192), size(8192, 64, 8192), size(32, 32, 32)]
}

/// Fits only the three device constants (share of peak arithmetic, share of bandwidth, floor) to a handful of measurements,
/// the rest as in `base`. Arithmetic and bandwidth need a product bound by each: see [`quick_shapes`]. With the fit, the error
/// on each measurement from constants fitted to the others.
///
/// # Errors
/// Fewer than five measurements.
pub fn calibrate_quick(sample: Sample<'_>, base: &[f64], source: &str) -> Result<(Fit, ErrorSummary), FitError> {
    let (rows, domain) = (sample.rows.len(), sample.domain);
    if rows < FEWEST_QUICK {
        return Err(FitError::TooFew { rows, domain: domain.name(), needed: FEWEST_QUICK });
    }
    let all: Vec<&Measurement> = sample.rows.iter().collect();
    let time = |row: &Measurement, parameters: &[f64]| structured_us(domain, &row.work, sample.device, parameters);
    let parameters = constants(sample, base, &all);
    let left_out = (0..rows.min(LEFT_OUT)).map(|at| {
        let others: Vec<&Measurement> =
            all.iter().copied().enumerate().filter(|(i, _)| *i != at).map(|(_, r)| r).collect();
        (time(all[at], &constants(sample, base, &others)), all[at].us)
    });
    let errors = summarise(left_out);
    let error = errors.mape.max(QUICK_ERROR);
    let fit = Fit {
        domain,
        devices: vec![sample.device.id.clone()],
        choice: Choice::Structured,
        parameters,
        host_floor_us: 0.0,
        host_before: BEFORE,
        error,
        geometric_error: None,
        structured_error: error,
        sibling_error: error,
        network_error: None,
        n_train: rows as u32,
        n_test: 0,
        ranges: ranges(domain, sample.rows.iter()),
        precisions: precisions(sample.rows.iter()),
        source: source.to_owned(),
        network: None,
        dram_gb_s: 0.0,
        forest: Forest::default(),
    };
    Ok((fit, errors))
}

/// The constants of a quick fit of fp32 products, alone or batched, for the other of both: what the chip reaches of its figures, over what
/// was taken before of both, is taken to be alike. `None` of other products.
///
/// # Arguments
/// `of_own`, `of_other`: parameters of both before the fit.
pub(crate) fn carried_quick(fit: &Fit, sample: Sample<'_>, of_own: &[f64], of_other: &[f64]) -> Option<Fit> {
    let domain = counterpart(fit.domain)?;
    let mut parameters = without_power_limit(domain, of_other.to_vec());
    for at in [COMPUTE, BANDWIDTH] {
        let limits = defaults(domain)[at];
        let ratio = fit.parameters[at] / without_power_limit(fit.domain, of_own.to_vec())[at].max(f64::MIN_POSITIVE);
        parameters[at] = (parameters[at] * ratio).clamp(limits.min, limits.max);
    }
    parameters[START_US] = fit.parameters[START_US];
    let error = fit.error.max(CARRIED_ERROR);
    Some(Fit {
        domain,
        parameters,
        error,
        structured_error: error,
        sibling_error: error,
        n_train: 0,
        ranges: ranges(domain, sample.rows.iter()),
        source: format!("{}, carried from {}", fit.source, fit.domain.name()),
        ..fit.clone()
    })
}

/// The products that run on the same units as those of `domain` and have parameters of their own.
pub(crate) fn counterpart(domain: Domain) -> Option<Domain> {
    match domain {
        Domain::Linear => Some(Domain::BatchedGemm),
        Domain::BatchedGemm => Some(Domain::Linear),
        _ => None,
    }
}

/// Error stated for constants that were measured on other products: that of batched ones on GPUs whose tables were left out.
const CARRIED_ERROR: f64 = 0.21;

/// Most rows that are left out in turn.
const LEFT_OUT: usize = 60;

fn constants(sample: Sample<'_>, base: &[f64], rows: &[&Measurement]) -> Vec<f64> {
    let bounds: Vec<(f64, f64)> =
        defaults(sample.domain).iter().map(|parameter| (parameter.min, parameter.max)).collect();
    let cost = |p: &[f64]| {
        let error = |row: &&Measurement| {
            (structured_us(sample.domain, &row.work, sample.device, p) / row.us).max(1e-9).ln().abs()
        };
        rows.iter().map(error).sum::<f64>()
    };
    let start = without_power_limit(sample.domain, base.to_vec());
    minimise(&start, &bounds, &[COMPUTE, BANDWIDTH, START_US], 60, cost).0
}

/// Error of three constants from five products on a device that nobody measured otherwise [ACCURACY: 12 % on L4].
const QUICK_ERROR: f64 = 0.12;

/// The work of one of [`quick_shapes`] in `dtype`.
pub fn quick_work(size: GemmSize, dtype: DType) -> Work {
    gemm_work(size, dtype, false, 0)
}

//! Traced kernels compared with the models: errors by family and device, and whether stated bands hold for a trace that is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use serde::Serialize;

use super::TracedKernel;
use super::errors::{Coverage, KernelError, coverage, inside_left_out, trace_errors};
use crate::{ErrorSummary, summarise};
use retime_core::cost::models::CostModels;
use retime_core::cost::prediction::Estimate;
use retime_core::cost::roofline;
use retime_core::cost::trace_error::{TraceError, group, trace_error};
use retime_core::cost::work::{Family, Shape};

/// Errors of one family on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TracedRow {
    /// The family; gradients of attention and lookups apart.
    pub family: String,
    /// Device by id.
    pub device: String,
    /// Kernels traced.
    pub kernels: usize,
    /// Time of all of them in µs.
    pub measured_us: f64,
    /// Part of that time whose work no model covers.
    pub unmodelled_share: f64,
    /// What the models say of the rest, over what it took.
    pub predicted_over_measured: f64,
    /// Kernels, of those that a model covers, so short that their trace's clock does not tell their time: under ten of its steps.
    pub short: usize,
    /// What the models say of those, over what was written.
    pub short_predicted_over_measured: f64,
    /// Errors by kernel of the rest.
    pub errors: ErrorSummary,
    /// Those of kernels that had the device for themselves.
    pub alone: ErrorSummary,
    /// Those of kernels that shared the device: what others took from them is in the measured times.
    pub beside: ErrorSummary,
    /// Share of those that lie inside a band as wide as the errors of the other traces; two in three are claimed.
    pub inside: Option<f64>,
    /// The same with the band that predictions state, which these traces had a part in.
    pub inside_stated: Option<f64>,
    /// Those of the plain roofline.
    pub roofline: ErrorSummary,
    /// Kernels whose predictions err by most time, all calls of a name together.
    pub worst: Vec<LargestError>,
}

/// All calls of one kernel whose predictions err.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LargestError {
    /// Its name.
    pub name: String,
    /// Calls.
    pub count: usize,
    /// What they took in µs.
    pub measured_us: f64,
    /// What they were to take in µs.
    pub predicted_us: f64,
}

/// Steps of a clock from which a time is told to some percent.
const RESOLVED: f64 = 10.0;
/// How many kernels of a family are named.
const NAMED: usize = 3;

/// Family of a row: gradients that have a model of their own are told apart.
fn row_family(kernel: &TracedKernel<'_>) -> String {
    let is_backward = kernel.work.as_ref().is_some_and(|work| {
        matches!(work.shape, Shape::Attention { backward: true, .. } | Shape::Embedding { backward: true, .. })
    });
    if is_backward { format!("{} backward", kernel.family.name()) } else { kernel.family.name().to_owned() }
}

/// What traces say of models.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TracedAnswer {
    /// Families by device.
    pub rows: Vec<TracedRow>,
    /// Errors of unanchored predictions over kernels that had the device for themselves, by domain.
    pub errors: Vec<TraceError>,
    /// How often bands of those hold for a trace that is left out of them.
    pub coverage: Coverage,
}

/// A kernel with what a model says of it.
struct ScoredKernel<'a> {
    kernel: &'a TracedKernel<'a>,
    estimate: Option<Estimate>,
    /// Mean time in µs of the calls of its kind: to keep those of one kind that happened to take long would be to choose by the error.
    mean_us: f64,
    /// Whether it lies inside the band that other traces give; of kernels alone on the device that the clock tells.
    inside: Option<bool>,
}

impl<'a> ScoredKernel<'a> {
    /// The kernels of one recording.
    fn all(models: &CostModels, kernels: &[&'a TracedKernel<'a>]) -> Vec<Self> {
        let mut times: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for kernel in kernels {
            let (sum, n) = times.entry(kind(kernel)).or_default();
            (*sum, *n) = (*sum + kernel.us, *n + 1.0);
        }
        let scored = |&kernel: &&'a TracedKernel<'a>| {
            let estimate = kernel.work.as_ref().and_then(|work| models.estimate(work, kernel.device));
            let (sum, n) = times[&kind(kernel)];
            Self { kernel, estimate, mean_us: sum / n, inside: None }
        };
        kernels.iter().map(scored).collect()
    }

    fn us(&self) -> Option<f64> {
        self.estimate.map(|estimate| estimate.duration.0 as f64 / 1e3)
    }

    fn is_resolved(&self) -> bool {
        self.mean_us >= RESOLVED * self.kernel.tick_us
    }

    fn error(&self) -> Option<KernelError> {
        let (work, estimate) = (self.kernel.work.as_ref()?, self.estimate?);
        let counts = self.is_resolved() && !self.kernel.shares_device && work.family != Family::Transfer;
        let off = (self.kernel.us / self.us()?.max(1e-3) - 1.0).abs();
        let model = f64::from(estimate.error);
        counts.then(|| KernelError {
            of: group(work),
            is_amd: self.kernel.device.is_amd,
            kind: kind(self.kernel),
            off,
            model,
        })
    }
}

/// Errors of `models` on the kernels of `traces` by family and device; they took part in no fit.
pub fn traced_table(models: &CostModels, traces: &[Vec<TracedKernel<'_>>]) -> TracedAnswer {
    let mut recordings: Vec<Vec<ScoredKernel<'_>>> =
        recordings(traces).iter().map(|kernels| ScoredKernel::all(models, kernels)).collect();
    let errors: Vec<Vec<KernelError>> =
        recordings.iter().map(|trace| trace.iter().filter_map(ScoredKernel::error).collect()).collect();
    let inside = inside_left_out(&errors);
    for (trace, inside) in recordings.iter_mut().zip(&inside) {
        let scored = trace.iter_mut().filter(|scored| scored.error().is_some());
        scored.zip(inside).for_each(|(scored, inside)| scored.inside = Some(*inside));
    }
    let mut groups: BTreeMap<(String, &str), Vec<&ScoredKernel<'_>>> = BTreeMap::new();
    for scored in recordings.iter().flatten() {
        groups.entry((row_family(scored.kernel), &scored.kernel.device.id)).or_default().push(scored);
    }
    TracedAnswer {
        rows: groups.into_iter().map(|((family, device), kernels)| row(family, device, &kernels)).collect(),
        errors: trace_errors(&errors.iter().map(Vec::as_slice).collect::<Vec<_>>()),
        coverage: coverage(&inside),
    }
}

/// What calls of one kernel with one work on one device share.
fn kind(kernel: &TracedKernel<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    (&kernel.device.id, &kernel.name, kernel.family as u8).hash(&mut hasher);
    kernel.work.hash(&mut hasher);
    hasher.finish()
}

/// The kernels of `traces`, those of one model on one device together: a second recording is no other trace.
fn recordings<'a>(traces: &'a [Vec<TracedKernel<'a>>]) -> Vec<Vec<&'a TracedKernel<'a>>> {
    let kinds = |trace: &[TracedKernel<'_>]| -> BTreeSet<u64> { trace.iter().map(kind).collect() };
    let mut found: Vec<(BTreeSet<u64>, Vec<&TracedKernel<'_>>)> = Vec::new();
    for trace in traces {
        let own = kinds(trace);
        let is_again = |known: &BTreeSet<u64>| 2 * known.intersection(&own).count() > known.len().min(own.len());
        match found.iter_mut().find(|(known, _)| is_again(known)) {
            Some((known, kernels)) => {
                known.extend(&own);
                kernels.extend(trace);
            }
            None => found.push((own, trace.iter().collect())),
        }
    }
    found.into_iter().map(|(_, kernels)| kernels).collect()
}

fn row(family: String, device: &str, kernels: &[&ScoredKernel<'_>]) -> TracedRow {
    let sum = |of: &mut dyn Iterator<Item = f64>| of.sum::<f64>();
    let covered: Vec<(&ScoredKernel<'_>, f64)> =
        kernels.iter().filter_map(|scored| Some((*scored, scored.us()?))).collect();
    let measured_us = sum(&mut kernels.iter().map(|scored| scored.kernel.us));
    let covered_us = sum(&mut covered.iter().map(|(scored, _)| scored.kernel.us));
    let predicted_us = sum(&mut covered.iter().map(|(_, us)| *us));
    let (resolved, short): (Vec<_>, Vec<_>) = covered.iter().copied().partition(|(scored, _)| scored.is_resolved());
    let short_us = sum(&mut short.iter().map(|(scored, _)| scored.kernel.us));
    let short_predicted_us = sum(&mut short.iter().map(|(_, us)| *us));
    let errors_of =
        |pairs: &[&(&ScoredKernel<'_>, f64)]| summarise(pairs.iter().map(|(scored, us)| (*us, scored.kernel.us)));
    let (beside, alone): (Vec<_>, Vec<_>) = resolved.iter().partition(|(scored, _)| scored.kernel.shares_device);
    let roofline_us = |scored: &ScoredKernel<'_>| {
        scored.kernel.work.as_ref().map_or(0.0, |work| roofline::roofline_us(work, scored.kernel.device))
    };
    let named: Vec<(&TracedKernel<'_>, f64)> = covered.iter().map(|(scored, us)| (scored.kernel, *us)).collect();
    let stated = |kernel: &TracedKernel<'_>| {
        kernel.work.as_ref().map_or(0.0, |work| f64::from(trace_error(work, kernel.device.is_amd)))
    };
    let is_inside = |scored: &ScoredKernel<'_>| {
        let error = scored.error()?;
        Some(error.off <= error.model.max(stated(scored.kernel)))
    };
    TracedRow {
        family,
        device: device.to_owned(),
        kernels: kernels.len(),
        measured_us,
        unmodelled_share: 1.0 - covered_us / measured_us.max(f64::MIN_POSITIVE),
        predicted_over_measured: if covered_us > 0.0 { predicted_us / covered_us } else { 0.0 },
        short: short.len(),
        short_predicted_over_measured: if short.is_empty() { 0.0 } else { short_predicted_us / short_us },
        errors: summarise(resolved.iter().map(|(scored, us)| (*us, scored.kernel.us))),
        alone: errors_of(&alone),
        beside: errors_of(&beside),
        inside: share(resolved.iter().filter_map(|(scored, _)| scored.inside)),
        inside_stated: share(resolved.iter().filter_map(|(scored, _)| is_inside(scored))),
        roofline: summarise(resolved.iter().map(|(scored, _)| (roofline_us(scored), scored.kernel.us))),
        worst: worst(&named),
    }
}

/// How many of `all` are true; `None` of none.
fn share(all: impl Iterator<Item = bool>) -> Option<f64> {
    let (within, n) = all.fold((0.0, 0.0), |(within, n), is| (within + f64::from(u8::from(is)), n + 1.0));
    (n > 0.0).then_some(within / n)
}

/// The names that err by most time, most first.
fn worst(pairs: &[(&TracedKernel<'_>, f64)]) -> Vec<LargestError> {
    let mut by_name: BTreeMap<&str, (LargestError, f64)> = BTreeMap::new();
    for (kernel, us) in pairs {
        let none = LargestError { name: kernel.name.clone(), count: 0, measured_us: 0.0, predicted_us: 0.0 };
        let (one, off) = by_name.entry(&kernel.name).or_insert((none, 0.0));
        one.count += 1;
        one.measured_us += kernel.us;
        one.predicted_us += us;
        *off += (us - kernel.us).abs();
    }
    let mut all: Vec<(LargestError, f64)> = by_name.into_values().collect();
    all.sort_by(|(a, off_a), (b, off_b)| off_b.total_cmp(off_a).then_with(|| a.name.cmp(&b.name)));
    all.into_iter().take(NAMED).map(|(one, _)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::cost::operators::movement_work;
    use retime_core::cost::work::Work;
    use retime_core::device::Catalog;

    #[test]
    fn what_a_clock_of_whole_microseconds_cannot_tell_counts_in_sums_only() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let device = catalog.find("V100").unwrap();
        let kernel = |us: f64, tick_us| TracedKernel {
            name: format!("add {us} {tick_us}"),
            family: Family::Elementwise,
            work: Some(movement_work(Family::Elementwise, 4096, 4096)),
            device,
            us,
            tick_us,
            shares_device: us > 20.0,
        };
        let trace = vec![kernel(2.0, 1.0), kernel(2.0, 1e-3), kernel(12.0, 1.0), kernel(30.0, 1.0)];
        let table = traced_table(&models, &[trace]).rows;
        assert_eq!((table[0].short, table[0].errors.n, table[0].alone.n, table[0].beside.n), (1, 3, 2, 1));
        assert!(table[0].short_predicted_over_measured > 0.0);
    }

    #[test]
    fn a_row_counts_what_no_model_covers_and_names_the_worst() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let device = catalog.find("V100").unwrap();
        let work = movement_work(Family::Elementwise, 400_000_000, 400_000_000);
        let us = models.estimate(&work, device).unwrap().duration.0 as f64 / 1e3;
        let kernel = |name: &str, work: Option<Work>, us| TracedKernel {
            name: name.to_owned(),
            family: Family::Elementwise,
            work,
            device,
            us,
            tick_us: 1e-3,
            shares_device: false,
        };
        let kernels =
            vec![kernel("right", Some(work.clone()), us), kernel("slow", Some(work), 2.0 * us), kernel("?", None, us)];
        // The same recorded twice is one trace.
        let answer = traced_table(&models, &[kernels.clone(), kernels.clone()]);
        assert_eq!((answer.coverage.traces, answer.errors[0].traces, answer.errors[0].n), (1, 1, 2));
        let table = traced_table(&models, &[kernels]).rows;
        assert_eq!((table.len(), table[0].kernels, table[0].errors.n), (1, 3, 2));
        assert!((table[0].unmodelled_share - 0.25).abs() < 1e-9);
        assert!((table[0].predicted_over_measured - 2.0 / 3.0).abs() < 1e-9);
        assert!((table[0].errors.mape - 0.25).abs() < 1e-9);
        assert_eq!((table[0].worst[0].name.as_str(), table[0].worst[0].count), ("slow", 1));
    }
}

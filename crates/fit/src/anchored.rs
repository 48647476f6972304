//! How wrong anchored predictions are, measured: pairs of held-out rows of one device whose batch differs, or of the same work
//! on two devices. Knows fits, not how they are made.

use std::collections::BTreeMap;

use super::fit::is_kernel;
use super::{Measurement, Sample, is_held_out};
use retime_core::cost::anchor::{Anchored, PairError, Ratio};
use retime_core::cost::domain::Domain;
use retime_core::cost::fits::Fit;
use retime_core::cost::significant::significant;
use retime_core::cost::structured::structured_us;
use retime_core::cost::work::{Shape, Work};
use retime_core::device::DeviceProfile;

/// A device's measurements in a domain with its fit, and the shared parameters as they are on it.
#[derive(Clone, Debug)]
pub struct FittedSample<'a> {
    /// The measurements.
    pub sample: Sample<'a>,
    /// The fit, which has not seen the held-out ones.
    pub fit: &'a Fit,
    /// Parameters of the structured model that were not fitted to this device.
    pub shared: &'a [f64],
}

/// How far the batch may be from twice, four or eight times another, as a share.
const NEARLY: f64 = 0.08;
/// Most rows of one device that differ in the batch alone; of more, every so many.
const ALIKE: usize = 60;

/// A held-out row as one of its device's pairs.
struct Row {
    batch: f64,
    us: f64,
    /// By [`Ratio`].
    models: [f64; 3],
}

/// The errors in `domain` over `fitted` devices, for each way to a ratio.
pub fn anchored_errors(domain: Domain, fitted: &[FittedSample<'_>], smallest_us: f64, source: &str) -> Vec<Anchored> {
    let tables: Vec<Vec<(&Work, Row)>> = fitted.iter().map(|one| rows(domain, one, smallest_us)).collect();
    let mut doublings: [[Vec<f64>; 3]; 3] = Default::default();
    for rows in &tables {
        for ((_, from), (_, to)) in batch_pairs(rows) {
            let times = (to.batch / from.batch).log2().abs();
            if let Some(at) = (0..3).find(|&at| ((times - (at + 1) as f64).exp2() - 1.0).abs() < NEARLY) {
                note(&mut doublings[at], from, to);
            }
        }
    }
    let mut swaps: [Vec<f64>; 3] = Default::default();
    for (at, from) in tables.iter().enumerate() {
        let known: BTreeMap<String, &Row> = from.iter().map(|(work, row)| (key(work), row)).collect();
        for (other, to) in tables.iter().enumerate() {
            if !is_same_chip(fitted[at].sample.device, fitted[other].sample.device) {
                let pairs = to.iter().filter_map(|(work, row)| Some((*known.get(&key(work))?, row)));
                pairs.for_each(|(from, to)| note(&mut swaps, from, to));
            }
        }
    }
    let error = |errors: &[Vec<f64>; 3], by: Ratio| {
        let list = &errors[by as usize];
        let mean = list.iter().fold(0.0, |sum, error| sum + error) / list.len().max(1) as f64;
        PairError { error: significant(mean, 4), n: list.len() as u32 }
    };
    let of = |by| Anchored {
        domain,
        by,
        doublings: [0, 1, 2].map(|at| error(&doublings[at], by)),
        swap: error(&swaps, by),
        source: source.to_owned(),
    };
    Ratio::ALL.into_iter().map(of).collect()
}

/// Adds the error of predicting `to` from `from`, by each way to their ratio.
fn note(errors: &mut [Vec<f64>; 3], from: &Row, to: &Row) {
    for (list, (before, after)) in errors.iter_mut().zip(from.models.iter().zip(&to.models)) {
        list.push((from.us * after / before.max(1e-6) / to.us - 1.0).abs());
    }
}

/// The held-out kernels of one device.
fn rows<'a>(domain: Domain, fitted: &FittedSample<'a>, smallest_us: f64) -> Vec<(&'a Work, Row)> {
    let FittedSample { sample, fit, shared } = fitted;
    let counts =
        |row: &&Measurement| row.us >= smallest_us && is_held_out(&row.work) && is_kernel(fit, sample.device, row);
    let row = |row: &'a Measurement| {
        let work = &row.work;
        let structured = |parameters: &[f64]| {
            let kernel = structured_us(domain, work, sample.device, parameters);
            if row.is_call() { fit.host().call_us(kernel) } else { kernel }
        };
        let fitted =
            if row.is_call() { fit.whole_call_us(work, sample.device) } else { fit.kernel_us(work, sample.device) };
        let models = [fitted, structured(&fit.parameters), structured(shared)];
        (work, Row { batch: batch_of(work).1, us: row.us, models })
    };
    sample.rows.iter().filter(counts).map(row).collect()
}

/// Two measured rows.
type Pair<'a> = (&'a (&'a Work, Row), &'a (&'a Work, Row));

/// Ordered pairs of rows that differ in the batch alone.
fn batch_pairs<'a>(rows: &'a [(&'a Work, Row)]) -> Vec<Pair<'a>> {
    let mut groups: BTreeMap<String, Vec<&(&Work, Row)>> = BTreeMap::new();
    for row in rows {
        groups.entry(batch_of(row.0).0).or_default().push(row);
    }
    let few = |group: Vec<&'a (&'a Work, Row)>| {
        let step = group.len().div_ceil(ALIKE);
        group.into_iter().step_by(step).collect::<Vec<_>>()
    };
    let pairs = |group: Vec<&'a (&'a Work, Row)>| {
        let others = group.clone();
        group.into_iter().flat_map(move |from| others.clone().into_iter().map(move |to| (from, to)))
    };
    groups.into_values().map(few).flat_map(pairs).collect()
}

/// What stays when the batch changes, as text, and the batch.
pub(crate) fn batch_of(work: &Work) -> (String, f64) {
    let precision = work.precision;
    match work.shape {
        Shape::Gemm { batch: 1, m, n, k } => (format!("{precision:?} {n} {k}"), m as f64),
        Shape::Gemm { batch, m, n, k } => (format!("{precision:?} {m} {n} {k}"), batch as f64),
        Shape::Conv { batch, .. } | Shape::Attention { batch, .. } => {
            let batch = batch.max(1);
            let each = [work.flop.0 / batch as f64, (work.written.0 / batch) as f64];
            (format!("{precision:?} {each:?} {}", without_batch(work)), batch as f64)
        }
        Shape::Rows { rows, width } => (format!("{:?} {precision:?} {width}", work.family), rows as f64),
        _ => {
            let read = work.read.0.max(1) as f64;
            let each = [work.flop.0 / read, work.written.0 as f64 / read].map(|share| (share * 1e3).round());
            (format!("{precision:?} {each:?}"), read)
        }
    }
}

fn without_batch(work: &Work) -> String {
    let mut shape = work.shape.clone();
    if let Shape::Conv { batch, .. } | Shape::Attention { batch, .. } = &mut shape {
        *batch = 1;
    }
    format!("{shape:?}")
}

fn key(work: &Work) -> String {
    format!("{work:?}")
}

/// Whether both are variants of one chip.
fn is_same_chip(a: &DeviceProfile, b: &DeviceProfile) -> bool {
    let names = |device: &DeviceProfile| [vec![device.id.clone()], device.lineage.clone()].concat();
    names(a).iter().any(|name| names(b).contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::cost::CostModels;
    use retime_core::cost::operators::{GemmSize, gemm_work};
    use retime_core::device::Catalog;
    use retime_core::graph::DType;

    #[test]
    fn a_model_that_is_off_by_a_constant_anchors_without_error_and_one_that_ignores_the_device_does_not() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let fits = ["A100-80", "H100-SXM"].map(|id| models.fits().find(Domain::Gemm16, id).unwrap());
        let devices = ["A100-80", "H100-SXM"].map(|id| catalog.find(id).unwrap());
        let measured = |at: usize| -> Vec<Measurement> {
            let works = (0..400).map(|i| GemmSize { batch: 1, m: 256 << (i % 4), n: 1024 + 64 * (i / 4), k: 4096 });
            let works = works.map(|size| gemm_work(size, DType::Bf16, false, 0));
            let time = |work: &Work| 1.5 * fits[at].whole_call_us(work, devices[at]);
            works
                .map(|work| {
                    let us = time(&work);
                    Measurement::of_kernel(work, "", us, 1)
                })
                .collect()
        };
        let rows = [measured(0), measured(1)];
        let same = fits[0].parameters.clone();
        let fitted: Vec<FittedSample<'_>> = (0..2)
            .map(|at| FittedSample {
                sample: Sample { domain: Domain::Gemm16, device: devices[at], rows: &rows[at] },
                fit: fits[at],
                shared: &same,
            })
            .collect();
        let found = anchored_errors(Domain::Gemm16, &fitted, 5.0, "made up");
        let of = |by: Ratio| found.iter().find(|row| row.by == by).unwrap();
        assert!(of(Ratio::Fitted).doublings[0].n > 0 && of(Ratio::Fitted).swap.n > 50);
        assert!(of(Ratio::Fitted).swap.error < 1e-3 && of(Ratio::Fitted).doublings[0].error < 1e-3);
        assert!(of(Ratio::Shared).swap.error > 0.01);
    }
}

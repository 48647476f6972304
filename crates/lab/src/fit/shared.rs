//! What devices of a domain have in common, and how wrong that is on devices left out of it.

use std::collections::BTreeSet;

use color_eyre::eyre::Result;
use retime_core::cost::anchor::Anchored;
use retime_core::cost::call_overhead::CallOverhead;
use retime_core::cost::fits::{Choice, Fit, SharedParameters};
use retime_core::cost::significant::significant;
use retime_core::cost::{Domain, ErrorSummary, structured};
use retime_core::device::{Catalog, DeviceProfile};
use retime_fit::validate::smallest_us;
use retime_fit::{FittedSample, Measurement, Sample};

use super::Fitted;
use super::tables::{Tables, is_same_chip};

/// The samples of `samples` that tell what devices have in common: not those of AMD, whose libraries are others; norms that were measured as kernels are an inference engine's, whose
/// blocks have other sizes than the framework's.
pub(super) fn common<'a>(domain: Domain, samples: &[Sample<'a>]) -> Vec<Sample<'a>> {
    let is_framework = |sample: &Sample<'_>| domain != Domain::Norm || sample.rows.iter().any(Measurement::is_call);
    let teaches = |sample: &&Sample<'_>| !sample.device.is_amd && is_framework(sample);
    samples.iter().filter(teaches).copied().collect()
}

/// What all devices of a domain have in common, and how wrong anchoring is.
pub(super) type Shared = (SharedParameters, Vec<Anchored>);

/// The error of one way over that of the other from which the first is better.
const CLEARLY: f64 = 0.9;

/// How parameters come about that are no device's own.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// One search over the rows of all devices.
    Joint,
    /// The geometric mean of each device's own.
    Mean,
}

impl Way {
    fn parameters<'f>(self, domain: Domain, samples: &[Sample<'_>], of: &impl Fn(&Sample<'_>) -> &'f Fit) -> Vec<f64> {
        let mut found = match self {
            Self::Joint => retime_fit::shared_parameters(domain, samples),
            Self::Mean => retime_fit::mean_parameters(&samples.iter().map(of).collect::<Vec<_>>()),
        };
        structured::cap_bandwidth(domain, &mut found);
        found.into_iter().map(|value| significant(value, 6)).collect()
    }
}

/// Predicts every device from parameters of the devices of other chips, by the joint search unless the mean errs clearly less: absolute, and anchored.
pub(super) fn leave_one_out(
    domain: Domain,
    fits: &Fitted,
    tables: &Tables,
    catalog: &Catalog,
) -> Result<Option<Shared>> {
    let mut samples: Vec<(Sample<'_>, CallOverhead)> = Vec::new();
    for fit in fits.values().filter(|fit| fit.domain == domain) {
        let Some(table) = tables.get(&(domain, fit.devices[0].clone())) else { return Ok(None) };
        let device: &DeviceProfile = catalog.find(&fit.devices[0])?;
        if device.is_amd {
            continue;
        }
        samples.push((Sample { domain, device, rows: &table.rows }, fit.host()));
    }
    let of = |sample: &Sample<'_>| &fits[&(domain, sample.device.id.clone())];
    let left_out = |way: Way| -> Result<Vec<(Vec<f64>, ErrorSummary)>> {
        let judge = |(sample, host): &(Sample<'_>, CallOverhead)| -> Result<(Vec<f64>, ErrorSummary)> {
            let others: Vec<_> = samples.iter().map(|(other, _)| *other).collect();
            let others: Vec<_> =
                others.into_iter().filter(|other| !is_same_chip(&other.device.id, &sample.device.id)).collect();
            let mut guess = of(sample).clone();
            guess.parameters = way.parameters(domain, &common(domain, &others), &of);
            let starts = floor_starts(domain, fits, catalog, &sample.device.id)?;
            guess.parameters[structured::START_US] = starts * sample.device.kernel_start.secs() * 1e6;
            guess.choice = Choice::Structured;
            (guess.host_floor_us, guess.host_before) = (host.us, host.before);
            let counted: Vec<&Measurement> = sample.rows.iter().filter(|row| row.us >= smallest_us(domain)).collect();
            let error = retime_fit::assess(&guess, sample.device, &counted).kernels;
            println!(
                "{:<13} {:<14} unseen {way:<5?} {:5.1} % bias {:+5.1} %",
                domain.name(),
                sample.device.id,
                100.0 * error.mape,
                100.0 * error.bias
            );
            Ok((guess.parameters, error))
        };
        samples.iter().map(judge).collect()
    };
    let sum = |found: &[(Vec<f64>, ErrorSummary)]| found.iter().map(|(_, error)| error.mape).sum::<f64>();
    if samples.is_empty() {
        return Ok(None);
    }
    let (joint, mean) = (left_out(Way::Joint)?, left_out(Way::Mean)?);
    let is_mean = sum(&mean) < CLEARLY * sum(&joint);
    let (way, found) = if is_mean { (Way::Mean, mean) } else { (Way::Joint, joint) };
    let error = significant(sum(&found) / found.len() as f64, 4);
    let ids = samples.iter().map(|(sample, _)| sample.device.id.clone());
    let errors: Vec<(String, f64)> = ids.zip(found.iter().map(|(_, error)| significant(error.mape, 4))).collect();
    let guesses: Vec<Vec<f64>> = found.into_iter().map(|(parameters, _)| parameters).collect();
    let fitted: Vec<FittedSample<'_>> = samples
        .iter()
        .zip(&guesses)
        .map(|((sample, _), shared)| FittedSample {
            sample: *sample,
            fit: &fits[&(domain, sample.device.id.clone())],
            shared,
        })
        .collect();
    let sources: BTreeSet<&str> = fitted.iter().flat_map(|one| one.fit.source.split("; ")).collect();
    let source = sources.into_iter().collect::<Vec<_>>().join("; ");
    let anchored = retime_fit::anchored_errors(domain, &fitted, smallest_us(domain), &source);
    anchored.iter().for_each(print_anchored);
    let whole: Vec<Sample<'_>> = samples.iter().map(|(sample, _)| *sample).collect();
    let parameters = way.parameters(domain, &common(domain, &whole), &of);
    println!("{:<13} by {way:?}: {:.1} %", domain.name(), 100.0 * error);
    let unseen = SharedParameters {
        domain,
        parameters,
        error,
        devices: samples.len() as u32,
        by_device: errors,
        floor_starts: 1.0,
    };
    Ok(Some((unseen, anchored)))
}

fn print_anchored(found: &Anchored) {
    let list = found
        .doublings
        .iter()
        .chain([&found.swap])
        .map(|pairs| format!("{:5.1} % of {}", 100.0 * pairs.error, pairs.n));
    let list: Vec<String> = list.collect();
    println!("{:<13} anchored by {:<17} x2 x4 x8 device: {}", found.domain.name(), found.by.name(), list.join(", "));
}

/// Fixed cost over the device's kernel start where kernels, not whole calls, were measured: geometric mean of the devices whose chip is
/// not `left_out`'s, at least 1.
pub(super) fn floor_starts(domain: Domain, fits: &Fitted, catalog: &Catalog, left_out: &str) -> Result<f64> {
    let mut logs = Vec::new();
    let teaches =
        |fit: &&Fit| fit.domain == domain && fit.host_floor_us <= 0.0 && !is_same_chip(&fit.devices[0], left_out);
    for fit in fits.values().filter(teaches) {
        let start_us = catalog.find(&fit.devices[0])?.kernel_start.secs() * 1e6;
        logs.push((fit.parameters[structured::START_US] / start_us).ln());
    }
    let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
    Ok(significant(mean.exp().max(1.0), 6))
}

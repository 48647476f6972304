//! How wrong the models are on measurements: per domain and device, on held-out rows, with baselines.

mod anchored;
mod built_in;
mod collective;
mod lookups;
mod pooled;
mod published;
mod reasons;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use retime_core::device::{Catalog, DeviceProfile};

use crate::collectives::{CollectiveRow, collective_rows, is_collectives};
use crate::{
    ErrorSummary, FitError, MeasuredLookup, Measurement, assess, is_held_out, kernel_measurements, lookup_measurements,
    measurements, share_inside, summarise,
};
use retime_core::cost::domain::Domain;
use retime_core::cost::models::CostModels;
use retime_core::cost::roofline;
use retime_core::cost::structured::{default_values, structured_us};
use retime_core::cost::work::Work;
use retime_core::units::Percent;

pub use built_in::shipped_errors;
pub use collective::doubling_error;
pub use published::published_gmae;
pub use reasons::by_length;

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
    /// Share of the rows that count within the error that predictions of the same run state; none where they state none.
    pub inside: Option<f64>,
    /// Mean absolute error of a network trained on the same rows, on held-out rows; none where none was tried.
    pub network: Option<f64>,
    /// Mean absolute error aimed at; none where no aim was set.
    pub target: Option<f64>,
    /// Whether it was reached; none without an aim.
    pub met: Option<bool>,
    /// Why it was not, where that is known.
    pub reason: Option<String>,
}

impl ValidationRow {
    /// A row of `all` alone, without baseline or aim.
    fn unmeasured(all: ErrorSummary) -> Self {
        let none = ErrorSummary::default();
        Self {
            family: String::new(),
            device: String::new(),
            model: "",
            held_out: true,
            all,
            kernels: all,
            structured: none,
            curve: none,
            roofline: none,
            inside: None,
            network: None,
            target: None,
            met: None,
            reason: None,
        }
    }
}

/// What the fit behind a prediction has seen of the measurement that it is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Other sizes of the same table.
    Table,
    /// The GPU, by another laboratory.
    Gpu,
    /// Other GPUs only.
    Nothing,
}

/// Mean absolute error aimed at in `domain`; none where no aim was set.
pub fn aim(domain: Domain, seen: Seen) -> Option<f64> {
    let [table, gpu, nothing] = match domain {
        Domain::Linear => [Some(0.07), None, Some(0.12)],
        Domain::BatchedGemm => [Some(0.04), None, Some(0.12)],
        Domain::Gemm16 => [Some(0.05), Some(0.08), Some(0.10)],
        Domain::Tf32 => [Some(0.05), None, Some(0.10)],
        Domain::Gemm8 => [Some(0.06), Some(0.09), Some(0.12)],
        Domain::Attention => [Some(0.04), Some(0.06), Some(0.15)],
        Domain::Decode => [Some(0.08), Some(0.10), Some(0.20)],
        Domain::Conv => [Some(0.12), None, Some(0.20)],
        Domain::Norm | Domain::Softmax | Domain::Streaming => [Some(0.025), None, Some(0.12)],
    };
    match seen {
        Seen::Table => table,
        Seen::Gpu => gpu,
        Seen::Nothing => nothing,
    }
}

/// Measured times below this do not count, in µs.
pub fn smallest_us(domain: Domain) -> f64 {
    match domain {
        Domain::Gemm16 | Domain::Tf32 | Domain::Gemm8 => 5.0,
        Domain::Conv => 200.0,
        _ => 0.0,
    }
}

/// Measurements of several files, by what they are of.
#[derive(Debug, Default)]
pub struct Measured {
    operators: Vec<Measurement>,
    traced: Vec<Measurement>,
    lookups: Vec<MeasuredLookup>,
    collectives: Vec<CollectiveRow>,
}

impl Measured {
    /// Measurements of operators.
    pub fn of_operators(operators: Vec<Measurement>) -> Self {
        Self { operators, ..Self::default() }
    }

    /// Adds the measurements of the file with contents `text`.
    ///
    /// # Errors
    /// No header that is known, a missing column, or the first value that cannot be, with its line.
    pub fn add(&mut self, text: &str) -> Result<(), FitError> {
        if is_collectives(text) {
            self.collectives.extend(collective_rows(text)?);
        } else if let Some((rows, _)) = kernel_measurements(text)? {
            self.traced.extend(rows);
        } else if let Some(rows) = lookup_measurements(text)? {
            self.lookups.extend(rows);
        } else {
            let (operators, lookups) =
                measurements(text)?.into_iter().partition::<Vec<_>, _>(|row| Domain::of(&row.work).is_some());
            self.operators.extend(operators);
            let plain = |kernel| MeasuredLookup { kernel, cached: None, is_plain_update: true };
            self.lookups.extend(lookups.into_iter().map(plain));
        }
        Ok(())
    }

    /// Whether no file held any.
    pub fn is_empty(&self) -> bool {
        let Self { operators, traced, lookups, collectives } = self;
        operators.is_empty() && traced.is_empty() && lookups.is_empty() && collectives.is_empty()
    }

    /// Devices that `catalog` does not know, each with its rows; the table leaves them out.
    pub fn unknown(&self, catalog: &Catalog) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        let lookups = self.lookups.iter().map(|row| &row.kernel);
        for row in self.operators.iter().chain(&self.traced).chain(lookups) {
            *counts.entry(row.device.clone()).or_default() += 1;
        }
        counts.retain(|device, _| catalog.find(device).is_err());
        counts
    }
}

/// The table for what was measured, in order of family and device. Devices that the catalog does not know are left out.
pub fn validate_models(models: &CostModels, catalog: &Catalog, measured: Measured) -> Vec<ValidationRow> {
    let Measured { operators, traced, lookups, collectives } = measured;
    let mut groups: BTreeMap<(Domain, String), Vec<Measurement>> = BTreeMap::new();
    for row in operators {
        if let (Some(domain), Ok(device)) = (Domain::of(&row.work), catalog.find(&row.device)) {
            groups.entry((domain, device.id.clone())).or_default().extend(row.of_one_kernel(device));
        }
    }
    let domains: BTreeSet<Domain> = groups.keys().map(|(domain, _)| *domain).collect();
    let by_device = |((domain, id), rows): ((Domain, String), Vec<Measurement>)| {
        catalog.find(&id).map_or_else(|_| Vec::new(), |device| domain_rows(models, domain, device, &rows))
    };
    let mut table: Vec<ValidationRow> = groups.into_iter().flat_map(by_device).collect();
    table.extend(pooled::rows(&table));
    table.extend(domains.iter().filter_map(|&domain| shared_row(models, domain)));
    table.extend(domains.iter().flat_map(|&domain| anchored::rows(models, domain)));
    table.extend(traced_rows(models, catalog, &traced));
    table.extend(lookups::rows(models, catalog, &lookups));
    table.extend(collective::rows(catalog, &collectives));
    table
}

/// The row of a fit, and one for those of its tables that contradict themselves, where there are such.
fn domain_rows(
    models: &CostModels,
    domain: Domain,
    device: &DeviceProfile,
    rows: &[Measurement],
) -> Vec<ValidationRow> {
    let sound = rows.iter().any(|row| !row.is_unreliable).then(|| domain_row(models, domain, device, rows, false));
    let unreliable = rows.iter().any(|row| row.is_unreliable).then(|| {
        let inconsistent = rows.iter().filter(|row| row.is_unreliable && row.is_inconsistent).count();
        let all = rows.iter().filter(|row| row.is_unreliable).count();
        ValidationRow {
            family: format!("{}, unreliable table", domain.name()),
            target: None,
            met: None,
            reason: Some(format!(
                "{inconsistent} of its {all} rows took longer than larger launches of the same kernel, which noise does not explain (other \
                 tables of one kernel: 1 to 2 in 1000); fitted without those rows, counted apart"
            )),
            ..domain_row(models, domain, device, rows, true)
        }
    });
    sound.into_iter().chain(unreliable).collect()
}

fn domain_row(
    models: &CostModels,
    domain: Domain,
    device: &DeviceProfile,
    rows: &[Measurement],
    unreliable: bool,
) -> ValidationRow {
    let own = models.fits().find(domain, &device.id).filter(|fit| fit.devices.first() == Some(&device.id));
    let Some(fit) = own else { return unfitted_row(models, domain, device, rows) };
    let held_out: Vec<&Measurement> = rows.iter().filter(|row| is_held_out(&row.work)).collect();
    let large: Vec<&Measurement> =
        rows.iter().filter(|row| row.us >= smallest_us(domain) && row.is_unreliable == unreliable).collect();
    let counted: Vec<&Measurement> = large.iter().copied().filter(|row| is_held_out(&row.work)).collect();
    let all = assess(fit, device, &held_out);
    let (aim, inside) = (aim(domain, Seen::Table), share_inside(fit, device, &counted));
    let counted = assess(fit, device, &counted);
    let missed = aim.is_some_and(|aim| counted.kernels.mape > aim);
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
        inside,
        network: fit.network_error,
        target: aim,
        met: aim.filter(|_| counted.kernels.n > 0).map(|_| !missed),
        reason: missed.then(|| reasons::reason(fit, device, &large, &counted.kernels)),
    }
}

/// A device without a fit of its own: every row is unseen, but those that a fit of the same chip may have learnt from, which do not
/// count. Whole calls of such devices are compared as they are.
fn unfitted_row(models: &CostModels, domain: Domain, device: &DeviceProfile, rows: &[Measurement]) -> ValidationRow {
    let same_chip = models.fits().find(domain, &device.id);
    let rows: Vec<&Measurement> = rows.iter().filter(|row| same_chip.is_none() || is_held_out(&row.work)).collect();
    let counted = || rows.iter().filter(|row| row.us >= smallest_us(domain));
    let target = aim(domain, if same_chip.is_some() { Seen::Gpu } else { Seen::Nothing });
    let over = |predict: &dyn Fn(&Work) -> f64| summarise(counted().map(|row| (predict(&row.work), row.us)));
    let estimate =
        |work: &Work| models.estimate_repeated(work, device).map_or(0.0, |found| found.duration.0 as f64 / 1e3);
    let pairs: Vec<(f64, f64)> = counted().map(|row| (estimate(&row.work), row.us)).collect();
    let errors = summarise(pairs.iter().copied());
    let missed = target.is_some_and(|aim| errors.mape > aim);
    ValidationRow {
        target,
        met: target.filter(|_| errors.n > 0).map(|_| !missed),
        reason: missed.then(|| by_length(&pairs)).flatten(),
        family: domain.name().to_owned(),
        device: device.id.clone(),
        model: if same_chip.is_some() { "fit of its chip" } else { "structured-unseen" },
        held_out: same_chip.is_some(),
        all: summarise(rows.iter().map(|row| (estimate(&row.work), row.us))),
        structured: over(&|work| unfitted_us(work, device)),
        curve: over(&|work| roofline::curve_us(work, device)),
        roofline: over(&|work| roofline::roofline_us(work, device)),
        ..ValidationRow::unmeasured(errors)
    }
}

/// The structured model without any fit, in µs; 0 outside its domains.
fn unfitted_us(work: &Work, device: &DeviceProfile) -> f64 {
    Domain::of(work).map_or(0.0, |domain| structured_us(domain, work, device, &default_values(domain)))
}

/// Each fitted device in turn predicted from the devices of other chips, as the fits' makers found it; `n` counts devices.
fn shared_row(models: &CostModels, domain: Domain) -> Option<ValidationRow> {
    let unseen = models.fits().unseen(domain)?;
    let mean = ErrorSummary::of_mean(unseen.devices as usize, unseen.error);
    let target = aim(domain, Seen::Nothing);
    Some(ValidationRow {
        family: domain.name().to_owned(),
        device: "left out in turn".to_owned(),
        model: "structured-unseen",
        structured: mean,
        target,
        met: target.map(|aim| unseen.error <= aim),
        reason: target.filter(|aim| unseen.error > *aim).map(|_| {
            let each = unseen.by_device.iter().map(|(id, error)| format!("{id} {:.0}", Percent(*error)));
            format!(
                "{}: what a chip reaches of its figures is not in them (`calibrate --quick` takes it from five products)",
                each.collect::<Vec<_>>().join(", ")
            )
        }),
        ..ValidationRow::unmeasured(mean)
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
            structured: over(&|work| unfitted_us(work, device)),
            curve: over(&|work| roofline::curve_us(work, device)),
            roofline: over(&|work| roofline::roofline_us(work, device)),
            ..ValidationRow::unmeasured(all)
        })
    };
    groups.into_iter().filter_map(summed).collect()
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
        let mut measured = Measured::default();
        measured.add(&text).unwrap();
        measured.add("system,gemm_dtype,m,n,k,latency_ms\nabacus,bfloat16,8,8,8,1\n").unwrap();
        assert_eq!(measured.unknown(&catalog).into_iter().collect::<Vec<_>>(), [("abacus".to_owned(), 1)]);
        let table = validate_models(&models, &catalog, measured);
        let anchored = table.iter().filter(|row| row.family == "anchored gemm16").count();
        assert_eq!(
            (table.len(), anchored),
            (10, 8),
            "a batch x2, x4, x8 and another device, by fits and by what devices share"
        );
        assert_eq!((table[0].family.as_str(), table[0].device.as_str()), ("gemm16", "H100-SXM"));
        assert_eq!((table[1].family.as_str(), table[1].device.as_str()), ("gemm16", "left out in turn"));
    }

    #[test]
    fn an_aim_is_not_met_by_nothing() {
        let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
        let mut measured = Measured::default();
        // Shorter than what counts.
        measured.add("system,gemm_dtype,m,n,k,latency_ms\nh100_sxm,bfloat16,16,16,16,0.001\n").unwrap();
        let table = validate_models(&models, &catalog, measured);
        let row = table.iter().find(|row| row.device == "H100-SXM" && row.family == "gemm16").unwrap();
        assert_eq!((row.kernels.n, row.met), (0, None));
    }

    #[test]
    fn a_file_that_cannot_be_used_says_why() {
        let error = |text: &str| Measured::default().add(text).unwrap_err().to_string();
        assert!(error("a\n1\n").contains("unknown kind"));
        assert!(error("system,gemm_dtype,m,n,latency_ms\nh100_sxm,bfloat16,1,1,1\n").contains("`k`"));
        let nan = error("system,op_name,num_gpus,bytes,latency_ms\nh100_sxm,all_reduce,2,1024,NaN\n");
        assert!(nan.contains("line 2") && nan.contains("latency_ms"), "{nan}");
    }
}

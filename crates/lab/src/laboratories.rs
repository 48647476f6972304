//! Tables of other laboratories, which taught no fit: how far off predictions are on them, and how often within what they state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use color_eyre::eyre::Result;
use retime::session::{Engine, read_table};
use retime_core::cost::Domain;
use retime_core::cost::collective::{collective_time, kind_named};
use retime_core::cost::work::CollectiveKind;
use retime_core::device::DeviceProfile;
use retime_fit::collectives::collective_rows;
use retime_fit::validate::smallest_us;
use retime_fit::{Measurement, is_held_out, measurements};

/// Files, who measured, and the fits of which GPUs they judge: of these only held-out shapes count.
const TABLES: [(&str, &str); 4] = [
    ("aiconfigurator/gemm_bf16_between_frameworks.csv.gz", "other frameworks"),
    ("xla/gemm.csv.gz", "XLA"),
    ("llmservingsim/attention_v0.csv.gz", "LLMServingSim"),
    ("llmservingsim/attention_v1.csv.gz", "LLMServingSim"),
];

/// The same of collectives: file, who measured, and the smallest buffer in bytes that is judged: XLA's
/// times are of whole programs, of which the host's part shows below.
const COLLECTIVES: [(&str, &str, f64); 2] = [
    ("aiconfigurator/nccl_other_versions.csv.gz", "other versions of NCCL", 0.0),
    ("xla/collectives.csv.gz", "XLA, from 64 MiB", 67_108_864.0),
];

/// What the page's table is headed by.
pub(crate) const HEADER: [&str; 8] =
    ["family", "device", "measured by", "model", "n", "mean absolute", "leans", "in band"];

/// Errors of one family on one device.
#[derive(Default)]
struct Errors {
    count: usize,
    absolute: f64,
    signed: f64,
    within: usize,
    model: &'static str,
}

/// The rows of the page: every family and device of the tables in `folders`.
///
/// # Errors
/// A table cannot be read.
pub(crate) fn rows(engine: &Engine, folders: &[PathBuf]) -> Result<Vec<Vec<String>>> {
    let mut found: BTreeMap<(Domain, String, &str), Errors> = BTreeMap::new();
    for (file, by) in TABLES {
        for path in folders.iter().map(|folder| folder.join(file)).filter(|path| path.exists()) {
            for row in read(&path)? {
                let Some(domain) = Domain::of(&row.work) else { continue };
                let Ok(device) = engine.catalog.find(&row.device) else { continue };
                let key = (domain, device.id.clone(), by);
                if row.us >= smallest_us(domain) && judges(engine, domain, device, by, &row) {
                    found.entry(key).or_default().add(engine, device, &row);
                }
            }
        }
    }
    let products = found.into_iter().map(|((domain, device, by), errors)| errors.cells(domain.name(), device, by));
    let rows = products.collect::<Vec<_>>();
    Ok(rows.into_iter().chain(collectives(engine, folders)?).collect())
}

/// The rows of collectives, by the GPU whose link they ran on.
fn collectives(engine: &Engine, folders: &[PathBuf]) -> Result<Vec<Vec<String>>> {
    let mut found: BTreeMap<(&str, String, &str), Errors> = BTreeMap::new();
    for (file, by, least) in COLLECTIVES {
        for path in folders.iter().map(|folder| folder.join(file)).filter(|path| path.exists()) {
            for row in collective_rows(&read_table(&path)?)?.iter().filter(|row| row.bytes >= least) {
                let Ok(device) = engine.catalog.find(&row.system) else { continue };
                let Some(link) = engine.models.links().of_device(&device.id) else { continue };
                let Some(kind) = kind_named(row.collective).filter(|_| row.us > 0.0) else { continue };
                // Tables count the gathered whole, models a rank's part of it.
                let parts = if kind == CollectiveKind::AllGather { f64::from(row.ranks) } else { 1.0 };
                let time = collective_time(kind, (row.bytes / parts) as u64, row.ranks, link);
                found.entry((row.collective, device.id.clone(), by)).or_default().count(
                    (time.us, time.error),
                    time.model,
                    row.us,
                );
            }
        }
    }
    Ok(found.into_iter().map(|((collective, device, by), errors)| errors.cells(collective, device, by)).collect())
}

fn read(path: &Path) -> Result<Vec<Measurement>> {
    Ok(measurements(&read_table(path)?)?)
}

/// Whether no fit has seen the row's shape on the device.
fn judges(engine: &Engine, domain: Domain, device: &DeviceProfile, by: &str, row: &Measurement) -> bool {
    let own = engine.models.fits().find(domain, &device.id);
    own.is_none_or(|fit| {
        !fit.source.to_lowercase().contains(&by.to_lowercase()) && (is_held_out(&row.work) || by != "other frameworks")
    })
}

impl Errors {
    fn add(&mut self, engine: &Engine, device: &DeviceProfile, row: &Measurement) {
        let Some(estimate) = engine.models.estimate_repeated(&row.work, device) else { return };
        let us = estimate.duration.0 as f64 / 1e3;
        self.count((us, f64::from(estimate.error)), estimate.model, row.us);
    }

    /// Counts a prediction of `us` with its stated error where `measured` is the time.
    fn count(&mut self, (us, stated): (f64, f64), model: &'static str, measured: f64) {
        let error = us / measured - 1.0;
        self.count += 1;
        self.absolute += error.abs();
        self.signed += error;
        self.within += usize::from((measured - us).abs() <= stated * us);
        self.model = model;
    }

    fn cells(&self, family: &str, device: String, by: &str) -> Vec<String> {
        let n = self.count.max(1) as f64;
        let percent = |sum: f64| format!("{:.1}", 100.0 * sum / n);
        vec![
            family.to_owned(),
            device,
            by.to_owned(),
            self.model.to_owned(),
            self.count.to_string(),
            percent(self.absolute),
            format!("{:+.1}", 100.0 * self.signed / n),
            percent(self.within as f64),
        ]
    }
}

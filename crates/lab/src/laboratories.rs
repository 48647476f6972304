//! Tables of other laboratories, which taught no fit: how far off predictions are on them, and how often within what they state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use color_eyre::eyre::Result;
use retime::session::{Engine, read_table};
use retime_core::cost::Domain;
use retime_core::device::DeviceProfile;
use retime_fit::validate::smallest_us;
use retime_fit::{Measurement, is_held_out, measurements};

/// Files, who measured, and the fits of which GPUs they judge: of these only held-out shapes count.
const TABLES: [(&str, &str); 4] = [
    ("aiconfigurator/gemm_bf16_between_frameworks.csv.gz", "other frameworks"),
    ("xla/gemm.csv.gz", "XLA"),
    ("llmservingsim/attention_v0.csv.gz", "LLMServingSim"),
    ("llmservingsim/attention_v1.csv.gz", "LLMServingSim"),
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
    Ok(found.into_iter().map(|((domain, device, by), errors)| errors.cells(domain, device, by)).collect())
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
        let error = us / row.us - 1.0;
        self.count += 1;
        self.absolute += error.abs();
        self.signed += error;
        self.within += usize::from((row.us - us).abs() <= f64::from(estimate.error) * us);
        self.model = estimate.model;
    }

    fn cells(&self, domain: Domain, device: String, by: &str) -> Vec<String> {
        let n = self.count.max(1) as f64;
        let percent = |sum: f64| format!("{:.1}", 100.0 * sum / n);
        vec![
            domain.name().to_owned(),
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

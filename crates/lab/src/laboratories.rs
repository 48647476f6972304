//! Tables of other laboratories, which taught no fit: how far off predictions are on them, and how often within what they state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use color_eyre::eyre::Result;
use retime::session::{Engine, read_table};
use retime_core::cost::collective::{collective_time, kind_named};
use retime_core::cost::work::CollectiveKind;
use retime_core::cost::{Domain, Work, roofline, summarise};
use retime_core::device::DeviceProfile;
use retime_fit::collectives::collective_rows;
use retime_fit::validate::{Seen, aim, by_length, smallest_us};
use retime_fit::{Measurement, is_held_out, measurements};

use crate::fit::tables::Tables;

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
pub(crate) const HEADER: [&str; 10] =
    ["family", "device", "measured by", "model", "n", "mean absolute", "leans", "in band", "aim", "missed because"];

/// Mean absolute error aimed at for collectives on another laboratory's machine of the same link.
const COLLECTIVES_AIM: f64 = 0.15;

/// Predictions of one family on one device beside what another laboratory measured.
#[derive(Default)]
struct Errors {
    /// Predicted and measured, in µs.
    pairs: Vec<(f64, f64)>,
    within: usize,
    /// Those of `pairs` whose size lies outside the fit's.
    extrapolated: Vec<(f64, f64)>,
    /// What the fit's own table says of the same work, beside what the other says.
    taught: Vec<(f64, f64)>,
    /// Rows that took less than the device can at its theoretical figures.
    impossible: usize,
    model: &'static str,
    aim: Option<f64>,
}

/// What the fits' own tables say of a work on a device.
type Taught = BTreeMap<(String, String), f64>;

fn taught(tables: &Tables) -> Taught {
    let rows = tables.iter().flat_map(|((_, id), table)| table.rows.iter().map(move |row| (id, row)));
    rows.map(|(id, row)| ((id.clone(), sizes_of(&row.work)), row.us)).collect()
}

fn sizes_of(work: &Work) -> String {
    format!("{:?} {:?}", work.shape, work.precision)
}

/// The rows of the page: every family and device of the tables in `folders`, none of which is among `tables`, that the fits know.
///
/// # Errors
/// A table cannot be read.
pub(crate) fn rows(engine: &Engine, folders: &[PathBuf], tables: &Tables) -> Result<Vec<Vec<String>>> {
    let (mut found, taught) = (BTreeMap::<(Domain, String, &str), Errors>::new(), taught(tables));
    for (file, by) in TABLES {
        for path in folders.iter().map(|folder| folder.join(file)).filter(|path| path.exists()) {
            for row in read(&path)? {
                let Some(domain) = Domain::of(&row.work) else { continue };
                let Ok(device) = engine.catalog.find(&row.device) else { continue };
                let Some(row) = row.of_one_kernel(device) else { continue };
                let key = (domain, device.id.clone(), by);
                if row.us >= smallest_us(domain) && judges(engine, domain, device, by, &row) {
                    found.entry(key).or_default().add(engine, device, &row, &taught);
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
                let Some(link) = engine.models.links().of_device(device) else { continue };
                let Some(kind) = kind_named(row.collective).filter(|_| row.us > 0.0) else { continue };
                // Tables count the gathered whole, models a rank's part of it.
                let parts = if kind == CollectiveKind::AllGather { f64::from(row.ranks) } else { 1.0 };
                let time = collective_time(kind, (row.bytes / parts) as u64, row.ranks, link);
                let errors = found.entry((row.collective, device.id.clone(), by)).or_default();
                errors.count((time.us, time.error), time.model, row.us);
                errors.aim = Some(COLLECTIVES_AIM);
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
    fn add(&mut self, engine: &Engine, device: &DeviceProfile, row: &Measurement, taught: &Taught) {
        let Some(estimate) = engine.models.estimate_repeated(&row.work, device) else { return };
        let us = estimate.duration.0 as f64 / 1e3;
        self.count((us, f64::from(estimate.error)), estimate.model, row.us);
        self.impossible += usize::from(roofline::least(&row.work, device).secs() * 1e6 > row.us);
        if estimate.extrapolated {
            self.extrapolated.push((us, row.us));
        }
        self.taught.extend(taught.get(&(device.id.clone(), sizes_of(&row.work))).map(|own| (*own, row.us)));
        let domain = Domain::of(&row.work);
        let is_known = |domain: &Domain| engine.models.fits().find(*domain, &device.id).is_some();
        let seen = if domain.as_ref().is_some_and(is_known) { Seen::Gpu } else { Seen::Nothing };
        self.aim = domain.and_then(|domain| aim(domain, seen));
    }

    /// Counts a prediction of `us` with its stated error where `measured` is the time.
    fn count(&mut self, (us, stated): (f64, f64), model: &'static str, measured: f64) {
        self.pairs.push((us, measured));
        self.within += usize::from((measured - us).abs() <= stated * us);
        self.model = model;
    }

    fn cells(&self, family: &str, device: String, by: &str) -> Vec<String> {
        let errors = summarise(self.pairs.iter().copied());
        let percent = |share: f64| format!("{:.1}", 100.0 * share);
        let is_missed = self.aim.is_some_and(|aim| errors.mape > aim);
        vec![
            family.to_owned(),
            device,
            by.to_owned(),
            self.model.to_owned(),
            errors.n.to_string(),
            percent(errors.mape),
            format!("{:+.1}", 100.0 * errors.bias),
            percent(self.within as f64 / errors.n.max(1) as f64),
            self.aim.map_or("–".to_owned(), percent),
            if is_missed { self.reason() } else { String::new() },
        ]
    }

    /// Why the aim is missed: how far the other laboratory is from the fit's own table, what lies outside that, which lengths are off.
    fn reason(&self) -> String {
        let told = |pairs: &[(f64, f64)], what: &str| {
            let errors = summarise(pairs.iter().copied());
            let [mape, bias] = [errors.mape, errors.bias].map(|share| 100.0 * share);
            (errors.n > 0).then(|| format!("{what} {mape:.1} % (leans {bias:+.1}, n {})", errors.n))
        };
        let own = told(&self.taught, "on sizes in both, the fit's own table differs from this one by");
        let outside = (self.extrapolated.len() < self.pairs.len())
            .then(|| told(&self.extrapolated, "outside the sizes of the fit the error is"));
        let impossible = (self.impossible > 0)
            .then(|| format!("{} of its rows took less than the device's theoretical figures allow", self.impossible));
        [impossible, own, outside.flatten(), by_length(&self.pairs)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_aim_is_explained_by_what_the_tables_differ_by() {
        let mut errors = Errors { aim: Some(0.08), taught: vec![(80.0, 100.0)], ..Errors::default() };
        for us in [10.0, 100.0, 200.0] {
            errors.count((0.8 * us, 0.1), "structured", us);
        }
        let cells = errors.cells("gemm16", "B200".to_owned(), "XLA");
        assert_eq!(cells[4..9], ["3", "20.0", "-20.0", "0.0", "8.0"]);
        assert!(
            cells[9].starts_with(
                "on sizes in both, the fit's own table differs from this one by 20.0 % (leans -20.0, n 1);"
            )
        );
        errors.aim = Some(0.3);
        assert_eq!(errors.cells("gemm16", "B200".to_owned(), "XLA")[9], "");
    }
}

//! Fits the built-in cost models to tables of published measurements and writes the catalog:
//!
//! ```sh
//! cargo run --release --example fit_catalog -- DATA_DIR [shared] [DOMAIN…]
//! ```
//!
//! `DATA_DIR` holds `neusight/`, `aiconfigurator/` and others; with domains named, only those are fitted anew; with `shared`, fits stay and
//! what devices have in common and the errors of anchored predictions are worked out anew, for the domains named or all. Writes `src/cost/catalog/fits.json` and
//! `forests.bin`, the same bytes every time, and prints the held-out errors.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use retime::cost::Domain;
use retime::cost::anchor::{Anchored, Ratio};
use retime::cost::calibrate::{self, Beside, Calibrated, ErrorSummary, Judged, Measurement, Sample, Tuning};
use retime::cost::fits::{Choice, Fit, Fits, Unseen};
use retime::cost::host_floor::HostFloor;
use retime::cost::significant::significant;
use retime::cost::structured;
use retime::cost::validate::{doubling_error, smallest_us};
use retime::device::{Catalog, DeviceProfile};

/// File and source.
const FILES: [(&str, &str); 18] = [
    ("neusight/train_linear.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/test_linear.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/train_bmm.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/test_bmm.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/train_conv.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/train_ln.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/test_ln.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/train_softmax.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/test_softmax.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/train_elementwise.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("neusight/test_elem.csv.gz", "sitar-lab/NeuSight 6945927"),
    ("aiconfigurator/gemm_bf16.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10"),
    ("aiconfigurator/gemm_fp8.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10"),
    ("deepbench/gemm.csv", DEEPBENCH),
    ("deepbench/conv.csv", DEEPBENCH),
    ("vidur/compute_mlp.csv.gz", "microsoft/vidur 7d47513"),
    ("aiconfigurator/context_attention.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10"),
    ("aiconfigurator/encoder_attention.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10"),
];

const DEEPBENCH: &str = "baidu-research/DeepBench da81ba7";

/// Whether a row of `source` is left out: vidur's A100, which aiconfigurator covers more finely.
fn is_left_out(source: &str, row: &Measurement) -> bool {
    source != DEEPBENCH && row.device == "a100"
}

/// The text of a table, plain or gzip.
fn read(path: &Path) -> Result<Option<String>, Box<dyn Error>> {
    let Ok(bytes) = std::fs::read(path) else {
        eprintln!("skipped: {} is not there", path.display());
        return Ok(None);
    };
    let mut text = String::new();
    if path.extension().is_some_and(|ending| ending == "gz") {
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
    } else {
        text = String::from_utf8(bytes)?;
    }
    Ok(Some(text))
}

/// Devices of the same chip: the fit of the first holds for the others.
const SIBLINGS: [&[&str]; 6] = [
    &["V100-PCIe", "V100", "V100-32", "GV100"],
    &["P100", "P100-SXM2"],
    &["A100-40-PCIe", "A100-40", "A100-80", "A100-80-PCIe"],
    &["A100-80", "A100-40", "A100-80-PCIe", "A100-40-PCIe"],
    &["H100-SXM", "H200"],
    &["B200", "GB200", "B300", "GB300"],
];

/// The rows of a domain on a device and where they are from.
#[derive(Default)]
struct Table {
    rows: Vec<Measurement>,
    sources: BTreeSet<&'static str>,
}

impl Table {
    fn source(&self) -> String {
        self.sources.iter().copied().collect::<Vec<_>>().join("; ")
    }
}

type Tables = BTreeMap<(Domain, String), Table>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: fit_catalog DATA_DIR [DOMAIN…]")?;
    let (shared, wanted): (Vec<String>, Vec<String>) = arguments.partition(|name| name == "shared");
    let catalog = Catalog::builtin()?;
    let tables = load(Path::new(&folder), &FILES, &catalog, &wanted)?;
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cost/catalog");
    let old = committed(&target).unwrap_or_default();
    let is_named = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let again = |domain: Domain| shared.is_empty() && is_named(domain.name());
    let mut fits: BTreeMap<(Domain, String), Fit> = old
        .iter()
        .filter(|fit| !again(fit.domain))
        .map(|fit| ((fit.domain, fit.devices[0].clone()), fit.clone()))
        .collect();
    for domain in Domain::ALL.into_iter().filter(|domain| again(*domain)) {
        for (id, found) in fitted(domain, &tables, &catalog)? {
            print_row(domain, &id, &found);
            fits.insert((domain, id), found.fit);
        }
    }
    let all = assemble(&fits, &tables, &catalog, &old)?;
    if shared.is_empty() && is_named("collectives") {
        fit_links(Path::new(&folder), &catalog)?;
    }
    let (text, forests) = all.encode();
    std::fs::write(target.join("fits.json"), text + "\n")?;
    std::fs::write(target.join("forests.bin"), forests)?;
    Ok(())
}

/// The fits as the files in `folder` are now, which may be newer than those built in.
fn committed(folder: &Path) -> Result<Fits, Box<dyn Error>> {
    let text = std::fs::read_to_string(folder.join("fits.json"))?;
    Ok(Fits::decode(&text, &std::fs::read(folder.join("forests.bin"))?)?)
}

/// The fits of `domain`, by device.
fn fitted(domain: Domain, tables: &Tables, catalog: &Catalog) -> Result<Vec<(String, Calibrated)>, Box<dyn Error>> {
    let samples = samples(domain, tables, catalog)?;
    let common = calibrate::shared_parameters(domain, &common(domain, &samples));
    // The same kernels, batched or not: what single products take without a host's floor.
    let others =
        if domain == Domain::BatchedGemm { self::samples(Domain::Linear, tables, catalog)? } else { Vec::new() };
    let mut found = Vec::new();
    for sample in &samples {
        let id = &sample.device.id;
        let siblings = samples.iter().filter(|other| other.device.id != *id);
        let companions: Vec<Sample<'_>> =
            siblings.chain(&others).filter(|other| is_same_chip(&other.device.id, id)).copied().collect();
        let beside = Beside { common: Some(&common), companions: &companions };
        let source = tables[&(domain, id.clone())].source();
        match calibrate::calibrate(*sample, beside, &source, &Tuning::default()) {
            Ok(calibrated) => found.push((id.clone(), calibrated)),
            Err(error) => eprintln!("{} {id}: {error}", domain.name()),
        }
    }
    Ok(found)
}

fn samples<'a>(domain: Domain, tables: &'a Tables, catalog: &'a Catalog) -> Result<Vec<Sample<'a>>, Box<dyn Error>> {
    let of = |((_, id), table): (&'a (Domain, String), &'a Table)| {
        Ok(Sample { domain, device: catalog.find(id)?, rows: &table.rows })
    };
    tables.iter().filter(|((other, _), _)| *other == domain).map(of).collect()
}

/// The samples of `samples` that tell what devices have in common: norms that were measured as kernels are an inference engine's, whose
/// blocks have other sizes than the framework's.
fn common<'a>(domain: Domain, samples: &[Sample<'a>]) -> Vec<Sample<'a>> {
    let teaches = |sample: &&Sample<'_>| domain != Domain::Norm || sample.rows.iter().any(|row| row.whole_call);
    samples.iter().filter(teaches).copied().collect()
}

fn is_same_chip(a: &str, b: &str) -> bool {
    a == b || SIBLINGS.iter().any(|family| family.contains(&a) && family.contains(&b))
}

fn load(
    folder: &Path,
    files: &[(&str, &'static str)],
    catalog: &Catalog,
    wanted: &[String],
) -> Result<Tables, Box<dyn Error>> {
    let wants = |domain: Domain| {
        let is_named = |domain: Domain| wanted.iter().any(|name| name == domain.name());
        wanted.is_empty() || is_named(domain) || domain == Domain::Linear && is_named(Domain::BatchedGemm)
    };
    let mut all = Tables::new();
    for &(file, source) in files {
        let Some(text) = read(&folder.join(file))? else { continue };
        for row in calibrate::measurements(&text)? {
            let Some(domain) = Domain::of(&row.work) else { continue };
            // P4: training and test rows of `linear` ran different kernels.
            if !wants(domain) || (domain == Domain::Linear && row.device == "Tesla P4") || is_left_out(source, &row) {
                continue;
            }
            let Ok(device) = catalog.find(&row.device) else { continue };
            let table = all.entry((domain, device.id.clone())).or_default();
            table.sources.insert(source);
            table.rows.push(row);
        }
    }
    for table in all.values_mut() {
        let step = table.rows.len().div_ceil(40_000);
        table.rows = table.rows.iter().step_by(step).cloned().collect();
    }
    Ok(all)
}

/// Adds siblings with the error on them where they were measured, and the parameters for unseen devices.
fn assemble(
    fits: &BTreeMap<(Domain, String), Fit>,
    tables: &Tables,
    catalog: &Catalog,
    old: &Fits,
) -> Result<Fits, Box<dyn Error>> {
    let mut all = Fits::default();
    for domain in Domain::ALL {
        if let Some((unseen, anchored)) = leave_one_out(domain, fits, tables, catalog)? {
            all.set_unseen(Unseen { floor_starts: floor_starts(domain, fits, catalog)?, ..unseen });
            for one in anchored {
                all.set_anchored(one);
            }
        } else {
            old.unseen(domain).cloned().into_iter().for_each(|unseen| all.set_unseen(unseen));
            let kept = Ratio::ALL.into_iter().filter_map(|by| old.anchored(domain, by).cloned());
            kept.for_each(|one| all.set_anchored(one));
        }
    }
    for ((domain, id), fit) in fits {
        let mut fit = fit.clone();
        fit.devices = vec![id.clone()];
        let siblings = SIBLINGS.iter().find(|family| family[0] == id).map_or(&[][..], |family| &family[1..]);
        fit.devices.extend(
            siblings
                .iter()
                .filter(|other| !fits.contains_key(&(*domain, (**other).to_owned())))
                .map(|id| (*id).to_owned()),
        );
        let measured = SIBLINGS.iter().filter(|family| family[0] == id).flat_map(|family| &family[1..]);
        let errors: Vec<f64> = measured
            .filter_map(|other| tables.get(&(*domain, (*other).to_owned())).map(|table| (other, table)))
            .map(|(other, table)| {
                let device: &DeviceProfile = catalog.find(other)?;
                let held_out: Vec<&Measurement> =
                    table.rows.iter().filter(|row| calibrate::is_held_out(&row.work)).collect();
                let fit = Fit { devices: vec![(**other).to_owned()], ..fit.clone() };
                Ok::<f64, Box<dyn Error>>(calibrate::assess(&fit, device, &held_out).kernels.mape)
            })
            .collect::<Result<_, _>>()?;
        if let Some(worst) = errors.into_iter().reduce(f64::max) {
            println!("{:<13} {id:<14} on its sibling {:5.1} %", domain.name(), 100.0 * worst);
            fit.sibling_error = significant(worst, 4);
        } else if fit.sibling_error <= 0.0 {
            fit.sibling_error = fit.error.max(0.1);
        }
        all.add(fit)?;
    }
    Ok(all)
}

/// What all devices of a domain have in common, and how wrong anchoring is.
type Shared = (Unseen, Vec<Anchored>);

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
        match self {
            Self::Joint => calibrate::shared_parameters(domain, samples),
            Self::Mean => calibrate::mean_parameters(&samples.iter().map(of).collect::<Vec<_>>()),
        }
    }
}

/// Predicts every device from parameters of the devices of other chips, by the joint search unless the mean errs clearly less: absolute, and anchored.
fn leave_one_out(
    domain: Domain,
    fits: &BTreeMap<(Domain, String), Fit>,
    tables: &Tables,
    catalog: &Catalog,
) -> Result<Option<Shared>, Box<dyn Error>> {
    let mut samples = Vec::new();
    for fit in fits.values().filter(|fit| fit.domain == domain) {
        let Some(table) = tables.get(&(domain, fit.devices[0].clone())) else { return Ok(None) };
        let device: &DeviceProfile = catalog.find(&fit.devices[0])?;
        samples.push((Sample { domain, device, rows: &table.rows }, fit.host()));
    }
    let of = |sample: &Sample<'_>| &fits[&(domain, sample.device.id.clone())];
    let left_out = |way: Way| -> Vec<(Vec<f64>, ErrorSummary)> {
        let judge = |(sample, host): &(Sample<'_>, HostFloor)| {
            let others: Vec<_> = samples.iter().map(|(other, _)| *other).collect();
            let others: Vec<_> =
                others.into_iter().filter(|other| !is_same_chip(&other.device.id, &sample.device.id)).collect();
            let mut guess = of(sample).clone();
            guess.parameters = way.parameters(domain, &common(domain, &others), &of);
            guess.parameters[structured::FLOOR_US] = sample.device.kernel_start.secs() * 1e6;
            guess.choice = Choice::Structured;
            (guess.host_floor_us, guess.host_before) = (host.us, host.before);
            let counted: Vec<&Measurement> = sample.rows.iter().filter(|row| row.us >= smallest_us(domain)).collect();
            let error = calibrate::assess(&guess, sample.device, &counted).kernels;
            println!(
                "{:<13} {:<14} unseen {way:<5?} {:5.1} % bias {:+5.1} %",
                domain.name(),
                sample.device.id,
                100.0 * error.mape,
                100.0 * error.bias
            );
            (guess.parameters, error)
        };
        samples.iter().map(judge).collect()
    };
    let sum = |found: &[(Vec<f64>, ErrorSummary)]| found.iter().map(|(_, error)| error.mape).sum::<f64>();
    if samples.is_empty() {
        return Ok(None);
    }
    let (joint, mean) = (left_out(Way::Joint), left_out(Way::Mean));
    let is_mean = sum(&mean) < CLEARLY * sum(&joint);
    let (way, found) = if is_mean { (Way::Mean, mean) } else { (Way::Joint, joint) };
    let error = significant(sum(&found) / found.len() as f64, 4);
    let ids = samples.iter().map(|(sample, _)| sample.device.id.clone());
    let errors: Vec<(String, f64)> = ids.zip(found.iter().map(|(_, error)| significant(error.mape, 4))).collect();
    let guesses: Vec<Vec<f64>> = found.into_iter().map(|(parameters, _)| parameters).collect();
    let judged: Vec<Judged<'_>> = samples
        .iter()
        .zip(&guesses)
        .map(|((sample, _), shared)| Judged {
            sample: *sample,
            fit: &fits[&(domain, sample.device.id.clone())],
            shared,
        })
        .collect();
    let sources: BTreeSet<&str> = judged.iter().flat_map(|one| one.fit.source.split("; ")).collect();
    let source = sources.into_iter().collect::<Vec<_>>().join("; ");
    let anchored = calibrate::anchored_errors(domain, &judged, smallest_us(domain), &source);
    anchored.iter().for_each(print_anchored);
    let whole: Vec<Sample<'_>> = samples.iter().map(|(sample, _)| *sample).collect();
    let parameters = way.parameters(domain, &common(domain, &whole), &of);
    println!("{:<13} by {way:?}: {:.1} %", domain.name(), 100.0 * error);
    let unseen =
        Unseen { domain, parameters, error, devices: samples.len() as u32, by_device: errors, floor_starts: 1.0 };
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

/// Fixed cost over the device's kernel start where kernels, not whole calls, were measured: geometric mean, at least 1.
fn floor_starts(
    domain: Domain,
    fits: &BTreeMap<(Domain, String), Fit>,
    catalog: &Catalog,
) -> Result<f64, Box<dyn Error>> {
    let mut logs = Vec::new();
    for fit in fits.values().filter(|fit| fit.domain == domain && fit.host_floor_us <= 0.0) {
        let start_us = catalog.find(&fit.devices[0])?.kernel_start.secs() * 1e6;
        logs.push((fit.parameters[structured::FLOOR_US] / start_us).ln());
    }
    let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
    Ok(significant(mean.exp().max(1.0), 6))
}

fn print_row(domain: Domain, id: &str, found: &Calibrated) {
    let percent = |value: f64| 100.0 * value;
    println!(
        "{:<13} {id:<14} {:<16} {:>4} trees n {:>6} all {:5.1}/{:4.1} | kernels {:>6}: {:5.1}/{:4.1} bias {:+4.1} structured {:5.1} curve {:5.1} roofline {:5.1} floor {:4.1}",
        domain.name(),
        found.fit.choice.name(),
        found.fit.forest.len(),
        found.held_out.n,
        percent(found.held_out.mape),
        percent(found.held_out.gmae),
        found.kernels.n,
        percent(found.kernels.mape),
        percent(found.kernels.gmae),
        percent(found.kernels.bias),
        percent(found.structured.mape),
        percent(found.curve.mape),
        percent(found.roofline.mape),
        found.fit.host_floor_us,
    );
}

/// The interconnect of each system that collectives were measured on, within a node and between nodes.
const SYSTEMS: [(&str, bool, &str); 12] = [
    ("a100_sxm", false, "NVLink3"),
    ("h100_sxm", false, "NVLink4"),
    ("b200_sxm", false, "NVLink5"),
    ("gb200", false, "NVLink5-NVL72"),
    ("l40s", false, "PCIe4"),
    ("rtx_pro_6000_server", false, "PCIe5"),
    ("b300_sxm", false, "NVLink5-B300"),
    ("a100_dgx", false, "NVLink3"),
    ("a100_dgx", true, "InfiniBand-HDR"),
    ("a100_pairwise_nvlink", false, "NVLink3-bridge"),
    ("h100_pairwise_nvlink", false, "NVLink4-bridge"),
    ("NV_V100", false, "NVLink2"),
];

/// Tables of collectives; of two that measured the same, the first holds.
const COLLECTIVES: [(&str, &str); 3] = [
    ("aiconfigurator/nccl.csv.gz", "ai-dynamo/aiconfigurator 095f58a, nccl-tests"),
    ("vidur/network.csv.gz", "microsoft/vidur 7d47513, NCCL"),
    ("deepbench/allreduce.csv", "baidu-research/DeepBench da81ba7, NCCL 2.0"),
];

/// Published fits that stay as they are.
const KEPT: [(&str, &str, u32); 2] = [("NVLink2", "all-reduce", 4), ("NVLink2", "all-reduce", 8)];

const MARK: &str = "# Collective times fitted by the fit_catalog example; do not edit.";

/// Writes the fitted collective curves.
fn fit_links(folder: &Path, catalog: &Catalog) -> Result<(), Box<dyn Error>> {
    let mut tables = Vec::new();
    for (file, source) in COLLECTIVES {
        if let Some(text) = read(&folder.join(file))? {
            tables.push((source, calibrate::collectives::collective_rows(&text)?));
        }
    }
    let mut groups: BTreeMap<(&str, &str, u32), (&str, Vec<&calibrate::collectives::CollectiveRow>)> = BTreeMap::new();
    for (source, row) in tables.iter().flat_map(|(source, rows)| rows.iter().map(move |row| (*source, row))) {
        let joined =
            |(system, between, _): &&(&str, bool, &str)| *system == row.system && *between == row.between_nodes;
        let Some((_, _, link)) = SYSTEMS.iter().find(joined) else { continue };
        let group = groups.entry((link, row.collective, row.ranks)).or_insert_with(|| (source, Vec::new()));
        if group.0 == source && !KEPT.contains(&(link, row.collective, row.ranks)) {
            group.1.push(row);
        }
    }
    let all: Vec<_> = tables.iter().flat_map(|(_, rows)| rows.clone()).collect();
    let (doubled, sources) = (doubling_error(catalog, &all), tables.iter().map(|(source, _)| *source));
    let (error, n, sources) = (significant(doubled.mape, 3), doubled.n, sources.collect::<Vec<_>>().join("; "));
    println!("twice the ranks by other families: {:.1} % over {n}", 100.0 * error);
    let mut out = format!(
        "\n# Times among twice the ranks from those of other families of devices, each left out in turn.\n[doubling]\nerror = {error}\nn = {n}\nsource = \"{sources}\"\n"
    );
    for ((link, collective, ranks), (source, rows)) in groups {
        let Some(first) = rows.first() else { continue };
        let source = format!("{source} on {}", first.system);
        let Some((curve, summary)) = calibrate::collectives::fit_curve(&rows, &source) else { continue };
        println!("{link:<14} {collective:<15} {ranks:>2} held out {:4.1} % over {}", 100.0 * summary.mape, summary.n);
        let list = |values: &[f64]| {
            values
                .iter()
                .map(|value| format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned())
                .collect::<Vec<_>>()
                .join(", ")
        };
        write!(
            out,
            "\n[[curve]]\nlink = \"{link}\"\ncollective = \"{collective}\"\nranks = {ranks}\nbytes = [{}]\nus = [{}]\nerror = {:.4}\nn = {}\nsource = \"{source}\"\n",
            list(&curve.bytes),
            list(&curve.us),
            curve.error,
            curve.n
        )?;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/device/catalog/link-curves.toml");
    std::fs::write(path, format!("{MARK}\n{out}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_fitted_anew_is_what_is_committed_to_the_last_byte() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
        if !folder.join("neusight").is_dir() {
            eprintln!("skipped: {} is not there", folder.display());
            return;
        }
        let (catalog, committed) = (Catalog::builtin().unwrap(), Fits::builtin().unwrap());
        let files = FILES.into_iter().filter(|(name, ..)| name.contains("softmax"));
        let tables = load(&folder, &files.collect::<Vec<_>>(), &catalog, &[]).unwrap();
        let id = "A100-80-PCIe";
        let samples = samples(Domain::Softmax, &tables, &catalog).unwrap();
        let common = calibrate::shared_parameters(Domain::Softmax, &samples);
        let sample = *samples.iter().find(|sample| sample.device.id == id).unwrap();
        let beside = Beside { common: Some(&common), companions: &[] };
        let source = tables[&(Domain::Softmax, id.to_owned())].source();
        let again = calibrate::calibrate(sample, beside, &source, &Tuning::default()).unwrap().fit;
        let old = committed.find(Domain::Softmax, id).unwrap();
        let again = Fit { devices: old.devices.clone(), sibling_error: old.sibling_error, ..again };
        let written = |fit: &Fit| {
            let mut fits = Fits::default();
            fits.add(fit.clone()).unwrap();
            fits.encode()
        };
        assert_eq!(written(&again), written(old));
    }
}

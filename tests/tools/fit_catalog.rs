//! Fits the built-in cost models to tables of published measurements and writes the catalog:
//!
//! ```sh
//! cargo run --release --example fit_catalog -- DATA_DIR [DOMAIN…|shared]
//! ```
//!
//! `DATA_DIR` holds `neusight/`, `aiconfigurator/`; with domains named, only those are fitted anew; with `shared`, only what
//! devices have in common and the errors of anchored predictions. Writes `src/cost/catalog/fits.json` and
//! `forests.bin`, the same bytes every time, and prints the held-out errors.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write;
use std::io::Read;
use std::path::Path;

use retime::cost::Domain;
use retime::cost::anchor::{Anchored, Ratio};
use retime::cost::calibrate::{self, Calibrated, Judged, Measurement, Sample, Tuning, significant};
use retime::cost::fits::{Choice, Fit, Fits, Unseen};
use retime::cost::structured;
use retime::cost::validate::smallest_us;
use retime::device::{Catalog, DeviceProfile};

/// File, source, whether its times are of whole calls.
const FILES: [(&str, &str, bool); 17] = [
    ("neusight/train_linear.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("neusight/test_linear.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("neusight/train_bmm.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("neusight/test_bmm.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("neusight/train_conv.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("neusight/train_ln.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("neusight/test_ln.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("neusight/train_softmax.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("neusight/test_softmax.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("neusight/train_elementwise.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("neusight/test_elem.csv.gz", "sitar-lab/NeuSight 6945927", true),
    ("aiconfigurator/gemm_bf16.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10", false),
    ("aiconfigurator/gemm_fp8.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10", false),
    ("deepbench/gemm.csv", DEEPBENCH, false),
    ("deepbench/conv.csv", DEEPBENCH, false),
    ("vidur/compute_mlp.csv.gz", "microsoft/vidur 7d47513", false),
    ("aiconfigurator/context_attention.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10", false),
];

const DEEPBENCH: &str = "baidu-research/DeepBench da81ba7";

/// Below this, NeuSight's times hold the host's floor and DeepBench's do not: they are not fitted together.
const ABOVE_FLOORS_US: f64 = 300.0;

/// Whether a row of `source` is left out: DeepBench's fp32 products, which NeuSight has by the thousand, and its short
/// convolutions where NeuSight measured others; vidur's A100, which aiconfigurator covers more finely.
fn is_left_out(source: &str, domain: Domain, row: &Measurement) -> bool {
    match source {
        DEEPBENCH if domain == Domain::Conv => row.device != "V100" && row.us < ABOVE_FLOORS_US,
        DEEPBENCH => domain != Domain::Gemm16,
        _ => row.device == "a100",
    }
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

type Rows = BTreeMap<(Domain, String), (Vec<Measurement>, &'static str, bool)>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: fit_catalog DATA_DIR [DOMAIN…]")?;
    let wanted: Vec<String> = arguments.collect();
    let catalog = Catalog::builtin()?;
    let is_shared_only = wanted.iter().any(|name| name == "shared");
    let rows = load(Path::new(&folder), &FILES, &catalog, if is_shared_only { &[] } else { &wanted })?;
    let old = Fits::builtin().unwrap_or_default();
    let again = |domain: Domain| wanted.is_empty() || wanted.iter().any(|name| name == domain.name());
    let mut fits: BTreeMap<(Domain, String), Fit> = old
        .iter()
        .filter(|fit| !again(fit.domain))
        .map(|fit| ((fit.domain, fit.devices[0].clone()), fit.clone()))
        .collect();
    for ((domain, id), (measured, source, whole_calls)) in rows.iter().filter(|_| !is_shared_only) {
        let device = catalog.find(id)?;
        let sample = Sample { domain: *domain, device, rows: measured, whole_calls: *whole_calls };
        match calibrate::calibrate(sample, source, &Tuning::default()) {
            Ok(calibrated) => {
                print_row(*domain, id, &calibrated);
                fits.insert((*domain, id.clone()), calibrated.fit);
            }
            Err(error) => eprintln!("{} {id}: {error}", domain.name()),
        }
    }
    let all = assemble(&fits, &rows, &catalog, &old)?;
    if wanted.is_empty() || wanted.iter().any(|name| name == "collectives") {
        fit_links(Path::new(&folder))?;
    }
    let (text, forests) = all.encode();
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cost/catalog");
    std::fs::write(target.join("fits.json"), text + "\n")?;
    std::fs::write(target.join("forests.bin"), forests)?;
    Ok(())
}

fn load(
    folder: &Path,
    files: &[(&str, &'static str, bool)],
    catalog: &Catalog,
    wanted: &[String],
) -> Result<Rows, Box<dyn Error>> {
    let mut all = Rows::new();
    for &(file, source, whole_calls) in files {
        let Some(text) = read(&folder.join(file))? else { continue };
        for row in calibrate::measurements(&text)? {
            let Some(domain) = Domain::of(&row.work) else { continue };
            let skip = !wanted.is_empty() && !wanted.iter().any(|name| name == domain.name());
            // P4: training and test rows of `linear` ran different kernels.
            if skip || (domain == Domain::Linear && row.device == "Tesla P4") {
                continue;
            }
            let Ok(device) = catalog.find(&row.device) else { continue };
            if is_left_out(source, domain, &row) {
                continue;
            }
            let id = device.id.clone();
            all.entry((domain, id)).or_insert_with(|| (Vec::new(), source, whole_calls)).0.push(row);
        }
    }
    for (rows, ..) in all.values_mut() {
        let step = rows.len().div_ceil(40_000);
        *rows = rows.iter().step_by(step).cloned().collect();
    }
    Ok(all)
}

/// Adds siblings with the error on them where they were measured, and the parameters for unseen devices.
fn assemble(
    fits: &BTreeMap<(Domain, String), Fit>,
    rows: &Rows,
    catalog: &Catalog,
    old: &Fits,
) -> Result<Fits, Box<dyn Error>> {
    let mut all = Fits::default();
    for domain in Domain::ALL {
        if let Some((unseen, anchored)) = leave_one_out(domain, fits, rows, catalog)? {
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
            .filter_map(|other| rows.get(&(*domain, (*other).to_owned())).map(|(rows, ..)| (other, rows)))
            .map(|(other, rows)| {
                let device: &DeviceProfile = catalog.find(other)?;
                Ok::<f64, Box<dyn Error>>(
                    calibrate::assess(&fit, device, &rows.iter().collect::<Vec<_>>()).kernels.mape,
                )
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

/// Predicts every device from parameters fitted to the devices of other chips: absolute, and anchored.
fn leave_one_out(
    domain: Domain,
    fits: &BTreeMap<(Domain, String), Fit>,
    rows: &Rows,
    catalog: &Catalog,
) -> Result<Option<Shared>, Box<dyn Error>> {
    let mut samples = Vec::new();
    for fit in fits.values().filter(|fit| fit.domain == domain) {
        let Some((rows, _, whole_calls)) = rows.get(&(domain, fit.devices[0].clone())) else { return Ok(None) };
        let device: &DeviceProfile = catalog.find(&fit.devices[0])?;
        samples.push((Sample { domain, device, rows, whole_calls: *whole_calls }, fit.host_floor_us));
    }
    let mut errors = Vec::new();
    let mut guesses = Vec::new();
    for (sample, host_floor_us) in &samples {
        let id = &sample.device.id;
        let same_chip =
            |other: &str| SIBLINGS.iter().any(|family| family.contains(&other) && family.contains(&id.as_str()));
        let others: Vec<_> = samples
            .iter()
            .filter(|(other, _)| other.device.id != *id && !same_chip(&other.device.id))
            .copied()
            .collect();
        let mut guess = fits[&(domain, id.clone())].clone();
        guess.parameters = calibrate::shared_parameters(domain, &others);
        guess.parameters[structured::FLOOR_US] = sample.device.kernel_start.secs() * 1e6;
        guess.choice = Choice::Structured;
        guess.host_floor_us = *host_floor_us;
        let counted: Vec<&Measurement> = sample.rows.iter().filter(|row| row.us >= smallest_us(domain)).collect();
        let error = calibrate::assess(&guess, sample.device, &counted).kernels;
        println!(
            "{:<13} {id:<14} unseen {:5.1} % bias {:+5.1} %",
            domain.name(),
            100.0 * error.mape,
            100.0 * error.bias
        );
        errors.push(error.mape);
        guesses.push(guess.parameters);
    }
    if samples.is_empty() {
        return Ok(None);
    }
    let error = significant(errors.iter().sum::<f64>() / errors.len() as f64, 4);
    let judged: Vec<Judged<'_>> = samples
        .iter()
        .zip(&guesses)
        .map(|((sample, _), shared)| Judged {
            sample: *sample,
            fit: &fits[&(domain, sample.device.id.clone())],
            shared,
        })
        .collect();
    let sources: BTreeSet<&str> = judged.iter().map(|one| one.fit.source.as_str()).collect();
    let source = sources.into_iter().collect::<Vec<_>>().join("; ");
    let anchored = calibrate::anchored_errors(domain, &judged, smallest_us(domain), &source);
    anchored.iter().for_each(print_anchored);
    let parameters = calibrate::shared_parameters(domain, &samples);
    let unseen = Unseen { domain, parameters, error, devices: samples.len() as u32, floor_starts: 1.0 };
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
fn fit_links(folder: &Path) -> Result<(), Box<dyn Error>> {
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
    let mut out = String::new();
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
        let rows = load(&folder, &files.collect::<Vec<_>>(), &catalog, &[]).unwrap();
        let id = "A100-80-PCIe";
        let (measured, source, whole_calls) = &rows[&(Domain::Softmax, id.to_owned())];
        let device = catalog.find(id).unwrap();
        let sample = Sample { domain: Domain::Softmax, device, rows: measured, whole_calls: *whole_calls };
        let again = calibrate::calibrate(sample, source, &Tuning::default()).unwrap().fit;
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

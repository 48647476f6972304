//! Fits the built-in cost models to tables of published measurements and writes the catalog:
//!
//! ```sh
//! cargo run --release --example fit_catalog -- DATA_DIR [DOMAIN…]
//! ```
//!
//! `DATA_DIR` holds `neusight/`, `aiconfigurator/`; with domains named, only those are fitted anew. Writes
//! `src/cost/catalog/fits.json` and `forests.bin`, and prints the held-out errors.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read;
use std::path::Path;

use retime::cost::Domain;
use retime::cost::calibrate::{self, Calibrated, Measurement, Sample};
use retime::cost::fits::{Fit, Fits, Unseen};
use retime::cost::forest::Growth;
use retime::device::{Catalog, DeviceProfile};

/// File, source, whether its times are of whole calls.
const FILES: [(&str, &str, bool); 14] = [
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
    ("aiconfigurator/context_attention.csv.gz", "ai-dynamo/aiconfigurator 095f58a, sglang 0.5.10", false),
];

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
    let rows = load(Path::new(&folder), &catalog, &wanted)?;
    let old = Fits::builtin().unwrap_or_default();
    let mut fits: BTreeMap<(Domain, String), Fit> =
        old.iter().map(|fit| ((fit.domain, fit.devices[0].clone()), fit.clone())).collect();
    for ((domain, id), (measured, source, whole_calls)) in &rows {
        let device = catalog.find(id)?;
        let sample = Sample { domain: *domain, device, rows: measured, whole_calls: *whole_calls };
        match calibrate::calibrate(sample, source, Growth::default()) {
            Ok(calibrated) => {
                print_row(*domain, id, &calibrated);
                fits.insert((*domain, id.clone()), calibrated.fit);
            }
            Err(error) => eprintln!("{} {id}: {error}", domain.name()),
        }
    }
    let all = assemble(fits, &rows, &catalog, &old)?;
    let (text, forests) = all.encode();
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cost/catalog");
    std::fs::write(target.join("fits.json"), text + "\n")?;
    std::fs::write(target.join("forests.bin"), forests)?;
    Ok(())
}

fn load(folder: &Path, catalog: &Catalog, wanted: &[String]) -> Result<Rows, Box<dyn Error>> {
    let mut all = Rows::new();
    for (file, source, whole_calls) in FILES {
        let Ok(bytes) = std::fs::read(folder.join(file)) else {
            eprintln!("skipped: {file} is not there");
            continue;
        };
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
        for row in calibrate::measurements(&text)? {
            let Some(domain) = Domain::of(&row.work) else { continue };
            let skip = !wanted.is_empty() && !wanted.iter().any(|name| name == domain.name());
            // P4: training and test rows of `linear` ran different kernels.
            if skip || (domain == Domain::Linear && row.device == "Tesla P4") {
                continue;
            }
            let id = catalog.find(&row.device)?.id.clone();
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
    fits: BTreeMap<(Domain, String), Fit>,
    rows: &Rows,
    catalog: &Catalog,
    old: &Fits,
) -> Result<Fits, Box<dyn Error>> {
    let mut all = Fits::default();
    for domain in Domain::ALL {
        if let Some(unseen) = leave_one_out(domain, &fits, rows, catalog)?.or_else(|| old.unseen(domain).cloned()) {
            all.set_unseen(unseen);
        }
    }
    for ((domain, id), fit) in &fits {
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
            fit.sibling_error = worst;
        } else if fit.sibling_error <= 0.0 {
            fit.sibling_error = fit.error.max(0.1);
        }
        all.add(fit)?;
    }
    Ok(all)
}

/// Predicts every device from the parameters of the others.
fn leave_one_out(
    domain: Domain,
    fits: &BTreeMap<(Domain, String), Fit>,
    rows: &Rows,
    catalog: &Catalog,
) -> Result<Option<Unseen>, Box<dyn Error>> {
    let own: Vec<&Fit> = fits.values().filter(|fit| fit.domain == domain).collect();
    let mut errors = Vec::new();
    for fit in &own {
        let Some((measured, ..)) = rows.get(&(domain, fit.devices[0].clone())) else { return Ok(None) };
        let others: Vec<&Fit> = own.iter().filter(|other| other.devices[0] != fit.devices[0]).copied().collect();
        let device = catalog.find(&fit.devices[0])?;
        let mut guess = (*fit).clone();
        guess.parameters = calibrate::unseen_parameters(domain, &others);
        guess.parameters[retime::cost::structured::FLOOR_US] = device.kernel_start.secs() * 1e6;
        guess.forest = retime::cost::forest::Forest::default();
        let error = calibrate::assess(&guess, device, &measured.iter().collect::<Vec<_>>()).kernels;
        println!(
            "{:<13} {:<14} unseen {:5.1} % bias {:+5.1} %",
            domain.name(),
            device.id,
            100.0 * error.mape,
            100.0 * error.bias
        );
        errors.push(error.mape);
    }
    if own.is_empty() {
        return Ok(None);
    }
    let error = errors.iter().sum::<f64>() / errors.len() as f64;
    Ok(Some(Unseen {
        domain,
        parameters: calibrate::unseen_parameters(domain, &own),
        error,
        devices: own.len() as u32,
    }))
}

fn print_row(domain: Domain, id: &str, found: &Calibrated) {
    let percent = |value: f64| 100.0 * value;
    println!(
        "{:<13} {id:<14} n {:>6} all {:5.1}/{:4.1} | kernels {:>6}: {:5.1}/{:4.1} bias {:+4.1} structured {:5.1} curve {:5.1} roofline {:5.1} floor {:4.1}",
        domain.name(),
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

//! `lab fit`: fits the built-in cost models to tables of published measurements and writes the catalog, the same bytes every time.
//!
//! Prints the errors on rows held out.

pub(crate) mod links;
mod shared;
pub(crate) mod tables;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use color_eyre::eyre::{Report, Result, eyre};
use retime_core::cost::Domain;
use retime_core::cost::anchor::Ratio;
use retime_core::cost::fits::{Fit, Fits, SharedParameters};
use retime_core::cost::significant::significant;
use retime_core::device::{Catalog, DeviceProfile};
use retime_fit::{Calibrated, FitPrior, Measurement, Sample, Tuning};

use shared::{common, floor_starts, leave_one_out};
use tables::{FILES, SIBLINGS, Tables, is_same_chip, load};

/// Fits by domain and first device.
type Fitted = BTreeMap<(Domain, String), Fit>;

/// Arguments of `lab fit`.
#[derive(Args)]
pub(crate) struct FitArgs {
    /// Folder with `neusight/`, `aiconfigurator/` and others.
    data: PathBuf,
    /// Domains to fit anew, or `collectives`; all without. With `shared`, fits stay, and what devices have in common and the errors of
    /// anchored predictions are worked out anew.
    #[arg(value_name = "shared|DOMAIN")]
    what: Vec<String>,
}

/// Where crates keep the files that fits are written to.
fn engine() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src")
}

/// Runs the command.
///
/// # Errors
/// A table or a file of the catalog cannot be read or written, or a name is no domain.
pub(crate) fn run(args: &FitArgs) -> Result<()> {
    let (shared, wanted): (Vec<&str>, Vec<&str>) =
        args.what.iter().map(String::as_str).partition(|name| *name == "shared");
    let is_known = |name: &str| name == "collectives" || Domain::ALL.iter().any(|domain| domain.name() == name);
    if let Some(name) = wanted.iter().find(|name| !is_known(name)) {
        return Err(eyre!("`{name}` is no domain"));
    }
    let catalog = Catalog::builtin()?;
    let tables = load(&args.data, &FILES, &catalog, &wanted)?;
    let target = engine().join("cost/catalog");
    let old = committed(&target).unwrap_or_default();
    let is_named = |name: &str| wanted.is_empty() || wanted.contains(&name);
    let again = |domain: Domain| shared.is_empty() && is_named(domain.name());
    let kept = old.iter().filter(|fit| !again(fit.domain));
    let mut fits: Fitted = kept.map(|fit| ((fit.domain, fit.devices[0].clone()), fit.clone())).collect();
    for domain in Domain::ALL.into_iter().filter(|domain| again(*domain)) {
        for (id, found) in fitted(domain, &tables, &catalog)? {
            print_row(domain, &id, &found);
            fits.insert((domain, id), found.fit);
        }
    }
    let all = assemble(&fits, &tables, &catalog, &old)?;
    if shared.is_empty() && is_named("collectives") {
        links::fit(&args.data, &catalog, &engine().join("device/catalog/link-curves.toml"))?;
    }
    let (text, forests) = all.encode();
    fs::write(target.join("fits.json"), text + "\n")?;
    fs::write(target.join("forests.bin"), forests)?;
    Ok(())
}

/// The fits as the files in `folder` are now, which may be newer than those built in.
fn committed(folder: &Path) -> Result<Fits> {
    let text = fs::read_to_string(folder.join("fits.json"))?;
    Fits::decode(&text, &fs::read(folder.join("forests.bin"))?).map_err(Report::msg)
}

/// The fits of `domain`, by device.
fn fitted(domain: Domain, tables: &Tables, catalog: &Catalog) -> Result<Vec<(String, Calibrated)>> {
    let samples = tables::samples(domain, tables, catalog)?;
    let common = retime_fit::shared_parameters(domain, &common(domain, &samples));
    // The same kernels, batched or not: what single products take without a host's floor.
    let others =
        if domain == Domain::BatchedGemm { tables::samples(Domain::Linear, tables, catalog)? } else { Vec::new() };
    let mut found = Vec::new();
    for sample in &samples {
        let id = &sample.device.id;
        let siblings = samples.iter().filter(|other| other.device.id != *id);
        let companions: Vec<Sample<'_>> =
            siblings.chain(&others).filter(|other| is_same_chip(&other.device.id, id)).copied().collect();
        let prior = FitPrior { common: Some(&common), companions: &companions };
        let source = tables[&(domain, id.clone())].source();
        match retime_fit::calibrate(*sample, prior, &source, &Tuning::default()) {
            Ok(calibrated) => found.push((id.clone(), calibrated)),
            Err(error) => eprintln!("{} {id}: {error}", domain.name()),
        }
    }
    Ok(found)
}

/// Adds siblings with the error on them where they were measured, and the parameters for unseen devices.
fn assemble(fits: &Fitted, tables: &Tables, catalog: &Catalog, old: &Fits) -> Result<Fits> {
    let mut all = Fits::default();
    for domain in Domain::ALL {
        if let Some((unseen, anchored)) = leave_one_out(domain, fits, tables, catalog)? {
            all.set_unseen(SharedParameters { floor_starts: floor_starts(domain, fits, catalog, "")?, ..unseen });
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
        fit.devices.extend(siblings.iter().map(|id| (*id).to_owned()));
        let measured = SIBLINGS.iter().filter(|family| family[0] == id).flat_map(|family| &family[1..]);
        let errors: Vec<f64> = measured
            .filter_map(|other| tables.get(&(*domain, (*other).to_owned())).map(|table| (other, table)))
            .map(|(other, table)| {
                let device: &DeviceProfile = catalog.find(other)?;
                let held_out: Vec<&Measurement> =
                    table.rows.iter().filter(|row| retime_fit::is_held_out(&row.work)).collect();
                let fit = Fit { devices: vec![(**other).to_owned()], ..fit.clone() };
                Ok::<f64, Report>(retime_fit::assess(&fit, device, &held_out).kernels.mape)
            })
            .collect::<Result<_, _>>()?;
        if let Some(worst) = errors.into_iter().reduce(f64::max) {
            println!("{:<13} {id:<14} on its sibling {:5.1} %", domain.name(), 100.0 * worst);
            fit.sibling_error = significant(worst, 4);
        } else if fit.sibling_error <= 0.0 {
            fit.sibling_error = fit.error.max(0.1);
        }
        all.add(fit).map_err(Report::msg)?;
    }
    Ok(all)
}

fn print_row(domain: Domain, id: &str, found: &Calibrated) {
    let percent = |value: f64| 100.0 * value;
    println!(
        "{:<13} {id:<14} {:<16} {:>4} trees n {:>6} all {:5.1}/{:4.1} | kernels {:>6}: {:5.1}/{:4.1} bias {:+4.1} structured {:5.1} curve {:5.1} roofline {:5.1} floor {:4.1}",
        domain.name(),
        found.fit.choice.name(),
        found.fit.forest.len(),
        found.errors.held_out.n,
        percent(found.errors.held_out.mape),
        percent(found.errors.held_out.gmae),
        found.errors.kernels.n,
        percent(found.errors.kernels.mape),
        percent(found.errors.kernels.gmae),
        percent(found.errors.kernels.bias),
        percent(found.errors.structured.mape),
        percent(found.errors.curve.mape),
        percent(found.errors.roofline.mape),
        found.fit.host_floor_us,
    );
}

#[cfg(test)]
mod tests {
    use super::tables::samples;
    use super::*;

    #[test]
    fn softmax_fitted_anew_is_what_is_committed_to_the_last_byte() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
        if !folder.join("neusight").is_dir() {
            eprintln!("skipped: {} is not there", folder.display());
            return;
        }
        let (catalog, committed) = (Catalog::builtin().unwrap(), Fits::builtin().unwrap());
        let teaches = |name: &str| name.contains("softmax") || name.starts_with("sample_traces/");
        let files = FILES.into_iter().filter(|(name, ..)| teaches(name));
        let tables = load(&folder, &files.collect::<Vec<_>>(), &catalog, &[Domain::Softmax.name()]).unwrap();
        let id = "A100-80-PCIe";
        let samples = samples(Domain::Softmax, &tables, &catalog).unwrap();
        let common = retime_fit::shared_parameters(Domain::Softmax, &samples);
        let sample = *samples.iter().find(|sample| sample.device.id == id).unwrap();
        let prior = FitPrior { common: Some(&common), companions: &[] };
        let source = tables[&(Domain::Softmax, id.to_owned())].source();
        let again = retime_fit::calibrate(sample, prior, &source, &Tuning::default()).unwrap().fit;
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

//! `devices`: the catalog, one device with its sources, or a check of a device file.

mod missing;
mod shown;

use std::io::Write;
use std::path::Path;

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{DevicesAction, DevicesArgs, OutputArgs};
use crate::config::Config;
use crate::session::read_text;
use retime_core::cost::CostModels;
use retime_core::cost::device_file::read_fits;
use retime_core::device::{Catalog, DeviceKind, DeviceProfile, Precision};

use super::{input, output};
use shown::Shown;

#[derive(Debug, Serialize)]
struct Listed<'a> {
    id: &'a str,
    name: &'a str,
    kind: DeviceKind,
    sm_count: u32,
    memory_bytes: u64,
    dram_bandwidth_bytes_per_s: f64,
    peak_flop_per_s: std::collections::BTreeMap<String, f64>,
}

#[derive(Debug, Serialize)]
struct Devices<T> {
    devices: Vec<T>,
}

#[derive(Debug, Serialize)]
struct Full<'a> {
    #[serde(flatten)]
    listed: Listed<'a>,
    #[serde(flatten)]
    shown: &'a Shown,
}

/// Runs the command.
///
/// # Errors
/// An unknown device, or a file that is none.
pub fn run(args: &DevicesArgs) -> Result<()> {
    match &args.action {
        None => list(&args.output),
        Some(DevicesAction::List(output)) => list(output),
        Some(DevicesAction::Show { name, output }) => show(name, output),
        Some(DevicesAction::Check { file, output }) => check(file.as_deref(), output),
    }
}

#[derive(Debug, Serialize)]
struct Checked {
    file: Option<String>,
    fits: usize,
    devices: Vec<String>,
    not_measured: Vec<missing::DerivedFigure>,
}

fn check(file: Option<&Path>, output: &OutputArgs) -> Result<()> {
    let files = match file {
        Some(path) => vec![(path.display().to_string(), read_text(path)?)],
        None => Config::read()?.devices,
    };
    let catalog = Catalog::with_files(&files)?;
    let models = CostModels::with_devices(&catalog, &files)?;
    let (mut named, mut fits) = (Vec::new(), 0);
    for (name, text) in files.iter().filter(|_| file.is_some()) {
        named.extend(Catalog::devices_of(name, text)?);
        fits += read_fits(name, text)?.fits.len();
    }
    let devices: Vec<&DeviceProfile> =
        catalog.iter().map(AsRef::as_ref).filter(|device| file.is_none() || named.contains(&device.id)).collect();
    let checked = Checked {
        file: file.map(|path| path.display().to_string()),
        fits,
        devices: devices.iter().map(|device| device.id.clone()).collect(),
        not_measured: missing::missing(&catalog, &models, devices.into_iter()),
    };
    let describe = |out: &mut dyn Write| {
        if let Some(file) = &checked.file {
            writeln!(
                out,
                "{file}: fine; {} devices ({}), {fits} fits",
                checked.devices.len(),
                checked.devices.join(", ")
            )?;
        }
        output::text(&missing::table(&checked.not_measured), out)
    };
    output::write(output, &checked, describe, || missing::table(&checked.not_measured))?;
    Ok(())
}

fn listed(profile: &DeviceProfile) -> Listed<'_> {
    Listed {
        id: &profile.id,
        name: &profile.name,
        kind: profile.kind,
        sm_count: profile.sm_count,
        memory_bytes: profile.memory.0,
        dram_bandwidth_bytes_per_s: profile.bandwidth().0,
        peak_flop_per_s: profile.peak.iter().map(|(precision, rate)| (precision.key().to_owned(), rate.0)).collect(),
    }
}

fn list(output: &OutputArgs) -> Result<()> {
    let engine = input::engine()?;
    let devices = Devices { devices: engine.catalog.iter().map(|profile| listed(profile)).collect() };
    let table = || {
        let mut table =
            output::Table::new(&["id", "name", "kind", "SMs", "memory", "GB/s", "TFLOP/s fp32", "16-bit tensor"]);
        for profile in engine.catalog.iter() {
            let rate = |precision| {
                profile.peak.get(&precision).map_or("–".to_owned(), |rate| format!("{:.1}", rate.0 / 1e12))
            };
            table.row([
                profile.id.clone(),
                profile.name.clone(),
                format!("{:?}", profile.kind).to_lowercase(),
                profile.sm_count.to_string(),
                profile.memory.to_string(),
                format!("{:.0}", profile.bandwidth().0 / 1e9),
                rate(Precision::Fp32),
                rate(Precision::Fp16Tensor),
            ]);
        }
        table
    };
    output::write(output, &devices, |out| output::text(&table(), out), table)?;
    Ok(())
}

fn show(name: &str, output: &OutputArgs) -> Result<()> {
    let engine = input::engine()?;
    let profile = engine.catalog.find(name)?;
    let shown = shown::shown(profile, &engine.models);
    let describe = |out: &mut dyn Write| {
        writeln!(out, "{}  {}", profile.id, profile.name)?;
        shown.describe(out)
    };
    let devices = Devices { devices: vec![Full { listed: listed(profile), shown: &shown }] };
    output::write(output, &devices, describe, || shown.table())?;
    Ok(())
}

//! `calibrate`: tables of measurements → a device file, and how wrong its fits are.

use std::io::{self, Write, stderr};

use color_eyre::eyre::{Result, eyre};
use serde::Serialize;

use crate::cli::{CalibrateArgs, CalibrateModel};
use crate::config::Config;
use crate::session::{Engine, Overwrite, read_table, write_new};
use retime_core::cost::ErrorSummary;
use retime_core::intern::printable;
use retime_fit::{DeviceCalibration, DomainReport, FamilyUse, Model, Target, calibrate_device};

use super::{input, output};

#[derive(Debug, Serialize)]
struct Answer<'a> {
    tables: Vec<String>,
    device: &'a str,
    inherits: &'a str,
    file: String,
    rows: &'a [DomainReport],
    unused: &'a [String],
    families: &'a [FamilyUse],
    warnings: &'a [String],
}

/// Runs the command.
///
/// # Errors
/// A table cannot be read, holds nothing that can be fitted, or the file cannot be written.
pub fn run(args: &CalibrateArgs) -> Result<()> {
    let engine = input::engine()?;
    let mut files = Vec::new();
    let paths = input::expand(&args.tables)?;
    for path in &paths {
        files.push((path.display().to_string(), read_table(path)?));
    }
    let target = Target {
        device: args.device.as_deref(),
        inherits: args.inherits.as_deref(),
        is_quick: args.quick,
        model: match args.model {
            CalibrateModel::Fitted => Model::Fitted,
            CalibrateModel::Parameterised => Model::Parameterised,
            CalibrateModel::ThreeRegion => Model::ThreeRegion,
        },
        is_paper_grid: args.paper_grid,
    };
    let found = calibrate_device(&engine.catalog, engine.models.fits(), &files, target)
        .map_err(|(file, error)| if file.is_empty() { eyre!("{error}") } else { eyre!("{file}: {error}") })?;
    let text = found.file()?;
    let name = args.out.display().to_string();
    // What is written has to be read again, whatever the measurements were.
    let known = Config::read()?.devices;
    let mut devices = known.clone();
    devices.retain(|(known, _)| *known != name);
    devices.push((name.clone(), text.clone()));
    Engine::with_devices(&devices)?;
    let is_known = |there: &str| known.iter().any(|(_, text)| text == there);
    write_new(&args.out, text.as_bytes(), Overwrite { force: args.force, renews: &is_known })?;
    let answer = Answer {
        tables: files.into_iter().map(|(name, _)| name).collect(),
        device: &found.id,
        inherits: &found.inherits,
        file: name,
        rows: &found.report,
        unused: &found.unused,
        families: &found.families,
        warnings: &found.warnings,
    };
    for warning in &found.warnings {
        let _ = writeln!(stderr(), "retime: unlikely-times: {}", printable(warning));
    }
    output::write(&args.output, &answer, |out| describe(&found, &answer, out), || table(&found.report))?;
    Ok(())
}

fn describe(found: &DeviceCalibration, answer: &Answer<'_>, out: &mut dyn Write) -> io::Result<()> {
    output::text(&table(&found.report), out)?;
    writeln!(
        out,
        "errors in percent on held-out rows: one shape in five, the same on every machine; of a few rows each from the others"
    )?;
    for (key, value) in &found.figures {
        writeln!(out, "measured {key}: {value}")?;
    }
    for FamilyUse { family, fitted_as, rows, .. } in found.families.iter().filter(|family| family.is_used) {
        writeln!(out, "{family}: {rows} rows as {fitted_as}")?;
    }
    for FamilyUse { family, fitted_as, rows, .. } in found.families.iter().filter(|family| !family.is_used) {
        writeln!(out, "not used: {rows} rows of {family}: {fitted_as}")?;
    }
    for unused in &found.unused {
        writeln!(out, "not used: {unused}")?;
    }
    writeln!(
        out,
        "{} (inherits from {}) is in {}; copy it to the folder devices of retime's configuration",
        answer.device, answer.inherits, answer.file
    )
}

fn table(rows: &[DomainReport]) -> output::Table {
    let mut table = output::Table::new(&[
        "fitted",
        "model",
        "n",
        "held out",
        "MAPE",
        "GMAE",
        "bias",
        "p50",
        "p90",
        "worst",
        "kernels",
        "MAPE",
        "structured",
        "network",
        "curve",
        "roofline",
    ]);
    let known = |value: f64, text: String| if value.is_nan() { "–".to_owned() } else { text };
    let percent = |value: f64| known(value, format!("{:.1}", 100.0 * value));
    let signed = |value: f64| known(value, format!("{:+.1}", 100.0 * value));
    let baseline = |errors: &ErrorSummary| if errors.n == 0 { "–".to_owned() } else { percent(errors.mape) };
    for row in rows {
        let errors = row.errors.held_out;
        let worst = if errors.max.abs() > errors.min.abs() { errors.max } else { errors.min };
        table.row([
            row.domain.clone(),
            row.model.clone(),
            row.n_train.to_string(),
            errors.n.to_string(),
            percent(errors.mape),
            percent(errors.gmae),
            signed(errors.bias),
            percent(errors.p50),
            percent(errors.p90),
            signed(worst),
            row.errors.kernels.n.to_string(),
            percent(row.errors.kernels.mape),
            baseline(&row.errors.structured),
            row.network.map(percent).unwrap_or_default(),
            baseline(&row.errors.curve),
            baseline(&row.errors.roofline),
        ]);
    }
    table
}

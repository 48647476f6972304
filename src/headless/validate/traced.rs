//! Kernels of traces for `validate models`: opening the traces, and the table of families and devices.

use std::path::PathBuf;

use serde::Serialize;

use crate::cost::traced::{TracedRow, traced_kernels, traced_table};
use crate::device::{DeviceKind, DeviceProfile};
use crate::graph::BuildOptions;
use crate::headless::output;
use crate::session::{Engine, Loaded, folders_of_traces};
use crate::trace::OpenOptions;

/// What the traces say.
#[derive(Debug, Default, Serialize)]
pub(super) struct Traced {
    /// Traces whose kernels count, by title.
    pub(super) traces: Vec<String>,
    /// Files and devices that do not, with the reason.
    pub(super) left_out: Vec<String>,
    /// Families by device.
    pub(super) rows: Vec<TracedRow>,
}

/// Opens the files and folders in `paths` and compares the kernels of the chosen iteration of each with the models.
pub(super) fn compare(engine: &Engine, paths: &[PathBuf]) -> Traced {
    let (mut answer, mut jobs) = (Traced::default(), Vec::new());
    for path in folders_of_traces(paths) {
        match engine.load(std::slice::from_ref(&path), &OpenOptions::default(), &BuildOptions::default()) {
            Ok(found) => jobs.extend(found),
            Err(error) => answer.left_out.push(error.to_string()),
        }
    }
    let mut kernels = Vec::new();
    for loaded in &jobs {
        let devices = recognised(loaded);
        let before = kernels.len();
        if loaded.traces().all(|trace| trace.predicted.is_none()) {
            kernels.extend(traced_kernels(&loaded.graph, &devices));
        }
        if kernels.len() > before {
            answer.traces.push(loaded.title.clone());
        } else {
            answer.left_out.push(format!("{}: no measured kernels of a device in the catalog", loaded.title));
        }
    }
    answer.rows = traced_table(&engine.models, &kernels);
    answer
}

/// The devices of a job's ranks as far as the catalog knows them.
fn recognised(loaded: &Loaded) -> Vec<Option<&DeviceProfile>> {
    let known = loaded.context.devices.iter();
    known.map(|device| Some(&*device.profile).filter(|own| device.recognised && own.kind == DeviceKind::Gpu)).collect()
}

/// The rows as a table.
pub(super) fn table(rows: &[TracedRow]) -> output::Table {
    let mut table = output::Table::new(&[
        "traced",
        "device",
        "kernels",
        "time µs",
        "unmodelled %",
        "predicted/measured",
        "n",
        "MAPE",
        "GMAE",
        "bias",
        "roofline",
        "misses most",
    ]);
    let percent = |value: f64| format!("{:.1}", 100.0 * value);
    for row in rows {
        let worst = row.worst.first().filter(|worst| worst.measured_us > 0.0);
        table.row([
            row.family.clone(),
            row.device.clone(),
            row.kernels.to_string(),
            format!("{:.0}", row.measured_us),
            percent(row.unmodelled_share),
            format!("{:.2}", row.predicted_over_measured),
            row.errors.n.to_string(),
            percent(row.errors.mape),
            percent(row.errors.gmae),
            format!("{:+.1}", 100.0 * row.errors.bias),
            percent(row.roofline.mape),
            worst.map_or(String::new(), |worst| shortened(&worst.name)),
        ]);
    }
    table
}

/// Letters of a kernel's name that are shown.
const SHOWN: usize = 48;

fn shortened(name: &str) -> String {
    if name.chars().count() <= SHOWN {
        return name.to_owned();
    }
    name.chars().take(SHOWN - 1).chain(['…']).collect()
}

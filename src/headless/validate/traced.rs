//! Kernels of traces for `validate models`: opening the traces, and the table of families and devices.

use std::path::PathBuf;

use serde::Serialize;

use crate::headless::output;
use crate::session::{Engine, Loaded, folders_of_traces, name_for_people};
use retime_core::cost::ErrorSummary;
use retime_core::cost::trace_error::{TraceError, stated_errors};
use retime_core::device::{DeviceKind, DeviceProfile};
use retime_core::graph::BuildOptions;
use retime_core::trace::OpenOptions;
use retime_fit::traced::{CopyRow, TracedAnswer, TracedRow, copy_table, traced_kernels, traced_table};

/// What the traces say.
#[derive(Debug, Default, Serialize)]
pub(super) struct Traced {
    /// Traces whose kernels count, by title.
    pub(super) traces: Vec<String>,
    /// Files and devices that do not, with the reason.
    pub(super) left_out: Vec<String>,
    /// Families by device, errors by domain, and how often their bands hold.
    #[serde(flatten)]
    pub(super) kernels: TracedAnswer,
    /// Copies by kind and device, none anchored.
    pub(super) copies: Vec<CopyRow>,
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
    let mut traces = Vec::new();
    for loaded in &jobs {
        let is_measured = loaded.traces().all(|trace| trace.predicted.is_none());
        let kernels = if is_measured { traced_kernels(&loaded.graph, &recognised(loaded)) } else { Vec::new() };
        if kernels.is_empty() {
            answer.left_out.push(format!("{}: no measured kernels of a device in the catalog", loaded.title));
        } else {
            answer.traces.push(loaded.title.clone());
            traces.push(kernels);
        }
    }
    answer.copies = copy_table(&traces);
    answer.kernels = traced_table(&engine.models, &traces);
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
        "short",
        "their ratio",
        "n",
        "MAPE",
        "GMAE",
        "bias",
        "alone",
        "MAPE",
        "beside others",
        "MAPE",
        "in band",
        "roofline",
        "misses most",
    ]);
    for row in rows {
        let of = |errors: &ErrorSummary, value: f64| if errors.n > 0 { percent(value) } else { String::new() };
        let worst = row.worst.first().filter(|worst| worst.measured_us > 0.0);
        table.row([
            row.family.clone(),
            row.device.clone(),
            row.kernels.to_string(),
            format!("{:.0}", row.measured_us),
            percent(row.unmodelled_share),
            if row.unmodelled_share < 1.0 { format!("{:.2}", row.predicted_over_measured) } else { String::new() },
            row.short.to_string(),
            if row.short > 0 { format!("{:.2}", row.short_predicted_over_measured) } else { String::new() },
            row.errors.n.to_string(),
            of(&row.errors, row.errors.mape),
            of(&row.errors, row.errors.gmae),
            if row.errors.n > 0 { format!("{:+.1}", 100.0 * row.errors.bias) } else { String::new() },
            row.alone.n.to_string(),
            of(&row.alone, row.alone.mape),
            if row.beside.n > 0 { row.beside.n.to_string() } else { String::new() },
            if row.beside.n > 0 { percent(row.beside.mape) } else { String::new() },
            row.inside.map_or(String::new(), percent),
            of(&row.roofline, row.roofline.mape),
            worst.map_or(String::new(), |worst| name_for_people(&worst.name).into_owned()),
        ]);
    }
    table
}

/// Errors by domain as a table.
pub(super) fn errors(rows: &[TraceError]) -> output::Table {
    let mut table = output::Table::new(&["unanchored", "on GPUs of", "error", "kinds", "traces", "stated"]);
    let stated = stated_errors();
    for row in rows {
        let same = |own: &&TraceError<&str>| own.of == row.of && own.is_amd == row.is_amd;
        let own = stated.iter().find(same).map_or("–".to_owned(), |own| percent(own.error));
        let maker = row.maker().to_owned();
        table.row([row.of.clone(), maker, percent(row.error), row.n.to_string(), row.traces.to_string(), own]);
    }
    table
}

fn percent(value: f64) -> String {
    format!("{:.1}", 100.0 * value)
}

/// Copies as a table.
pub(super) fn copies(rows: &[CopyRow]) -> output::Table {
    let mut table = output::Table::new(&[
        "copies",
        "memory",
        "device",
        "n",
        "MAPE",
        "GMAE",
        "bias",
        "other traces",
        "MAPE",
        "bias",
        "other half",
        "MAPE",
        "bias",
    ]);
    let of = |errors: &ErrorSummary| match errors.n {
        0 => ["–", "", ""].map(str::to_owned),
        n => [n.to_string(), percent(errors.mape), format!("{:+.1}", 100.0 * errors.bias)],
    };
    for row in rows {
        let [n, mape, bias] = of(&row.figures);
        let (names, gmae) = ([row.route, row.memory].map(str::to_owned), percent(row.figures.gmae));
        let figures = [row.device.clone(), n, mape, gmae, bias];
        table.row(names.into_iter().chain(figures).chain(of(&row.others)).chain(of(&row.own)));
    }
    table
}

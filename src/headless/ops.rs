//! `ops`: operators or kernels with host and device time, work, and what the models say of them.

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::analysis::edited::Edited;
use crate::analysis::lanes::Times;
use crate::analysis::operators::{self, Grouping, Level, Predictor};
use crate::cli::{Iteration, OpsArgs, OpsGroup, OpsLevel};
use crate::device::DeviceProfile;
use crate::session::Engine;
use crate::units::DurNs;

use super::{input, output};

#[derive(Debug, Serialize)]
struct Answer {
    rows: Vec<operators::Row>,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, or standard output cannot be written.
pub fn run(args: &OpsArgs, iteration: Iteration) -> Result<()> {
    let engine = Engine::builtin()?;
    let scenario = input::scenario(&engine, &args.common.scenario)?;
    let loaded = input::open_one(&engine, &args.common.input.traces, iteration)?;
    let outcome = engine.evaluate(&loaded, &scenario, 0);
    let devices: Vec<Option<&DeviceProfile>> = outcome.resolved.devices.iter().map(|device| Some(&**device)).collect();
    let predictor = Predictor { models: &engine.models, devices: &devices };
    let edited = Edited::of(&outcome.resolved);
    let times = Times::Simulated { timed: &edited.timed, schedule: &outcome.schedule };
    let rows = operators::rows(&edited.graph, times, Some(predictor), level(args.level), grouping(args.by));
    let json = input::Envelope::new(&loaded, Answer { rows });
    let table = || table(&json.answer.rows);
    output::write(&args.common.input.output, &json, |out| output::text(&table(), out), table)?;
    Ok(())
}

fn level(level: OpsLevel) -> Level {
    match level {
        OpsLevel::Model => Level::Model,
        OpsLevel::Module => Level::Module,
        OpsLevel::Op => Level::Operator,
        OpsLevel::Kernel => Level::Kernel,
    }
}

fn grouping(by: OpsGroup) -> Grouping {
    match by {
        OpsGroup::Name => Grouping::Name,
        OpsGroup::Family => Grouping::Family,
        OpsGroup::Stream => Grouping::Stream,
        OpsGroup::Module => Grouping::Module,
    }
}

fn table(rows: &[operators::Row]) -> output::Table {
    let mut table =
        output::Table::new(&["count", "host", "device", "GFLOP", "MB", "predicted", "off %", "bound", "name"]);
    for row in rows {
        table.row([
            row.count.to_string(),
            DurNs(row.host_ns).to_string(),
            DurNs(row.device_ns).to_string(),
            format!("{:.3}", row.flop / 1e9),
            format!("{:.2}", row.bytes as f64 / 1e6),
            row.predicted_ns.map_or("–".to_owned(), |ns| DurNs(ns).to_string()),
            row.deviation.map_or("–".to_owned(), |off| format!("{:+.0}", 100.0 * off)),
            row.bound.map_or(String::new(), |bound| format!("{bound:?}").to_lowercase()),
            row.label.clone(),
        ]);
    }
    table
}

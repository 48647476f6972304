//! `ops`: operators or kernels with host and device time, work, and what the models say of them.

use std::io::Write;
use std::sync::Arc;

use color_eyre::eyre::Result;
use serde::Serialize;

use crate::cli::{Iteration, OpsArgs, OpsGroup, OpsLevel, OpsOrder};
use retime_core::analysis::operators::{self, Grouping, Level, Predictor};
use retime_core::cost::topology::COMMON_NODE;
use retime_core::device::DeviceProfile;
use retime_core::scenario::{Base, Selector};
use retime_core::units::{DurNs, Percent};

use super::opened::Opened;
use super::{Misuse, input, output};

#[derive(Debug, Serialize)]
struct Answer {
    rows: Vec<operators::Row>,
}

/// Runs the command.
///
/// # Errors
/// Nothing could be opened, an edit cannot be read, or standard output cannot be written.
pub fn run(args: &OpsArgs, iteration: Iteration) -> Result<()> {
    let selector = args.select.as_deref().map(Selector::parse).transpose();
    let selector = selector.map_err(|error| Misuse(format!("--select: {error}")))?;
    let opened = Opened::of(&args.common, iteration)?;
    let resolved = &opened.outcome.resolved;
    let is_known = opened.loaded.context.unknown_device(&opened.loaded.graph).is_none();
    let devices: Vec<Option<&DeviceProfile>> =
        resolved.devices.iter().map(|device| Some(&**device).filter(|_| is_known)).collect();
    let predictor = Predictor { models: &opened.engine.models, devices: &devices };
    let graph = &opened.edited.graph;
    let nodes = selector.map(|selector| selector.select(&Base::new(Arc::clone(graph))));
    let choice = operators::Choice { level: level(args.level), by: grouping(args.by), nodes: nodes.as_deref() };
    let mut rows = operators::rows_of((graph, &opened.edited.works), opened.times(), Some(predictor), choice);
    sort(&mut rows, args.sort);
    let json = input::Envelope::new(&opened.loaded, Answer { rows });
    let table = || table(&json.answer.rows);
    let groups = graph.collectives.iter().map(|collective| collective.group_size);
    let is_wide = groups.max().is_some_and(|ranks| ranks > COMMON_NODE);
    let describe = |out: &mut dyn Write| {
        output::text(&table(), out)?;
        if is_wide { writeln!(out, "{ACROSS_NODES}") } else { Ok(()) }
    };
    output::write(&args.common.input.output, &json, describe, table)?;
    Ok(())
}

/// What is to be said of predicted collectives that no node has the devices for.
const ACROSS_NODES: &str = "collectives of more than 8 ranks are predicted as within one node: between nodes they take longer, \
                            and models are 27 to 73 % too fast for all-reduce there";

/// The level that the argument names.
pub fn level(level: OpsLevel) -> Level {
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

/// The largest first; what is not known goes last. Equal rows keep their order, by device time.
fn sort(rows: &mut [operators::Row], order: OpsOrder) {
    match order {
        OpsOrder::Device => {}
        OpsOrder::Host => rows.sort_by_key(|row| std::cmp::Reverse(row.host_ns)),
        OpsOrder::Count => rows.sort_by_key(|row| std::cmp::Reverse(row.count)),
        OpsOrder::Flop => rows.sort_by(|a, b| b.flop.total_cmp(&a.flop)),
        OpsOrder::Bytes => rows.sort_by_key(|row| std::cmp::Reverse(row.bytes)),
        OpsOrder::Deviation => {
            let off = |row: &operators::Row| row.deviation.unwrap_or(f64::NEG_INFINITY);
            rows.sort_by(|a, b| off(b).total_cmp(&off(a)));
        }
        OpsOrder::Name => rows.sort_by(|a, b| a.label.cmp(&b.label)),
    }
}

/// `amount` of a row's work: at least that where the work of some of its device time is not known, nothing where that of none is.
fn as_far_as_known(row: &operators::Row, amount: String) -> String {
    match row.work_share {
        _ if row.device_ns <= 0 => amount,
        share if share <= 0.0 => "–".to_owned(),
        share if share < 1.0 => format!("≥ {amount}"),
        _ => amount,
    }
}

fn table(rows: &[operators::Row]) -> output::Table {
    let header = &[
        "count",
        "host",
        "device",
        "GFLOP",
        "MB",
        "predicted",
        "of",
        "off %",
        "beyond fits",
        "bound",
        "better",
        "name",
    ];
    let mut table = output::Table::new(header);
    for row in rows {
        table.row([
            row.count.to_string(),
            DurNs(row.host_ns).to_string(),
            DurNs(row.device_ns).to_string(),
            as_far_as_known(row, format!("{:.3}", row.flop / 1e9)),
            as_far_as_known(row, format!("{:.2}", row.bytes as f64 / 1e6)),
            row.predicted_ns.map_or("–".to_owned(), |ns| DurNs(ns).to_string()),
            // Of what part of the device time: next to the whole of it a prediction of a part would mislead.
            row.predicted_ns.map_or(String::new(), |_| format!("{:.0}", Percent(row.predicted_share))),
            row.deviation.map_or("–".to_owned(), |off| format!("{:+.0}", 100.0 * off)),
            if row.extrapolated { "yes" } else { "" }.to_owned(),
            row.bound.map_or(String::new(), |bound| format!("{bound:?}").to_lowercase()),
            row.better.clone().unwrap_or_default(),
            row.label.clone(),
        ]);
    }
    table
}

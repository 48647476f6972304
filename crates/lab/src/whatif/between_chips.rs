//! Published times of single operators inside models: from each chip on which one was measured, the others follow as `swap-gpu` has it.
//!
//! Owns what an operator of that table does. No fit has seen these times; the rule which kernels are predicted alone was decided on
//! them.

use std::collections::BTreeMap;

use retime::session::{Engine, read_table};
use retime_core::cost::operators::{Reading, operator_work};
use retime_core::cost::{Kernel, Work};
use retime_core::device::DeviceProfile;
use retime_core::graph::{DType, Operand, Operands};
use retime_core::units::DurNs;
use retime_fit::csv::{self, Table};

use super::sources::Sources;
use super::{Answer, Constants, Row, median};

/// Shorter ones are the host's as much as the device's.
const SHORTEST_MS: f64 = 0.15;
const LIMIT: f64 = 0.20;
/// Who makes both chips.
const FAMILIES: [&str; 3] =
    ["published operators, AMD ↔ NVIDIA", "published operators, AMD ↔ AMD", "published operators, NVIDIA ↔ NVIDIA"];

/// Times by work, then by device.
type Times<'e> = BTreeMap<String, (Work, BTreeMap<&'e str, (&'e DeviceProfile, Vec<f64>)>)>;

/// Predicts each operator on each device from all other chips, and sums up; there are too many for rows.
pub(crate) fn check(engine: &Engine, sources: &Sources, answer: &mut Answer) {
    let Some(file) = &sources.operators else { return };
    let table = match read_table(file).map(|text| Table::parse(&text)) {
        Ok(Ok(table)) => table,
        Ok(Err(error)) => return answer.not_checked.push(format!("{}: {error}", file.display())),
        Err(error) => return answer.not_checked.push(error.to_string()),
    };
    let mut times: Times<'_> = BTreeMap::new();
    for row in table.rows() {
        let Some((device, work, ms)) = measured(engine, row) else { continue };
        let (_, devices) = times.entry(format!("{work:?}")).or_insert_with(|| (work, BTreeMap::new()));
        devices.entry(&device.id).or_insert_with(|| (device, Vec::new())).1.push(1e6 * ms);
    }
    let mut found: [Vec<Row>; 3] = Default::default();
    for (work, devices) in times.into_values() {
        let devices: Vec<(&DeviceProfile, f64)> =
            devices.into_values().map(|(device, mut ns)| (device, median(&mut ns))).collect();
        for from in &devices {
            for to in devices.iter().filter(|to| to.0.chip() != from.0.chip()) {
                let family = match (from.0.is_amd, to.0.is_amd) {
                    (true, true) => 1,
                    (false, false) => 2,
                    _ => 0,
                };
                found[family].push(row(engine, FAMILIES[family], &work, (*from, *to)));
            }
        }
    }
    for (family, rows) in FAMILIES.into_iter().zip(&found) {
        answer.sum_up_rows(family, rows, LIMIT);
    }
}

fn row(engine: &Engine, family: &str, work: &Work, (from, to): ((&DeviceProfile, f64), (&DeviceProfile, f64))) -> Row {
    let kernel = Kernel { measured: Some(DurNs(from.1 as i64)), typical: None, old: Some(work), new: Some(work) };
    let got = engine.models.between(from.0, to.0).predict(kernel);
    let (ns, half) = (got.duration.0 as f64, f64::from(got.error));
    let scaled = from.1 * from.0.bandwidth().0 / to.0.bandwidth().0;
    let check = format!("{} to {}", from.0.id, to.0.id);
    let row = Row::new(family, check, (to.1, ns), LIMIT, ("neusight", Constants::Seen));
    row.against(scaled, from.1).within([ns * (1.0 - half), ns * (1.0 + half)])
}

/// Where an operator of the table ran, what it does and the forward pass's time in ms.
fn measured<'e>(engine: &'e Engine, row: csv::Row<'_>) -> Option<(&'e DeviceProfile, Work, f64)> {
    let ms = row.number("fw_latency").ok().filter(|ms| *ms >= SHORTEST_MS)?;
    let device = engine.catalog.recognise(&row.text("device").replace('_', " "))?;
    let shapes: Vec<Vec<u64>> = serde_json::from_str(row.text("input_shapes")).ok()?;
    let result: Vec<u64> = row
        .text("output_shape")
        .trim_matches(['(', ')'])
        .split(',')
        .filter_map(|dim| dim.trim().parse().ok())
        .collect();
    let (name, shapes) = operator(row.text("op") == "call_module", row.text("target"), shapes, &result)?;
    let tensor = |dims: Vec<u64>| Operand::tensor(dims, Some(DType::Fp32));
    let operands = Operands { inputs: shapes.into_iter().map(tensor).collect(), outputs: Vec::new() };
    Some((device, operator_work(&format!("aten::{name}"), &operands, Reading::default())?, ms))
}

/// The framework's name of `target` (a module by its last name, or a function as Python prints it) and its arguments' shapes.
fn operator(
    is_module: bool,
    target: &str,
    mut shapes: Vec<Vec<u64>>,
    result: &[u64],
) -> Option<(&'static str, Vec<Vec<u64>>)> {
    const LINEAR: [&str; 12] = [
        "lm_head", "dense", "fc1", "fc2", "decoder", "q_proj", "k_proj", "v_proj", "out_proj", "query", "key", "value",
    ];
    const FUNCTIONS: [(&str, &str); 8] = [
        ("addmm", "addmm"),
        ("matmul", "matmul"),
        ("bmm", "bmm"),
        ("function softmax", "_softmax"),
        ("function add", "add"),
        ("function mul", "mul"),
        ("tanh", "tanh"),
        ("gelu", "gelu"),
    ];
    let last = target.rsplit('.').next().unwrap_or(target);
    if is_module && LINEAR.contains(&last) {
        let input = shapes.first()?.clone();
        let weight = vec![*result.last()?, *input.last()?];
        return Some(("linear", vec![input, weight]));
    }
    if is_module {
        let width = *shapes.first()?.last()?;
        shapes.extend([Vec::new(), vec![width], vec![width]]);
        return ["LayerNorm", "ln_1", "ln_2", "ln_f"].contains(&last).then_some(("native_layer_norm", shapes));
    }
    FUNCTIONS.iter().find(|(function, _)| target.contains(function)).map(|(_, name)| (*name, shapes))
}

//! Tables of traced kernels, one row each with its operator's argument shapes: how well classification and models do on
//! what profilers record.

use serde::Deserialize;

use super::csv::{Row, Table};
use super::{FitError, Measurement};
use retime_core::cost::classify::{Caller, Launch, work_of};
use retime_core::graph::{DType, Operand, Operands, Phase, TaskKind};
use retime_core::units::Bytes;

/// The kernels in `text` (columns `cpu_op`, `kernel`, `input_dims`, `input_types`, `gpu`, `dur_us`) whose work is known, and
/// how many there are in all; `None` for other tables.
///
/// # Errors
/// The first value that cannot be, with line and column.
pub fn kernel_measurements(text: &str) -> Result<Option<(Vec<Measurement>, usize)>, FitError> {
    let header = text.lines().next().unwrap_or_default();
    if !["cpu_op", "input_dims", "input_types", "dur_us"].iter().all(|column| header.contains(column)) {
        return Ok(None);
    }
    let table = Table::parse(text)?;
    let (mut found, mut all) = (Vec::new(), 0);
    for row in table.rows().filter(|row| row.text("category") == "kernel" && !row.text("kernel").contains("nccl")) {
        all += 1;
        found.extend(measurement(&row)?);
    }
    Ok(Some((found, all)))
}

fn measurement(row: &Row<'_>) -> Result<Option<Measurement>, FitError> {
    let us = row.number("dur_us")?;
    let Some(operands) = operands(row.text("input_dims"), row.text("input_types")) else { return Ok(None) };
    let launch =
        Launch { kind: TaskKind::Kernel, name: row.text("kernel"), bytes: Bytes(0), ranks: 0, phase: Phase::Other };
    let caller = Caller { operator: row.text("cpu_op"), operands: Some(&operands) };
    let work = work_of(&launch, &[caller], None);
    Ok(work.map(|work| Measurement::of_kernel(work, row.text("gpu"), us, row.line)))
}

/// Dimensions of one argument: of a tensor, or of each tensor of a list.
#[derive(Deserialize)]
#[serde(untagged)]
enum Dims {
    Tensor(Vec<u64>),
    List(Vec<Vec<u64>>),
}

fn operands(dims: &str, types: &str) -> Option<Operands> {
    let dims: Vec<Dims> = serde_json::from_str(dims).ok()?;
    let types: Vec<String> = serde_json::from_str(types).ok()?;
    let tensor = |dims: Vec<u64>, dtype| Operand::tensor(dims, dtype);
    let operand = |(dims, name): (Dims, &String)| match (dims, DType::parse(name)) {
        (Dims::Tensor(dims), Some(dtype)) => tensor(dims, Some(dtype)),
        (Dims::List(list), _) => Operand::TensorList(list.into_iter().map(|dims| tensor(dims, None)).collect()),
        (Dims::Tensor(_), None) => Operand::Value(String::new()),
    };
    Some(Operands { inputs: dims.into_iter().zip(&types).map(operand).collect(), outputs: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traced_kernel_gets_the_work_of_its_operator() {
        let text = "gpu,category,cpu_op,kernel,input_dims,input_types,dur_us\n\
            Tesla T4,kernel,aten::mm,sgemm,\"[[16,4],[4,8]]\",\"[\"\"float\"\",\"\"float\"\"]\",7\n\
            Tesla T4,kernel,aten::mm,sgemm,,,7\n";
        let (found, all) = kernel_measurements(text).unwrap().unwrap();
        assert_eq!((found.len(), all), (1, 2));
        assert!((found[0].work.flop.0 - 1024.0).abs() < 1e-9);
    }
}

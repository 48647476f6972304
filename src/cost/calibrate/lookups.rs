//! Measured embedding lookups: tables of microbenchmarks and of FBGEMM benchmarks.

use super::csv::{Row, Table};
use super::{FitError, Measurement};
use crate::cost::operators::{LookupSize, lookup_work};
use crate::graph::DType;

/// The lookups in `text` when it is a table of them (rows of `embedding_*` families with `kernel_runtime_us`, or columns
/// `tbe_forward_ms` and `tbe_backward_ms`); `None` for other tables. Tables kept in host memory are left out.
///
/// # Errors
/// The first value that cannot be, with line and column.
pub fn lookup_measurements(text: &str) -> Result<Option<Vec<Measurement>>, FitError> {
    let header = text.lines().next().unwrap_or_default();
    let read: fn(&Row<'_>) -> Result<Vec<Measurement>, FitError> = if header.contains("tbe_forward_ms") {
        fbgemm
    } else if header.contains("kernel_runtime_us") && header.contains("bag_size") {
        microbenchmark
    } else {
        return Ok(None);
    };
    let table = Table::parse(text)?;
    let rows: Vec<Vec<Measurement>> = table.rows().map(|row| read(&row)).collect::<Result<_, _>>()?;
    Ok(Some(rows.into_iter().flatten().collect()))
}

fn microbenchmark(row: &Row<'_>) -> Result<Vec<Measurement>, FitError> {
    if !row.text("family").starts_with("embedding") {
        return Ok(Vec::new());
    }
    let size = LookupSize {
        batch: row.size("batch_size", 0)?,
        rows: row.size("num_embeddings", 0)?,
        tables: row.size("num_tables", 1)?,
        pooling: row.number("bag_size")?,
        dim: row.size("embedding_dim", 0)?,
    };
    let backward = row.text("family").contains("bwd");
    let work = lookup_work(&size, backward, DType::Fp32, DType::Int64);
    let us = row.number("kernel_runtime_us")?;
    Ok(vec![Measurement { work, device: row.text("gpu").to_owned(), us, line: row.line }])
}

fn fbgemm(row: &Row<'_>) -> Result<Vec<Measurement>, FitError> {
    if row.text("placement_suite") != "gpu" {
        return Ok(Vec::new());
    }
    let size = LookupSize {
        batch: row.size("batch_per_table", 0)?,
        rows: row.size("rows_per_table", 0)?,
        tables: row.size("num_tables", 1)?,
        pooling: 1.0,
        dim: row.size("dim", 0)?,
    };
    let measured = |backward, us| Measurement {
        work: lookup_work(&size, backward, DType::Fp32, DType::Int64),
        device: row.text("gpu").to_owned(),
        us,
        line: row.line,
    };
    Ok(vec![measured(false, row.number("tbe_forward_ms")? * 1e3), measured(true, row.number("tbe_backward_ms")? * 1e3)])
}

//! Measured embedding lookups: tables of microbenchmarks and of FBGEMM benchmarks.

use super::csv::{Row, Table};
use super::{FitError, Measurement};
use retime_core::cost::lookup::hosted_bytes;
use retime_core::cost::operators::{LookupSize, lookup_work};
use retime_core::cost::reuse::Reuse;
use retime_core::cost::work::{Shape, Work};
use retime_core::device::DeviceProfile;
use retime_core::graph::DType;

/// One measured lookup.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredLookup {
    /// What it did and took.
    pub kernel: Measurement,
    /// Share of look-ups that a cache on the device served, of tables in host memory; `None` of tables on the device.
    pub cached: Option<f64>,
    /// Whether every other use of the rows would be as likely: a plain stochastic gradient step, or none.
    pub is_plain_update: bool,
}

impl MeasuredLookup {
    /// Time in µs that rows of tables in host memory take over the link of `device`.
    pub fn fetch_us(&self, device: &DeviceProfile) -> f64 {
        let bytes = self.cached.map_or(0.0, |hits| hosted_bytes(&self.kernel.work.shape, DType::Fp32.size(), hits));
        1e6 * bytes / device.host_link.0.max(1.0)
    }
}

/// The lookups in `text` when it is a table of them (rows of `embedding_*` families with `kernel_runtime_us`, or columns
/// `tbe_forward_ms` and `tbe_backward_ms`); `None` for other tables. Tables in host memory behind a cache on the device are
/// left out: how many look-ups it served is not told.
///
/// # Errors
/// The first value that cannot be, with line and column.
pub fn lookup_measurements(text: &str) -> Result<Option<Vec<MeasuredLookup>>, FitError> {
    let header = text.lines().next().unwrap_or_default();
    let read: fn(&Row<'_>) -> Result<Vec<MeasuredLookup>, FitError> = if header.contains("tbe_forward_ms") {
        fbgemm
    } else if header.contains("kernel_runtime_us") && header.contains("bag_size") {
        microbenchmark
    } else {
        return Ok(None);
    };
    let table = Table::parse(text)?;
    let rows: Vec<Vec<MeasuredLookup>> = table.rows().map(|row| read(&row)).collect::<Result<_, _>>()?;
    Ok(Some(rows.into_iter().flatten().collect()))
}

fn microbenchmark(row: &Row<'_>) -> Result<Vec<MeasuredLookup>, FitError> {
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
    let kernel = Measurement::of_kernel(work, row.text("gpu"), us, row.line);
    Ok(vec![MeasuredLookup { kernel, cached: None, is_plain_update: true }])
}

fn fbgemm(row: &Row<'_>) -> Result<Vec<MeasuredLookup>, FitError> {
    let cached = match row.text("placement_suite") {
        "gpu" => None,
        "no_caching" | "no_hbm" => Some(0.0),
        _ => return Ok(Vec::new()),
    };
    let size = LookupSize {
        batch: row.size("batch_per_table", 0)?,
        rows: row.size("rows_per_table", 0)?,
        tables: row.size("num_tables", 1)?,
        pooling: 1.0,
        dim: row.size("dim", 0)?,
    };
    let all = row.number("avg_total_indices")?;
    let unique = if all > 0.0 { row.number("avg_unique_indices")? / all } else { 0.0 };
    let is_sgd = row.text("optimizer") == "sgd";
    let measured = |backward, us| {
        let work = with_reuse(lookup_work(&size, backward, DType::Fp32, DType::Int64), told(unique));
        let kernel = Measurement::of_kernel(work, row.text("gpu"), us, row.line);
        MeasuredLookup { kernel, cached, is_plain_update: is_sgd || !backward }
    };
    Ok(vec![measured(false, row.number("tbe_forward_ms")? * 1e3), measured(true, row.number("tbe_backward_ms")? * 1e3)])
}

fn told(unique: f64) -> Reuse {
    if unique > 0.0 && unique <= 1.0 { Reuse::Unique(unique) } else { Reuse::Uniform }
}

/// `work` with what is known of the rows it looks up.
pub(super) fn with_reuse(mut work: Work, told: Reuse) -> Work {
    if let Shape::Embedding { reuse, .. } = &mut work.shape {
        *reuse = told;
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_in_host_memory_add_the_time_of_the_link() {
        let text = "gpu,placement_suite,num_tables,batch_per_table,dim,rows_per_table,optimizer,avg_unique_indices,avg_total_indices,tbe_forward_ms,tbe_backward_ms\n\
            NVIDIA H100 80GB HBM3,no_hbm,10,1000,128,100000,sgd,4000,10000,1,2\n\
            NVIDIA H100 80GB HBM3,caching,10,1000,128,100000,sgd,4000,10000,1,2\n";
        let rows = lookup_measurements(text).unwrap().unwrap();
        assert_eq!(rows.len(), 2);
        let catalog = retime_core::device::Catalog::builtin().unwrap();
        let device = catalog.find("H100-SXM").unwrap();
        let link = device.host_link.0 / 1e6;
        assert!((rows[0].fetch_us(device) - 10_000.0 * 512.0 / link).abs() < 1e-6);
        assert!((rows[1].fetch_us(device) - 2.0 * 4000.0 * 512.0 / link).abs() < 1e-6);
    }
}

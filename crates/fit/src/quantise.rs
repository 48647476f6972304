//! What products in 8 bits hold besides the product, in tables of an inference engine: its first factor is quantised first.

use std::collections::BTreeMap;

use super::csv::Table;
use super::{FitError, Measurement};
use retime_core::cost::work::Shape;

/// Bytes per element that a quantisation with a scale per row moves (the row twice, the result once) over those of one whose scale is
/// known.
const DYNAMIC: f64 = 5.0 / 3.0;
/// Kernels of the table that are taken; others of it are another library's.
const KERNEL: &str = "static_scaled_fp8_quant";
/// Least part of a measured time that has to remain for its row to say something of the product.
const LEAST_REMAINS: f64 = 0.25;

/// Times in µs of quantising a matrix whose scale is known, by device and elements.
#[derive(Clone, Debug, Default)]
pub struct Quantisation {
    by_device: BTreeMap<String, BTreeMap<u64, f64>>,
}

impl Quantisation {
    /// The times in the table `text` of quantisations.
    ///
    /// # Errors
    /// A column that is not there, or the first value that cannot be, with line and column.
    pub fn read(text: &str) -> Result<Self, FitError> {
        let table = Table::parse(text)?;
        table.require(&["system", "op_name", "kernel_source", "m", "k", "latency_ms"])?;
        let mut found = Self::default();
        for row in table.rows() {
            if row.text("op_name") != "scale_matrix" || row.text("kernel_source") != KERNEL {
                continue;
            }
            let elements = row.size("m", 1)?.saturating_mul(row.size("k", 1)?);
            let us = 1e3 * row.positive("latency_ms")?;
            // Matrices of as many elements differ little by their shape: the fastest.
            let slot = found.by_device.entry(row.text("system").to_owned()).or_default().entry(elements).or_insert(us);
            *slot = slot.min(us);
        }
        Ok(found)
    }

    /// The time in µs of quantising `elements` with a scale per row that is found first; `None` of devices that were not measured.
    fn dynamic_us(&self, device: &str, elements: u64) -> Option<f64> {
        let times = self.by_device.get(device)?;
        let start = times.values().copied().reduce(f64::min)?;
        let below = times.range(..=elements).next_back();
        let above = times.range(elements..).next();
        let known = match (below, above) {
            (Some((&a, &us)), Some((&b, &more))) if b > a => us + (more - us) * (elements - a) as f64 / (b - a) as f64,
            (Some((&a, &us)), None) => us * elements as f64 / a.max(1) as f64,
            (Some((_, &us)), _) | (None, Some((_, &us))) => us,
            (None, None) => return None,
        };
        Some(start + DYNAMIC * (known - start).max(0.0))
    }

    /// `rows` of products without the time that quantising their first factor took; those of which little remains are left out.
    #[must_use]
    pub fn removed(&self, rows: Vec<Measurement>) -> Vec<Measurement> {
        let without = |row: Measurement| {
            let Shape::Gemm { batch, m, k, .. } = row.work.shape else { return Some(row) };
            let Some(quantised) = self.dynamic_us(&row.device, batch * m * k) else { return Some(row) };
            let us = row.us - quantised;
            (us > LEAST_REMAINS * row.us).then_some(Measurement { us, ..row })
        };
        rows.into_iter().filter_map(without).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retime_core::cost::operators::{GemmSize, gemm_work};
    use retime_core::graph::DType;

    #[test]
    fn a_product_is_what_remains_after_its_factor_was_quantised() {
        let head = "system,op_name,kernel_source,m,k,latency_ms\n";
        let row = |m: u64, ms: f64| format!("h100,scale_matrix,static_scaled_fp8_quant,{m},100,{ms}\n");
        let other = "h100,compute_scale,torch_ops,2,100,9\n";
        let table = format!("{head}{}{}{other}", row(1, 0.002), row(3, 0.008));
        let quantisation = Quantisation::read(&table).unwrap();
        let product = |device: &str, us: f64| {
            let work = gemm_work(GemmSize { batch: 1, m: 2, n: 8, k: 100 }, DType::Fp8, false, 0);
            Measurement::of_kernel(work, device, us, 1)
        };
        let rows = quantisation.removed(vec![product("h100", 20.0), product("h100", 8.0), product("l40s", 20.0)]);
        // Half way between two sizes 5 µs, of which 3 are not the start: 2 + 5.
        let times: Vec<f64> = rows.iter().map(|row| row.us).collect();
        assert_eq!(times.len(), 2);
        assert!((times[0] - 13.0).abs() < 1e-9 && (times[1] - 20.0).abs() < 1e-9, "{times:?}");
    }
}

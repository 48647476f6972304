//! Collective curves from tables of nccl-tests times.

use std::collections::BTreeMap;

use super::FitError;
use super::csv::Table;
use super::summary::{ErrorSummary, summarise};
use crate::device::CollectiveCurve;

/// One measured collective.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveRow {
    /// The system as the file names it.
    pub system: String,
    /// `all-reduce`, `all-to-all`, `all-gather` or `reduce-scatter`.
    pub collective: &'static str,
    /// Ranks taking part.
    pub ranks: u32,
    /// Buffer size in bytes.
    pub bytes: f64,
    /// Time in µs.
    pub us: f64,
}

/// The rows of `text` (columns `system`, `op_name`, `num_gpus`, `bytes`, `latency_ms`).
///
/// # Errors
/// A missing column, or the first value that cannot be, with line and column.
pub fn collective_rows(text: &str) -> Result<Vec<CollectiveRow>, FitError> {
    let table = Table::parse(text)?;
    table.require(&["system", "op_name", "num_gpus", "bytes", "latency_ms"])?;
    let mut rows = Vec::new();
    for row in table.rows() {
        let collective = match row.text("op_name") {
            "all_reduce" => "all-reduce",
            "alltoall" => "all-to-all",
            "all_gather" => "all-gather",
            "reduce_scatter" => "reduce-scatter",
            _ => continue,
        };
        let (ranks, us) = (row.number("num_gpus")? as u32, row.number("latency_ms")? * 1e3);
        rows.push(CollectiveRow {
            system: row.text("system").to_owned(),
            collective,
            ranks,
            bytes: row.number("bytes")?,
            us,
        });
    }
    Ok(rows)
}

/// The curve through `rows` (of one collective and number of ranks), with the error on sizes left out of it: every
/// other size is predicted from the rest.
pub fn fit_curve(rows: &[&CollectiveRow], source: &str) -> Option<(CollectiveCurve, ErrorSummary)> {
    let first = rows.first()?;
    let points = points(rows);
    let held_out = |parity: usize| {
        let kept =
            points.iter().enumerate().filter(|(at, _)| at % 2 != parity).map(|(_, point)| *point).collect::<Vec<_>>();
        let curve = curve_of(&kept, first, source);
        let left: Vec<f64> =
            points.iter().enumerate().filter(|(at, _)| at % 2 == parity).map(|(_, point)| point.0).collect();
        rows.iter()
            .filter(|row| left.contains(&row.bytes) && kept.first().is_some_and(|low| row.bytes >= low.0))
            .map(|row| (curve.time_us(row.bytes, 1.0).0, row.us))
            .collect::<Vec<_>>()
    };
    let pairs: Vec<(f64, f64)> = held_out(0).into_iter().chain(held_out(1)).collect();
    let summary = summarise(pairs.into_iter());
    let mut curve = curve_of(&points, first, source);
    curve.error = summary.mape;
    curve.n = rows.len() as u32;
    (points.len() >= 2).then_some((curve, summary))
}

/// Size and geometric mean of the times at it, by size.
fn points(rows: &[&CollectiveRow]) -> Vec<(f64, f64)> {
    let mut by_size: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.bytes > 0.0 && row.us > 0.0) {
        let cell = by_size.entry(row.bytes as u64).or_default();
        *cell = (cell.0 + row.us.ln(), cell.1 + 1.0);
    }
    by_size.into_iter().map(|(bytes, (sum, count))| (bytes as f64, (sum / count).exp())).collect()
}

/// A curve whose times never fall: neighbours that do are pooled to their mean in logarithms [pool adjacent violators].
fn curve_of(points: &[(f64, f64)], like: &CollectiveRow, source: &str) -> CollectiveCurve {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (_, us) in points {
        pools.push((us.ln(), 1));
        while let [.., (before, a), (last, b)] = pools[..] {
            if before <= last {
                break;
            }
            let mean = (before * a as f64 + last * b as f64) / (a + b) as f64;
            pools.truncate(pools.len() - 2);
            pools.push((mean, a + b));
        }
    }
    let us = pools.iter().flat_map(|&(log, count)| std::iter::repeat_n(log.exp(), count));
    CollectiveCurve {
        link: String::new(),
        collective: like.collective.to_owned(),
        ranks: like.ranks,
        bytes: points.iter().map(|point| point.0).collect(),
        us: us.collect(),
        fit: None,
        error: 0.0,
        n: 0,
        source: source.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: f64, us: f64) -> CollectiveRow {
        CollectiveRow { system: "x".to_owned(), collective: "all-reduce", ranks: 8, bytes, us }
    }

    #[test]
    fn a_fall_in_the_measurements_is_levelled() {
        let rows = [row(1024.0, 10.0), row(2048.0, 8.0), row(4096.0, 20.0)];
        let all: Vec<&CollectiveRow> = rows.iter().collect();
        let (curve, _) = fit_curve(&all, "test").unwrap();
        assert!((curve.us[0] - 80f64.sqrt()).abs() < 1e-9 && (curve.us[1] - 80f64.sqrt()).abs() < 1e-9);
        assert!((curve.us[2] - 20.0).abs() < 1e-9);
    }

    #[test]
    fn a_power_law_is_met_on_the_sizes_left_out() {
        let rows: Vec<CollectiveRow> =
            (10..28).map(|e| row(2f64.powi(e), 3.0 * 2f64.powf(0.7 * f64::from(e)))).collect();
        let all: Vec<&CollectiveRow> = rows.iter().collect();
        let (_, summary) = fit_curve(&all, "test").unwrap();
        assert!(summary.n >= 16);
        // The last size lies beyond the curve that is fitted without it.
        assert!(summary.p90 < 1e-9, "{summary:?}");
    }
}

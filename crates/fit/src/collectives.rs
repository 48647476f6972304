//! Collective curves from tables of nccl-tests times.

use std::collections::BTreeMap;

use super::FitError;
use super::csv::{Row, Table};
use super::curve::message_curve;
use super::{ErrorSummary, summarise};
use retime_core::cost::CollectiveKind;
use retime_core::cost::collective::bus_factor;
use retime_core::device::CollectiveCurve;
use retime_core::intern::printable;

/// One measured collective.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveRow {
    /// The system as the file names it.
    pub system: String,
    /// `all-reduce`, `all-to-all`, `all-gather`, `reduce-scatter` or `send-recv`.
    pub collective: &'static str,
    /// Ranks taking part.
    pub ranks: u32,
    /// Whether they are on more than one node.
    pub between_nodes: bool,
    /// Buffer size in bytes.
    pub bytes: f64,
    /// Time in µs.
    pub us: f64,
}

/// The columns of a table of collectives.
struct Columns {
    system: &'static str,
    collective: &'static str,
    ranks: &'static str,
    size: &'static str,
    /// Bytes of one unit of `size`.
    unit: f64,
    time: &'static str,
    /// Microseconds of one unit of `time`.
    us: f64,
}

impl Columns {
    /// The collective of a row, by its letters alone (`all_gather`, `AllGather`); what it is called where no curve is fitted to it.
    fn collective_of<'a>(&self, row: &Row<'a>) -> Result<&'static str, &'a str> {
        if self.collective.is_empty() {
            let library = row.text("library");
            return if library.contains("NCCL") { Ok("all-reduce") } else { Err(library) };
        }
        let name = row.text(self.collective);
        let letters: String = name.chars().filter(char::is_ascii_alphabetic).collect();
        Ok(match letters.to_ascii_lowercase().as_str() {
            "allreduce" => "all-reduce",
            "alltoall" => "all-to-all",
            "allgather" => "all-gather",
            "reducescatter" => "reduce-scatter",
            "sendrecv" => "send-recv",
            _ => return Err(name),
        })
    }
}

/// nccl-tests tables of aiconfigurator, the network profiles of vidur, DeepBench's all-reduce, rccl-tests on AMD GPUs, and XLA's table.
const TABLES: [Columns; 5] = [
    Columns {
        system: "system",
        collective: "op_name",
        ranks: "num_gpus",
        size: "bytes",
        unit: 1.0,
        time: "latency_ms",
        us: 1e3,
    },
    Columns {
        system: "system",
        collective: "collective",
        ranks: "num_workers",
        size: "size_bytes",
        unit: 1.0,
        time: "median_ms",
        us: 1e3,
    },
    Columns { system: "gpu", collective: "", ranks: "num_gpus", size: "floats", unit: 4.0, time: "mean_ms", us: 1e3 },
    Columns {
        system: "gpu",
        collective: "op",
        ranks: "gpus",
        size: "bytes",
        unit: 1.0,
        time: "out_of_place_us",
        us: 1.0,
    },
    Columns {
        system: "target",
        collective: "op",
        ranks: "devices_per_group",
        size: "tensor_bytes",
        unit: 1.0,
        time: "time_us",
        us: 1.0,
    },
];

/// The columns of `table`, when it is one of collectives: its size column decides.
fn columns(table: &Table) -> Option<&'static Columns> {
    TABLES.iter().find(|columns| table.has(columns.size) && table.has(columns.ranks))
}

/// Whether `text` is a table of collectives, whole or not.
pub fn is_collectives(text: &str) -> bool {
    Table::parse(text).is_ok_and(|table| columns(&table).is_some())
}

/// The rows of `text`: `system`, `op_name`, `num_gpus`, `bytes`, `latency_ms` of nccl-tests tables; `system`, `collective`,
/// `num_workers`, `size_bytes`, `median_ms`, `devices_per_node` of vidur; `gpu`, `floats`, `num_gpus`, `mean_ms`, `library` of
/// DeepBench (its NCCL rows); `gpu`, `op`, `gpus`, `nodes`, `bytes`, `out_of_place_us` of rccl-tests; `target`, `op`, `devices_per_group`,
/// `tensor_bytes`, `time_us` of XLA.
///
/// # Errors
/// A missing column, or the first value that cannot be, with line and column.
pub fn collective_rows(text: &str) -> Result<Vec<CollectiveRow>, FitError> {
    let table = Table::parse(text)?;
    let columns = columns(&table).ok_or(FitError::UnknownFormat)?;
    table.require(&[columns.system, columns.ranks, columns.size, columns.time])?;
    if !columns.collective.is_empty() {
        table.require(&[columns.collective])?;
    }
    let mut rows = Vec::new();
    for row in table.rows() {
        let Ok(collective) = columns.collective_of(&row) else { continue };
        let ranks = u32::try_from(row.count(columns.ranks)?).map_err(|_| row.bad(columns.ranks))?;
        rows.push(CollectiveRow {
            system: row.text(columns.system).to_owned(),
            collective,
            // Both ends of a transfer take part, whatever the file counts.
            ranks: if collective == "send-recv" { 2 } else { ranks },
            between_nodes: row.size("devices_per_node", u64::from(ranks))? < u64::from(ranks)
                || row.size("nodes", 1)? > 1,
            bytes: row.number(columns.size)? * columns.unit,
            us: row.number(columns.time)? * columns.us,
        });
    }
    Ok(rows)
}

/// How many rows of each collective in `text` no curve is fitted to.
///
/// # Errors
/// No table of collectives.
pub(super) fn left_out(text: &str) -> Result<Vec<String>, FitError> {
    let table = Table::parse(text)?;
    let columns = columns(&table).ok_or(FitError::UnknownFormat)?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for other in table.rows().filter_map(|row| columns.collective_of(&row).err()) {
        *counts.entry(printable(other)).or_default() += 1;
    }
    Ok(counts.into_iter().map(|(name, rows)| format!("{rows} rows of `{name}`: no curve is fitted to them")).collect())
}

/// Points of a curve that lie this near the line between those kept are left out, as a fraction of the time.
const TOLERANCE: f64 = 0.02;

/// The curve through `rows` (of one collective and number of ranks): the geometric mean at each size, levelled where it falls,
/// then only the sizes at which it bends. Between them time is linear in size, a latency and a bandwidth of its own for each
/// stretch, so that a change of protocol is a stretch too. With it the error on sizes left out: every other size is predicted
/// from a curve through the rest.
pub fn fit_curve(rows: &[&CollectiveRow], source: &str) -> Option<(CollectiveCurve, ErrorSummary)> {
    let first = rows.first()?;
    assessed(rows, 1.0, |points| curve_of(points, first, source))
}

/// As [`fit_curve`], in three regions [Lin 2024 §IV-A].
pub fn fit_three_regions(rows: &[&CollectiveRow], source: &str) -> Option<(CollectiveCurve, ErrorSummary)> {
    let first = rows.first()?;
    let factor = factor(first.collective, first.ranks);
    assessed(rows, factor, |points| {
        let fit = Some(message_curve(points, factor)?);
        Some(CollectiveCurve { fit, bytes: Vec::new(), us: Vec::new(), ..curve_of(points, first, source)? })
    })
}

/// Bytes on the bus over those of the buffer.
fn factor(collective: &str, ranks: u32) -> f64 {
    const KINDS: [CollectiveKind; 5] = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllToAll,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::SendRecv,
    ];
    KINDS.iter().find(|kind| kind.name() == collective).map_or(1.0, |kind| bus_factor(*kind, ranks))
}

/// The curve that `fit` makes of `rows`, and its error on sizes left out, which lie between those that it was fitted to.
fn assessed(
    rows: &[&CollectiveRow],
    factor: f64,
    fit: impl Fn(&[(f64, f64)]) -> Option<CollectiveCurve>,
) -> Option<(CollectiveCurve, ErrorSummary)> {
    let points = points(rows);
    let mut pairs = Vec::new();
    for parity in 0..2 {
        let part = |odd: usize| points.iter().enumerate().filter(move |(at, _)| at % 2 == odd).map(|(_, point)| *point);
        let (kept, left): (Vec<_>, Vec<_>) = (part(1 - parity).collect(), part(parity).collect());
        let curve = fit(&kept)?;
        let inside = |row: &&&CollectiveRow| {
            left.iter().any(|point| point.0 as u64 == row.bytes as u64)
                && kept.first().is_some_and(|low| row.bytes >= low.0)
                && kept.last().is_some_and(|high| row.bytes <= high.0)
        };
        pairs.extend(rows.iter().filter(inside).map(|row| (curve.time_us(row.bytes, factor).0, row.us)));
    }
    let summary = summarise(pairs.into_iter());
    let mut curve = fit(&points)?;
    curve.error = summary.mape;
    curve.n = rows.len() as u32;
    Some((curve, summary))
}

/// Mean difference of measurements of one size from their geometric mean, over the sizes measured more than once: no curve can be
/// nearer to them than that.
pub fn scatter(rows: &[&CollectiveRow]) -> f64 {
    let means: BTreeMap<u64, f64> = points(rows).into_iter().map(|(bytes, us)| (bytes as u64, us)).collect();
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.bytes as u64).or_default() += 1;
    }
    let repeated = rows.iter().filter(|row| counts[&(row.bytes as u64)] > 1);
    summarise(repeated.filter_map(|row| Some((*means.get(&(row.bytes as u64))?, row.us)))).mape
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

/// A curve through `points` whose times never fall; `None` of fewer than three points.
fn curve_of(points: &[(f64, f64)], like: &CollectiveRow, source: &str) -> Option<CollectiveCurve> {
    let [_, _, _, ..] = points else { return None };
    let logs: Vec<f64> = points.iter().map(|(_, us)| us.ln()).collect();
    let rising: Vec<(f64, f64)> =
        points.iter().zip(levelled(&logs)).map(|(&(bytes, _), log)| (bytes, log.exp())).collect();
    let bends = bends(&rising);
    Some(CollectiveCurve {
        ports: None,
        link: String::new(),
        collective: like.collective.to_owned(),
        ranks: like.ranks,
        bytes: bends.iter().map(|&at| rising[at].0).collect(),
        us: bends.iter().map(|&at| rising[at].1).collect(),
        fit: None,
        error: 0.0,
        n: 0,
        source: source.to_owned(),
        carried: false,
    })
}

/// Places in `points` (rising) between which straight lines stay within the tolerance of all, first and last among them
/// [Douglas and Peucker 1973, with the relative error as distance].
fn bends(points: &[(f64, f64)]) -> Vec<usize> {
    let mut kept = vec![0, points.len() - 1];
    let mut open = vec![(0, points.len() - 1)];
    while let Some((low, high)) = open.pop() {
        let slope = (points[high].1 - points[low].1) / (points[high].0 - points[low].0);
        let off = |at: usize| {
            let line = points[low].1 + slope * (points[at].0 - points[low].0);
            (line / points[at].1 - 1.0).abs()
        };
        let worst = (low + 1..high).max_by(|&a, &b| off(a).total_cmp(&off(b)));
        if let Some(at) = worst.filter(|&at| off(at) > TOLERANCE) {
            kept.push(at);
            open.extend([(low, at), (at, high)]);
        }
    }
    kept.sort_unstable();
    kept
}

/// `logs` with neighbours that fall pooled to their mean [pool adjacent violators].
fn levelled(logs: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &log in logs {
        pools.push((log, 1));
        while let [.., (before, a), (last, b)] = pools[..] {
            if before <= last {
                break;
            }
            let mean = (before * a as f64 + last * b as f64) / (a + b) as f64;
            pools.truncate(pools.len() - 2);
            pools.push((mean, a + b));
        }
    }
    pools.into_iter().flat_map(|(log, count)| std::iter::repeat_n(log, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(bytes: f64, us: f64) -> CollectiveRow {
        CollectiveRow { system: "x".to_owned(), collective: "all-reduce", ranks: 8, between_nodes: false, bytes, us }
    }

    #[test]
    fn a_fall_in_the_measurements_is_levelled() {
        assert_eq!(levelled(&[3.0, 1.0, 5.0]), [2.0, 2.0, 5.0]);
        let falling: Vec<CollectiveRow> =
            (10..24).map(|e| row(2f64.powi(e), if e % 4 == 0 { 9.0 } else { 8.0 })).collect();
        let all: Vec<&CollectiveRow> = falling.iter().collect();
        let (curve, _) = fit_curve(&all, "test").unwrap();
        assert!(curve.us.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn collectives_go_by_their_letters_and_others_are_counted() {
        let text = "system,op_name,num_gpus,bytes,latency_ms\nx,AllGather,4,8,1\nx,all_gather,4,16,1\nx,broadcast,4,8,1\nx,broadcast,4,16,1\n";
        let kinds: Vec<&str> = collective_rows(text).unwrap().iter().map(|row| row.collective).collect();
        assert_eq!(kinds, ["all-gather", "all-gather"]);
        assert_eq!(left_out(text).unwrap(), ["2 rows of `broadcast`: no curve is fitted to them"]);
        let error = collective_rows(&text.replacen(",4,", ",4.9,", 1)).unwrap_err().to_string();
        assert!(error.contains("line 2, column `num_gpus`: `4.9`"), "{error}");
    }

    #[test]
    fn latency_and_bandwidth_are_met_on_the_sizes_left_out() {
        let rows: Vec<CollectiveRow> = (10..28).map(|e| row(2f64.powi(e), 9.0 + 2f64.powi(e) / 2e5)).collect();
        let all: Vec<&CollectiveRow> = rows.iter().collect();
        let (curve, summary) = fit_curve(&all, "test").unwrap();
        assert!(summary.n >= 15);
        assert!(summary.p90 < 1e-3, "{summary:?}");
        assert_eq!(curve.bytes, [1024.0, f64::from(1 << 27)]);
    }

    #[test]
    fn a_change_of_protocol_keeps_the_sizes_on_both_sides_of_it() {
        let time = |e: i32| if e < 18 { 10.0 } else { 30.0 + 2f64.powi(e) / 1e5 };
        let rows: Vec<CollectiveRow> = (10..28).map(|e| row(2f64.powi(e), time(e))).collect();
        let (curve, _) = fit_curve(&rows.iter().collect::<Vec<_>>(), "test").unwrap();
        assert_eq!(curve.bytes, [10, 17, 18, 27].map(|e| 2f64.powi(e)));
    }

    #[test]
    fn scatter_is_that_of_equal_sizes_only() {
        let rows = [row(1024.0, 9.0), row(1024.0, 4.0), row(2048.0, 100.0)];
        // The geometric mean is 6: a third too small for one, half too large for the other.
        let found = scatter(&rows.iter().collect::<Vec<_>>());
        assert!((found - 5.0 / 12.0).abs() < 1e-12, "{found}");
    }
}

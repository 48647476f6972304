//! Sums over one dimension: bound by the trips to memory that each thread makes one after another, and by their bytes.
//!
//! `t = trips · latency + bytes / bandwidth` after the kernel's start, four values a trip. How many values a thread adds up follows from how `PyTorch` divides the
//! work into lanes, blocks and groups of blocks that share a result [its Reduce.cuh; the grids of traces agree].

use crate::cost::work::{Shape, Work};
use crate::device::DeviceProfile;

/// A trip to memory and back, with what is done between two, in clocks: column sums on A100 [1 024 × 32 and 1 024 × 100 in traces: 423 and
/// 431]. Nothing is fitted to those of the H100, whose 512 × 128 to 512 × 512 say 417 to 450, nor to
/// those of the MI300X, whose means say about 500.
pub(super) const TRIP: f64 = 430.0;

/// Values that a thread fetches at once.
const AT_ONCE: u64 = 4;

/// Trips in whose time the threads of a block add up their sums.
const WITHIN_BLOCK: u64 = 4;

/// Trips in whose time blocks that share a result hand over their sums: written, counted, read by the last one
/// [column sums over 1 024 rows on A100: 10 to 11 µs with 16 values a thread]. That one reads a sum a trip with each thread that has
/// values of the result.
const ACROSS_BLOCKS: u64 = 14;

/// Threads of a block; with results side by side, that many by those of one thread.
const THREADS: u64 = 512;

/// Values from which on a thread shares its work with other blocks.
const MANY: u64 = 256;

/// Values that it keeps then.
const KEPT: u64 = 16;

/// Least time in µs of a sum after its start; 0 for shapes that are none over one dimension.
pub(super) fn reduction_us(work: &Work, device: &DeviceProfile) -> f64 {
    let trips = match work.shape {
        Shape::Rows { rows, width } => trips(&Sum::of_rows(rows, width), device),
        Shape::Columns { rows, columns } => trips(&Sum::of_columns(rows, columns), device),
        _ => return 0.0,
    };
    trips as f64 * trip_us(device) + 1e6 * work.bytes().0 as f64 / device.dram_bandwidth.0.max(1.0)
}

/// Time in µs in which blocks hand what they found from one to the next, as kernels that sort and scan do.
pub(super) fn chain_us(device: &DeviceProfile) -> f64 {
    (ACROSS_BLOCKS + WITHIN_BLOCK) as f64 * trip_us(device)
}

fn trip_us(device: &DeviceProfile) -> f64 {
    TRIP / device.clock_mhz.max(1.0)
}

/// A sum as it is divided among threads.
struct Sum {
    /// Values of one result.
    values: u64,
    /// Results.
    results: u64,
    /// Lanes that the innermost dimension occupies: of values where they lie side by side, else of results.
    lanes: u64,
    /// Whether a result's values lie side by side.
    by_rows: bool,
    /// Most threads of a block.
    threads: u64,
}

impl Sum {
    fn of_rows(rows: u64, width: u64) -> Self {
        let at_once = if width >= AT_ONCE * 32 { AT_ONCE } else { 1 };
        Self { values: width, results: rows, lanes: width / at_once, by_rows: true, threads: THREADS }
    }

    fn of_columns(rows: u64, columns: u64) -> Self {
        let at_once = 1 << columns.trailing_zeros().min(AT_ONCE.ilog2());
        Self { values: rows, results: columns, lanes: columns / at_once, by_rows: false, threads: THREADS / at_once }
    }

    /// Lanes of a block along the innermost dimension, and its rows of lanes.
    fn block(&self, warp: u64) -> (u64, u64) {
        let fits = |size: u64| if size == 0 { 1 } else { (1 << size.ilog2()).min(self.threads) };
        let (across, along) = (fits(self.lanes), fits(if self.by_rows { self.results } else { self.values }));
        let rows = along.min(self.threads / across.min(warp));
        (across.min(self.threads / rows), rows)
    }
}

/// Trips that the longest chain of `sum` takes on `device`.
fn trips(sum: &Sum, device: &DeviceProfile) -> u64 {
    let (across, along) = sum.block(if device.is_amd { 64 } else { 32 });
    let mut values = if sum.by_rows { sum.values.div_ceil(across) } else { sum.values };
    let mut within = sum.by_rows;
    let mut blocks = if sum.by_rows { sum.results } else { sum.lanes.div_ceil(across) };
    let shares_rows = values >= along * 16 || values >= MANY;
    if shares_rows {
        values = values.div_ceil(along);
        within = true;
    } else {
        blocks = blocks.div_ceil(along);
    }
    let resident = device.sm_limits.map_or(2048, |limits| u64::from(limits.threads));
    let most = u64::from(device.sm_count) * resident / (across * along).max(1);
    let mut more = if within { WITHIN_BLOCK } else { 0 };
    if shares_rows && values >= MANY && blocks <= most {
        let sharing = most.div_ceil(blocks.max(1)).min(values.div_ceil(KEPT)).max(values.div_ceil(MANY));
        values = values.div_ceil(sharing.max(1));
        // The means of MI300X say that there only a row of lanes does.
        let readers = if sum.by_rows && !device.is_amd { across * along } else { along };
        more += ACROSS_BLOCKS + sharing / readers.max(1);
    }
    values.div_ceil(AT_ONCE).saturating_add(more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::work::Family;
    use crate::device::{Catalog, Precision};
    use crate::units::{Bytes, Flop};

    fn sum(shape: Shape) -> Work {
        let (Shape::Columns { rows: a, columns: b } | Shape::Rows { rows: a, width: b }) = shape else {
            unreachable!()
        };
        let read = Bytes(a.saturating_mul(b).saturating_mul(4));
        let flop = Flop(a as f64 * b as f64);
        Work { family: Family::Reduction, flop, read, written: Bytes(4), precision: Precision::Fp32, shape }
    }

    #[test]
    fn blocks_are_those_that_traces_show() {
        let block = |sum: Sum| sum.block(32);
        assert_eq!(block(Sum::of_columns(1024, 32)), (8, 16));
        assert_eq!(block(Sum::of_columns(1024, 100)), (16, 8));
        assert_eq!(block(Sum::of_columns(1024, 4864)), (32, 4));
        assert_eq!(block(Sum::of_columns(98_304, 30)), (8, 32));
        assert_eq!(block(Sum::of_rows(8, 125_952)), (64, 8));
        assert_eq!(block(Sum::of_rows(8944, 1024)), (32, 16));
        assert_eq!(block(Sum::of_rows(1, 1_007_616)), (512, 1));
        assert_eq!(Sum::of_rows(32, 151_936).block(64), (64, 8));
    }

    #[test]
    fn column_sums_take_about_what_they_took() {
        let catalog = Catalog::builtin().unwrap();
        let cases = [
            ("A100-40", 1024, 32, 8.0, 0.35),
            ("A100-40", 1024, 100, 13.0, 0.35),
            ("A100-40", 1024, 256, 10.0, 0.35),
            ("H100-SXM", 512, 1000, 14.0, 0.35),
            ("RTX-2080-Ti", 512, 1024, 19.0, 0.35),
            // Volta's trips take 1.7 times as many clocks as those of the A100.
            ("V100-32", 32, 1000, 7.5, 0.45),
            // Not fitted to: captures of ours.
            ("H100-SXM", 512, 512, 8.7, 0.15),
            ("H100-SXM", 1024, 128, 7.5, 0.15),
            ("H100-SXM", 4096, 128, 10.2, 0.15),
            ("H100-SXM", 4096, 3072, 31.7, 0.25),
        ];
        for (device, rows, columns, measured, within) in cases {
            let device = catalog.find(device).unwrap();
            let us = device.kernel_start.secs() * 1e6 + reduction_us(&sum(Shape::Columns { rows, columns }), device);
            let error = us / measured - 1.0;
            assert!(error.abs() < within, "{rows} × {columns} on {}: {us} µs for {measured}", device.id);
        }
    }

    #[test]
    fn means_of_a_matrix_take_no_trip_for_every_block() {
        // Captures of an H100 and an H200, to which nothing was fitted; small ones lie in the cache.
        let catalog = Catalog::builtin().unwrap();
        for (device, width, measured) in
            [("H100-SXM", 1 << 18, 5.4), ("H200", 1 << 20, 5.2), ("H200", 1 << 22, 7.6), ("H200", 1 << 24, 25.0)]
        {
            let device = catalog.find(device).unwrap();
            let us = device.kernel_start.secs() * 1e6 + reduction_us(&sum(Shape::Rows { rows: 1, width }), device);
            assert!((0.8..1.8).contains(&(us / measured)), "{width} on {}: {us} µs for {measured}", device.id);
        }
    }

    #[test]
    fn sums_of_nothing_have_a_time() {
        let catalog = Catalog::builtin().unwrap();
        let device = catalog.find("A100-40").unwrap();
        for (rows, columns) in [(0, 0), (0, 8), (8, 0), (u64::MAX >> 4, 16)] {
            assert!(reduction_us(&sum(Shape::Columns { rows, columns }), device).is_finite());
            assert!(reduction_us(&sum(Shape::Rows { rows, width: columns }), device).is_finite());
        }
    }
}

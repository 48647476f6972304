//! Time of embedding lookups from their memory traffic [Lin 2022 §III-B-1a].
//!
//! A warp produces one pooled vector. Its traffic in bytes, `⌈x⌉` rounding up to a multiple of 32: table offsets 32,
//! bag offsets 64, indices `⌈4L⌉`, rows `L·⌈4D⌉` (twice that backward), output `⌈4D⌉`.

use crate::device::DeviceProfile;

use super::roofline::memory_rate;
use super::work::Shape;

/// How rows find themselves in the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HitRate<'a> {
    /// All traffic from DRAM.
    None,
    /// `p = C(X, L)/C(E, L)` with `X` cached rows, as printed in the paper.
    Printed,
    /// From the expected number of distinct rows, cold misses included [Lin 2024, authors' code].
    Distinct,
    /// From measured reuse: share of look-ups by how often their row is looked up, in bins of powers of two
    /// (bin `i` holds rows looked up `2^(i−1) < n ≤ 2^i` times).
    Reuse(&'a [f64]),
}

/// The sizes of a lookup, as floating point numbers; all at least 0.
#[derive(Clone, Copy)]
struct Lookup {
    batch: f64,
    rows: f64,
    tables: f64,
    pooling: f64,
    dim: f64,
    backward: bool,
}

/// Warps that run on one multiprocessor at a time for FBGEMM's lookups.
const FBGEMM_WARPS_PER_SM: f64 = 45.0;

fn round_up_32(bytes: f64) -> f64 {
    (bytes / 32.0).ceil() * 32.0
}

/// Time in µs of the lookup `shape` with rows of `element` bytes; `None` for other shapes.
///
/// `t = B·T·(tr_DRAM/BW_DRAM + tr_L2/BW_L2)`: offsets always come from L2, the share of the rows that hits too.
pub fn lookup_us(shape: &Shape, element: u64, hits: HitRate<'_>, device: &DeviceProfile) -> Option<f64> {
    let &Shape::Embedding { batch, rows, tables, pooling, dim, backward } = shape else { return None };
    let lookup = Lookup {
        batch: batch as f64,
        rows: rows as f64,
        tables: (tables as f64).max(1.0),
        pooling: pooling.max(0.0),
        dim: dim as f64,
        backward,
    };
    let vector = round_up_32(lookup.dim * element as f64);
    let row_traffic = lookup.pooling * vector * if lookup.backward { 2.0 } else { 1.0 };
    let (offsets, indices, output) = (32.0 + 64.0, round_up_32(4.0 * lookup.pooling), vector);
    let (dram, l2) = if hits == HitRate::None {
        (offsets + indices + row_traffic + output, 0.0)
    } else {
        let rate = hit_rate(&lookup, element, hits, device);
        (indices + output + (1.0 - rate) * row_traffic, offsets + rate * row_traffic)
    };
    let warps = lookup.batch * lookup.tables;
    let per_warp = dram / memory_rate(device).max(1.0) + l2 / device.l2_bandwidth.0.max(1.0);
    Some(1e6 * warps * per_warp)
}

/// Rows of one table that the cache holds while the tables resident at once share it.
fn cached_rows(lookup: &Lookup, element: u64, device: &DeviceProfile) -> f64 {
    let resident_warps = f64::from(device.sm_count) * FBGEMM_WARPS_PER_SM;
    let tables = (resident_warps / lookup.batch.max(1.0)).ceil().clamp(1.0, lookup.tables);
    let row = (lookup.dim * element as f64).max(1.0);
    (device.l2.0 as f64 / (tables * row)).min(lookup.rows)
}

/// Share of row look-ups that the cache serves, within 0…1.
fn hit_rate(lookup: &Lookup, element: u64, hits: HitRate<'_>, device: &DeviceProfile) -> f64 {
    let (cached, look_ups) = (cached_rows(lookup, element, device), lookup.batch * lookup.pooling);
    if look_ups <= 0.0 || lookup.rows <= 0.0 {
        return 0.0;
    }
    let rate = match hits {
        HitRate::None => 0.0,
        HitRate::Printed => printed(cached, lookup.rows, lookup.pooling),
        HitRate::Distinct => distinct(cached, lookup.rows, look_ups),
        HitRate::Reuse(bins) => reused(bins, cached, look_ups),
    };
    rate.clamp(0.0, 1.0)
}

/// `C(X, L)/C(E, L) = Π_{i<L} (X−i)/(E−i)`, the chance that all `L` rows of a bag are cached.
fn printed(cached: f64, rows: f64, pooling: f64) -> f64 {
    let count = pooling.round().min(rows) as u64;
    (0..count.min(10_000)).map(|i| ((cached - i as f64) / (rows - i as f64)).max(0.0)).product()
}

/// `U = E·(1 − (1 − 1/E)^n)` rows are touched by `n` look-ups. When they all fit, every look-up but the first of
/// each row hits; when not, `p = 1 − (X + (n − X)(E − X)/E)/n`.
fn distinct(cached: f64, rows: f64, look_ups: f64) -> f64 {
    let touched = rows * -(look_ups * (-1.0 / rows).ln_1p()).exp_m1();
    let touched = if rows <= 1.0 { rows } else { touched };
    if touched > cached {
        1.0 - (cached + (look_ups - cached).max(0.0) * (rows - cached) / rows) / look_ups
    } else {
        1.0 - touched / look_ups
    }
}

/// The rows looked up most often are the cached ones: their look-ups hit except for the first of each.
fn reused(bins: &[f64], cached: f64, look_ups: f64) -> f64 {
    let total: f64 = bins.iter().sum();
    if total <= 0.0 {
        return 0.0;
    }
    let (mut room, mut hits) = (cached, 0.0);
    for (bin, share) in bins.iter().enumerate().rev() {
        let per_row = if bin == 0 { 1.0 } else { 0.75 * (bin as f64).exp2() };
        let rows = share / total * look_ups / per_row;
        let kept = rows.min(room);
        hits += kept * (per_row - 1.0);
        room -= kept;
    }
    hits / look_ups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Catalog;

    fn shape(batch: u64, rows: u64, tables: u64, pooling: f64, dim: u64, backward: bool) -> Shape {
        Shape::Embedding { batch, rows, tables, pooling, dim, backward }
    }

    #[test]
    fn plain_traffic_is_that_of_the_equation_worked_by_hand() {
        let catalog = Catalog::builtin().unwrap();
        let v100 = catalog.find("V100").unwrap();
        // One warp: 32 + 64 + ⌈4·10⌉₃₂ + 10·512 + 512 = 5792 bytes.
        let time = lookup_us(&shape(2048, 1_000_000, 8, 10.0, 128, false), 4, HitRate::None, v100).unwrap();
        assert!((time - 2048.0 * 8.0 * 5792.0 / 816.953e3).abs() < 1e-6);
        let backward = lookup_us(&shape(2048, 1_000_000, 8, 10.0, 128, true), 4, HitRate::None, v100).unwrap();
        assert!((backward - 2048.0 * 8.0 * (5792.0 + 5120.0) / 816.953e3).abs() < 1e-6);
    }

    #[test]
    fn small_tables_hit_the_cache_and_large_ones_do_not() {
        let catalog = Catalog::builtin().unwrap();
        let a100 = catalog.find("A100-40").unwrap();
        let time = |rows, hits| lookup_us(&shape(4096, rows, 1, 20.0, 64, false), 4, hits, a100).unwrap();
        assert!(time(1_000, HitRate::Distinct) < 0.8 * time(100_000_000, HitRate::Distinct));
        assert!(time(1_000, HitRate::Reuse(&[0.0, 0.0, 0.0, 1.0])) < time(1_000, HitRate::Reuse(&[1.0])));
    }

    #[test]
    fn odd_sizes_give_finite_times_from_zero() {
        let catalog = Catalog::builtin().unwrap();
        for device in catalog.iter() {
            for rows in [0, 1, 7, 1_000_000] {
                for (batch, tables, pooling, dim) in
                    [(1, 1, 0.0, 5), (0, 3, 2.5, 64), (512, 0, 1.0, 1), (1, 26, 1e6, 3), (8, 1, 3.0, 0)]
                {
                    for hits in [
                        HitRate::None,
                        HitRate::Printed,
                        HitRate::Distinct,
                        HitRate::Reuse(&[0.5, 0.5]),
                        HitRate::Reuse(&[]),
                    ] {
                        let time = lookup_us(&shape(batch, rows, tables, pooling, dim, true), 4, hits, device).unwrap();
                        assert!(
                            time.is_finite() && time >= 0.0,
                            "{} {rows} {batch} {pooling} {hits:?}: {time}",
                            device.id
                        );
                    }
                }
            }
        }
    }
}

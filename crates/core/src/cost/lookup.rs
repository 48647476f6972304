//! Time of embedding lookups from their memory traffic [Lin 2022 §III-B-1a].
//!
//! A warp produces one pooled vector. Its traffic in bytes, `⌈x⌉` rounding up to a multiple of 32: table offsets 32,
//! bag offsets 64, indices `⌈4L⌉`, rows `L·⌈4D⌉` (twice that backward), output `⌈4D⌉`.

use crate::device::DeviceProfile;

use super::reuse::Reuse;
use super::roofline::memory_rate;
use super::work::Shape;

/// How rows find themselves in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitRate {
    /// All traffic from DRAM.
    None,
    /// `p = C(X, L)/C(E, L)` with `X` cached rows, as printed in the paper.
    Printed,
    /// From the rows that the batch touches, as the shape's [`Reuse`] tells, cold misses included; with rows drawn
    /// evenly that is the expected number of distinct rows [Lin 2024, authors' code].
    Reused,
}

/// The sizes of a lookup, as floating point numbers; all at least 0.
#[derive(Clone, Copy)]
struct Lookup<'a> {
    batch: f64,
    rows: f64,
    tables: f64,
    pooling: f64,
    dim: f64,
    element: f64,
    backward: bool,
    reuse: &'a Reuse,
}

/// Bytes that a lookup moves.
struct Traffic {
    /// To and from DRAM.
    dram: f64,
    /// To and from the cache.
    l2: f64,
    /// Part of `dram` that is rows read and written back.
    updated: f64,
}

/// Warps that run on one multiprocessor at a time for FBGEMM's lookups.
const FBGEMM_WARPS_PER_SM: f64 = 45.0;

/// From one row of a bag to the next, in µs: a read of DRAM, which a warp waits for before it adds the next row. Bags too few
/// to hide it take as long as the rows of one [V100: about 0.43 µs and some instructions].
const ROW_US: f64 = 0.5;

/// The same for the kernel of a single table, whose threads fetch several rows ahead [H100, `PyTorch` 2.11, 340 sizes of ours, with
/// [`SINGLE_SLOWDOWN`]; 20 % off on 110 others].
const SINGLE_ROW_US: f64 = 0.14;

/// How much longer the kernel of a single table takes than its traffic: a thread reads one number of a row at a time.
const SINGLE_SLOWDOWN: f64 = 2.1;

/// Reads that wait for one another before the first row is there: of the offset, the index and the row.
const FIRST_READS: f64 = 3.0;

/// Memory over which rows may lie before updates of them slow down, as a share of the device's memory; how much slower each
/// doubling beyond makes them. Fitted to two tables of V100 of 16 GB: 8 × 1 M rows of 64 take 1.22 times their traffic, 32 ×
/// 500 k of 128 (L = 16) 1.8 times; reads of the first take 1.0. Elsewhere the reach is assumed to grow with the memory.
const UPDATE_REACH: f64 = 1.0 / 16.0;
const UPDATE_SLOWDOWN: f64 = 0.29;

/// Look-ups per bag of the measured rows that [`UPDATE_SLOWDOWN`] was fitted to.
pub const FITTED_POOLING: f64 = 16.0;

fn round_up_32(bytes: f64) -> f64 {
    (bytes / 32.0).ceil() * 32.0
}

impl<'a> Lookup<'a> {
    fn of(shape: &'a Shape, element: u64) -> Option<Self> {
        let &Shape::Embedding { batch, rows, tables, pooling, dim, backward, ref reuse } = shape else { return None };
        Some(Self {
            batch: batch as f64,
            rows: rows as f64,
            tables: (tables as f64).max(1.0),
            pooling: pooling.max(0.0),
            dim: dim as f64,
            element: element as f64,
            backward,
            reuse,
        })
    }

    fn traffic(&self, hits: HitRate, device: &DeviceProfile) -> Traffic {
        let vector = round_up_32(self.dim * self.element);
        let row_traffic = self.pooling * vector * if self.backward { 2.0 } else { 1.0 };
        let (offsets, indices, output) = (32.0 + 64.0, round_up_32(4.0 * self.pooling), vector);
        let warps = self.batch * self.tables;
        let (from_cache, list_dram, list_l2) = match hits {
            HitRate::None => (0.0, offsets + indices + output, 0.0),
            _ => (self.hit_rate(hits, device), indices + output, offsets),
        };
        let rows = (1.0 - from_cache) * row_traffic;
        Traffic {
            dram: warps * (list_dram + rows),
            l2: warps * (list_l2 + from_cache * row_traffic),
            updated: if self.backward { warps * rows } else { 0.0 },
        }
    }

    /// Rows of one table that the cache holds while the tables resident at once share it.
    fn cached_rows(&self, device: &DeviceProfile) -> f64 {
        let resident_warps = f64::from(device.sm_count) * FBGEMM_WARPS_PER_SM;
        let tables = (resident_warps / self.batch.max(1.0)).ceil().clamp(1.0, self.tables);
        let row = (self.dim * self.element).max(1.0);
        let room = device.l2.0 as f64 / (tables * row);
        if self.rows > 0.0 { room.min(self.rows) } else { room }
    }

    /// Share of row look-ups that the cache serves, within 0…1.
    fn hit_rate(&self, hits: HitRate, device: &DeviceProfile) -> f64 {
        let (cached, look_ups) = (self.cached_rows(device), self.batch * self.pooling);
        let untold = self.rows <= 0.0 && *self.reuse == Reuse::Uniform;
        if look_ups <= 0.0 || untold {
            return 0.0;
        }
        let rate = match hits {
            HitRate::None => 0.0,
            HitRate::Printed => printed(cached, self.rows, self.pooling),
            HitRate::Reused => self.reuse.hits(self.rows, look_ups, cached) / look_ups,
        };
        rate.clamp(0.0, 1.0)
    }

    /// The least time in µs: a kernel's start with its first reads, or the rows of one bag one after the other.
    fn start_us(&self, device: &DeviceProfile) -> f64 {
        let bag = if self.is_single() { 0.0 } else { self.bag_us() };
        bag.max(first_reads_us(device))
    }

    /// The time in µs of the rows of one bag, one after the other, by the kernel of several tables.
    fn bag_us(&self) -> f64 {
        if self.batch > 0.0 { self.pooling * ROW_US } else { 0.0 }
    }

    /// The time in µs of its traffic, updates of rows spread far apart slower.
    fn kernel_traffic_us(&self, device: &DeviceProfile) -> f64 {
        let mut traffic = self.traffic(HitRate::Reused, device);
        traffic.dram += traffic.updated * (self.update_factor(device) - 1.0);
        traffic_us(&traffic, device)
    }

    /// Whether it is of one table, which `PyTorch`'s own kernel reads; FBGEMM's read those of several.
    fn is_single(&self) -> bool {
        self.tables <= 1.0 && !self.backward
    }

    /// The time in µs beyond its start of a lookup in a single table whose traffic takes `traffic`: the rows of a bag one after the
    /// other, hidden behind those of others as far as there are any.
    fn single_us(&self, traffic: f64) -> f64 {
        let bag = if self.batch > 0.0 { self.pooling * SINGLE_ROW_US } else { 0.0 };
        bag.hypot(SINGLE_SLOWDOWN * traffic)
    }

    /// How much slower updates are than their traffic.
    fn update_factor(&self, device: &DeviceProfile) -> f64 {
        let tables = self.rows * self.dim * self.element * self.tables;
        let reach = (device.memory.0 as f64 * UPDATE_REACH).max(1.0);
        1.0 + UPDATE_SLOWDOWN * (tables / reach).max(1.0).log2()
    }
}

/// Time in µs of a kernel's start with its first reads.
fn first_reads_us(device: &DeviceProfile) -> f64 {
    device.kernel_start.secs() * 1e6 + FIRST_READS * ROW_US
}

fn traffic_us(traffic: &Traffic, device: &DeviceProfile) -> f64 {
    1e6 * (traffic.dram / memory_rate(device).max(1.0) + traffic.l2 / device.l2_bandwidth.0.max(1.0))
}

/// Time in µs of the lookup `shape` with rows of `element` bytes by its traffic alone; `None` for other shapes.
///
/// `t = B·T·(tr_DRAM/BW_DRAM + tr_L2/BW_L2)`: offsets always come from L2, the share of the rows that hits too.
pub fn lookup_us(shape: &Shape, element: u64, hits: HitRate, device: &DeviceProfile) -> Option<f64> {
    Some(traffic_us(&Lookup::of(shape, element)?.traffic(hits, device), device))
}

/// Time in µs that the lookup's kernel takes: its traffic, updates of rows spread far apart slower, and never less than a
/// kernel's start with its first reads, or the rows of one bag one after the other; of a single table these come on top.
pub(crate) fn lookup_kernel_us(shape: &Shape, element: u64, device: &DeviceProfile) -> Option<f64> {
    let lookup = Lookup::of(shape, element)?;
    let (traffic, start) = (lookup.kernel_traffic_us(device), lookup.start_us(device));
    Some(if lookup.is_single() { start + lookup.single_us(traffic) } else { traffic.max(start) })
}

/// Time in µs of one kernel that looks up in tables which differ: the traffic of each as one of as many alike, and never less than the
/// longest bag of any takes. With one more table it is never shorter.
///
/// # Arguments
/// `shapes`: each with the number of all of them as its tables, and the bytes of an element.
///
/// # Returns
/// `None` where one is of no lookup.
pub(crate) fn unlike_lookup_us(shapes: &[(&Shape, u64)], device: &DeviceProfile) -> Option<f64> {
    let lookups: Vec<Lookup<'_>> =
        shapes.iter().map(|&(shape, element)| Lookup::of(shape, element)).collect::<Option<_>>()?;
    let traffic: f64 = lookups.iter().map(|one| one.kernel_traffic_us(device) / one.tables).sum();
    let start = lookups.iter().map(|one| one.bag_us().max(first_reads_us(device))).fold(0.0, f64::max);
    Some(traffic.max(start))
}

/// Share of its start that a lookup takes at most where it takes little else.
const MOSTLY: f64 = 1.25;

/// Whether a lookup takes what any kernel takes to start, or one bag, not what its traffic does.
pub(crate) fn is_mostly_start(shape: &Shape, element: u64, device: &DeviceProfile) -> bool {
    let start = Lookup::of(shape, element).map(|lookup| lookup.start_us(device));
    start.zip(lookup_kernel_us(shape, element, device)).is_some_and(|(start, whole)| whole <= MOSTLY * start)
}

/// Bytes that a lookup moves over the host's link when its tables are in host memory and a cache on the device serves the
/// share `hits`: forward every row that misses, `(1 − h)·n·D`; backward every distinct row among them there and back,
/// `2·(1 − h)·U·D`, since its gradients are summed first [H100, FBGEMM in managed memory].
pub fn hosted_bytes(shape: &Shape, element: u64, hits: f64) -> f64 {
    let Some(lookup) = Lookup::of(shape, element) else { return 0.0 };
    let look_ups = lookup.batch * lookup.pooling;
    let rows = if lookup.backward { 2.0 * lookup.reuse.distinct(lookup.rows, look_ups) } else { look_ups };
    (1.0 - hits.clamp(0.0, 1.0)) * lookup.tables * rows * round_up_32(lookup.dim * lookup.element)
}

/// `C(X, L)/C(E, L) = Π_{i<L} (X−i)/(E−i)`, the chance that all `L` rows of a bag are cached.
fn printed(cached: f64, rows: f64, pooling: f64) -> f64 {
    let count = pooling.round().min(rows) as u64;
    (0..count.min(10_000)).map(|i| ((cached - i as f64) / (rows - i as f64)).max(0.0)).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Catalog;

    fn shape(batch: u64, rows: u64, tables: u64, pooling: f64, dim: u64, backward: bool) -> Shape {
        Shape::Embedding { batch, rows, tables, pooling, dim, backward, reuse: Reuse::Uniform }
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

    fn with(shape: Shape, told: Reuse) -> Shape {
        match shape {
            Shape::Embedding { batch, rows, tables, pooling, dim, backward, .. } => {
                Shape::Embedding { batch, rows, tables, pooling, dim, backward, reuse: told }
            }
            other => other,
        }
    }

    #[test]
    fn a_lookup_in_a_single_table_never_takes_less_with_more_bags() {
        let catalog = Catalog::builtin().unwrap();
        let h100 = catalog.find("H100-SXM").unwrap();
        let us = |batch| lookup_kernel_us(&shape(batch, 1_000_000, 1, 10.0, 64, false), 4, h100).unwrap();
        let times: Vec<f64> = [1, 256, 512, 1024, 2048, 4096].map(us).to_vec();
        assert!(times.is_sorted() && times[5] > 2.0 * times[1], "{times:?}");
        // Kernels of our captures, in µs: a table of 1 M rows of 64, ten a bag.
        for (batch, measured) in [(256, 5.5), (1024, 6.6), (4096, 12.6)] {
            assert!((us(batch) / measured - 1.0).abs() < 0.25, "{batch}: {} µs, measured {measured}", us(batch));
        }
    }

    #[test]
    fn one_more_table_makes_no_lookup_shorter_and_one_less_none_longer() {
        let catalog = Catalog::builtin().unwrap();
        let sizes = [(3_000_000, 45.0), (500, 2.0), (800_000, 18.0), (90, 0.5), (2_000_000, 70.0)];
        for device in ["V100", "A100-80", "H100-SXM"].map(|name| catalog.find(name).unwrap()) {
            for (batch, backward) in [(64, false), (64, true), (8192, false), (8192, true)] {
                let time = |sizes: &[(u64, f64)]| {
                    let count = sizes.len() as u64;
                    let of = |&(rows, pooling): &(u64, f64)| shape(batch, rows, count, pooling, 64, backward);
                    let shapes: Vec<Shape> = sizes.iter().map(of).collect();
                    unlike_lookup_us(&shapes.iter().map(|shape| (shape, 4)).collect::<Vec<_>>(), device).unwrap()
                };
                for left_out in 0..sizes.len() {
                    let others = [&sizes[..left_out], &sizes[left_out + 1..]].concat();
                    assert!(time(&others) <= time(&sizes), "{} {batch} {backward} {left_out}", device.id);
                }
            }
        }
    }

    #[test]
    fn small_tables_hit_the_cache_and_large_ones_do_not() {
        let catalog = Catalog::builtin().unwrap();
        let a100 = catalog.find("A100-40").unwrap();
        let time = |rows, reuse| {
            lookup_us(&with(shape(4096, rows, 1, 20.0, 64, false), reuse), 4, HitRate::Reused, a100).unwrap()
        };
        assert!(time(1_000, Reuse::Uniform) < 0.8 * time(100_000_000, Reuse::Uniform));
        assert!(time(100_000_000, Reuse::Zipf(1.1)) < 0.8 * time(100_000_000, Reuse::Uniform));
    }

    #[test]
    fn updates_of_tables_far_beyond_the_reach_are_slower_than_their_traffic() {
        let catalog = Catalog::builtin().unwrap();
        let v100 = catalog.find("V100").unwrap();
        let factor = |rows| {
            let shape = shape(2048, rows, 8, 100.0, 64, true);
            lookup_kernel_us(&shape, 4, v100).unwrap() / lookup_us(&shape, 4, HitRate::Reused, v100).unwrap()
        };
        // 8 × 100 k × 256 B lie within 1 GB; 8 × 1 M do not: log2(2.05e9 / 1.07e9) of a doubling.
        assert!((factor(100_000) - 1.0).abs() < 1e-9);
        assert!(factor(1_000_000) > 1.2 && factor(1_000_000) < 1.3, "{}", factor(1_000_000));
    }

    #[test]
    fn rows_in_host_memory_cross_the_link_once_forward_and_by_distinct_row_backward() {
        let told = |backward| with(shape(1000, 100_000, 2, 5.0, 128, backward), Reuse::Unique(0.25));
        assert!((hosted_bytes(&told(false), 4, 0.0) - 2.0 * 5000.0 * 512.0).abs() < 1e-6);
        assert!((hosted_bytes(&told(true), 4, 0.5) - 0.5 * 2.0 * 2.0 * 1250.0 * 512.0).abs() < 1e-6);
    }

    #[test]
    fn odd_sizes_give_finite_times_from_zero() {
        let catalog = Catalog::builtin().unwrap();
        for device in catalog.iter() {
            for rows in [0, 1, 7, 1_000_000] {
                for (batch, tables, pooling, dim) in
                    [(1, 1, 0.0, 5), (0, 3, 2.5, 64), (512, 0, 1.0, 1), (1, 26, 1e6, 3), (8, 1, 3.0, 0)]
                {
                    let shape = shape(batch, rows, tables, pooling, dim, true);
                    let traffic = [HitRate::None, HitRate::Printed, HitRate::Reused]
                        .map(|hits| lookup_us(&shape, 4, hits, device).unwrap());
                    for time in traffic.into_iter().chain([lookup_kernel_us(&shape, 4, device).unwrap()]) {
                        assert!(time.is_finite() && time >= 0.0, "{} {rows} {batch} {pooling}: {time}", device.id);
                    }
                }
            }
        }
    }
}

//! Matrix products in tiles and waves.
//!
//! For each candidate tile `[tm, tn]` and split `p` of the reduction,
//! `t = floor + max(waves · 2·tm·tn·(K/p + k₀) / (peak/SMs · share · eff), traffic) + split cost`,
//! `waves = ⌈⌈M/tm⌉·⌈N/tn⌉·batch·p / SMs⌉`; the library is taken to choose the fastest.

use crate::device::DeviceProfile;

use super::{Parameter, parameter, waves};
use crate::cost::work::{Shape, Work};

/// Candidate tiles, largest first.
pub(super) const TILES: [(f64, f64); 9] = [
    (256.0, 128.0),
    (128.0, 256.0),
    (128.0, 128.0),
    (128.0, 64.0),
    (64.0, 128.0),
    (64.0, 64.0),
    (64.0, 32.0),
    (32.0, 64.0),
    (16.0, 64.0),
];
const SPLITS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

pub(super) const K_PROLOGUE: usize = 3;
pub(super) const L2: usize = 4;
pub(super) const SPLIT_US: usize = 5;
pub(super) const SLACK: usize = 6;
/// The efficiencies of the tiles start here.
pub(super) const TILE: usize = 7;
/// What the board's power allows, of vector units.
pub(super) const POWER: usize = TILE + TILES.len();

pub(super) const PARAMETERS: [Parameter; 17] = [
    parameter("compute share of peak", 0.75, 0.05, 1.3),
    parameter("bandwidth share of peak", 0.8, 0.1, 1.5),
    parameter("floor µs", 3.0, 0.3, 150.0),
    parameter("prologue elements of K", 64.0, 1.0, 2000.0),
    parameter("L2 over DRAM bandwidth", 3.0, 1.0, 20.0),
    parameter("split cost µs", 2.0, 0.2, 100.0),
    parameter("wave slack", 0.2, 0.001, 1.0),
    parameter("efficiency 256x128", 0.98, 0.05, 1.5),
    parameter("efficiency 128x256", 0.98, 0.05, 1.5),
    parameter("efficiency 128x128", 0.95, 0.05, 1.5),
    parameter("efficiency 128x64", 0.85, 0.05, 1.5),
    parameter("efficiency 64x128", 0.85, 0.05, 1.5),
    parameter("efficiency 64x64", 0.7, 0.05, 1.5),
    parameter("efficiency 64x32", 0.5, 0.03, 1.5),
    parameter("efficiency 32x64", 0.5, 0.03, 1.5),
    parameter("efficiency 16x64", 0.3, 0.02, 1.5),
    parameter("TFLOP/s of vector units per W and nm⁻¹", 0.7, 0.3, 3.0),
];

/// The rates of a device as the model sees them.
#[derive(Clone, Copy)]
pub(super) struct Rates {
    /// Achieved FLOP per µs of one multiprocessor.
    pub(super) per_sm: f64,
    /// Multiprocessors.
    pub(super) sms: f64,
    /// Achieved DRAM bytes per µs.
    pub(super) dram: f64,
}

impl Rates {
    /// The rates that products of `work` see under the parameters `p` of products.
    pub(super) fn of_products(work: &Work, device: &DeviceProfile, p: &[f64]) -> Self {
        let allowed = device.power_per_peak.filter(|_| !work.precision.is_tensor()).map(|ratio| ratio * p[POWER]);
        Self::of(work, device, p[super::COMPUTE].min(allowed.unwrap_or(f64::INFINITY)), p[super::BANDWIDTH])
    }

    pub(super) fn of(work: &Work, device: &DeviceProfile, compute: f64, bandwidth: f64) -> Self {
        let sms = f64::from(device.sm_count.max(1));
        let peak = device.product_rate(work.precision).0.max(1.0);
        Self { per_sm: 1e-6 * peak * compute / sms, sms, dram: 1e-6 * device.dram_bandwidth.0.max(1.0) * bandwidth }
    }
}

/// Sizes of a product as floating point numbers.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub(super) batch: f64,
    pub(super) m: f64,
    pub(super) n: f64,
    pub(super) k: f64,
    /// Bytes per element of the factors.
    pub(super) element: f64,
    /// Bytes each tensor once.
    pub(super) bytes: f64,
    /// Whether many small tiles hide one another's start: of batches on tensor cores, which no table has. Fitted parameters of other
    /// products hold that already.
    pub(super) hides_prologue: bool,
}

pub(super) fn time_us(work: &Work, device: &DeviceProfile, p: &[f64]) -> f64 {
    let Some(product) = product_of(work) else { return p[super::START_US] };
    let rates = Rates::of_products(work, device, p);
    p[super::START_US] + product_us(product, rates, p).max(sustained_us(work, device))
}

fn product_of(work: &Work) -> Option<Product> {
    let &Shape::Gemm { batch, m, n, k } = &work.shape else { return None };
    let [batch, m, n, k] = [batch, m, n, k].map(|dim| dim as f64);
    let factors = batch * (m * k + k * n);
    let element = if factors > 0.0 { (work.read.0 as f64 / factors).clamp(1.0, 8.0) } else { 4.0 };
    let hides_prologue = batch > 1.0 && work.precision.is_tensor();
    Some(Product { batch, m, n, k, element, bytes: work.bytes().0 as f64, hides_prologue })
}

/// The tile and the parts of the reduction by which a product is computed fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastestTile {
    /// Rows of a tile of the result.
    pub rows: u32,
    /// Columns of a tile of the result.
    pub columns: u32,
    /// Parts in which the reduction is split.
    pub split: u32,
}

/// The fastest candidate for `work`; `None` of what is no product in tiles.
pub(super) fn fastest_tile(work: &Work, device: &DeviceProfile, p: &[f64]) -> Option<FastestTile> {
    let product = product_of(work).filter(|it| it.m.min(it.n).min(it.k) > 1.0)?;
    let rates = Rates::of_products(work, device, p);
    let timed =
        TILES.iter().zip(&p[TILE..]).map(|(&tile, &efficiency)| (tile, tile_us(product, rates, tile, efficiency, p)));
    let ((rows, columns), (_, split)) = timed.min_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    Some(FastestTile { rows: rows as u32, columns: columns as u32, split: split as u32 })
}

/// Arithmetic at the rate that all multiprocessors together sustain on a device whose board cannot feed them at full clock; a
/// product on a few of them runs at the rate of each.
fn sustained_us(work: &Work, device: &DeviceProfile) -> f64 {
    let rate = |share: f64| 1e-6 * device.product_rate(work.precision).0.max(1.0) * share;
    device.product_share.map_or(0.0, |share| work.flop.0 / rate(share))
}

/// Time of a product without the floor.
pub(super) fn product_us(product: Product, rates: Rates, p: &[f64]) -> f64 {
    let compulsory = product.bytes / rates.dram;
    if product.batch * product.m * product.n <= 0.0 {
        return compulsory;
    }
    if product.m.min(product.n).min(product.k) <= 1.0 {
        // With a vector or outer products: kernels without tiles, which nothing but memory and vector units hold back.
        let multiplied = 2.0 * product.batch * product.m * product.n * product.k;
        return compulsory.max(multiplied / (rates.per_sm * rates.sms));
    }
    let tiles = TILES.iter().zip(&p[TILE..]);
    tiles
        .map(|(&tile, &efficiency)| tile_us(product, rates, tile, efficiency, p).0)
        .fold(f64::INFINITY, f64::min)
        .max(compulsory)
}

/// Blocks of tiles of `area` elements that a multiprocessor works on side by side, so that one fills its pipeline while others compute.
fn blocks_at_work(tiles: f64, sms: f64, area: f64) -> f64 {
    (tiles / sms).clamp(1.0, (LARGE / area).max(1.0))
}

/// Elements of a tile that has a multiprocessor for itself.
const LARGE: f64 = 128.0 * 128.0;

/// The shortest time with one tile, and the parts of the reduction that give it.
fn tile_us(product: Product, rates: Rates, (tm, tn): (f64, f64), efficiency: f64, p: &[f64]) -> (f64, f64) {
    let Product { batch, m, n, k, element, .. } = product;
    let (rows, columns) = ((m / tm).ceil(), (n / tn).ceil());
    let tiles = rows * columns * batch;
    let traffic = batch * k * (rows * columns) * (tm.min(m) + tn.min(n)) * element / (rates.dram * p[L2]);
    let per_k = 2.0 * tm * tn / (rates.per_sm * efficiency);
    let prologue = p[K_PROLOGUE] / if product.hides_prologue { blocks_at_work(tiles, rates.sms, tm * tn) } else { 1.0 };
    let mut best = (f64::INFINITY, 1.0);
    for split in SPLITS {
        let compute = waves(tiles * split, rates.sms, p[SLACK]) * per_k * (k / split + prologue);
        let extra =
            if split > 1.0 { p[SPLIT_US] + batch * m * n * (split + 1.0) * 4.0 / (rates.dram * p[L2]) } else { 0.0 };
        let us = compute.max(traffic) + extra;
        if us < best.0 {
            best = (us, split);
        }
        if tiles * split > rates.sms || k / split < 128.0 {
            break;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::operators::{GemmSize, gemm_work};
    use crate::device::Catalog;
    use crate::graph::DType;

    #[test]
    fn products_with_vectors_take_what_their_bytes_take() {
        let catalog = Catalog::builtin().unwrap();
        let device = catalog.find("A100-40").unwrap();
        let p = PARAMETERS.map(|parameter| parameter.default);
        let time = |m, n, k| {
            let work = gemm_work(GemmSize { batch: 1024, m, n, k }, DType::Fp32, false, 0);
            (time_us(&work, device, &p) - p[super::super::START_US], work.bytes().0 as f64)
        };
        for (m, n, k) in [(1, 512, 512), (512, 1, 512), (512, 512, 1)] {
            let (us, bytes) = time(m, n, k);
            let stream = bytes / (device.dram_bandwidth.0 * p[super::super::BANDWIDTH]) * 1e6;
            assert!((us / stream - 1.0).abs() < 1e-9, "{m} {n} {k}: {us} {stream}");
        }
        assert!(time(2, 512, 512).0 > time(1, 512, 512).0);
    }
}

//! Cost models over dense grids of sizes: what no table holds is asked, too.

use std::sync::Arc;

use retime_core::cost::operators::{AttentionSize, GemmSize, attention_work, gemm_work, movement_work};
use retime_core::cost::{CostModels, Estimate, Family, Work};
use retime_core::device::{Catalog, DeviceKind, DeviceProfile};
use retime_core::graph::DType;

const SIZES: [u64; 9] = [1, 3, 16, 100, 256, 1000, 4096, 65_536, 1 << 20];
/// Products in falling rate, by type of their factors and whether these are rounded.
const PRODUCTS: [(DType, bool); 4] =
    [(DType::Fp8, false), (DType::Bf16, false), (DType::Fp32, true), (DType::Fp32, false)];

fn gpus(catalog: &Catalog) -> Vec<Arc<DeviceProfile>> {
    catalog.iter().filter(|device| device.kind == DeviceKind::Gpu).cloned().collect()
}

fn products((dtype, is_rounded): (DType, bool)) -> Vec<Work> {
    let of_two = |m: u64| SIZES.into_iter().flat_map(move |n| SIZES.map(|k| (m, n, k)));
    let sizes = SIZES.into_iter().flat_map(of_two);
    sizes.map(|(m, n, k)| gemm_work(GemmSize { batch: 1, m, n, k }, dtype, is_rounded, 0)).collect()
}

/// The kinds of product that the device has units for.
fn known(device: &DeviceProfile) -> impl Iterator<Item = (DType, bool)> {
    let precision = |kind| products(kind)[0].precision;
    PRODUCTS.into_iter().filter(move |&kind| device.peak.contains_key(&precision(kind)))
}

fn times(models: &CostModels, works: &[Work], device: &DeviceProfile) -> Vec<Estimate> {
    let works: Vec<&Work> = works.iter().collect();
    models.estimates(&works, device).into_iter().map(|estimate| estimate.unwrap()).collect()
}

fn other_works() -> Vec<Work> {
    let moved = SIZES.map(|size| movement_work(Family::Elementwise, size * 1024, size * 1024));
    let of_length = |queries: u64| SIZES.map(|keys| (queries, keys.max(queries).min(65_536)));
    let attention = [1, 16, 17, 100, 4096].into_iter().flat_map(of_length).flat_map(|(queries, keys)| {
        [32, 80, 128].map(|dim| {
            let size = AttentionSize { batch: 2, heads: 16, kv_heads: 4, queries, keys, dim, causal: true };
            attention_work(&size, false, DType::Bf16)
        })
    });
    moved.into_iter().chain(attention).collect()
}

#[test]
fn every_size_takes_a_finite_time_under_no_theoretical_roof() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    for device in gpus(&catalog) {
        let works: Vec<Work> = known(&device).flat_map(products).chain(other_works()).collect();
        for (work, estimate) in works.iter().zip(times(&models, &works, &device)) {
            let traffic = work.bytes().0.saturating_sub(device.l2.0) as f64 / device.dram_bandwidth.0;
            let is_product = matches!(work.family, Family::Gemm | Family::Attention);
            let peak = device.product_rate(work.precision).0.max(device.peak_rate(work.precision).0);
            let arithmetic = if is_product { work.flop.0 / peak } else { 0.0 };
            let (seconds, least) = (estimate.duration.secs(), traffic.max(arithmetic));
            assert!(seconds > 0.0 && seconds.is_finite() && estimate.error > 0.0, "{}: {work:?}", device.id);
            assert!(seconds >= 0.99 * least - 1e-9, "{}: {work:?} in {seconds} s, not {least}", device.id);
        }
    }
}

#[test]
fn products_that_may_be_rounded_are_no_slower_than_exact_ones() {
    const SECONDS: f64 = 20e-6;
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    for device in gpus(&catalog).into_iter().filter(|device| known(device).any(|(_, is_rounded)| is_rounded)) {
        let [rounded, exact] = [2, 3].map(|at| products(PRODUCTS[at]));
        let pairs = times(&models, &rounded, &device).into_iter().zip(times(&models, &exact, &device));
        for ((fast, slow), work) in pairs.zip(&rounded) {
            // Beyond what both models err by.
            let slack = 1.0 + f64::from(fast.error) + f64::from(slow.error);
            let is_slower = fast.duration.secs() > slack * slow.duration.secs() && slow.duration.secs() > SECONDS;
            assert!(!is_slower, "{}: {work:?}: {fast:?}, {slow:?}", device.id);
        }
    }
}

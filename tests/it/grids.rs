//! Cost models over dense grids of sizes: what no table holds is asked, too.

use std::sync::Arc;

use retime_core::cost::models::FIRST_RUN;
use retime_core::cost::operators::{
    AttentionSize, ConvPass, ConvSize, GemmSize, attention_work, conv_work, gemm_work, movement_work,
};
use retime_core::cost::work::Shape;
use retime_core::cost::{CostModels, Domain, Estimate, Family, Work};
use retime_core::device::{Catalog, DeviceKind, DeviceProfile};
use retime_core::graph::DType;
use retime_core::units::Flop;

/// Small and large sizes, odd ones and such that no tile divides among them.
const SIZES: [u64; 11] = [1, 3, 16, 100, 127, 256, 1000, 4096, 10_007, 65_536, 1 << 20];
/// Products in falling rate, by type of their factors and whether these are rounded.
const PRODUCTS: [(DType, bool); 4] =
    [(DType::Fp8, false), (DType::Bf16, false), (DType::Fp32, true), (DType::Fp32, false)];
/// Kernels that take less are ordered by their starts.
const ORDERED_SECONDS: f64 = 20e-6;

fn gpus(catalog: &Catalog) -> Vec<Arc<DeviceProfile>> {
    catalog.iter().filter(|device| device.kind == DeviceKind::Gpu).cloned().collect()
}

fn products((dtype, is_rounded): (DType, bool)) -> Vec<Work> {
    let of_two = |m: u64| SIZES.into_iter().flat_map(move |n| SIZES.map(|k| (1, m, n, k)));
    let batched =
        |batch: u64| [(batch, 128, 128, 64), (batch, 1000, 100, 1000), (batch, 1, 512, 4096), (batch, 33, 77, 129)];
    let sizes = SIZES.into_iter().flat_map(of_two).chain([2, 7, 96, 2048].into_iter().flat_map(batched));
    sizes.map(|(batch, m, n, k)| gemm_work(GemmSize { batch, m, n, k }, dtype, is_rounded, 0)).collect()
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

fn rows(family: Family, (rows, width): (u64, u64)) -> Work {
    let bytes = 4 * rows * width;
    Work { shape: Shape::Rows { rows, width }, flop: Flop(2.0 * bytes as f64), ..movement_work(family, bytes, bytes) }
}

fn convolution(batch: u64, channels: u64, side: u64, taps: u64) -> Work {
    let out = side / 2;
    let size = ConvSize {
        batch,
        channels_in: channels,
        channels_out: 2 * channels,
        in_area: side * side,
        out_h: out,
        out_w: out,
        r: taps,
        s: taps,
        stride: 2,
        groups: 1,
    };
    conv_work(&size, ConvPass::Forward, DType::Fp32, false)
}

fn other_works() -> Vec<Work> {
    let moved = [Family::Elementwise, Family::Reduction]
        .into_iter()
        .flat_map(|family| SIZES.map(|size| movement_work(family, size * 1024, size * 1024)));
    let pairs = || SIZES.into_iter().flat_map(|one| SIZES.map(|other| (one, other.min(65_536))));
    let rowwise =
        [Family::Norm, Family::Softmax].into_iter().flat_map(move |family| pairs().map(move |size| rows(family, size)));
    let of_length = |queries: u64| SIZES.map(|keys| (queries, keys.max(queries).min(65_536)));
    let attention = [1, 16, 17, 100, 4096].into_iter().flat_map(of_length).flat_map(|(queries, keys)| {
        [(32, false), (80, false), (128, false), (64, true)].map(|(dim, backward)| {
            let size = AttentionSize { batch: 2, heads: 16, kv_heads: 4, queries, keys, dim, causal: true };
            attention_work(&size, backward, DType::Bf16)
        })
    });
    let convolutions = [1, 3, 64, 1000].into_iter().flat_map(|batch| {
        [(3, 224, 7), (64, 56, 3), (513, 15, 1), (2048, 8, 3)].map(|(c, side, taps)| convolution(batch, c, side, taps))
    });
    moved.chain(rowwise).chain(attention).chain(convolutions).collect()
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

/// Whether the first of a pair is slower, by more than both models' errors and what a first run on tensor cores takes longer.
fn is_slower(fast: &Estimate, slow: &Estimate) -> bool {
    let slack = 1.0 + f64::from(fast.error) + f64::from(slow.error);
    slow.duration.secs() > ORDERED_SECONDS
        && fast.duration.secs() > 1.001 * slack * slow.duration.secs() + FIRST_RUN.secs()
}

#[test]
fn products_of_fewer_bits_are_no_slower_than_those_of_more() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let mut found = Vec::new();
    for device in gpus(&catalog) {
        let kinds: Vec<_> = known(&device).map(|kind| (kind, times(&models, &products(kind), &device))).collect();
        for pair in kinds.windows(2) {
            let [(kind, fast), (more, slow)] = pair else { continue };
            for ((fast, slow), work) in fast.iter().zip(slow).zip(products(*kind)) {
                // What tables say of a product stands; between rounding and not the library has a choice.
                let is_corrected = kind.0 == DType::Fp8 && fast.model == "structured+trees";
                let is_bound = fast.extrapolated && !is_corrected || kind.1;
                if is_bound && is_slower(fast, slow) {
                    found.push(format!("{}: {kind:?} {more:?} {:?}: {fast:?}, {slow:?}", device.id, work.shape));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}\n{}", found.len(), found.join("\n"));
}

#[test]
fn faster_memory_does_not_speed_up_what_arithmetic_bounds() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    for (one, other) in [("H100-SXM", "H200"), ("A100-80", "A100-40")] {
        for size in [4096, 8192, 16_384] {
            let work = gemm_work(GemmSize { batch: 1, m: size, n: size, k: size }, DType::Bf16, false, 0);
            let time = |id| models.estimate(&work, catalog.find(id).unwrap()).unwrap().duration.secs();
            let ratio = time(other) / time(one);
            assert!((0.97..1.03).contains(&ratio), "{size} on {other}: {ratio} of {one}");
        }
    }
}

/// Sizes from the largest of the tables on, in steps of a sixteenth of a power of two, all of which vectors fit.
fn beyond_tables() -> Vec<u64> {
    (0..=64).map(|step| 16 * (4096.0 * (f64::from(step) / 16.0).exp2()).round() as u64).collect()
}

/// Times of a product whose other sizes are `fixed` over growing sizes of one of its sides.
fn along(models: &CostModels, device: &DeviceProfile, kind: (DType, bool), fixed: u64, side: usize) -> Vec<f64> {
    let sized = |size: u64| {
        let mut sizes = [fixed; 3];
        sizes[side] = size;
        gemm_work(GemmSize { batch: 1, m: sizes[0], n: sizes[1], k: sizes[2] }, kind.0, kind.1, 0)
    };
    let works: Vec<Work> = beyond_tables().into_iter().map(sized).collect();
    times(models, &works, device).iter().map(|estimate| estimate.duration.secs()).collect()
}

#[test]
fn products_beyond_all_tables_take_longer_the_larger_they_are() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let (mut walks, mut falls) = (0, Vec::new());
    for device in gpus(&catalog) {
        let lines = [512, 1024, 4096].into_iter().flat_map(|fixed| [0, 1, 2].map(|side| (fixed, side)));
        for ((fixed, side), kind) in lines.flat_map(|line| known(&device).map(move |kind| (line, kind))) {
            let times = along(&models, &device, kind, fixed, side);
            walks += 1;
            for (at, pair) in times.windows(2).enumerate().filter(|(_, pair)| pair[0] > ORDERED_SECONDS) {
                if pair[1] < 0.98 * pair[0] {
                    let size = beyond_tables()[at];
                    falls.push(format!(
                        "{} {kind:?} {fixed} side {side} at {size}: {:.3}",
                        device.id,
                        pair[1] / pair[0]
                    ));
                }
            }
        }
    }
    assert!(falls.is_empty() && walks > 500, "{} of {walks}\n{}", falls.len(), falls.join("\n"));
}

/// Beside tables, which hold what the cache keeps from one run to the next.
#[test]
fn few_rows_of_fp32_reach_no_more_of_the_memory_than_was_measured_anywhere() {
    let (catalog, models) = (Catalog::builtin().unwrap(), CostModels::builtin().unwrap());
    let unmeasured = |device: &DeviceProfile| {
        models.fits().find(Domain::Linear, &device.id).is_none() && !device.is_amd && device.l2.0 < 90 << 20
    };
    let mut checked = 0;
    for device in gpus(&catalog).into_iter().filter(|device| unmeasured(device)) {
        for (m, n, k) in [(1, 16_384, 16_384), (2, 8192, 8192), (8, 16_384, 4096), (32, 4096, 16_384)] {
            let work = gemm_work(GemmSize { batch: 1, m, n, k }, DType::Fp32, false, 0);
            let seconds = times(&models, std::slice::from_ref(&work), &device)[0].duration.secs();
            let share = work.bytes().0 as f64 / seconds / device.dram_bandwidth.0;
            assert!(share <= 0.921, "{m} × {n} × {k} on {}: {share:.3} of its bandwidth", device.id);
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}

//! Orders that times keep between neighbouring sizes, precisions and cards, on every GPU of the catalog: beyond what both models state
//! that they err by, where a kernel takes more than its start.

use std::collections::BTreeSet;
use std::sync::Arc;

use retime_core::cost::operators::{
    AttentionSize, ConvPass, ConvSize, GemmSize, attention_work, conv_work, gemm_work, movement_work,
};
use retime_core::cost::trace_error::trace_error;
use retime_core::cost::work::Shape;
use retime_core::cost::{CostModels, Estimate, Family, Work};
use retime_core::device::{Catalog, DeviceKind, DeviceProfile, Precision};
use retime_core::graph::DType;
use retime_core::units::Flop;

/// Kernels that take less are ordered by their starts.
const ORDERED_SECONDS: f64 = 20e-6;
/// How much less a size may take than the one before it.
const FALL: f64 = 0.02;

fn gpus(catalog: &Catalog) -> Vec<Arc<DeviceProfile>> {
    catalog.iter().filter(|device| device.kind == DeviceKind::Gpu).cloned().collect()
}

fn estimates(models: &CostModels, works: &[Work], device: &DeviceProfile) -> Vec<Estimate> {
    let works: Vec<&Work> = works.iter().collect();
    models.estimates(&works, device).into_iter().map(|estimate| estimate.unwrap()).collect()
}

fn seconds(models: &CostModels, work: Work, device: &DeviceProfile) -> f64 {
    estimates(models, &[work], device)[0].duration.secs()
}

/// Whether `first` takes longer than `second` by more than `slack`, a share of the second.
fn is_longer(first: &Estimate, second: &Estimate, slack: f64) -> bool {
    second.duration.secs() > ORDERED_SECONDS && first.duration.secs() > (1.0 + slack) * second.duration.secs()
}

/// What both models state that they err by.
fn stated(pair: [&Estimate; 2]) -> f64 {
    pair.iter().map(|estimate| f64::from(estimate.error)).sum()
}

/// Heads and heads of keys of public models.
const HEADS: [(u64, u64); 4] = [(32, 8), (32, 32), (64, 8), (8, 1)];

fn attention((heads, kv_heads): (u64, u64), batch: u64, queries: u64, keys: u64) -> Work {
    let size = AttentionSize { batch, heads, kv_heads, queries, keys, dim: 128, causal: true };
    attention_work(&size, false, DType::Bf16)
}

/// Pairs of neighbours along `walk` of which the second takes less than the first.
fn falls(models: &CostModels, device: &DeviceProfile, walk: &[Work]) -> Vec<String> {
    let times = estimates(models, walk, device);
    let neighbours = times.windows(2).zip(walk.windows(2));
    let fallen = neighbours.filter(|(times, _)| is_longer(&times[0], &times[1], FALL / (1.0 - FALL)));
    fallen.map(|(times, works)| format!("{}: {:?} {times:?}", device.id, works[0].shape)).collect()
}

#[test]
fn neither_a_key_nor_a_sequence_more_makes_a_decoding_step_faster() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let lengths: BTreeSet<u64> = (30..90).map(|step| (f64::from(step) / 6.0).exp2() as u64).chain(499..515).collect();
    let mut fallen = Vec::new();
    for device in gpus(&catalog) {
        for heads in HEADS {
            for batch in [1, 7, 16, 64] {
                let walk: Vec<Work> = lengths.iter().map(|&keys| attention(heads, batch, 1, keys)).collect();
                fallen.extend(falls(&models, &device, &walk));
            }
            for keys in [300, 4096, 20_000] {
                let walk: Vec<Work> =
                    (1..=40).chain([64, 65, 100, 128, 129]).map(|batch| attention(heads, batch, 1, keys)).collect();
                fallen.extend(falls(&models, &device, &walk));
            }
        }
    }
    assert!(fallen.is_empty(), "{}\n{}", fallen.len(), fallen.join("\n"));
}

#[test]
fn a_query_more_takes_no_more_than_its_share_where_few_become_many() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    for device in gpus(&catalog) {
        for (heads, batch, keys) in HEADS
            .into_iter()
            .flat_map(|heads| [(1, 512), (1, 30_000), (16, 1024), (64, 8192)].map(|(batch, keys)| (heads, batch, keys)))
        {
            let [few, more] = [16, 17].map(|queries| seconds(&models, attention(heads, batch, queries, keys), &device));
            let ratio = more / few;
            assert!(ratio <= 17.0 / 16.0 + 1e-3, "{heads:?} {batch} {keys} on {}: {ratio}", device.id);
            assert!(few < ORDERED_SECONDS || ratio >= 1.0 - FALL, "{heads:?} {batch} {keys} on {}: {ratio}", device.id);
        }
    }
}

#[test]
fn a_decoding_step_that_memory_bounds_follows_its_bandwidth() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let time = |id| seconds(&models, attention((32, 8), 64, 1, 8192), catalog.find(id).unwrap());
    let bandwidth = |id: &str| catalog.find(id).unwrap().dram_bandwidth.0;
    for other in ["H200", "H100-NVL"] {
        let (ratio, inverse) = (time(other) / time("H100-SXM"), bandwidth("H100-SXM") / bandwidth(other));
        assert!((ratio / inverse - 1.0).abs() < 0.03, "{other}: {ratio} of H100-SXM's time, not {inverse}");
    }
}

/// A convolution as wide as it is high, without a change of size.
fn convolution(channels: (u64, u64), pass: ConvPass) -> Work {
    let (batch, side, taps) = (32, 56, 3);
    let size = ConvSize {
        batch,
        channels_in: channels.0,
        channels_out: channels.1,
        in_area: side * side,
        out_h: side,
        out_w: side,
        r: taps,
        s: taps,
        stride: 1,
        groups: 1,
    };
    conv_work(&size, pass, DType::Bf16, false)
}

#[test]
fn odd_channels_cost_no_more_than_whole_ones_and_copies() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    for device in gpus(&catalog) {
        for pass in [ConvPass::Forward, ConvPass::InputGradient, ConvPass::WeightGradient] {
            for (odd, whole) in [((65, 65), (72, 72)), ((255, 128), (256, 128)), ((256, 513), (256, 520))] {
                let [odd, whole] = [odd, whole].map(|channels| convolution(channels, pass));
                let copies = Work {
                    shape: Shape::Strided { elements: whole.bytes().0 / 2 },
                    ..movement_work(Family::Movement, odd.bytes().0, whole.bytes().0)
                };
                let [odd, whole, copies] = [odd, whole, copies].map(|work| seconds(&models, work, &device));
                let starts = 8.0 * device.kernel_start.secs();
                assert!(odd <= 1.01 * (whole + copies) + starts, "{pass:?} on {}: {odd} {whole} {copies}", device.id);
            }
        }
    }
}

fn softmax(dtype: DType, (rows, width): (u64, u64)) -> Work {
    let count = rows * width;
    let moved = movement_work(Family::Softmax, count * dtype.size(), count * dtype.size());
    Work { shape: Shape::Rows { rows, width }, flop: Flop(12.0 * count as f64), ..moved }
}

#[test]
fn a_softmax_of_fewer_bits_is_no_slower_at_any_width() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let widths = [100, 127, 1000, 1023, 1025, 1030, 2047, 4099, 10_007, 50_257];
    let sizes: Vec<(u64, u64)> = widths.into_iter().flat_map(|width| [(1000, width), (65_536, width)]).collect();
    for device in gpus(&catalog) {
        let [half, single] = [DType::Bf16, DType::Fp32].map(|dtype| {
            let works: Vec<Work> = sizes.iter().map(|&size| softmax(dtype, size)).collect();
            estimates(&models, &works, &device)
        });
        for ((half, single), size) in half.iter().zip(&single).zip(&sizes) {
            assert!(half.duration <= single.duration, "{size:?} on {}: {half:?} {single:?}", device.id);
        }
    }
}

#[test]
fn no_sum_is_faster_the_wider_its_rows_are() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    for device in gpus(&catalog) {
        for rows in [4096, 300_000, 10_000_000] {
            let sum = |width: u64| Work {
                shape: Shape::Rows { rows, width },
                ..movement_work(Family::Reduction, 4 * rows * width, 4 * rows)
            };
            let walk: Vec<Work> = (1..=70).map(sum).collect();
            let fallen = falls(&models, &device, &walk);
            assert!(fallen.is_empty(), "{}\n{}", fallen.len(), fallen.join("\n"));
        }
    }
}

#[test]
fn short_sums_of_products_are_no_slower_than_longer_ones() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let mut fallen = Vec::new();
    for device in gpus(&catalog) {
        for dtype in [DType::Bf16, DType::Fp8] {
            for (m, n) in [(4096, 4096), (8192, 1024), (65_536, 256)] {
                let product = |k: u64| gemm_work(GemmSize { batch: 1, m, n, k }, dtype, false, 0);
                if !device.peak.contains_key(&product(16).precision) {
                    continue;
                }
                let walk: Vec<Work> = [16, 32, 48, 64].map(product).into();
                let times = estimates(&models, &walk, &device);
                for (pair, work) in times.windows(2).zip(&walk) {
                    if is_longer(&pair[0], &pair[1], 0.5 * stated([&pair[0], &pair[1]])) {
                        fallen.push(format!("{}: {:?} {pair:?}", device.id, work.shape));
                    }
                }
            }
        }
    }
    assert!(fallen.is_empty(), "{}\n{}", fallen.len(), fallen.join("\n"));
}

#[test]
fn sums_that_whole_accesses_do_not_fit_are_no_slower_in_8_bits_than_in_16() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let sizes = [(4096, 4096, 4088), (8192, 8192, 7000), (4096, 4096, 7000), (16_384, 4096, 4088)];
    for device in gpus(&catalog).into_iter().filter(|device| device.peak.contains_key(&Precision::Fp8Tensor)) {
        for (m, n, k) in sizes {
            let [eight, sixteen] = [DType::Fp8, DType::Bf16].map(|dtype| {
                let work = gemm_work(GemmSize { batch: 1, m, n, k }, dtype, false, 0);
                estimates(&models, &[work], &device)[0]
            });
            assert!(!is_longer(&eight, &sixteen, 0.01), "{m} × {n} × {k} on {}: {eight:?} {sixteen:?}", device.id);
        }
    }
}

/// Whether `device` has no figure below that of `other`, of the same chip.
fn is_no_less(device: &DeviceProfile, other: &DeviceProfile) -> bool {
    let figures = |device: &DeviceProfile| {
        let rest = [f64::from(device.sm_count), device.clock_mhz, device.dram_bandwidth.0, device.l2.0 as f64];
        rest.into_iter().chain(device.peak.values().map(|rate| rate.0)).collect::<Vec<_>>()
    };
    let (own, others) = (figures(device), figures(other));
    device.id != other.id
        && device.chip() == other.chip()
        && own.len() == others.len()
        && own.iter().zip(&others).all(|(own, other)| own >= other)
}

#[test]
fn a_card_with_no_figure_below_another_of_its_chip_is_no_slower() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let works: Vec<Work> = [(8192, 1024), (65_536, 1024), (8192, 16_384), (65_536, 4096), (1_000_000, 128)]
        .into_iter()
        .map(|size| softmax(DType::Fp32, size))
        .chain([(1, 512), (16, 4096), (64, 8192)].map(|(batch, keys)| attention((32, 8), batch, 1, keys)))
        .chain(
            [4096, 8192].map(|size| gemm_work(GemmSize { batch: 1, m: size, n: size, k: size }, DType::Bf16, false, 0)),
        )
        .collect();
    let gpus = gpus(&catalog);
    let mut pairs = 0;
    for device in &gpus {
        for other in gpus.iter().filter(|other| is_no_less(device, other)) {
            pairs += 1;
            let [ours, theirs] = [device, other].map(|device| estimates(&models, &works, device));
            for ((ours, theirs), work) in ours.iter().zip(&theirs).zip(&works) {
                let slack = stated([ours, theirs]);
                assert!(
                    !is_longer(ours, theirs, slack),
                    "{:?}: {ours:?} on {}, {theirs:?} on {}",
                    work.shape,
                    device.id,
                    other.id
                );
            }
        }
    }
    assert!(pairs > 10, "{pairs}");
}

#[test]
fn what_no_gpu_of_amd_was_measured_for_states_the_error_of_traces_of_amd() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    let work = gemm_work(GemmSize { batch: 1, m: 8192, n: 8192, k: 8192 }, DType::Bf16, false, 0);
    for id in ["MI355X", "MI210"] {
        for work in [&work, &attention((32, 8), 64, 1, 8192), &softmax(DType::Fp32, (8192, 1024))] {
            let device = catalog.find(id).unwrap();
            let error = estimates(&models, std::slice::from_ref(work), device)[0].error;
            let of_traces = trace_error(work, true);
            assert!(error >= of_traces, "{id} {:?}: {error}, not {of_traces}", work.family);
        }
    }
    let time = |id| seconds(&models, work.clone(), catalog.find(id).unwrap());
    assert!(time("MI355X") < 0.8 * time("MI300X"), "{} {}", time("MI355X"), time("MI300X"));
}

//! Li 2019, the tables of layers and of 37 models: memory of layers, and intensity, throughput and bound of whole models.
//!
//! What Table 1 calls MB and Table 8 GB are powers of ten; Tables 2 to 4 and 7 print MiB.

use retime_core::analysis::roofline::Load;
use retime_core::graph::DType;

use super::Check;
use super::li::{TABLE_4, V100};

/// Table 1: layer, output shape, ms, MB allocated.
const TABLE_1: [(u32, [u64; 4], f64, f64); 5] = [
    (208, [256, 512, 7, 7], 7.59, 25.7),
    (221, [256, 512, 7, 7], 7.57, 25.7),
    (195, [256, 512, 7, 7], 5.67, 25.7),
    (3, [256, 64, 112, 112], 5.08, 822.1),
    (113, [256, 256, 14, 14], 4.67, 51.4),
];

/// Table 8 by model from 1: batch latency in ms, share on the GPU in percent, GFLOP, GB read and written, FLOP/B, TFLOP/s, whether
/// memory bounds it.
const TABLE_8: [([f64; 5], [f64; 2], bool); 37] = [
    ([400.06, 94.77, 2910.44, 50.64, 38.74], [32.56, 7.68], false),
    ([324.49, 93.92, 2492.92, 27.25, 24.48], [48.19, 8.18], false),
    ([86.39, 88.05, 552.22, 10.54, 8.18], [29.50, 7.26], false),
    ([593.97, 96.32, 3954.06, 58.90, 65.44], [31.80, 6.91], false),
    ([412.37, 94.90, 2725.14, 39.08, 44.62], [32.56, 6.96], false),
    ([517.11, 95.90, 3947.38, 51.17, 54.77], [37.26, 7.96], false),
    ([275.05, 92.43, 1742.39, 24.40, 32.61], [30.62, 6.85], false),
    ([360.90, 94.29, 2720.62, 33.87, 37.12], [38.32, 7.99], false),
    ([591.47, 96.29, 4034.74, 63.70, 72.16], [29.70, 7.08], false),
    ([245.07, 91.74, 1480.10, 21.84, 28.29], [29.52, 6.58], false),
    ([213.52, 90.42, 1477.33, 18.79, 22.76], [35.56, 7.65], false),
    ([257.80, 91.89, 1561.76, 24.86, 33.39], [26.81, 6.59], false),
    ([68.27, 83.62, 363.33, 9.67, 7.32], [21.38, 6.36], false),
    ([40.24, 93.32, 150.02, 10.13, 7.93], [8.30, 4.00], true),
    ([51.57, 79.76, 148.18, 7.08, 6.81], [10.67, 3.60], true),
    ([399.31, 94.98, 2655.39, 24.38, 33.23], [46.10, 7.00], false),
    ([464.47, 95.61, 3207.02, 26.44, 37.65], [50.04, 7.22], false),
    ([51.59, 79.73, 148.18, 6.97, 6.75], [10.80, 3.60], true),
    ([56.08, 80.20, 259.14, 7.63, 6.18], [18.76, 5.76], false),
    ([38.48, 79.55, 108.93, 6.51, 6.19], [8.58, 3.56], true),
    ([53.35, 79.43, 252.06, 7.21, 5.61], [19.67, 5.95], false),
    ([9.08, 80.00, 20.26, 0.73, 0.84], [12.97, 2.79], true),
    ([20.82, 73.14, 45.10, 4.86, 4.11], [5.03, 2.96], true),
    ([14.92, 78.26, 38.17, 3.24, 2.88], [6.23, 3.27], true),
    ([15.69, 72.61, 33.10, 3.52, 3.08], [5.01, 2.91], true),
    ([11.30, 71.86, 23.14, 2.31, 2.17], [5.17, 2.85], true),
    ([9.86, 77.23, 24.39, 1.90, 1.84], [6.54, 3.20], true),
    ([20.00, 71.93, 52.03, 2.99, 2.85], [8.91, 3.62], true),
    ([7.75, 71.35, 14.80, 1.26, 1.35], [5.68, 2.68], true),
    ([15.07, 71.75, 38.22, 2.08, 2.09], [9.17, 3.53], true),
    ([10.91, 71.38, 26.62, 1.29, 1.42], [9.83, 3.42], true),
    ([6.52, 68.69, 15.36, 0.76, 0.51], [12.11, 3.43], true),
    ([7.44, 70.48, 17.05, 0.71, 0.88], [10.73, 3.25], true),
    ([11.95, 53.93, 14.79, 1.25, 1.42], [5.52, 2.30], true),
    ([9.09, 53.68, 10.87, 0.84, 1.02], [5.82, 2.23], true),
    ([25.36, 60.78, 36.75, 3.26, 3.09], [5.79, 2.38], true),
    ([23.71, 70.01, 23.81, 1.87, 2.31], [5.69, 1.43], true),
];

/// Half of the last printed digit of GB.
const HALF_DIGIT_GB: f64 = 0.005;

pub(super) fn checks() -> Vec<Check> {
    let mut rows = layers();
    let loads: Vec<Load> = TABLE_8.iter().map(|(inputs, ..)| load(*inputs)).collect();
    for ((at, (inputs, printed, is_memory)), load) in TABLE_8.iter().enumerate().zip(&loads) {
        rows.extend(model(at + 1, *inputs, *printed, *is_memory, load));
    }
    rows.extend(of_all(&loads));
    rows
}

/// A convolution allocates its output, in fp32; the kernels of Table 4 fit into its latency.
fn layers() -> Vec<Check> {
    let source = "Li 2019 Table 1";
    let mut rows = Vec::new();
    for (layer, shape, latency_ms, megabytes) in TABLE_1 {
        let bytes = shape.iter().product::<u64>() * DType::Fp32.size();
        rows.push(Check::printed(format!("layer {layer}, MB allocated"), source, megabytes, bytes as f64 / 1e6, 1));
        let name = format!("layer {layer}");
        let Some((_, [kernels_ms, ..], ..)) = TABLE_4.iter().find(|(found, ..)| *found == name) else { continue };
        let fits = if *kernels_ms <= latency_ms { "within" } else { "beyond" };
        rows.push(Check::word(format!("{name}: its kernels' {kernels_ms} ms"), "Li 2019 Tables 1, 4", "within", fits));
    }
    rows
}

fn load([latency_ms, on_gpu, gflop, read, written]: [f64; 5]) -> Load {
    let seconds = latency_ms / 1e3 * on_gpu / 100.0;
    Load { flop: gflop * 1e9, bytes: (read + written) * 1e9, network_bytes: 0.0, seconds }
}

fn model(
    number: usize,
    [_, _, _, read, written]: [f64; 5],
    [intensity, throughput]: [f64; 2],
    is_memory: bool,
    load: &Load,
) -> [Check; 3] {
    let source = "Li 2019 Table 8";
    let rounding = 2.0 * HALF_DIGIT_GB / (read + written) + 0.005 / intensity + super::ROUNDED_INPUTS;
    let bound = if is_memory { "memory" } else { "compute" };
    [
        Check::number(format!("model {number}, FLOP/B"), source, intensity, load.intensity(), rounding),
        Check::printed(format!("model {number}, TFLOP/s"), source, throughput, load.throughput().0 / 1e12, 2),
        Check::word(format!("model {number}, bound"), source, bound, load.limit(&V100).name()),
    ]
}

/// What §5.1 says of all models together.
fn of_all(loads: &[Load]) -> [Check; 2] {
    let bounded = loads.iter().filter(|load| load.limit(&V100).name() == "memory").count();
    let fastest = loads.iter().map(|load| load.throughput().0 / V100.peak.0).fold(0.0, f64::max);
    [
        Check::number("models bound by memory, of 37", "Li 2019 §5.1", 20.0, bounded as f64, 0.0)
            .contradicted("Table 8 marks another number, and its intensities agree with the marks"),
        Check::printed("largest share of the peak, %", "Li 2019 §5.1", 52.0, 100.0 * fastest, 0),
    ]
}

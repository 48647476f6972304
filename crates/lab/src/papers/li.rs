//! Li 2019: intensities, throughputs and bounds of kernels, layers and the model; the optimal batch size.
//!
//! What the paper calls MB is MiB: its intensities follow from its own columns only so.

use retime_core::analysis::layers::optimal_batch;
use retime_core::analysis::roofline::{Load, Roofs};
use retime_core::units::{BytesPerSec, DurNs, FlopPerSec};

use super::Check;

const MIB: f64 = 1_048_576.0;

/// System 2, a V100-SXM2.
pub(super) const V100: Roofs = Roofs { peak: FlopPerSec(15.7e12), memory: BytesPerSec(900e9), network: None };

/// A row of Tables 2 to 4: name, ms, GFLOP, MiB read and written, intensity, TFLOP/s, and whether memory bounds it.
pub(super) type Row = (&'static str, [f64; 4], [f64; 2], bool);

const TABLE_2: [Row; 5] = [
    ("cgemm of layer 221", [6.04, 77.42, 40.33, 43.86], [876.97, 12.82], false),
    ("cgemm of layer 208", [6.03, 77.42, 43.93, 43.81], [841.59, 12.83], false),
    ("scudnn 128×128 of layer 195", [5.48, 59.20, 27.71, 8.40], [1563.30, 10.80], false),
    ("scudnn 128×64 of layer 3", [4.91, 62.89, 11.55, 283.05], [203.58, 12.81], false),
    ("scudnn 128×128 of layer 57", [4.56, 59.24, 34.83, 37.64], [779.55, 12.99], false),
];

const TABLE_3: [Row; 5] = [
    ("all scudnn 128×64", [84.95, 1053.63, 4429.64, 5494.22], [101.25, 12.40], false),
    ("all scalar_product_op", [28.43, 2.85, 4181.23, 6371.12], [0.26, 0.10], true),
    ("all scalar_sum_op", [26.38, 2.64, 4063.49, 6052.22], [0.25, 0.10], true),
    ("all scalar_max_op", [24.71, 0.0, 3773.84, 5699.95], [0.0, 0.0], true),
    ("all scudnn 128×128", [23.02, 276.64, 671.68, 335.01], [262.08, 12.02], false),
];

pub(super) const TABLE_4: [Row; 5] = [
    ("layer 208", [7.45, 79.74, 362.67, 548.50], [83.46, 10.70], false),
    ("layer 221", [7.43, 79.74, 368.11, 551.70], [82.68, 10.73], false),
    ("layer 195", [5.55, 59.20, 36.51, 17.99], [1036.10, 10.67], false),
    ("layer 3", [4.91, 62.89, 11.55, 284.21], [202.78, 12.80], false),
    ("layer 113", [4.57, 59.22, 76.65, 21.36], [576.17, 12.94], false),
];

/// Table 5: TFLOP/s, GB/s, ideal intensity.
const TABLE_5: [(&str, [f64; 3]); 5] = [
    ("RTX 6000", [16.3, 624.0, 26.12]),
    ("V100", [15.7, 900.0, 17.44]),
    ("P100", [9.3, 732.0, 12.70]),
    ("P4", [5.5, 192.0, 28.34]),
    ("M60", [4.8, 160.0, 30.12]),
];

/// Table 7: batch, model ms, kernel ms, GFLOP, MiB read and written, and whether memory bounds it.
const TABLE_7: [(u64, [f64; 5], bool); 9] = [
    (1, [6.21, 5.01, 7.94, 192.49, 194.16], false),
    (2, [6.83, 5.93, 16.08, 290.41, 354.54], false),
    (4, [8.51, 7.68, 30.95, 659.11, 720.15], false),
    (8, [12.80, 11.60, 60.66, 1676.07, 1496.81], false),
    (16, [21.90, 20.14, 118.04, 3969.19, 3024.09], true),
    (32, [40.03, 37.14, 232.78, 7711.50, 5823.97], true),
    (64, [74.03, 67.72, 429.08, 10_932.22, 9268.27], false),
    (128, [142.89, 131.79, 873.63, 16_071.32, 16_105.40], false),
    (256, [275.05, 254.25, 1742.39, 23_185.11, 31_095.45], false),
];

pub(super) fn checks() -> Vec<Check> {
    let mut rows = vec![Check::printed("V100 ridge, FLOP/B", "Li 2019 §4.3", 17.44, V100.ridge(), 2)];
    for (table, source) in [(TABLE_2, "Li 2019 Table 2"), (TABLE_3, "Li 2019 Table 3"), (TABLE_4, "Li 2019 Table 4")] {
        rows.extend(table.iter().flat_map(|row| of_table(row, source)));
    }
    rows.extend(ideal_intensities());
    rows.extend(model_rows());
    rows
}

fn load([ms, gflop, read, written]: [f64; 4]) -> Load {
    Load { flop: gflop * 1e9, bytes: (read + written) * MIB, network_bytes: 0.0, seconds: ms / 1e3 }
}

fn of_table(&(name, inputs, [intensity, throughput], is_memory): &Row, source: &str) -> [Check; 3] {
    let load = load(inputs);
    [
        Check::printed(format!("{name}, FLOP/B"), source, intensity, load.intensity(), 2),
        Check::printed(format!("{name}, TFLOP/s"), source, throughput, load.throughput().0 / 1e12, 2),
        bound(name, source, is_memory, &load),
    ]
}

/// Bounded by memory where the intensity is below the ridge (the text of §4.3 says throughput, which has another unit).
fn bound(name: &str, source: &str, is_memory: bool, load: &Load) -> Check {
    let expected = if is_memory { "memory" } else { "compute" };
    Check::word(format!("{name}, bound"), source, expected, load.limit(&V100).name())
}

fn ideal_intensities() -> impl Iterator<Item = Check> {
    TABLE_5.iter().map(|&(name, [tflops, gb_s, ideal])| {
        let roofs = Roofs { peak: FlopPerSec(tflops * 1e12), memory: BytesPerSec(gb_s * 1e9), network: None };
        Check::printed(format!("{name} ideal intensity"), "Li 2019 Table 5", ideal, roofs.ridge(), 2)
            .contradicted(&format!("{tflops} TFLOP/s over {gb_s} GB/s, the row's own inputs, are not {ideal} FLOP/B"))
    })
}

fn model_rows() -> Vec<Check> {
    let source = "Li 2019 Table 7";
    let bounds = TABLE_7.iter().map(|&(batch, [_, kernel, gflop, read, written], is_memory)| {
        bound(&format!("ResNet50 batch {batch}"), source, is_memory, &load([kernel, gflop, read, written]))
    });
    let mut rows: Vec<Check> = bounds.collect();
    let runs: Vec<(u64, DurNs)> =
        TABLE_7.iter().map(|&(batch, [model, ..], _)| (batch, DurNs::from_us_f64(model * 1e3))).collect();
    let most = runs.iter().map(|&(batch, took)| batch as f64 / took.secs()).fold(0.0, f64::max);
    rows.push(Check::printed("ResNet50 largest throughput, /s", "Li 2019 §4.1", 930.7, most, 1));
    let best = optimal_batch(&runs, None).unwrap_or(0);
    rows.push(
        Check::number("ResNet50 optimal batch", "Li 2019 §4.1, Table 7", 256.0, best as f64, 0.0)
            .contradicted("by Table 7 doubling 64 to 128 gains 3.6 %, less than the rule's 5 %"),
    );
    rows
}

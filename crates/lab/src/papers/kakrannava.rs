//! Kakrannava 2024: operation counts, algorithm choice, processing in memory, bounded parallelism.

use retime_core::cost::analytical::sum_us;
use retime_core::cost::conv_algorithm::{algorithm_us, usual_algorithm};
use retime_core::cost::conv_choice::ConvAlgorithm as Algorithm;
use retime_core::cost::operators::{ConvPass, ConvSize, conv_flop, conv_work};
use retime_core::cost::{Family, Shape, Work};
use retime_core::device::{Catalog, DeviceProfile, Precision};
use retime_core::graph::DType;
use retime_core::units::{Bytes, BytesPerSec, Flop, FlopPerSec};

use super::Check;

/// A device of Table II: processing elements, FLOP/s of one, memory bytes/s.
fn platform(catalog: &Catalog, units: u32, unit_rate: f64, memory: f64) -> Option<DeviceProfile> {
    let mut device = DeviceProfile::clone(catalog.find("BLIMP").ok()?);
    device.sm_count = units;
    device.peak = [(Precision::Fp32, FlopPerSec(f64::from(units) * unit_rate))].into();
    device.dram_bandwidth = BytesPerSec(memory);
    device.dram_bandwidth_measured = Some(BytesPerSec(memory));
    Some(device)
}

fn convolution([channels_in, channels_out, in_side, out_side, filter, stride]: [u64; 6]) -> ConvSize {
    ConvSize {
        batch: 1,
        channels_in,
        channels_out,
        in_area: in_side * in_side,
        out_h: out_side,
        out_w: out_side,
        r: filter,
        s: filter,
        stride,
        groups: 1,
    }
}

fn forward(size: &ConvSize, dtype: DType) -> Work {
    conv_work(size, ConvPass::Forward, dtype, false)
}

pub(super) fn checks(catalog: &Catalog) -> Vec<Check> {
    let mut rows = operation_counts();
    rows.extend(choices(catalog).unwrap_or_default());
    rows.extend(in_memory(catalog).unwrap_or_default());
    rows.extend(batch_norm(catalog).unwrap_or_default());
    rows
}

fn operation_counts() -> Vec<Check> {
    let first = convolution([3, 64, 224, 55, 11, 4]);
    let conv = forward(&first, DType::Fp32);
    let relu = Work { flop: Flop(64.0 * 55.0 * 55.0), read: conv.written, family: Family::Elementwise, ..conv.clone() };
    let both = fused(&conv, &relu);
    // Input 3·224², filters 64·3·11², output 64·55², 4 bytes each.
    let ends = 4.0 * (150_528.0 + 23_232.0 + 193_600.0);
    vec![
        Check::number("AlexNet conv1 MACC", "Kakrannava 2024 §IV-B3", 70_276_800.0, conv_flop(&first).0 / 2.0, 0.0),
        Check::number(
            "AlexNet conv1 and ReLU fused, bytes",
            "Kakrannava 2024 §IV-B6",
            ends,
            both.bytes().0 as f64,
            0.0,
        ),
        Check::number(
            "AlexNet conv1 and ReLU fused, FLOP",
            "Kakrannava 2024 §IV-B6",
            2.0 * 70_276_800.0 + 193_600.0,
            both.flop.0,
            0.0,
        ),
    ]
}

fn choices(catalog: &Catalog) -> Option<Vec<Check>> {
    let device = catalog.find("A100-40").ok()?;
    let case = |name: &str, expected: Algorithm, size: [u64; 6], dtype| {
        let got = usual_algorithm(&forward(&convolution(size), dtype), device);
        Check::word(format!("algorithm of {name}"), "Kakrannava 2024 §IV-B2", expected.name(), got.name())
    };
    Some(vec![
        case("a 3×3 convolution", Algorithm::Winograd, [64, 64, 56, 56, 3, 1], DType::Fp32),
        case("a 5×5 convolution", Algorithm::Winograd, [64, 192, 27, 27, 5, 1], DType::Fp32),
        case("3×3 on tensor cores, C % 4 = 0", Algorithm::ImplicitGemm, [64, 64, 56, 56, 3, 1], DType::Fp16),
    ])
}

/// Tables III and IV: two convolutions on 128 elements, products of matrices at 350 kFLOPS, with vectors at 500.
fn in_memory(catalog: &Catalog) -> Option<Vec<Check>> {
    let device = catalog.find("BLIMP").ok()?;
    let kernels = [
        ("K1", [256, 512, 28, 28, 3, 1], [33.057, 28.994, 12.223, 13.389]),
        ("K2", [512, 1024, 7, 7, 3, 1], [10.085, 8.738, 3.734, 4.257]),
    ];
    let source = "Kakrannava 2024 Table IV";
    let mut rows = Vec::new();
    for (name, size, [im2col_measured, im2col_estimate, winograd_measured, winograd_estimate]) in kernels {
        let work = forward(&convolution(size), DType::Fp32);
        let im2col = algorithm_us(&work, Algorithm::Im2col, device)? / 1e6;
        let winograd = algorithm_us(&work, Algorithm::Winograd, device)? / 1e6;
        let first = if winograd < im2col { Algorithm::Winograd } else { Algorithm::Im2col };
        let check = |what: &str, expected, got, tolerance| {
            Check::number(format!("BLIMP {name} {what}"), source, expected, got, tolerance)
        };
        let measured = "an estimate from operation counts against a measurement";
        rows.extend([
            Check::word(format!("BLIMP {name} faster algorithm"), source, Algorithm::Winograd.name(), first.name()),
            check("im2col estimate, s", im2col_estimate, im2col, 0.005).contradicted(
                "128 elements at 500 kFLOPS do the 462 MFLOP of K2 in 7.23 s; the same inputs give K1's estimate",
            ),
            check("im2col against measured, s", im2col_measured, im2col, 0.0).reported(measured),
            check("Winograd estimate, s", winograd_estimate, winograd, 0.05),
            check("Winograd against measured, s", winograd_measured, winograd, 0.0).reported(measured),
        ]);
    }
    Some(rows)
}

/// §VI-C: the first batch norm of ResNet (128×64×112×112) with as many elements in use as there are channels.
fn batch_norm(catalog: &Catalog) -> Option<Vec<Check>> {
    let source = "Kakrannava 2024 §VI-C";
    let devices =
        [("A100", 108, 19.49e12, 1555e9, [0.93, 1.55]), ("Quadro RTX 8000", 72, 16.31e12, 672e9, [1.949, 2.14])];
    let mut rows = Vec::new();
    for (name, units, peak, memory, [free, bounded]) in devices {
        let device = platform(catalog, units, peak / f64::from(units), memory)?;
        let us = |channels| {
            let work = batch_norm_work(channels);
            sum_us(work.flop.0, work.bytes().0 as f64, &work, &device)
        };
        let few = us(64) / 1e3;
        let many = us(64 * 1024) / 1e3;
        let assumed = "bytes and FLOP of the layer are not stated; here each element is read and written once";
        rows.extend([
            Check::number(format!("{name} batch norm, bounded / free"), source, bounded / free, few / many, 0.03),
            Check::number(format!("{name} batch norm, free, ms"), source, free, many, 0.0).reported(assumed),
            Check::number(format!("{name} batch norm, bounded, ms"), source, bounded, few, 0.0).reported(assumed),
        ]);
    }
    Some(rows)
}

/// The one layer that `first` and `second` make when fused: their arithmetic adds up, what is between them never reaches memory.
fn fused(first: &Work, second: &Work) -> Work {
    Work { flop: Flop(first.flop.0 + second.flop.0), written: second.written, ..first.clone() }
}

/// The same elements in `channels` channels.
fn batch_norm_work(channels: u64) -> Work {
    let elements: u64 = 128 * 64 * 112 * 112;
    Work {
        family: Family::Norm,
        flop: Flop(retime_core::cost::operators::rowwise::norm_flop_per_element(false, false) * elements as f64),
        read: Bytes(4 * elements),
        written: Bytes(4 * elements),
        precision: Precision::Fp32,
        shape: Shape::Rows { rows: channels, width: elements / channels },
    }
}

//! Li 2019: networks whose layers are known, predicted on the V100 of the paper's System 2 and characterised by `layers`.

use super::super::Figure;
use super::{Live, Verdict};

/// Name, table of layers, the paper's optimal batch; ms of one image, images per second and percent of convolution (Table 6); ms
/// of a batch, GFLOP, GB read and written (Table 8), and what bounds it.
type Network = (&'static str, &'static str, u32, [f64; 3], [f64; 4], &'static str);

const NETWORKS: [Network; 22] = [
    ("ResNet_v1_152", "li2019/resnet152-v1.csv", 256, [13.7, 541.3, 69.6], [517.11, 3947.38, 51.17, 54.77], "compute"),
    (
        "MLPerf_ResNet50_v1.5",
        "li2019/resnet50-v1.5.csv",
        256,
        [6.22, 930.7, 58.7],
        [275.05, 1742.39, 24.4, 32.61],
        "compute",
    ),
    ("ResNet_v1_101", "li2019/resnet101-v1.csv", 256, [10.01, 774.7, 69.9], [360.9, 2720.62, 33.87, 37.12], "compute"),
    ("ResNet_v1_50", "li2019/resnet50-v1.csv", 256, [6.19, 1284.6, 67.5], [213.52, 1477.33, 18.79, 22.76], "compute"),
    ("VGG16", "vgg16.toml", 256, [21.33, 687.5, 74.7], [399.31, 2655.39, 24.38, 33.23], "compute"),
    ("VGG19", "li2019/vgg19.csv", 256, [22.1, 593.4, 76.7], [464.47, 3207.02, 26.44, 37.65], "compute"),
    (
        "MobileNet_v1_1.0_224",
        "li2019/mobilenet-v1-1.0-224.csv",
        128,
        [3.19, 2580.6, 51.9],
        [51.59, 148.18, 6.97, 6.75],
        "memory",
    ),
    (
        "MobileNet_v1_1.0_192",
        "li2019/mobilenet-v1-1.0-192.csv",
        128,
        [3.11, 3460.8, 52.5],
        [38.48, 108.93, 6.51, 6.19],
        "memory",
    ),
    (
        "MobileNet_v1_0.75_224",
        "li2019/mobilenet-v1-0.75-224.csv",
        64,
        [3.18, 3183.7, 51.1],
        [20.82, 45.1, 4.86, 4.11],
        "memory",
    ),
    (
        "MobileNet_v1_1.0_160",
        "li2019/mobilenet-v1-1.0-160.csv",
        64,
        [3.01, 4240.5, 55.4],
        [14.92, 38.17, 3.24, 2.88],
        "memory",
    ),
    (
        "MobileNet_v1_0.75_192",
        "li2019/mobilenet-v1-0.75-192.csv",
        64,
        [3.05, 4187.8, 51.8],
        [15.69, 33.1, 3.52, 3.08],
        "memory",
    ),
    (
        "MobileNet_v1_0.75_160",
        "li2019/mobilenet-v1-0.75-160.csv",
        64,
        [2.81, 5569.6, 53.1],
        [11.3, 23.14, 2.31, 2.17],
        "memory",
    ),
    (
        "MobileNet_v1_1.0_128",
        "li2019/mobilenet-v1-1.0-128.csv",
        64,
        [2.91, 6743.2, 55.9],
        [9.86, 24.39, 1.9, 1.84],
        "memory",
    ),
    (
        "MobileNet_v1_0.5_224",
        "li2019/mobilenet-v1-0.5-224.csv",
        64,
        [3.55, 3346.5, 63.0],
        [20.0, 52.03, 2.99, 2.85],
        "memory",
    ),
    (
        "MobileNet_v1_0.75_128",
        "li2019/mobilenet-v1-0.75-128.csv",
        64,
        [2.96, 8378.4, 55.7],
        [7.75, 14.8, 1.26, 1.35],
        "memory",
    ),
    (
        "MobileNet_v1_0.5_192",
        "li2019/mobilenet-v1-0.5-192.csv",
        64,
        [3.28, 4453.2, 63.3],
        [15.07, 38.22, 2.08, 2.09],
        "memory",
    ),
    (
        "MobileNet_v1_0.5_160",
        "li2019/mobilenet-v1-0.5-160.csv",
        64,
        [3.22, 6148.7, 63.7],
        [10.91, 26.62, 1.29, 1.42],
        "memory",
    ),
    (
        "MobileNet_v1_0.5_128",
        "li2019/mobilenet-v1-0.5-128.csv",
        64,
        [3.2, 8924.0, 64.1],
        [7.44, 17.05, 0.71, 0.88],
        "memory",
    ),
    (
        "MobileNet_v1_0.25_224",
        "li2019/mobilenet-v1-0.25-224.csv",
        64,
        [3.4, 5257.9, 60.6],
        [11.95, 14.79, 1.25, 1.42],
        "memory",
    ),
    (
        "MobileNet_v1_0.25_192",
        "li2019/mobilenet-v1-0.25-192.csv",
        64,
        [3.26, 7135.7, 61.2],
        [9.09, 10.87, 0.84, 1.02],
        "memory",
    ),
    (
        "MobileNet_v1_0.25_160",
        "li2019/mobilenet-v1-0.25-160.csv",
        256,
        [3.15, 10081.5, 68.4],
        [25.36, 36.75, 3.26, 3.09],
        "memory",
    ),
    (
        "MobileNet_v1_0.25_128",
        "li2019/mobilenet-v1-0.25-128.csv",
        256,
        [3.15, 10707.6, 80.2],
        [23.71, 23.81, 1.87, 2.31],
        "memory",
    ),
];

/// Table 7, MLPerf_ResNet50_v1.5: batch, ms of the model, ms of its kernels, what bounds it.
const TABLE_7: [(u32, f64, f64, &str); 9] = [
    (1, 6.21, 5.01, "compute"),
    (2, 6.83, 5.93, "compute"),
    (4, 8.51, 7.68, "compute"),
    (8, 12.80, 11.60, "compute"),
    (16, 21.90, 20.14, "memory"),
    (32, 40.03, 37.14, "memory"),
    (64, 74.03, 67.72, "compute"),
    (128, 142.89, 131.79, "compute"),
    (256, 275.05, 254.25, "compute"),
];

/// Table 1: layer of the paper, place in the table of layers, MB that it allocates.
const TABLE_1: [(u32, usize, f64); 5] =
    [(208, 155, 25.7), (221, 165, 25.7), (195, 145, 25.7), (3, 0, 822.1), (113, 103, 51.4)];

const RESNET: &str = "sample_traces/li2019/resnet50-v1.5.csv";

const TENSORFLOW: &str = "batch norm and activation run by Eigen, which the paper finds to read and write more than the layers have (§5.2); \
    the table has one layer for each";
const HOST: &str = "host time per operator is PyTorch's; TensorFlow takes less for one image, and nothing printed tells its overheads by operator, \
    which `--overheads FILE` would take";
const ALGORITHM: &str =
    "cuDNN chose Winograd and FFT for most of these convolutions, which a prediction does not; `conv-algorithm` does";
const UNTOLD: &str = "the paper does not say what takes longer for one image than its weights take to be read";
const COUNTED: &str =
    "the paper counts what the chosen algorithm of cuDNN does, fewer or more than the layer has; ours is the layer's";
const SAME: &str = "the same layers; the paper's profiler counts in hardware";
const TRAFFIC: &str = "the paper counts DRAM traffic in hardware; ours is every operand once";
const RULE: &str = "both by the rule of §4.1, ours on the predicted throughputs of batch 1 to 256";
const ALLOCATED: &str = "rounded inputs";

pub(super) fn rows() -> Vec<Live> {
    let mut rows: Vec<Live> = NETWORKS.iter().flat_map(network).collect();
    rows.extend(TABLE_7.iter().enumerate().flat_map(by_batch));
    rows.extend(TABLE_1.iter().map(layer));
    rows
}

/// `command FILE --step "place-on V100" --batch …`.
fn words(command: &str, file: &str, batch: &str) -> Vec<String> {
    [command, file, "--step", "place-on V100", "--batch", batch].map(str::to_owned).to_vec()
}

/// A figure of a network: what, of which table, the paper's, and how to get and judge ours.
type Asked = (&'static str, &'static str, Figure, Vec<String>, &'static str, f64, Verdict);

fn network(network: &Network) -> Vec<Live> {
    let live = |(what, source, expected, arguments, field, unit, verdict): Asked| Live {
        name: format!("{}, {what}", network.0),
        source,
        expected,
        arguments,
        field: field.to_owned(),
        unit,
        before: Vec::new(),
        verdict,
    };
    table_6(network).into_iter().chain(table_8(network)).map(live).collect()
}

fn table_6(&(name, file, batch, [online, throughput, convolution], ..): &Network) -> [Asked; 4] {
    let six = |what, expected, arguments, field, unit, verdict| {
        (what, "Li 2019 Table 6", Figure::Number(expected), arguments, field, unit, verdict)
    };
    let of = |command: &str, batch: &str| words(command, &format!("sample_traces/{file}"), batch);
    let (one, more) = if is_vgg(name) { (UNTOLD, ALGORITHM) } else { (HOST, TENSORFLOW) };
    let (one, more, rule) = (Verdict::Banded(one), Verdict::Reported(more), Verdict::Reported(RULE));
    let convolutions = of("layers", &batch.to_string());
    [
        six("latency of one image, ms", online, of("simulate", "1"), "/simulated_ns", 1e-6, one),
        six("most images per second", throughput, of("layers", "1..256"), "/profiles/0/max_throughput", 1.0, more),
        six("optimal batch", f64::from(batch), of("layers", "1..256"), "/optimal_batch", 1.0, rule),
        six("time in convolutions, %", convolution, convolutions, "/profiles/0/convolution_share", 100.0, more),
    ]
}

fn table_8(&(name, file, batch, _, [latency, gflop, read, written], bound): &Network) -> [Asked; 5] {
    let eight = |what, expected, arguments, field, unit, verdict| {
        (what, "Li 2019 Table 8", expected, arguments, field, unit, verdict)
    };
    let of = |command: &str| words(command, &format!("sample_traces/{file}"), &batch.to_string());
    // Convolutions of many channels, for which cuDNN chose no other algorithm.
    let is_counted_alike = name.starts_with("MobileNet_v1_1.0") || name.starts_with("MobileNet_v1_0.75");
    let flop = if is_counted_alike { Verdict::Within(0.05, SAME) } else { Verdict::Reported(COUNTED) };
    let time = Verdict::Banded(if is_vgg(name) { ALGORITHM } else { TENSORFLOW });
    let (latency, gflop, written) = (Figure::Number(latency), Figure::Number(gflop), Figure::Number(written));
    let traffic = Verdict::Reported(TRAFFIC);
    [
        eight("latency of that batch, ms", latency, of("simulate"), "/simulated_ns", 1e-6, time),
        eight("GFLOP", gflop, of("layers"), "/model/0/flop", 1e-9, flop),
        eight("GB read", Figure::Number(read), of("layers"), "/model/0/read_bytes", 1e-9, traffic),
        eight("GB written", written, of("layers"), "/model/0/written_bytes", 1e-9, traffic),
        eight("bound", Figure::Word(bound.to_owned()), of("layers"), "/model/0/bound", 1.0, Verdict::Within(0.0, SAME)),
    ]
}

fn is_vgg(name: &str) -> bool {
    name.starts_with("VGG")
}

fn by_batch((place, &(batch, latency, kernels, bound)): (usize, &(u32, f64, f64, &'static str))) -> [Live; 3] {
    let of = |what: &str, expected, arguments, field: String, unit, verdict| Live {
        name: format!("MLPerf_ResNet50_v1.5, batch {batch}, {what}"),
        source: "Li 2019 Table 7",
        expected,
        arguments,
        field,
        unit,
        before: Vec::new(),
        verdict,
    };
    let range = words("layers", RESNET, "1..256");
    let simulate = words("simulate", RESNET, &batch.to_string());
    let field = |name: &str| format!("/batch_sizes/{place}/model/{name}");
    [
        of("latency, ms", Figure::Number(latency), simulate, "/simulated_ns".to_owned(), 1e-6, Verdict::Banded(HOST)),
        of(
            "kernels, ms",
            Figure::Number(kernels),
            range.clone(),
            field("latency_ns"),
            1e-6,
            Verdict::Reported(TENSORFLOW),
        ),
        of("bound", Figure::Word(bound.to_owned()), range, field("bound"), 1.0, Verdict::Within(0.0, COUNTED)),
    ]
}

fn layer(&(layer, place, megabytes): &(u32, usize, f64)) -> Live {
    Live {
        name: format!("MLPerf_ResNet50_v1.5, layer {layer}, MB allocated"),
        source: "Li 2019 Table 1",
        expected: Figure::Number(megabytes),
        arguments: words("layers", RESNET, "256"),
        field: format!("/layers/{place}/memory_bytes"),
        unit: 1e-6,
        before: Vec::new(),
        verdict: Verdict::Within(0.005, ALLOCATED),
    }
}

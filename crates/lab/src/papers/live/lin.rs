//! Lin 2022, Fig. 9: DLRM_DDP of Table III, traced on a CPU, placed on the paper's GPUs at its batch sizes. Lin 2024, Table IV: all
//! sharders on a task that is drawn by the paper's rule.

use super::super::Figure;
use super::{Live, Verdict};

/// GPU; by batch 512 to 4096 the measured ms of an iteration and the error in % of the paper's sum of its predicted kernels, both read
/// off the figure.
const FIGURE_9: [(&str, [f64; 4], [f64; 4]); 3] = [
    ("V100", [5.04, 5.26, 5.26, 6.55], [-78.5, -69.7, -52.0, -32.7]),
    ("TITAN-Xp", [5.10, 5.31, 6.61, 10.30], [-69.6, -53.6, -36.5, -25.4]),
    ("P100", [4.52, 4.74, 5.60, 9.50], [-62.1, -44.0, -19.5, -13.2]),
];

const BATCHES: [u32; 4] = [512, 1024, 2048, 4096];

const HOST: &str = "host overheads are means of DLRM on the paper's V100 machine, for its other two machines as well";
const KERNELS: &str = "the paper's own prediction, as read off the figure, of kernels that update looked-up rows as their gradient is made";

pub(super) fn rows() -> Vec<Live> {
    let of_gpus = FIGURE_9.iter().flat_map(of_gpu).chain(PRODUCTS.iter().map(products));
    of_gpus.chain(TABLE_4.iter().flat_map(of_platform)).collect()
}

/// Table IV of 2022, GEMM: fit and GPU, the geometric mean of the paper's errors in %.
const PRODUCTS: [(&str, &str, f64); 5] = [
    ("linear", "V100", 5.80),
    ("linear", "V100-PCIe", 5.80),
    ("batched-gemm", "V100-PCIe", 5.80),
    ("linear", "P100", 7.59),
    ("batched-gemm", "P100", 7.59),
];

fn products(&(family, gpu, expected): &(&str, &str, f64)) -> Live {
    Live {
        name: format!("GEMM on {gpu}, {family}, geometric mean of errors, %"),
        source: "Lin 2022 Table IV",
        expected: Figure::Number(expected),
        arguments: super::arguments(&["validate", "models"]),
        before: Vec::new(),
        field: format!("/rows/check={family} on {gpu}/kernels/gmae"),
        unit: 100.0,
        verdict: Verdict::AtMost("each on its own measurements; ours on those that the fit has not seen"),
    }
}

fn of_gpu(&(gpu, measured, sums): &(&'static str, [f64; 4], [f64; 4])) -> Vec<Live> {
    let cell = |(batch, (measured, error)): (u32, (f64, f64))| {
        let row = |what: &str, expected, field: &str, verdict| Live {
            name: format!("DLRM_DDP on {gpu}, batch {batch}, {what}, ms"),
            source: "Lin 2022 Fig. 9",
            expected: Figure::Number(expected),
            arguments: super::arguments(&[
                "simulate",
                "sample_traces/dlrm-ddp-fused-b256-fp32-cpu.kineto.json.gz",
                "--step",
                &format!("place-on {gpu}"),
                "--batch",
                &batch.to_string(),
            ]),
            field: field.to_owned(),
            unit: 1e-6,
            before: Vec::new(),
            verdict,
        };
        let kernels = measured * (1.0 + error / 100.0);
        let sum = row("kernels", kernels, "/kernel_only_ns", Verdict::Reported(KERNELS));
        [
            row("iteration", measured, "/simulated_ns", Verdict::Banded(HOST)),
            Live { source: "Lin 2022 Fig. 9, kernel_only", ..sum },
        ]
    };
    BATCHES.into_iter().zip(measured.into_iter().zip(sums)).flat_map(cell).collect()
}

/// Device of the four GPUs, platform, and what the paper's tasks take there.
const TABLE_4: [(&str, &str, &str); 2] = [
    (
        "GV100",
        "4xGV100",
        "the paper does not print its tables: with its fastest sharders its ten heavy tasks take 13.1 to 15.4 ms (printed as µs)",
    ),
    (
        "A100-40",
        "4xA100",
        "the paper does not print its tables: with its fastest sharders its ten heavy tasks take 9.2 to 14.5 ms (printed as µs)",
    ),
];

/// The plans of `tables --sharder all` after the one as traced.
const SHARDERS: [&str; 7] =
    ["naive", "random", "size_greedy", "lookup_greedy", "norm_lookup_greedy", "size_lookup_greedy", "best found"];

fn of_platform(&(gpu, platform, why): &(&'static str, &'static str, &'static str)) -> Vec<Live> {
    let folder = format!("target/task-{gpu}");
    let make = ["generate", "--ranks", "4", "--gpu", gpu, "--local-batch", "1024", "--seed", "0", "-o", &folder];
    let plan = |(at, sharder): (usize, &&str)| Live {
        name: format!("a task on {platform}, {sharder}, ms"),
        source: "Lin 2024 Table IV",
        expected: Figure::None,
        arguments: super::arguments(&["tables", &folder, "--sharder", "all"]),
        before: super::arguments(&make),
        field: format!("/plans/{}/simulated_ns", at + 1),
        unit: 1e-6,
        verdict: Verdict::Reported(why),
    };
    SHARDERS.iter().enumerate().map(plan).collect()
}

//! `calibrate` on a table of exactly the columns and families that the microbenchmarks of the capture scripts write, made up: a
//! card that starts a kernel in 3 µs, computes at 100 TFLOP/s and moves 1.5 TB/s, its host link 10 GB/s.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use retime_core::cost::operators::{AttentionSize, attention_work};
use retime_core::cost::{CostModels, Family, Route, Shape, Work};
use retime_core::device::{Catalog, Precision};
use retime_core::graph::DType;
use retime_core::units::{Bytes, Flop};
use retime_fit::{DeviceCalibration, Target, calibrate_device};

const COLUMNS: [&str; 78] = [
    "family",
    "op",
    "pass",
    "dtype",
    "cache",
    "B",
    "M",
    "N",
    "K",
    "trans",
    "E",
    "D",
    "L",
    "T",
    "dist",
    "alpha",
    "grad",
    "distinct",
    "F",
    "C",
    "H",
    "W",
    "R",
    "stride",
    "groups",
    "layout",
    "S",
    "heads",
    "causal",
    "count",
    "numel",
    "perm",
    "pinned",
    "rf0",
    "rf1",
    "rf2",
    "rf3",
    "rf4",
    "rf5",
    "rf6",
    "rf7",
    "rf8",
    "rf9",
    "rf10",
    "rf11",
    "rf12",
    "rf13",
    "rf14",
    "rf15",
    "rf16",
    "ru0",
    "ru1",
    "ru2",
    "ru3",
    "ru4",
    "ru5",
    "ru6",
    "ru7",
    "ru8",
    "ru9",
    "ru10",
    "ru11",
    "ru12",
    "ru13",
    "ru14",
    "ru15",
    "ru16",
    "bytes",
    "flops",
    "time_us_median",
    "time_us_min",
    "time_us_std",
    "span_us",
    "reps",
    "n_kernels",
    "kernel",
    "method",
    "device",
];

/// A table under construction, with a generator of sizes.
struct Bench {
    text: String,
    state: u64,
}

impl Bench {
    fn new() -> Self {
        Self { text: COLUMNS.join(",") + "\n", state: 7 }
    }

    /// A size from `low` to `high`, as likely in every doubling.
    fn size(&mut self, low: u64, high: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let share = (self.state >> 33) as f64 / f64::from(1_u32 << 31);
        ((low as f64).ln() + share * ((high as f64) / (low as f64)).ln()).exp().round() as u64
    }

    /// A row of `family` whose least traffic and arithmetic are `bytes` and `flops`.
    fn row(&mut self, family: &str, op: &str, pass: &str, bytes: u64, flops: f64, cells: &[(&str, String)]) {
        let us = if family == "memcpy" && op != "memcpy_d2d" {
            2.0 + bytes as f64 / 1e4
        } else {
            3.0 + (bytes as f64 / 1.5e6).max(flops / 1e8)
        };
        let mut all = BTreeMap::from([
            ("family", family.to_owned()),
            ("op", op.to_owned()),
            ("pass", pass.to_owned()),
            ("dtype", "fp32".to_owned()),
            ("cache", "cold".to_owned()),
            ("bytes", bytes.to_string()),
            ("flops", flops.to_string()),
            ("time_us_median", format!("{us:.3}")),
            ("n_kernels", "1".to_owned()),
            ("method", "kineto".to_owned()),
            ("device", "Card".to_owned()),
        ]);
        all.extend(cells.iter().cloned());
        let line: Vec<String> = COLUMNS.iter().map(|column| all.get(column).cloned().unwrap_or_default()).collect();
        self.text.push_str(&(line.join(",") + "\n"));
    }
}

fn cell(name: &'static str, value: impl std::fmt::Display) -> (&'static str, String) {
    (name, value.to_string())
}

/// Rows that a whole fit takes, and those that a factor or a curve takes.
const MANY: usize = 84;
const SOME: usize = 24;

fn products(bench: &mut Bench) {
    for dtype in ["fp32", "bf16"] {
        for _ in 0..MANY {
            let (m, n, k) = (bench.size(16, 8192), bench.size(16, 4096), bench.size(16, 4096));
            let (bytes, flops) = (4 * (m * k + k * n + m * n), 2.0 * (m * n * k) as f64);
            let cells = [cell("M", m), cell("N", n), cell("K", k), cell("trans", "nt"), cell("dtype", dtype)];
            bench.row("gemm", "addmm", "fwd", bytes, flops, &cells);
        }
    }
    for index in 0..MANY {
        let (b, c, k, h) = (bench.size(1, 64), bench.size(8, 256), bench.size(8, 256), bench.size(7, 56));
        let (bytes, flops) = (4 * (b * c * h * h + b * k * h * h + k * c * 9), 18.0 * (b * k * h * h * c) as f64);
        let cells = [("B", b), ("C", c), ("H", h), ("W", h), ("K", k), ("R", 3), ("stride", 1), ("groups", 1)];
        let cells = cells.map(|(name, value)| cell(name, value));
        bench.row("conv2d", "conv2d", ["fwd", "dgrad", "wgrad"][index % 3], bytes, flops, &cells);
    }
    for index in 0..MANY + SOME {
        let (b, s) = (bench.size(1, 32), bench.size(64, 4096));
        let (pass, more) = if index < MANY { ("fwd", 1.0) } else { ("bwd", 2.5) };
        let (bytes, flops) = (4 * b * 8 * s * 64 * 2, more * 4.0 * (b * 8 * s * s * 64) as f64);
        let cells =
            [cell("B", b), cell("S", s), cell("heads", 8), cell("D", 64), cell("causal", 0), cell("dtype", "bf16")];
        bench.row("attention", "sdpa", pass, bytes, flops, &cells);
    }
}

fn rowwise(bench: &mut Bench) {
    for (family, rows) in [("layer_norm", MANY), ("softmax", MANY), ("log_softmax", 4), ("reduction", 4), ("loss", 4)] {
        for index in 0..rows {
            let (m, n) = (bench.size(64, 65_536), bench.size(16, 4096));
            let pass = if index % 2 == 0 { "fwd" } else { "bwd" };
            bench.row(family, family, pass, 8 * m * n, (5 * m * n) as f64, &[cell("M", m), cell("N", n)]);
        }
    }
    for _ in 0..4 {
        let (b, c) = (bench.size(2, 64), bench.size(8, 512));
        let cells = [cell("B", b), cell("C", c), cell("H", 16), cell("W", 16)];
        bench.row("batch_norm", "batch_norm", "fwd", 8 * b * c * 256, 5.0, &cells);
        bench.row("pooling", "max_pool2d", "bwd", 5 * b * c * 256, 1.0, &cells);
        bench.row("pooling", "adaptive_avg_pool2d", "fwd", 5 * b * c * 256, 1.0, &cells);
    }
}

fn streams(bench: &mut Bench) {
    for _ in 0..MANY {
        let numel = bench.size(64, 1 << 27);
        bench.row("elementwise", "add", "fwd", 12 * numel, numel as f64, &[cell("numel", numel)]);
    }
    for _ in 0..4 {
        let numel = bench.size(64, 1 << 24);
        bench.row("dropout", "dropout", "fwd", 9 * numel, numel as f64, &[cell("numel", numel)]);
        let list = [cell("count", 4), cell("numel", numel)];
        bench.row("optimizer", "sgd_fused", "fwd", 48 * numel, numel as f64, &list);
        let steps = [cell("count", 4), cell("numel", numel), cell("n_kernels", 12)];
        bench.row("optimizer", "adam_foreach", "fwd", 112 * numel, numel as f64, &steps);
    }
    for index in 0..SOME {
        let (m, n) = (bench.size(64, 16_384), bench.size(16, 1024));
        let (family, op) = [("concat", "cat_dim1"), ("transpose", "permute_copy"), ("broadcast", "add_row")][index % 3];
        bench.row(family, op, "fwd", 8 * m * n, 0.0, &[cell("M", m), cell("N", n)]);
        let (b, f) = (bench.size(16, 16_384), bench.size(3, 64));
        bench.row("tril", "tril_index", "fwd", 4 * b * f * (f - 1), 0.0, &[cell("B", b), cell("F", f)]);
    }
    for op in ["memcpy_h2d", "memcpy_d2h", "memcpy_d2d"] {
        for index in 0..SOME {
            let numel = bench.size(16, 1 << 28);
            let pinned = if op == "memcpy_d2d" { String::new() } else { (index % 2).to_string() };
            let bytes = if op == "memcpy_d2d" { 2 * numel } else { numel };
            bench.row(
                "memcpy",
                op,
                "fwd",
                bytes,
                0.0,
                &[cell("numel", numel), ("pinned", pinned), cell("dtype", "u8")],
            );
        }
    }
}

fn lookups(bench: &mut Bench) {
    for index in 0..4 * SOME {
        let (b, e, l) = (bench.size(64, 8192), bench.size(1000, 4_000_000), bench.size(1, 64));
        let (pass, grad, op) = [
            ("fwd", "", "embedding_bag"),
            ("update", "sparse", "add_sparse"),
            ("bwd", "sparse", "embedding_bag"),
            ("bwd", "dense", "embedding_bag"),
        ][index % 4];
        let mut cells = vec![cell("B", b), cell("E", e), cell("D", 64), cell("L", l), cell("T", 1), cell("grad", grad)];
        cells.extend(COLUMNS.iter().filter(|name| name.starts_with("rf")).map(|name| (*name, "0".to_owned())));
        cells.push(cell("rf0", 1.0));
        let passes = if pass == "fwd" { 1 } else { 3 };
        bench.row("embedding_bag", op, pass, b * l * 256 * passes + b * 256, 0.0, &cells);
    }
    for index in 0..SOME {
        let (b, e) = (bench.size(64, 65_536), bench.size(1000, 100_000));
        let pass = if index % 2 == 0 { "fwd" } else { "bwd" };
        bench.row("embedding", "embedding", pass, b * 512, 0.0, &[cell("B", b), cell("E", e), cell("D", 64)]);
    }
}

fn table() -> String {
    let mut bench = Bench::new();
    products(&mut bench);
    rowwise(&mut bench);
    streams(&mut bench);
    lookups(&mut bench);
    bench.text
}

/// All-reduces of four ranks.
fn collectives() -> String {
    let mut text = "system,nccl_version,device,op_name,nccl_dtype,num_gpus,elements,latency_ms,bytes\n".to_owned();
    for power in 8..28 {
        let bytes = 1_u64 << power;
        let (elements, latency) = (bytes / 2, 0.02 + bytes as f64 / 1e8);
        writeln!(text, "Card,2.20,Card,all_reduce,half,4,{elements},{latency},{bytes}").unwrap();
    }
    text
}

fn calibrated() -> DeviceCalibration {
    let (catalog, models) = (Catalog::builtin().unwrap(), CostModels::builtin().unwrap());
    let target = Target { device: Some("Card"), inherits: Some("A100-80"), is_quick: false, ..Target::default() };
    let files = [("micro.csv".to_owned(), table()), ("nccl.csv".to_owned(), collectives())];
    calibrate_device(&catalog, models.fits(), &files, target).unwrap()
}

#[test]
fn every_family_of_a_microbenchmark_becomes_a_fit_or_is_named() {
    let found = calibrated();
    let families: BTreeSet<&str> = found.families.iter().map(|family| family.family.as_str()).collect();
    assert_eq!(families.len(), 20, "{families:?}");
    let fitted: BTreeSet<&str> = found.report.iter().map(|row| row.domain.as_str()).collect();
    for family in &found.families {
        let is_fitted = fitted.iter().any(|row| row.starts_with(family.fitted_as.as_str()));
        let is_named = !family.is_used || found.unused.iter().any(|text| text.contains(&family.fitted_as));
        assert!(is_fitted || is_named, "{family:?}: {fitted:?} {:?}", found.unused);
    }
    for wanted in ["linear", "gemm16", "conv", "norm", "softmax", "streaming", "attention"] {
        let row = found.report.iter().find(|row| row.domain == wanted);
        assert!(row.is_some_and(|row| row.errors.held_out.n > 0), "{wanted}: {fitted:?}");
    }
    for wanted in
        ["lookup forward", "lookup backward", "strided", "attention gradient", "copies host-to-device, pinned"]
    {
        assert!(fitted.contains(wanted), "{wanted}: {fitted:?} {:?}", found.unused);
    }
    assert_eq!(found.curves.len(), 1, "{:?}", found.unused);

    let files = [("card.toml".to_owned(), found.file().unwrap())];
    let catalog = Catalog::with_files(&files).unwrap();
    let models = CostModels::with_devices(&catalog, &files).unwrap();
    let card = catalog.find("Card").unwrap();
    let us = |work: &Work| models.estimate(work, card).unwrap().duration.0 as f64 / 1e3;
    let copy = Work {
        family: Family::Transfer,
        flop: Flop(0.0),
        read: Bytes(40_000_000),
        written: Bytes(40_000_000),
        precision: Precision::Fp32,
        shape: Shape::Copy { route: Route::HostToDevice, pinned: Some(true) },
    };
    assert!((us(&copy) / 4002.0 - 1.0).abs() < 0.1, "{}", us(&copy));
    let size = AttentionSize { batch: 8, heads: 8, kv_heads: 8, queries: 2048, keys: 2048, dim: 64, causal: false };
    let gradient = us(&attention_work(&size, true, DType::Bf16));
    let wanted = 3.0 + 2.5 * 4.0 * 64.0 * 2048.0 * 2048.0 * 64.0 / 1e8;
    assert!((gradient / wanted - 1.0).abs() < 0.4, "{gradient} {wanted}");
}

//! What precision does to a model, against captures of one H100.

use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use serde_json::Value;

use crate::support::program::{json, retime};

fn simulated(trace: &str, steps: &[&str]) -> Value {
    let trace = crate::support::sample(&format!("h100/{trace}-cuda.kineto.json.gz")).display().to_string();
    let steps: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    json(&[&["simulate", &trace], steps.as_slice()].concat())
}

fn device_ms(of: &Value) -> f64 {
    of["kernel_only_ns"].as_f64().unwrap() / 1e6
}

#[test]
fn products_that_round_to_tf32_take_about_what_was_measured() {
    for (model, within) in [("mlp-b4096", 0.15), ("resnet50-b32", 0.05), ("dlrm-default-b2048", 0.1)] {
        let fp32 = format!("{model}-fp32");
        let predicted = simulated(&fp32, &["mixed-precision tf32"]);
        let measured = device_ms(&simulated(&format!("{model}-tf32"), &[]));
        let error = device_ms(&predicted) / measured - 1.0;
        assert!(error.abs() < within, "{model}: {error:+.3}");
        assert_eq!(predicted["memory_bytes"], simulated(&fp32, &[])["memory_bytes"], "{model}");
        // Twice is once.
        let twice = simulated(&fp32, &["mixed-precision tf32", "mixed-precision tf32"]);
        assert_eq!(twice["simulated_ns"], predicted["simulated_ns"]);
    }
}

#[test]
fn a_model_in_16_bits_is_left_alone() {
    for model in ["gpt2-small-b8-bf16", "mlp-b4096-bf16"] {
        let (before, after) = (simulated(model, &[]), simulated(model, &["mixed-precision bf16"]));
        assert_eq!(before["simulated_ns"], after["simulated_ns"], "{model}");
        let summary = after["steps"][0].to_string();
        assert!(summary.contains("16 bits already"), "{summary}");
    }
}

#[test]
fn products_of_a_type_without_units_are_timed_as_those_of_the_type_that_computes_them() {
    let trace = crate::support::sample("h100/gpt2-small-b8-bf16-cuda.kineto.json.gz").display().to_string();
    let on = |device: &str| {
        let answer =
            json(&["ops", &trace, "--by", "family", "--level", "kernel", "--step", &format!("swap-gpu {device}")]);
        let row = answer["rows"].as_array().unwrap().iter().find(|row| row["label"] == "gemm").unwrap();
        (row["device_ns"].as_f64().unwrap(), row["flop"].as_f64().unwrap())
    };
    // Neither has units for bf16: fp32 was measured on the V100 at up to twice the rate of the P100.
    let ((old, flop), (new, _)) = (on("P100-SXM2"), on("V100"));
    assert!(new < old, "V100 {new} ns, P100 {old} ns");
    assert!(flop / new > 0.6 * 15.7e3, "{} GFLOP/s of the V100's 15 700", flop / new);
}

#[test]
fn rounding_on_a_device_without_units_for_it_changes_nothing() {
    let trace = crate::support::sample("h100/resnet50-b32-fp32-cuda.kineto.json.gz").display().to_string();
    let on = |steps: &[&str]| {
        let steps: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
        let answer = json(&[&["simulate", &trace], steps.as_slice()].concat());
        (answer["steady_ns"].as_i64().unwrap(), device_ms(&answer), answer["steps"].to_string())
    };
    for device in ["P100", "T4", "V100-PCIe"] {
        let swap = format!("swap-gpu {device}");
        let (before, after) = (on(&[&swap]), on(&[&swap, "mixed-precision tf32"]));
        assert_eq!((before.0, before.1), (after.0, after.1), "{device}");
        assert!(after.2.contains("no matrix units for tf32: products gain nothing"), "{}", after.2);
    }
    // The P100 has twice the rate in fp16, by its vector units.
    let (before, after) = (on(&["swap-gpu P100"]), on(&["swap-gpu P100", "mixed-precision fp16"]));
    assert!(after.1 < before.1 && after.2.contains("compute on vector units"), "{}", after.2);
}

/// Device time in ms of the operators whose name contains `named`, after `steps`.
fn operators_ms(model: &str, named: &str, steps: &[&str]) -> f64 {
    let trace = crate::support::sample(&format!("h100/{model}-cuda.kineto.json.gz")).display().to_string();
    let steps: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    let answer = json(&[&["ops", &trace], steps.as_slice()].concat());
    let rows = answer["rows"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["label"].as_str().unwrap().contains(named));
    rows.map(|row| row["device_ns"].as_f64().unwrap()).sum::<f64>() / 1e6
}

#[test]
fn convolutions_and_batch_norms_in_16_bits_take_about_what_other_kernels_of_them_take() {
    // Neither is a fraction of the fp32 kernel: matrix units compute the one by other tiles, and cuDNN leaves the other to the framework.
    for (named, within) in [("convolution", 0.05), ("batch_norm", 0.2)] {
        let predicted = operators_ms("resnet50-b32-fp32", named, &["mixed-precision bf16"]);
        let measured = operators_ms("resnet50-b32-bf16", named, &[]);
        let error = predicted / measured - 1.0;
        assert!(error.abs() < within, "{named}: {error:+.3}");
    }
}

#[test]
fn convolutions_of_a_type_without_units_take_no_longer_than_those_of_the_type_that_computes_them() {
    for device in ["V100", "P100", "T4"] {
        let swapped = format!("swap-gpu {device}");
        let convolutions = |steps: &[&str]| operators_ms("resnet50-b32-fp32", "convolution", steps);
        let (before, after) = (convolutions(&[&swapped]), convolutions(&[&swapped, "mixed-precision bf16"]));
        assert!(after <= before && after > 0.9 * before, "{device}: {before} ms in fp32, {after} in bf16");
    }
}

/// Kernels of a step whose name contains `named`, and what they take in ms, after `steps`.
fn kernels(model: &str, named: &str, steps: &[&str]) -> (f64, f64) {
    let trace = crate::support::sample(&format!("h100/{model}-cuda.kineto.json.gz")).display().to_string();
    let steps: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    let answer = json(&[&["ops", &trace, "--level", "kernel"], steps.as_slice()].concat());
    let rows = answer["rows"].as_array().unwrap().iter();
    let rows: Vec<&Value> = rows.filter(|row| row["label"].as_str().unwrap().contains(named)).collect();
    let sum = |key: &str| rows.iter().map(|row| row[key].as_f64().unwrap()).sum::<f64>();
    (sum("count"), sum("device_ns") / 1e6)
}

#[test]
fn convolutions_on_matrix_units_change_layouts_as_the_library_does() {
    let fp32 = "resnet50-b32-fp32";
    for (edit, model) in [("bf16", "resnet50-b32-bf16"), ("tf32", "resnet50-b32-tf32")] {
        for (added, recorded) in [("to channels last", "nchwToNhwc"), ("to channels first", "nhwcToNchw")] {
            let edited = [format!("mixed-precision {edit}")];
            let edited: Vec<&str> = edited.iter().map(String::as_str).collect();
            let ((new, new_ms), (kept, kept_ms)) = (kernels(fp32, added, &edited), kernels(fp32, recorded, &edited));
            let (count, ms) = kernels(model, recorded, &[]);
            let (number, time) = ((new + kept) / count, (new_ms + kept_ms) / ms);
            assert!((0.9..1.2).contains(&number) && (0.8..1.45).contains(&time), "{edit} {added}: {number} {time}");
        }
        // The transforms of other algorithms are not computed there.
        let edited = format!("mixed-precision {edit}");
        let transforms = |steps: &[&str]| kernels(fp32, "winograd", steps).0 + kernels(fp32, "fft2d", steps).0;
        assert!(transforms(&[]) > 0.0 && transforms(&[&edited]) < 0.5);
    }
    // In either type the first convolution is asked for no gradient of the images.
    let twice = kernels(fp32, "change layout", &["mixed-precision tf32", "mixed-precision bf16"]);
    assert!((twice.0 - kernels(fp32, "change layout", &["mixed-precision bf16"]).0).abs() < 0.5);
    // Where they computed on matrix units, the library has chosen: on another GPU nothing is added.
    let moved = ["swap-gpu A100-80"];
    assert!(kernels("resnet50-b32-tf32", "change layout", &moved).0 < 0.5);
    // Nor is anything left of it on one without matrix units.
    let there = ["mixed-precision bf16", "swap-gpu P100"];
    assert!(kernels(fp32, "change layout", &there).0 < 0.5);
    let (one, other) = (["swap-gpu A100-80", "mixed-precision bf16"], ["mixed-precision bf16", "swap-gpu A100-80"]);
    assert_eq!(simulated(fp32, &one)["kernel_only_ns"], simulated(fp32, &other)["kernel_only_ns"]);
}

#[test]
fn a_model_in_channels_last_changes_no_layout() {
    let bytes = std::fs::read(crate::support::sample("h100/resnet50-b32-fp32-cuda.kineto.json.gz")).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(bytes.as_slice()), &mut text).unwrap();
    let engine = crate::support::engine();
    let changes = |text: &str| {
        let loaded = engine.load_bytes(text.as_bytes(), "trace.json", &BuildOptions::default()).unwrap();
        let scenario = Scenario::parse(["mixed-precision bf16"]).unwrap();
        let outcome = engine.evaluate(&loaded, &scenario, 0);
        outcome.resolved.reports.iter().any(|report| report.summary.contains("layout change"))
    };
    let last = text.replace("max_pool_forward_nchw", "max_pool_forward_nhwc");
    assert!(last != text && changes(&text) && !changes(&last));
}

#[test]
fn advice_combines_what_gains_nothing_while_the_host_decides() {
    let trace = crate::support::sample("h100/bert-base-b16-fp32-cuda.kineto.json.gz").display().to_string();
    let advice = json(&["advise", &trace, "--target", "-60%"]);
    assert_eq!(advice["goal"]["is_reached"], true, "{}", advice["goal"]);
    let options = advice["options"].as_array().unwrap();
    let alone = ["mixed-precision bf16", "swap-gpu GB200"].map(|step| Value::from(vec![step]));
    assert!(!options.iter().any(|option| alone.contains(&option["steps"])), "they gain nothing alone");
    for wanted in ["mixed-precision bf16", "swap-gpu"] {
        let has = |option: &&Value| option["steps"].to_string().contains(wanted);
        let best = options.iter().filter(has).filter_map(|option| option["gain"].as_f64()).fold(0.0, f64::max);
        assert!(best > 0.6, "{wanted}: {best}");
    }
}

/// The last weight has as many rows as the batch samples: its cast, and that of its gradient, are of no activation.
#[test]
fn casts_of_weights_do_not_grow_with_the_batch() {
    let trace = crate::support::sample("h200/mlp-b1024-bf16-cuda.kineto.json.gz").display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv").display().to_string();
    let output = retime().args(["export", &trace, "--batch", "16384", "-o", &path]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let rows = std::fs::read_to_string(path).unwrap();
    let is_cast = |row: &&str| row.contains(",kernel,") && row.contains(",aten::copy_,");
    let grown = rows.lines().filter(is_cast).filter(|row| row.contains(",anchored,"));
    // Of two steps: the input, a gradient of the loss and the output of the model.
    assert_eq!(grown.count(), 6, "{rows}");
}

/// Updates of embeddings copy a table onto itself, which PyTorch leaves alone.
#[test]
fn a_copy_of_a_tensor_onto_itself_takes_nothing() {
    let of =
        |name: &str| crate::support::sample(&format!("h100/dlrm-mlperf-b512-fp32-cuda.{name}")).display().to_string();
    let placed = json(&["simulate", &of("et.json.gz"), "--step", "place-on H100-SXM"]);
    let recorded = json(&["simulate", &of("kineto.json.gz")]);
    let ratio = device_ms(&placed) / device_ms(&recorded);
    assert!((0.75..1.33).contains(&ratio), "{ratio}");
}

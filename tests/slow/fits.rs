//! Errors that predictions state, against the traces that they were measured on.

use std::path::Path;
use std::process::Command;

use retime_core::cost::trace_error::stated_errors;
use serde_json::Value;

use crate::support::shared;

/// The traces that the stated errors are of.
const TRACES: [&str; 24] = [
    "b200-eager",
    "bert-small-h100-mi300",
    "dlrm-v100x8",
    "flux-256-mi300",
    "hip-graph-piecewise-mi300",
    "linear-2080ti-et",
    "nccl-meta-a100x2-rank0",
    "norm-layers-mi300",
    "nsfw-vit-h100-mi300",
    "qwen05b-h100",
    "recsys-a100x8-rank3",
    "resnet-2080ti-et",
    "resnet50-v100-dataloader",
    "sdpa-mi300",
    "timesformer-h100",
    "tiny-mi250",
    "tiny-torch-compile-mi300",
    "tiny-triton-a100",
    "torchrec-v100x4",
    "torchrec-v100x4-straggler",
    "vgg13-h100-train",
    "weird-gpu-only-mi210",
    "weird-graph-decode-mi300",
    "weird-ns-resolution",
];

/// The captures of an H100 among the samples that they are of, too: one for each model and type of numbers.
const CAPTURES: [&str; 16] = [
    "bert-base-b16-bf16",
    "bert-base-b16-fp32",
    "dlrm-ddp-b1024-fp32",
    "dlrm-ddp-fused-b2048-fp32",
    "dlrm-default-b1024-fp32",
    "dlrm-default-b2048-bf16",
    "dlrm-default-b2048-tf32",
    "dlrm-mlperf-b2048-fp32",
    "gpt2-small-b8-bf16",
    "gpt2-small-b8-fp32",
    "gpt2-small-b8-tf32",
    "mlp-b4096-bf16",
    "mlp-b4096-fp32",
    "resnet50-b32-fp32",
    "resnet50-b32-tf32",
    "resnet50-channelslast1-b32-bf16",
];

#[test]
fn predictions_state_the_errors_that_traces_have() {
    let Some(mut paths) = TRACES.into_iter().map(shared).collect::<Option<Vec<_>>>() else { return };
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces/h100");
    paths.extend(CAPTURES.map(|id| samples.join(format!("{id}-cuda.kineto.json.gz"))));
    let mut command = Command::new(env!("CARGO_BIN_EXE_retime"));
    let output = command.args(["validate", "models", "--json"]).args(paths).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = answer["traced"]["errors"].as_array().unwrap();
    let count = |row: &Value, field: &str| row[field].as_u64().unwrap() as usize;
    let again: Vec<_> = found
        .iter()
        .map(|row| {
            (row["of"].as_str().unwrap(), row["is_amd"].as_bool().unwrap(), count(row, "n"), count(row, "traces"))
        })
        .collect();
    let stated: Vec<_> = stated_errors().iter().map(|row| (row.of, row.is_amd, row.n, row.traces)).collect();
    assert_eq!(stated, again);
    for (stated, row) in stated_errors().iter().zip(found) {
        assert!((stated.error - row["error"].as_f64().unwrap()).abs() < 0.001, "{stated:?} {row}");
    }
    let coverage = |field: &str| answer["traced"]["coverage"][field].as_f64().unwrap();
    assert!((0.6..0.9).contains(&coverage("inside")) && (0.6..0.76).contains(&coverage("by_trace")), "{answer}");
}

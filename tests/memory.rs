//! Memory of the bundled captures: parameters as their manifest counts them, and what each kind of edit does to it.
#![expect(clippy::unwrap_used, reason = "a trace that cannot be opened should fail its test")]

use std::path::Path;

use retime::graph::BuildOptions;
use retime::scenario::Scenario;
use retime::scenario::memory::MemorySource;
use retime::session::{Engine, Loaded, MemorySummary};
use retime::trace::OpenOptions;

struct Opened(Engine, Loaded);

impl Opened {
    fn of(files: &[&str]) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample_traces");
        let files: Vec<_> = files.iter().map(|file| folder.join(file)).collect();
        let engine = Engine::builtin().unwrap();
        let loaded = engine.load(&files, &OpenOptions::default(), &BuildOptions::default()).unwrap();
        Self(engine, loaded.into_iter().next().unwrap())
    }

    fn mlp() -> Self {
        Self::of(&["mlp-b256-fp32-cpu.kineto.json.gz", "mlp-b256-fp32-cpu.et.json.gz"])
    }

    fn under(&self, lines: &[&str]) -> MemorySummary {
        let scenario = Scenario::parse(lines.iter().copied()).unwrap();
        self.0.evaluate(&self.1, &scenario, 1).summary.memory.unwrap()
    }
}

/// Weights and biases of 1024 → 2048 → 2048 → 1024, in single precision.
const MLP: u64 = 4 * (1024 * 2048 + 2048 + 2048 * 2048 + 2048 + 2048 * 1024 + 1024);

#[test]
fn the_execution_trace_tells_parameters_gradients_and_activations() {
    let memory = Opened::mlp().under(&[]);
    assert_eq!(memory.source, MemorySource::Tensors);
    // Biases look as large as what they are added to, and are not.
    assert!(memory.kinds.parameters.0.abs_diff(MLP) < 1024, "{:?}", memory.kinds);
    // At the peak the last bias has no gradient yet.
    assert_eq!(memory.kinds.gradients.0, MLP - 4 * 2048, "plain SGD has one gradient per parameter");
    assert_eq!(memory.kinds.optimizer.0, 0);
    let parts: u64 = memory.kinds.each().iter().map(|(_, bytes)| bytes.0).sum();
    assert_eq!(parts, memory.peak_bytes.0);
}

#[test]
fn another_batch_changes_what_comes_and_goes_and_no_parameter() {
    let mlp = Opened::mlp();
    let (before, after) = (mlp.under(&[]), mlp.under(&["resize-batch 4096"]));
    assert_eq!(after.kinds.parameters, before.kinds.parameters);
    assert!(after.peak_bytes.0 > before.peak_bytes.0 + 15 * 4 * 256 * 2048, "{before:?} {after:?}");
    assert_eq!(mlp.under(&["resize-batch 256"]), before, "the same batch is no change");
}

#[test]
fn batches_between_updates_hold_their_gradients_all_the_time() {
    let mlp = Opened::mlp();
    let large = mlp.under(&["resize-batch 4096"]);
    let both = mlp.under(&["resize-batch 4096", "accumulate 4"]);
    assert_eq!(both.kinds.gradients.0, MLP);
    assert!(both.peak_bytes > large.peak_bytes, "{large:?} {both:?}");
}

#[test]
fn narrow_types_hold_less_and_recomputing_all_at_once_no_less() {
    let mlp = Opened::mlp();
    let large = mlp.under(&["resize-batch 16384"]);
    let recomputed = mlp.under(&["resize-batch 16384", "checkpoint phase=forward"]);
    assert_eq!(recomputed.kinds, large.kinds, "all of it comes back before the backward pass begins");
    let narrow = mlp.under(&["resize-batch 16384", "mixed-precision bf16"]);
    assert!(narrow.peak_bytes.0 < large.peak_bytes.0 * 3 / 4, "{large:?} {narrow:?}");
    assert_eq!(narrow.kinds.parameters, large.kinds.parameters, "single-precision weights stay beside narrow ones");
}

#[test]
fn a_table_takes_its_weights_along() {
    let both = ["r0", "r1"]
        .map(|rank| ["kineto", "et"].map(|kind| format!("dlrm-ddp-b128-fp32-cpu-ws2-{rank}.{kind}.json.gz")));
    let files: Vec<&str> = both.iter().flatten().map(String::as_str).collect();
    let job = Opened::of(&files);
    let of = |memory: &MemorySummary, rank: usize| memory.ranks[rank].kinds.parameters.0 as i64;
    let (before, after) = (job.under(&[]), job.under(&["reshard-tables t0:r1"]));
    let table = 80_000 * 128 * 4;
    assert_eq!(of(&before, 0) - of(&after, 0), table);
    assert_eq!(of(&after, 1) - of(&before, 1), table);
}

#[test]
fn more_data_parallel_ranks_keep_whole_copies_and_say_so() {
    let both = ["r0", "r1"].map(|rank| format!("dlrm-ddp-b128-fp32-cpu-ws2-{rank}.kineto.json.gz"));
    let job = Opened::of(&both.iter().map(String::as_str).collect::<Vec<_>>());
    let outcome = |lines: &[&str]| {
        let scenario = Scenario::parse(lines.iter().copied()).unwrap();
        job.0.evaluate(&job.1, &scenario, 1)
    };
    let (before, after) = (outcome(&[]), outcome(&["scale-ranks 64"]));
    let of = |outcome: &retime::session::Outcome| outcome.summary.memory.clone().unwrap().ranks;
    assert_eq!(of(&after), of(&before));
    let said = &after.steps[0];
    assert!(said.summary.contains("DDP") || !said.unhandled.is_empty(), "{said:?}");
}

//! Memory of the bundled captures: parameters as their manifest counts them, and what each kind of edit does to it.

use std::path::PathBuf;
use std::sync::Arc;

use retime::session::{Engine, Loaded, MemorySummary};
use retime_core::engine::Summary;
use retime_core::graph::BuildOptions;
use retime_core::memory::MemorySource;
use retime_core::scenario::Scenario;

use crate::support::jobs::loaded;
use crate::support::recording::Recording;
use crate::support::{engine, samples, shared};

struct Opened(Arc<Engine>, &'static Loaded);

impl Opened {
    fn of(files: &[&str]) -> Self {
        let folder = samples();
        Self::at(&files.iter().map(|file| folder.join(file)).collect::<Vec<_>>())
    }

    fn at(files: &[PathBuf]) -> Self {
        Self(engine(), loaded(files))
    }

    fn mlp() -> Self {
        Self::of(&["mlp-b256-fp32-cpu.kineto.json.gz", "mlp-b256-fp32-cpu.et.json.gz"])
    }

    fn under(&self, lines: &[&str]) -> MemorySummary {
        let scenario = Scenario::parse(lines.iter().copied()).unwrap();
        self.0.evaluate(self.1, &scenario, 1).summary.memory.unwrap()
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
    assert_eq!(memory.kinds.gradients.0, MLP, "plain SGD has one gradient per parameter");
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
fn narrow_types_hold_less() {
    let mlp = Opened::mlp();
    let large = mlp.under(&["resize-batch 16384"]);
    let narrow = mlp.under(&["resize-batch 16384", "mixed-precision bf16"]);
    assert!(narrow.peak_bytes.0 < large.peak_bytes.0 * 3 / 4, "{large:?} {narrow:?}");
    assert_eq!(narrow.kinds.parameters, large.kinds.parameters, "single-precision weights stay beside narrow ones");
}

#[test]
fn narrow_types_hold_as_much_less_at_every_batch_in_either_order() {
    for (trace, batch) in [("h200/mlp-b4096-fp32-cuda", 4096), ("h100/bert-base-b16-fp32-cuda", 16)] {
        let opened = Opened::of(&[&format!("{trace}.kineto.json.gz")]);
        let resized = |batch: u32| format!("resize-batch {batch}");
        let narrow = opened.under(&["mixed-precision bf16"]);
        for lines in [["mixed-precision bf16", &resized(batch)], [&resized(batch), "mixed-precision bf16"]] {
            assert_eq!(opened.under(&lines), narrow, "{trace}: the traced batch is no change");
        }
        let doubled = [2 * batch, 3 * batch].map(|batch| opened.under(&["mixed-precision bf16", &resized(batch)]));
        let of = |memory: &MemorySummary| memory.peak_bytes.0 as i64;
        let added = [of(&doubled[0]) - of(&narrow), of(&doubled[1]) - of(&doubled[0])];
        assert!((added[0] - added[1]).abs() < added[1] / 100, "{trace}: {added:?}");
        let reversed = opened.under(&[&resized(2 * batch), "mixed-precision bf16"]);
        assert_eq!(reversed, doubled[0], "{trace}");
    }
}

#[test]
fn a_recomputed_part_holds_its_end_and_all_at_once_no_less_than_before() {
    let mlp = Opened::mlp();
    let large = mlp.under(&["resize-batch 16384"]);
    let held = |line: &str| mlp.under(&["resize-batch 16384", line]);
    let recomputed = held("checkpoint phase=forward segments=1");
    assert_eq!(recomputed.kinds, large.kinds, "all of it comes back before the backward pass begins");
    // linear relu linear | relu linear loss: the result of the first relu goes, where the second linear ends stays.
    let half = held("checkpoint phase=forward segments=2");
    let less = |of: fn(&MemorySummary) -> u64| of(&large) as i64 - of(&half) as i64;
    assert_eq!(less(|memory| memory.kinds.activations.0), 4 * 16384 * 2048, "{large:?} {half:?}");
    // Its peak is now later, where more gradients are there.
    let gradients = less(|memory| memory.kinds.gradients.0);
    assert_eq!(less(|memory| memory.peak_bytes.0), 4 * 16384 * 2048 + gradients, "{large:?} {half:?}");
}

#[test]
fn recomputed_parts_of_real_models_hold_less_at_their_peak() {
    // A forward pass's results are there when the backward pass begins; later gradients take their place.
    for (files, most) in [
        ("vgg13-h100-train", 0.93),
        ("resnet50-v100-dataloader/workers0.pt.trace.json.gz", 0.6),
        ("cpu-captured/bert-tiny-b4-fp32-cpu.kineto.json.gz", 0.8),
        ("cpu-captured/gpt2-tiny-b4-fp32-cpu.kineto.json.gz", 0.81),
    ] {
        let Some(path) = shared(files) else { continue };
        let opened = Opened::at(&[path]);
        let peak = |lines: &[&str]| opened.under(lines).peak_bytes.0 as f64;
        let share = peak(&["checkpoint phase=forward"]) / peak(&[]);
        assert!(share < most, "{files}: {share}");
        assert!((peak(&["checkpoint phase=forward segments=1"]) / peak(&[]) - 1.0).abs() < 1e-9, "{files}");
    }
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
        job.0.evaluate(job.1, &scenario, 1)
    };
    let (before, after) = (outcome(&[]), outcome(&["scale-ranks 64"]));
    let of = |outcome: &retime::session::Outcome| outcome.summary.memory.clone().unwrap().ranks;
    assert_eq!(of(&after), of(&before));
    let said = &after.steps[0];
    assert!(said.summary.contains("DDP") || !said.unhandled.is_empty(), "{said:?}");
}

#[test]
fn gradients_of_looked_up_rows_follow_the_batch_in_both_directions() {
    let of = |batch: u32| Opened::of(&[&format!("h100/dlrm-ddp-b{batch}-fp32-cuda.kineto.json.gz")]);
    let (small, large) = (of(256), of(4096));
    assert_eq!(small.under(&["resize-batch 4096"]).kinds, large.under(&[]).kinds);
    let back = large.under(&["resize-batch 256"]);
    assert_eq!(back.kinds.gradients, small.under(&[]).kinds.gradients);
    assert_eq!(back.peak_bytes, small.under(&[]).peak_bytes);
}

/// The peak in MiB of three steps of 1 ms with such calls of the allocator in each: when in µs, device, bytes and total in MiB, address.
fn peak_of(calls: &[(u32, u32, i64, i64, u32)], copies: usize) -> i64 {
    let devices = [("NVIDIA H100 80GB HBM3", 80), ("NVIDIA H100 80GB HBM3", 80)];
    (of_devices(devices, calls, copies).memory_bytes.unwrap().0 >> 20) as i64
}

/// The figures of such a trace on devices of such names and GiB; each step is written as often as said, its calls one after another.
fn of_devices(devices: [(&str, u64); 2], calls: &[(u32, u32, i64, i64, u32)], copies: usize) -> Summary {
    opened_of_devices(devices, calls, copies).replay.summary.clone()
}

/// Such a trace, opened.
fn opened_of_devices(devices: [(&str, u64); 2], calls: &[(u32, u32, i64, i64, u32)], copies: usize) -> Loaded {
    let mut events = Vec::new();
    for step in 0..3 {
        let at = 1_000 * step;
        let host = |category: &str, name: &str, ts: u32, dur: u32, args: &str| {
            format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
            )
        };
        events.push(host("user_annotation", &format!("ProfilerStep#{step}"), at, 1_000, ""));
        events.push(host("cpu_op", "aten::mm", at + 10, 900, ""));
        events.push(host("cuda_runtime", "cudaLaunchKernel", at + 20, 5, &format!(r#""correlation":{}"#, step + 1)));
        let kernel = format!(r#""correlation":{},"stream":7,"device":0"#, step + 1);
        events.push(host("kernel", "gemm", at + 30, 700, &kernel).replace(r#""tid":1"#, r#""tid":7"#));
        for (ts, device, bytes, total, address) in calls.iter().cycle().take(copies * calls.len()) {
            let args = format!(
                r#""Device Type":1,"Device Id":{device},"Addr":{address},"Bytes":{},"Total Allocated":{},"Total Reserved":0"#,
                bytes << 20,
                total << 20
            );
            events.push(format!(
                r#"{{"ph":"i","name":"[memory]","cat":"cpu_instant_event","pid":1,"tid":1,"ts":{},"s":"t","args":{{{args}}}}}"#,
                at + ts
            ));
        }
    }
    let devices = devices
        .iter()
        .enumerate()
        .map(|(id, (name, gib))| format!(r#"{{"id":{id},"name":"{name}","totalGlobalMem":{}}}"#, gib << 30));
    let devices = devices.collect::<Vec<_>>().join(",");
    let text = format!(r#"{{"deviceProperties":[{devices}],"traceEvents":[{}]}}"#, events.join(","));
    engine().load_bytes(text.as_bytes(), "memory.json", &BuildOptions::default()).unwrap()
}

#[test]
fn recorded_memory_is_that_of_the_fullest_device_and_of_the_allocators_own_totals() {
    let plain = [(100, 0, 100, 300, 1), (200, 0, 50, 350, 2), (500, 0, -100, 250, 1), (600, 0, -50, 200, 2)];
    assert_eq!((peak_of(&plain, 1), peak_of(&plain, 2)), (350, 350), "written twice, called once");
    let other = [&plain[..], &[(300, 1, 70, 9_000, 9), (700, 1, -70, 8_930, 9)]].concat();
    assert_eq!(peak_of(&other, 1), 9_000);
    let jump = [(100, 0, 100, 300, 1), (200, 0, 50, 7_000, 2), (500, 0, -100, 6_900, 1), (600, 0, -50, 200, 2)];
    assert_eq!(peak_of(&jump, 1), 7_000, "others were given, and not recorded");
}

#[test]
fn calls_of_one_instant_that_stand_twice_in_the_file_count_once() {
    let together = [(100, 0, 400, 500, 1), (100, 0, 100, 600, 2), (500, 0, -400, 200, 1), (500, 0, -100, 100, 2)];
    assert_eq!((peak_of(&together, 1), peak_of(&together, 2)), (600, 600));
    let again = [(100, 0, 400, 500, 1), (100, 0, -400, 100, 1), (100, 0, 400, 500, 1), (500, 0, -400, 100, 1)];
    assert_eq!(peak_of(&again, 1), 500, "given back between");
}

#[test]
fn memory_of_a_process_on_two_unlike_devices_is_held_against_the_device_that_it_is_of() {
    let gib = |own: i64, other: i64| {
        let calls = [(100, 0, own << 10, own << 10, 1), (200, 1, other << 10, other << 10, 2)];
        let back = [(500, 0, -own << 10, 0, 1), (600, 1, -other << 10, 0, 2)];
        let devices = [("Tesla V100-SXM2-16GB", 16), ("NVIDIA A100-SXM4-80GB", 80)];
        let summary = of_devices(devices, &[calls, back].concat(), 1);
        (
            summary.memory_bytes.unwrap().0 >> 30,
            summary.memory.as_ref().unwrap().device_bytes.unwrap().0 >> 30,
            summary.fits,
        )
    };
    assert_eq!(gib(1, 30), (30, 80, Some(true)));
    assert_eq!(gib(12, 20), (12, 16, Some(true)), "the fuller for its memory");
    assert_eq!(gib(1, 79), (79, 80, Some(false)));
}

#[test]
fn calls_that_stand_twice_a_little_later_count_once() {
    let shifted = [(10, 0, 100, 300, 1), (11, 0, 100, 300, 1), (300, 0, -100, 200, 1), (301, 0, -100, 200, 1)];
    assert_eq!(peak_of(&shifted, 1), 300, "the totals do not change with the copies");
}

#[test]
fn what_goes_back_twice_was_given_between_and_totals_say_how_much_is_there() {
    assert_eq!(peak_of(&[(200, 0, -100, 200, 1), (400, 0, -50, 150, 2)], 1), 300, "before the first of each step");
}

#[test]
fn allocations_beyond_the_device_are_left_out_and_it_is_said() {
    let devices = [("NVIDIA H100 80GB HBM3", 80); 2];
    let calls = [(100, 0, 200 << 10, 200 << 10, 1), (500, 0, -200 << 10, 0, 1)];
    for own in [&calls[..], &[&calls[..], &[(200, 0, 100, 300, 2), (300, 0, -100, 200, 2)]].concat()] {
        let loaded = opened_of_devices(devices, own, 1);
        let told =
            loaded.diagnostics().sorted().into_iter().find(|found| found.code == "allocations-left-out").cloned();
        assert!(told.unwrap().message.contains("3 of them, of up to 200"));
        let memory = loaded.replay.summary.memory.clone();
        assert!(memory.is_none_or(|memory| !memory.missing.is_empty()));
        assert_ne!(loaded.replay.summary.fits, Some(true));
    }
}

#[test]
fn what_a_fused_cast_is_given_is_held_as_long_as_others_need_it() {
    let opened = Opened::of(&["h200/gpt2-small-b8-fp32-cuda.kineto.json.gz"]);
    let (fuse, bf16) = ("fuse family=elementwise", "mixed-precision bf16");
    let (first, second) = (opened.under(&[fuse, bf16]), opened.under(&[bf16, fuse]));
    assert_eq!(first.peak_bytes, second.peak_bytes);
}

#[test]
fn what_was_recorded_to_run_again_is_not_kept_from_the_first_time() {
    let peak = |trace: &str| Opened::of(&[trace]).under(&[]).peak_bytes.0 as f64;
    let kept = peak("h200/gpt2-small-b8-fp32-cuda.kineto.json.gz");
    let again = peak("h200/gpt2-small-checkpoint1-b8-fp32-cuda.kineto.json.gz");
    // The allocator held 8.07 and 4.36 GB at most.
    assert!((0.4..0.75).contains(&(again / kept)), "{again} of {kept}");
}

/// Twelve layers in two parts, each of which runs again right before its backward pass where `again` says so, so many times in a step.
fn activations(batches: u64, again: bool) -> u64 {
    const SAMPLES: u64 = 65_536;
    const WIDTH: u64 = 64;
    let part =
        |step: &mut Recording, thread: u64, kept: bool| [0, 1].map(|_| step.forward(SAMPLES, WIDTH, thread, kept));
    let recording = Recording::of_steps(3, |step| {
        for _ in 0..batches {
            let parts = [0, 1].map(|_| part(step, 1, true));
            for first in parts.into_iter().rev() {
                if again {
                    let name = "autograd::engine::evaluate_function: MmBackward0";
                    step.event("cpu_op", name, 2, (0, 400), &serde_json::json!({}));
                    part(step, 2, false);
                    step.at += 60;
                }
                first.into_iter().rev().for_each(|first| step.backward(first, SAMPLES, WIDTH));
            }
        }
        step.update("Adam", WIDTH);
    });
    recording.loaded().replay.summary.memory.as_ref().unwrap().kinds.activations.0
}

#[test]
fn a_part_that_runs_again_is_one_of_the_forward_pass_before_it() {
    let kept = activations(1, false);
    for batches in [1, 2] {
        let again = activations(batches, true);
        assert!(again * 10 < kept * 7, "{batches} batches: {again} of {kept}");
    }
}

#[test]
fn gradients_of_the_step_before_go_as_those_of_this_one_come() {
    let Some(path) = shared("vgg13-h100-train/profiler_vgg13-iter41.json.gz") else { return };
    let memory = Opened::at(&[path]).under(&["resize-batch 1"]);
    // The optimizer runs at the peak, with a gradient of each of 133 million parameters.
    assert_eq!(memory.kinds.gradients.0 >> 20, 506, "{memory:?}");
}

#[test]
fn gradients_that_are_set_to_zero_stay() {
    let Some(path) = shared("resnet50-v100-dataloader/workers0.pt.trace.json.gz") else { return };
    let opened = Opened::at(&[path]);
    for lines in [&[][..], &["resize-batch 1"]] {
        let kinds = opened.under(lines).kinds;
        let share = kinds.gradients.0 as f64 / kinds.parameters.0 as f64;
        assert!((0.99..1.01).contains(&share), "{lines:?}: {kinds:?}");
    }
}

/// What rank `rank` of a job holds of `kind` after `steps`, in bytes.
fn held(trace: &str, steps: &[&str], (rank, kind): (usize, &str)) -> f64 {
    let steps: Vec<&str> = steps.iter().flat_map(|step| ["--step", step]).collect();
    let answer = crate::support::program::json(&[&["simulate", trace], steps.as_slice()].concat());
    answer["memory"]["ranks"][rank]["kinds"][kind].as_f64().unwrap()
}

#[test]
fn state_of_an_optimizer_goes_with_the_table_that_it_is_of() {
    let trace = crate::support::sample("public/dlrm-v100x8").display().to_string();
    for (rank, sign) in [(0, -1.0), (1, 1.0)] {
        let change = |kind| held(&trace, &["reshard-tables t0:r1"], (rank, kind)) - held(&trace, &[], (rank, kind));
        let (parameters, state) = (change("parameters"), change("optimizer"));
        assert!(sign * parameters > 8e8 && (state / parameters - 1.0).abs() < 0.01, "{rank}: {parameters} {state}");
    }
}

#[test]
fn a_job_without_updates_keeps_no_state_of_them() {
    let trace = crate::support::sample("h100/bert-base-b16-bf16-cuda.kineto.json.gz").display().to_string();
    let state = |steps: &[&str]| held(&trace, steps, (0, "optimizer"));
    assert!(state(&[]) > 8e8 && state(&["remove phase=optimizer"]) < 1.0);
}

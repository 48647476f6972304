//! `place-on DEVICE` on what was never measured on a device: layer tables, execution traces, placed runs and CPU runs.

use assert_cmd::Command;
use retime::session::{Engine, Loaded, Outcome};
use retime_core::analysis::replay::ReplayStatus;
use retime_core::cost::{Provenance, Shape};
use retime_core::graph::TaskKind;
use retime_core::scenario::Scenario;

use crate::support::jobs::loaded;
use crate::support::{engine, sample};

const NETWORK: &str = "alexnet.toml";
const UNTIMED: &str = "mlp-b256-fp32-cpu.et.json.gz";
const ON_HOST: &str = "mlp-b256-fp32-cpu.kineto.json.gz";
const PLACED: &str = "dlrm-ddp-b256-on-v100.predicted.json.gz";

fn open(name: &str) -> &'static Loaded {
    loaded(&[sample(name)])
}

fn with(engine: &Engine, loaded: &Loaded, lines: &[&str]) -> Outcome {
    engine.evaluate(loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0)
}

/// What the models say of all device work, one after another, in ns.
fn sum_of_models(engine: &Engine, outcome: &Outcome, device: &str) -> i64 {
    let device = engine.catalog.find(device).unwrap();
    let resolved = &outcome.resolved;
    let traced =
        resolved.graph.tasks.node_indices().filter(|&node| resolved.graph.tasks[node].kind == TaskKind::Kernel);
    let priced = |work| engine.models.estimate(work, device).map(|estimate| estimate.duration.0);
    traced.filter_map(|node| priced(resolved.works.work(node)?)).sum()
}

#[test]
fn the_absolute_model_of_any_device_speaks_where_nothing_was_measured() {
    let engine = engine();
    for device in ["Xeon-Gold-6230", "Xeon-E5-2680-v3", "BLIMP"] {
        let outcome = with(&engine, open(NETWORK), &[&format!("place-on {device}")]);
        let sum = sum_of_models(&engine, &outcome, device);
        let ratio = outcome.summary.simulated_ns.0 as f64 / sum as f64;
        assert!((1.0..1.01).contains(&ratio), "{device}: {} for {sum}", outcome.summary.simulated_ns);
        assert_eq!(outcome.summary.replay_status, ReplayStatus::Predicted, "{device}");
        assert!(!outcome.steps[0].is_impossible);
    }
}

#[test]
fn untimed_and_measured_runs_of_one_model_agree_on_a_cpu() {
    let engine = engine();
    let on = |name| with(&engine, open(name), &["place-on Xeon-Gold-6230"]).summary.simulated_ns.0 as f64;
    let ratio = on(UNTIMED) / on(ON_HOST);
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}

#[test]
fn a_device_is_the_last_one_that_a_scenario_names() {
    let engine = engine();
    let base = open(NETWORK);
    let once = with(&engine, base, &["place-on A100"]).summary.simulated_ns;
    for other in ["BLIMP", "Xeon-Gold-6230", "H100"] {
        let twice = with(&engine, base, &[&format!("place-on {other}"), "place-on A100"]).summary.simulated_ns;
        assert_eq!(twice, once, "{other} first");
    }
    let again = with(&engine, base, &["place-on BLIMP", "place-on V100"]).summary.simulated_ns;
    assert_eq!(again, base.replay.summary.simulated_ns);
}

#[test]
fn later_edits_are_priced_on_the_device_that_was_chosen() {
    let engine = engine();
    let base = open(ON_HOST);
    let at = |lines: &[&str]| with(&engine, base, lines).summary.simulated_ns.0 as f64;
    let (small, large) = (at(&["place-on Xeon-Gold-6230"]), at(&["place-on Xeon-Gold-6230", "resize-batch 512"]));
    let first = at(&["resize-batch 512", "place-on Xeon-Gold-6230"]);
    assert!((1.7..2.1).contains(&(large / small)), "{small} {large}");
    assert!((first / large - 1.0).abs() < 1e-6, "{first} {large}");
}

#[test]
fn other_edits_stand_before_or_behind_the_placing() {
    let engine = engine();
    let edits = [
        "fuse-optimizer",
        "fuse-embedding-bags",
        "fuse family=elementwise",
        "mixed-precision bf16",
        "scale-device dram_bw x2",
        "prefetch-input",
        "overheads mean",
    ];
    let mut moved = 0;
    for base in [open(ON_HOST), open("dlrm-ddp-fused-b256-fp32-cpu.kineto.json.gz")] {
        let placed = with(&engine, base, &["place-on V100"]).summary.simulated_ns;
        for edit in edits {
            let [first, second] = [[edit, "place-on V100"], ["place-on V100", edit]];
            let (before, behind) = (with(&engine, base, &first), with(&engine, base, &second));
            assert_eq!(before.summary.simulated_ns, behind.summary.simulated_ns, "{edit}");
            let left_out = |outcome: &Outcome| {
                outcome
                    .steps
                    .iter()
                    .flat_map(|step| &step.effects)
                    .any(|effect| effect.text.contains("dependencies left out"))
            };
            assert!(!left_out(&before), "{edit}");
            moved += usize::from(before.summary.simulated_ns != placed);
        }
    }
    assert!(moved > edits.len(), "{moved} edits have an effect");
}

#[test]
fn what_was_placed_and_then_moved_takes_what_is_placed_there_at_once() {
    let engine = engine();
    let base = open("dlrm-ddp-fused-b256-fp32-cpu.kineto.json.gz");
    let at_once = with(&engine, base, &["place-on H100-SXM"]).summary.device_time;
    for first in ["MI300X", "B200"] {
        let moved = with(&engine, base, &[&format!("place-on {first}"), "swap-gpu H100-SXM"]).summary.device_time;
        assert_eq!(moved, at_once, "{first} first");
    }
}

#[test]
fn the_former_name_is_read_and_written_as_the_new_one() {
    let step = retime_core::scenario::parse_step("place-on-gpu V100").unwrap();
    assert_eq!(step.to_string(), "place-on V100");
}

#[test]
fn a_placed_run_moves_by_the_models_and_not_from_its_predicted_times() {
    let engine = engine();
    let outcome = with(&engine, open(PLACED), &["place-on H100"]);
    assert!(!outcome.steps[0].is_impossible, "{:?}", outcome.steps[0].effects);
    let changed = outcome
        .resolved
        .changes
        .iter()
        .filter(|(node, _)| outcome.resolved.graph.tasks[*node].kind == TaskKind::Kernel);
    let anchored = changed.filter(|(_, prediction)| prediction.provenance == Provenance::Anchored).count();
    assert_eq!(anchored, 0);
    assert!(outcome.summary.kernel_only_ns < open(PLACED).replay.summary.kernel_only_ns);
}

#[test]
fn an_edit_that_cannot_be_done_ends_with_status_1_and_one_with_nothing_to_do_with_0() {
    let run = |name: &str, step: &str| {
        let mut command = Command::cargo_bin("retime").unwrap();
        let done = command.args(["simulate", &sample(name).display().to_string(), "--step", step]).output().unwrap();
        (done.status.code().unwrap(), String::from_utf8(done.stderr).unwrap(), done.stdout.is_empty())
    };
    let (status, said, is_silent) = run(ON_HOST, "swap-gpu A100");
    assert!(status == 1 && said.contains("place-on") && is_silent, "{status} {said}");
    let (status, said, _) = run("public/vgg13-train-h100.json.gz", "place-on A100");
    assert!(status == 1 && said.contains("swap-gpu"), "{status} {said}");
    assert_eq!(run(ON_HOST, "remove name=nothing").0, 0);
}

/// Time in seconds of a sample table of layers after `steps`, by the command.
fn seconds(table: &str, steps: &[&str]) -> f64 {
    let mut command = Command::cargo_bin("retime").unwrap();
    let command = command.args(["simulate", "--json"]).args(steps.iter().flat_map(|step| ["--step", step]));
    let assert = command.arg(format!("sample_traces/{table}.toml")).assert().success();
    let answer: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    answer["simulated_ns"].as_f64().unwrap() / 1e9
}

#[test]
fn convolutions_on_blimp_take_what_their_paper_estimates_for_each_algorithm() {
    // Kakrannava 2024, Table IV. Of K2 by im2col the paper prints 8.738 s; its own inputs give 462 MFLOP at 64 MFLOP/s.
    for (table, im2col, winograd) in [("kakrannava-k1", 28.994, 13.389), ("kakrannava-k2", 7.225, 4.257)] {
        let by = |algorithm: &str| seconds(table, &["place-on BLIMP", &format!("conv-algorithm {algorithm}")]);
        for (algorithm, expected) in [("im2col", im2col), ("winograd", winograd), ("best", winograd)] {
            let got = by(algorithm);
            assert!((got / expected - 1.0).abs() < 0.05, "{table} {algorithm}: {got} s for {expected}");
        }
        assert!((by("im2col") - seconds(table, &["place-on BLIMP"])).abs() < 1e-12);
        let first = seconds(table, &["conv-algorithm winograd", "place-on BLIMP"]);
        assert!((first / by("winograd") - 1.0).abs() < 1e-6, "whatever the order: {first}");
    }
}

#[test]
fn advice_offers_the_best_algorithm_where_the_models_know_a_faster_one() {
    let gain = |table: &str, device: &str| {
        let mut command = Command::cargo_bin("retime").unwrap();
        let table = format!("sample_traces/{table}.toml");
        let command = command.args(["advise", "--json", &table, "--step", &format!("place-on {device}")]);
        let answer: serde_json::Value =
            serde_json::from_slice(&command.assert().success().get_output().stdout).unwrap();
        let options = answer["options"].as_array().unwrap();
        let alone = options.iter().find(|option| option["steps"] == serde_json::json!(["conv-algorithm best"]));
        alone.map(|option| (option["gain"].as_f64().unwrap(), option["section"].as_str().unwrap().to_owned()))
    };
    // Kakrannava 2024, Table IV: 28.994 s by im2col, 13.389 s by Winograd.
    let (saved, section) = gain("kakrannava-k1", "BLIMP").unwrap();
    assert!((saved - (1.0 - 13.389 / 28.994)).abs() < 0.02 && section == "code", "{saved} {section}");
    assert_eq!(gain("kakrannava-k1", "V100"), None, "Winograd is what the library takes");
    let said = Command::cargo_bin("retime")
        .unwrap()
        .args(["simulate", "sample_traces/alexnet.toml"])
        .args(["--step", "place-on BLIMP", "--step", "conv-algorithm best"])
        .assert()
        .success();
    let said = String::from_utf8(said.get_output().stdout.clone()).unwrap();
    assert!(said.contains("(256 to 256 channels by 3×3, output 13×13) ×1: im2col → winograd"), "{said}");
}

#[test]
fn a_table_chooses_an_algorithm_by_layer_and_what_does_not_apply_keeps_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("layer.csv");
    let on = |algorithm: &str, step: &str| {
        let row = format!("type,input,filters,kernel,padding,algorithm\nconv,1x64x56x56,64,3,1,{algorithm}\n");
        std::fs::write(&table, row).unwrap();
        let mut command = Command::cargo_bin("retime").unwrap();
        let command = command.args(["simulate", "--json", "--step", "place-on Xeon-Gold-6230", "--step", step]);
        let answer: serde_json::Value =
            serde_json::from_slice(&command.arg(&table).assert().success().get_output().stdout).unwrap();
        answer["simulated_ns"].as_i64().unwrap()
    };
    let nothing = "scale name=nothing x1";
    for name in ["direct", "implicit-gemm", "im2col", "winograd", "fft", "best"] {
        assert_eq!(on(name, nothing), on("", &format!("conv-algorithm {name}")), "{name}");
        assert_eq!(on(name, nothing), on("fft", &format!("conv-algorithm {name}")), "{name} in place of another");
    }
    assert!(on("winograd", nothing) < on("direct", nothing));
    // AlexNet's first convolution has stride 4: it stays, the others follow.
    let (all, none) = ("conv-algorithm winograd", "conv-algorithm winograd name=nothing");
    let of = |step| seconds("alexnet", &["place-on BLIMP", step]);
    assert!(of(all) < of(none));
}

#[test]
fn a_generated_job_goes_through_every_sharder() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job").display().to_string();
    let run = |arguments: &[&str]| {
        let done = Command::cargo_bin("retime").unwrap().args(arguments).assert().success();
        serde_json::from_slice::<serde_json::Value>(&done.get_output().stdout).unwrap()
    };
    let made = run(&["generate", "--ranks", "4", "--seed", "1", "-o", &job, "--json"]);
    let answer = run(&["tables", &job, "--sharder", "all", "--json"]);
    assert_eq!(made["tables"], answer["tables"].as_array().unwrap().len());
    let time = |name: &str| {
        let plans = answer["plans"].as_array().unwrap();
        plans.iter().find(|plan| plan["sharder"] == name).unwrap()["simulated_ns"].as_i64().unwrap()
    };
    assert!(time("best") <= time("lookup_greedy") && time("lookup_greedy") < time("norm_lookup_greedy"));
}

/// What an outcome says of its copies to the device: how many, their bytes, and the updates of rows of a table: their bytes.
fn copied_and_updated(outcome: &Outcome) -> (usize, u64, u64) {
    let added = &outcome.resolved.added;
    let works = added.iter().filter_map(|added| Some((added, added.work.as_ref()?)));
    let copies: Vec<u64> = works
        .clone()
        .filter(|(added, _)| added.kind == TaskKind::Memcpy && added.name.contains("HtoD"))
        .map(|(_, work)| work.written.0)
        .collect();
    let rows = |shape: &Shape| matches!(shape, Shape::Embedding { pooling, backward: true, .. } if (*pooling - 1.0).abs() < 1e-9);
    let updates = works.filter(|(_, work)| rows(&work.shape)).map(|(_, work)| work.read.0 + work.written.0).sum();
    (copies.len(), copies.iter().sum(), updates)
}

#[test]
fn what_a_step_is_given_is_copied_to_a_gpu_and_grows_with_the_batch_as_updates_of_tables_do() {
    let engine = engine();
    let base = open("dlrm-ddp-fused-b256-fp32-cpu.kineto.json.gz");
    let (count, bytes, updated) = copied_and_updated(&with(&engine, base, &["place-on V100"]));
    // Two steps. The dense input, indices and offsets of 8 tables in one look-up, and the target.
    assert_eq!(count, 2 * 4);
    let of_step = |batch: u64| batch * (128 * 4 + 8 * 10 * 8 + 8 * 8 + 4);
    assert_eq!(bytes, 2 * of_step(256));
    assert!(updated > 0);
    for lines in [["place-on V100", "resize-batch 2048"], ["resize-batch 2048", "place-on V100"]] {
        let (count, bytes, larger) = copied_and_updated(&with(&engine, base, &lines));
        assert_eq!((count, bytes), (2 * 4, 2 * of_step(2048)), "{lines:?}");
        assert_eq!(larger, 8 * updated, "{lines:?}");
    }
    let on_host = copied_and_updated(&with(&engine, base, &["place-on Xeon-Gold-6230"]));
    assert_eq!(on_host.0, 0, "nothing is copied to where it is");
}

#[test]
fn a_network_written_at_a_batch_and_resized_to_it_holds_as_much() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(sample(NETWORK)).unwrap();
    let path = folder.path().join("written.toml");
    std::fs::write(&path, text.replace("input = [1,", "input = [64,")).unwrap();
    let engine = engine();
    let written = with(&engine, loaded(&[path]), &["place-on V100"]).summary;
    let resized = with(&engine, open(NETWORK), &["place-on V100", "resize-batch 64"]).summary;
    assert_eq!(written.simulated_ns, resized.simulated_ns);
    assert_eq!(written.memory_bytes, resized.memory_bytes);
}

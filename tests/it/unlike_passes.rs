//! Passes of a step that are unlike: on batches of other sizes, without a backward pass, recomputed, of other parts of a model, or without an
//! update. Parameters follow from no batch, and samples are those that are trained on.

use retime_core::engine::Loaded;
use retime_core::graph::{Operands, OperatorId};
use retime_core::memory::KindBytes;
use retime_core::scenario::Scenario;
use serde_json::json;

use crate::support::recording::{Recording, job, text_of};
use crate::support::{engine, program};

fn mebibytes(kinds: &KindBytes) -> [u64; 3] {
    [kinds.parameters, kinds.gradients, kinds.optimizer].map(|bytes| bytes.0 >> 20)
}

/// Parameters, gradients and the optimizer's state in MiB, with a step of a scenario.
fn states(loaded: &Loaded, steps: &[&str]) -> [u64; 3] {
    let outcome = engine().evaluate(loaded, &Scenario::parse(steps.iter().copied()).unwrap(), 0);
    mebibytes(&outcome.summary.memory.unwrap().kinds)
}

fn samples(loaded: &Loaded) -> f64 {
    loaded.replay.summary.samples()
}

#[test]
fn what_a_step_is_evaluated_on_is_no_batch_of_its_training_and_grows_with_it() {
    for evaluated in [16, 100, 256] {
        for is_first in [false, true] {
            let loaded = Recording::of_steps(3, |step| {
                if is_first {
                    step.forward(evaluated, 1024, 1, false);
                }
                step.train(64, 1024);
                step.update("Adam", 1024);
                if !is_first {
                    step.forward(evaluated, 1024, 1, false);
                }
            })
            .loaded();
            let which = format!("{evaluated} {is_first}");
            assert_eq!((loaded.graph.batch_size, samples(&loaded)), (Some(64), 64.0), "{which}");
            for batch in [32, 64, 128, 255, 512, 1024] {
                let states = states(&loaded, &[&format!("resize-batch {batch}")]);
                assert_eq!((states[0], states[2]), (12, 24), "{which} at {batch}");
            }
            assert_eq!(loaded.diagnostics().count("evaluation-passes"), 1, "{which}");
        }
    }
    let alike = Recording::of_steps(3, |step| {
        step.train(64, 1024);
        step.update("Adam", 1024);
        step.forward(64, 1024, 1, false);
    });
    assert_eq!(alike.loaded().diagnostics().count("evaluation-passes"), 0);
}

#[test]
fn batches_of_unlike_size_count_theirs_where_forward_passes_are_recomputed_or_the_last_is_the_first_back() {
    let recomputed = Recording::of_steps(3, |step| {
        for samples in [64, 32] {
            step.forward(samples, 1024, 1, false);
            let first = step.forward(samples, 1024, 2, true);
            step.backward(first, samples, 1024);
        }
        step.update("Adam", 1024);
    });
    let last_first = Recording::of_steps(3, |step| {
        let passes = [64, 32].map(|samples| (step.forward(samples, 1024, 1, true), samples));
        passes.into_iter().rev().for_each(|(first, samples)| step.backward(first, samples, 1024));
        step.update("Adam", 1024);
    });
    for recording in [recomputed, last_first] {
        let loaded = recording.loaded();
        assert_eq!((samples(&loaded), loaded.replay.summary.repeats), (96.0, 2));
        assert_eq!(loaded.diagnostics().count("unlike-batches"), 1);
        assert_eq!(states(&loaded, &[]), [12, 12, 24]);
    }
}

#[test]
fn gradients_that_several_losses_add_to_are_as_large_as_their_parameters() {
    let loaded = Recording::of_steps(3, |step| {
        step.train(64, 512);
        step.train(64, 512);
        step.update("Adam", 512);
        let (generator, judge) = (step.forward(64, 1024, 1, true), step.forward(64, 512, 1, true));
        step.backward(judge, 64, 512);
        step.backward(generator, 64, 1024);
        step.update("Adam", 1024);
    })
    .loaded();
    assert_eq!(states(&loaded, &[]), [15, 15, 30]);
}

#[test]
fn optimizers_of_unlike_kinds_keep_the_state_of_their_own_parameters() {
    let of = |wide: &str, narrow: &str| {
        let recording = Recording::of_steps(3, |step| {
            step.train(64, 1024);
            step.train(64, 512);
            step.update(wide, 1024);
            step.update(narrow, 512);
        });
        states(&recording.loaded(), &[])[2]
    };
    assert_eq!([of("Adam", "Adam"), of("Adam", "SGD"), of("SGD", "Adam"), of("SGD", "SGD")], [30, 24, 6, 0]);
}

#[test]
fn an_update_in_another_step_of_the_file_is_one() {
    let turns = |updates: &[bool]| {
        let mut recording = Recording { at: 1_000, ..Recording::default() };
        for &updates in updates {
            recording.step(|step| {
                step.train(64, 1024);
                if updates {
                    step.update("Adam", 1024);
                }
            });
        }
        recording.loaded()
    };
    let cut = turns(&[false, false, false, true, false]);
    let memory = cut.replay.summary.memory.clone().unwrap();
    assert_eq!(mebibytes(&memory.kinds), [12, 12, 24]);
    assert!(memory.unknown.iter().all(|what| !what.contains("no update was recorded")), "{:?}", memory.unknown);
    let turn: Vec<bool> = (0..17).map(|step| step == 16).collect();
    let whole = turns(&turn.repeat(3));
    assert_eq!((samples(&whole), whole.diagnostics().count("update-elsewhere")), (17.0 * 64.0, 0));
    assert_eq!(states(&whole, &[]), [12, 12, 24]);
}

/// A rank of two that runs a collective of that name between its passes.
fn rank(samples: u64, width: u64, collective: Option<&str>) -> Recording {
    Recording::of_steps(3, |step| {
        let first = step.forward(samples, width, 1, true);
        if let Some(name) = collective {
            step.launches += 1;
            let args = json!({"correlation": step.launches, "device": 0, "stream": 20, "Collective name": name,
                "In msg nelems": 65_536, "Out msg nelems": 65_536, "Group size": 2, "dtype": "Float",
                "Process Group Name": "0", "Process Group Ranks": "[0, 1]"});
            step.event("cuda_runtime", "cudaLaunchKernel", 1, (0, 5), &args);
            step.event("kernel", "ncclDevKernel_SendRecv", 20, (20, 30), &args);
            step.at += 60;
        }
        step.backward(first, samples, width);
        step.update("Adam", width);
    })
}

#[test]
fn stages_of_a_pipeline_and_ranks_of_unlike_parameters_are_no_copies() {
    let told = |loaded: &Loaded, code| loaded.diagnostics().count(code);
    let stages = job(&[rank(64, 1024, Some("send")), rank(64, 1024, Some("recv"))]);
    assert_eq!((stages.replay.summary.replicas, told(&stages, "pipeline-stages")), (1, 1));
    let unlike = job(&[rank(64, 1024, None), rank(64, 512, None)]);
    assert_eq!((unlike.replay.summary.replicas, told(&unlike, "unlike-parameters")), (1, 1));
    let alike = job(&[rank(64, 1024, None), rank(64, 1024, None)]);
    assert_eq!((alike.replay.summary.replicas, told(&alike, "unlike-parameters")), (2, 0));
}

/// A collective of the ranks `group` that moves so many numbers.
fn collective(step: &mut Recording, (name, kernel): (&str, &str), thread: u64, numbers: u64, group: &[u64]) {
    step.launches += 1;
    let args = json!({"correlation": step.launches, "device": 0, "stream": 20, "Collective name": name,
        "In msg nelems": numbers, "Out msg nelems": numbers, "Group size": group.len(), "dtype": "Float",
        "Process Group Name": format!("{group:?}"), "Process Group Ranks": format!("{group:?}")});
    step.event("cuda_runtime", "cudaLaunchKernel", thread, (0, 5), &args);
    step.event("kernel", kernel, 20, (20, 30), &args);
    step.at += 60;
}

/// A stage of a pipeline whose gradients `copies` add up and whose step has a number that `all` do.
fn stage(rank: u64, width: u64, pair: &[u64], copies: &[u64], all: &[u64]) -> Recording {
    let reduce = ("allreduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    Recording::of_steps(3, |step| {
        let first = step.forward(64, width, 1, true);
        let name = if rank == pair[0] { "send" } else { "recv" };
        collective(step, (name, "ncclDevKernel_SendRecv"), 1, 65_536, pair);
        step.backward(first, 64, width);
        if copies.len() > 1 {
            collective(step, reduce, 2, 3 * width * width, copies);
        }
        collective(step, reduce, 1, 1, all);
        step.update("Adam", width);
    })
}

#[test]
fn a_number_that_all_stages_add_up_makes_no_copies_of_them() {
    let told = |loaded: &Loaded| (loaded.replay.summary.replicas, loaded.diagnostics().count("pipeline-stages"));
    let two = job(&[stage(0, 1024, &[0, 1], &[0], &[0, 1]), stage(1, 512, &[0, 1], &[1], &[0, 1])]);
    assert_eq!(told(&two), (1, 1));
    let all = [0, 1, 2, 3];
    let four = job(&[
        stage(0, 1024, &[0, 2], &[0, 1], &all),
        stage(1, 1024, &[1, 3], &[0, 1], &all),
        stage(2, 512, &[0, 2], &[2, 3], &all),
        stage(3, 512, &[1, 3], &[2, 3], &all),
    ]);
    assert_eq!(told(&four), (2, 1));
    // Ranks that share out a sequence send parts of it and add up all gradients: copies, as far as is told.
    let both = [0, 1];
    let ring = both.map(|rank| stage(rank, 1024, &both, &both, &both));
    assert_eq!(told(&job(&ring)), (2, 0));
    // One rank of four is loaded.
    let one = job(&[stage(0, 1024, &[0, 2], &[0, 1], &all)]);
    assert_eq!(told(&one), (2, 1));
}

#[test]
fn layers_of_a_rank_are_of_its_own_samples() {
    let folder = tempfile::tempdir().unwrap();
    for (number, samples) in [(0, 64), (1, 32)] {
        std::fs::write(
            folder.path().join(format!("rank{number}.json")),
            text_of(&rank(samples, 1024, None), number, 2),
        )
        .unwrap();
    }
    let path = folder.path().to_str().unwrap();
    let of = |steps: &[&str]| program::json(&[&["layers", path], steps].concat())["batch_sizes"][0]["samples"].as_f64();
    assert_eq!((of(&[]), of(&["--step", "accumulate 2", "--device", "A100"])), (Some(64.0), Some(128.0)));
}

#[test]
fn models_that_are_updated_one_after_the_other_have_each_its_own_batch() {
    let of = |first: u64, second: u64| {
        Recording::of_steps(3, |step| {
            step.train(first, 512);
            step.update("Adam", 512);
            step.train(second, 1024);
            step.update("Adam", 1024);
        })
        .loaded()
    };
    let unlike = of(64, 16);
    assert_eq!((unlike.graph.batch_size, samples(&unlike), unlike.replay.summary.repeats), (Some(64), 80.0, 1));
    assert_eq!(unlike.diagnostics().count("unlike-batches"), 1);
    let scenario = Scenario::parse(["resize-batch 128"]).unwrap();
    let resized = engine().evaluate(&unlike, &scenario, 0);
    let reports = &resized.resolved.reports;
    assert!((resized.summary.samples() - 160.0).abs() < 1e-9, "{} {reports:?}", resized.summary.samples());
    let graph = &unlike.graph;
    let layers = (0..).map(OperatorId).zip(&graph.operators);
    let layers = layers.filter(|(_, operator)| graph.names.get(operator.name) == "aten::linear");
    let rows = |operands: &Operands| operands.dims(0).unwrap()[0];
    let mut found: Vec<(u64, u64)> = layers
        .map(|(id, operator)| {
            let then = &graph.operands[operator.operands.unwrap().0 as usize];
            (rows(then), rows(resized.resolved.works.operands(graph, id).unwrap()))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [(16, 32), (64, 128)]);
    let alike = of(64, 64);
    assert_eq!((samples(&alike), alike.diagnostics().count("unlike-batches")), (64.0, 0));
}

//! Models that run beside the one that a step trains: references, rewards, teachers. Their samples are no batch of it; what feeds it is.

use retime_core::engine::Loaded;
use serde_json::json;

use crate::support::recording::Recording;

const WIDTH: u64 = 512;

/// The batch and the samples of an iteration.
fn batch(loaded: &Loaded) -> (Option<u64>, f64) {
    (loaded.graph.batch_size, loaded.replay.summary.samples())
}

fn told(loaded: &Loaded) -> u64 {
    loaded.diagnostics().count("evaluation-passes")
}

/// Parameters, gradients and the optimizer's state in KiB, and what is not in them.
fn memory(loaded: &Loaded) -> ([u64; 3], Vec<String>) {
    let memory = loaded.replay.summary.memory.clone().unwrap();
    let kinds = [memory.kinds.parameters, memory.kinds.gradients, memory.kinds.optimizer];
    (kinds.map(|bytes| bytes.0 >> 10), memory.unknown)
}

/// A linear layer of that width on such a tensor.
fn linear(step: &mut Recording, dims: &[u64], width: u64, kept: bool) {
    let inner = dims[dims.len() - 1];
    step.layer("aten::linear", &json!([dims, [width, inner]]), 1, kept);
}

#[test]
fn what_other_models_run_on_is_no_batch() {
    // Width of the other model and on how many samples it runs how often.
    for (width, samples, times) in [(WIDTH, 256, 1), (WIDTH, 16, 3), (768, 256, 4), (768, 48, 2)] {
        for is_first in [true, false] {
            let loaded = Recording::of_steps(3, |step| {
                let others = |step: &mut Recording| {
                    for _ in 0..times {
                        step.forward(samples, width, 1, false);
                        linear(step, &[samples, width], 1, false);
                    }
                };
                if is_first {
                    others(step);
                }
                step.train(64, WIDTH);
                if !is_first {
                    others(step);
                }
                step.update("Adam", WIDTH);
            })
            .loaded();
            assert_eq!((batch(&loaded), told(&loaded)), ((Some(64), 64.0), 1), "{width} {samples} {times} {is_first}");
        }
    }
}

#[test]
fn what_runs_between_the_forward_and_the_backward_pass_of_accumulated_batches_is_no_batch() {
    let loaded = Recording::of_steps(3, |step| {
        for _ in 0..2 {
            let first = step.forward(64, WIDTH, 1, true);
            (0..4).for_each(|_| {
                step.forward(256, WIDTH, 1, false);
            });
            step.backward(first, 64, WIDTH);
        }
        step.update("Adam", WIDTH);
    })
    .loaded();
    assert_eq!((batch(&loaded), told(&loaded)), ((Some(64), 128.0), 1));
}

#[test]
fn layers_without_gradients_that_feed_a_trained_head_have_its_batch() {
    let trained = |trunk: &dyn Fn(&mut Recording), rows: u64| {
        let loaded = Recording::of_steps(3, |step| {
            trunk(step);
            step.train(rows, WIDTH);
            step.update("Adam", WIDTH);
        });
        let loaded = loaded.loaded();
        (batch(&loaded), told(&loaded))
    };
    // Rows of the head are tokens of the trunk's samples.
    let tokens = |step: &mut Recording| {
        step.layer("aten::embedding", &json!([[32_000, WIDTH], [8, 128]]), 1, false);
        (0..6).for_each(|_| linear(step, &[8, 128, WIDTH], WIDTH, false));
    };
    assert_eq!(trained(&tokens, 8 * 128), ((Some(8), 8.0), 0));
    // The head is given some rows of what the trunk gives.
    let some = |step: &mut Recording| {
        tokens(step);
        step.layer("aten::index", &json!([[8, 128, WIDTH], [100]]), 1, false);
    };
    assert_eq!(trained(&some, 100), ((Some(8), 8.0), 0));
    let images = |step: &mut Recording| {
        step.layer("aten::conv2d", &json!([[64, 3, 224, 224], [WIDTH, 3, 7, 7]]), 1, false);
        (0..4).for_each(|_| {
            step.layer("aten::conv2d", &json!([[64, WIDTH, 56, 56], [WIDTH, WIDTH, 3, 3]]), 1, false);
        });
    };
    assert_eq!(trained(&images, 64), ((Some(64), 64.0), 0));
    // A trunk of its own, and a reference on other samples.
    let both = |step: &mut Recording| {
        (0..9).for_each(|_| linear(step, &[32, 128, WIDTH], WIDTH, false));
        tokens(step);
    };
    assert_eq!(trained(&both, 8 * 128), ((Some(8), 8.0), 1));
}

#[test]
fn weights_that_nothing_trains_are_counted_once_or_named() {
    let beside = |others: &dyn Fn(&mut Recording)| {
        let loaded = Recording::of_steps(3, |step| {
            others(step);
            step.train(64, WIDTH);
            step.update("Adam", WIDTH);
        });
        let (kinds, unknown) = memory(&loaded.loaded());
        (kinds, unknown.iter().filter(|what| what.contains("without gradients")).count())
    };
    assert_eq!(beside(&|_| ()), ([3072, 3072, 6144], 0));
    // A teacher of three layers of 1024 x 1024.
    let teacher = |step: &mut Recording| {
        step.forward(64, 1024, 1, false);
    };
    assert_eq!(beside(&teacher), ([3072 + 3 * 4096, 3072, 6144], 1));
    // A reference whose weights are as large as those that are trained, or is what is trained.
    let reference = |step: &mut Recording| {
        step.forward(64, WIDTH, 1, false);
    };
    assert_eq!(beside(&reference), ([3072, 3072, 6144], 1));
}

#[test]
fn the_state_of_an_optimizer_that_is_not_known_is_named_beside_others() {
    let of = |wide: &str, narrow: &str| {
        let loaded = Recording::of_steps(3, |step| {
            step.train(64, 1024);
            step.train(64, 512);
            step.update(wide, 1024);
            step.update(narrow, 512);
        });
        let (kinds, unknown) = memory(&loaded.loaded());
        (kinds[2] >> 10, unknown.iter().any(|what| what.contains("Muon")))
    };
    assert_eq!(of("Adam", "Adam"), (30, false));
    assert_eq!(of("Adam", "Muon"), (24, true));
    assert_eq!(of("Muon", "Adam"), (6, true));
    assert_eq!(of("SGD", "Muon"), (0, true));
}

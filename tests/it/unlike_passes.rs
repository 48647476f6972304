//! Passes of a step that are unlike: on batches of other sizes, without a backward pass, recomputed, of other parts of a model, or without an
//! update. Parameters follow from no batch, and samples are those that are trained on.

use retime_core::engine::Loaded;
use retime_core::graph::BuildOptions;
use retime_core::memory::KindBytes;
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;
use serde_json::{Value, json};

use crate::support::engine;
use crate::support::program;

/// Layers of a model: linear, `[width, width]` without a bias.
const LAYERS: u64 = 3;

/// A training loop as it is recorded; times in µs.
#[derive(Default)]
struct Recording {
    events: Vec<Value>,
    at: u64,
    steps: u64,
    sequence: u64,
    launches: u64,
}

impl Recording {
    fn event(&mut self, category: &str, name: &str, thread: u64, (from, dur): (u64, u64), args: &Value) {
        let ts = self.at + from;
        self.events
            .push(json!({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": ts, "dur": dur,
            "args": args}));
    }

    fn launch(&mut self, thread: u64, name: &str) {
        self.launches += 1;
        let args = json!({"correlation": self.launches, "device": 0, "stream": 7});
        self.event("cuda_runtime", "cudaLaunchKernel", thread, (10, 5), &args);
        self.event("kernel", name, 7, (20, 30), &args);
    }

    /// Layers go forward over so many samples of a width; of `kept` ones a backward pass may follow.
    ///
    /// # Returns
    /// The sequence number of the first layer.
    fn forward(&mut self, samples: u64, width: u64, thread: u64, kept: bool) -> u64 {
        let first = self.sequence + 1;
        for _ in 0..LAYERS {
            self.sequence += 1;
            let mut args = json!({"Input Dims": [[samples, width], [width, width]], "Input type": ["float", "float"]});
            if kept {
                args["Sequence number"] = self.sequence.into();
            }
            self.event("cpu_op", "aten::linear", thread, (0, 40), &args);
            self.launch(thread, "sgemm");
            self.at += 60;
        }
        first
    }

    /// The layers from number `first` on go backward.
    fn backward(&mut self, first: u64, samples: u64, width: u64) {
        for number in (first..first + LAYERS).rev() {
            let name = "autograd::engine::evaluate_function: MmBackward0";
            self.event("cpu_op", name, 2, (0, 40), &json!({"Sequence number": number}));
            let dims = json!({"Input Dims": [[width, samples], [samples, width]], "Input type": ["float", "float"]});
            self.event("cpu_op", "aten::mm", 2, (5, 30), &dims);
            self.launch(2, "sgemm");
            let name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
            self.event("cpu_op", name, 2, (50, 30), &json!({}));
            let dims = json!({"Input Dims": [[width, width]], "Input type": ["float"]});
            self.event("cpu_op", "torch::autograd::AccumulateGrad", 2, (55, 20), &dims);
            self.at += 100;
        }
    }

    fn train(&mut self, samples: u64, width: u64) {
        let first = self.forward(samples, width, 1, true);
        self.backward(first, samples, width);
    }

    fn update(&mut self, class: &str, width: u64) {
        self.event("user_annotation", &format!("Optimizer.step#{class}.step"), 1, (0, 50), &json!({}));
        let list = vec![json!([width, width]); LAYERS as usize];
        self.event(
            "cpu_op",
            "aten::_foreach_add_",
            1,
            (5, 40),
            &json!({"Input Dims": [list], "Input type": ["TensorList"]}),
        );
        self.launch(1, "multi_tensor_apply_kernel");
        self.at += 80;
    }

    /// One step of the loop, in which `run` is recorded.
    fn step(&mut self, run: impl FnOnce(&mut Self)) {
        let begins = self.at;
        run(self);
        let length = self.at - begins;
        self.at = begins;
        let name = format!("ProfilerStep#{}", self.steps);
        self.event("user_annotation", &name, 1, (0, length), &json!({}));
        (self.at, self.steps) = (begins + length, self.steps + 1);
    }

    /// So many steps of the loop, all alike.
    fn of_steps(count: u64, run: impl Fn(&mut Self)) -> Self {
        let mut recording = Self { at: 1_000, ..Self::default() };
        (0..count).for_each(|_| recording.step(&run));
        recording
    }

    fn loaded(&self) -> Loaded {
        let text = json!({"traceEvents": self.events}).to_string();
        engine().load_bytes(text.as_bytes(), "loop.json", &BuildOptions::default()).unwrap()
    }
}

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

/// A recording as a rank of a job of so many.
fn text_of(recording: &Recording, rank: usize, ranks: usize) -> String {
    let info = json!({"rank": rank, "world_size": ranks});
    json!({"distributedInfo": info, "traceEvents": recording.events}).to_string()
}

/// A job of recordings, each a rank.
fn job(ranks: &[Recording]) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let of_rank = |(rank, recording): (usize, &Recording)| {
        let path = folder.path().join(format!("rank{rank}.json"));
        std::fs::write(&path, text_of(recording, rank, ranks.len())).unwrap();
        path
    };
    let paths: Vec<_> = ranks.iter().enumerate().map(of_rank).collect();
    engine().load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap().remove(0)
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

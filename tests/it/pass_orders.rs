//! In which order a step runs its forward and backward passes: however they stand, a batch counts once and a parameter once.

use retime_core::engine::Loaded;
use retime_core::graph::BuildOptions;
use retime_core::trace::OpenOptions;

use crate::support::engine;

const LAYERS: u32 = 3;

/// A pass of a schedule: forward over a batch, backward over what a forward pass kept, the gradient of a loss ahead of that.
#[derive(Clone, Copy)]
enum Pass {
    Forward(u32),
    Backward(u32),
    Loss,
}

use Pass::{Backward as B, Forward as F, Loss};

/// Three steps of such passes through equal layers, with an update behind each; each batch has `samples`.
struct Steps {
    events: Vec<String>,
    at: u32,
    launches: u32,
}

impl Steps {
    fn of(schedule: &[Pass], samples: u32) -> Self {
        let mut steps = Self { events: Vec::new(), at: 1_000, launches: 0 };
        for step in 0..3 {
            let begins = steps.at;
            for &pass in schedule {
                let number = |batch: u32, layer: u32| 100 * step + LAYERS * batch + layer;
                match pass {
                    F(batch) => (0..LAYERS).for_each(|layer| steps.forward(number(batch, layer), samples)),
                    B(batch) => (0..LAYERS).rev().for_each(|layer| steps.backward(number(batch, layer), samples)),
                    Loss => steps.loss(),
                }
            }
            steps.event("user_annotation", "Optimizer.step#Adam.step", 1, (0, 50), "");
            let list = vec!["[1024,1024]"; LAYERS as usize].join(",");
            let lists = format!(r#""Input Dims":[[{list}],[{list}]],"Input type":["TensorList","TensorList"]"#);
            let adam = ["add", "mul", "lerp", "mul", "addcmul", "addcdiv"];
            for (at, update) in (0..).zip(adam) {
                steps.event("cpu_op", &format!("aten::_foreach_{update}_"), 1, (5 + 7 * at, 5), &lists);
            }
            steps.at += 60;
            let dur = steps.at - begins;
            steps.at = begins;
            steps.event("user_annotation", &format!("ProfilerStep#{step}"), 1, (0, dur), "");
            steps.at += dur;
        }
        steps
    }

    fn event(&mut self, category: &str, name: &str, thread: u32, (from, dur): (u32, u32), args: &str) {
        let ts = self.at + from;
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{thread},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        ));
    }

    fn launch(&mut self) {
        self.launches += 1;
        let args = format!(r#""correlation":{},"stream":7,"device":0"#, self.launches);
        self.event("cuda_runtime", "cudaLaunchKernel", 1, (10, 5), &args);
        self.event("kernel", "sgemm", 7, (20, 30), &args);
    }

    fn forward(&mut self, number: u32, samples: u32) {
        let dims =
            format!(r#""Input Dims":[[1024],[{samples},1024],[1024,1024]],"Input type":["float","float","float"]"#);
        self.event("cpu_op", "aten::addmm", 1, (0, 40), &format!(r#"{dims},"Sequence number":{number}"#));
        self.launch();
        self.at += 60;
    }

    fn backward(&mut self, number: u32, samples: u32) {
        let dims = format!(r#""Input Dims":[[{samples},1024],[1024,1024]],"Input type":["float","float"]"#);
        let name = "autograd::engine::evaluate_function: AddmmBackward0";
        self.event("cpu_op", name, 1, (0, 40), &format!(r#""Sequence number":{number}"#));
        self.event("cpu_op", "aten::mm", 1, (5, 30), &dims);
        self.launch();
        let name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
        self.event("cpu_op", name, 1, (50, 30), "");
        let dims = r#""Input Dims":[[1024,1024]],"Input type":["float"]"#;
        self.event("cpu_op", "torch::autograd::AccumulateGrad", 1, (55, 20), dims);
        self.at += 100;
    }

    fn loss(&mut self) {
        self.event("cpu_op", "autograd::engine::evaluate_function: MseLossBackward0", 1, (0, 20), "");
        self.at += 30;
    }

    fn text(&self, rank: u32) -> String {
        let info = format!(r#""distributedInfo":{{"rank":{rank},"world_size":2}}"#);
        format!(r#"{{{info},"traceEvents":[{}]}}"#, self.events.join(","))
    }

    fn loaded(&self) -> Loaded {
        let text = format!(r#"{{"traceEvents":[{}]}}"#, self.events.join(","));
        engine().load_bytes(text.as_bytes(), "steps.json", &BuildOptions::default()).unwrap()
    }
}

/// Samples of an iteration, and how large parameters, gradients and the optimizer's state are in MiB.
fn told(schedule: &[Pass]) -> (f64, [u64; 3]) {
    let summary = Steps::of(schedule, 64).loaded().replay.summary.clone();
    let kinds = summary.memory.as_ref().unwrap().kinds;
    (summary.samples(), [kinds.parameters, kinds.gradients, kinds.optimizer].map(|bytes| bytes.0 >> 20))
}

#[test]
fn batches_count_in_whichever_order_a_pipeline_runs_their_passes() {
    let one_by_one = [F(0), B(0), F(1), B(1), F(2), B(2), F(3), B(3)];
    let all_forward_first = [F(0), F(1), F(2), F(3), B(0), B(1), B(2), B(3)];
    let one_forward_one_backward = [F(0), F(1), B(0), F(2), B(1), F(3), B(2), B(3)];
    for schedule in [one_by_one, all_forward_first, one_forward_one_backward] {
        assert_eq!(told(&schedule), (256.0, [12, 12, 24]));
    }
    assert_eq!(told(&[F(0), F(1), B(0), B(1)]), (128.0, [12, 12, 24]));
}

#[test]
fn passes_in_no_order_are_counted_by_how_often_each_parameter_gets_a_gradient() {
    let in_turn = told(&[F(0), B(0), F(1), B(1), F(2), B(2)]);
    assert_eq!(told(&[F(0), F(1), F(2), B(2), B(1), B(0)]), in_turn, "the last first");
    assert_eq!(told(&[F(0), F(1), F(2), B(1), B(2), B(0)]), in_turn, "mixed");
}

#[test]
fn passes_that_may_be_one_of_more_layers_than_the_optimizer_updates_say_so() {
    let said = |schedule: &[Pass]| Steps::of(schedule, 64).loaded().diagnostics().count("passes-by-optimizer");
    assert_eq!(said(&[F(0), F(1), B(1), B(0)]), 1, "from call to call");
    for schedule in [&[F(0), F(1), B(0), B(1)][..], &[F(0), B(0), F(1), B(1)], &[F(0), B(0)]] {
        assert_eq!(said(schedule), 0);
    }
}

#[test]
fn layers_of_which_the_optimizer_updates_a_part_are_of_one_batch_where_there_is_one_loss() {
    let samples = |schedule: &[Pass]| Steps::of(schedule, 64).loaded().replay.summary.samples();
    let (one, each) = ([F(0), F(1), Loss, B(1), B(0)], [F(0), F(1), Loss, B(1), Loss, B(0)]);
    assert_eq!([samples(&one), samples(&each)].map(|samples| samples as u64), [64, 128]);
}

#[test]
fn backward_passes_over_one_forward_pass_are_of_one_batch_and_one_set_of_parameters() {
    assert_eq!(told(&[F(0), B(0)]), (64.0, [12, 12, 24]));
    assert_eq!(told(&[F(0), B(0), B(0)]), (64.0, [12, 12, 24]));
    assert_eq!(told(&[F(0), B(0), B(0), F(1), B(1), B(1)]), (128.0, [12, 12, 24]));
}

#[test]
fn steps_that_take_turns_and_only_go_forward_have_one_set_of_parameters() {
    let mut steps = Steps { events: Vec::new(), at: 1_000, launches: 0 };
    for step in 0..12 {
        let calls = [5, 3, 3, 4][step % 4];
        (0..calls).for_each(|call| steps.forward(10 * step as u32 + call, 64));
        steps.at -= 60 * calls;
        steps.event("user_annotation", &format!("ProfilerStep#{step}"), 1, (0, 400), "");
        steps.at += 400;
    }
    let summary = steps.loaded().replay.summary.clone();
    assert_eq!((summary.repeats, summary.memory.unwrap().kinds.parameters.0 >> 20), (4, 20));
}

#[test]
fn ranks_on_batches_of_unlike_size_count_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let of_rank = |(rank, samples): (u32, u32)| {
        let path = folder.path().join(format!("rank{rank}.json"));
        std::fs::write(&path, Steps::of(&[F(0), B(0)], samples).text(rank)).unwrap();
        path
    };
    let loaded = |ranks: [u32; 2]| {
        let paths: Vec<_> = (0..).zip(ranks).map(of_rank).collect();
        engine().load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap().remove(0)
    };
    let samples = |ranks| loaded(ranks).replay.summary.job_samples();
    assert_eq!(samples([64, 64]).to_bits(), 128_f64.to_bits());
    assert_eq!((samples([64, 32]), samples([32, 64])), (96.0, 96.0));
    assert_eq!(loaded([64, 32]).diagnostics().count("unlike-batches"), 1);
}

#[test]
fn shards_of_a_sweep_over_unlike_batches_are_put_together() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job");
    std::fs::create_dir(&job).unwrap();
    for (rank, samples) in [(0, 64), (1, 32)] {
        std::fs::write(job.join(format!("rank{rank}.json")), Steps::of(&[F(0), B(0)], samples).text(rank)).unwrap();
    }
    let sweep = ["sweep", job.to_str().unwrap(), "--batch", "16..512"];
    let shard = |part: &str| {
        let answer = crate::support::program::json(&[&sweep[..], &["--shard", part]].concat());
        let path = folder.path().join(part.replace('/', "of"));
        std::fs::write(&path, answer.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (one, two) = (shard("1/2"), shard("2/2"));
    let merged = crate::support::program::json(&["sweep", "--merge", &one, &two]);
    assert_eq!(merged["points"], crate::support::program::json(&sweep)["points"]);
}

#[test]
fn an_iteration_of_several_batches_says_how_many_samples_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steps.json");
    let said = |schedule: &[Pass], command: &str| {
        std::fs::write(&path, Steps::of(schedule, 64).text(0)).unwrap();
        let command = [command, path.to_str().unwrap()];
        let output = assert_cmd::Command::cargo_bin("retime").unwrap().args(command).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (one, two) = ([F(0), B(0)], [F(0), F(1), B(0), B(1)]);
    for (command, text) in
        [("layers", " for 128 samples"), ("simulate", ": 128 samples in 2 batches"), ("sweep", "runs on 2 batches")]
    {
        let (plain, several) = (said(&one, command), said(&two, command));
        assert!(!plain.contains("batches") && several.contains(text), "{plain}{several}");
    }
}

/// What a rank counts to a step is not what the other counts to it.
#[test]
fn ranks_whose_steps_lie_elsewhere_do_not_stand_for_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let ranks = |late: u64| {
        let of_rank = |rank: u32| {
            let mut trace: serde_json::Value = serde_json::from_str(&Steps::of(&[F(0), B(0)], 64).text(rank)).unwrap();
            let events = trace["traceEvents"].as_array_mut().unwrap();
            for event in events.iter_mut().filter(|event| event["name"].as_str().unwrap().starts_with("ProfilerStep")) {
                event["ts"] = (event["ts"].as_u64().unwrap() + u64::from(rank) * late).into();
            }
            let path = folder.path().join(format!("rank{rank}.json"));
            std::fs::write(&path, trace.to_string()).unwrap();
            path
        };
        let paths = [of_rank(0), of_rank(1)];
        let loaded = engine().load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap().remove(0);
        loaded.graph.ranks.len()
    };
    assert_eq!((ranks(0), ranks(150)), (1, 2));
}

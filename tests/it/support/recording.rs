//! Training loops as a profiler records them, made for one test: layers on one stream, their backward passes and updates.

use retime_core::engine::Loaded;
use retime_core::graph::BuildOptions;
use retime_core::trace::OpenOptions;
use serde_json::{Value, json};

use super::engine;

/// Layers of a model: linear, `[width, width]` without a bias.
pub const LAYERS: u64 = 3;

/// A training loop as it is recorded; times in µs.
#[derive(Default)]
pub struct Recording {
    pub events: Vec<Value>,
    pub at: u64,
    pub steps: u64,
    pub sequence: u64,
    pub launches: u64,
}

impl Recording {
    pub fn event(&mut self, category: &str, name: &str, thread: u64, (from, dur): (u64, u64), args: &Value) {
        let ts = self.at + from;
        self.events
            .push(json!({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": thread, "ts": ts, "dur": dur,
            "args": args}));
    }

    pub fn launch(&mut self, thread: u64, name: &str) {
        self.launches += 1;
        let args = json!({"correlation": self.launches, "device": 0, "stream": 7});
        self.event("cuda_runtime", "cudaLaunchKernel", thread, (10, 5), &args);
        self.event("kernel", name, 7, (20, 30), &args);
    }

    /// Layers go forward over so many samples of a width; of `kept` ones a backward pass may follow.
    ///
    /// # Returns
    /// The sequence number of the first layer.
    pub fn forward(&mut self, samples: u64, width: u64, thread: u64, kept: bool) -> u64 {
        let first = self.sequence + 1;
        (0..LAYERS).for_each(|_| self.layer("aten::linear", &json!([[samples, width], [width, width]]), thread, kept));
        first
    }

    /// A layer that is given such tensors goes forward.
    pub fn layer(&mut self, name: &str, dims: &Value, thread: u64, kept: bool) {
        self.sequence += 1;
        let types = vec!["float"; dims.as_array().map_or(0, Vec::len)];
        let mut args = json!({"Input Dims": dims, "Input type": types});
        if kept {
            args["Sequence number"] = self.sequence.into();
        }
        self.event("cpu_op", name, thread, (0, 40), &args);
        self.launch(thread, "sgemm");
        self.at += 60;
    }

    /// The layers from number `first` on go backward.
    pub fn backward(&mut self, first: u64, samples: u64, width: u64) {
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

    pub fn train(&mut self, samples: u64, width: u64) {
        let first = self.forward(samples, width, 1, true);
        self.backward(first, samples, width);
    }

    pub fn update(&mut self, class: &str, width: u64) {
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
    pub fn step(&mut self, run: impl FnOnce(&mut Self)) {
        let begins = self.at;
        run(self);
        let length = self.at - begins;
        self.at = begins;
        let name = format!("ProfilerStep#{}", self.steps);
        self.event("user_annotation", &name, 1, (0, length), &json!({}));
        (self.at, self.steps) = (begins + length, self.steps + 1);
    }

    /// So many steps of the loop, all alike.
    pub fn of_steps(count: u64, run: impl Fn(&mut Self)) -> Self {
        let mut recording = Self { at: 1_000, ..Self::default() };
        (0..count).for_each(|_| recording.step(&run));
        recording
    }

    pub fn loaded(&self) -> Loaded {
        let device = json!({"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 80_u64 << 30});
        let text = json!({"deviceProperties": [device], "traceEvents": self.events}).to_string();
        engine().load_bytes(text.as_bytes(), "loop.json", &BuildOptions::default()).unwrap()
    }
}

/// A recording as a rank of a job of so many.
pub fn text_of(recording: &Recording, rank: usize, ranks: usize) -> String {
    let info = json!({"rank": rank, "world_size": ranks});
    json!({"distributedInfo": info, "traceEvents": recording.events}).to_string()
}

/// A job of recordings, each a rank.
pub fn job(ranks: &[Recording]) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let of_rank = |(rank, recording): (usize, &Recording)| {
        let path = folder.path().join(format!("rank{rank}.json"));
        std::fs::write(&path, text_of(recording, rank, ranks.len())).unwrap();
        path
    };
    let paths: Vec<_> = ranks.iter().enumerate().map(of_rank).collect();
    engine().load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap().remove(0)
}

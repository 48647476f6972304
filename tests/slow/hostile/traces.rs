//! Traces as the profiler writes them with values that no profiler writes, and edits of them, both drawn from bytes.
//!
//! Bytes that ran out draw what is usual, so that a shorter input is a plainer trace. Slow tests and fuzz targets share it.

use std::fmt::Write;

use crate::support::edits::LINES;

/// Draws from bytes.
pub struct Choices<'a>(pub &'a [u8]);

/// Values that a field of a trace should not have.
const EXTREMES: [&str; 26] = [
    "0",
    "-1",
    "1",
    "-0.0",
    "0.5",
    "65535",
    "134217728",
    "2147483647",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "1152921504606846976",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e30",
    "1e308",
    "-1e308",
    "1e999",
    "1e-320",
    "NaN",
    "null",
    "\"text\"",
];

/// Lines of edits that ask for more than anybody has.
const HOSTILE_LINES: [&str; 29] = [
    "scale * x0",
    "scale * x1000000",
    "scale kind=kernel x1e-300",
    "accumulate 256",
    "accumulate 16",
    "resize-batch 1",
    "resize-batch 1073741824",
    "resize-batch 7 from 1",
    "insert kernel k 10000s after *",
    "insert kernel k 1ns after *",
    "insert aten::mm after *",
    "scale-ranks 65536",
    "scale-ranks 1",
    "bucket-size 0.001",
    "bucket-size 1000000",
    "compress-comm 10000",
    "checkpoint * segments=1000",
    "resize-op * 1->1099511627776",
    "resize-op * 1024->1",
    "resize-op * 64->4294967296",
    "resize-op * 1099511627776->1",
    "scale-device flops x0.001",
    "scale-device dram_bw x1000",
    "scale-device host_link x0.001",
    "remove *",
    "cuda-graph *",
    "straggler remove 1048576",
    "mixed-precision fp16",
    "quantize-weights int4",
];

const OPERATORS: [(&str, &str, &str, &str); 12] = [
    ("aten::mm", "[[A, B], [B, C]]", r#"["float", "float"]"#, r#"["", ""]"#),
    (
        "aten::addmm",
        "[[C], [A, B], [B, C], [], []]",
        r#"["float", "float", "float", "Scalar", "Scalar"]"#,
        r#"["", "", "", "1", "1"]"#,
    ),
    ("aten::bmm", "[[4, A, B], [4, B, C]]", r#"["c10::BFloat16", "c10::BFloat16"]"#, r#"["", ""]"#),
    (
        "aten::convolution",
        "[[A, B, 32, 32], [C, B, 3, 3], [], [], [], [], [], [], []]",
        r#"["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "", "ScalarList", "Scalar"]"#,
        r#"["", "", "", "[N, 1]", "[1, N]", "[1, 1]", "False", "[0, 0]", "N"]"#,
    ),
    ("aten::relu", "[[A, B]]", r#"["float"]"#, r#"[""]"#),
    ("aten::add", "[[A, B], [A, B], []]", r#"["float", "float", "Scalar"]"#, r#"["", "", "1"]"#),
    (
        "aten::embedding_bag",
        "[[A, B], [C], [N], [], [], [], []]",
        r#"["float", "long int", "long int", "Scalar", "Scalar", "Scalar", ""]"#,
        r#"["", "", "", "False", "0", "False", ""]"#,
    ),
    (
        "aten::native_layer_norm",
        "[[A, B], [], [B], [B], []]",
        r#"["float", "ScalarList", "float", "float", "Scalar"]"#,
        r#"["", "[N]", "", "", "1e-05"]"#,
    ),
    (
        "aten::_scaled_dot_product_flash_attention",
        "[[A, 4, B, 64], [A, 4, B, 64], [A, 4, B, 64], [], [], [], []]",
        r#"["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar", "Scalar", ""]"#,
        r#"["", "", "", "0.", "True", "False", ""]"#,
    ),
    ("aten::cat", "[[[A, B], [A, C]], []]", r#"["TensorList", "Scalar"]"#, r#"["", "N"]"#),
    ("aten::copy_", "[[A, B], [A, B], []]", r#"["float", "float", "Scalar"]"#, r#"["", "", "False"]"#),
    ("Optimizer.step#SGD.step", "[]", "[]", "[]"),
];

const KERNELS: [&str; 6] = [
    "ampere_sgemm_128x64_tn",
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4>",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
    "triton_poi_fused_add_0",
    "void at::native::embedding_bag_forward<float>",
    "volta_scudnn_128x128_relu_medium_nn_v1",
];

impl Choices<'_> {
    /// The next byte; 0 where there is none.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::from(self.byte()) % values.len()]
    }

    /// True in about one case of `255 / (255 - from)`.
    fn above(&mut self, from: u8) -> bool {
        self.byte() > from
    }

    fn number<T: ToString + Copy>(&mut self, usual: T) -> String {
        if self.above(235) { self.one_of(&EXTREMES).to_owned() } else { usual.to_string() }
    }

    fn size(&mut self) -> String {
        let usual = self.one_of(&[64, 1024, 1, 256, 0, 3]);
        self.number(usual)
    }

    /// Sizes and numbers for the letters of `pattern`.
    fn filled(&mut self, pattern: &str) -> String {
        let sizes = [('A', self.size()), ('B', self.size()), ('C', self.size())];
        let fill = |c: char| sizes.iter().find(|(letter, _)| *letter == c).map(|(_, size)| size.clone());
        let mut filled = String::new();
        let letters: Vec<char> = pattern.chars().collect();
        for (at, &c) in letters.iter().enumerate() {
            // A letter of a word is no place for a number.
            let is_alone = (at == 0 || !letters[at - 1].is_alphanumeric())
                && !letters.get(at + 1).is_some_and(|next| next.is_alphanumeric());
            match fill(c) {
                Some(size) if is_alone => filled.push_str(&size),
                None if c == 'N' && is_alone => filled.push_str(&self.size()),
                _ => filled.push(c),
            }
        }
        filled
    }
}

/// Lines of up to three edits.
pub fn edits(choices: &mut Choices<'_>) -> Vec<&'static str> {
    let count = choices.byte() % 4;
    (0..count)
        .map(|_| if choices.above(150) { choices.one_of(&HOSTILE_LINES) } else { choices.one_of(&LINES) })
        .collect()
}

/// A trace in the profiler's JSON.
pub fn trace(choices: &mut Choices<'_>) -> String {
    let mut writer = Writer { choices, events: Vec::new(), now: 100.0, device: 120.0, ids: 0 };
    let steps = 1 + writer.choices.byte() % 3;
    for step in 0..steps {
        writer.step(step);
    }
    let (header, events) = (writer.header(), writer.events.join(",\n"));
    format!("{{{header}, \"traceEvents\": [\n{events}\n]}}")
}

struct Writer<'a, 'b> {
    choices: &'a mut Choices<'b>,
    events: Vec<String>,
    /// The host's clock, in µs.
    now: f64,
    /// When the stream is free.
    device: f64,
    ids: u32,
}

impl Writer<'_, '_> {
    fn header(&mut self) -> String {
        let name = self.choices.one_of(&[
            "NVIDIA A100-SXM4-80GB",
            "NVIDIA H100 80GB HBM3",
            "Tesla V100-SXM2-16GB",
            "AMD Instinct MI250X",
            "No Such Device",
        ]);
        let mut fields = String::new();
        let known = [
            ("id", 0_i64),
            ("totalGlobalMem", 85_899_345_920),
            ("computeMajor", 8),
            ("computeMinor", 0),
            ("maxThreadsPerBlock", 1024),
            ("maxThreadsPerMultiprocessor", 2048),
            ("regsPerBlock", 65536),
            ("regsPerMultiprocessor", 65536),
            ("warpSize", 32),
            ("sharedMemPerBlock", 49152),
            ("sharedMemPerMultiprocessor", 167_936),
            ("numSms", 108),
            ("sharedMemPerBlockOptin", 166_912),
        ];
        for (field, usual) in known {
            let _ = write!(fields, ", \"{field}\": {}", self.choices.number(usual));
        }
        let (rank, world, base) =
            (self.choices.number(0), self.choices.number(8), self.choices.number(1_767_189_312_000_000_000_i64));
        format!(
            "\"schemaVersion\": 1, \"deviceProperties\": [{{\"name\": \"{name}\"{fields}}}], \
             \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {rank}, \"world_size\": {world}}}, \"baseTimeNanoseconds\": {base}"
        )
    }

    fn event(&mut self, category: &str, name: &str, track: (&str, &str), span: (f64, f64), args: &str) {
        let (ts, dur) = (self.choices.number(span.0), self.choices.number(span.1 - span.0));
        let (pid, tid) = (self.choices.number(track.0), self.choices.number(track.1));
        self.events.push(format!(
            "{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": {tid}, \"ts\": {ts}, \"dur\": {dur}, \"args\": {{{args}}}}}"
        ));
    }

    fn step(&mut self, number: u8) {
        let (from, place) = (self.now, self.events.len());
        for _ in 0..=self.choices.byte() % 8 {
            match self.choices.byte() % 10 {
                0..6 => self.operator(),
                6 => self.copy(),
                7 => self.collective(),
                8 => self.wait(),
                _ => self.memory(),
            }
        }
        self.now += 5.0;
        let to = self.now;
        self.event("user_annotation", &format!("ProfilerStep#{number}"), ("1", "1"), (from, to), "\"External id\": 1");
        if let Some(step) = self.events.pop() {
            self.events.insert(place, step);
        }
    }

    fn launch(&mut self, call: &str) -> (u32, (f64, f64)) {
        self.ids += 1;
        let (id, from) = (self.ids, self.now + 1.0);
        let correlation = self.choices.number(id);
        let long = f64::from(self.choices.byte());
        self.event(
            "cuda_runtime",
            call,
            ("1", "1"),
            (from, from + 3.0),
            &format!("\"correlation\": {correlation}, \"cbid\": 211"),
        );
        self.now = from + 3.0;
        let start = self.device.max(self.now);
        self.device = start + 1.0 + long;
        (id, (start, self.device))
    }

    fn operator(&mut self) {
        let (name, dims, types, concrete) = self.choices.one_of(&OPERATORS);
        let (dims, concrete) = (self.choices.filled(dims), self.choices.filled(concrete));
        let (from, id, sequence) = (self.now, self.choices.number(self.ids + 1), self.choices.number(self.ids));
        let kernel = self.choices.one_of(&KERNELS);
        if name.contains("::") {
            let (correlation, span) = self.launch("cudaLaunchKernel");
            let mut numbers = |usual: i64| self.choices.number(usual);
            let args = format!(
                "\"External id\": {}, \"queued\": {}, \"device\": {}, \"context\": 1, \"stream\": {}, \"correlation\": {}, \
                 \"registers per thread\": {}, \"shared memory\": {}, \"blocks per SM\": {}, \"warps per SM\": {}, \
                 \"grid\": [{}, {}, {}], \"block\": [{}, {}, {}], \"est. achieved occupancy %\": {}",
                numbers(correlation.into()),
                numbers(0),
                numbers(0),
                numbers(7),
                numbers(correlation.into()),
                numbers(72),
                numbers(16384),
                numbers(2),
                numbers(8),
                numbers(32),
                numbers(2),
                numbers(1),
                numbers(128),
                numbers(1),
                numbers(1),
                numbers(13),
            );
            self.event("kernel", kernel, ("0", "7"), span, &args);
        }
        self.now += 1.0;
        let args = format!(
            "\"External id\": {id}, \"Sequence number\": {sequence}, \"Fwd thread id\": {}, \"Input Dims\": {dims}, \"Input type\": {types}, \"Concrete Inputs\": {concrete}",
            self.choices.number(0)
        );
        let to = self.now;
        self.event("cpu_op", name, ("1", "1"), (from, to), &args);
    }

    fn copy(&mut self) {
        let name = self.choices.one_of(&[
            "Memcpy HtoD (Pinned -> Device)",
            "Memcpy DtoH (Device -> Pageable)",
            "Memcpy DtoD (Device -> Device)",
        ]);
        let (correlation, span) = self.launch("cudaMemcpyAsync");
        let args = format!(
            "\"device\": 0, \"stream\": {}, \"correlation\": {correlation}, \"bytes\": {}, \"memory bandwidth (GB/s)\": {}",
            self.choices.number(7),
            self.choices.number(4096),
            self.choices.number(12.5)
        );
        self.event("gpu_memcpy", name, ("0", "7"), span, &args);
    }

    fn collective(&mut self) {
        let name =
            self.choices.one_of(&["allreduce", "_allgather_base", "_reduce_scatter_base", "all_to_allv", "broadcast"]);
        let from = self.now;
        let (correlation, span) = self.launch("cudaLaunchKernel");
        let args = format!(
            "\"Collective name\": \"{name}\", \"In msg nelems\": {}, \"Out msg nelems\": {}, \"Group size\": {}, \"dtype\": \"Float\", \
             \"In split size\": \"[{}]\", \"Out split size\": \"[]\", \"Process Group Name\": \"0\", \"Process Group Ranks\": \"[{}, 1]\", \"Seq\": {}",
            self.choices.number(1_000_000),
            self.choices.number(1_000_000),
            self.choices.number(8),
            self.choices.number(64),
            self.choices.number(0),
            self.choices.number(correlation),
        );
        let on_device = format!(
            "{args}, \"device\": 0, \"stream\": 20, \"correlation\": {correlation}, \"grid\": [16, 1, 1], \"block\": [512, 1, 1]"
        );
        self.event(
            "kernel",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            ("0", "20"),
            span,
            &on_device,
        );
        self.now += 2.0;
        let to = self.now;
        self.event("cpu_op", "record_param_comms", ("1", "1"), (from, to), &args);
    }

    fn wait(&mut self) {
        let name = self.choices.one_of(&[
            "cudaDeviceSynchronize",
            "cudaStreamSynchronize",
            "cudaEventSynchronize",
            "cudaStreamWaitEvent",
            "cudaEventRecord",
        ]);
        let (from, to) = (self.now, (self.now + 2.0).max(self.device));
        let args = format!("\"correlation\": {}, \"cbid\": 165", self.choices.number(self.ids));
        self.event("cuda_runtime", name, ("1", "1"), (from, to), &args);
        self.now = to;
    }

    fn memory(&mut self) {
        let from = self.now;
        let mut numbers = |usual: i64| self.choices.number(usual);
        let args = format!(
            "\"Total Reserved\": {}, \"Total Allocated\": {}, \"Bytes\": {}, \"Addr\": {}, \"Device Id\": {}, \"Device Type\": {}",
            numbers(1 << 30),
            numbers(1 << 29),
            numbers(1 << 20),
            numbers(1 << 40),
            numbers(0),
            numbers(1),
        );
        self.events.push(format!(
            "{{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\", \"pid\": 1, \"tid\": 1, \"ts\": {from}, \"args\": {{{args}}}}}"
        ));
    }
}

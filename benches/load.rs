//! Loading: the scanner against serde_json on the same bytes in the same run.
//!
//! `cargo bench --bench load` makes its own trace; `cargo bench --bench load -- FILE` takes one (plain or gzip JSON).
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set up has nothing to measure")]

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use retime::trace::{self, OpenOptions};

const STEPS: usize = 400;
const OPERATORS_PER_STEP: usize = 250;
const ROUNDS: usize = 5;

/// An operator, its launch, its flow and its kernel, as PyTorch writes them.
fn generated() -> String {
    let mut text =
        String::from("{\"schemaVersion\": 1, \"baseTimeNanoseconds\": 1767189312000000000, \"traceEvents\": [\n");
    for step in 0..STEPS {
        for operator in 0..OPERATORS_PER_STEP {
            let id = step * OPERATORS_PER_STEP + operator + 1;
            let at = id * 40;
            let _ = write!(
                text,
                r#"  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::op_{operator}", "pid": 6583, "tid": 6583,
    "ts": {at}.125, "dur": 17.013,
    "args": {{
      "External id": {id},"Record function id": 0, "Concrete Inputs": ["", "", "", "[1, 1]"], "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "ScalarList"], "Input Strides": [[2880, 1], [2880, 1], [1], []], "Input Dims": [[{operator}, 2880], [640, 2880], [640], []], "Ev Idx": {id}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 6583, "tid": 6583,
    "ts": {launch}.691, "dur": 5.520,
    "args": {{
      "External id": {id}, "cbid": 211, "correlation": {id}
    }}
  }},
  {{
    "ph": "s", "id": {id}, "pid": 6583, "tid": 6583, "ts": {launch}.691,
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, at::native::op_{operator}<c10::BFloat16>, at::detail::Array<char*, 2> >(int, at::native::op, at::detail::Array<char*, 2>)", "pid": 0, "tid": 7,
    "ts": {kernel}.196, "dur": 22.080,
    "args": {{
      "External id": {id}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {id}, "registers per thread": 22, "shared memory": 0, "blocks per SM": 0.006757, "warps per SM": 0.027027, "grid": [{operator}, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 0
    }}
  }},
"#,
                launch = at + 3,
                kernel = at + 9,
            );
        }
    }
    text.push_str("  {\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 0, \"tid\": 0, \"ts\": 0, \"args\": {\"name\": \"python\"}}\n]}");
    text
}

fn input() -> Vec<u8> {
    let Some(path) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')) else {
        return generated().into_bytes();
    };
    let bytes = std::fs::read(&path).unwrap();
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
    text
}

/// The shortest of several runs of each, taken in turn so that a busy machine disturbs all alike.
fn best<const N: usize>(mut runs: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut shortest = [Duration::MAX; N];
    for _ in 0..ROUNDS {
        for (run, shortest) in runs.iter_mut().zip(&mut shortest) {
            let start = Instant::now();
            run();
            *shortest = (*shortest).min(start.elapsed());
        }
    }
    shortest
}

fn main() {
    let text = input();
    let megabytes = text.len() as f64 / 1e6;
    let show = |what: &str, time: Duration| {
        println!("{what:<28} {:>8.1} ms {:>8.0} MB/s", time.as_secs_f64() * 1e3, megabytes / time.as_secs_f64());
    };
    let scanned = trace::load_bytes(&text, "generated").unwrap();
    println!("{megabytes:.0} MB, {} entries, {} events", scanned.events_in_file, scanned.events.len());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("generated.json.gz");
    let mut packed = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::new(6));
    packed.write_all(&text).unwrap();
    packed.finish().unwrap();

    let [scanner, strict, gzip] = best([
        &mut || drop(trace::load_bytes(&text, "generated").unwrap()),
        &mut || drop(trace::load_bytes_strictly(&text, "generated").unwrap()),
        &mut || drop(trace::open(std::slice::from_ref(&path), &OpenOptions::default()).unwrap()),
    ]);
    show("scanner", scanner);
    show("serde_json", strict);
    show("scanner, from .gz, 2 threads", gzip);
    println!("scanner / serde_json: {:.2}x faster", strict.as_secs_f64() / scanner.as_secs_f64());
    println!("from .gz / serde_json: {:.2}x faster", strict.as_secs_f64() / gzip.as_secs_f64());
}

//! The scanner against the reference reader: wherever serde_json accepts a document, both give the same trace.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use retime_core::trace::{self, OpenOptions};

use crate::support::readers::{agree, assert_equal, both, documents};
use crate::support::samples;

#[test]
fn every_bundled_profiler_trace_is_read_alike() {
    let read: Vec<PathBuf> = documents(&samples()).into_iter().filter(|path| agree(path)).collect();
    let is_profile =
        |path: &&PathBuf| [".kineto.", ".predicted."].iter().any(|kind| path.to_string_lossy().contains(kind));
    let is_captured = |path: &Path| ["h100/", "h200/"].iter().any(|gpu| path.to_string_lossy().contains(gpu));
    let (own, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        read.iter().filter(is_profile).partition(|path| is_captured(path));
    assert_eq!((own.len(), others.len()), (69, 7), "{read:?}");
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        (0u64..1 << 60, 0u32..1_000_000).prop_map(|(a, b)| format!("{a}.{b}")),
        (-400i32..400).prop_map(|e| format!("1.5e{e}")),
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("\"stream 7\"".to_owned()),
        Just("\"0x1f00000000\"".to_owned()),
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
    ]
}

fn value() -> impl Strategy<Value = String> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|values| format!("[{}]", values.join(", "))),
            prop::collection::vec((key(), inner), 0..4).prop_map(|members| object(&members, " ")),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    const KEYS: [&str; 24] = [
        "ph",
        "cat",
        "name",
        "pid",
        "tid",
        "ts",
        "dur",
        "args",
        "id",
        "correlation",
        "External id",
        "external id",
        "stream",
        "device",
        "grid",
        "Input Dims",
        "Concrete Inputs",
        "Sequence number",
        "Collective name",
        "bytes",
        "Bytes",
        "Addr",
        "cuda_sync_kind",
        "unheard of",
    ];
    prop_oneof![
        9 => prop::sample::select(&KEYS[..]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn object(members: &[(String, String)], space: &str) -> String {
    let members: Vec<String> =
        members.iter().map(|(key, value)| format!("{}:{space}{value}", serde_json::to_string(key).unwrap())).collect();
    format!("{{{space}{}{space}}}", members.join(&format!(",{space}")))
}

fn event() -> impl Strategy<Value = String> {
    const CATEGORIES: [&str; 9] = [
        "cpu_op",
        "kernel",
        "gpu_memcpy",
        "cuda_runtime",
        "cuda_sync",
        "user_annotation",
        "Operator",
        "Trace",
        "new one",
    ];
    let category = prop::sample::select(&CATEGORIES[..]);
    let phase = prop::sample::select(&["X", "X", "X", "i", "M", "B", "E", "s"][..]);
    let names =
        prop::sample::select(&["aten::mm", "[memory]", "record_param_comms", "ProfilerStep#3", "thread_name"][..]);
    let space = prop::sample::select(&["", " ", "\n    ", "\t\r\n"][..]);
    let arguments = prop::collection::vec((key(), value()), 0..6);
    let times = (0u64..1 << 50, 0u64..1000, 0u64..1 << 40);
    (category, phase, names, space, arguments, times, prop::collection::vec((key(), value()), 0..2)).prop_map(
        |(category, phase, name, space, arguments, (start, fraction, dur), extra)| {
            let mut members = vec![
                ("ph".to_owned(), format!("\"{phase}\"")),
                ("cat".to_owned(), format!("\"{category}\"")),
                ("name".to_owned(), format!("\"{name}\"")),
                ("ts".to_owned(), format!("{start}.{fraction}")),
                ("dur".to_owned(), dur.to_string()),
                ("args".to_owned(), object(&arguments, space)),
            ];
            members.extend(extra);
            object(&members, space)
        },
    )
}

fn document() -> impl Strategy<Value = String> {
    (prop::collection::vec(event(), 1..12), prop::collection::vec((key(), value()), 0..2), any::<bool>()).prop_map(
        |(events, metadata, bare)| {
            let events = format!("[{}]", events.join(",\n"));
            if bare {
                return events;
            }
            let mut members = metadata;
            members.push(("traceEvents".to_owned(), events));
            object(&members, " ")
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn valid_documents_are_read_alike(text in document()) {
        match both(text.as_bytes()) {
            (Ok(scanned), Ok(strict)) => assert_equal(&scanned, &strict, &text),
            (scanned, strict) => prop_assert_eq!(scanned.is_ok(), strict.is_ok(), "{}", text),
        }
    }

    #[test]
    fn damaged_documents_never_panic_and_are_never_read_differently_in_silence(
        text in document(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 1..4),
    ) {
        let mut bytes = text.into_bytes();
        for (at, byte, how) in edits {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        if let (scanned, Ok(strict)) = both(&bytes) {
            assert_equal(&scanned.unwrap(), &strict, &String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused_in_one_line_or_read_alike(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        match both(&bytes) {
            (scanned, Ok(strict)) => assert_equal(&scanned.unwrap(), &strict, &String::from_utf8_lossy(&bytes)),
            (Err(error), _) => prop_assert!(!error.to_string().contains('\n'), "{}", error),
            (Ok(_), Err(_)) => {}
        }
    }
}

/// A trace of several megabytes with what is hard to put together from chunks.
fn large(has_pairs: bool, damaged_at: Option<usize>) -> String {
    let mut text = String::from("{\"schemaVersion\": 1, \"traceEvents\": [\n");
    for i in 0..30_000_usize {
        let at = 1_694_128_201_000_000_usize + 7 * i;
        let wide = 5_000_000_000_usize + (i * 7919) % 4001;
        let comma = if i == 0 { "" } else { ",\n" };
        let event = match i % 11 {
            0..4 => format!(
                r#""cat": "cpu_op", "name": "aten::op_{}", "pid": 9, "tid": {}, "ts": {at}.{:03}, "dur": {}, "args": {{"External id": {wide}, "Sequence number": {i}, "Input Dims": [[{}, 3], [], {{"a": [1]}}], "Input type": ["float", "}}]{}"], "Concrete Inputs": ["", "[1, \\"{}\\"]"]}}"#,
                (i * i) % 1501,
                i % 5,
                i % 1000,
                3 + i % 9,
                (i * 31) % 977,
                i % 13,
                i % 17
            ),
            4 => format!(
                r#""cat": "kernel", "name": "void k<{}>(int)", "pid": 0, "tid": "stream {}", "ts": {at}, "dur": {}, "args": {{"correlation": {wide}, "device": {}, "stream": {}, "grid": [{i}, 1, 1], "Collective name": "all_to_allv", "In split size": "[{i}]"}}"#,
                (i * 17) % 743,
                i % 7,
                if i % 5000 == 4 { 9_000_000_000_u64 } else { 2 },
                i % 3,
                i % 7
            ),
            5 => format!(
                r#""cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": {}, "ts": {at}, "dur": 1, "args": {{"cuda_sync_kind": "kind {}", "stream": {}, "wait_on_cuda_event_record_corr_id": {wide}}}"#,
                i % 7,
                i % 23,
                i % 7
            ),
            6 => format!(
                r#""cat": "strange {}", "name": "caf\u00e9 \\u001b {}", "pid": 9, "tid": 3, "ts": {at}, "dur": -1"#,
                i % 3,
                i % 50
            ),
            7 => format!(
                r#""cat": "python_function", "name": "/home/x/site-packages/a/b{}.py(3): f", "pid": 9, "tid": 3, "ts": {at}, "dur": 5"#,
                i % 301
            ),
            8 => format!(r#""cat": "cpu_op", "name": "ProfilerStep#{i}", "pid": 9, "tid": 3, "ts": {at}, "dur": "x""#),
            9 => format!(
                r#""cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": {}, "ts": {at}, "dur": 2, "args": {{"correlation": {wide}}}"#,
                i % 5
            ),
            _ => format!(
                r#""cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 3, "ts": {at}, "args": {{"Bytes": {i}, "Addr": {wide}, "Device Type": 1, "Device Id": 0}}"#
            ),
        };
        let phase = match i % 11 {
            10 => "i",
            7 if has_pairs => {
                if (i / 11) % 2 == 0 {
                    "B"
                } else {
                    "E"
                }
            }
            _ => "X",
        };
        write!(text, "{comma}  {{\n    \"ph\": \"{phase}\", {event}\n  }}").unwrap();
        if i % 997 == 5 {
            write!(
                text,
                r#", {{"ph": "M", "name": "thread_name", "pid": 9, "tid": {}, "args": {{"name": "thread {i}"}}}}"#,
                i % 5
            )
            .unwrap();
        }
        if damaged_at == Some(i) {
            text += ", {\"ph\": tru e}, {\"ph\": \"X\" \"cat\"}";
        }
    }
    text + "\n], \"distributedInfo\": {\"rank\": 2, \"world_size\": 4}}"
}

#[test]
fn a_file_read_in_chunks_is_read_as_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.json");
    let options = |in_chunks| OpenOptions { in_chunks, ..OpenOptions::default() };
    for (has_pairs, damaged_at) in [(false, None), (false, Some(17_000)), (true, None), (true, Some(3))] {
        let text = large(has_pairs, damaged_at);
        assert!(text.len() > 4 << 20, "{} bytes are no chunks", text.len());
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        for bytes in [text.as_bytes(), &packed.finish().unwrap()] {
            std::fs::write(&path, bytes).unwrap();
            let read = |in_chunks| {
                let mut opened = trace::open(std::slice::from_ref(&path), &options(in_chunks)).unwrap();
                opened.jobs.swap_remove(0).ranks.swap_remove(0).trace.unwrap()
            };
            // The readers of chunks need a second thread, however many cores there are.
            let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
            let (whole, chunks) = pool.install(|| (read(false), read(true)));
            assert_equal(&chunks, &whole, "in chunks");
            assert_eq!(chunks.diagnostics.sorted(), whole.diagnostics.sorted());
            assert!(whole.collectives.len() > 2_000 && whole.memory.len() > 2_000 && whole.syncs.len() > 2_000);
        }
    }
}

//! The scanner against the reference reader: wherever serde_json accepts a document, both give the same trace.
#![expect(clippy::unwrap_used, reason = "in a test a failure to set up is a failure")]

use std::io::Read;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use retime::trace::{self, OpenError, Trace};

/// Both readers on `text`; `None` where one refuses.
fn both(text: &[u8]) -> (Result<Trace, OpenError>, Result<Trace, OpenError>) {
    (trace::load_bytes(text, "case.json"), trace::load_bytes_strictly(text, "case.json"))
}

fn assert_equal(scanned: &Trace, strict: &Trace, what: &str) {
    // Told apart column by column, since printing a whole trace helps nobody.
    assert_eq!(scanned.events.len(), strict.events.len(), "{what}");
    for id in scanned.events.ids() {
        assert_eq!(scanned.events.get(id), strict.events.get(id), "{what}: {id:?}");
    }
    assert_eq!(scanned.tracks, strict.tracks, "{what}");
    assert!(scanned.names == strict.names, "{what}: names differ");
    assert!(scanned.operators == strict.operators, "{what}: operators differ");
    assert!(scanned.kernels == strict.kernels && scanned.copies == strict.copies, "{what}: device work differs");
    assert!(scanned.collectives == strict.collectives && scanned.syncs == strict.syncs, "{what}: waits differ");
    assert!(scanned.memory == strict.memory && scanned.tensor_args == strict.tensor_args, "{what}: arguments differ");
    let metadata = |t: &Trace| (t.origin, t.rank, t.devices.clone(), t.has_shapes, t.events_in_file, t.format);
    assert_eq!(metadata(scanned), metadata(strict), "{what}");
    assert_eq!(scanned.skipped_events, strict.skipped_events, "{what}");
}

/// All JSON files below `folder`, unpacked, smallest first.
fn documents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".json.gz") {
                let mut text = Vec::new();
                flate2::read::MultiGzDecoder::new(std::fs::File::open(&path).unwrap()).read_to_end(&mut text).unwrap();
                found.push((path, text));
            } else if path.extension().is_some_and(|ending| ending == "json") {
                found.push((path.clone(), std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort_by_key(|(path, text)| (text.len(), path.clone()));
    found
}

fn check_folder(folder: &str, at_least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    if !folder.exists() {
        eprintln!("skipped: {} is not here", folder.display());
        return;
    }
    let mut compared = 0;
    for (path, text) in documents(&folder) {
        if let (scanned, Ok(strict)) = both(&text) {
            assert_equal(&scanned.unwrap(), &strict, &path.display().to_string());
            compared += 1;
        }
    }
    assert!(compared >= at_least, "only {compared} traces compared in {}", folder.display());
}

#[test]
fn every_shared_trace_is_read_alike() {
    check_folder("../shared/traces", 40);
}

#[test]
fn every_sample_trace_is_read_alike() {
    check_folder("sample_traces", 0);
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
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(both(&bytes));
    }
}

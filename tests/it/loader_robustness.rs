//! Bad and odd input: what is refused says where and why, what can be read is read, and nothing is lost in silence.

use std::io::Write;

use retime_core::trace::execution_trace::EtValue;
use retime_core::trace::{self, Category, ExecutionTrace, OpenError, OpenOptions, Sequence, Trace, TrackKind};
use retime_core::units::{Bytes, DurNs, TimeNs};

use crate::support::input;

fn open(name: &str) -> Result<Trace, OpenError> {
    let opened = trace::open(&[input(name)], &OpenOptions::default())?;
    let mut ranks = opened.jobs.into_iter().flat_map(|job| job.ranks);
    Ok(ranks.next().and_then(|rank| rank.trace).unwrap())
}

fn execution_trace(name: &str) -> ExecutionTrace {
    let opened = trace::open(&[input(name)], &OpenOptions::default()).unwrap();
    let mut ranks = opened.jobs.into_iter().flat_map(|job| job.ranks);
    ranks.next().and_then(|rank| rank.execution_trace).unwrap()
}

fn names(trace: &Trace) -> Vec<&str> {
    trace.events.ids().map(|id| trace.names.get(trace.events.name(id))).collect()
}

fn counted(trace: &Trace, code: &str) -> u64 {
    trace.diagnostics.count(code)
}

#[test]
fn what_is_no_trace_is_refused_with_the_file_the_reason_and_advice() {
    for (name, parts) in [
        ("missing.json", ["no such file", "check the spelling"]),
        ("empty.json", ["is empty", "record again"]),
        ("damaged_header.json.gz", ["byte 0", "a complete gzip stream"]),
        ("plain_text.json", ["plain text", "torch.profiler"]),
        ("picture.json", ["an image", "give the trace"]),
        ("database.json", ["SQLite database", "copy or record it again"]),
        ("rocprof.json", ["rocprof", "--hip-trace"]),
        ("photo.jpg", ["an image", "give the trace"]),
        ("chakra.et", ["Chakra protobuf", "ExecutionTraceObserver"]),
        ("page.html", ["HTML", "download the raw file"]),
        ("packed.zip", ["a zip archive", "unpack it first"]),
        ("pointer.json", ["a Git LFS pointer", "git lfs pull"]),
        ("memory_snapshot.pickle", ["a Python pickle", "no timeline"]),
        ("too_deep.json", ["without a single usable event", "1 damaged"]),
        ("wrong_schema.json", ["without `traceEvents`", "export_chrome_trace"]),
        ("no_events.json", ["without a single usable event", "0 entries"]),
        ("only_metadata.json", ["without a single usable event", "1 entries"]),
        ("truncated_before_events.json", ["byte ", "a key in quotes, a colon and a value"]),
    ] {
        let text = open(name).unwrap_err().to_string();
        for part in parts.iter().chain(&[name]) {
            assert!(text.contains(part), "{name}: `{part}` is not in: {text}");
        }
        assert!(!text.contains('\n'), "{name}: more than one line: {text}");
    }
}

#[test]
fn a_folder_without_traces_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "x").unwrap();
    let error = trace::open(&[folder.path().to_owned()], &OpenOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::NoTraces { .. }), "{error}");
    assert!(matches!(trace::open(&[], &OpenOptions::default()), Err(OpenError::NothingNamed)));
}

#[test]
fn a_truncated_trace_gives_what_came_before_the_cut() {
    let trace = open("truncated.json").unwrap();
    assert_eq!((trace.events.len(), trace.rank.map(|place| place.rank)), (6, Some(1)));
    assert_eq!((counted(&trace, "cut-off"), counted(&trace, "damaged-event"), trace.skipped_events), (1, 1, 1));
    let cut = trace.diagnostics.sorted().into_iter().find(|d| d.code == "cut-off").unwrap().clone();
    assert!(cut.place.unwrap().starts_with("byte ") && cut.message.contains("cut off"));
}

#[test]
fn a_truncated_archive_gives_what_came_before_the_cut() {
    let trace = open("truncated.json.gz").unwrap();
    assert!((50..399).contains(&trace.events.len()), "{}", trace.events.len());
    assert_eq!(counted(&trace, "damaged-gzip"), 1);
}

#[test]
fn damaged_events_are_skipped_and_counted_and_the_rest_is_read() {
    let trace = open("damaged_events.json").unwrap();
    assert_eq!(names(&trace), ["aten::first", "aten::last"]);
    assert_eq!((counted(&trace, "damaged-event"), counted(&trace, "damaged-time")), (3, 1));
    assert_eq!((trace.events_in_file, trace.skipped_events), (6, 4));
}

#[test]
fn times_that_cannot_be_are_skipped_or_read_as_zero_and_counted() {
    let trace = open("odd_times.json").unwrap();
    assert_eq!(names(&trace), ["aten::normal", "aten::negative", "aten::no_length", "aten::long"]);
    let lengths: Vec<i64> = trace.events.ids().map(|id| trace.events.dur(id).0).collect();
    assert_eq!(lengths, [1_000, 0, 0, 9_000_000_000]);
    assert_eq!(["damaged-time", "negative-duration", "missing-duration"].map(|code| counted(&trace, code)), [3, 1, 1]);
}

#[test]
fn repeated_and_wide_ids_stay_apart_or_equal_as_they_were() {
    let trace = open("duplicate_ids.json").unwrap();
    let rows: Vec<_> = trace.events.ids().map(|id| trace.events.get(id)).collect();
    assert!(rows.iter().all(|row| row.correlation == 7));
    assert!(rows[0].external == rows[1].external && rows[0].external != rows[2].external && rows[2].external != 0);
}

#[test]
fn begin_and_end_pairs_of_other_tools_become_events() {
    let trace = open("other_tool.json").unwrap();
    assert_eq!((trace.format, names(&trace)), ("chrome", vec!["outer", "inner"]));
    let lengths: Vec<DurNs> = trace.events.ids().map(|id| trace.events.dur(id)).collect();
    assert_eq!(lengths, [DurNs(50_000), DurNs(20_000)]);
    assert_eq!((counted(&trace, "unpaired-end"), counted(&trace, "unpaired-begin")), (1, 1));
}

#[test]
fn the_oldest_schema_tells_kinds_by_process() {
    let trace = open("schema_2020.json").unwrap();
    let kinds: Vec<Category> = trace.events.ids().map(|id| trace.events.category(id)).collect();
    assert_eq!((kinds, trace.format), (vec![Category::Operator, Category::Kernel], "kineto"));
    assert_eq!((trace.origin, trace.events.start(trace::EventId(1))), (TimeNs(12_500), TimeNs(7_500)));
}

#[test]
fn the_2021_schema_gives_operators_launches_kernels_copies_and_memory() {
    let trace = open("schema_2021.json").unwrap();
    let find = |name: &str| trace.events.ids().find(|&id| trace.names.get(trace.events.name(id)) == name).unwrap();
    assert_eq!(trace.events.category(find("ProfilerStep#4")), Category::Annotation);
    let operator = trace.operators.get(find("aten::addmm")).unwrap();
    let list = trace.tensor_args[operator.tensors.unwrap().index()];
    let dims: Vec<Vec<u64>> = serde_json::from_str(trace.names.get(list.dims)).unwrap();
    assert_eq!(
        (dims, operator.sequence.map(Sequence::number)),
        (vec![vec![1000], vec![32, 2048], vec![2048, 1000], vec![], vec![]], Some(1065))
    );
    assert_eq!(trace.names.get(operator.stack), "a.py(1): f;b.py(2): g");
    let (launch, kernel) = (trace.events.get(find("cudaLaunchKernel")), trace.events.get(find("sgemm")));
    assert_eq!((launch.correlation, kernel.correlation, kernel.external), (34441, 34441, 1669));
    assert_eq!(trace.tracks[kernel.track.0 as usize].kind, TrackKind::Stream { device: 0, stream: 7 });
    assert_eq!(trace.names.get(trace.tracks[launch.track.0 as usize].name), "thread 50 (python)");
    assert_eq!(trace.kernels.get(find("sgemm")).unwrap().grid, [50, 1, 1]);
    assert_eq!(trace.copies.get(find("Memcpy HtoD")).unwrap().bytes, Bytes(4096));
    let memory = trace.memory.get(find("[memory]")).unwrap();
    assert_eq!((memory.bytes, memory.on_device, memory.at), (-4096, true, trace.events.start(find("[memory]"))));
    assert_eq!(trace.origin, TimeNs(1_623_142_623_572_000_000));
}

#[test]
fn an_archive_that_unpacks_beyond_the_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.json.gz");
    let mut packed = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
    packed.write_all(b"{\"traceEvents\": [").unwrap();
    for _ in 0..64 {
        packed.write_all(&vec![b' '; 1 << 20]).unwrap();
    }
    packed.finish().unwrap();
    let options = OpenOptions { max_unpacked_bytes: 16 << 20, ..OpenOptions::default() };
    let error = trace::open(&[path], &options).unwrap_err();
    assert!(matches!(error, OpenError::TooLarge { .. }), "{error}");
}

#[test]
fn deep_nesting_is_passed_over_or_refused_without_exhausting_the_stack() {
    let deep = "[".repeat(200_000) + &"]".repeat(200_000);
    let event = format!(
        r#"{{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {{"x": {deep}}}}}"#
    );
    let text = format!("{{\"traceEvents\": [{event}], \"more\": {deep}}}");
    assert_eq!(trace::load_bytes(text.as_bytes(), "deep.json").unwrap().events.len(), 1);
    assert!(trace::load_bytes("[".repeat(1_000_000).as_bytes(), "deeper.json").is_err());
}

#[test]
fn reading_stops_when_told_to_and_counts_along_until_then() {
    let options = OpenOptions::default();
    trace::open(&[input("truncated.json")], &options).unwrap();
    let progress = &options.progress;
    assert_eq!((progress.bytes_read(), progress.events()), (progress.bytes_total(), 7));
    progress.cancel();
    let error = trace::open(&[input("truncated.json")], &options).unwrap_err();
    assert!(matches!(error, OpenError::Cancelled { .. }), "{error}");
}

#[test]
fn one_bad_file_among_good_ones_is_a_diagnostic() {
    let opened = trace::open(&[input("schema_2021.json"), input("plain_text.json")], &OpenOptions::default()).unwrap();
    assert_eq!((opened.jobs.len(), opened.diagnostics.count("unreadable-file")), (1, 1));
}

#[test]
fn flat_and_nested_execution_traces_mean_the_same() {
    let (flat, nested) = (execution_trace("flat.et.json"), execution_trace("nested.et.json"));
    assert_eq!((flat.nodes.len(), flat.skipped_nodes, nested.nodes.len()), (3, 1, 2));
    for trace in [&flat, &nested] {
        let node = trace.nodes.iter().find(|node| trace.names.get(node.name) == "aten::add").unwrap();
        assert_eq!((node.id, node.parent, node.rf_id, node.seq_id, node.tid, trace.pid), (3, 2, 5, 9, 1, Some(77)));
        assert_eq!(trace.names.get(node.inputs.types), r#"["Tensor(float)", "Int"]"#);
        let [EtValue::Tensor(tensor), EtValue::Text(number)] = trace.values_of(&node.inputs) else {
            panic!("{node:?}")
        };
        let tensor = trace.tensor(*tensor).unwrap();
        assert_eq!((tensor.id, tensor.storage, tensor.elements, tensor.element_size), (10, 11, 6, 4));
        assert_eq!(trace.names.get(*number), "1");
        let (_, collective) = &trace.collectives[0];
        assert_eq!(
            (trace.names.get(collective.name), collective.group_size, collective.sequence),
            ("allreduce", 8, 337)
        );
        assert_eq!(trace.rank, Some(3));
    }
    assert_eq!(nested.collectives[0].1.in_elements, 6);
    let last = flat.nodes.last().unwrap();
    assert!(matches!(flat.values_of(&last.inputs)[..3], [EtValue::List(2), EtValue::Tensor(_), EtValue::Tensor(_)]));
}

//! A small made-up file for every schema and quirk that real traces show, with the numbers that must come out of it.

use retime_core::diagnostic::Severity;
use retime_core::graph::iteration::steps;
use retime_core::trace::{self, Category, Event, EventId, OpenOptions, Sequence, Trace, TrackKind};
use retime_core::units::{Bytes, DurNs, TimeNs};

use crate::support::{input, samples, shared};

fn open(name: &str) -> Trace {
    let opened = trace::open(&[input(name)], &OpenOptions::default()).unwrap();
    opened.jobs.into_iter().flat_map(|job| job.ranks).find_map(|rank| rank.trace).unwrap()
}

fn name(trace: &Trace, id: EventId) -> &str {
    trace.names.get(trace.events.name(id))
}

fn names(trace: &Trace) -> Vec<&str> {
    trace.events.ids().map(|id| name(trace, id)).collect()
}

/// The events of one name, in order.
fn all(trace: &Trace, wanted: &str) -> Vec<(EventId, Event)> {
    let ids = trace.events.ids().filter(|&id| name(trace, id) == wanted);
    ids.map(|id| (id, trace.events.get(id))).collect()
}

fn one(trace: &Trace, wanted: &str) -> (EventId, Event) {
    let found = all(trace, wanted);
    assert_eq!(found.len(), 1, "{wanted}: {:?}", names(trace));
    found[0]
}

fn track(trace: &Trace, event: &Event) -> TrackKind {
    trace.tracks[event.track.0 as usize].kind
}

fn counts<const N: usize>(trace: &Trace, codes: [&str; N]) -> [u64; N] {
    codes.map(|code| trace.diagnostics.count(code))
}

/// Every entry of the file is an event, or counted with a reason.
fn assert_all_accounted(trace: &Trace) {
    let left_out =
        ["flow-arrows", "instant-marks", "metadata", "counters", "async-ranges", "object-marks", "unknown-phase"];
    let left_out: u64 = counts(trace, left_out).iter().sum();
    assert_eq!(
        trace.events.len() as u64 + trace.skipped_events + left_out,
        trace.events_in_file,
        "{}",
        trace.path.display()
    );
}

fn dims(trace: &Trace, id: EventId) -> &str {
    let list = trace.operators.get(id).unwrap().tensors.unwrap();
    trace.names.get(trace.tensor_args[list.index()].dims)
}

#[test]
fn the_2023_schema_gives_operators_launches_collectives_and_one_step() {
    let trace = open("kineto_2023.json");
    assert_all_accounted(&trace);
    assert_eq!((trace.events.len(), trace.events_in_file, trace.has_shapes), (10, 16, true));
    assert_eq!(trace.rank.map(|place| (place.rank, place.world_size)), Some((3, Some(8))));
    assert_eq!(counts(&trace, ["flow-arrows", "instant-marks", "metadata"]), [4, 1, 1]);
    let (mm, _) = one(&trace, "aten::mm");
    assert_eq!(dims(&trace, mm), "[[16, 1], [1, 256]]");
    let backward = trace.operators.get(one(&trace, "MmBackward0").0).unwrap();
    assert_eq!(backward.sequence.map(Sequence::number), Some(3142));
    let (launch, kernel) = (one(&trace, "cudaLaunchKernel").1, one(&trace, "gemmSN_TN_kernel<float>").1);
    assert_eq!((launch.correlation, launch.external, kernel.correlation), (42242, 42242, 42242));
    assert_eq!((kernel.start.0, kernel.dur), (68_000, DurNs(7_000)));
    assert_eq!(trace.copies.get(one(&trace, "Memset (Device)").0).unwrap().bytes, Bytes(16));
    let found: Vec<_> = trace.collectives.iter().map(|(_, args)| *args).collect();
    assert_eq!(found.len(), 2);
    assert_eq!((trace.names.get(found[0].name), found[0].group_size, found[0].in_elements), ("", 0, 0));
    assert_eq!(
        (trace.names.get(found[1].name), found[1].group_size, found[1].in_elements),
        ("allreduce", 8, 33_554_432)
    );
    assert_eq!(one(&trace, "ncclKernel_AllReduce_RING_LL_Sum_float").1.category, Category::Kernel);
    assert_eq!((all(&trace, "ProfilerStep#10").len(), steps(&trace).len()), (2, 1));
}

#[test]
fn the_2025_schema_gives_nanoseconds_drivers_waits_memory_and_frames() {
    let trace = open("kineto_2025.json");
    assert_all_accounted(&trace);
    assert_eq!(
        (trace.events.len(), trace.devices[0].name.as_str(), trace.devices[0].sm_count),
        (12, "NVIDIA B200", 148)
    );
    assert_eq!(trace.origin, TimeNs(1_767_189_312_000_000_000 + 14_063));
    let (linear, row) = one(&trace, "aten::linear");
    assert_eq!((trace.origin.0 + row.start.0, row.dur), (1_767_189_312_000_100_125, DurNs(1_734_013)));
    let args = trace.operators.get(linear).unwrap();
    let list = trace.tensor_args[args.tensors.unwrap().index()];
    assert_eq!((args.record_function, trace.names.get(list.strides)), (77, "[[2880, 1], [2880, 1], [1]]"));
    let (call, gather) = (one(&trace, "cuLaunchKernelEx").1, one(&trace, "ncclDevKernel_AllGather_RING_LL"));
    assert_eq!((call.category, call.correlation, gather.1.correlation), (Category::Runtime, 162, 162));
    let on_kernel = trace.collectives.get(gather.0).unwrap();
    assert_eq!((on_kernel.in_elements, on_kernel.out_elements, on_kernel.group_size), (25_136, 201_088, 8));
    let on_operator = trace.collectives.get(one(&trace, "record_param_comms").0).unwrap();
    let shown = [on_operator.name, on_operator.dtype, on_operator.ranks].map(|text| trace.names.get(text));
    assert_eq!((shown, on_operator.sequence), (["_allgather_base", "Float", "[0, 1]"], 5));
    let syncs: Vec<_> = trace.syncs.iter().map(|(_, s)| (s.stream, s.wait_on_stream, s.record_correlation)).collect();
    assert_eq!(syncs, [(None, Some(7), 1533), (Some(7), None, 0)]);
    let memory = trace.memory.get(one(&trace, "[memory]").0).unwrap();
    assert_eq!((memory.bytes, memory.total_allocated, memory.on_device), (144_384, Some(91_505_152), true));
    let kinds: Vec<Category> = ["Activity Buffer Request", "PyTorch Profiler (0)", "execute_context_1"]
        .map(|wanted| one(&trace, wanted).1.category)
        .to_vec();
    assert_eq!(kinds, [Category::Overhead, Category::Other, Category::GpuAnnotation]);
    assert_eq!(track(&trace, &one(&trace, "PyTorch Profiler (0)").1), TrackKind::Other { pid: -1, tid: -1 });
    let frame = one(&trace, "torch/utils/_contextlib.py(117): decorate_context").1;
    assert_eq!((frame.category, track(&trace, &frame)), (Category::Python, TrackKind::Thread { pid: 6583, tid: 6583 }));
}

#[test]
fn rocm_events_have_fewer_arguments_and_their_own_device_numbers() {
    let trace = open("rocm.json");
    assert_all_accounted(&trace);
    assert_eq!(one(&trace, "hipLaunchKernel").1.category, Category::Runtime);
    let (id, kernel) = one(&trace, "vectorized_gather_kernel<16, long>");
    assert_eq!((track(&trace, &kernel), trace.kernels.get(id)), (TrackKind::Stream { device: 2, stream: 3 }, None));
    assert_eq!(trace.names.get(trace.tracks[kernel.track.0 as usize].name), "stream 3");
    let (id, copy) = one(&trace, "Memcpy DtoD (Device -> Device)");
    assert_eq!((copy.category, trace.copies.get(id), trace.has_shapes), (Category::Memcpy, None, false));
}

#[test]
fn traces_of_one_side_only_are_read() {
    let host = open("cpu_only.json");
    assert_eq!((names(&host), host.has_shapes, steps(&host).len()), (vec!["aten::addmm", "aten::copy_"], true, 0));
    assert_eq!(dims(&host, EventId(0)), "[[4], [2, 3], [3, 4], [], []]");
    let device = open("gpu_only.json");
    assert_eq!((names(&device), device.has_shapes), (vec!["hipLaunchKernel", "k1"], false));
    let counters = open("counter_ranges.json");
    assert_eq!(one(&counters, "kernel_of_range").1.category, Category::CounterRange);
}

#[test]
fn kernels_of_one_graph_launch_share_its_id_may_overlap_and_start_before_it() {
    let trace = open("graph_launch.json");
    assert_all_accounted(&trace);
    let launch = one(&trace, "cudaGraphLaunch").1;
    let kernels: Vec<Event> = ["first", "second", "third"].map(|wanted| one(&trace, wanted).1).to_vec();
    assert!(kernels.iter().all(|kernel| kernel.correlation == launch.correlation && launch.correlation == 77));
    assert!(kernels[0].start < launch.start && kernels[1].start < kernels[0].end());
    assert_eq!(kernels.iter().map(|kernel| kernel.dur).collect::<Vec<_>>(), [DurNs(10_000); 3]);
    assert_eq!((one(&trace, "cudaMemsetAsync").1.correlation, counts(&trace, ["flow-arrows"])), (78, [2]));
}

#[test]
fn a_sampled_trace_keeps_work_without_launch_and_launches_without_work() {
    let trace = open("sampled.json");
    assert_eq!(trace.rank.map(|place| (place.rank, place.world_size)), Some((0, Some(128))));
    assert_eq!(names(&trace), ["launched before the window", "aten::add", "cudaLaunchKernel"]);
    assert_eq!(dims(&trace, EventId(1)), "[[], [[2], [3]]]");
}

#[test]
fn events_in_any_order_are_sorted_with_their_arguments() {
    let trace = open("unsorted.json");
    assert_eq!(names(&trace), ["aten::first", "aten::outer", "aten::inner"]);
    let sizes: Vec<&str> = trace.events.ids().map(|id| dims(&trace, id)).collect();
    assert_eq!(sizes, ["[[1]]", "[[2]]", "[[3]]"]);
}

#[test]
fn a_damaged_clock_does_not_stretch_the_timeline() {
    let trace = open("stray_time.json");
    assert_all_accounted(&trace);
    assert_eq!((trace.origin, trace.events.len()), (TimeNs(1_694_128_201_000_000_000), 8));
    assert_eq!((trace.skipped_events, counts(&trace, ["stray-time", "endless-duration"])), (2, [2, 1]));
    assert!(names(&trace).iter().all(|name| !name.contains("damaged_clock") && !name.contains("far_ahead")));
    assert_eq!(one(&trace, "aten::unfinished").1.dur, DurNs(0));
    assert_eq!(one(&trace, "aten::long").1.dur, DurNs(5_000_000_000));
    let (last, _) = one(&trace, "aten::op5");
    assert_eq!((last, dims(&trace, last)), (EventId(5), "[[5]]"));
    let stray = trace.diagnostics.sorted().into_iter().find(|d| d.code == "stray-time").unwrap().clone();
    assert_eq!((stray.severity, stray.place.as_deref()), (Severity::Warning, Some("at 0 ns")));
}

#[test]
fn paths_say_which_code_it_is_and_not_whose_machine() {
    let trace = open("home_paths.json");
    assert!(trace.names.iter().all(|(_, text)| !text.contains("somebody")), "{:?}", trace.names);
    let stack = trace.operators.get(one(&trace, "aten::linear").0).unwrap().stack;
    assert_eq!(trace.names.get(stack), "torch/nn/functional.py(1847): linear;dlrm/train.py(7): main");
    assert_eq!(all(&trace, "dlrm/train.py(7): main").len(), 1);
    assert_eq!(all(&trace, "threading.py(973): run").len(), 1);
    let file = trace.operators.get(one(&trace, "triton_poi_fused_0").0).unwrap().kernel_file;
    assert_eq!(trace.names.get(file), "ab/cab.py");
}

#[test]
fn every_phase_is_kept_or_counted_with_a_reason() {
    let trace = open("every_phase.json");
    assert_all_accounted(&trace);
    assert_eq!((names(&trace), trace.events_in_file), (vec!["aten::kept"], 12));
    let codes =
        ["flow-arrows", "instant-marks", "metadata", "counters", "async-ranges", "object-marks", "unknown-phase"];
    assert_eq!(counts(&trace, codes), [3, 1, 1, 1, 2, 1, 2]);
    let unknown = trace.diagnostics.sorted().into_iter().find(|d| d.code == "unknown-phase").unwrap().clone();
    assert!(unknown.severity == Severity::Warning && unknown.message.contains("\"?\""), "{}", unknown.message);
}

#[test]
fn deep_nesting_is_passed_over() {
    let trace = open("deep_nesting.json");
    assert_eq!((names(&trace), trace.skipped_events), (vec!["aten::op"], 0));
}

#[test]
fn every_real_trace_accounts_for_all_of_its_entries() {
    let folders = [Some(samples()), shared("dlrm-v100x8"), shared("tiny-critical-path")];
    for folder in folders.into_iter().flatten() {
        let opened = trace::open(&[folder], &OpenOptions::default()).unwrap();
        let mut found = 0;
        for trace in opened.jobs.iter().flat_map(|job| &job.ranks).filter_map(|rank| rank.trace.as_ref()) {
            assert_all_accounted(trace);
            found += 1;
        }
        assert!(found >= 3);
    }
}

/// Launches of kernels, each by an operator: of which process, on which device and as which kernel.
fn launches(calls: impl Iterator<Item = (u32, u32, u32)>) -> u64 {
    let mut events = Vec::new();
    for (at, (process, device, kernel)) in calls.enumerate() {
        let (host, id) = (100 * at, at + 1);
        events
            .push(serde_json::json!({"ph": "X", "cat": "cpu_op", "name": "aten::relu", "pid": process, "tid": process,
            "ts": host, "dur": 50, "args": {"External id": id}}));
        events.push(serde_json::json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": process,
            "tid": process, "ts": host + 10, "dur": 5, "args": {"External id": id, "correlation": id}}));
        events.push(
            serde_json::json!({"ph": "X", "cat": "kernel", "name": format!("kernel_{kernel}"), "pid": device, "tid": 7,
            "ts": host + 20, "dur": 30, "args": {"External id": id, "correlation": id, "device": device, "stream": 7}}),
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("launches.json");
    std::fs::write(&path, serde_json::json!({ "traceEvents": events }).to_string()).unwrap();
    let diagnostics = crate::support::jobs::loaded(&[path]).diagnostics();
    10 * diagnostics.count("several-processes") + diagnostics.count("several-devices")
}

#[test]
fn other_processes_and_copies_on_other_devices_are_told() {
    assert_eq!(launches((0..40).map(|at| (9, 0, at % 4))), 0);
    assert_eq!(launches((0..40).map(|at| (9, at % 2, at / 2 % 4))), 1, "the same on two devices");
    assert_eq!(launches((0..40).map(|at| (9, at % 2, 4 * (at % 2) + at / 2 % 4))), 0, "halves of one model");
    assert_eq!(launches((0..40).map(|at| (9 + at % 2, at % 2, at / 2 % 4))), 10, "of two processes");
    assert_eq!(launches((0..40).map(|at| (if at == 20 { 10 } else { 9 }, 0, at % 4))), 0, "a helper");
}

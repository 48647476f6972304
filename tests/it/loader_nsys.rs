//! Nsight Systems' SQLite exports: made-up ones, damaged and foreign ones, and a recorded one.

use std::io::Write as _;
use std::path::Path;

use retime_core::graph::BuildOptions;
use retime_core::trace::{self, Category, EventId, OpenError, OpenOptions, Sequence, Trace, TrackKind};
use retime_core::units::{Bytes, DurNs, TimeNs};
use rusqlite::Connection;

use crate::support::{engine, shared};

/// The columns that are read of each table, as Nsight Systems 2024 declares them.
const SCHEMA: &str = "
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
    CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, cuDevice INTEGER);
    CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
    CREATE TABLE OSRT_API (start INTEGER NOT NULL, end INTEGER NOT NULL);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME
        (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL
        (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
         demangledName INTEGER, shortName INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER,
         gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER,
         dynamicSharedMemory INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY
        (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
         bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET
        (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
         bytes INTEGER, memKind INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT
        (deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, eventId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
        (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
         syncType INTEGER, eventId INTEGER);
    CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
    INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'void gemm<float>(int)'), (3, 'gemm'),
        (4, 'cudaMemcpyAsync_v3020'), (5, 'cudaStreamWaitEvent_v3020'), (6, 'python'), (7, 'forward'),
        (8, 'cudaEventRecord_v3020'), (9, 'cudaMemsetAsync_v3020'), (10, 'evil' || char(27) || '[2J');
    INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100 80GB HBM3', 85899345920, 132, 0);
    INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);
    INSERT INTO OSRT_API VALUES (0, 5), (6, 7);
";

/// Process 77 with the one thread 78.
const PROCESS: i64 = 77 << 24;
const THREAD: i64 = PROCESS + 78;

fn made_up(rows: &str) -> Vec<u8> {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    connection.execute_batch(&rows.replace("$P", &PROCESS.to_string()).replace("$T", &THREAD.to_string())).unwrap();
    connection.serialize("main").unwrap().to_vec()
}

/// A forward range with a copy, a kernel on another stream that waits for it, and a memset.
fn one_step() -> Vec<u8> {
    made_up(
        "INSERT INTO NVTX_EVENTS VALUES (900, 9000, NULL, 7, $T), (950, NULL, 'a mark', NULL, $T),
            (1000, 4000, 'aten::mm, seq = 5, op_id = 9, sizes = [[2, 3], [3, 4]]', NULL, $T);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1100, 1200, $T, 11, 4), (1300, 1310, $T, 12, 8),
            (1400, 1410, $T, 13, 5), (1500, 1600, $T, 14, 1), (5000, 5100, $T, 15, 9);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (2000, 2500, 0, 20, 11, $P, 4096, 1, 1, 2);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
            (2600, 3600, 0, 7, 14, $P, 2, 3, 32, 4, 2, 1, 128, 1, 1, 1024, 512);
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (5200, 5300, 0, 7, 15, $P, 64, 2);
        INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 20, 12, $P, 3), (0, 20, 99, $P, 3);
        INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (1400, 1405, 0, 7, 13, $P, 2, 3),
            (6000, 6001, 0, 4294967295, 16, $P, 4, 0);
        INSERT INTO ThreadNames VALUES (6, 20, $T);",
    )
}

fn read(bytes: &[u8]) -> Vec<Trace> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.sqlite");
    std::fs::write(&path, bytes).unwrap();
    open(&path).unwrap()
}

fn open(path: &Path) -> Result<Vec<Trace>, OpenError> {
    let jobs = trace::open(&[path.to_owned()], &OpenOptions::default())?.jobs.into_iter();
    Ok(jobs.flat_map(|job| job.ranks).filter_map(|rank| rank.trace).collect())
}

fn refused(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.sqlite");
    std::fs::write(&path, bytes).unwrap();
    let text = open(&path).unwrap_err().to_string();
    assert!(!text.contains('\n') && text.contains("report.sqlite"), "{text}");
    text
}

fn find(trace: &Trace, name: &str) -> EventId {
    let found = trace.events.ids().find(|&id| trace.names.get(trace.events.name(id)) == name);
    assert!(found.is_some(), "no event `{name}`");
    found.unwrap()
}

#[test]
fn streams_of_two_contexts_are_two_though_their_numbers_are_one() {
    let streams = |contexts: &str| {
        let traces = read(&made_up(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
                (2600, 3600, 0, 7, 14, $P, 2, 3, 32, 4, 2, 1, 128, 1, 1, 1024, 512),
                (2700, 3700, 0, 7, 15, $P, 2, 3, 32, 4, 2, 1, 128, 1, 1, 1024, 512);
             {contexts}"
        )));
        let tracks = traces[0].tracks.iter().map(|track| track.kind);
        tracks.filter(|kind| matches!(kind, TrackKind::Stream { device: 0, .. })).collect::<Vec<_>>()
    };
    let column = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN contextId INTEGER;
         UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET contextId = 3";
    let own = TrackKind::Stream { device: 0, stream: 7 };
    assert_eq!(streams(""), [own]);
    assert_eq!(streams(column), [own]);
    let both =
        streams(&format!("{column}; UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET contextId = 4 WHERE correlationId = 15"));
    assert!(both.len() == 2 && both[0] == own, "{both:?}");
}

#[test]
fn every_table_becomes_the_events_that_the_profiler_would_have_written() {
    let traces = read(&one_step());
    let trace = &traces[0];
    assert_eq!((traces.len(), trace.format, trace.has_shapes), (1, "nsight-systems", true));
    let rows: Vec<(&str, Category, i64, i64)> = trace
        .events
        .ids()
        .map(|id| trace.events.get(id))
        .map(|row| (trace.names.get(row.name), row.category, row.start.0, row.dur.0))
        .collect();
    let expected = [
        ("forward", Category::Annotation, 0, 8100),
        ("aten::mm", Category::Operator, 100, 3000),
        ("cudaMemcpyAsync", Category::Runtime, 200, 100),
        ("cudaEventRecord", Category::Runtime, 400, 10),
        ("cudaStreamWaitEvent", Category::Runtime, 500, 10),
        ("Stream Wait Event", Category::Sync, 500, 5),
        ("cudaLaunchKernel", Category::Runtime, 600, 100),
        ("Memcpy HtoD (Pinned -> Device)", Category::Memcpy, 1100, 500),
        ("void gemm<float>(int)", Category::Kernel, 1700, 1000),
        ("cudaMemsetAsync", Category::Runtime, 4100, 100),
        ("Memset (Device)", Category::Memset, 4300, 100),
        ("Context Sync", Category::Sync, 5100, 1),
    ];
    assert_eq!(rows, expected);
    assert_eq!(trace.origin, TimeNs(1_700_000_000_000_000_900));
    assert_eq!((trace.devices[0].sm_count, trace.devices[0].memory), (132, Bytes(80 << 30)));
    let tracks: Vec<(TrackKind, &str)> = trace.tracks.iter().map(|it| (it.kind, trace.names.get(it.name))).collect();
    assert!(tracks.contains(&(TrackKind::Thread { pid: 77, tid: 78 }, "python")), "{tracks:?}");
    assert!(tracks.contains(&(TrackKind::Stream { device: 0, stream: 20 }, "")), "{tracks:?}");
}

#[test]
fn arguments_follow_their_events() {
    let traces = read(&one_step());
    let trace = &traces[0];
    let kernel = trace.kernels.get(find(trace, "void gemm<float>(int)")).unwrap();
    assert_eq!((kernel.grid, kernel.block, kernel.shared_memory), ([4, 2, 1], [128, 1, 1], 1536));
    assert_eq!(trace.copies.get(find(trace, "Memcpy HtoD (Pinned -> Device)")).unwrap().bytes, Bytes(4096));
    assert_eq!(trace.copies.get(find(trace, "Memset (Device)")).unwrap().bytes, Bytes(64));
    let operator = trace.operators.get(find(trace, "aten::mm")).unwrap();
    let sizes = trace.tensor_args[operator.tensors.unwrap().index()].dims;
    assert_eq!((operator.sequence.map(Sequence::number), trace.names.get(sizes)), (Some(5), "[[2, 3], [3, 4]]"));
    let wait = trace.syncs.get(find(trace, "Stream Wait Event")).unwrap();
    assert_eq!((wait.stream, wait.wait_on_stream, wait.record_correlation), (Some(7), Some(20), 12));
    assert_eq!(trace.syncs.get(find(trace, "Context Sync")).unwrap().stream, None);
    let (call, kernel) = (find(trace, "cudaLaunchKernel"), find(trace, "void gemm<float>(int)"));
    assert_eq!(trace.events.correlation(call), trace.events.correlation(kernel));
}

#[test]
fn rows_that_are_not_used_are_counted() {
    let trace = &read(&one_step())[0];
    let counted = |code| trace.diagnostics.count(code);
    assert_eq!((counted("nvtx-marks"), counted("other-tables"), trace.skipped_events), (1, 2, 0));
    assert_eq!(trace.events_in_file, trace.events.len() as u64 + 3);
}

#[test]
fn damaged_times_and_control_characters_do_no_harm() {
    let bytes = made_up(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, globalPid, demangledName)
            VALUES (100, 90, 0, 7, $P, 10), (200, NULL, 0, 7, $P, 2), (NULL, 5, 0, 7, $P, 2), ('x', 5, 0, 7, $P, 2),
            (300, 400, 0, 7, $P, 99);",
    );
    let trace = &read(&bytes)[0];
    let lengths: Vec<DurNs> = trace.events.ids().map(|id| trace.events.dur(id)).collect();
    assert_eq!(lengths, [DurNs(0), DurNs(0), DurNs(100)]);
    assert_eq!(trace.names.get(trace.events.name(EventId(0))), "evil␛[2J");
    let codes = ["negative-duration", "missing-duration", "damaged-time"].map(|code| trace.diagnostics.count(code));
    assert_eq!((codes, trace.skipped_events), ([1, 1, 2], 2));
}

#[test]
fn rows_without_thread_stream_launch_or_name_are_counted() {
    let bytes = made_up(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 110, NULL, 1, 1), (120, 130, 'x', 2, 1),
            (140, 150, $T, 3, 77), (160, 170, $T, 4, 1);
        INSERT INTO NVTX_EVENTS VALUES (90, 300, 'step', NULL, NULL), (95, 290, NULL, 78, $T);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, demangledName)
            VALUES (200, 210, 0, NULL, 3, $P, 2), (220, 230, 0, 'x', 4, $P, 2), (240, 250, NULL, 7, NULL, $P, 2),
            (260.4, 270.6, 0, 7, 5, $P, 2);",
    );
    let trace = &read(&bytes)[0];
    let codes = ["damaged-thread", "missing-stream", "missing-device", "missing-launch", "missing-name"];
    assert_eq!(codes.map(|code| trace.diagnostics.count(code)), [3, 2, 1, 1, 2]);
    assert_eq!((trace.skipped_events, trace.events_in_file, trace.events.len()), (3, 12, 7));
    let last = trace.events.ids().last().unwrap();
    assert_eq!((trace.events.start(last), trace.events.dur(last)), (TimeNs(165), DurNs(11)));
}

#[test]
fn kernels_that_were_launched_and_not_recorded_are_told() {
    let bytes = one_step();
    let mut connection = Connection::open_in_memory().unwrap();
    connection.deserialize_read_exact("main", bytes.as_slice(), bytes.len(), false).unwrap();
    let told = |connection: &mut Connection| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.sqlite");
        std::fs::write(&path, &*connection.serialize("main").unwrap()).unwrap();
        let loaded = engine().load(&[path], &OpenOptions::default(), &BuildOptions::default()).unwrap();
        loaded[0].diagnostics().count("device-not-recorded")
    };
    assert_eq!(told(&mut connection), 0);
    connection.execute_batch("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL").unwrap();
    assert_eq!(told(&mut connection), 1);
}

#[test]
fn a_time_that_no_clock_shows_is_left_out_however_few_the_others_are() {
    let bytes = made_up(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, globalPid, demangledName)
            VALUES (100, 190, 0, 7, $P, 2), (200, 300, 0, 7, $P, 2), (9223372036854775000, 9223372036854775807, 0, 7, $P, 2);",
    );
    let trace = &read(&bytes)[0];
    let starts: Vec<TimeNs> = trace.events.ids().map(|id| trace.events.start(id)).collect();
    assert_eq!((starts, trace.diagnostics.count("stray-time")), (vec![TimeNs(0), TimeNs(100)], 1));
}

#[test]
fn processes_that_used_a_device_are_traces_of_their_own() {
    let bytes = made_up(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, shortName)
            VALUES (100, 200, 0, 7, 1, $P, 3), (150, 250, 1, 7, 1, $P + (1 << 24), 3);
        INSERT INTO NVTX_EVENTS VALUES (0, 9, 'launcher', NULL, $T + (2 << 24));",
    );
    let traces = read(&bytes);
    let kernels: Vec<usize> = traces.iter().map(|trace| trace.kernels.len()).collect();
    assert_eq!(kernels, [1, 1]);
    let path = traces[1].path.display().to_string();
    assert!(path.ends_with("report.sqlite:process 78"), "{path}");
    let entries: u64 = traces.iter().map(|trace| trace.events_in_file).sum();
    assert_eq!((entries, traces[0].diagnostics.count("other-processes")), (5, 1));
}

#[test]
fn rows_of_no_process_and_sizes_that_no_memory_has_are_counted() {
    let kernels = |second: &str| {
        let bytes = made_up(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, globalPid, shortName)
                VALUES (100, 200, 0, 7, 1, $P, 3), (150, 250, 1, 7, 1, {second}, 3), (260, 270, 0, 7, 2, NULL, 3);"
        ));
        let traces = read(&bytes);
        traces.iter().map(|trace| trace.diagnostics.count("missing-process")).sum::<u64>()
    };
    assert_eq!((kernels("$P + (1 << 24)"), kernels("$P")), (1, 0));
    let bytes = made_up(
        "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, streamId, globalPid, bytes) VALUES
            (100, 110, 0, 7, $P, 64), (120, 130, 0, 7, $P, NULL), (140, 150, 0, 7, $P, -5), (160, 170, 0, 7, $P, 1e30),
            (180, 190, 0, 7, $P, 'abc');",
    );
    let trace = &read(&bytes)[0];
    assert_eq!((trace.diagnostics.count("damaged-bytes"), trace.copies.len()), (3, 1));
}

#[test]
fn what_nsight_did_not_write_is_refused_in_one_line() {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('x')").unwrap();
    let foreign = refused(&connection.serialize("main").unwrap());
    assert!(
        foreign.contains("without Nsight Systems' CUDA or NVTX tables") && foreign.contains("nsys export"),
        "{foreign}"
    );
    let nameless = refused(&made_up("DROP TABLE StringIds"));
    assert!(nameless.contains("without its table of names, StringIds"), "{nameless}");
    let nothing = refused(&made_up(""));
    assert!(nothing.contains("without a single usable event"), "{nothing}");
}

#[test]
fn damaged_databases_are_refused_or_read_as_far_as_they_go() {
    let whole = one_step();
    for cut in [16, 17, 19, 60, 100, 4096, whole.len() / 2] {
        let text = refused(&whole[..cut]);
        assert!(text.contains("damaged or cut off") || text.contains("SQLite"), "{cut}: {text}");
    }
    for at in (100..whole.len()).step_by(997) {
        let mut bytes = whole.clone();
        bytes[at..(at + 64).min(whole.len())].fill(0xa5);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.sqlite");
        std::fs::write(&path, &bytes).unwrap();
        match open(&path) {
            Ok(traces) => assert!(traces.iter().all(|trace| trace.events_in_file >= trace.events.len() as u64)),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}

#[test]
fn packed_archived_and_journalled_databases_are_the_same_trace() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = one_step();
    let expected = read(&bytes);
    bytes[18..20].copy_from_slice(&[2, 2]);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&bytes).unwrap();
    std::fs::write(folder.path().join("a.sqlite.gz"), packed.finish().unwrap()).unwrap();
    let mut archive = tar::Builder::new(std::fs::File::create(folder.path().join("b.tar")).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes.len() as u64);
    header.set_cksum();
    archive.append_data(&mut header, "c.sqlite", bytes.as_slice()).unwrap();
    archive.finish().unwrap();
    for name in ["a.sqlite.gz", "b.tar"] {
        let found = open(&folder.path().join(name)).unwrap();
        assert!(found[0].events == expected[0].events && found[0].kernels == expected[0].kernels, "{name}");
    }
}

#[test]
fn a_recorded_export_has_the_counts_of_its_tables_and_replays() {
    let Some(path) = shared("nsys-cloverleaf-a100/perlmutter-cloverleaf-cuda.sqlite.gz") else { return };
    let traces = open(&path).unwrap();
    let trace = &traces[0];
    let count = |category| trace.events.ids().filter(|&id| trace.events.category(id) == category).count();
    let counts = [Category::Kernel, Category::Memcpy, Category::Runtime, Category::Sync].map(count);
    assert_eq!((traces.len(), counts), (1, [1312, 279, 3048, 1312]));
    assert_eq!((trace.skipped_events, trace.diagnostics.count("other-tables")), (0, 1254 + 1531 + 47 + 1831));
    assert_eq!(trace.devices.iter().map(|device| device.id).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let calls = trace.events.ids().filter(|&id| trace.events.category(id) == Category::Runtime);
    let calls: std::collections::BTreeSet<u32> = calls.map(|id| trace.events.correlation(id)).collect();
    let work = trace.events.ids().filter(|&id| trace.events.category(id).is_device_work());
    assert!(work.map(|id| trace.events.correlation(id)).all(|id| id != 0 && calls.contains(&id)));

    let engine = engine();
    let loaded = engine.load(&[path], &OpenOptions::default(), &BuildOptions::default()).unwrap();
    let summary = &loaded[0].replay.summary;
    assert!(summary.replay_error.unwrap().abs() < 0.02, "{:?}", summary.replay_error);
}

#[test]
fn changes_that_a_database_holds_beside_itself_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.sqlite");
    std::fs::write(&path, one_step()).unwrap();
    let told = || {
        let traces = open(&path).unwrap();
        traces[0].diagnostics.sorted().iter().any(|found| found.code == "unfinished-database")
    };
    assert!(!told());
    std::fs::write(folder.path().join("report.sqlite-wal"), "pages").unwrap();
    assert!(told());
}

#[test]
fn correlation_ids_beyond_32_bits_are_kept_apart_and_negative_ones_are_told() {
    let rows = |call: i64, other: i64| {
        made_up(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 110, $T, {call}, 1), (200, 210, $T, {other}, 1);
             INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
                (300, 400, 0, 7, {call}, $P, 2, 3, 32, 4, 2, 1, 128, 1, 1, 0, 0),
                (500, 600, 0, 7, {other}, $P, 2, 3, 32, 4, 2, 1, 128, 1, 1, 0, 0);"
        ))
    };
    let ids = |bytes: &[u8]| {
        let trace = read(bytes).remove(0);
        let ids: Vec<u32> = trace.events.ids().map(|id| trace.events.correlation(id)).collect();
        (ids, trace.diagnostics.count("missing-launch"))
    };
    let (wide, told) = ids(&rows((1 << 40) + 11, (1 << 41) + 11));
    assert!(wide[0] != 0 && wide[1] != 0 && wide[0] != wide[1], "{wide:?}");
    assert_eq!((&wide[..2], told), (&wide[2..], 0));
    assert_eq!(ids(&rows(11, 12)).0, [11, 12, 11, 12]);
    assert_eq!(ids(&rows(-11, -12)), (vec![0; 4], 2));
}

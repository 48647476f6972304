//! The loader against figures others have counted: the table of shared traces, and the manifest of our own captures.

use std::path::Path;

use retime_core::trace::{self, Category, OpenOptions, OperatorArgs, Trace, TrackKind};

use crate::support::shared;

fn count(trace: &Trace, category: Category) -> usize {
    trace.events.ids().filter(|&id| trace.events.category(id) == category).count()
}

/// One row of the table: `folder/file[:member]`, entries, rank and world size, operators, runtime calls, kernels.
struct Row {
    file: String,
    member: Option<String>,
    events: u64,
    rank: Option<u32>,
    world_size: Option<u32>,
    operators: usize,
    runtime: usize,
    kernels: usize,
}

fn row(line: &str) -> Option<Row> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, name, bytes, _, events, rank, _, counts, ..] = cells.as_slice() else { return None };
    bytes.parse::<u64>().ok()?;
    let mut counts = counts.split('/').map(str::parse::<usize>);
    let (file, member) = match name.split_once(':') {
        Some((file, member)) => (file, Some(member.to_owned())),
        None => (*name, None),
    };
    let (rank, world_size) = rank.split_once('/')?;
    Some(Row {
        file: file.to_owned(),
        member,
        events: events.parse().ok()?,
        rank: rank.parse().ok(),
        world_size: world_size.parse().ok(),
        operators: counts.next()?.ok()?,
        runtime: counts.next()?.ok()?,
        kernels: counts.next()?.ok()?,
    })
}

fn traces_of(path: &Path) -> Vec<Trace> {
    let opened = trace::open(&[path.to_owned()], &OpenOptions::default()).unwrap();
    opened.jobs.into_iter().flat_map(|job| job.ranks).filter_map(|rank| rank.trace).collect()
}

#[test]
fn every_shared_profiler_trace_holds_what_the_table_says() {
    let Some(table) = shared("SOURCES.md") else { return };
    let rows: Vec<Row> = std::fs::read_to_string(table).unwrap().lines().filter_map(row).collect();
    assert!(rows.len() >= 40, "only {} rows of the table were understood", rows.len());
    for row in rows {
        let Some(path) = shared(&row.file) else { continue };
        let traces = traces_of(&path);
        let trace = match &row.member {
            Some(member) => traces.iter().find(|t| t.path.to_string_lossy().ends_with(member.as_str())).unwrap(),
            None => &traces[0],
        };
        // The 2021 schema files annotations under operators and the table counts them so.
        let annotations = if row.file.contains("dataloader") { count(trace, Category::Annotation) } else { 0 };
        let found = (
            trace.events_in_file,
            count(trace, Category::Operator) + annotations,
            count(trace, Category::Runtime),
            count(trace, Category::Kernel),
        );
        assert_eq!(found, (row.events, row.operators, row.runtime, row.kernels), "{}", trace.path.display());
        assert_eq!(trace.rank.map(|place| place.rank), row.rank, "{}", row.file);
        assert_eq!(trace.rank.and_then(|place| place.world_size), row.world_size, "{}", row.file);
        assert_eq!(trace.skipped_events, 0, "{}: {:?}", row.file, trace.diagnostics.sorted());
        assert_invariants(trace);
    }
}

fn assert_invariants(trace: &Trace) {
    let events = &trace.events;
    assert!(events.ids().zip(events.ids().skip(1)).all(|(a, b)| events.start(a) <= events.start(b)));
    assert!(events.ids().all(|id| events.start(id).0 >= 0 && events.dur(id).0 >= 0));
    for id in events.ids().filter(|&id| events.category(id).is_device_work()) {
        let kind = trace.tracks[events.track(id).0 as usize].kind;
        assert!(matches!(kind, TrackKind::Stream { .. }), "{}: {kind:?}", trace.path.display());
    }
}

#[test]
fn absolute_times_with_three_decimals_are_read_to_the_nanosecond() {
    let Some(path) = shared("weird-ns-resolution/rank-0.pt.trace.json.gz") else { return };
    let trace = &traces_of(&path)[0];
    let times: Vec<i64> = trace.events.ids().map(|id| trace.origin.0 + trace.events.start(id).0).collect();
    assert!(times.contains(&1_712_195_495_505_582_988));
}

#[test]
fn every_capture_of_our_own_holds_what_its_manifest_says() {
    let Some(manifest) = shared("cpu-captured/manifest.json") else { return };
    let manifest: serde_json::Value = serde_json::from_slice(&std::fs::read(manifest).unwrap()).unwrap();
    let captures = manifest["captures"].as_array().unwrap();
    assert!(captures.len() >= 10);
    for capture in captures {
        let (check, id) = (&capture["check"], &capture["id"]);
        let Some(path) = shared(&format!("cpu-captured/{}", capture["files"]["kineto"].as_str().unwrap())) else {
            continue;
        };
        let opened = trace::open(&[path], &OpenOptions::default()).unwrap();
        let rank = &opened.jobs[0].ranks[0];
        let (trace, execution) = (rank.trace.as_ref().unwrap(), rank.execution_trace.as_ref().unwrap());
        let has = |f: &dyn Fn(&OperatorArgs) -> bool| trace.operators.iter().filter(|(_, a)| f(a)).count() as u64;
        let is_operator = |id| trace.events.category(id) == Category::Operator;
        let with_dims = trace.operators.iter().filter(|(id, args)| {
            is_operator(*id) && args.tensors.is_some_and(|list| trace.tensor_args[list.index()].dims.0 != 0)
        });
        let found = [
            trace.events_in_file,
            count(trace, Category::Operator) as u64,
            count(trace, Category::Annotation) as u64,
            with_dims.count() as u64,
            has(&|args| args.record_function != 0),
            execution.nodes.len() as u64,
        ];
        let stated = [
            &check["kineto_events"],
            &check["cpu_ops"],
            &check["categories"]["user_annotation"],
            &check["cpu_ops_with_input_dims"],
            &check["kineto_with_rf_id"],
            &check["et_nodes"],
        ];
        assert_eq!(found.map(Some), stated.map(serde_json::Value::as_u64), "{id}");
        assert_eq!(Some(execution.schema.as_str()), check["et_schema"].as_str(), "{id}");
    }
}

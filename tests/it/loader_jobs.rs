//! Which files become which jobs, and execution traces against figures others have counted.

use std::path::PathBuf;

use retime_core::trace::{self, ExecutionTrace, Job, OpenOptions, Opened};

use crate::support::shared;

fn open(paths: &[&str]) -> Option<Opened> {
    let paths: Option<Vec<PathBuf>> = paths.iter().map(|path| shared(path)).collect();
    Some(trace::open(&paths?, &OpenOptions::default()).unwrap())
}

fn ranks(job: &Job) -> Vec<u32> {
    job.ranks.iter().map(|rank| rank.rank).collect()
}

fn attached(job: &Job) -> usize {
    job.ranks.iter().filter(|rank| rank.trace.is_some() && rank.execution_trace.is_some()).count()
}

#[test]
fn eight_ranks_in_one_archive_get_their_execution_traces_from_another() {
    let Some(opened) = open(&["dlrm-v100x8"]) else { return };
    assert_eq!(opened.jobs.len(), 1);
    assert_eq!(ranks(&opened.jobs[0]), [0, 1, 2, 3, 4, 5, 6, 7]);
    for rank in &opened.jobs[0].ranks {
        let path = rank.execution_trace.as_ref().unwrap().path.display().to_string();
        assert!(path.ends_with(&format!("dlrm_eg_{}.json", rank.rank)), "rank {}: {path}", rank.rank);
    }
}

#[test]
fn two_runs_of_four_ranks_stay_two_jobs() {
    let Some(opened) = open(&["torchrec-v100x4", "torchrec-v100x4-straggler"]) else { return };
    let jobs: Vec<Vec<u32>> = opened.jobs.iter().map(ranks).collect();
    assert_eq!(jobs, [[0, 1, 2, 3], [0, 1, 2, 3]]);
    for job in &opened.jobs {
        let folder = |rank: usize| job.ranks[rank].trace.as_ref().unwrap().path.parent().unwrap().to_owned();
        assert!((1..4).all(|rank| folder(rank) == folder(0)));
    }
}

#[test]
fn files_that_do_not_belong_together_are_separate_jobs() {
    for (folder, jobs) in [("bert-small-h100-mi300", 2), ("resnet50-v100-dataloader", 2), ("tiny-critical-path", 3)] {
        let Some(opened) = open(&[folder]) else { continue };
        assert_eq!(opened.jobs.len(), jobs, "{folder}");
    }
}

#[test]
fn an_execution_trace_is_attached_by_process_name_or_folder() {
    for folder in ["tiny-simple-add-et", "linear-2080ti-et", "resnet-2080ti-et"] {
        let Some(opened) = open(&[folder]) else { continue };
        assert_eq!((opened.jobs.len(), attached(&opened.jobs[0])), (1, 1), "{folder}");
    }
}

#[test]
fn execution_traces_of_the_ranks_of_one_run_are_one_job_without_profiler_traces_too() {
    let Some(opened) = open(&["dlrm-v100x8/dlrm_pytorch_et.tar.gz"]) else { return };
    assert_eq!((opened.jobs.len(), ranks(&opened.jobs[0])), (1, (0..8).collect()));
    let Some(opened) = open(&["gpt2-et", "et-1.0.3", "et-1.1.1-pt2"]) else { return };
    assert_eq!(opened.jobs.len(), 3);
}

#[test]
fn an_execution_trace_beside_a_named_trace_is_found() {
    let Some(opened) = open(&["cpu-captured/mlp-b64-fp32-cpu.kineto.json.gz"]) else { return };
    assert_eq!((opened.jobs.len(), attached(&opened.jobs[0])), (1, 1));
}

/// `file[:member]` and number of nodes, of the rows of the table that are execution traces.
fn row(line: &str) -> Option<(String, String, usize)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, name, _, format, nodes, ..] = cells.as_slice() else { return None };
    let schema = format.strip_prefix("ET ")?;
    Some(((*name).to_owned(), schema.to_owned(), nodes.parse().ok()?))
}

fn execution_traces(opened: Opened) -> Vec<ExecutionTrace> {
    opened.jobs.into_iter().flat_map(|job| job.ranks).filter_map(|rank| rank.execution_trace).collect()
}

#[test]
fn every_shared_execution_trace_holds_what_the_table_says() {
    let Some(table) = shared("SOURCES.md") else { return };
    let rows: Vec<_> = std::fs::read_to_string(table).unwrap().lines().filter_map(row).collect();
    assert!(rows.len() >= 14, "only {} rows of the table were understood", rows.len());
    for (name, schema, nodes) in rows {
        let (file, member) = name.split_once(':').unwrap_or((&name, &name));
        let Some(opened) = open(&[file]) else { continue };
        let found = execution_traces(opened);
        let ends = |trace: &&ExecutionTrace| trace.path.to_string_lossy().ends_with(member);
        let trace = found.iter().find(ends).unwrap_or_else(|| panic!("{name} was not found"));
        assert_eq!((trace.schema.as_str(), trace.nodes.len(), trace.skipped_nodes), (&*schema, nodes, 0), "{name}");
    }
}

#[test]
fn a_flat_and_a_nested_node_are_read_alike() {
    let Some(opened) = open(&["dlrm-v100x8/dlrm_pytorch_et.tar.gz", "gpt2-et"]) else { return };
    for trace in execution_traces(opened) {
        let node = trace.nodes.iter().find(|node| trace.names.get(node.name) == "aten::addmm").unwrap();
        assert!(trace.names.get(node.op_schema).starts_with("aten::addmm(Tensor self"));
        assert_eq!((node.inputs.count, node.outputs.count), (5, 1));
        let trace::execution_trace::EtValue::Tensor(tensor) = trace.values_of(&node.outputs)[0] else { panic!() };
        let tensor = trace.tensor(tensor).unwrap();
        let device = trace.names.get(tensor.device);
        assert!(tensor.elements > 0 && (device.starts_with("cuda:") || device == "cpu"), "{tensor:?} on {device}");
    }
}

#[test]
fn collectives_of_the_old_form_are_read_by_position() {
    let Some(opened) = open(&["dlrm-v100x8"]) else { return };
    for rank in &opened.jobs[0].ranks {
        let trace = rank.execution_trace.as_ref().unwrap();
        let named = |name: &str| trace.collectives.iter().filter(|(_, c)| trace.names.get(c.name) == name).count();
        assert_eq!((trace.rank, trace.collectives.len() > 4), (Some(rank.rank), true));
        assert!(named("wait") > 0 && named("all_to_allv") + named("all_to_all") + named("alltoall") > 0);
    }
}

#[test]
fn a_rank_without_work_is_left_out_of_its_job_and_said() {
    let file = |rank: u32, events: &str| {
        format!(
            r#"{{"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": 2}}, "traceEvents": [{events}]}}"#
        )
    };
    let operator = r#"{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 10, "dur": 5}"#;
    let mark =
        r#"{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 9, "dur": 8}"#;
    let files = [file(0, mark), file(1, &format!("{mark}, {operator}"))];
    let opened = trace::open_bytes(&[("r0.json", files[0].as_bytes()), ("r1.json", files[1].as_bytes())]).unwrap();
    assert_eq!(opened.jobs.iter().map(ranks).collect::<Vec<_>>(), [[1]]);
    let said: Vec<_> = opened.diagnostics.sorted().into_iter().filter(|note| note.code == "nothing-to-model").collect();
    assert_eq!(said.len(), 1);
    assert!(said[0].message.contains("r0.json"), "{said:?}");
}

#[test]
fn a_copy_of_a_trace_is_no_second_rank() {
    let of = |name: &str, ts: u32| {
        format!(
            r#"{{"traceEvents": [{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1, "ts": {ts}, "dur": 5}}]}}"#
        )
    };
    let ranks_of = |files: &[(&str, String)]| {
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
        let opened = trace::open_bytes(&files).unwrap();
        let said = opened.diagnostics.sorted().into_iter().filter(|note| note.code == "repeated-trace").count();
        (opened.jobs.iter().map(|job| ranks(job).len()).collect::<Vec<_>>(), said)
    };
    let trace = of("c10d::allreduce_", 10);
    assert_eq!(ranks_of(&[("a.json", trace.clone()), ("b.json", trace.clone())]), (vec![1, 1], 1));
    assert_eq!(ranks_of(&[("a.json", trace.clone()), ("b.json", of("c10d::allreduce_", 11))]), (vec![2], 0));
    let told =
        |rank: u32| trace.replacen('{', &format!(r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "#), 1);
    assert_eq!(ranks_of(&[("a.json", told(0)), ("b.json", told(1))]), (vec![2], 0), "they say that they are two");
}

//! Answers that looked exact and were wrong on traces of single steps, of full queues and of one-off work.

use retime::session::Outcome;
use retime_core::scenario::Scenario;

use crate::support::jobs::{loaded, of_shared, opened};
use crate::support::program::{json, retime};
use crate::support::{engine, shared};

/// The outcomes of single edits of the shared trace that the files of `folder` make, as far as there is one.
fn outcomes(folder: &str, files: &[&str], lines: &[&str]) -> Option<Vec<Outcome>> {
    let path = |file: &&str| shared(&format!("{folder}/{file}"));
    let job = loaded(&files.iter().map(path).collect::<Option<Vec<_>>>()?);
    Some(lines.iter().map(|&line| engine().evaluate(job, &Scenario::parse([line]).unwrap(), 0)).collect())
}

#[test]
fn behind_a_backlog_less_work_is_never_a_longer_iteration() {
    let lines = [1.0, 0.9, 0.5, 0.2, 0.1, 0.07, 0.05, 0.0].map(|by| format!("scale kind=kernel x{by}"));
    let lines: Vec<&str> = lines.iter().map(String::as_str).chain(["remove family=other"]).collect();
    let traces = [
        ("hip-graph-piecewise-mi300", "graph_execution.json.gz"),
        ("weird-graph-decode-mi300", "sglang_Qwen3-8B_decode.json.gz"),
    ];
    for (folder, file) in traces {
        let Some(outcomes) = outcomes(folder, &[file], &lines) else { return };
        let times: Vec<i64> = outcomes.iter().map(|outcome| outcome.summary.steady_ns.0).collect();
        assert!(times[..8].is_sorted_by(|slow, fast| slow >= fast), "{folder}: {times:?}");
        assert!(times[8] <= times[0], "{folder}: {times:?}");
    }
}

#[test]
fn code_that_was_loaded_once_is_not_loaded_again() {
    let lines = ["scale kind=kernel x1", "checkpoint phase=forward segments=1", "accumulate 2"];
    let Some(outcomes) = outcomes("norm-layers-mi300", &["normalization_layer_test.json.gz"], &lines) else { return };
    let time = |at: usize| outcomes[at].summary.steady_ns.0 as f64;
    for at in [1, 2] {
        let ratio = time(at) / time(0);
        assert!((1.0..1.5).contains(&ratio), "{}: {ratio}", lines[at]);
        let said = outcomes[at].steps[0].unhandled.iter().any(|text| text.contains("as the first of a kernel does"));
        assert!(said, "{:?}", outcomes[at].steps[0].unhandled);
    }
}

#[test]
fn what_is_not_explained_may_hang_on_work_that_the_path_does_not_show() {
    let lines = ["scale kind=kernel x1", "scale kind=kernel x0.5"];
    let ranks = ["rank-0.json.gz", "rank-1.json.gz"];
    let Some(outcomes) = outcomes("weird-sampled-2of128", &ranks, &lines) else { return };
    let summary = &outcomes[1].summary;
    let device = &summary.device_time;
    let change = 1.0 - device.after().0 as f64 / device.base_ns.0 as f64;
    let below = (summary.steady_ns - summary.steady_band.low_ns).0 as f64 / summary.steady_ns.0 as f64;
    assert!(summary.unexplained_share > 0.5 && change > 0.1, "{} {change}", summary.unexplained_share);
    assert!(below > 0.99 * summary.unexplained_share * change, "{below}");
}

#[test]
fn a_cast_that_goes_takes_its_host_time_with_it_where_another_of_its_operator_stays() {
    let Some(job) = of_shared("dlrm-v100x8/dlrm_kineto.tar.gz") else { return };
    let [one, other] =
        [["quantize-weights int8", "mixed-precision bf16"], ["mixed-precision bf16", "quantize-weights int8"]]
            .map(|lines| job.time(&lines) as f64);
    assert!((one / other - 1.0).abs() < 1e-3, "{one} {other}");
}

#[test]
fn kernels_with_work_on_another_stream_between_them_do_not_become_one() {
    let files = ["linear_et.json.gz", "linear_kineto.json.gz"];
    let Some(paths) = files.iter().map(|file| shared(&format!("linear-2080ti-et/{file}"))).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let job = opened(&paths);
    let [one, other] =
        [["parallelize name~addmm", "fuse family=elementwise"], ["fuse family=elementwise", "parallelize name~addmm"]]
            .map(|lines| job.time(&lines) as f64);
    assert!((one / other - 1.0).abs() < 1e-2, "{one} {other}");
}

#[test]
fn repeated_collectives_of_several_ranks_open_again_as_they_were() {
    let Some(first) = shared("torchrec-v100x4") else { return };
    let first = first.display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("again.json").display().to_string();
    let step = ["--step", "accumulate 2"];
    retime().args(["export", &first, "-o", &into]).args(step).assert().success();
    let window = |answer: &serde_json::Value| answer["simulated_ns"].as_f64().unwrap();
    let edited = window(&json(&["simulate", &first, step[0], step[1]]));
    let again = window(&json(&["simulate", &folder.path().display().to_string()]));
    assert!((again / edited - 1.0).abs() < 0.01, "{edited} opens as {again}");
}

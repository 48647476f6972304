//! The papers' algorithms on recorded traces, and host overheads from a trace's own database.

use retime_core::analysis::edited::Edited;
use retime_core::analysis::published::{aligned, one_device, recorded_ops, several_ranks};
use retime_core::cost::OverheadKind;
use retime_core::cost::overhead::{Overheads, ProfilerCost, extract};
use retime_core::graph::{NodeId, TaskKind};
use retime_core::scenario::Scenario;
use retime_core::units::DurNs;
use serde_json::Value;

use crate::support::jobs::loaded;
use crate::support::{engine, sample, shared};

/// A measured step on a GPU, a measured one on eight, and one of a host.
const GPU: &str = "public/vgg13-train-h100.json.gz";
const RANKS: &str = "public/dlrm-v100x8";
const HOST: &str = "dlrm-ddp-b256-fp32-cpu.kineto.json.gz";

fn simulate(arguments: &[&str]) -> Value {
    let mut command = assert_cmd::Command::cargo_bin("retime").unwrap();
    let output = command.arg("simulate").args(arguments).arg("--json").assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).unwrap()
}

#[test]
fn every_kernel_of_the_step_and_its_host_time_is_in_the_operators() {
    let engine = engine();
    for name in [GPU, HOST] {
        let job = loaded(&[sample(name)]);
        let outcome = engine.evaluate(job, &Scenario::default(), 0);
        let ranks = recorded_ops(&Edited::of(&outcome.resolved), &outcome.resolved);
        let graph = &job.graph;
        let part = &graph.ranks[0];
        let inside = part.iteration_start..part.iteration_end;
        let in_step = |&node: &NodeId| inside.contains(&graph.tasks[node].measured_start);
        let sum = |wanted: fn(TaskKind) -> bool| -> i64 {
            let nodes = graph.tasks.node_indices().filter(in_step).filter(|&node| wanted(graph.tasks[node].kind));
            nodes.map(|node| graph.tasks[node].duration.0).sum()
        };
        let host = sum(|kind| matches!(kind, TaskKind::Host(_) | TaskKind::Runtime | TaskKind::Compute));
        let told: i64 = ranks[0]
            .ops
            .iter()
            .map(|op| {
                let [_, t1, t2, t3, t4, t5] = op.overheads;
                let count = op.kernels.len() as i64;
                if count == 0 { t1 + t5 } else { t1 + t2 + t3 + count * t4 + (count - 1) * t5 }
            })
            .sum::<i64>()
            + ranks[0].left_out.0;
        assert!(((told as f64 / host as f64) - 1.0).abs() < 0.02, "{name}: {told} of {host} ns of the host");
    }
}

#[test]
fn the_command_prints_what_the_transcribed_algorithm_gives() {
    let engine = engine();
    let path = sample(GPU);
    let job = loaded(std::slice::from_ref(&path));
    let outcome = engine.evaluate(job, &Scenario::default(), 0);
    let ranks = recorded_ops(&Edited::of(&outcome.resolved), &outcome.resolved);
    let answer = simulate(&[&path.display().to_string(), "--as", "lin2022"]);
    assert_eq!(answer["published"]["simulated_ns"], one_device(&ranks[0].ops).0);
    assert_eq!(answer["simulated_ns"], outcome.summary.simulated_ns.0, "our own replay stays beside it");
    let error = answer["published"]["error"].as_f64().unwrap();
    assert!(error.abs() < 0.25, "{error}");
}

#[test]
fn ranks_wait_for_one_another_in_the_second_algorithm_only() {
    let engine = engine();
    let job = loaded(&[sample(RANKS)]);
    let outcome = engine.evaluate(job, &Scenario::default(), 0);
    let ranks = recorded_ops(&Edited::of(&outcome.resolved), &outcome.resolved);
    let together = several_ranks(&aligned(&ranks).unwrap());
    let kernels: DurNs =
        ranks[0].ops.iter().filter(|op| !op.is_collective).flat_map(|op| &op.kernels).map(|&time| DurNs(time)).sum();
    assert!(together > kernels, "{together} for {kernels} of kernels on one rank");
    assert!(ranks[0].ops.iter().any(|op| op.is_collective));
    assert!(ranks[0].ops.iter().any(|op| op.reads_collective), "something waits for what was exchanged");
}

#[test]
fn an_edit_shortens_the_papers_time_too() {
    let path = sample(GPU).display().to_string();
    let time = |edits: &[&str]| {
        let answer = simulate(&[&[path.as_str(), "--as", "lin2022"], edits].concat());
        assert_eq!(answer["published"]["error"].is_null(), !edits.is_empty());
        answer["published"]["simulated_ns"].as_i64().unwrap()
    };
    assert!(time(&["--step", "scale kind=kernel x0.5"]) < time(&[]));
}

#[test]
fn a_trace_takes_its_own_time_on_its_own_database() {
    for name in [GPU, HOST, RANKS, "mlp-b256-fp32-cpu.kineto.json.gz"] {
        let path = sample(name);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.json");
        std::fs::write(&file, extract(&loaded(std::slice::from_ref(&path)).graph, ProfilerCost::default()).to_json())
            .unwrap();
        let answer = simulate(&[&path.display().to_string(), "--overheads", &file.display().to_string()]);
        let (own, now) = (answer["base_simulated_ns"].as_f64().unwrap(), answer["simulated_ns"].as_f64().unwrap());
        assert!((now / own - 1.0).abs() < 0.05, "{name}: {now} for {own}");
    }
}

#[test]
fn a_database_keeps_long_calls_through_files_and_merges() {
    let Some(path) = shared("resnet-2080ti-et") else { return };
    let database = extract(&loaded(&[path]).graph, ProfilerCost::default());
    let again = Overheads::from_json(&database.to_json()).unwrap();
    let calls =
        |overheads: &Overheads| overheads.spread(OverheadKind::T4, "cudaLaunchKernel").unwrap().values().to_vec();
    let (before, after) = (calls(&database), calls(&again));
    assert_eq!(before.len(), after.len());
    assert!(before.iter().zip(&after).all(|(a, b)| (a - b).abs() < 1e-6 * a.max(1.0)));
    let mut twice = database.clone();
    twice.merge(&database);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (one, two) = (mean(&before), mean(&calls(&twice)));
    assert!((two / one - 1.0).abs() < 0.05, "{one} {two}");
}

#[cfg(feature = "tui")]
mod screen {
    use retime::tui::ScriptedScreen;
    use retime_core::units::DurNs;

    use super::{GPU, Value, simulate};
    use crate::screen_samples::{open, text};
    use crate::support::sample;

    const EDIT: &str = "scale kind=kernel x0.5";

    fn play(screen: &mut ScriptedScreen, keys: &str) -> String {
        screen.press(keys).unwrap();
        screen.settle();
        text(screen)
    }

    /// The lines of the header.
    fn header(shown: &str) -> String {
        shown.lines().take(2).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_header_tells_the_papers_time_under_its_name_as_the_command_does() {
        let path = sample(GPU).display().to_string();
        let time = |answer: &Value| DurNs(answer["published"]["simulated_ns"].as_i64().unwrap()).to_string();
        let [before, after] = [&[][..], &["--step", EDIT]]
            .map(|edit| time(&simulate(&[&[path.as_str(), "--as", "lin2022"], edit].concat())));
        for size in [(40, 10), (80, 24), (120, 40), (200, 60)] {
            let mut screen = open("vgg13-train-h100", size, &[]);
            let own = header(&text(&screen));
            let shown = header(&play(&mut screen, ":as lin2022<enter>"));
            assert!(shown.contains(&format!("as Lin 2022 {before}")), "{size:?}\n{shown}");
            let shown = header(&play(&mut screen, &format!(":{EDIT}<enter>")));
            assert!(shown.contains(&format!("as Lin 2022 {before} ▶ {after}")), "{size:?}\n{shown}");
            assert!(
                size.0 < 80
                    || shown.contains("replay ")
                        && shown.contains(if size.0 < 100 {
                            "   replay 348.1 ms"
                        } else {
                            "own replay, as drawn: 348.1 ms"
                        }),
                "{size:?}\n{shown}"
            );
            assert!(!shown.contains("iteration "), "{size:?}\n{shown}");
            play(&mut screen, "u");
            assert_eq!(header(&play(&mut screen, ":as replay<enter>")), own, "{size:?}");
        }
    }

    #[test]
    fn ranks_are_told_by_the_second_algorithm_and_an_unknown_one_is_refused() {
        let mut screen = open("dlrm-v100x8", (120, 40), &[]);
        let shown = header(&play(&mut screen, ":as lin2024<enter>"));
        let answer = simulate(&[&sample(super::RANKS).display().to_string(), "--as", "lin2024"]);
        let time = DurNs(answer["published"]["simulated_ns"].as_i64().unwrap());
        assert!(shown.contains(&format!("as Lin 2024 {time}")), "{shown}");
        let shown = play(&mut screen, ":as nobody<enter>");
        assert!(shown.contains("no `nobody`: lin2022, lin2024, replay"), "{shown}");
    }

    #[test]
    #[cfg(unix)]
    fn the_program_starts_with_it() {
        use crate::support::pty::Session;
        let session = Session::start(env!("CARGO_BIN_EXE_retime"), &["--as", "lin2022"]);
        session.wait_for("as Lin 2022");
        session.wait_for("own replay");
        session.signal("TERM");
    }
}

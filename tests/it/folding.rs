//! Ranks that did the same are simulated once, with the times that all of them have.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use retime::session::synthetic::{JobSpec, Machine, Network, SyntheticJob};
use retime::session::{Engine, ExportFormat, Exported, Loaded, export_to};
use retime_core::graph::{BuildOptions, RankPart};
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;

use crate::support::{engine, shared};

const OPTIONS: BuildOptions = BuildOptions { iteration: retime_core::graph::IterationChoice::Default };

fn write_job(engine: &Engine, folder: &Path, spec: JobSpec) {
    let machine = Machine::of(engine, "V100").unwrap();
    SyntheticJob::draw(spec, Network::default(), machine.device.memory.0).write(folder, machine).unwrap();
}

fn load(engine: &Engine, folder: &Path) -> Loaded {
    engine.load(&[folder.to_owned()], &OpenOptions::default(), &OPTIONS).unwrap().swap_remove(0)
}

fn twelve_ranks_of_three_kinds() -> (Arc<Engine>, tempfile::TempDir) {
    let (engine, folder) = (engine(), tempfile::tempdir().unwrap());
    let spec = JobSpec { ranks: 12, kinds: 3, tables_per_rank: 4, local_batch: 64, ..JobSpec::default() };
    write_job(&engine, folder.path(), spec);
    (engine, folder)
}

fn simulated(engine: &Engine, loaded: &Loaded, lines: &[&str]) -> f64 {
    let scenario = Scenario::parse(lines.iter().copied()).unwrap();
    assert_eq!(loaded.refolded(&scenario), None, "{lines:?} needs other ranks");
    engine.evaluate(loaded, &scenario, 0).summary.simulated_ns.0 as f64
}

#[test]
fn a_folded_job_takes_as_long_as_all_its_ranks() {
    let (engine, folder) = twelve_ranks_of_three_kinds();
    let folded = load(&engine, folder.path());
    let all = engine.unfold(&folded, &OPTIONS).unwrap();
    assert_eq!(folded.graph.ranks.iter().map(RankPart::count).collect::<Vec<_>>(), [4, 4, 4]);
    assert_eq!((all.graph.ranks.len(), folded.graph.rank_count()), (12, 12));
    for lines in [
        &[][..],
        &["scale kind=kernel x2"],
        &["scale kind=host x0.5"],
        &["compress-comm 2"],
        &["swap-gpu H100"],
        &["swap-link PCIe3"],
    ] {
        let (one, other) = (simulated(&engine, &folded, lines), simulated(&engine, &all, lines));
        assert!((one / other - 1.0).abs() < 1e-3, "{lines:?}: {one} folded, {other} with all ranks");
    }
    let diagnostics = folded.diagnostics();
    let said: Vec<&str> = diagnostics.sorted().iter().map(|found| found.code).collect();
    assert!(said.contains(&"folded-ranks"));
    assert!(!said.contains(&"unmatched-collectives") && !said.contains(&"table-facts"), "{said:?}");
}

#[test]
fn waiting_counts_every_rank_that_waits() {
    let (engine, folder) = twelve_ranks_of_three_kinds();
    let folded = load(&engine, folder.path());
    let all = engine.unfold(&folded, &OPTIONS).unwrap();
    let waited = |loaded: &Loaded| -> i64 {
        let ranks = &loaded.replay.summary.ranks;
        ranks.iter().map(|rank| rank.wait_ns.0 * i64::from(rank.count)).sum()
    };
    let (one, other) = (waited(&folded) as f64, waited(&all) as f64);
    assert!((one / other - 1.0).abs() < 0.01, "{one} {other}");
    assert!((folded.replay.summary.gpu_busy - all.replay.summary.gpu_busy).abs() < 1e-3);
}

#[test]
fn an_edit_on_one_rank_unfolds_it_and_undoing_folds_it_again() {
    let (engine, folder) = twelve_ranks_of_three_kinds();
    let folded = load(&engine, folder.path());
    let lines = ["scale kind=kernel & rank=7 x10"];
    let scenario = Scenario::parse(lines).unwrap();
    assert!(folded.refolded(&scenario).is_some());
    let reopened = engine.reopen(&folded, &scenario, &OPTIONS).unwrap();
    let counts: Vec<(u32, u32)> = reopened.graph.ranks.iter().map(|part| (part.rank.0, part.count())).collect();
    assert_eq!(counts, [(0, 4), (1, 3), (2, 4), (7, 1)]);
    let all = engine.unfold(&folded, &OPTIONS).unwrap();
    let (one, other) = (simulated(&engine, &reopened, &lines), simulated(&engine, &all, &lines));
    assert!((one / other - 1.0).abs() < 1e-3, "{one} {other}");
    assert!(one > simulated(&engine, &all, &[]) * 1.1);
    let again = engine.reopen(&reopened, &Scenario::default(), &OPTIONS).unwrap();
    assert_eq!(again.folding, folded.folding);
    let half = Scenario::parse(["scale kind=kernel & rank<6 x2"]).unwrap();
    let halves = engine.reopen(&folded, &half, &OPTIONS).unwrap();
    assert_eq!(halves.graph.ranks.iter().map(RankPart::count).collect::<Vec<_>>(), [2; 6]);
}

#[test]
fn ranks_that_differ_in_time_or_tables_stay_apart() {
    let (engine, folder) = (engine(), tempfile::tempdir().unwrap());
    write_job(&engine, folder.path(), JobSpec { ranks: 4, ..JobSpec::default() });
    let loaded = load(&engine, folder.path());
    assert!(!loaded.folding.folds());
    assert_eq!(loaded.graph.rank_count(), 4);
}

#[test]
fn tables_move_only_where_every_rank_is_there() {
    let (engine, folder) = twelve_ranks_of_three_kinds();
    let folded = load(&engine, folder.path());
    let scenario = Scenario::parse(["reshard-tables t0:r7"]).unwrap();
    let all = engine.reopen(&folded, &scenario, &OPTIONS).unwrap();
    assert_eq!(all.graph.ranks.len(), 12);
    let tables = retime::session::JobTables::find(&folded);
    assert!(tables.immovable(3).is_some_and(|why| why.contains("all-ranks")));
    assert_eq!(retime::session::JobTables::find(&all).immovable(12), None);
}

#[test]
fn scaled_ranks_are_counted_on_those_that_are_simulated() {
    let (engine, folder) = twelve_ranks_of_three_kinds();
    let folded = load(&engine, folder.path());
    let outcome = engine.evaluate(&folded, &Scenario::parse(["scale-ranks 1024"]).unwrap(), 0);
    let counts: Vec<u32> = outcome.summary.ranks.iter().map(|rank| rank.count).collect();
    assert_eq!(counts.iter().sum::<u32>(), 1024);
    assert!(counts.iter().all(|&count| (340..=344).contains(&count)), "{counts:?}");
}

#[test]
fn a_folded_job_is_exported_with_all_its_ranks() {
    let (engine, folder) = twelve_ranks_of_three_kinds();
    let folded = load(&engine, folder.path());
    let out = tempfile::tempdir().unwrap();
    let exported = Exported { loaded: &folded, outcome: &folded.replay, board: None };
    let (files, _) = export_to(&engine, out.path(), exported, ExportFormat::Chrome, false).unwrap();
    assert_eq!(files.len(), 12);
    let again = load(&engine, out.path());
    assert_eq!(again.graph.rank_count(), 12);
    let (one, other) = (again.replay.summary.simulated_ns, folded.replay.summary.simulated_ns);
    assert!((one.0 as f64 / other.0 as f64 - 1.0).abs() < 0.01, "{one} {other}");
}

/// A recorded data-parallel rank under several numbers is a recorded job of equal ranks.
#[test]
fn recorded_ranks_fold_too() {
    let Some(file) = shared("cpu-captured/dlrm-ddp-b128-fp32-cpu-ws2-r0.kineto.json.gz") else { return };
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap()).read_to_string(&mut text).unwrap();
    let (engine, folder) = (engine(), tempfile::tempdir().unwrap());
    let as_rank = |rank: u32| {
        let path: PathBuf = folder.path().join(format!("rank{rank}.json"));
        let numbered = text.replace(r#""rank": 0, "world_size": 2"#, &format!(r#""rank": {rank}, "world_size": 6"#));
        std::fs::write(path, numbered).unwrap();
    };
    (0..6).for_each(as_rank);
    let folded = load(&engine, folder.path());
    assert_eq!(folded.graph.ranks.iter().map(RankPart::count).collect::<Vec<_>>(), [6]);
    let all = engine.unfold(&folded, &OPTIONS).unwrap();
    for lines in [&[][..], &["scale kind=compute x2"]] {
        let (one, other) = (simulated(&engine, &folded, lines), simulated(&engine, &all, lines));
        assert!((one / other - 1.0).abs() < 0.01, "{lines:?}: {one} folded, {other} with all ranks");
    }
}

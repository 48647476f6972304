//! Moving embedding tables between the ranks of real traces.

use std::path::PathBuf;

use retime_core::graph::{self, TimedGraph};
use retime_core::scenario::tables::Tables;
use retime_core::scenario::{Base, Context, Resolved, Scenario, resolve};
use retime_core::units::Bytes;

use crate::support::jobs::opened;
use crate::support::samples;

fn build(paths: &[PathBuf]) -> (&'static Base, &'static Context) {
    let opened = opened(paths);
    (&opened.base, &opened.context)
}

/// Two ranks with four equal tables each, one look-up operator per table.
fn two_ranks() -> (&'static Base, &'static Context) {
    let folder = samples();
    build(&[0, 1].map(|rank| folder.join(format!("dlrm-ddp-b128-fp32-cpu-ws2-r{rank}.kineto.json.gz"))))
}

fn shared(name: &str) -> Option<(&'static Base, &'static Context)> {
    Some(build(&[crate::support::shared(name)?]))
}

fn run(base: &Base, context: &Context, lines: &[&str]) -> Resolved {
    resolve(base, &Scenario::parse(lines.iter().copied()).unwrap(), context)
}

fn assert_is_base(base: &Base, resolved: &Resolved) {
    let lowered = TimedGraph::lower(base.graph());
    assert_eq!(resolved.timed.durations, lowered.durations);
    assert_eq!(resolved.timed.lags, lowered.lags);
    assert_eq!(resolved.timed.predecessors, lowered.predecessors);
    assert!(resolved.changes.is_empty());
}

/// New over traced time of each rank's look-ups, forward.
fn ratios(base: &Base, resolved: &Resolved) -> Vec<f64> {
    let ratio = |nodes: &Vec<graph::NodeId>| {
        let now: i64 = nodes.iter().map(|&node| resolved.prediction(node).duration.0).sum();
        let traced: i64 = nodes.iter().map(|&node| base.graph().tasks[node].duration.0).sum();
        now as f64 / traced as f64
    };
    Tables::find(base).ranks.iter().map(|rank| ratio(&rank.forward)).collect()
}

#[test]
fn tables_of_single_lookups_are_found_once_with_their_sizes() {
    let (base, _) = two_ranks();
    let found = Tables::find(base);
    assert_eq!(found.placement(), [0, 0, 0, 0, 1, 1, 1, 1]);
    for table in &found.tables {
        assert_eq!((table.rows, table.dim, table.batch), (Some(80_000), Some(128), Some(256)));
        assert!((table.pooling.unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(table.bytes, Some(Bytes(80_000 * 128 * 4)));
        assert!(table.forward.0 > 0 && table.backward.0 > 0 && !table.is_mean && !table.replicated);
    }
}

/// The placement that the job was traced with.
const TRACED: &str = "reshard-tables t0:r0 t1:r0 t2:r0 t3:r0 t4:r1 t5:r1 t6:r1 t7:r1";

#[test]
fn a_table_moved_away_and_back_leaves_the_base_bit_for_bit() {
    let (base, context) = two_ranks();
    let moved = run(base, context, &["reshard-tables t3:r1"]);
    assert!(moved.changes.len() > 10 && moved.reports[0].changed > 10, "{:?}", moved.reports);
    assert_is_base(base, &run(base, context, &["reshard-tables t3:r1", "reshard-tables t3:r0"]));
    assert_is_base(base, &run(base, context, &["reshard-tables size_greedy", TRACED]));
}

#[test]
fn a_plan_that_is_the_placement_changes_nothing() {
    let (base, context) = two_ranks();
    for line in [TRACED, "reshard-tables t0:r0 t7:r1"] {
        let resolved = run(base, context, &[line]);
        assert_is_base(base, &resolved);
        assert_eq!(resolved.reports[0].summary, "every table is where it was");
    }
}

#[test]
fn look_up_work_is_conserved_and_the_exchange_grows_with_the_largest_share() {
    let (base, context) = two_ranks();
    let moved = run(base, context, &["reshard-tables t0:r1 t1:r1"]);
    let ratios = ratios(base, &moved);
    assert!((ratios[0] - 0.5).abs() < 1e-3 && (ratios[1] - 1.5).abs() < 1e-3, "{ratios:?}");
    let summary = &moved.reports[0].summary;
    assert!(summary.starts_with("2 tables moved, look-ups r0 -50 %, r1 +50 %"), "{summary}");
    assert!(summary.ends_with("exchange of rows +50 %"), "{summary}");
    let exchange = base.graph().collectives.iter().find(|one| base.graph().names.get(one.kind) == "all-to-all");
    for &node in &exchange.unwrap().members {
        assert!(moved.prediction(node).duration > base.graph().tasks[node].duration);
    }
}

#[test]
fn unknown_tables_and_ranks_are_told_and_the_rest_still_moves() {
    let (base, context) = two_ranks();
    let moved = run(base, context, &["reshard-tables t99:r1 t0:r9 t3:r1"]);
    let told = moved.reports[0].lines().join("\n");
    assert!(told.contains("there is no table t99: t0 to t7 can move"), "{told}");
    assert!(told.contains("there is no rank 9"), "{told}");
    assert!(moved.reports[0].summary.starts_with("1 table moved"), "{:?}", moved.reports);
}

#[test]
fn one_rank_has_nowhere_to_move_tables_to() {
    let folder = samples();
    let (base, context) = build(&[folder.join("dlrm-ddp-b64-fp32-cpu.kineto.json.gz")]);
    let resolved = run(base, context, &["reshard-tables naive"]);
    assert!(resolved.reports[0].lines()[0].starts_with("one rank is loaded"));
    assert_is_base(base, &resolved);
}

#[test]
fn batched_lookups_of_eight_ranks_share_their_recorded_sums() {
    let Some((base, context)) = shared("dlrm-v100x8") else { return };
    let found = Tables::find(base);
    assert_eq!(found.placement(), (0..24).map(|table| table / 3).collect::<Vec<_>>());
    let first = &found.tables[0];
    // Recorded of rank 0: 640 649 648 elements in three tables, gradient [128, 48], 768 indices.
    assert_eq!((first.rows, first.dim, first.batch), (Some(640_649_648 / 3 / 16), Some(16), Some(128)));
    assert!(first.is_mean && (first.pooling.unwrap() - 2.0).abs() < 1e-9);
    assert_eq!(found.tables.iter().filter(|table| table.replicated).count(), 2);
    let moved = run(base, context, &["reshard-tables t0:r1"]);
    let ratios = ratios(base, &moved);
    assert!(
        ratios[0] <= 1.0 && ratios[1] >= 1.0 && ratios[2..].iter().all(|&ratio| (ratio - 1.0).abs() < 1e-12),
        "{ratios:?}"
    );
    assert!(moved.reports[0].summary.contains("exchange of rows +33 %"), "{:?}", moved.reports);
    // Rank 3 looks up 104 rows a bag in 66 µs, rank 7 15 rows in 9 µs: what the ranks took tells what one of them takes with both.
    let both = self::ratios(base, &run(base, context, &["reshard-tables t9:r7 t10:r7 t11:r7"]))[7];
    assert!(both > 5.0 && both < 9.5, "{both}");
    assert_is_base(base, &run(base, context, &["reshard-tables t0:r1", "reshard-tables t0:r0"]));
    let all = "reshard-tables t0:r7 t3:r7 t6:r7 t9:r7 t12:r7 t1:r7 t4:r7 t7:r7 t10:r7 t13:r7 t2:r7 t5:r7";
    let full = run(base, context, &["swap-gpu P4", all]);
    assert!(full.reports[1].lines()[0].contains("rank 7 would hold"), "{:?}", full.reports);
    assert_eq!(full.timed.durations, run(base, context, &["swap-gpu P4"]).timed.durations);
}

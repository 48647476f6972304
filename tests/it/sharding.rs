//! Sharding of made-up jobs: predicted times against a literal transcription of the paper's algorithm, and the search.

use std::path::Path;
use std::sync::Arc;

use retime::session::synthetic::{JobSpec, Machine, Network, Operator, SyntheticJob};
use retime::session::{Communication, Engine, JobTables, Loaded, Sharding};
use retime_core::analysis::collectives::collectives;
use retime_core::analysis::lanes::Times;
use retime_core::analysis::sources::Sources;
use retime_core::analysis::stragglers::reason;
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::scenario::tables::Sharder;
use retime_core::trace::OpenOptions;
use retime_core::units::Bytes;

use crate::support::{engine, samples};

struct Made {
    engine: Arc<Engine>,
    job: SyntheticJob,
    loaded: Loaded,
}

fn make(spec: JobSpec) -> Made {
    let engine = engine();
    let machine = Machine::of(&engine, "V100").unwrap();
    let job = SyntheticJob::draw(spec, Network::default(), machine.device.memory.0);
    let folder = tempfile::tempdir().unwrap();
    job.write(folder.path(), machine).unwrap();
    let paths = [folder.path().to_owned()];
    let loaded = engine.load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0);
    Made { engine, job, loaded }
}

fn write(folder: &Path, name: &str, trace: &[u8]) {
    std::fs::write(folder.join(format!("{name}.pt.trace.json")), trace).unwrap();
}

/// The traces of the ranks of a made-up job.
fn traces(engine: &Engine, spec: JobSpec) -> Vec<Vec<u8>> {
    let machine = Machine::of(engine, "V100").unwrap();
    let folder = tempfile::tempdir().unwrap();
    SyntheticJob::draw(spec, Network::default(), machine.device.memory.0).write(folder.path(), machine).unwrap();
    let path = |rank| folder.path().join(format!("rank{rank}.pt.trace.json"));
    (0..spec.ranks).map(|rank| std::fs::read(path(rank)).unwrap()).collect()
}

fn load(engine: &Engine, folder: &Path) -> Vec<Loaded> {
    engine.load(&[folder.to_owned()], &OpenOptions::default(), &BuildOptions::default()).unwrap()
}

/// The message of a diagnostic.
fn diagnosed(loaded: &Loaded, code: &str) -> Option<String> {
    let diagnostics = loaded.diagnostics();
    diagnostics.sorted().iter().find(|found| found.code == code).map(|found| found.message.clone())
}

/// A trace whose clock is `late_us` ahead and gains `ppm`.
fn with_clock(trace: &[u8], late_us: f64, ppm: f64) -> Vec<u8> {
    let mut json: serde_json::Value = serde_json::from_slice(trace).unwrap();
    for event in json["traceEvents"].as_array_mut().unwrap() {
        if let Some(ts) = event["ts"].as_f64() {
            event["ts"] = ((ts * (1.0 + ppm * 1e-6) + late_us) * 1e3).round().into();
            event["ts"] = (event["ts"].as_f64().unwrap() / 1e3).into();
        }
    }
    serde_json::to_vec(&json).unwrap()
}

#[test]
fn reductions_overlap_the_gradients_of_tables_that_they_do_not_need() {
    let Made { engine, loaded, .. } =
        make(JobSpec { ranks: 4, layers: 6, local_batch: 4096, tables_per_rank: 3, ..JobSpec::default() });
    let time = |lines: &[&str]| {
        let outcome = engine.evaluate(&loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0);
        (outcome.summary.simulated_ns.0, outcome.resolved.reports.first().map_or(0, |report| report.changed))
    };
    let ((as_traced, _), (overlapped, moved)) = (time(&[]), time(&["overlap-comm"]));
    // It runs beside the look-ups' gradients, which take longer: all of it goes.
    let (without, _) = time(&["scale name~allreduce x0"]);
    assert_eq!(moved, 8, "on four ranks, in the step modelled and the one before");
    assert!(as_traced - overlapped > 300_000, "{as_traced} {overlapped}");
    assert!((overlapped - without).abs() <= 1_000, "but for a gap between kernels: {overlapped} {without}");
}

/// [Lin24 Alg. 1] in ns, for `steps` steps one after another: fronts of the host and of both streams of every rank.
fn literal(ranks: &[Vec<Operator>], steps: usize) -> i64 {
    let (mut cpu, mut compute, mut comm) = (vec![0; ranks.len()], vec![0; ranks.len()], vec![0; ranks.len()]);
    for i in (0..steps).flat_map(|_| 0..ranks[0].len()) {
        for (rank, operators) in ranks.iter().enumerate() {
            let op = &operators[i];
            let t = op.overheads;
            cpu[rank] += t[1];
            if op.collective.is_some() || op.reads_collective {
                compute[rank] = compute[rank].max(comm[rank]);
                comm[rank] = compute[rank];
            }
            cpu[rank] += t[2];
            for (_, kernel) in &op.kernels {
                let front = if op.collective.is_some() { &mut comm[rank] } else { &mut compute[rank] };
                *front = (*front + 1_000).max(cpu[rank] + t[4] / 2) + kernel.0;
                cpu[rank] += t[4];
            }
            cpu[rank] += t[5] * (op.kernels.len() as i64 - 1) + t[3];
        }
        if ranks[0][i].collective.is_some() {
            let last = *comm.iter().max().unwrap();
            comm.fill(last);
        }
    }
    (0..ranks.len()).map(|rank| cpu[rank].max(compute[rank]).max(comm[rank])).max().unwrap()
}

/// Spearman's rank correlation.
fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let ranks = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        order.sort_by(|&a, &b| of(&pairs[a]).total_cmp(&of(&pairs[b])));
        let mut ranks = vec![0.0; pairs.len()];
        order.into_iter().enumerate().for_each(|(rank, index)| ranks[index] = rank as f64);
        ranks
    };
    let (a, b) = (ranks(&|pair| pair.0), ranks(&|pair| pair.1));
    let n = pairs.len() as f64;
    let squares: f64 = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum();
    1.0 - 6.0 * squares / (n * (n * n - 1.0))
}

#[test]
fn a_made_up_job_replays_as_the_algorithm_that_made_it() {
    let made = make(JobSpec { ranks: 2, seed: 5, ..JobSpec::default() });
    let operators = made.job.operators(Machine::of(&made.engine, "V100").unwrap());
    let step = (literal(&operators, 3) - literal(&operators, 1)) / 2;
    let summary = &made.loaded.replay.summary;
    for period in [summary.measured_ns, summary.simulated_ns] {
        assert!((period.0 as f64 / step as f64 - 1.0).abs() < 2e-3, "{period} against {step} ns");
    }
    assert_eq!(made.loaded.predicted(), Some("made-up DLRM, seed 5, on V100"));
}

#[test]
fn plans_are_ranked_as_the_papers_algorithm_ranks_them() {
    let mut pairs = Vec::new();
    for seed in 0..10 {
        let made = make(JobSpec { ranks: 4, seed, ..JobSpec::default() });
        let sharding = Sharding::new(&made.loaded, &Scenario::default());
        for sharder in Sharder::ALL {
            let plan = sharding.by(sharder);
            let placement = plan.assignment.iter().map(|&rank| rank as usize).collect();
            let moved = SyntheticJob { placement, ..made.job.clone() };
            let operators = moved.operators(Machine::of(&made.engine, "V100").unwrap());
            let step = (literal(&operators, 3) - literal(&operators, 1)) / 2;
            pairs.push((plan.simulated_ns.unwrap().0 as f64, step as f64));
        }
    }
    let worst = pairs.iter().map(|(predicted, literal)| (predicted / literal - 1.0).abs()).fold(0.0, f64::max);
    assert!(worst < 1e-4, "an error of {worst}");
    for job in pairs.chunks(Sharder::ALL.len()) {
        let correlation = rank_correlation(job);
        assert!(correlation >= 0.99, "{correlation} in {job:?}");
    }
}

#[test]
fn the_search_is_never_worse_than_any_sharder_or_the_traced_placement() {
    for seed in 20..24 {
        let made = make(JobSpec { ranks: 3, tables_per_rank: 6, seed, ..JobSpec::default() });
        let sharding = Sharding::new(&made.loaded, &Scenario::default());
        let best = sharding.best().simulated_ns.unwrap();
        let others = Sharder::ALL.map(|sharder| sharding.by(sharder)).into_iter().chain([sharding.traced()]);
        assert!(others.filter_map(|plan| plan.simulated_ns).all(|time| best <= time));
    }
}

#[test]
fn the_search_cuts_tables_and_keeps_some_in_host_memory_where_they_fit_no_other_way() {
    let made = make(JobSpec { ranks: 4, tables_per_rank: 6, seed: 11, ..JobSpec::default() });
    let sharding = || Sharding::new(&made.loaded, &Scenario::default());
    let tables: Vec<u64> = sharding().tables().sharded().iter().map(|table| table.bytes.unwrap().0).collect();
    let (all, largest) = (tables.iter().sum::<u64>(), tables.iter().copied().max().unwrap());
    let within = |limit: u64| sharding().within(Some(Bytes(limit))).best();
    let tight = within((all / 4 + all / 40).min(largest - 1));
    assert!(
        tight.placements.iter().any(|placement| placement.contains("(row") || placement.contains("(col")),
        "{:?}",
        tight.placements
    );
    assert!(tight.simulated_ns.is_some());
    let too_tight = within(all / 8);
    assert!(too_tight.placements.iter().any(|placement| placement.contains("uvm")), "{:?}", too_tight.placements);
    // A search does not find the very best of either.
    let times = [&tight, &too_tight].map(|plan| plan.simulated_ns.unwrap().0 as f64);
    assert!(times[1] >= 0.99 * times[0], "{times:?}");
    for (plan, limit) in [(&tight, (all / 4 + all / 40).min(largest - 1)), (&too_tight, all / 8)] {
        let outcome = made.engine.evaluate(&made.loaded, &Scenario::parse([plan.step.as_str()]).unwrap(), 0);
        assert_eq!(Some(outcome.summary.simulated_ns), plan.simulated_ns);
        let loads = JobTables::find(&made.loaded).loads(&outcome.resolved);
        assert!(loads.iter().all(|load| load.held.is_some_and(|held| held.0 <= limit)), "{loads:?}");
    }
}

#[test]
fn one_heavy_table_is_cut_so_that_the_iteration_is_shorter_than_with_any_sharder() {
    let made = make(JobSpec { ranks: 4, tables_per_rank: 1, local_batch: 4096, seed: 3, ..JobSpec::default() });
    let sharding = Sharding::new(&made.loaded, &Scenario::default());
    let best = sharding.best();
    let others = Sharder::ALL.map(|sharder| sharding.by(sharder)).into_iter().filter_map(|plan| plan.simulated_ns);
    assert!(others.min() > best.simulated_ns, "{best:?}");
    assert!(best.placements.iter().any(|placement| placement.contains('(')), "{:?}", best.placements);
}

#[test]
fn lateness_adds_up_to_the_waiting_of_the_others() {
    let made = make(JobSpec { ranks: 4, tables_per_rank: 8, local_batch: 2048, seed: 4, ..JobSpec::default() });
    let found = Communication::of(&made.engine, &made.loaded, &made.loaded.replay);
    assert_eq!(found.collectives.len(), 3);
    for one in &found.collectives {
        let waited: i64 = one.arrivals.iter().map(|arrival| arrival.wait_ns.0).sum();
        assert_eq!((one.arrivals.len(), waited), (4, one.waited_ns.0));
        let [.., second, last] = one.arrivals.as_slice() else { panic!("{one:?}") };
        assert_eq!((last.wait_ns.0, second.wait_ns), (0, one.late_ns));
    }
    for rank in &found.ranks {
        let late = found.collectives.iter().filter(|one| one.last_rank == Some(rank.rank));
        let late: i64 = late.map(|one| one.late_ns.0).sum();
        assert!(rank.costs_ns.0 <= late + 1_000, "no more than it is later than the next: {rank:?}");
        assert_eq!(rank.exposed_ns + rank.overlapped_ns, rank.transfer_ns);
    }
}

#[test]
fn a_collective_that_a_loaded_rank_lacks_is_told_and_the_others_meet() {
    let engine = engine();
    let of_four = traces(&engine, JobSpec { ranks: 4, tables_per_rank: 3, seed: 2, ..JobSpec::default() });
    let folder = tempfile::tempdir().unwrap();
    for (rank, trace) in of_four.iter().enumerate() {
        let mut json: serde_json::Value = serde_json::from_slice(trace).unwrap();
        if rank == 1 {
            let events = json["traceEvents"].as_array_mut().unwrap();
            events.retain(|event| event["args"]["Collective name"] != "allreduce" || event["args"]["Seq"] != 6);
        }
        write(folder.path(), &format!("rank{rank}"), &serde_json::to_vec(&json).unwrap());
    }
    let loaded = load(&engine, folder.path()).remove(0);
    let told = diagnosed(&loaded, "partial-collectives").unwrap();
    assert!(told.contains("the first has 3 of 4"), "{told}");
    assert!(Communication::of(&engine, &loaded, &loaded.replay).collectives.iter().any(|one| one.arrivals.len() == 3));
}

#[test]
fn ranks_of_jobs_of_other_sizes_are_told() {
    let engine = engine();
    let of = |ranks| traces(&engine, JobSpec { ranks, tables_per_rank: 3, seed: 2, ..JobSpec::default() });
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "rank0", &of(2)[0]);
    write(folder.path(), "rank1", &of(4)[1]);
    let loaded = load(&engine, folder.path());
    assert_eq!(loaded.len(), 2);
    let told = diagnosed(&loaded[0], "different-jobs").unwrap();
    assert!(told.contains("is of a job of") && told.contains("they are opened as two jobs"), "{told}");
}

/// Iteration time in ns with a plan, and what the step reports.
fn planned(made: &Made, line: &str) -> (i64, String) {
    let outcome = made.engine.evaluate(&made.loaded, &Scenario::parse([line]).unwrap(), 0);
    (outcome.summary.simulated_ns.0, outcome.steps[0].summary.clone())
}

#[test]
fn tables_can_be_cut_copied_and_kept_behind_the_hosts_link() {
    let made = make(JobSpec { ranks: 2, tables_per_rank: 5, local_batch: 8192, seed: 3, ..JobSpec::default() });
    let base = made.loaded.replay.summary.simulated_ns.0;
    let heaviest = (0..made.job.tables.len()).filter(|&at| made.job.placement[at] == 0);
    let heaviest = heaviest.max_by(|&a, &b| made.job.tables[a].pooling.total_cmp(&made.job.tables[b].pooling)).unwrap();
    let (cut, summary) = planned(&made, &format!("reshard-tables t{heaviest}:r0,r1(col)"));
    assert!(cut != base && summary.contains("look-ups r0 -") && summary.contains("r1 +"), "{summary}");
    let (_, summary) = planned(&made, &format!("reshard-tables t{heaviest}:r0,r1(row)"));
    // Sums of some rows are as long as whole bags: another sender, nothing less to send.
    assert!(summary.contains("exchange of rows +"), "{summary}");
    let (_, summary) = planned(&made, &format!("reshard-tables t{heaviest}:r0,r1(copy)"));
    assert!(summary.contains("gradients of copies +"), "{summary}");
    let kept = |hits: f64| planned(&made, &format!("reshard-tables t{heaviest}:r0(uvm={hits})")).0;
    let times = [1.0, 0.5, 0.2].map(kept);
    assert!(base <= times[0] + 10 && times[0] < times[1] && times[1] < times[2], "{base} {times:?}");
}

#[test]
fn rows_behind_the_hosts_link_cross_it_for_every_sample_of_the_edited_batch() {
    let made = make(JobSpec { ranks: 2, tables_per_rank: 3, local_batch: 256, seed: 5, ..JobSpec::default() });
    let looked_up = |lines: &[String]| {
        let outcome =
            made.engine.evaluate(&made.loaded, &Scenario::parse(lines.iter().map(String::as_str)).unwrap(), 0);
        JobTables::find(&made.loaded).lookup_times(&outcome.resolved).iter().map(|time| time.0).sum::<i64>()
    };
    let table = made.job.placement.iter().position(|&rank| rank == 0).unwrap();
    let kept = |hits: f64| format!("reshard-tables t{table}:r0(uvm={hits})");
    let batch = |size: u64| format!("resize-batch {size}");
    let fetched = |size: u64| looked_up(&[batch(size), kept(0.0)]) - looked_up(&[batch(size), kept(1.0)]);
    let (small, large) = (fetched(256), fetched(256 * 64));
    // Each look-up crosses forward; backward at most as many rows.
    assert!(small > 0 && large > 32 * small && large <= 65 * small, "{small} {large}");
    for step in [batch(1024), "swap-gpu H100-SXM".to_owned(), "scale-device host_link x2".to_owned()] {
        assert_eq!(looked_up(&[step.clone(), kept(0.3)]), looked_up(&[kept(0.3), step.clone()]), "{step}");
    }
    assert!(looked_up(&["scale-device host_link x2".to_owned(), kept(0.0)]) < looked_up(&[kept(0.0)]));
}

#[test]
fn rows_sent_go_by_the_edited_batch() {
    let made = make(JobSpec { ranks: 2, tables_per_rank: 3, local_batch: 256, seed: 5, ..JobSpec::default() });
    let sent = |size: u64| {
        let outcome =
            made.engine.evaluate(&made.loaded, &Scenario::parse([&*format!("resize-batch {size}")]).unwrap(), 0);
        JobTables::find(&made.loaded).loads(&outcome.resolved).iter().map(|load| load.sent.unwrap().0).sum::<u64>()
    };
    assert_eq!(sent(1024), 4 * sent(256));
}

#[test]
fn a_copy_of_a_table_makes_no_other_ranks_look_ups_shorter() {
    let made = make(JobSpec { ranks: 4, tables_per_rank: 6, local_batch: 2048, seed: 1, ..JobSpec::default() });
    let times = |lines: &[&str]| {
        let outcome = made.engine.evaluate(&made.loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0);
        JobTables::find(&made.loaded).lookup_times(&outcome.resolved)
    };
    let before = times(&[]);
    let owned = |rank| made.job.placement.iter().position(|&owner| owner == rank).unwrap();
    for owner in 0..4 {
        let after = times(&[&format!("reshard-tables t{}:r0,r1,r2,r3(copy)", owned(owner))]);
        for rank in 0..4 {
            let grows = after[rank] > before[rank];
            assert_eq!(grows, rank != owner, "of rank {owner} on {rank}: {} to {}", before[rank], after[rank]);
        }
        let ([before, after], most) =
            ([&before, &after].map(|times| times.iter().map(|time| time.0).sum::<i64>()), 1.15);
        assert!((after as f64) < most * before as f64, "{before} to {after}");
    }
}

#[test]
fn a_rank_that_gives_up_a_table_never_looks_up_longer_and_one_that_gets_one_never_shorter() {
    for (batch, seed) in [(64, 1), (2048, 4)] {
        let made = make(JobSpec { ranks: 2, tables_per_rank: 3, local_batch: batch, seed, ..JobSpec::default() });
        let times = |lines: &[&str]| {
            let outcome = made.engine.evaluate(&made.loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0);
            JobTables::find(&made.loaded).lookup_times(&outcome.resolved)
        };
        let before = times(&[]);
        for (table, &owner) in made.job.placement.iter().enumerate() {
            let after = times(&[&format!("reshard-tables t{table}:r{}", 1 - owner)]);
            assert!(after[owner] <= before[owner], "t{table}: {} to {}", before[owner], after[owner]);
            assert!(after[1 - owner] >= before[1 - owner], "t{table}: {} to {}", before[1 - owner], after[1 - owner]);
        }
    }
}

#[test]
fn clocks_that_are_off_and_drift_are_found_and_taken_out() {
    let engine = engine();
    let spec = JobSpec { ranks: 3, tables_per_rank: 4, steps: 12, seed: 9, ..JobSpec::default() };
    let traces = traces(&engine, spec);
    let (right, wrong) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (rank, trace) in traces.iter().enumerate() {
        write(right.path(), &format!("rank{rank}"), trace);
        let (late, ppm) = [(0.0, 0.0), (2_500.0, 0.0), (-800.0, 150.0)][rank];
        write(wrong.path(), &format!("rank{rank}"), &with_clock(trace, late, ppm));
    }
    let (right, wrong) = (load(&engine, right.path()).remove(0), load(&engine, wrong.path()).remove(0));
    let clocks: Vec<_> = wrong.graph.ranks.iter().map(|part| part.clock).collect();
    assert!((clocks[1].offset.0 - 2_500_000).abs() < 1_000 && clocks[1].drift_ppm.abs() < 1e-9, "{clocks:?}");
    assert!((clocks[2].offset.0 + 800_000).abs() < 20_000 && (clocks[2].drift_ppm - 150.0).abs() < 5.0, "{clocks:?}");
    assert!(diagnosed(&wrong, "clock").unwrap().contains("rank 1's clock is 2.50 ms ahead of rank 0's"));
    assert_eq!(diagnosed(&right, "clock"), None);
    let [right, wrong] = [right, wrong].map(|loaded| loaded.replay.summary.simulated_ns.0 as f64);
    assert!((wrong / right - 1.0).abs() < 1e-3, "{wrong} against {right}");
}

#[test]
fn ranks_that_are_missing_given_twice_or_of_other_jobs_are_told() {
    let engine = engine();
    let spec = JobSpec { ranks: 4, tables_per_rank: 3, seed: 2, ..JobSpec::default() };
    let of_four = traces(&engine, spec);
    let folder = tempfile::tempdir().unwrap();
    for rank in [0, 2, 3] {
        write(folder.path(), &format!("rank{rank}"), &of_four[rank]);
    }
    let loaded = load(&engine, folder.path());
    assert_eq!((loaded.len(), loaded[0].graph.ranks.len()), (1, 3));
    let told = diagnosed(&loaded[0], "missing-ranks").unwrap();
    assert_eq!(told, "3 of 4 ranks are loaded, not 1: collectives wait only for those that are");
    write(folder.path(), "rank0-again", &of_four[0]);
    let loaded = load(&engine, folder.path());
    assert_eq!(loaded.len(), 2);
    let told = diagnosed(&loaded[0], "duplicate-rank").unwrap();
    assert!(told.contains("are both of rank 0: the second is opened as a job of its own"), "{told}");
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(here.path(), "rank0", &of_four[0]);
    write(there.path(), "rank1", &with_clock(&of_four[1], 3.6e9, 0.0));
    let paths = [here.path().to_owned(), there.path().to_owned()];
    let loaded = engine.load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap();
    assert_eq!(loaded.len(), 2);
    assert!(diagnosed(&loaded[0], "different-jobs").unwrap().contains("were not recorded together"));
}

#[test]
fn a_plan_that_overfills_a_rank_moves_nothing_and_the_steps_after_it_hold() {
    let made = make(JobSpec { seed: 1, ..JobSpec::default() });
    let tables = Sharding::new(&made.loaded, &Scenario::default()).tables().sharded().len();
    let all_to_one: Vec<String> = (0..tables).map(|table| format!("t{table}:r0")).collect();
    let outcome =
        |lines: &[&str]| made.engine.evaluate(&made.loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0);
    let (faster, plan) = ("scale kind=kernel x0.9", format!("reshard-tables {}", all_to_one.join(" ")));
    let (alone, both) = (outcome(&[faster]), outcome(&[&plan, faster]));
    assert_eq!(both.summary.simulated_ns, alone.summary.simulated_ns);
    assert!(both.summary.simulated_ns < made.loaded.replay.summary.simulated_ns);
    let told = &both.steps[0].unhandled[0];
    assert!(
        told.starts_with("rank 0 would hold ") && told.ends_with(" of tables in 16.00 GiB: nothing moved"),
        "{told}"
    );
}

#[test]
fn a_few_ranks_of_a_large_job_meet_each_other_and_say_who_is_missing() {
    let engine = engine();
    let spec = JobSpec { ranks: 16, tables_per_rank: 2, seed: 3, ..JobSpec::default() };
    let folder = tempfile::tempdir().unwrap();
    for (rank, trace) in traces(&engine, spec).iter().enumerate().filter(|(rank, _)| [3, 7, 12].contains(rank)) {
        write(folder.path(), &format!("rank{rank}"), trace);
    }
    let loaded = load(&engine, folder.path()).remove(0);
    let ranks: Vec<u32> = loaded.graph.ranks.iter().map(|part| part.rank.0).collect();
    assert_eq!(ranks, [3, 7, 12]);
    let told = diagnosed(&loaded, "missing-ranks").unwrap();
    assert!(told.starts_with("3 of 16 ranks are loaded, not 0, 1, 2, 4, 5, 6, 8, 9 and more"), "{told}");
    let found = Communication::of(&engine, &loaded, &loaded.replay);
    assert!(!found.collectives.is_empty() && found.collectives.iter().all(|one| one.arrivals.len() == 3));
    assert!(loaded.replay.summary.replay_error.unwrap().abs() < 1e-3);
    let plan = Scenario::parse(["reshard-tables t0:r12 t1:r4"]).unwrap();
    let outcome = engine.evaluate(&loaded, &plan, 0);
    assert_eq!(outcome.steps[0].unhandled[0], "there is no rank 4 among those loaded");
    assert!(outcome.steps[0].summary.starts_with("1 table moved"), "{}", outcome.steps[0].summary);
}

#[test]
fn ranks_with_unequal_numbers_of_steps_are_told_and_the_common_step_is_modelled() {
    let engine = engine();
    let spec = |steps| JobSpec { ranks: 2, tables_per_rank: 3, steps, seed: 2, ..JobSpec::default() };
    let (long, short) = (traces(&engine, spec(5)), traces(&engine, spec(3)));
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "rank0", &short[0]);
    write(folder.path(), "rank1", &long[1]);
    let loaded = load(&engine, folder.path()).remove(0);
    let told = diagnosed(&loaded, "unequal-iterations").unwrap();
    assert!(told.starts_with("rank 1 recorded 5 steps, rank 0 recorded 3"), "{told}");
    let names: Vec<&str> = loaded.graph.ranks.iter().map(|part| part.iteration.as_str()).collect();
    assert_eq!(names[0], names[1]);
}

#[test]
fn the_rank_with_most_look_ups_comes_last_and_they_are_named_as_the_reason() {
    let made = make(JobSpec { ranks: 4, tables_per_rank: 8, local_batch: 2048, seed: 4, ..JobSpec::default() });
    let (graph, outcome) = (&*made.loaded.graph, &*made.loaded.replay);
    let (timed, schedule) = (&*outcome.resolved.timed, &*outcome.schedule);
    let calls = collectives(graph, timed, schedule);
    assert_eq!(calls.len(), 3, "two exchanges of rows and one of gradients");
    let times = JobTables::find(&made.loaded).lookup_times(&outcome.resolved);
    let heaviest = (0..times.len()).max_by_key(|&rank| times[rank]).unwrap();
    let first = &calls[0];
    let (last, second) = first.last_two().unwrap();
    assert_eq!(last.rank.0 as usize, heaviest);
    for arrival in &first.arrivals {
        assert_eq!(first.wait(arrival) + first.transfer(arrival), arrival.end.since(arrival.at));
    }
    let times = Times::Simulated { timed, schedule };
    let why =
        reason(&Sources { graph, works: &made.loaded.replay.resolved.works, timed, schedule, times }, first).unwrap();
    assert_eq!(why.kind, "embedding");
    assert!(why.more >= last.at.since(second.at).scale(0.9), "{why:?} of {:?}", last.at.since(second.at));
    let summary = &outcome.summary;
    assert_eq!(summary.straggler.unwrap().rank as usize, heaviest);
    let own = summary.ranks[heaviest].wait_ns;
    assert!(summary.ranks.iter().enumerate().all(|(rank, other)| rank == heaviest || own < other.wait_ns));
}

#[test]
fn collectives_are_written_with_who_is_late_and_what_is_exposed() {
    let folder = samples();
    let files = [0, 1].map(|rank| folder.join(format!("dlrm-ddp-b128-fp32-cpu-ws2-r{rank}.kineto.json.gz")));
    for command in ["simulate", "breakdown"] {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_retime"))
            .args([command, "--json"])
            .args(&files)
            .output()
            .unwrap();
        let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let collectives = json["collectives"].as_array().unwrap();
        assert!(collectives.len() > 2, "{command}");
        for one in collectives {
            let ns = |field: &str| one[field].as_i64().unwrap();
            assert!(one["kind"].is_string() && ns("transfer_ns") > 0 && ns("late_ns") <= ns("waited_ns"), "{one}");
            assert!(ns("exposed_ns") >= 0 && ns("overlapped_ns") >= 0, "{one}");
            assert_eq!(one["last_rank"].is_null(), one["late_ns"] == 0, "{one}");
        }
        if command == "simulate" {
            assert!(json["ranks"].as_array().unwrap().iter().all(|rank| rank["transfer_ns"].as_i64().unwrap() > 0));
        }
    }
}

#[cfg(feature = "tui")]
mod screen {

    use ratatui::layout::Size;
    use retime::session::Status;
    use retime::tui::{ScriptedScreen, Style};
    use retime_core::graph::BuildOptions;
    use retime_core::scenario::Scenario;
    use retime_core::trace::OpenOptions;

    use crate::support::{engine, samples};

    /// The bundled traces of these names on a screen, with the view of tables open.
    fn open(names: &[&str], size: (u16, u16)) -> ScriptedScreen {
        let folder = samples();
        let paths: Vec<_> = names.iter().map(|name| folder.join(format!("{name}.kineto.json.gz"))).collect();
        let engine = engine();
        let loaded = engine.load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap();
        let size = Size { width: size.0, height: size.1 };
        let mut screen = ScriptedScreen::new(engine, loaded, &Scenario::default(), &Style::plain(), size);
        play(&mut screen, "7");
        screen
    }

    /// Two ranks with four equal tables each.
    const TWO: [&str; 2] = ["dlrm-ddp-b128-fp32-cpu-ws2-r0", "dlrm-ddp-b128-fp32-cpu-ws2-r1"];

    fn play(screen: &mut ScriptedScreen, keys: &str) {
        screen.press(keys).unwrap();
        screen.settle();
    }

    fn text(screen: &ScriptedScreen) -> String {
        let buffer = screen.draw();
        let row = |y: u16| (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..buffer.area.height).map(|y| row(y).trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }

    fn assert_shows(screen: &ScriptedScreen, wanted: &str) {
        let text = text(screen);
        assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
    }

    #[test]
    fn tables_and_ranks_at_every_size() {
        for (width, height) in [(80, 24), (120, 40), (200, 60)] {
            let mut screen = open(&TWO, (width, height));
            insta::assert_snapshot!(format!("tables_{width}x{height}"), text(&screen));
            play(&mut screen, "><down>cv");
            insta::assert_snapshot!(format!("tables_moved_{width}x{height}"), text(&screen));
        }
    }

    #[test]
    fn ranks_and_collectives_at_every_size() {
        for (width, height) in [(80, 24), (120, 40), (200, 60)] {
            let mut screen = open(&TWO, (width, height));
            play(&mut screen, "R<down>");
            insta::assert_snapshot!(format!("ranks_{width}x{height}"), text(&screen));
        }
        let mut screen = open(&TWO, (120, 40));
        play(&mut screen, "R<enter>");
        assert_shows(&screen, "gloo:all_");
    }

    #[test]
    fn moves_one_after_another_are_one_step_and_undone_one_by_one() {
        let mut screen = open(&TWO, (160, 40));
        play(&mut screen, "><down>><down>>");
        assert_shows(&screen, "1 reshard-tables t0:r1 t1:r1 t2:r1");
        play(&mut screen, "u");
        assert_shows(&screen, "1 reshard-tables t0:r1 t1:r1");
        play(&mut screen, "<home><lt>");
        assert_shows(&screen, "1 reshard-tables t1:r1");
        play(&mut screen, "<down>>");
        assert!(!text(&screen).contains("reshard-tables"), "a table that is back is no move");
        play(&mut screen, ":scale kind=T1 x0.9<enter>>");
        assert_shows(&screen, "2 reshard-tables t1:r1");
    }

    #[test]
    fn keys_cut_copy_and_keep_in_host_memory() {
        let mut screen = open(&TWO, (160, 40));
        for (key, line) in
            [("c", "t0:r0,r1(col)"), ("r", "t0:r0,r1(row)"), ("a", "t0:r0,r1(copy)"), ("o", "t0:r0,r1(copy,uvm)")]
        {
            play(&mut screen, key);
            assert_shows(&screen, line.split_once(':').unwrap().1);
        }
        play(&mut screen, "ow");
        assert!(!text(&screen).contains("reshard-tables"), "whole on its own rank is as traced");
        play(&mut screen, "cc");
        assert!(!text(&screen).contains("reshard-tables"), "cut over one rank more than there are is whole again");
    }

    #[test]
    fn a_plan_is_put_in_force_in_place_of_earlier_moves() {
        let mut screen = open(&TWO, (160, 40));
        play(&mut screen, ">v<down>A");
        assert_shows(&screen, "1 reshard-tables naive");
        assert!(!text(&screen).contains("2 reshard-tables"));
        play(&mut screen, ":plan traced<enter>");
        assert!(!text(&screen).contains("1 reshard-tables"));
        play(&mut screen, ":plan naiv<enter>");
        assert_shows(&screen, "did you mean `naive`?");
    }

    #[test]
    fn the_search_shows_its_progress_and_esc_ends_it_with_what_it_has() {
        let mut screen = open(&TWO, (160, 40));
        screen.press("B").unwrap();
        assert_shows(&screen, "searching");
        assert_shows(&screen, "0 of 300");
        screen.press("<esc>").unwrap();
        assert!(!text(&screen).contains("searching"));
        assert_shows(&screen, "── tables ");
        screen.settle();
        assert_shows(&screen, "the best placement found takes");
        // Stopped before anything was tried, the search has the traced placement; asked again, it goes on to its end.
        play(&mut screen, "B");
        play(&mut screen, ":plan best<enter>");
        assert_shows(&screen, "1 reshard-tables t");
    }

    #[test]
    fn a_script_waits_for_the_search() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("best.retime");
        std::fs::write(&file, "tables\nbest\nplan best\nexpect iteration < 22.5ms\nplacement t9:r1\n").unwrap();
        let mut screen = open(&TWO, (120, 40));
        let played = screen.source(file.to_str().unwrap(), &std::fs::read_to_string(&file).unwrap()).unwrap();
        let ended: Vec<Status> = played.iter().map(|line| line.status).collect();
        assert_eq!(ended, [Status::Done, Status::Done, Status::Done, Status::Holds, Status::Error], "{played:?}");
        assert_eq!(played[4].message.as_deref(), Some("there is no table t9: t0 to t7 can move"));
    }

    #[test]
    fn one_rank_and_no_tables_are_told_in_a_sentence() {
        for (name, sentence) in [
            ("dlrm-ddp-b64-fp32-cpu", "one rank is loaded: there is nowhere to move tables to"),
            ("mlp-b256-fp32-cpu", "no embedding table was found in this trace"),
        ] {
            for size in [(80, 24), (120, 40), (60, 16)] {
                let mut screen = open(&[name], size);
                assert_shows(&screen, &sentence[..40]);
                play(&mut screen, ">cB");
                assert_shows(&screen, "✗");
                play(&mut screen, "v?");
                assert_shows(&screen, "in the tables");
            }
        }
    }
}

#[test]
fn a_job_is_made_again_from_its_own_tables_and_rows_that_recur_are_cheaper() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let run = |arguments: &[&str]| {
        let done = assert_cmd::Command::cargo_bin("retime").unwrap().args(arguments).assert().success();
        String::from_utf8(done.get_output().stdout.clone()).unwrap()
    };
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&run(&[arguments, &["--json"]].concat())).unwrap()
    };
    let statistics = r#"[{"num_indices": 9, "share_of_accesses_by_reuse_bin": {"(0, 1]": 0.1, "(32768, inf)": 0.9}}]"#;
    std::fs::write(at("reuse.json"), statistics).unwrap();
    let drawn = ["generate", "--ranks", "2", "--local-batch", "2048", "--dim", "32,128", "--seed", "3", "-o"];
    run(&[&drawn[..], &[&at("uniform")]].concat());
    run(&[&drawn[..], &[&at("reused"), "--reuse", &at("reuse.json")]].concat());
    assert_eq!(json(&["info", &at("reused")])["traces"][0]["batch_size"], 2048);
    let lookups = |name: &str| {
        let rows = json(&["ops", &at(name), "--by", "family"]);
        let rows = rows["rows"].as_array().unwrap().clone();
        let row = rows.iter().find(|row| row["label"] == "embedding").unwrap();
        let off = row["deviation"].as_f64().unwrap();
        assert!(off.abs() < 0.1, "both ways they take what they are predicted to take: {off}");
        row["device_ns"].as_i64().unwrap()
    };
    assert!(lookups("reused") < lookups("uniform"), "{} {}", lookups("reused"), lookups("uniform"));
    let tables = format!("{}/tables.toml", at("reused"));
    run(&["generate", "--ranks", "2", "--gpu", "A100", "--tables", &tables, "--top", "64", "-o", &at("again")]);
    let text = |name: &str| std::fs::read_to_string(format!("{}/tables.toml", at(name))).unwrap();
    assert_eq!(text("reused"), text("again"));
    let plans = json(&["tables", &at("again"), "--sharder", "all"]);
    assert_eq!(plans["plans"].as_array().unwrap().len(), 8, "as traced, six sharders and the search");
    let mut refused = assert_cmd::Command::cargo_bin("retime").unwrap();
    let one = refused.args(["generate", "--ranks", "1", "--tables", &tables, "-o", &at("one")]).assert().code(1);
    assert!(String::from_utf8_lossy(&one.get_output().stderr).contains("needs a `rank` below 1"));
}

#[test]
fn what_is_told_of_one_table_leaves_the_rest_of_the_recorded_sum_to_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let run = |arguments: &[&str]| {
        let done = assert_cmd::Command::cargo_bin("retime").unwrap().args(arguments).assert().success();
        let output = done.get_output();
        (String::from_utf8(output.stdout.clone()).unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
    };
    run(&[
        "generate",
        "--ranks",
        "2",
        "--tables-per-rank",
        "3",
        "--seed",
        "1",
        "--local-batch",
        "64",
        "-o",
        &at("job"),
    ]);
    let tables = |facts: &str| -> (Vec<(u64, f64)>, String) {
        std::fs::write(at("facts.toml"), facts).unwrap();
        let (json, said) = run(&["tables", &at("job"), "--facts", &at("facts.toml"), "--json"]);
        let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
        let rows = answer["tables"].as_array().unwrap().iter();
        (rows.map(|row| (row["rows"].as_u64().unwrap(), row["pooling"].as_f64().unwrap())).collect(), said)
    };
    let sum = |tables: &[(u64, f64)]| tables[..3].iter().fold((0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let (means, said) = tables("");
    assert!(means[0] == means[1] && !said.contains("table-facts"), "{said}");
    let (told, _) = tables("[[table]]\nrank = 0\nrows = 100\npooling = 45.0\n");
    assert_eq!((told[0], told[1] == told[2]), ((100, 45.0), true));
    assert!(sum(&told).0.abs_diff(sum(&means).0) < 3 && (sum(&told).1 - sum(&means).1).abs() < 1e-6, "{told:?}");
    let (beyond, said) = tables("[[table]]\nid = \"t0\"\nrows = 10000000000\n");
    assert!(beyond == means && said.contains("more than the trace has of the 3 tables"), "{said}");
    let (first, said) = tables("[[table]]\nid = \"t0\"\nrows = 5\n[[table]]\nid = \"t0\"\nrows = 7\n");
    assert!(first[0].0 == 5 && said.contains("entry 2 of tables: t0 is told of by entry 1"), "{said}");
}

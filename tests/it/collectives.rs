//! What edits make of collectives on public traces and made-up jobs: which they reach, and that none becomes free.

use retime::session::synthetic::{JobSpec, Machine, Network, SyntheticJob};
use retime::session::{Communication, Engine, Loaded};
use retime_core::analysis::breakdown::Breakdown;
use retime_core::analysis::edited::Edited;
use retime_core::analysis::lanes::Times;
use retime_core::analysis::sources::Sources;
use retime_core::graph::{BuildOptions, TaskKind};
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;

use crate::support::{engine, jobs, sample, shared};

fn time(engine: &Engine, loaded: &Loaded, lines: &[&str]) -> f64 {
    let outcome = engine.evaluate(loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0);
    outcome.summary.simulated_ns.0 as f64 / 1e6
}

fn unhandled(loaded: &Loaded, line: &str) -> String {
    engine().evaluate(loaded, &Scenario::parse([line]).unwrap(), 0).steps[0].unhandled.join("\n")
}

/// One rank of eight: its collectives are of eight, as the trace says of the job.
#[test]
fn collectives_of_one_rank_of_eight_stay_under_every_change_of_link_device_and_batch() {
    let Some(path) = shared("recsys-a100x8-rank3") else { return };
    let loaded = jobs::loaded(&[path]);
    assert!(loaded.graph.collectives.iter().all(|one| one.group_size == 8));
    let lines =
        ["swap-link Ethernet-10G", "swap-link NVLink4", "swap-gpu H100-SXM", "resize-batch 2048", "compress-comm 4"];
    for line in lines {
        let outcome = engine().evaluate(loaded, &Scenario::parse([line]).unwrap(), 0);
        for node in loaded.graph.tasks.node_indices() {
            if matches!(loaded.graph.tasks[node].kind, TaskKind::Collective(_)) {
                let now = outcome.resolved.prediction(node).duration;
                assert!(now.0 > 0, "{line}: {}", loaded.graph.names.get(loaded.graph.tasks[node].name));
            }
        }
    }
    let engine = engine();
    let [base, slow] = [&[][..], &["swap-link Ethernet-10G"]].map(|lines| time(&engine, loaded, lines));
    assert!(slow > 1.5 * base, "{base} {slow}");
}

#[test]
fn edits_of_gradients_leave_the_exchange_of_look_ups_and_say_so() {
    let Some(path) = shared("recsys-a100x8-rank3") else { return };
    let loaded = jobs::loaded(&[path]);
    for line in ["bucket-size 1000", "scale-ranks 16", "overlap-comm"] {
        let told = unhandled(loaded, line);
        assert!(told.contains("not touched: all-to-all") && told.contains("embedding exchange"), "{line}: {told}");
    }
    let names = |line: &str| {
        let outcome = engine().evaluate(loaded, &Scenario::parse([line]).unwrap(), 0);
        outcome.summary.replicas
    };
    assert_eq!((names("scale-ranks 8"), names("scale-ranks 64")), (8, 64));
}

#[test]
fn more_ranks_are_ordered_by_what_carries_them() {
    let Some(path) = shared("recsys-a100x8-rank3") else { return };
    let (engine, loaded) = (engine(), jobs::loaded(&[path]));
    let of = |layout: &str| time(&engine, loaded, &[&format!("scale-ranks 64 {layout}")]);
    let links = ["Ethernet-10G 8", "Ethernet-100G 8", "InfiniBand-HDR 8", "InfiniBand-NDR 8"].map(of);
    assert!(links.windows(2).all(|pair| pair[0] > pair[1]), "{links:?}");
    let (eight, two) = (of("InfiniBand-HDR 8"), of("InfiniBand-HDR 2"));
    assert!((eight / two - 1.0).abs() > 0.001, "devices per node count: {eight} {two}");
    assert!(of("InfiniBand-HDR 8 8") < eight, "eight ports carry more than one");
    let (base, same) = (time(&engine, loaded, &[]), time(&engine, loaded, &["scale-ranks 8"]));
    assert!((base - same).abs() < 1e-9, "{base} {same}");
}

#[test]
fn a_link_is_named_before_or_after_the_ranks_that_it_joins() {
    let engine = engine();
    let job = made(JobSpec { ranks: 2, ..JobSpec::default() });
    let mut tried = vec![&job.1];
    if let Some(path) = shared("recsys-a100x8-rank3") {
        tried.push(jobs::loaded(&[path]));
    }
    for loaded in tried {
        for link in ["Ethernet-10G", "Ethernet-100G", "NVLink4"] {
            for ranks in ["scale-ranks 4", "scale-ranks 32", "scale-ranks 32 Ethernet-10G 4"] {
                let link = format!("swap-link {link}");
                if ranks.contains("Ethernet") && link.contains("Ethernet-100G") {
                    // Two links between nodes: the last one named.
                    continue;
                }
                let (first, last) = (time(&engine, loaded, &[&link, ranks]), time(&engine, loaded, &[ranks, &link]));
                assert!((first / last - 1.0).abs() < 1e-6, "{link}, {ranks}: {first} {last}");
            }
        }
    }
}

#[test]
fn a_rank_that_does_what_the_median_does_gains_what_its_lateness_cost() {
    let Some(path) = shared("torchrec-v100x4-straggler") else { return };
    let (engine, loaded) = (engine(), jobs::loaded(&[path]));
    let (base, without) = (time(&engine, loaded, &[]), time(&engine, loaded, &["straggler remove"]));
    assert!(base > 1_000.0 && without < 0.2 * base, "{base} {without}");
    let one = time(&engine, loaded, &["straggler remove 2"]);
    let found = Communication::of(&engine, loaded, &loaded.replay);
    let cost = found.ranks.iter().find(|rank| rank.rank == 2).unwrap().costs_ns.0 as f64 / 1e6;
    assert!((cost - (base - one)).abs() < 0.01 * base && cost < base, "{cost} of {base}, {one} without");
}

fn made(spec: JobSpec) -> (tempfile::TempDir, Loaded) {
    let engine = engine();
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::of(&engine, "V100").unwrap();
    SyntheticJob::draw(spec, Network::default(), machine.device.memory.0).write(folder.path(), machine).unwrap();
    let paths = [folder.path().to_owned()];
    let loaded = engine.load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0);
    (folder, loaded)
}

#[test]
fn sizes_that_were_not_recorded_can_be_told() {
    let Some(path) = shared("torchrec-v100x4") else { return };
    let without = jobs::loaded(std::slice::from_ref(&path));
    assert!(unhandled(without, "swap-link Ethernet-10G").contains("was not recorded: traced time kept"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("facts.toml");
    std::fs::write(&file, "[[collective]]\nmib = 8\n[[collective]]\nkind = \"all-gather\"\nranks = 3\n").unwrap();
    let mut engine = Engine::builtin().unwrap();
    engine.table_facts = Some(retime::session::read_table_facts(&file).unwrap());
    let told = engine.load(&[path], &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0);
    let told_of = told.diagnostics();
    assert!(told_of.sorted().iter().any(|it| it.message.contains("entry 2 of collectives")));
    let slower = time(&engine, &told, &["swap-link Ethernet-10G"]);
    assert!(slower > 1.2 * time(&engine, &told, &[]), "{slower}");
}

#[test]
fn what_is_told_other_than_the_trace_has_it_is_taken_and_said() {
    let Some(path) = shared("dlrm-v100x8/dlrm_kineto.tar.gz") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("facts.toml");
    let text = "[[collective]]\nranks = 64\n[[table]]\nid = \"t0\"\nrows = 68719476736\ndim = 16384\n";
    std::fs::write(&file, text).unwrap();
    let mut engine = Engine::builtin().unwrap();
    engine.table_facts = Some(retime::session::read_table_facts(&file).unwrap());
    let told = engine.load(&[path], &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0);
    let diagnostics = told.diagnostics();
    let said = "entry 1 of collectives: ranks of a group 8 by the trace, 64 taken as told";
    assert!(diagnostics.sorted().iter().any(|it| it.message.starts_with(said)));
    // Its operator serves three tables, of which the trace has the sum.
    let said = "entry 1 of tables: the weights of t0 are more than the trace has of the 3 tables of its operator";
    assert!(diagnostics.sorted().iter().any(|it| it.message.starts_with(said)));
    assert!(told.replay.summary.memory.as_ref().unwrap().missing.is_empty() && told.replay.summary.fits.is_some());
    // One that serves a single table is told other than recorded.
    let (single, _) = made(JobSpec { ranks: 2, tables_per_rank: 1, seed: 1, ..JobSpec::default() });
    let paths = [single.path().to_owned()];
    let told = engine.load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0);
    let diagnostics = told.diagnostics();
    let said = "68719476736 taken as told";
    assert!(diagnostics.sorted().iter().any(|it| it.message.ends_with(said)));
    // A table that no memory holds: whether the job fits is not known then.
    let memory = told.replay.summary.memory.as_ref().unwrap();
    assert!(memory.missing.iter().any(|it| it.contains("rank 0")), "{:?}", memory.missing);
    assert_eq!(told.replay.summary.fits, None);
}

#[test]
fn buckets_hold_the_same_gradients_on_all_ranks_whatever_threads_reduce_them() {
    let rank = |rank: u32| sample(&format!("dlrm-ddp-b128-fp32-cpu-ws2-r{rank}.kineto.json.gz"));
    let loaded = jobs::loaded(&[rank(0), rank(1)]);
    let outcome = engine().evaluate(loaded, &Scenario::parse(["bucket-size 100"]).unwrap(), 0);
    assert!(outcome.steps[0].summary.starts_with("6 all-reduces of gradients → 2"), "{}", outcome.steps[0].summary);
    let reduced = |lines: &[&str]| -> (usize, u64, bool) {
        let outcome = engine().evaluate(loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0);
        let found = Communication::of(&engine(), loaded, &outcome);
        let reduces: Vec<_> = found.collectives.iter().filter(|one| one.kind == "all-reduce").collect();
        let bytes = reduces.iter().map(|one| one.bytes.unwrap().0).sum();
        (reduces.len(), bytes, reduces.iter().all(|one| one.arrivals.len() == 2))
    };
    let (base, one) = (reduced(&[]), reduced(&["bucket-size 100"]));
    assert_eq!(base.0, 3);
    assert_eq!(one, (1, base.1, true));
}

#[test]
fn a_link_between_nodes_changes_nothing_of_ranks_inside_one() {
    let Some(path) = shared("torchrec-v100x4") else { return };
    let loaded = jobs::loaded(&[path]);
    let engine = engine();
    let outcome = |lines: &[&str]| engine.evaluate(loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0);
    let (base, same) = (outcome(&[]), outcome(&["scale-ranks 4 NVLink2"]));
    assert_eq!(base.summary.steady_ns, same.summary.steady_ns);
    assert_eq!(base.summary.steady_band, same.summary.steady_band);
    assert!(same.summary.unmodelled_share.abs() < 1e-12, "{}", same.summary.unmodelled_share);
    assert!(same.steps[0].unhandled.iter().any(|it| it.contains("one node of 8")), "{:?}", same.steps[0].unhandled);
    // Across nodes what cannot be told is told by name.
    let across = outcome(&["scale-ranks 4 NVLink2 2"]);
    assert!(across.steps[0].unhandled.iter().any(|it| it.contains("SendRecv") || it.contains("AllToAll")));
}

/// Whatever was edited before: an edit to what is there leaves times, bands and shares as they are.
#[test]
fn what_is_there_already_changes_nothing_behind_other_edits() {
    let cases: [(&str, &[&str], &str); 3] = [
        ("dlrm-v100x8/dlrm_kineto.tar.gz", &["compress-comm 4"], "swap-gpu V100-32"),
        ("recsys-a100x8-rank3", &["resize-batch 2048"], "swap-gpu A100-40"),
        ("vgg13-h100-train", &["mixed-precision bf16"], "swap-gpu H100-SXM"),
    ];
    for (trace, first, then) in cases {
        let Some(path) = shared(trace) else { continue };
        let loaded = jobs::loaded(&[path]);
        let outcome = |lines: Vec<&str>| engine().evaluate(loaded, &Scenario::parse(lines).unwrap(), 0).summary.clone();
        let (before, after) =
            (outcome(first.to_vec()), outcome(first.iter().copied().chain(then.split("; ")).collect()));
        assert_eq!(before.steady_ns, after.steady_ns, "{trace}: {then}");
        assert_eq!(before.steady_band, after.steady_band, "{trace}: {then}");
        assert!((before.unmodelled_share - after.unmodelled_share).abs() < 1e-12, "{trace}: {then}");
    }
}

#[test]
fn throughput_of_more_ranks_is_that_of_all_of_them() {
    let (_folder, loaded) = made(JobSpec { ranks: 4, tables_per_rank: 4, seed: 4, ..JobSpec::default() });
    let samples = |lines: &[&str]| {
        let outcome = engine().evaluate(&loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0);
        assert_eq!(outcome.summary.job_ranks, outcome.summary.replicas, "each has a batch of its own");
        (outcome.summary.job_samples(), outcome.summary.samples())
    };
    let batch = "resize-batch 1024 from 512";
    let ((four, one), (eight, same)) = (samples(&[batch]), samples(&[batch, "scale-ranks 8"]));
    assert!((one - 1024.0).abs() < 1e-9, "{one}");
    assert!((four - 4.0 * one).abs() < 1e-9 && (eight - 8.0 * one).abs() < 1e-9 && (one - same).abs() < 1e-9);
}

/// Packed messages follow the batch, whichever edit came first.
#[test]
fn what_is_packed_follows_the_collective_it_is_packed_for() {
    let Some(path) = shared("recsys-a100x8-rank3/control.json.gz") else { return };
    let loaded = jobs::loaded(&[path]);
    let steady = |lines: &[&str]| {
        let outcome = engine().evaluate(loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0);
        (outcome.summary.steady_ns, outcome.summary.gpu_active_ns)
    };
    let resized = steady(&["resize-batch 16384", "compress-comm 4"]);
    assert_eq!(steady(&["compress-comm 4", "resize-batch 16384"]), resized);
    let twice = steady(&["resize-batch 16384", "compress-comm 2", "compress-comm 2"]);
    assert_eq!(steady(&["compress-comm 2", "resize-batch 16384", "compress-comm 2"]), twice);
    assert_eq!(steady(&["compress-comm 2", "compress-comm 2", "resize-batch 16384"]), twice);
}

#[test]
fn exchanges_that_more_ranks_leave_alone_are_named_with_and_without_a_link() {
    let Some(path) = shared("recsys-a100x8-rank3/control.json.gz") else { return };
    let loaded = jobs::loaded(&[path]);
    for line in ["scale-ranks 64", "scale-ranks 64 InfiniBand-HDR", "scale-ranks 64 InfiniBand-HDR 8 1"] {
        assert!(unhandled(loaded, line).contains("not touched: all-to-all ×7"), "{line}: {}", unhandled(loaded, line));
    }
    // Among four devices a node those between nodes take other times.
    assert!(!unhandled(loaded, "scale-ranks 64 InfiniBand-HDR 4").contains("not touched"));
}

#[test]
fn collectives_of_repeated_batches_are_among_those_of_the_ranks() {
    let (engine, folder) = (engine(), tempfile::tempdir().unwrap());
    let spec = JobSpec { ranks: 4, tables_per_rank: 3, local_batch: 512, ..JobSpec::default() };
    let machine = Machine::of(&engine, "A100").unwrap();
    SyntheticJob::draw(spec, Network::default(), machine.device.memory.0).write(folder.path(), machine).unwrap();
    let paths = [folder.path().to_owned()];
    let loaded = engine.load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0);
    let of = |lines: &[&str]| {
        let outcome = engine.evaluate(&loaded, &Scenario::parse(lines.iter().copied()).unwrap(), 0);
        let found = Communication::of(&engine, &loaded, &outcome);
        let edited = Edited::of(&outcome.resolved);
        let (graph, timed, schedule) = (&*edited.graph, &*edited.timed, &*outcome.schedule);
        let times = Times::Simulated { timed, schedule };
        let streams = Breakdown::of(&Sources { graph, works: &edited.works, timed, schedule, times });
        for (rank, own) in found.ranks.iter().zip(&streams.ranks) {
            assert_eq!(
                (rank.exposed_ns, rank.overlapped_ns),
                (own.communication_exposed, own.communication_overlapped)
            );
            let summary = outcome.summary.ranks.iter().find(|one| one.rank == rank.rank).unwrap();
            assert_eq!(summary.transfer_ns, rank.transfer_ns);
        }
        let mut kinds: Vec<String> = found.collectives.iter().map(|one| one.kind.clone()).collect();
        kinds.sort();
        kinds
    };
    let kinds = |exchanges: usize| [vec!["all-reduce"], vec!["all-to-all"; exchanges]].concat();
    assert_eq!(of(&[]), kinds(2));
    assert_eq!(of(&["accumulate 2"]), kinds(4), "gradients are reduced once");
    assert_eq!(of(&["accumulate 4"]), kinds(8));
}

#[test]
fn a_job_of_hosts_has_its_exposed_communication_in_the_breakdown() {
    let ranks = [0, 1].map(|rank| sample(&format!("dlrm-ddp-b128-fp32-cpu-ws2-r{rank}.kineto.json.gz")));
    let loaded = jobs::loaded(&ranks);
    let outcome = engine().evaluate(loaded, &Scenario::default(), 0);
    let edited = Edited::of(&outcome.resolved);
    let times = Times::Simulated { timed: &edited.timed, schedule: &outcome.schedule };
    let (graph, works, timed) = (&*edited.graph, &*edited.works, &*edited.timed);
    let breakdown = Breakdown::of(&Sources { graph, works, timed, schedule: &outcome.schedule, times });
    let told = Communication::on(&engine(), loaded, &outcome, &edited);
    for (rank, own) in breakdown.ranks.iter().zip(&told.ranks) {
        assert!(own.exposed_ns.0 > 0 && rank.communication_exposed >= own.exposed_ns, "{rank:?} {own:?}");
        let all = rank.communication_exposed + rank.communication_overlapped;
        assert!(all >= own.transfer_ns && rank.communication_overlapped >= own.overlapped_ns, "{rank:?} {own:?}");
    }
}

#[test]
fn small_messages_take_no_less_than_their_start_on_another_device() {
    let loaded = jobs::loaded(&[sample("public/dlrm-v100x8")]);
    let graph = &loaded.graph;
    let resolved = |line: &str| engine().evaluate(loaded, &Scenario::parse([line]).unwrap(), 0).resolved;
    for device in ["H100-SXM", "A100-80", "L4"] {
        let moved = resolved(&format!("swap-gpu {device}"));
        let collectives = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind.is_device());
        let collectives = collectives.filter(|&node| matches!(graph.tasks[node].kind, TaskKind::Collective(_)));
        let least = collectives.map(|node| moved.prediction(node).duration).min().unwrap();
        let traced = graph.tasks.node_weights().filter(|task| matches!(task.kind, TaskKind::Collective(_)));
        let traced = traced.map(|task| task.duration).min().unwrap();
        assert!(least.0 >= traced.0 * 6 / 10, "{device}: {least}, traced {traced}");
    }
}

#[test]
fn messages_that_are_packed_twice_are_told() {
    let Some(opened) = jobs::of_shared("recsys-a100x8-rank3") else { return };
    let said = |lines: &[&str]| {
        let reports = opened.resolve(lines).reports;
        reports.last().unwrap().effects.iter().any(|effect| effect.text.contains("packed again"))
    };
    assert!(said(&["compress-comm 2", "compress-comm 4"]));
    assert!(!said(&["compress-comm 8"]) && !said(&["compress-comm 2", "scale-device dram_bw x2"]));
}

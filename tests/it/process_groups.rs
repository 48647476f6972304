//! Collectives of jobs whose ranks form several process groups, or that could be taken for one another.

use std::io::Read;

use retime::session::{Communication, Loaded};
use retime_core::analysis::collectives::collectives;
use retime_core::analysis::lanes::Times;
use retime_core::analysis::sources::Sources;
use retime_core::analysis::stragglers::{Reasons, reason};
use serde_json::json;

use crate::support::program::retime;
use crate::support::{engine, jobs, sample};

/// A collective kernel: start and length in µs, stream, and the rank's process group with its ranks.
struct Collective {
    at: f64,
    long: f64,
    stream: u32,
    group: Option<(&'static str, String)>,
    sequence: Option<u64>,
}

/// The trace of a rank that launches `collectives`, each 8 µs before it begins.
fn rank_of(world: u32, rank: u32, collectives: &[Collective]) -> serde_json::Value {
    let mut events = vec![json!({"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1,
                                 "ts": 0.0, "dur": 2000.0, "args": {}})];
    for (correlation, one) in collectives.iter().enumerate() {
        let mut args = json!({"device": rank, "stream": one.stream, "correlation": correlation + 1, "dtype": "Float",
                              "Collective name": "allreduce", "In msg nelems": 1_000_000});
        if let Some((group, ranks)) = &one.group {
            args["Process Group Name"] = json!(group);
            args["Process Group Ranks"] = json!(ranks);
            args["Group size"] = json!(2);
        }
        if let Some(sequence) = one.sequence {
            args["Seq"] = json!(sequence);
        }
        events.push(json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                           "ts": one.at - 8.0, "dur": 2.0, "args": {"correlation": correlation + 1}}));
        events.push(json!({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": rank,
                           "tid": one.stream, "ts": one.at, "dur": one.long, "args": args}));
    }
    let end = collectives.iter().map(|one| one.at + one.long).fold(0.0, f64::max);
    events.push(json!({"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1,
                       "ts": 1000.0, "dur": end + 10.0 - 1000.0, "args": {}}));
    json!({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
           "baseTimeNanoseconds": 0, "traceEvents": events})
}

fn job(ranks: &[serde_json::Value]) -> (tempfile::TempDir, &'static Loaded) {
    let folder = tempfile::tempdir().unwrap();
    let paths = ranks.iter().enumerate().map(|(rank, trace)| {
        let path = folder.path().join(format!("rank{rank}.json"));
        std::fs::write(&path, trace.to_string()).unwrap();
        path
    });
    let paths: Vec<_> = paths.collect();
    let loaded = jobs::loaded(&paths);
    (folder, loaded)
}

/// By collective: the ranks of its members.
fn members(loaded: &Loaded) -> Vec<Vec<u32>> {
    let rank = |&node: &retime_core::graph::NodeId| loaded.graph.lanes[loaded.graph.tasks[node].lane.0 as usize].rank.0;
    let collectives = loaded.graph.collectives.iter();
    let mut found: Vec<Vec<u32>> = collectives.map(|one| one.members.iter().map(rank).collect()).collect();
    for ranks in &mut found {
        ranks.sort_unstable();
    }
    found.sort();
    found
}

#[test]
fn groups_of_one_name_are_told_apart_by_their_ranks_and_meet_without_the_first_rank() {
    let rank = |rank: u32, long: f64| {
        let ranks = if rank < 2 { "[0, 1]" } else { "[2, 3]" };
        let late = f64::from(rank % 2) * 100.0;
        let one = |at: f64, sequence| Collective {
            at: at + late,
            long: long - late,
            stream: 20,
            group: Some(("tp", ranks.to_owned())),
            sequence: Some(sequence),
        };
        rank_of(4, rank, &[one(1100.0, 1), one(1400.0, 2)])
    };
    let (_folder, loaded) = job(&[rank(0, 200.0), rank(1, 200.0), rank(2, 250.0), rank(3, 250.0)]);
    assert_eq!(members(loaded), [[0, 1], [0, 1], [2, 3], [2, 3]]);
    assert!(loaded.graph.collectives.iter().all(|one| one.group_size == 2));
    // Ranks that do the same stand for one another, and their groups stay what they are.
    let (_folder, alike) = job(&[0, 1, 2, 3].map(|number| rank(number, 200.0)));
    assert_eq!(members(alike), [[0, 1], [0, 1]]);
    assert!(alike.graph.collectives.iter().all(|one| (one.group_size, one.loaded) == (2, 4)));
    let diagnostics = loaded.diagnostics();
    let said: Vec<&str> = diagnostics.sorted().iter().map(|it| it.code).collect();
    assert!(!said.contains(&"unmatched-collectives"), "{said:?}");
}

#[test]
fn collectives_of_two_streams_are_not_paired_crosswise() {
    let one = |at: f64, long: f64| Collective { at, long, stream: 20, group: None, sequence: None };
    // By their ends alone the first of one rank would be the second of the other, and the other way round.
    let first = rank_of(2, 0, &[one(1100.0, 900.0), one(2010.0, 990.0)]);
    let second = rank_of(2, 1, &[one(1100.0, 1910.0), one(3020.0, 880.0)]);
    let (_folder, loaded) = job(&[first, second]);
    let diagnostics = loaded.diagnostics();
    let said: Vec<&str> = diagnostics.sorted().iter().map(|it| it.code).collect();
    assert!(!said.contains(&"cyclic-dependency"), "{said:?}");
    assert_eq!(members(loaded), [vec![0], vec![0, 1], vec![1]]);
    assert!(said.contains(&"unmatched-collectives"), "{said:?}");
}

/// The gathered whole is as many times larger as there are ranks; what crosses links follows from a rank's part.
#[test]
fn the_message_of_an_all_gather_is_what_a_rank_puts_in() {
    let of = |own: u64, all: u64| {
        let one = Collective {
            at: 1100.0,
            long: 200.0,
            stream: 20,
            group: Some(("w", "[0, 1]".to_owned())),
            sequence: Some(1),
        };
        let mut trace = rank_of(2, 0, &[one]);
        for event in trace["traceEvents"].as_array_mut().unwrap() {
            if event["cat"] == "kernel" {
                event["name"] = json!("ncclDevKernel_AllGather_RING_LL");
                event["args"]["Collective name"] = json!("_allgather_base");
                event["args"]["In msg nelems"] = json!(own);
                event["args"]["Out msg nelems"] = json!(all);
            }
        }
        let (_folder, loaded) = job(&[trace]);
        loaded.graph.collectives[0].bytes.0
    };
    assert_eq!(of(1_000_000, 2_000_000), 4_000_000);
    assert_eq!(of(0, 2_000_000), 4_000_000);
    assert_eq!(of(1_000_000, 0), 4_000_000);
}

#[test]
fn waits_of_collectives_at_a_time_count_once() {
    // Two streams: on both of the first rank a collective waits for the second rank at the same time.
    let one = |at: f64, end: f64, stream| Collective {
        at,
        long: end - at,
        stream,
        group: Some(if stream == 20 { ("a", "[0, 1]".to_owned()) } else { ("b", "[0, 1]".to_owned()) }),
        sequence: Some(1),
    };
    let first = rank_of(2, 0, &[one(100.0, 1900.0, 20), one(110.0, 1900.0, 21)]);
    let second = rank_of(2, 1, &[one(1800.0, 1900.0, 20), one(1810.0, 1900.0, 21)]);
    let (_folder, loaded) = job(&[first, second]);
    let found = Communication::of(&engine(), loaded, &loaded.replay);
    assert_eq!(found.collectives.len(), 2);
    for rank in &found.ranks {
        assert!(rank.wait_ns + rank.transfer_ns <= rank.simulated_ns, "{rank:?}");
        assert_eq!(rank.exposed_ns + rank.overlapped_ns, rank.transfer_ns);
    }
    let summed: i64 = found.collectives.iter().map(|one| one.arrivals[0].wait_ns.0).sum();
    assert!(found.ranks[0].wait_ns.0 > 1_600_000 && found.ranks[0].wait_ns.0 < summed, "{:?}", found.ranks[0]);
    assert!(loaded.replay.summary.straggler.unwrap().late_ns <= loaded.replay.summary.simulated_ns);
}

#[test]
fn groups_of_one_name_whose_ranks_were_not_recorded_are_not_joined() {
    let rank = |rank: u32, world: u32, listed: bool| {
        let ranks = if rank < 2 { "[0, 1]" } else { "[2, 3]" };
        let one = |at: f64| Collective {
            at: at + 7.0 * f64::from(rank),
            long: 200.0 + 20.0 * f64::from(rank),
            stream: 20,
            group: Some(("0", if listed { ranks.to_owned() } else { String::new() })),
            sequence: None,
        };
        rank_of(world, rank, &[one(1100.0), one(1800.0)])
    };
    let of = |ranks: u32, listed: bool| job(&(0..ranks).map(|number| rank(number, ranks, listed)).collect::<Vec<_>>());
    let told = |loaded: &Loaded, code: &str| loaded.diagnostics().count(code);
    let (_folder, unknown) = of(4, false);
    assert_eq!(members(unknown), [[0], [0], [1], [1], [2], [2], [3], [3]]);
    assert_eq!((told(unknown, "ambiguous-groups"), told(unknown, "unmatched-collectives")), (1, 0));
    assert!(unknown.graph.collectives.iter().all(|one| one.group_size == 2));
    for (ranks, listed) in [(4, true), (2, false)] {
        let (_folder, known) = of(ranks, listed);
        assert!(members(known).iter().all(|ranks| ranks.len() == 2), "{:?}", members(known));
        assert_eq!(told(known, "ambiguous-groups"), 0);
    }
}

/// What is said of a job by `code`.
fn said(loaded: &Loaded, code: &str) -> Option<String> {
    let diagnostics = loaded.diagnostics();
    diagnostics.sorted().into_iter().find(|found| found.code == code).map(|found| found.message.clone())
}

#[test]
fn a_message_of_which_ranks_recorded_other_sizes_is_told() {
    let of = |sizes: [u64; 2], (kernel, names): (&str, [&str; 2])| {
        let rank = |rank: u32| {
            let one = |at: f64, sequence| Collective {
                at,
                long: 200.0 + f64::from(rank),
                stream: 20,
                group: Some(("pp", "[0, 1]".to_owned())),
                sequence: Some(sequence),
            };
            let mut trace = rank_of(2, rank, &[one(1100.0, 1)]);
            for event in trace["traceEvents"].as_array_mut().unwrap().iter_mut().filter(|it| it["cat"] == "kernel") {
                event["name"] = json!(kernel);
                event["args"]["Collective name"] = json!(names[rank as usize]);
                event["args"]["In msg nelems"] = json!(sizes[rank as usize]);
            }
            trace
        };
        let (_folder, loaded) = job(&[rank(0), rank(1)]);
        assert_eq!(members(loaded), [[0, 1]]);
        said(loaded, "unlike-messages")
    };
    let message = ("ncclDevKernel_SendRecv", ["send", "recv"]);
    let sum = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", ["allreduce"; 2]);
    for one in [message, sum] {
        assert_eq!(of([1024, 1024], one), None);
        let text = of([1 << 20, 1024], one).unwrap();
        assert!(text.starts_with("1 message has another size") && text.contains("(4.00 KiB and 4.00 MiB)"), "{text}");
    }
    let gathered = ("ncclDevKernel_AllGather_RING_LL", ["_allgather_base"; 2]);
    assert_eq!(of([1 << 20, 1024], gathered), None, "each rank has a share of its own");
}

#[test]
fn a_group_of_another_size_than_its_list_of_ranks_is_told() {
    let of = |size: u32, listed: &str| {
        let one = Collective {
            at: 1100.0,
            long: 200.0,
            stream: 20,
            group: Some(("dp", listed.to_owned())),
            sequence: Some(1),
        };
        let rank = |rank: u32| {
            let mut trace = rank_of(2, rank, std::slice::from_ref(&one));
            for event in trace["traceEvents"].as_array_mut().unwrap().iter_mut().filter(|it| it["cat"] == "kernel") {
                event["args"]["Group size"] = json!(size);
            }
            trace
        };
        let (_folder, loaded) = job(&[rank(0), rank(1)]);
        said(loaded, "unlike-groups")
    };
    assert_eq!((of(2, "[0, 1]"), of(64, "[0, 1, ..., 63]")), (None, None));
    assert!(of(8, "[0, 1]").unwrap().contains("a group of 8 ranks of which 2 are listed"));
}

#[test]
fn a_collective_faster_than_any_link_is_told() {
    let of = |long: f64| {
        let one =
            Collective { at: 1100.0, long, stream: 20, group: Some(("dp", "[0, 1]".to_owned())), sequence: Some(1) };
        let rank = |rank: u32| {
            let mut trace = rank_of(2, rank, std::slice::from_ref(&one));
            trace["deviceProperties"] = json!([{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]);
            for event in trace["traceEvents"].as_array_mut().unwrap().iter_mut().filter(|it| it["cat"] == "kernel") {
                event["args"]["In msg nelems"] = json!(1 << 26);
            }
            trace
        };
        let (_folder, loaded) = job(&[rank(0), rank(1)]);
        said(loaded, "impossible-rate")
    };
    assert_eq!(of(1500.0), None);
    assert!(of(2.0).is_some());
}

#[test]
fn a_collective_whose_partner_lies_outside_the_modelled_step_has_one() {
    let rank = |rank: u32, late: f64| {
        let one = |sequence: u32| Collective {
            at: 1100.0 + 2000.0 * f64::from(sequence),
            long: 200.0 + 100.0 * f64::from(rank),
            stream: 20,
            group: Some(("dp", "[0, 1]".to_owned())),
            sequence: Some(u64::from(sequence)),
        };
        let mut trace = rank_of(2, rank, &[1, 2, 3, 4].map(one));
        let events = trace["traceEvents"].as_array_mut().unwrap();
        events.retain(|event| event["cat"] != "user_annotation" && event["name"] != "cudaDeviceSynchronize");
        for step in 1..5 {
            let (ts, name) = (2000.0 * f64::from(step), format!("ProfilerStep#{step}"));
            events.push(json!({"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1,
                               "ts": ts + late, "dur": 1990.0}));
        }
        trace
    };
    let (_folder, loaded) = job(&[rank(0, 0.0), rank(1, 0.0)]);
    assert_eq!(["unmatched-collectives", "collectives-at-edge"].map(|code| said(loaded, code)), [None, None]);
    // One rank's steps begin behind their collective, which is of the step before.
    let (_folder, loaded) = job(&[rank(0, 0.0), rank(1, 1500.0)]);
    assert_eq!(said(loaded, "unmatched-collectives"), None);
    assert!(said(loaded, "collectives-at-edge").unwrap().contains("ran it outside of theirs"));
}

#[test]
fn why_ranks_are_late_is_the_same_of_one_collective_and_of_all_in_turn() {
    let ranks = (0..4).map(|rank: u32| {
        let ranks = if rank < 2 { "[0, 1]" } else { "[2, 3]" };
        let one = |number: u32| {
            let late = f64::from((7 * rank + 13 * number) % 23);
            Collective {
                at: 1100.0 + 80.0 * f64::from(number) + late,
                long: 60.0 - late,
                stream: 20 + number % 2,
                group: Some(("tp", ranks.to_owned())),
                sequence: Some(u64::from(number)),
            }
        };
        let mut trace = rank_of(4, rank, &(1..40).map(one).collect::<Vec<_>>());
        for event in trace["traceEvents"].as_array_mut().unwrap().iter_mut().filter(|it| it["cat"] == "kernel") {
            let is_first = event["args"]["correlation"] == 1;
            event["args"]["In msg nelems"] = json!(if is_first { 1_000_000 + rank } else { 1_000_000 });
        }
        trace
    });
    let (_folder, loaded) = job(&ranks.collect::<Vec<_>>());
    let (graph, resolved) = (&*loaded.graph, &loaded.replay.resolved);
    let (timed, schedule) = (&*resolved.timed, &*loaded.replay.schedule);
    let times = Times::Simulated { timed, schedule };
    let sources = Sources { graph, works: &resolved.works, timed, schedule, times };
    let calls = collectives(graph, timed, schedule);
    let mut reasons = Reasons::of(&sources);
    let found: Vec<_> = calls.iter().map(|call| (reasons.reason(call), reason(&sources, call))).collect();
    assert!(found.iter().all(|(in_turn, alone)| in_turn == alone));
    assert!(found.iter().filter(|(why, _)| why.is_some()).count() > 20, "{found:?}");
}

/// `trace` with every event `by` µs later that is `wanted`.
fn later(mut trace: serde_json::Value, by: f64, wanted: fn(&str) -> bool) -> serde_json::Value {
    for event in trace["traceEvents"].as_array_mut().unwrap() {
        if wanted(event["name"].as_str().unwrap()) {
            event["ts"] = json!(event["ts"].as_f64().unwrap() + by);
        }
    }
    trace
}

/// Two ranks that wait for one another in unlike collectives.
fn two_ranks() -> [serde_json::Value; 2] {
    let one = |at: f64, long: f64| Collective { at, long, stream: 20, group: None, sequence: None };
    let lengths = [40.0, 300.0, 80.0, 120.0, 60.0];
    [0, 1].map(|rank| {
        let late = |number: usize| f64::from((number as u32 + rank) % 2) * 30.0;
        let all = lengths.iter().enumerate();
        let all = all.map(|(number, long)| one(1100.0 + 7_000.0 * number as f64 + late(number), long - late(number)));
        rank_of(2, rank, &all.collect::<Vec<_>>())
    })
}

#[test]
fn clocks_that_are_far_apart_are_aligned_as_close_ones_are() {
    let [first, second] = two_ranks();
    let (_folder, close) = job(&[first.clone(), second.clone()]);
    assert_eq!(members(close), vec![vec![0, 1]; 5]);
    for by in [-40_000.0, 2_500.0, 10_000.0, 300_000.0] {
        let (_folder, far) = job(&[first.clone(), later(second.clone(), by, |_| true)]);
        assert_eq!(members(far), vec![vec![0, 1]; 5], "{by}");
        let offset = far.graph.ranks[1].clock.offset - close.graph.ranks[1].clock.offset;
        assert_eq!(offset.0, (by * 1000.0) as i64);
        assert_eq!(far.replay.summary.steady_ns, close.replay.summary.steady_ns, "{by}");
    }
}

#[test]
fn steps_of_ranks_at_other_times_and_without_work_are_said_to_be() {
    let [first, second] = two_ranks();
    let (_folder, sound) = job(&[first.clone(), second.clone()]);
    let codes = ["steps-apart", "empty-step"];
    assert_eq!(codes.map(|code| said(sound, code)), [None, None]);
    let moved = later(second, 1e6, |name| name.starts_with("ProfilerStep"));
    let (_folder, apart) = job(&[first, moved]);
    let told = codes.map(|code| said(apart, code));
    assert!(told.iter().all(Option::is_some), "{told:?}");
}

#[test]
fn all_iterations_are_those_of_all_ranks_and_others_are_told() {
    let rank = |rank: u32| {
        let mut text = String::new();
        let packed =
            std::fs::File::open(sample(&format!("dlrm-ddp-b128-fp32-cpu-ws2-r{rank}.kineto.json.gz"))).unwrap();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        text
    };
    let (first, second) = (rank(0), rank(1));
    let all = |second: &str| {
        let folder = tempfile::tempdir().unwrap();
        for (name, trace) in [("r0.json", &*first), ("r1.json", second)] {
            std::fs::write(folder.path().join(name), trace).unwrap();
        }
        let answer = retime().args(["simulate", "--iteration", "all"]).arg(folder.path()).output().unwrap();
        let [out, said] = [answer.stdout, answer.stderr].map(|text| String::from_utf8(text).unwrap());
        ([3, 4, 5, 6].map(|step| out.contains(&format!("ProfilerStep#{step}"))), said.contains("missing-steps"))
    };
    assert_eq!(all(&second), ([true; 4], false));
    let without = |step: u32| second.replace(&format!("ProfilerStep#{step}"), "no step");
    assert_eq!(all(&without(6)), ([true, true, true, false], true));
    assert_eq!(all(&without(5)), ([true; 4], false), "the last one goes by its name");
}

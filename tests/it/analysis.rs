//! Critical path, gaps, breakdown and operator table: on a graph made by hand, and on other people's traces.

use std::io::Read;
use std::sync::Arc;

use retime::session::{Loaded, Outcome, advise};
use retime_core::analysis::breakdown::Breakdown;
use retime_core::analysis::critical_path::{CriticalPath, SegmentKind};
use retime_core::analysis::edited::Edited;
use retime_core::analysis::gaps::{Cause, Gap, candidate_steps, gaps};
use retime_core::analysis::lanes::Times;
use retime_core::analysis::layers::{Launch, occupancy};
use retime_core::analysis::operators::{Grouping, Level, Predictor, rows};
use retime_core::analysis::replay::ReplayStatus;
use retime_core::analysis::sources::Sources;
use retime_core::cost::{CostModels, Prediction};
use retime_core::device::Catalog;
use retime_core::diagnostic::Diagnostics;
use retime_core::graph::{
    BuildOptions, Clock, CollectiveId, Dependency, DependencyKind, ExecutionGraph, HostPart, Lane, LaneId, LaneKind,
    NodeId, Rank, RankPart, Task, TaskKind, TimedGraph,
};
use retime_core::intern::{NameId, NameTable};
use retime_core::scenario::{AddedTask, KernelWork, Resolved, Scenario};
use retime_core::sim::{Schedule, simulate};
use retime_core::trace::{KernelArgs, OpenOptions};
use retime_core::units::{Bytes, DurNs, TimeNs};

use crate::support::jobs::{of_shared, traced};
use crate::support::{engine, shared};

/// One rank with a thread (lane 0), two streams (1, 2) and a lane for markers (3). Measured times are the simulated ones.
struct ByHand(ExecutionGraph);

impl ByHand {
    fn new() -> Self {
        let lane = |kind| Lane { rank: Rank(0), kind, name: NameId(0), communication: false };
        let stream = |stream| LaneKind::Stream { device: 0, stream };
        let lanes = [LaneKind::Thread { tid: 1 }, stream(7), stream(20), LaneKind::Virtual].map(lane).to_vec();
        Self(ExecutionGraph {
            is_predicted: false,
            tasks: petgraph::graph::DiGraph::default(),
            lanes,
            operators: Vec::new(),
            operands: Vec::new(),
            collectives: Vec::new(),
            names: NameTable::new(),
            ranks: Vec::new(),
            measured: DurNs(0),
            late_starts: Vec::new(),
            constants: Vec::new(),
            batch_size: None,
            batches: 1,
            passes: Vec::new(),
            diagnostics: Diagnostics::default(),
            stated: Vec::new(),
            stands_beside: Vec::new(),
            repeats: Vec::new(),
        })
    }

    fn task(
        &mut self,
        kind: TaskKind,
        lane: u32,
        name: &str,
        ns: i64,
        after: &[(NodeId, DependencyKind, i64)],
    ) -> NodeId {
        let name = self.0.names.intern(name);
        let start = after.iter().map(|&(node, _, lag)| self.0.tasks[node].measured_end().0 + lag).fold(0, i64::max);
        let node = self.0.tasks.add_node(Task {
            kind,
            lane: LaneId(lane),
            name,
            operator: None,
            event: None,
            measured_start: TimeNs(start),
            measured: DurNs(ns),
            duration: DurNs(ns),
            bytes: Bytes(0),
        });
        for &(before, kind, lag) in after {
            self.0.tasks.add_edge(before, node, Dependency::on_end(kind, DurNs(lag)));
        }
        node
    }

    fn finish(mut self, ends: &[NodeId]) -> ExecutionGraph {
        let after: Vec<_> = ends.iter().map(|&node| (node, DependencyKind::StepEnd, 0)).collect();
        let end = self.task(TaskKind::StepEnd, 3, "", 0, &after);
        let measured = self.0.tasks[end].measured_end().since(TimeNs(0));
        self.0.ranks.push(RankPart {
            rank: Rank(0),
            others: Vec::new(),
            trace_index: 0,
            device: None,
            unlike: None,
            batches: 1,
            optimizers: Vec::new(),
            tells_transfers: false,
            passes: Vec::new(),
            clock: Clock::default(),
            iteration: String::new(),
            window_start: TimeNs(0),
            window_end: TimeNs(measured.0),
            iteration_start: TimeNs(0),
            iteration_end: TimeNs(measured.0),
            begin: None,
            backlog: None,
            end,
            measured,
        });
        self.0
    }
}

/// Host 100, launch 10, kernel 1000 from 130; the host waits for it (sync return 20), then 300 before the next launch,
/// whose kernel starts 1000 − … later; a kernel on stream 20 waits for that one's event.
fn waiting_host() -> ExecutionGraph {
    use DependencyKind::{EventWait, HostWait, Launch, Program, Stream};
    let mut graph = ByHand::new();
    let think = graph.task(TaskKind::Host(HostPart::BeforeLaunch), 0, "aten::mm", 100, &[]);
    let launch = graph.task(TaskKind::Runtime, 0, "cudaLaunchKernel", 10, &[(think, Program, 0)]);
    let first = graph.task(TaskKind::Kernel, 1, "sgemm", 1_000, &[(launch, Launch, 20)]);
    let sync = graph.task(TaskKind::Runtime, 0, "cudaStreamSynchronize", 5, &[(launch, Program, 0)]);
    let woken =
        graph.task(TaskKind::Joint, 3, "cudaStreamSynchronize", 0, &[(sync, Program, 0), (first, HostWait, 20)]);
    let idle = graph.task(TaskKind::Host(HostPart::Between), 0, "", 300, &[(woken, Program, 0)]);
    let again = graph.task(TaskKind::Runtime, 0, "cudaLaunchKernel", 10, &[(idle, Program, 0)]);
    let second = graph.task(
        TaskKind::Kernel,
        1,
        "vectorized_elementwise_kernel",
        500,
        &[(again, Launch, 20), (first, Stream, 2)],
    );
    let third = graph.task(TaskKind::Kernel, 2, "copy", 100, &[(again, Launch, 20), (second, EventWait, 4)]);
    graph.finish(&[third])
}

fn simulated(graph: &ExecutionGraph) -> (TimedGraph, Schedule) {
    let timed = TimedGraph::lower(graph);
    let mut schedule = Schedule::default();
    simulate(&timed, &mut schedule);
    (timed, schedule)
}

fn all_gaps(graph: &ExecutionGraph) -> Vec<Gap> {
    let (timed, schedule) = simulated(graph);
    let times = Times::Simulated { timed: &timed, schedule: &schedule };
    gaps(&Sources { graph, works: &KernelWork::of(graph), timed: &timed, schedule: &schedule, times }, DurNs(1))
}

#[test]
fn the_critical_path_names_every_part_of_the_iteration_once() {
    let graph = waiting_host();
    let (timed, schedule) = simulated(&graph);
    let times = Times::Simulated { timed: &timed, schedule: &schedule };
    let path = CriticalPath::of_job(&Sources {
        graph: &graph,
        works: &KernelWork::of(&graph),
        timed: &timed,
        schedule: &schedule,
        times,
    });
    let kinds: Vec<(&str, i64)> = path.segments.iter().map(|it| (it.kind.name(), it.duration.0)).collect();
    let expected = [
        ("T2", 100),
        ("T4", 10),
        ("launch-latency", 20),
        ("gemm", 1_000),
        ("sync-return", 20),
        ("T1", 300),
        ("T4", 10),
        ("launch-latency", 20),
        ("elementwise", 500),
        ("wait-event", 4),
        ("movement", 100),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(path.length, DurNs(2_084));
    assert_eq!(path.by_kind()["T4"], DurNs(20));
    let measured = CriticalPath::of_job(&Sources {
        graph: &graph,
        works: &KernelWork::of(&graph),
        timed: &timed,
        schedule: &schedule,
        times: Times::Measured,
    });
    assert_eq!(measured, path, "the replay of this graph is exact");
    assert_eq!(path.folded(DurNs(50)).len(), 5, "T2 with the launch, gemm with the wait, T1, elementwise, movement");
}

#[test]
fn a_gap_after_a_wait_for_the_device_is_blamed_on_the_wait() {
    let graph = waiting_host();
    let found = all_gaps(&graph);
    let seen: Vec<(u32, i64, i64, &str)> =
        found.iter().map(|gap| (gap.lane.0, gap.start.0, gap.duration.0, gap.cause.name())).collect();
    let expected = [
        (2, 0, 1_984, "event-wait"),
        (1, 1_130, 350, "sync"),
        (1, 0, 130, "launch-bound"),
        (1, 1_980, 104, "nothing-left"),
    ];
    let mut sorted = expected;
    sorted.sort_by_key(|&(lane, start, duration, _)| (std::cmp::Reverse(duration), start, lane));
    assert_eq!(seen, sorted);
    assert_eq!(found[1].cause.describe(&graph), "the host had waited in cudaStreamSynchronize");
    assert_eq!(candidate_steps(&graph, &found[1])[0], "remove-sync");
    let launch_bound = found.iter().find(|gap| gap.start == TimeNs(0) && gap.lane == LaneId(1)).unwrap();
    assert_eq!(launch_bound.cause.describe(&graph), "launch-bound: before the first launch (T2) of aten::mm");
    assert!(candidate_steps(&graph, launch_bound).contains(&"scale kind=T2 & name=aten::mm x0".to_owned()));
    for gap in &found {
        assert_eq!(gap.chain.iter().map(|segment| segment.duration).sum::<DurNs>(), gap.duration);
    }
}

#[test]
fn the_breakdown_counts_hidden_and_exposed_communication() {
    use DependencyKind::{Launch, Program};
    let mut hand = ByHand::new();
    let launch = hand.task(TaskKind::Runtime, 0, "cudaLaunchKernel", 10, &[]);
    let other = hand.task(TaskKind::Runtime, 0, "cudaLaunchKernel", 10, &[(launch, Program, 0)]);
    let kernel = hand.task(TaskKind::Kernel, 1, "sgemm", 100, &[(launch, Launch, 0)]);
    let reduce = hand.task(TaskKind::Collective(CollectiveId(0)), 2, "ncclAllReduce", 150, &[(other, Launch, 40)]);
    let graph = hand.finish(&[kernel, reduce]);
    let (timed, schedule) = simulated(&graph);
    let works = KernelWork::of(&graph);
    let sources = Sources { graph: &graph, works: &works, timed: &timed, schedule: &schedule, times: Times::Measured };
    let breakdown = Breakdown::of(&sources);
    let rank = &breakdown.ranks[0];
    assert_eq!((rank.communication_overlapped, rank.communication_exposed), (DurNs(50), DurNs(100)));
    assert_eq!((rank.active, rank.kernel_only), (DurNs(200), DurNs(150)));
    assert!((breakdown.gpu_busy() - 200.0 / 210.0).abs() < 1e-12);
    assert_eq!(breakdown.threads[0].by_part["T4"], DurNs(20));
}

#[test]
fn the_path_of_an_edited_scenario_goes_through_what_the_edit_added() {
    let mut hand = ByHand::new();
    let launch = hand.task(TaskKind::Runtime, 0, "cudaLaunchKernel", 10, &[]);
    let kernel = hand.task(TaskKind::Kernel, 1, "sgemm", 100, &[(launch, DependencyKind::Launch, 5)]);
    let graph = hand.finish(&[kernel]);
    let mut timed = TimedGraph::default();
    let first = timed.push(0, DurNs(10), &[]);
    let second = timed.push(1, DurNs(100), &[(first, DurNs(5))]);
    let task = timed.push(u32::MAX, DurNs(50), &[(second, DurNs(3))]);
    let end = timed.push(2, DurNs(0), &[(task, DurNs(0))]);
    timed.task_of = vec![first.0, second.0, end.0];
    let added = AddedTask {
        task,
        name: "vectorized_elementwise_kernel".into(),
        kind: TaskKind::Kernel,
        lane: LaneId(1),
        operator: None,
        caller: None,
        prediction: Prediction::measured(DurNs(50)),
        work: None,
        members: vec![kernel],
        beside: kernel,
        repeats: None,
    };
    let works = Arc::new(KernelWork::of(&graph));
    let resolved = Resolved {
        kept: Vec::new(),
        graph: Arc::new(graph),
        timed: Arc::new(timed),
        cycle: Arc::default(),
        changes: Vec::new(),
        removed: Vec::new(),
        added: vec![added],
        added_lanes: Vec::new(),
        replaced: Vec::new(),
        reports: Vec::new(),
        devices: Vec::new(),
        batch: None,
        placements: None,
        memory: Arc::default(),
        unchanged: None,
        moved: Vec::default(),
        rank_count: None,
        job_ranks: 1,
        replicas: 1,
        repeats: 1,
        works,
        cyclic: 0,
    };
    let Edited { graph, timed, .. } = Edited::of(&resolved);
    let mut schedule = Schedule::default();
    simulate(&timed, &mut schedule);
    let times = Times::Simulated { timed: &timed, schedule: &schedule };
    let path = CriticalPath::of_job(&Sources {
        graph: &graph,
        works: &KernelWork::of(&graph),
        timed: &timed,
        schedule: &schedule,
        times,
    });
    let kinds: Vec<(&str, i64)> = path.segments.iter().map(|it| (it.kind.name(), it.duration.0)).collect();
    assert_eq!(kinds, [("T4", 10), ("launch-latency", 5), ("gemm", 100), ("stream-gap", 3), ("elementwise", 50)]);
    let breakdown = Breakdown::of(&Sources {
        graph: &graph,
        works: &KernelWork::of(&graph),
        timed: &timed,
        schedule: &schedule,
        times,
    });
    assert_eq!(breakdown.gpu_active(), DurNs(150));
}

fn graph_of(path: &str) -> Option<&'static ExecutionGraph> {
    Some(of_shared(path)?.graph())
}

const TRACES: [&str; 6] = [
    "bert-small-h100-mi300/h100.json.gz",
    "vgg13-h100-train/profiler_vgg13-iter41.json.gz",
    "qwen05b-h100/h100.json.gz",
    "resnet50-v100-dataloader/workers0.pt.trace.json.gz",
    "recsys-a100x8-rank3/control.json.gz",
    "dlrm-v100x8/dlrm_kineto.tar.gz",
];

/// Of every trace: the path covers the period, busy and idle time of a stream make up the period, each gap's chain
/// covers the gap, and the operator table's columns add up alike at every level.
#[test]
fn the_accounts_of_real_traces_add_up() {
    let (models, catalog) = (CostModels::builtin().unwrap(), Catalog::builtin().unwrap());
    for graph in TRACES.iter().filter_map(|path| graph_of(path)) {
        let (timed, schedule) = simulated(graph);
        for times in [Times::Measured, Times::Simulated { timed: &timed, schedule: &schedule }] {
            let works = KernelWork::of(graph);
            let sources = Sources { graph, works: &works, timed: &timed, schedule: &schedule, times };
            accounts_add_up(&sources);
        }
        let recorded = graph.ranks.iter().map(|part| part.device.as_ref().and_then(|it| catalog.recognise(&it.name)));
        let devices: Vec<_> = recorded.map(|device| device.map(AsRef::as_ref)).collect();
        table_adds_up(graph, Predictor { models: &models, devices: &devices });
    }
}

fn accounts_add_up(sources: &Sources<'_>) {
    let Sources { graph, times, .. } = *sources;
    for part in &graph.ranks {
        let period = times.period(graph, part);
        let path = CriticalPath::of_rank(sources, part);
        assert_eq!(path.length, period.end.since(period.start));
        assert!(path.segments.windows(2).all(|pair| pair[0].start + pair[0].duration == pair[1].start));
    }
    let found = gaps(sources, DurNs(1));
    assert!(found.windows(2).all(|pair| pair[0].duration >= pair[1].duration));
    for gap in &found {
        assert_eq!(gap.chain.iter().map(|segment| segment.duration).sum::<DurNs>(), gap.duration, "{gap:?}");
    }
    let breakdown = Breakdown::of(sources);
    for stream in &breakdown.streams {
        let rank = breakdown.ranks.iter().find(|it| it.rank == stream.rank).unwrap();
        let idle: DurNs = stream.idle.values().copied().sum();
        assert_eq!(stream.busy + idle, rank.period.end.since(rank.period.start));
        assert!(stream.by_family.values().copied().sum::<DurNs>() >= stream.busy);
    }
    println!("{:?}", CriticalPath::of_job(sources).by_kind());
    println!("busy {:.3} active {} kernels {}", breakdown.gpu_busy(), breakdown.gpu_active(), breakdown.kernel_only());
    for gap in found.iter().take(6) {
        let steps = candidate_steps(graph, gap);
        println!("gap {} lane {} at {}: {} {steps:?}", gap.duration, gap.lane.0, gap.start, gap.cause.describe(graph));
    }
}

fn table_adds_up(graph: &ExecutionGraph, predictor: Predictor<'_>) {
    let works = KernelWork::of(graph);
    let table = |level, by| rows((graph, &works), Times::Measured, Some(predictor), level, by);
    let model = table(Level::Model, Grouping::Name).remove(0);
    for (level, by) in [
        (Level::Module, Grouping::Name),
        (Level::Operator, Grouping::Name),
        (Level::Operator, Grouping::Stream),
        (Level::Kernel, Grouping::Name),
        (Level::Kernel, Grouping::Family),
    ] {
        let rows = table(level, by);
        assert_eq!(rows.iter().map(|row| row.device_ns).sum::<i64>(), model.device_ns);
        assert_eq!(rows.iter().map(|row| row.bytes).sum::<u64>(), model.bytes);
        if level != Level::Kernel {
            assert_eq!(rows.iter().map(|row| row.host_ns).sum::<i64>(), model.host_ns);
        }
        for row in rows.iter().take(4) {
            println!("{row:?}");
        }
    }
}

/// A step whose loader runs in the same process is idle while it loads.
#[test]
fn the_longest_gap_of_a_step_without_loading_workers_is_data_loading() {
    let Some(graph) = graph_of("resnet50-v100-dataloader/workers0.pt.trace.json.gz") else { return };
    let longest = all_gaps(graph).into_iter().find(|gap| gap.next.is_some()).unwrap();
    assert!(matches!(longest.cause, Cause::DataLoading { .. }), "{}", longest.cause.describe(graph));
    assert_eq!(candidate_steps(graph, &longest)[0], "prefetch-input");
}

#[test]
fn a_host_bound_model_spends_its_critical_path_on_the_host() {
    let Some(graph) = graph_of("bert-small-h100-mi300/h100.json.gz") else { return };
    let (timed, schedule) = simulated(graph);
    let path = CriticalPath::of_job(&Sources {
        graph,
        works: &KernelWork::of(graph),
        timed: &timed,
        schedule: &schedule,
        times: Times::Measured,
    });
    let host = path.segments.iter().filter(|it| matches!(it.kind, SegmentKind::Host(_) | SegmentKind::Runtime));
    let share = host.map(|segment| segment.duration.0).sum::<i64>() as f64 / path.length.0 as f64;
    assert!(share > 0.95, "{share}");
}

#[test]
fn occupancy_from_the_launch_agrees_with_the_profilers_estimate() {
    let Some(path) = shared("vgg13-h100-train/profiler_vgg13-iter41.json.gz") else { return };
    let trace = traced(&[path])[0].ranks[0].trace.as_ref().unwrap();
    let device = engine().catalog.find("H100").unwrap().clone();
    let launch = |args: &KernelArgs| Launch {
        blocks: args.grid.iter().map(|&size| u64::from(size)).product(),
        threads: args.block.iter().product(),
        registers: args.registers,
        shared: args.shared_memory,
    };
    let of = |args: &KernelArgs| Some((f64::from(args.occupancy?) / 100.0, occupancy(launch(args), &device)?));
    let estimated = trace.kernels.iter().filter(|(_, args)| args.occupancy != Some(0));
    let pairs: Vec<(f64, f64)> = estimated.filter_map(|(_, args)| of(args)).collect();
    assert!(pairs.len() > 200, "{}", pairs.len());
    for (recorded, own) in pairs {
        assert!((recorded - own).abs() < 0.01, "{recorded} {own}");
    }
}

#[test]
fn nothing_is_proposed_on_a_trace_that_does_not_replay() {
    let path = crate::support::sample("dlrm-ddp-b256-on-v100.predicted.json.gz");
    let engine = engine();
    let mut loaded = engine.load(&[path], &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0);
    let asked = |loaded: &Loaded| advise(&engine, loaded, &loaded.replay, None, &|| false).unwrap();
    let sound = asked(&loaded);
    let is_ranked = sound
        .options
        .windows(2)
        .all(|pair| pair[0].is_per_sample != pair[1].is_per_sample || pair[0].sure_gain >= pair[1].sure_gain);
    assert!(!sound.options.is_empty() && is_ranked, "{sound:?}");
    for status in [ReplayStatus::Fail, ReplayStatus::Pinned] {
        let mut replay = Outcome::clone(&loaded.replay);
        replay.summary.replay_status = status;
        loaded.replay = Arc::new(replay);
        let advice = asked(&loaded);
        assert!(advice.options.is_empty() && advice.left_out.is_empty() && advice.fails_replay, "{advice:?}");
        assert!(advice.none().contains("the replay does not pass"), "{advice:?}");
    }
}

/// The bundled prediction, or what was made of its text.
fn predicted(change: impl Fn(&str) -> String) -> Loaded {
    let path = crate::support::sample("dlrm-ddp-b256-on-v100.predicted.json.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    engine().load_bytes(change(&text).as_bytes(), "predicted.json", &BuildOptions::default()).unwrap()
}

#[test]
fn a_prediction_passes_no_replay_and_has_the_band_that_it_states() {
    let loaded = predicted(str::to_owned);
    let summary = &loaded.replay.summary;
    assert_eq!(summary.replay_status, ReplayStatus::Predicted);
    let half = (summary.error_band.high_ns - summary.simulated_ns).0 as f64 / summary.simulated_ns.0 as f64;
    assert!((0.05..0.9).contains(&half), "{half}");
    let step = loaded.context.step("resize-batch 1").unwrap();
    let edited = engine().evaluate(&loaded, &Scenario { steps: vec![step], ..Scenario::default() }, 0).summary;
    let shorter = 1.0 - edited.steady_ns.0 as f64 / edited.base_steady_ns.0 as f64;
    assert!((0.0..0.01).contains(&shorter), "the host decides, which waits for smaller copies of inputs: {shorter}");
    assert!(edited.steady_band.low_ns < edited.steady_ns && edited.steady_ns < edited.steady_band.high_ns);
}

#[test]
fn a_prediction_that_states_no_error_or_a_senseless_one_may_be_anything() {
    let unstated = predicted(|text| text.replacen("\"retimeError\"", "\"other\"", 1));
    let band = unstated.replay.summary.error_band;
    assert_eq!((band.low_ns, band.high_ns), (DurNs::ZERO, unstated.replay.summary.simulated_ns.scale(2.0)));
    for error in ["1e300", "-0.5"] {
        let senseless = predicted(|text| {
            let (before, after) = text.split_once("\"retimeError\":").unwrap();
            format!("{before}\"retimeError\":{error}{}", &after[after.find(',').unwrap()..])
        });
        let band = senseless.replay.summary.error_band;
        assert!(band.low_ns == DurNs::ZERO && band.high_ns > senseless.replay.summary.simulated_ns, "{error}");
    }
}

#[test]
fn what_keeps_its_time_is_a_share_of_the_traced_work_too() {
    let loaded = predicted(str::to_owned);
    let share = |line: &str| {
        let step = loaded.context.step(line).unwrap();
        engine().evaluate(&loaded, &Scenario { steps: vec![step], ..Scenario::default() }, 0).summary.unmodelled_share
    };
    let (once, larger) = (share("resize-batch 512"), share("resize-batch 1000000"));
    assert!(larger >= once, "{once} of the work kept its time, {larger} beside a thousand times as much");
}

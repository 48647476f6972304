//! Edits of the structure of a million tasks, re-simulated, against the timed graph made anew from the graph; and a sweep over
//! 64 batch sizes of more than 100 000 tasks. On made-up jobs, whose ranks are all simulated.
//!
//! Bars: an edit from its line to the schedule within 16 ms and in half the time of the graph anew; the sweep within 1 s on two cores.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set up has nothing to measure")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use retime::session::synthetic::{JobSpec, Machine, Network, SyntheticJob};
use retime::session::{Engine, Loaded, Sweep, SweepRun};
use retime_core::graph::{BuildOptions, TimedGraph};
use retime_core::scenario::{Scenario, parse_step, resolve};
use retime_core::sim::{Schedule, resimulate_from, simulate};
use retime_core::trace::OpenOptions;

const ROUNDS: usize = 11;

/// Samples per rank of the made-up jobs, which do not record it.
const BATCH: u64 = 512;

/// What a user does at that size: a few tasks to one in a hundred, and one that touches a tenth.
const EDITS: [&str; 8] = [
    "remove name~split_embedding",
    "insert kernel probe 20us after name~split_embedding & kind=kernel",
    "remove name~relu & rank=0 & phase=forward & kind=kernel",
    "insert kernel probe 20us after name~relu & rank=0 & phase=forward",
    "fuse family=elementwise & rank=0 & phase=forward",
    "replace name~relu & rank=0 with aten::gelu",
    "parallelize family=elementwise & rank=0 & phase=forward",
    "remove name~relu & rank<5",
];

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn job(engine: &Engine, ranks: u32, layers: u32) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::of(engine, "V100").unwrap();
    let spec = JobSpec { ranks, layers, local_batch: BATCH, ..JobSpec::default() };
    SyntheticJob::draw(spec, Network::default(), machine.device.memory.0).write(folder.path(), machine).unwrap();
    let (open, build) = (OpenOptions::default(), BuildOptions::default());
    engine.load(&[folder.path().to_owned()], &open, &build).unwrap().swap_remove(0)
}

/// The shortest of several runs of both, taken in turn so that a busy machine disturbs both alike.
fn best(mut one: impl FnMut(), mut other: impl FnMut()) -> [Duration; 2] {
    let mut shortest = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        let runs: [&mut dyn FnMut(); 2] = [&mut one, &mut other];
        for (run, shortest) in runs.into_iter().zip(&mut shortest) {
            let start = Instant::now();
            run();
            *shortest = (*shortest).min(start.elapsed());
        }
    }
    shortest
}

fn edit(loaded: &Loaded, line: &str) {
    let scenario = Scenario { steps: vec![parse_step(line).unwrap()], ..Scenario::default() };
    let (mut schedule, mut after, mut untouched) = (Schedule::default(), Schedule::default(), Schedule::default());
    simulate(loaded.base.timed(), &mut untouched);
    let mut changed = 0;
    let edited = || {
        let resolved = resolve(&loaded.base, &scenario, &loaded.context);
        if let Some(first) = resolved.unchanged {
            after.clone_from(&untouched);
            resimulate_from(&resolved.timed, first, &mut after);
        } else {
            simulate(&resolved.timed, &mut after);
        }
        changed = resolved.reports[0].changed;
    };
    let [edited, anew] = best(edited, || simulate(&TimedGraph::lower(black_box(&loaded.graph)), &mut schedule));
    println!(
        "{:9.2} {:9.2} {:8.1} {changed:9} {:8.2} %  {line}",
        ms(edited),
        ms(anew),
        ms(anew) / ms(edited),
        changed as f64 / loaded.base.timed().len() as f64 * 100.0
    );
}

/// A sweep over 64 batch sizes on all cores.
fn sweep(engine: &Engine, loaded: &Loaded) {
    let sizes: Vec<u64> = (1..=64).map(|part| BATCH * part / 8).collect();
    let sweep = Sweep::new("batch", Vec::new()).unwrap();
    let points: Vec<Vec<f64>> = sizes.iter().map(|&size| vec![size as f64]).collect();
    let scenario = Scenario::parse([format!("resize-batch {BATCH} from {BATCH}").as_str()]).unwrap();
    let sweeps = [sweep];
    let run = || drop(black_box(SweepRun::new(engine, loaded, &scenario, &sweeps).points(&points)));
    let mut schedule = Schedule::default();
    let [all, one] = best(run, || simulate(black_box(loaded.base.timed()), &mut schedule));
    println!(
        "{} batch sizes of {} tasks: {:.0} ms on {} cores, {:.1} ms a point; simulating takes {:.2} ms of a point's time on a core",
        points.len(),
        loaded.base.timed().len(),
        ms(all),
        rayon::current_num_threads(),
        ms(all) / points.len() as f64,
        ms(one)
    );
}

fn main() {
    let engine = Engine { folds: false, ..Engine::builtin().unwrap() };
    let words = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    sweep(&engine, &job(&engine, 2, 1_100));
    let loaded = job(&engine, 8, 2_800);
    println!("{} tasks", loaded.base.timed().len());
    println!("{:>9} {:>9} {:>8} {:>9} {:>10}", "ms", "anew", "times", "changed", "of tasks");
    EDITS.iter().filter(|line| line.contains(&words)).for_each(|line| edit(&loaded, line));
}

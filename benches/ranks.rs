//! Many ranks: a table moved, the search for a placement, folded ranks against those that stand for them, and loading side by side
//! against one after the other, on made-up jobs.
//!
//! Bars: a table move re-timed within 50 ms with 8 ranks of 20 000 tasks; `best` for 100 tables on 8 ranks within 2 s; 1 024 folded
//! ranks within 1.2 times the time of their representatives; 8 ranks of 100 000 events on two cores within 60 % of one after the other.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set up has nothing to measure")]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use retime::session::synthetic::{JobSpec, Machine, Network, SyntheticJob};
use retime::session::{Engine, Loaded, Sharding};
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::trace::{self, OpenOptions};

use core_time::core_time;

#[path = "common/core_time.rs"]
mod core_time;

const ROUNDS: usize = 7;

fn shortest(rounds: usize, mut run: impl FnMut()) -> f64 {
    let once = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..rounds).map(once).min().unwrap_or(Duration::ZERO).as_secs_f64() * 1e3
}

fn write(engine: &Engine, spec: JobSpec, folder: &Path) {
    let machine = Machine::of(engine, "V100").unwrap();
    SyntheticJob::draw(spec, Network::default(), machine.device.memory.0).write(folder, machine).unwrap();
}

fn load(engine: &Engine, folder: &Path) -> Loaded {
    engine.load(&[folder.to_owned()], &OpenOptions::default(), &BuildOptions::default()).unwrap().swap_remove(0)
}

fn job(engine: &Engine, spec: JobSpec) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    write(engine, spec, folder.path());
    load(engine, folder.path())
}

fn moves(engine: &Engine) {
    let loaded = job(engine, JobSpec { layers: 550, local_batch: 64, ..JobSpec::default() });
    let ranks = loaded.graph.ranks.len();
    println!(
        "{ranks} ranks, {} tasks each, {} tables",
        loaded.base.timed().len() / ranks,
        Sharding::new(&loaded, &Scenario::default()).tables().sharded().len()
    );
    loaded.base.warm();
    for line in
        ["reshard-tables t0:r1", "reshard-tables t0:r1,r2(col) t5:r3(row,uvm=0.9)", "reshard-tables lookup_greedy"]
    {
        let Ok(scenario) = Scenario::parse([line]) else { continue };
        let time = shortest(ROUNDS, || drop(black_box(engine.evaluate(&loaded, &scenario, 1))));
        println!("{line}: re-timed with its figures in {time:.1} ms");
    }
}

fn search(engine: &Engine) {
    let loaded = job(engine, JobSpec { local_batch: 512, seed: 1, ..JobSpec::default() });
    let sharding = Sharding::new(&loaded, &Scenario::default());
    let tables = sharding.tables().sharded().len();
    let time = shortest(3, || drop(black_box(sharding.best())));
    println!("best of {tables} tables on 8 ranks in {time:.0} ms");
}

fn folding(engine: &Engine) {
    let spec = JobSpec { ranks: 1024, kinds: 4, layers: 100, local_batch: 16, steps: 2, ..JobSpec::default() };
    let folder = tempfile::tempdir().unwrap();
    write(engine, spec, folder.path());
    let start = Instant::now();
    let folded = load(engine, folder.path());
    let opened = start.elapsed().as_secs_f64();
    let few = tempfile::tempdir().unwrap();
    for rank in 0..4 {
        let name = format!("rank{rank}.pt.trace.json");
        std::fs::copy(folder.path().join(&name), few.path().join(&name)).unwrap();
    }
    let representatives = load(engine, few.path());
    for line in ["scale kind=kernel x0.9", "swap-gpu H100"] {
        let scenario = Scenario::parse([line]).unwrap();
        let of = |loaded: &Loaded| shortest(ROUNDS, || drop(black_box(engine.evaluate(loaded, &scenario, 1))));
        let (all, few) = (of(&folded), of(&representatives));
        println!(
            "{line}: {} folded ranks {all:.2} ms, their 4 representatives {few:.2} ms: {:.2} times",
            folded.graph.rank_count(),
            all / few
        );
    }
    println!("1024 ranks opened and folded in {opened:.2} s");
}

fn loading(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    write(engine, JobSpec { layers: 2_800, local_batch: 16, ..JobSpec::default() }, folder.path());
    let paths = [folder.path().to_owned()];
    let events =
        trace::open(&paths, &OpenOptions::default()).unwrap().jobs[0].ranks[0].trace.as_ref().unwrap().events.len();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let columns = loaded_in(&pool, &|| trace::open(&paths, &OpenOptions::default()));
        (columns, loaded_in(&pool, &|| load(engine, folder.path())))
    };
    let (one, two) = (on(1), on(2));
    for (what, one, two) in [("to columns", one.0, two.0), ("ready to edit", one.1, two.1)] {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let percent = |one: Duration, two: Duration| 100.0 * ms(two) / ms(one);
        println!(
            "8 ranks of {events} events {what}: {:.0} ms on one core, {:.0} ms on two: {:.0} %; by the busier core's own time \
             {:.0} and {:.0} ms: {:.0} %",
            ms(one.wall),
            ms(two.wall),
            percent(one.wall, two.wall),
            ms(one.busiest),
            ms(two.busiest),
            percent(one.busiest, two.busiest)
        );
    }
}

/// How long something took by the clock, and the most that one thread spent on a core for it: what it would take on cores
/// that nobody else uses.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    busiest: Duration,
}

/// The shortest of several runs on `pool`; what was loaded is dropped outside.
fn loaded_in<T: Send>(pool: &rayon::ThreadPool, run: &(dyn Fn() -> T + Sync)) -> Took {
    let once = || {
        let (before, start) = (pool.broadcast(|_| core_time()), Instant::now());
        let loaded = pool.install(run);
        let wall = start.elapsed();
        let spent =
            pool.broadcast(|_| core_time()).into_iter().zip(before).map(|(after, before)| after.saturating_sub(before));
        let busiest = spent.max().unwrap_or_default();
        drop(black_box(loaded));
        Took { wall, busiest }
    };
    let runs: Vec<Took> = (0..5).map(|_| once()).collect();
    let least = |of: fn(&Took) -> Duration| runs.iter().map(of).min().unwrap_or_default();
    Took { wall: least(|took| took.wall), busiest: least(|took| took.busiest) }
}

fn main() {
    let engine = Engine::builtin().unwrap();
    moves(&engine);
    search(&engine);
    folding(&engine);
    loading(&engine);
}

//! Editing: predictions from memory against models asked each time, one edit re-timed against all worked out anew, and edits
//! with the steady period against those without it, in the same run.
//!
//! `cargo bench --bench resolve` edits the bundled sample; `cargo bench --bench resolve -- FILE [WORDS]` a trace, with WORDS only by
//! the edits whose line holds them.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set up has nothing to measure")]

#[path = "../tests/it/support/edits.rs"]
mod edits;

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use edits::LINES;
use retime::session::{Engine, Loaded, Sweep, SweepRun, sample};
use retime_core::cost::{CostModels, Family, Kernel, Shape, Work};
use retime_core::device::{Catalog, Precision};
use retime_core::graph::{BuildOptions, TaskId, TimedGraph};
use retime_core::scenario::{Base, Scenario, parse_step, resolve, transforms};
use retime_core::sim::{Schedule, resimulate_from, simulate, steady};
use retime_core::trace::OpenOptions;
use retime_core::units::{Bytes, DurNs, Flop};

const ROUNDS: usize = 7;
const KERNELS: usize = 100_000;
const SHAPES: usize = 2_000;

fn shortest<T>(mut set_up: impl FnMut() -> T, mut run: impl FnMut(T)) -> Duration {
    let once = |_| {
        let ready = set_up();
        let start = Instant::now();
        run(ready);
        start.elapsed()
    };
    (0..ROUNDS).map(once).min().unwrap_or_default()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Products and element-wise kernels of different sizes at a batch of `batch`.
fn works(batch: u64) -> Vec<Work> {
    let work = |i: u64| {
        let (m, n, k) = (batch * (1 + i % 8), 64 * (1 + i % 31), 32 * (1 + i / 31));
        let plain = i.is_multiple_of(2);
        Work {
            family: if plain { Family::Elementwise } else { Family::Gemm },
            flop: Flop(if plain { (m * n) as f64 } else { (2 * m * n * k) as f64 }),
            read: Bytes(4 * if plain { m * n + i } else { m * k + k * n }),
            written: Bytes(4 * m * n),
            precision: Precision::Fp32,
            shape: if plain { Shape::Plain } else { Shape::Gemm { batch: 1, m, n, k } },
        }
    };
    (0..SHAPES as u64).map(work).collect()
}

fn predictions() {
    let catalog = Catalog::builtin().unwrap();
    let (from, to) = (catalog.find("V100").unwrap(), catalog.find("A100-40").unwrap());
    let (old, new) = (works(256), works(512));
    let kernel = |i: usize| Kernel {
        measured: Some(DurNs(20_000)),
        typical: None,
        old: Some(&old[i % SHAPES]),
        new: Some(&new[i % SHAPES]),
    };
    let kernels: Vec<Kernel<'_>> = (0..KERNELS).map(kernel).collect();
    let together = |models: &CostModels| models.between(from, to).predict_all(&kernels);
    let alone = |models: &CostModels, kernels: &[Kernel<'_>]| {
        let between = models.between(from, to);
        kernels.iter().map(|kernel| between.predict(*kernel)).collect::<Vec<_>>()
    };
    let models = CostModels::builtin().unwrap();
    let fresh = || CostModels::builtin().unwrap();
    let recosted = shortest(fresh, |models| _ = black_box(together(&models)));
    let one_by_one = shortest(fresh, |models| _ = black_box(alone(&models, &kernels)));
    let shapes = &kernels[..SHAPES];
    let asked = shortest(fresh, |models| _ = black_box(alone(&models, shapes))).as_secs_f64() / SHAPES as f64;
    assert_eq!(together(&models), alone(&models, &kernels));
    let known = shortest(|| (), |()| _ = black_box(alone(&models, &kernels))).as_secs_f64() / KERNELS as f64;
    println!(
        "{KERNELS} kernels of {SHAPES} shapes re-costed in {:.1} ms on one core, nothing remembered before; one by one {:.1} ms",
        ms(recosted),
        ms(one_by_one)
    );
    let [asked, known] = [asked, known].map(|seconds| seconds * 1e9);
    println!("a prediction: models asked {asked:.0} ns, remembered {known:.0} ns, {:.0} times as fast", asked / known);
}

/// What is to be within that once the graph is known, on a trace of 200 k events.
const BAR_MS: f64 = 20.0;

/// What an edit may cost with the steady period, as a multiple of what it costs without. Closing the step into a loop is part of both
/// figures here: no edit is worked out without.
const STEADY_BAR: f64 = 2.5;

/// From an edit to its schedule: the first on a graph, the next, and with all that the screen shows.
///
/// # Returns
/// The time of the next in ms, and that with the steady period as a multiple of that without.
fn edit(engine: &Engine, loaded: &Loaded, line: &str) -> (f64, f64) {
    let scenario = Scenario { steps: vec![parse_step(line).unwrap()], ..Scenario::default() };
    let mut schedule = Schedule::default();
    let mut changed = 0;
    let mut retime = |base: &Base| {
        let resolved = resolve(base, &scenario, &loaded.context);
        simulate(&resolved.timed, &mut schedule);
        black_box(&schedule);
        changed = resolved.reports[0].changed;
    };
    let anew = shortest(|| (), |()| retime(&Base::new(Arc::clone(&loaded.graph))));
    let next = ms(shortest(|| (), |()| retime(&loaded.base)));
    let shown = shortest(|| (), |()| drop(black_box(engine.evaluate(loaded, &scenario, 1))));
    let cycle = resolve(&loaded.base, &scenario, &loaded.context).cycle;
    let repeated = ms(shortest(|| (), |()| _ = black_box(steady(&cycle, &mut Schedule::default()))));
    let with_steady = (next + repeated) / next.max(f64::MIN_POSITIVE);
    let over = if next > BAR_MS || with_steady > STEADY_BAR { " over" } else { "" };
    println!("{next:9.2} {with_steady:9.2} {:9.2} {:9.2} {changed:9}  {line}{over}", ms(shown), ms(anew));
    (next, with_steady)
}

/// A table over all kinds of edits.
fn edits(engine: &Engine, loaded: &Loaded, words: &str) {
    for spec in transforms() {
        assert!(LINES.iter().any(|line| line.split(' ').next() == Some(spec.name)), "{} is not timed", spec.name);
    }
    println!("{:>9} {:>9} {:>9} {:>9} {:>9}", "ms", "steady", "figures", "anew", "changed");
    let wanted = LINES.iter().filter(|line| line.contains(words));
    let (mut times, mut ratios): (Vec<f64>, Vec<f64>) = wanted.map(|line| edit(engine, loaded, line)).unzip();
    times.sort_by(f64::total_cmp);
    ratios.sort_by(f64::total_cmp);
    let over = times.iter().filter(|&&time| time > BAR_MS).count();
    println!(
        "{} edits: median {:.2} ms, worst {:.2} ms, {over} over {BAR_MS} ms",
        times.len(),
        times[times.len() / 2],
        times[times.len() - 1]
    );
    let over = ratios.iter().filter(|&&ratio| ratio > STEADY_BAR).count();
    println!(
        "with the steady period: median {:.2} times, worst {:.2} times, {over} over {STEADY_BAR} times",
        ratios[ratios.len() / 2],
        ratios[ratios.len() - 1]
    );
}

/// A sweep over 64 batch sizes on all cores, and what of it is the simulator's.
fn sweep(engine: &Engine, loaded: &Loaded) {
    let Some(batch) = loaded.graph.batch_size else { return };
    let sizes: Vec<u64> = (1..=64).map(|part| (batch * part / 8).max(part)).collect();
    let (sweep, scenario) =
        (Sweep::new("batch", sizes.iter().map(|&size| size as f64).collect()).unwrap(), Scenario::default());
    let points: Vec<Vec<f64>> = sweep.values().map(|value| vec![value]).collect();
    let sweeps = [sweep];
    let all = shortest(|| (), |()| drop(black_box(SweepRun::new(engine, loaded, &scenario, &sweeps).points(&points))));
    let mut schedule = Schedule::default();
    let one = shortest(|| (), |()| simulate(black_box(loaded.base.timed()), &mut schedule));
    println!(
        "{} batch sizes: {:.0} ms on {} cores, {:.1} ms a point; simulating takes {:.2} ms of a point's time on a core",
        points.len(),
        ms(all),
        rayon::current_num_threads(),
        ms(all) / points.len() as f64,
        ms(one)
    );
}

/// One operator late in the iteration changes: its schedule from there on against that of all.
fn late(loaded: &Loaded) {
    let timed = loaded.base.timed();
    let changed = timed.len() * 95 / 100;
    let task = (changed..timed.len()).find(|&task| timed.durations[task] > 0).unwrap_or(changed);
    let mut other = TimedGraph::clone(timed);
    other.durations[task] *= 2;
    let (mut all, mut anew) = (Schedule::default(), Schedule::default());
    simulate(timed, &mut anew);
    let full = shortest(|| (), |()| simulate(black_box(&other), &mut all));
    let from = shortest(|| (), |()| resimulate_from(black_box(&other), TaskId(task as u32), &mut anew));
    println!(
        "task {task} of {} changes: from there on {:.3} ms, all {:.3} ms, {:.1} times as fast",
        timed.len(),
        ms(from),
        ms(full),
        ms(full) / ms(from)
    );
}

fn main() {
    let engine = Engine::builtin().unwrap();
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let (path, words) = (arguments.next(), arguments.next());
    let loaded = match path {
        Some(path) => engine.load(&[PathBuf::from(path)], &OpenOptions::default(), &BuildOptions::default()).unwrap(),
        None => vec![sample::load(&engine, &BuildOptions::default()).unwrap()],
    };
    for loaded in &loaded {
        println!("{}: {} tasks", loaded.title, loaded.base.timed().len());
        edits(&engine, loaded, words.as_deref().unwrap_or_default());
        if words.is_some() {
            continue;
        }
        predictions();
        late(loaded);
        sweep(&engine, loaded);
    }
}

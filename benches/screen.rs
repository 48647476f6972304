//! The screen as a user meets it: a frame of a large edited job, the what-if board, a step along a sweep. On made-up jobs, whose ranks
//! are all simulated.
//!
//! Bars: a frame of a million events with ribbon and pairs within 1 ms; on a hundred thousand events the board's first rows
//! within 150 ms and all within 3 s on two cores, and a step along a sweep, seen in every view, within 33 ms.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set up has nothing to measure")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::layout::Size;
use retime::session::synthetic::{JobSpec, Machine, Network, SyntheticJob};
use retime::session::{Engine, Loaded, Trials, candidates};
use retime::tui::{Depth, ScriptedScreen, Style};
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::trace::OpenOptions;

const SIZE: Size = Size { width: 200, height: 60 };
const ROUNDS: usize = 21;
/// Points of the sweep that are gone along.
const STEPS: usize = 8;
/// An edit that changes every kernel, so that all streams are drawn in pairs.
const EDIT: &str = "scale kind=kernel x0.7";

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn job(engine: &Engine, ranks: u32, layers: u32) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::of(engine, "V100").unwrap();
    let spec = JobSpec { ranks, layers, local_batch: 512, ..JobSpec::default() };
    SyntheticJob::draw(spec, Network::default(), machine.device.memory.0).write(folder.path(), machine).unwrap();
    let (open, build) = (OpenOptions::default(), BuildOptions::default());
    engine.load(&[folder.path().to_owned()], &open, &build).unwrap().swap_remove(0)
}

fn events(loaded: &Loaded) -> usize {
    loaded.base.timed().len()
}

fn screen(engine: &Arc<Engine>, loaded: Loaded, steps: &[&str]) -> ScriptedScreen {
    let scenario = Scenario::parse(steps.iter().copied()).unwrap();
    let style = Style { depth: Depth::True, ..Style::plain() };
    let mut screen = ScriptedScreen::new(Arc::clone(engine), vec![loaded], &scenario, &style, SIZE);
    screen.settle();
    screen
}

/// The shortest of several runs.
fn best(mut run: impl FnMut()) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        run();
        shortest = shortest.min(start.elapsed());
    }
    shortest
}

/// A frame of a large job against one of a tenth of it.
fn frames(engine: &Arc<Engine>) {
    let [small, large] = [280, 2_800].map(|layers| {
        let loaded = job(engine, 8, layers);
        let count = events(&loaded);
        let screen = screen(engine, loaded, &[EDIT]);
        (count, best(|| _ = black_box(screen.draw())))
    });
    for (count, time) in [small, large] {
        println!("frame of {count:>8} events {:>8.3} ms", ms(time));
    }
    println!("  {:.2} times that of a tenth of the events", large.1.as_secs_f64() / small.1.as_secs_f64());
}

/// The board's first rows, and all of them, against as many evaluations of the scenario itself.
fn board(engine: &Engine, loaded: &Loaded) {
    let (lines, at_once) = (candidates(loaded), rayon::current_num_threads().max(1));
    let scenario = Scenario::parse([EDIT]).unwrap();
    let alone = best(|| _ = black_box(engine.evaluate(loaded, &scenario, 0)));
    let start = Instant::now();
    let trials = Trials::new(engine, loaded, &scenario);
    let mut first = None;
    for some in lines.chunks(at_once) {
        black_box(trials.try_all(some));
        first.get_or_insert_with(|| start.elapsed());
    }
    let all = start.elapsed();
    println!("board of {} edits on {} events, {at_once} threads", lines.len(), events(loaded));
    println!("  first rows {:>8.1} ms, all {:>8.1} ms", ms(first.unwrap_or_default()), ms(all));
    let each = alone.as_secs_f64() * lines.len() as f64 / at_once as f64;
    println!("  {:.2} times as many evaluations of the scenario alone", all.as_secs_f64() / each);
}

/// A step along a sweep until every view shows it, against evaluating that scenario alone.
fn scrub(engine: &Arc<Engine>, loaded: Loaded) {
    let scenario = Scenario::parse([EDIT]).unwrap();
    let alone = best(|| _ = black_box(engine.evaluate(&loaded, &scenario, 0)));
    let count = events(&loaded);
    let mut screen = screen(engine, loaded, &[]);
    for keys in ["6", ":knob dram_bw 0.5..2x9<enter>"] {
        screen.press(keys).unwrap();
        screen.settle();
    }
    screen.press("<home>").unwrap();
    screen.settle();
    let mut before = screen.draw();
    let mut longest = Duration::ZERO;
    for _ in 0..STEPS {
        let start = Instant::now();
        screen.press("<right>").unwrap();
        screen.settle();
        let now = screen.draw();
        longest = longest.max(start.elapsed());
        assert!(now != before, "a step that shows nothing new was not taken");
        before = now;
    }
    println!("the longest of {STEPS} steps along a sweep of {count} events {:.1} ms", ms(longest));
    println!("  {:.2} times one evaluation alone", longest.as_secs_f64() / alone.as_secs_f64());
}

fn main() {
    let engine = Arc::new(Engine { folds: false, ..Engine::builtin().unwrap() });
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|known| known == name);
    if is_wanted("board") {
        board(&engine, &job(&engine, 2, 1_100));
    }
    if is_wanted("sweep") {
        scrub(&engine, job(&engine, 2, 1_100));
    }
    if is_wanted("frame") {
        frames(&engine);
    }
}

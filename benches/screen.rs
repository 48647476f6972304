//! The screen as a user meets it: a frame of a large edited job, the what-if board, keys while it is computed, a step along a sweep. On
//! made-up jobs, whose ranks are all simulated; each figure is printed beside its bar.
//!
//! `cargo bench --bench screen -- frame` (`board`, `keys`, `sweep`) measures one of them; `-- frame 28000` draws a job of so many
//! layers, 2 800 of which are more than a million tasks.
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
use tempfile::TempDir;

use pty::Session;

#[expect(dead_code, reason = "the tests do more with a terminal")]
#[path = "../tests/it/support/pty.rs"]
mod pty;

const SIZE: Size = Size { width: 200, height: 60 };
const ROUNDS: usize = 21;
/// Points of the sweep that are gone along.
const STEPS: usize = 8;
/// What each is held to, in ms: a frame of a million events, and of ten; the board's first rows, and all; what a key waits longer while
/// the board is computed; a step along a sweep.
const FRAME: [f64; 2] = [1.0, 2.0];
const FIRST_ROWS: f64 = 150.0;
const ALL_ROWS: f64 = 3_000.0;
const KEY: f64 = 30.0;
const STEP: f64 = 33.0;
/// An edit that changes every kernel, so that all streams are drawn in pairs.
const EDIT: &str = "scale kind=kernel x0.7";

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A figure in ms beside what it is held to.
fn held(figure: f64, bar: f64) -> String {
    let verdict = if figure <= bar { "" } else { ": MISSED" };
    format!("{figure:>8.2} ms of {bar:.0} ms{verdict}")
}

/// The traces of a made-up job.
fn written(engine: &Engine, ranks: u32, layers: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::of(engine, "V100").unwrap();
    let spec = JobSpec { ranks, layers, local_batch: 512, ..JobSpec::default() };
    SyntheticJob::draw(spec, Network::default(), machine.device.memory.0).write(folder.path(), machine).unwrap();
    folder
}

fn job(engine: &Engine, ranks: u32, layers: u32) -> Loaded {
    let folder = written(engine, ranks, layers);
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

/// A frame of a large job against one of a tenth of it, at once after the edit, when all that is drawn has come in, and zoomed in.
fn frames(engine: &Arc<Engine>, layers: u32) {
    for layers in [layers / 10, layers] {
        let loaded = job(engine, 8, layers);
        let count = events(&loaded);
        let mut screen = screen(engine, loaded, &[EDIT]);
        let bar = FRAME[usize::from(count > 5_000_000)];
        println!("frame of {count} events: {}", held(ms(best(|| _ = black_box(screen.draw()))), bar));
        screen.press("wwwwww").unwrap();
        println!("  a part of it: {}", held(ms(best(|| _ = black_box(screen.draw()))), bar));
    }
}

/// How long keys take from being pressed to being seen, the longest and the median: a letter typed at the board and taken back, as long
/// as `goes_on`.
fn delays(session: &mut Session, goes_on: impl Fn(&Session, usize) -> bool) -> (usize, f64, f64) {
    const PAUSE: Duration = Duration::from_millis(20);
    const LOOK: Duration = Duration::from_micros(200);
    let mut delays = Vec::new();
    while goes_on(session, delays.len()) {
        for (key, shown) in [("q", "/q_"), ("\x7f", "type to filter")] {
            let start = Instant::now();
            session.press(key);
            while !session.contents().contains(shown) {
                std::thread::sleep(LOOK);
            }
            delays.push(ms(start.elapsed()));
            std::thread::sleep(PAUSE);
        }
    }
    delays.sort_by(f64::total_cmp);
    (
        delays.len(),
        delays.last().copied().unwrap_or_default(),
        delays.get(delays.len() / 2).copied().unwrap_or_default(),
    )
}

/// The program on the traces in `folder`, in a terminal.
fn session(folder: &TempDir) -> Session {
    let session = Session::start(env!("CARGO_BIN_EXE_retime"), &["--fresh", &folder.path().display().to_string()]);
    session.parser.lock().unwrap().screen_mut().set_size(pty::cells(SIZE.height), pty::cells(SIZE.width));
    session.master.resize(pty::size(SIZE.width, SIZE.height)).unwrap();
    session.wait_for("── timeline");
    session
}

/// A step along a sweep in the program itself: until header and timeline are those of the step.
fn scrub_in_terminal(engine: &Engine) {
    const PAUSE: Duration = Duration::from_millis(300);
    // Looking takes some tenths of a millisecond of a core, which the program is not to lack.
    const LOOK: Duration = Duration::from_millis(1);
    let folder = written(engine, 2, 1_100);
    let mut session = session(&folder);
    session.press("6:knob dram_bw 0.5..2x9\r");
    session.wait_for("9 points");
    std::thread::sleep(PAUSE * 5);
    session.press("\x1b[H");
    let mut longest = Duration::ZERO;
    for _ in 0..STEPS {
        std::thread::sleep(PAUSE);
        let (before, start) = (session.contents(), Instant::now());
        session.press("\x1b[C");
        let is_told = |now: &str| now != before && !now.contains("re-timing");
        while !is_told(&session.contents()) && start.elapsed() < pty::PATIENCE {
            std::thread::sleep(LOOK);
        }
        longest = longest.max(start.elapsed());
    }
    println!("the longest of {STEPS} steps along a sweep in a terminal {}", held(ms(longest), STEP));
    session.signal("KILL");
}

/// What keys wait while the board is computed, in the program itself and a terminal, against what they wait when it is done.
fn keys(engine: &Engine) {
    const IDLE: usize = 60;
    let folder = written(engine, 2, 1_100);
    let mut session = session(&folder);
    session.press("t");
    session.wait_for("being tried");
    let during = delays(&mut session, |session, _| session.contents().contains("being tried"));
    let after = delays(&mut session, |_, count| count < IDLE);
    for (when, (count, longest, median)) in [("while the board is computed", during), ("when it is done", after)] {
        println!("{count} keys {when}: the longest {longest:.1} ms, the median {median:.1} ms");
    }
    println!("  the longest waits longer by {}", held(during.1 - after.2, KEY));
    session.signal("KILL");
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
    println!("  first rows {}, all {}", held(ms(first.unwrap_or_default()), FIRST_ROWS), held(ms(all), ALL_ROWS));
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
    println!(
        "the longest of {STEPS} steps along a sweep of {count} events {:.1} ms, until all views have all of it",
        ms(longest)
    );
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
        scrub_in_terminal(&engine);
        scrub(&engine, job(&engine, 2, 1_100));
    }
    if is_wanted("keys") {
        keys(&engine);
    }
    if is_wanted("frame") {
        frames(&engine, wanted.iter().find_map(|layers| layers.parse().ok()).unwrap_or(2_800));
    }
}

//! Loading: speed against serde_json on the same bytes in the same run, memory per event, and the time to a first screen.
//!
//! `cargo bench --bench load` makes its own trace; `cargo bench --bench load -- FILE` takes one (plain or gzip JSON).
//! Bars: 1 GB of .gz to columns within 1.2 s on two cores and at least 2.2 times as fast as a serde_json Visitor over
//! `traceEvents` that borrows from a slice, load to first frame of 1 GB within 1.8 s, columns of at most 32 bytes per event
//! and 96 per event when ready to edit. An event is one that is kept; entries, which are more, include flow arrows.
//! Measured on two cores: 349 MB of a recommender's trace at 529 MB/s of one core (1.18 times a Visitor that skips arguments, 2.5 to 2.8
//! times serde_json to the same columns), from .gz 890 ms of core time; 27 bytes and, of two steps that are both modelled (70 MB), 102
//! bytes ready to edit.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot set up has nothing to measure")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ratatui::layout::Size;
use retime::session::Engine;
use retime::tui::{Depth, ScriptedScreen, Style};
use retime_core::graph::BuildOptions;
use retime_core::scenario::Scenario;
use retime_core::trace::{self, OpenOptions};
use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

const STEPS: usize = 400;
const OPERATORS_PER_STEP: usize = 250;
/// Bytes beyond which fewer rounds must do.
const LARGE: usize = 300 << 20;

/// The system's allocator with a count of what is in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn taken(bytes: usize) {
    let now = IN_USE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

#[expect(unsafe_code, reason = "an allocator is unsafe by its nature; this one only counts")]
// SAFETY: every call is handed to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as promised to us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as promised to us.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        taken(size);
        // SAFETY: as promised to us.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `run` made, with the bytes that it holds and the most that were in use on the way.
fn weighed<T>(run: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = IN_USE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let made = run();
    let after = IN_USE.load(Ordering::Relaxed);
    (made, after.saturating_sub(before), PEAK.load(Ordering::Relaxed).saturating_sub(before))
}

/// A floor for serde_json: it walks over the events, borrows five fields, skips the arguments and keeps nothing.
#[derive(serde::Deserialize)]
struct Walked<'a> {
    #[serde(borrow, rename = "traceEvents")]
    events: Walk<'a>,
}

struct Walk<'a>(usize, std::marker::PhantomData<&'a ()>);

#[derive(serde::Deserialize)]
#[expect(dead_code, reason = "what a visitor reads of an event")]
struct WalkedEvent<'a> {
    #[serde(borrow, default)]
    ph: Cow<'a, str>,
    #[serde(borrow, default)]
    cat: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: Option<IgnoredAny>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Walk<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Self(0, std::marker::PhantomData))
    }
}

impl<'de: 'a, 'a> Visitor<'de> for Walk<'a> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("events")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut events: A) -> Result<Self, A::Error> {
        while let Some(event) = events.next_element::<WalkedEvent<'de>>()? {
            self.0 += usize::from(!event.ph.is_empty());
        }
        Ok(self)
    }
}

fn walk(text: &[u8]) -> usize {
    serde_json::from_slice::<Walked<'_>>(text).map_or(0, |walked| walked.events.0)
}

/// An operator, its launch, its flow and its kernel, as PyTorch writes them.
fn generated() -> String {
    let mut text =
        String::from("{\"schemaVersion\": 1, \"baseTimeNanoseconds\": 1767189312000000000, \"traceEvents\": [\n");
    for step in 0..STEPS {
        for operator in 0..OPERATORS_PER_STEP {
            let id = step * OPERATORS_PER_STEP + operator + 1;
            let at = id * 40;
            let _ = write!(
                text,
                r#"  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::op_{operator}", "pid": 6583, "tid": 6583,
    "ts": {at}.125, "dur": 17.013,
    "args": {{
      "External id": {id},"Record function id": 0, "Concrete Inputs": ["", "", "", "[1, 1]"], "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "ScalarList"], "Input Strides": [[2880, 1], [2880, 1], [1], []], "Input Dims": [[{operator}, 2880], [640, 2880], [640], []], "Ev Idx": {id}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 6583, "tid": 6583,
    "ts": {launch}.691, "dur": 5.520,
    "args": {{
      "External id": {id}, "cbid": 211, "correlation": {id}
    }}
  }},
  {{
    "ph": "s", "id": {id}, "pid": 6583, "tid": 6583, "ts": {launch}.691,
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, at::native::op_{operator}<c10::BFloat16>, at::detail::Array<char*, 2> >(int, at::native::op, at::detail::Array<char*, 2>)", "pid": 0, "tid": 7,
    "ts": {kernel}.196, "dur": 22.080,
    "args": {{
      "External id": {id}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": {id}, "registers per thread": 22, "shared memory": 0, "blocks per SM": 0.006757, "warps per SM": 0.027027, "grid": [{operator}, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 0
    }}
  }},
"#,
                launch = at + 3,
                kernel = at + 9,
            );
        }
    }
    text.push_str("  {\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 0, \"tid\": 0, \"ts\": 0, \"args\": {\"name\": \"python\"}}\n]}");
    text
}

fn input() -> Vec<u8> {
    let Some(path) = std::env::args().skip(1).find(|argument| !argument.starts_with('-')) else {
        return generated().into_bytes();
    };
    let bytes = std::fs::read(&path).unwrap();
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
    text
}

/// The shortest of several runs of each, taken in turn so that a busy machine disturbs all alike.
fn best<const N: usize>(rounds: usize, mut runs: [&mut dyn FnMut(); N]) -> [Took; N] {
    let mut shortest = [Took { wall: Duration::MAX, all: Duration::MAX }; N];
    for _ in 0..rounds {
        for (run, shortest) in runs.iter_mut().zip(&mut shortest) {
            let (start, before) = (Instant::now(), process_time());
            run();
            shortest.all = shortest.all.min(process_time().saturating_sub(before));
            shortest.wall = shortest.wall.min(start.elapsed());
        }
    }
    shortest
}

/// How long a run took by the clock, and on all cores together.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    all: Duration,
}

/// Time that all threads of this process spent on cores so far, those that ended among them.
fn process_time() -> Duration {
    const TICK: Duration = Duration::from_millis(10);
    const USER_AFTER_NAME: usize = 11;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u32 = after_name.skip(USER_AFTER_NAME).take(2).filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    TICK * ticks
}

fn speed(text: &[u8], gzip: &Path) {
    let megabytes = text.len() as f64 / 1e6;
    let show = |what: &str, took: Took| {
        let rate = |time: Duration| megabytes / time.as_secs_f64().max(1e-9);
        let milliseconds = took.wall.as_secs_f64() * 1e3;
        println!(
            "{what:<32} {milliseconds:>8.1} ms {:>6.0} MB/s, {:>6.0} MB/s of a core: {:>6.0} ms of all cores",
            rate(took.wall),
            rate(took.all),
            took.all.as_secs_f64() * 1e3
        );
    };
    let rounds = if text.len() > LARGE { 2 } else { 5 };
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let [single, scanner, strict, visitor, packed] = best(
        rounds,
        [
            &mut || alone.install(|| drop(trace::load_bytes(text, "generated").unwrap())),
            &mut || drop(trace::load_bytes(text, "generated").unwrap()),
            &mut || drop(trace::load_bytes_strictly(text, "generated").unwrap()),
            &mut || assert!(walk(text) > 0),
            &mut || drop(trace::open(&[gzip.to_owned()], &OpenOptions::default()).unwrap()),
        ],
    );
    show("scanner → columns, one thread", single);
    show("scanner → columns", scanner);
    show("serde_json → columns", strict);
    show("serde_json visitor, no columns", visitor);
    show("from .gz", packed);
    let times = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    println!("one thread / serde_json → columns: {:.2}x faster", times(strict.all, single.all));
    println!("one thread / serde_json visitor:  {:.2}x faster", times(visitor.all, single.all));
    println!("from .gz / serde_json → columns: {:.2}x faster", times(strict.wall, packed.wall));
    println!("from .gz / serde_json visitor:  {:.2}x faster", times(visitor.wall, packed.wall));
}

fn memory(gzip: &Path) {
    let paths = [gzip.to_owned()];
    let (opened, held, peak) = weighed(|| trace::open(&paths, &OpenOptions::default()).unwrap());
    let (events, entries) = opened
        .jobs
        .iter()
        .flat_map(|job| &job.ranks)
        .filter_map(|rank| rank.trace.as_ref())
        .fold((0, 0), |(events, entries), trace| {
            (events + trace.events.len(), entries + trace.events_in_file as usize)
        });
    let per = |what: &str, bytes: usize| {
        let each = |count: usize| bytes as f64 / count.max(1) as f64;
        println!(
            "{what:<28} {:>8.1} MB, {:>5.1} bytes per event, {:>5.1} per entry",
            bytes as f64 / 1e6,
            each(events),
            each(entries)
        );
    };
    println!("{entries} entries, {events} events");
    let columns: usize = opened
        .jobs
        .iter()
        .flat_map(|job| &job.ranks)
        .filter_map(|rank| rank.trace.as_ref())
        .map(|trace| trace.events.heap_bytes())
        .sum();
    per("columns", columns);
    per("columns, names, arguments", held);
    per("most on the way", peak);
    drop(opened);
    let engine = Engine::builtin().unwrap();
    let (loaded, held, peak) =
        weighed(|| engine.load(&paths, &OpenOptions::default(), &BuildOptions::default()).unwrap());
    let tasks: usize = loaded.iter().map(|loaded| loaded.graph.tasks.node_count()).sum();
    println!("{tasks} tasks of the chosen iteration");
    per("ready to edit", held);
    per("most on the way", peak);
}

/// From a file to what stands on the screen.
fn first_screen(gzip: &Path, plain: &Path) {
    let style = Style {
        theme: "dark".to_owned(),
        theme_files: Vec::new(),
        depth: Depth::True,
        is_ascii: false,
        keymap: String::new(),
        prices: String::new(),
    };
    let show = |path: &Path| {
        let engine = Arc::new(Engine::builtin().unwrap());
        let loaded = engine.load(&[path.to_owned()], &OpenOptions::default(), &BuildOptions::default()).unwrap();
        let size = Size { width: 200, height: 60 };
        let screen = ScriptedScreen::new(Arc::clone(&engine), loaded, &Scenario::default(), &style, size);
        assert!(screen.draw().area.width == 200);
    };
    let [packed, plain] = best(3, [&mut || show(gzip), &mut || show(plain)]);
    println!(
        "first screen: {:.0} ms plain, {:.0} ms from .gz (engine, load, graph, replay, pictures, 200x60)",
        plain.wall.as_secs_f64() * 1e3,
        packed.wall.as_secs_f64() * 1e3
    );
}

fn main() {
    let text = input();
    println!("{:.0} MB", text.len() as f64 / 1e6);
    let folder = tempfile::tempdir().unwrap();
    let (gzip, plain) = (folder.path().join("generated.json.gz"), folder.path().join("plain.json"));
    let mut packed = flate2::write::GzEncoder::new(std::fs::File::create(&gzip).unwrap(), flate2::Compression::new(6));
    packed.write_all(&text).unwrap();
    packed.finish().unwrap();
    std::fs::write(&plain, &text).unwrap();
    speed(&text, &gzip);
    drop(text);
    memory(&gzip);
    first_screen(&gzip, &plain);
}

//! Drawing: the occupancy of every cell of a frame, against the loop over all events, in the same run.
//!
//! `cargo bench --bench render` draws a 200×60 frame of 58 lanes, whole and zoomed in;
//! `cargo bench --bench render -- EVENTS` takes another number of events than 1 M.

#[path = "common/noise.rs"]
mod noise;

use std::hint::black_box;
use std::time::{Duration, Instant};

use noise::Noise;
use retime_core::analysis::density::{Cell, Density, Interval};
use retime_core::units::TimeNs;

const LANES: usize = 58;
const COLUMNS: usize = 200;
const ROUNDS: usize = 7;

/// A lane of kernels of 1 to 60 µs with gaps, now and then a long one.
fn lane(events: usize, noise: &mut Noise) -> Vec<Interval> {
    let mut time = 0;
    let event = |key| {
        let start = time + if noise.below(4) == 0 { noise.below(30_000) } else { noise.below(1_500) };
        time = start + 1_000 + if noise.below(200) == 0 { noise.below(500_000) } else { noise.below(20_000) };
        Interval { start: TimeNs(start), end: TimeNs(time), key }
    };
    (0..events as u32).map(event).collect()
}

/// Every event adds its share to every cell it touches.
fn naive(lanes: &[Vec<Interval>], (from, to): (i64, i64), cells: &mut Vec<Cell>) -> f32 {
    let width = (to - from) as f64 / COLUMNS as f64;
    let mut sum = 0.0;
    for lane in lanes {
        cells.clear();
        cells.resize(COLUMNS, Cell::default());
        let mut most = [0.0_f64; COLUMNS];
        for event in lane.iter().filter(|event| event.end.0 > from && event.start.0 < to) {
            let (start, end) = ((event.start.0 - from) as f64 / width, (event.end.0 - from) as f64 / width);
            for column in start.max(0.0) as usize..=(end.min(COLUMNS as f64 - 1.0) as usize) {
                let part = end.min(column as f64 + 1.0) - start.max(column as f64);
                cells[column].busy += part as f32;
                if part > most[column] {
                    most[column] = part;
                    cells[column].key = Some(event.key);
                }
            }
        }
        sum += cells.iter().map(|cell| cell.busy).sum::<f32>();
    }
    sum
}

fn frame(lanes: &[Density], (from, to): (i64, i64), cells: &mut Vec<Cell>) -> f32 {
    let mut sum = 0.0;
    for lane in lanes {
        lane.cells(TimeNs(from)..TimeNs(to), COLUMNS, cells);
        sum += cells.iter().map(|cell| cell.busy).sum::<f32>();
    }
    sum
}

/// The shortest of several runs, each of which says what it took, and what the last returned.
fn best(mut run: impl FnMut() -> (Duration, f32)) -> (Duration, f32) {
    let (mut shortest, mut sum) = (Duration::MAX, 0.0);
    for _ in 0..ROUNDS {
        let (time, last) = run();
        (shortest, sum) = (shortest.min(time), last);
    }
    (shortest, sum)
}

fn timed(run: impl FnOnce() -> f32) -> (Duration, f32) {
    let start = Instant::now();
    let sum = black_box(run());
    (start.elapsed(), sum)
}

fn main() {
    let number = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let events: usize = number.unwrap_or(1_000_000);
    let mut noise = Noise(7);
    let lanes: Vec<Vec<Interval>> = (0..LANES).map(|_| lane(events / LANES, &mut noise)).collect();
    let mut indexed = Vec::new();
    let (built, _) = best(|| {
        let lanes = lanes.clone();
        let start = Instant::now();
        indexed = lanes.into_iter().map(Density::build).collect();
        (start.elapsed(), 0.0)
    });
    let per_event = built.as_secs_f64() * 1e9 / events as f64;
    println!("{events} events in {LANES} lanes, indexed at {per_event:.1} ns per event");

    let end = lanes.iter().filter_map(|lane| lane.last()).map(|event| event.end.0).max().unwrap_or(1);
    for (what, zoom) in [("whole", 1), ("a tenth", 10), ("a thousandth", 1000)] {
        let range = (end / 2 - end / 2 / zoom, end / 2 + end / 2 / zoom);
        let mut cells = Vec::new();
        let (slow, expected) = best(|| timed(|| naive(&lanes, range, &mut cells)));
        let (fast, got) = best(|| timed(|| frame(&indexed, range, &mut cells)));
        assert!((got - expected).abs() < 1e-3 * expected.abs(), "{got} is not {expected}");
        println!(
            "{what:<13} naive {:>8.3} ms  indexed {:>7.3} ms  {:>6.0} times as fast",
            slow.as_secs_f64() * 1e3,
            fast.as_secs_f64() * 1e3,
            slow.as_secs_f64() / fast.as_secs_f64()
        );
    }
}

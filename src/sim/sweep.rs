//! Sweeps: up to sixteen variants of one graph simulated side by side.
//!
//! What a pass spends on finding predecessors is spent once for all variants, and the arithmetic on their 32-bit lanes
//! is written so that the compiler turns it into vector instructions. A variant whose times leave 32 bits, with room
//! for the sums, is simulated alone at 64 bits; results are the same to the nanosecond either way.

use super::{HORIZON, NEVER};
use crate::graph::timed::{NO_TASK, TaskId, TimedGraph};
use crate::units::{DurNs, TimeNs};

/// One variant: the graph with other durations, and other lags where some depend on durations.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a> {
    /// Duration of each task in ns.
    pub durations: &'a [i64],
    /// Lags of each task's slots in ns; `None` for those of the graph.
    pub lags: Option<&'a [[i32; 3]]>,
}

/// What a sweep tells of one variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The latest end of all tasks.
    pub makespan: DurNs,
    /// The ends of the tasks asked for, in that order.
    pub ends: Vec<TimeNs>,
}

/// Variants simulated side by side.
pub const WIDTH: usize = 16;

/// Tasks whose durations are laid out by lane at a time; they stay in the first-level cache.
const BLOCK: usize = 128;

/// No end may reach this (1.07 s), nor any lag or duration half of it: then no sum of the three wraps.
const LIMIT: i32 = 1 << 30;

type Lanes = [i32; WIDTH];

/// Simulates each variant of `graph`.
///
/// # Arguments
/// `watched`: tasks whose ends are wanted, e.g. the markers of an iteration.
///
/// # Returns
/// One outcome per variant, in order. A list that is not as long as the graph is not used; the graph's own is.
///
/// # Complexity
/// O(tasks · variants), a sixteenth of the memory look-ups of as many simulations.
pub fn sweep(graph: &TimedGraph, variants: &[Variant<'_>], watched: &[TaskId]) -> Vec<Outcome> {
    let mut side_by_side = SideBySide::default();
    let mut outcomes = Vec::with_capacity(variants.len());
    for group in variants.chunks(WIDTH) {
        let fits = side_by_side.run(graph, group);
        outcomes.extend(group.iter().zip(0..).map(|(variant, lane)| {
            if fits[lane] { side_by_side.outcome(lane, watched) } else { alone(graph, variant, watched) }
        }));
    }
    outcomes
}

/// One variant at 64 bits.
fn alone(graph: &TimedGraph, variant: &Variant<'_>, watched: &[TaskId]) -> Outcome {
    let (durations, lags) = (variant.durations_in(graph), variant.lags_in(graph));
    let mut end: Vec<i64> = Vec::with_capacity(graph.len());
    for (task, predecessors) in graph.predecessors.iter().enumerate() {
        let ready =
            |slot: usize| end.get(predecessors[slot] as usize).map_or(NEVER, |end| end + i64::from(lags[task][slot]));
        let start = ready(0).max(ready(1)).max(ready(2)).max(0);
        end.push((start + durations[task].clamp(-HORIZON, HORIZON)).min(HORIZON));
    }
    Outcome {
        makespan: DurNs(end.iter().copied().max().unwrap_or(0).max(0)),
        ends: watched.iter().map(|task| TimeNs(end[task.0 as usize])).collect(),
    }
}

impl<'a> Variant<'a> {
    fn durations_in(&self, graph: &'a TimedGraph) -> &'a [i64] {
        if self.durations.len() == graph.len() { self.durations } else { &graph.durations }
    }

    fn lags_in(&self, graph: &'a TimedGraph) -> &'a [[i32; 3]] {
        self.lags.filter(|lags| lags.len() == graph.len()).unwrap_or(&graph.lags)
    }
}

/// Buffers of a group of variants.
#[derive(Default)]
struct SideBySide {
    end: Vec<Lanes>,
    durations: Vec<Lanes>,
    lags: Vec<[Lanes; 3]>,
    latest: Lanes,
}

impl SideBySide {
    /// Simulates a group; tells for each lane whether its times fit.
    fn run(&mut self, graph: &TimedGraph, group: &[Variant<'_>]) -> [bool; WIDTH] {
        let mut fits = [true; WIDTH];
        let own_lags = group.iter().any(|variant| variant.lags.is_some());
        self.end.resize(graph.len(), [0; WIDTH]);
        self.durations.resize(BLOCK, [0; WIDTH]);
        self.lags.resize(if own_lags { BLOCK } else { 0 }, [[0; WIDTH]; 3]);
        self.latest = [0; WIDTH];
        for from in (0..graph.len()).step_by(BLOCK) {
            let block = from..graph.len().min(from + BLOCK);
            for (lane, variant) in group.iter().enumerate() {
                fits[lane] &= lay_out(&mut self.durations, lane, &variant.durations_in(graph)[block.clone()]);
            }
            if own_lags {
                self.lay_out_lags(graph, group, block.clone(), &mut fits);
                let lags = &self.lags;
                pass(graph, block, &mut self.end, &self.durations, &mut self.latest, |i, _, slot| lags[i][slot]);
            } else {
                let shared = |_, task: usize, slot: usize| [narrow(graph.lags[task][slot]).0; WIDTH];
                pass(graph, block, &mut self.end, &self.durations, &mut self.latest, shared);
            }
        }
        // The first end beyond the limit did not wrap yet, so it is in the maximum whatever came after.
        for (fit, &latest) in fits.iter_mut().zip(&self.latest) {
            *fit &= latest < LIMIT;
        }
        if !own_lags && graph.lags.iter().flatten().any(|&lag| !narrow(lag).1) {
            return [false; WIDTH];
        }
        fits
    }

    fn lay_out_lags(
        &mut self,
        graph: &TimedGraph,
        group: &[Variant<'_>],
        block: std::ops::Range<usize>,
        fits: &mut [bool; WIDTH],
    ) {
        for (lane, variant) in group.iter().enumerate() {
            let lags = variant.lags_in(graph);
            for (row, task) in self.lags.iter_mut().zip(block.clone()) {
                for (slot, lanes) in row.iter_mut().enumerate() {
                    let (lag, fit) = narrow(lags[task][slot]);
                    lanes[lane] = lag;
                    fits[lane] &= fit;
                }
            }
        }
    }

    fn outcome(&self, lane: usize, watched: &[TaskId]) -> Outcome {
        Outcome {
            makespan: DurNs(i64::from(self.latest[lane])),
            ends: watched.iter().map(|task| TimeNs(i64::from(self.end[task.0 as usize][lane]))).collect(),
        }
    }
}

/// Writes one lane of a block; tells whether all its values fit.
fn lay_out(rows: &mut [Lanes], lane: usize, durations: &[i64]) -> bool {
    let half = i64::from(LIMIT / 2);
    for (row, &ns) in rows.iter_mut().zip(durations) {
        row[lane] = ns as i32;
    }
    // Bits beyond the range -half..half, of all values together: this loop the compiler makes vectors of.
    durations.iter().fold(0, |beyond, &ns| beyond | (ns.wrapping_add(half) as u64 >> LIMIT.ilog2())) == 0
}

/// A lag within the limit, and whether it is what it was.
fn narrow(lag: i32) -> (i32, bool) {
    let narrowed = lag.clamp(-LIMIT / 2, LIMIT / 2);
    (narrowed, narrowed == lag)
}

/// Simulates one block of tasks in all lanes. `lag` is given the task's place in the block, the task and the slot.
fn pass(
    graph: &TimedGraph,
    block: std::ops::Range<usize>,
    end: &mut [Lanes],
    durations: &[Lanes],
    latest: &mut Lanes,
    lag: impl Fn(usize, usize, usize) -> Lanes,
) {
    let mut most = *latest;
    for (i, task) in block.enumerate() {
        let mut lanes = [0; WIDTH];
        for (slot, &predecessor) in graph.predecessors[task].iter().enumerate() {
            if predecessor != NO_TASK {
                let (ends, lags) = (&end[predecessor as usize], lag(i, task, slot));
                for lane in 0..WIDTH {
                    lanes[lane] = lanes[lane].max(ends[lane].wrapping_add(lags[lane]));
                }
            }
        }
        for lane in 0..WIDTH {
            lanes[lane] = lanes[lane].wrapping_add(durations[i][lane]);
            most[lane] = most[lane].max(lanes[lane]);
        }
        end[task] = lanes;
    }
    *latest = most;
}

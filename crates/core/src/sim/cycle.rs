//! The steady period: how much later everything happens, copy after copy, when the work of a timed graph is repeated for ever.
//!
//! Knows a graph whose first rows stand for the ends of work of earlier copies, and nothing of where it came from.

use super::{HORIZON, Schedule, pass};
use crate::graph::timed::{TaskId, TimedGraph};
use crate::units::DurNs;

/// One copy of work that repeats.
#[derive(Clone, Debug, Default)]
pub struct Cycle {
    /// The work of one copy. Its first rows, one for each of [`carried`](Self::carried), wait for nothing.
    pub graph: TimedGraph,
    /// Work of earlier copies that this one waits for.
    pub carried: Vec<CarriedEnd>,
    /// The tasks whose ends count. All rows lead to one of them, through later copies at the latest.
    pub goals: Vec<TaskId>,
    /// Dependencies that do not repeat: row and slot in the graph of which this is one copy.
    pub left_out: Vec<(u32, u8)>,
}

/// The end of a task of an earlier copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CarriedEnd {
    /// The task, as this copy has it.
    pub source: TaskId,
    /// How many copies ago; at least one.
    pub copies_back: u32,
}

/// The steady period of a [`Cycle`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SteadyPeriod {
    /// Mean of the slowest circuit that was found: the period is no shorter.
    pub low: DurNs,
    /// The most that any task still grows from copy to copy: the period is no longer.
    pub high: DurNs,
    /// Copies simulated.
    pub passes: u32,
    /// The slowest circuit that was found.
    pub circuit: Circuit,
}

/// A way over decisive predecessors that comes back to where it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circuit {
    /// The tasks on it, last first.
    pub tasks: Vec<TaskId>,
    /// How many copies it spans.
    pub copies: u32,
}

impl SteadyPeriod {
    /// Bounds this near to one another, as a share, have met.
    pub const TOLERANCE: f64 = 1e-4;

    /// Whether both bounds are the same.
    pub fn has_met(&self) -> bool {
        (self.high - self.low).0 as f64 <= Self::TOLERANCE * self.high.0 as f64
    }
}

/// Copies after which the bounds stay as they are.
const MOST_PASSES: usize = 32;

/// Before every time: the end of work of copies before the first.
const EMPTY: i64 = -(1 << 60);

/// Simulates copy after copy, carrying the ends that later copies wait for, until the period is known.
///
/// In max-plus terms a copy maps the carried ends `x` to `F(x)`, and `F(x + g) ≤ F(x) + g`. So over as many copies no carried end
/// ever again grows by more than the most it grew last (upper bound), and the mean of a circuit is a lower bound. Circuits are
/// those of the decisive predecessors in the last copy [Cochet-Terrasson et al. 1998, policy iteration]; growth is taken over
/// as many copies as the slowest of them spans.
///
/// # Returns
/// `None` where no goal waits for an earlier copy.
///
/// # Complexity
/// O(rows) a copy; nothing is allocated between copies.
pub fn steady(cycle: &Cycle, schedule: &mut Schedule) -> Option<SteadyPeriod> {
    let depth = cycle.carried.iter().map(|entry| entry.copies_back as usize).max()?;
    let most = depth + MOST_PASSES;
    let mut passes = Passes { cycle, depth, ends: Vec::with_capacity(most * cycle.carried.len()) };
    let mut circuits = Circuits { place: vec![u32::MAX; cycle.carried.len()], steps: Vec::new() };
    schedule.fit(cycle.graph.len());
    let (low, high) = (DurNs::ZERO, DurNs(i64::MAX));
    let mut found = SteadyPeriod { low, high, passes: 0, circuit: Circuit::default() };
    for number in 0..most {
        passes.pass(schedule, number);
        found.passes += 1;
        let Some((high, fastest)) = passes.growth(number, 1) else { continue };
        let is_settled = (found.high.0 - high) as f64 <= SteadyPeriod::TOLERANCE * high as f64;
        found.high = found.high.min(DurNs(high));
        if (is_settled || number + 1 == most)
            && let Some((mean, entry)) = circuits.slowest(cycle, schedule, fastest)
            && mean > found.low
        {
            (found.low, found.circuit) = (mean, circuit(cycle, schedule, entry));
        }
        if found.circuit.copies > 1
            && let Some((high, _)) = passes.growth(number, found.circuit.copies as usize)
        {
            found.high = found.high.min(DurNs(high));
        }
        found.low = found.low.min(found.high);
        if found.low == found.high {
            break;
        }
    }
    // Where times end, copies follow one another in no time: the period is as long as all that time at least.
    if passes.ends.iter().any(|&end| end >= HORIZON) {
        (found.low, found.high) = (DurNs(HORIZON), DurNs(HORIZON));
    }
    (found.high > DurNs::ZERO).then_some(found)
}

/// What copies hand on.
struct Passes<'a> {
    cycle: &'a Cycle,
    /// The most copies that any carried end looks back.
    depth: usize,
    /// Of every copy, the end of every source.
    ends: Vec<i64>,
}

impl Passes<'_> {
    /// Simulates copy `number`.
    fn pass(&mut self, schedule: &mut Schedule, number: usize) {
        let carried = &self.cycle.carried;
        for (at, entry) in carried.iter().enumerate() {
            let earlier = number.checked_sub(entry.copies_back as usize);
            schedule.end[at] = earlier.map_or(EMPTY, |earlier| self.ends[earlier * carried.len() + at]);
        }
        pass(&self.cycle.graph, schedule, carried.len());
        self.ends.extend(carried.iter().map(|entry| schedule.end[entry.source.0 as usize]));
    }

    /// The most that any source of the last copies grew within `span` copies up to copy `number`, for each of them, and the
    /// entry it is the source of; `None` while there are too few copies.
    fn growth(&self, number: usize, span: usize) -> Option<(i64, usize)> {
        let count = self.cycle.carried.len();
        let first = (number + 1).checked_sub(self.depth).filter(|&first| first >= span)?;
        let (now, before) = (first * count, (first - span) * count);
        let (now, before) = (&self.ends[now..], &self.ends[before..]);
        let grown = now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before));
        let (at, most) = grown.enumerate().max_by_key(|&(_, grown)| grown)?;
        // Rounded up: a bound from above.
        Some((-most.saturating_neg().div_euclid(span as i64), at % count))
    }
}

/// The way back over decisive predecessors, from one carried end to the next.
struct Circuits {
    /// By carried end: its place among the steps of the way, of those that are on it.
    place: Vec<u32>,
    /// CarriedEnds on the way, each with the time between it and the source of the one before.
    steps: Vec<(usize, i64)>,
}

impl Circuits {
    /// The slower of the circuits behind the source of the carried end `entry` and behind the goal that ends last: what it takes for
    /// each copy that it spans, and a carried end on it.
    fn slowest(&mut self, cycle: &Cycle, schedule: &Schedule, entry: usize) -> Option<(DurNs, usize)> {
        let last = cycle.goals.iter().copied().max_by_key(|&goal| schedule.end(goal));
        let behind = [Some(cycle.carried[entry].source), last];
        behind.into_iter().flatten().filter_map(|from| self.behind(cycle, schedule, from)).max_by_key(|(mean, _)| *mean)
    }

    fn behind(&mut self, cycle: &Cycle, schedule: &Schedule, from: TaskId) -> Option<(DurNs, usize)> {
        for (entry, _) in self.steps.drain(..) {
            self.place[entry] = u32::MAX;
        }
        let mut task = from;
        loop {
            let entry = decisive(cycle, schedule, task)?;
            let time = schedule.end(task).since(schedule.end(TaskId(entry as u32)));
            let seen = self.place[entry] as usize;
            if seen < self.steps.len() {
                // The step that closes the circuit ends where the way first reached this entry.
                let circuit = &self.steps[seen + 1..];
                let sum = circuit.iter().fold(time.0, |sum, &(_, time)| sum.saturating_add(time));
                let back = |entry: usize| i64::from(cycle.carried[entry].copies_back);
                let copies: i64 = back(entry) + circuit.iter().map(|&(entry, _)| back(entry)).sum::<i64>();
                return Some((DurNs(sum.div_euclid(copies)), entry));
            }
            self.place[entry] = self.steps.len() as u32;
            self.steps.push((entry, time.0));
            task = cycle.carried[entry].source;
        }
    }
}

/// The circuit on which the carried end `entry` is.
fn circuit(cycle: &Cycle, schedule: &Schedule, entry: usize) -> Circuit {
    let mut found = Circuit::default();
    let mut at = entry;
    loop {
        found.copies += cycle.carried[at].copies_back;
        let mut task = cycle.carried[at].source;
        while task.0 as usize >= cycle.carried.len() {
            found.tasks.push(task);
            let Some(before) = schedule.critical_predecessor(&cycle.graph, task) else { return found };
            task = before;
        }
        at = task.0 as usize;
        if at == entry {
            return found;
        }
    }
}

/// The carried end that decides when `task` ends; `None` where no work of an earlier copy does.
fn decisive(cycle: &Cycle, schedule: &Schedule, mut task: TaskId) -> Option<usize> {
    while task.0 as usize >= cycle.carried.len() {
        task = schedule.critical_predecessor(&cycle.graph, task)?;
    }
    Some(task.0 as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::graph::timed::NO_TASK;
    use crate::sim::simulate;

    /// A task: what it takes, tasks before it in its copy, and tasks of earlier copies, each with a lag.
    type Row = (i64, Vec<(usize, i64)>, Vec<(usize, u32, i64)>);

    fn cycle(rows: &[Row]) -> Cycle {
        let mut cycle = Cycle::default();
        let first = rows.iter().map(|(_, _, earlier)| earlier.len()).sum::<usize>() as u32;
        for (source, copies_back, _) in rows.iter().flat_map(|(_, _, earlier)| earlier) {
            cycle.carried.push(CarriedEnd { source: TaskId(first + *source as u32), copies_back: *copies_back });
            cycle.graph.push_row(u32::MAX, 0, [NO_TASK; 3], [0; 3]);
        }
        let mut entry = 0;
        for (duration, before, earlier) in rows {
            let own = before.iter().map(|&(task, lag)| (TaskId(first + task as u32), DurNs(lag)));
            let from = entry..entry + earlier.len() as u32;
            entry = from.end;
            let earlier = from.zip(earlier).map(|(entry, &(_, _, lag))| (TaskId(entry), DurNs(lag)));
            let all: Vec<(TaskId, DurNs)> = own.chain(earlier).collect();
            assert!(all.len() <= 3);
            cycle.graph.push(u32::MAX, DurNs(*duration), &all);
        }
        cycle.goals.push(TaskId(first + rows.len() as u32 - 1));
        cycle
    }

    /// Ends of the last task of each of `copies` copies, written out one after the other.
    fn unrolled(rows: &[Row], copies: usize) -> Vec<i64> {
        let mut graph = TimedGraph::default();
        let row = |copy: usize, task: usize| TaskId((copy * rows.len() + task) as u32);
        for copy in 0..copies {
            for (duration, before, earlier) in rows {
                let own = before.iter().map(|&(task, lag)| (row(copy, task), DurNs(lag)));
                let of = |&(task, back, lag): &(usize, u32, i64)| {
                    Some((row(copy.checked_sub(back as usize)?, task), DurNs(lag)))
                };
                let all: Vec<(TaskId, DurNs)> = own.chain(earlier.iter().filter_map(of)).collect();
                graph.push(u32::MAX, DurNs(*duration), &all);
            }
        }
        let mut schedule = Schedule::default();
        simulate(&graph, &mut schedule);
        (0..copies).map(|copy| schedule.end(row(copy, rows.len() - 1)).0).collect()
    }

    /// What is drawn of a task: what it takes, a task before it, and one of an earlier copy, each with a lag.
    type Drawn = (i64, Option<(usize, i64)>, Option<(usize, u32, i64)>);

    fn row(count: usize, back: usize, (at, (duration, before, earlier)): (usize, Drawn)) -> Row {
        let chain = (at > 0).then(|| (at - 1, -i64::from(at % 3 == 0) * duration));
        let more = before.filter(|_| at > 1).map(|(task, lag)| (task % at, lag));
        let wrap = (at == 0).then_some((back % count, 1, 5));
        let earlier = wrap.or(earlier.map(|(task, copies, lag)| (task % count, copies, lag)));
        (duration, chain.into_iter().chain(more).collect(), earlier.into_iter().collect())
    }

    /// Tasks in a chain, so that all lead to the last, with edges back to earlier copies; the first waits for some task.
    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let before = prop::option::of((0..64_usize, -40..40_i64));
        let earlier = prop::option::of((0..64_usize, 1..3_u32, -40..40_i64));
        let drawn = prop::collection::vec((1..500_i64, before, earlier), 1..24);
        (drawn, 0..64_usize).prop_map(|(drawn, back)| {
            let count = drawn.len();
            drawn.into_iter().enumerate().map(|drawn| row(count, back, drawn)).collect()
        })
    }

    #[test]
    fn a_chain_that_closes_takes_as_long_as_it_is() {
        let rows: [Row; 2] = [(10, vec![], vec![(1, 1, 3)]), (20, vec![(0, 1)], vec![])];
        let found = steady(&cycle(&rows), &mut Schedule::default()).unwrap();
        assert_eq!((found.low, found.high), (DurNs(34), DurNs(34)));
    }

    #[test]
    fn a_buffer_of_two_copies_halves_what_its_circuit_costs() {
        // The host (10) runs ahead of the device (30); a wait for the device of two copies back costs 5 more.
        let rows: [Row; 2] = [(10, vec![], vec![(0, 1, 0), (1, 2, 5)]), (30, vec![(0, 0)], vec![(1, 1, 0)])];
        let found = steady(&cycle(&rows), &mut Schedule::default()).unwrap();
        assert_eq!((found.low, found.high), (DurNs(30), DurNs(30)));
        let slower: [Row; 2] = [(10, vec![], vec![(0, 1, 0), (1, 2, 50)]), (30, vec![(0, 0)], vec![(1, 1, 0)])];
        let found = steady(&cycle(&slower), &mut Schedule::default()).unwrap();
        assert_eq!((found.low, found.high), (DurNs(45), DurNs(45)));
    }

    #[test]
    fn work_that_waits_for_no_earlier_copy_has_no_period() {
        assert_eq!(steady(&cycle(&[(10, vec![], vec![])]), &mut Schedule::default()), None);
    }

    proptest! {
        #[test]
        fn the_period_is_that_of_copies_written_out(rows in rows()) {
            let found = steady(&cycle(&rows), &mut Schedule::default()).unwrap();
            let ends = unrolled(&rows, 800);
            // Circuits span up to as many copies as there are carried ends: their mean shows over many.
            let mean = (ends[799] - ends[399]) as f64 / 400.0;
            let slack = 0.01 * mean + 2.0;
            prop_assert!(found.low.0 as f64 <= mean + slack && mean - slack <= found.high.0 as f64, "{found:?}, {mean}");
            let circuit = &found.circuit;
            prop_assert!(circuit.copies > 0 && !circuit.tasks.is_empty(), "{found:?}");
            prop_assert!(!found.has_met() || (found.low.0 as f64 - mean).abs() <= slack, "{found:?}, {mean}");
        }

        #[test]
        fn shorter_tasks_never_lengthen_the_period(rows in rows(), halved in 0..24_usize) {
            let before = steady(&cycle(&rows), &mut Schedule::default()).unwrap();
            let mut shorter = rows;
            let at = halved % shorter.len();
            shorter[at].0 /= 2;
            // Where negative lags make up for all that is left, copies follow one another in no time.
            let after = steady(&cycle(&shorter), &mut Schedule::default());
            prop_assert!(after.as_ref().is_none_or(|after| after.low <= before.high), "{before:?} {after:?}");
        }
    }
}

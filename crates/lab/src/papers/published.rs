//! Lin 2022 and 2024, Algorithm 1 each: the general simulator against transcriptions, and an iteration worked by hand.

use retime_core::analysis::published::{PublishedOp, graph_of_device, graph_of_ranks, one_device, several_ranks};
use retime_core::graph::TimedGraph;
use retime_core::sim::{Schedule, simulate};
use retime_core::units::DurNs;

use super::Check;

/// Random iterations per algorithm.
const TRIALS: usize = 200;

pub(super) fn checks() -> Vec<Check> {
    let (first, second) = ("Lin 2022 Algorithm 1", "Lin 2024 Algorithm 1");
    let agree = |name: &str, source: &str, disagreements: usize| {
        Check::number(format!("{name}: disagreements in {TRIALS}"), source, 0.0, disagreements as f64, 0.0)
    };
    let microseconds = |took: DurNs| took.0 as f64 / 1e3;
    vec![
        Check::number(
            "two operators by hand, µs",
            first,
            74.0,
            microseconds(makespan(&graph_of_device(&by_hand()))),
            0.0,
        ),
        Check::number(
            "an all-reduce of two ranks by hand, µs",
            second,
            60.0,
            microseconds(makespan(&graph_of_ranks(&two_ranks()))),
            0.0,
        ),
        agree("one device, simulator and transcription", first, disagreements(1)),
        agree("several ranks, simulator and transcription", second, disagreements(4)),
    ]
}

fn op(overheads_us: [i64; 5], kernels_us: &[i64], is_collective: bool) -> PublishedOp {
    let [t1, t2, t3, t4, t5] = overheads_us.map(|us| us * 1_000);
    PublishedOp {
        overheads: [0, t1, t2, t3, t4, t5],
        kernels: kernels_us.iter().map(|us| us * 1_000).collect(),
        is_collective,
        reads_collective: false,
    }
}

/// T1 8, T2 10, T3 5, T4 10, T5 3 µs, kernels of 20 and 30 µs: launches at 18 and 31, the first kernel ends at
/// 18 + 5 + 20 = 43, the second at 44 + 30 = 74; the host is done at 46. Then an operator without kernels: 46 + 8 + 3 = 57.
fn by_hand() -> Vec<PublishedOp> {
    vec![op([8, 10, 5, 10, 3], &[20, 30], false), op([8, 10, 5, 10, 3], &[], false)]
}

/// A kernel of 10 µs on one rank and 30 on the other, then an all-reduce of 20. With T2 4 and T4 2 µs and no other overheads
/// the first launch reaches the device at 5: kernels end at 15 and 35. The slower rank's collective starts 1 µs later and
/// ends at 36 + 20 = 56; then each rank runs 3 µs, after another gap of 1: 60.
fn two_ranks() -> Vec<Vec<PublishedOp>> {
    let rank = |kernel| {
        let after = PublishedOp { reads_collective: true, ..op([0, 4, 0, 2, 0], &[3], false) };
        vec![op([0, 4, 0, 2, 0], &[kernel], false), op([0, 4, 0, 2, 0], &[20], true), after]
    };
    vec![rank(10), rank(30)]
}

fn makespan(graph: &TimedGraph) -> DurNs {
    let mut schedule = Schedule::default();
    simulate(graph, &mut schedule);
    schedule.makespan()
}

/// How many random iterations of `ranks` ranks the simulator and the transcription time differently.
fn disagreements(ranks: usize) -> usize {
    let mut numbers = Numbers(1);
    let differ = |_: &usize| {
        let template = numbers.operators();
        let jobs: Vec<Vec<PublishedOp>> =
            (0..ranks).map(|_| template.iter().map(|op| numbers.at_own_pace(op)).collect()).collect();
        let (graph, expected) = match jobs.as_slice() {
            [only] => (graph_of_device(only), one_device(only)),
            several => (graph_of_ranks(several), several_ranks(several)),
        };
        makespan(&graph) != expected
    };
    (0..TRIALS).filter(differ).count()
}

/// A reproducible source of numbers: a linear congruence with Knuth's constants, its high bits.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % limit.max(1)) as i64
    }

    fn operators(&mut self) -> Vec<PublishedOp> {
        let count = 1 + self.below(40);
        (0..count).map(|_| self.operator()).collect()
    }

    fn operator(&mut self) -> PublishedOp {
        let overheads = [(); 6].map(|()| self.below(20_000));
        let count = self.below(4);
        let kernels: Vec<i64> = (0..count).map(|_| self.below(90_000)).collect();
        let is_collective = self.below(5) == 0 && !kernels.is_empty();
        PublishedOp { overheads, kernels, is_collective, reads_collective: self.below(4) == 0 }
    }

    fn at_own_pace(&mut self, op: &PublishedOp) -> PublishedOp {
        let percent = 70 + self.below(60);
        let slower = |ns: &i64| ns * percent / 100;
        PublishedOp {
            overheads: op.overheads.map(|ns| slower(&ns)),
            kernels: op.kernels.iter().map(slower).collect(),
            ..op.clone()
        }
    }
}

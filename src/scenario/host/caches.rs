//! Host code after a large computation finds its caches cold: what lies between computations takes a multiple of its time.
//!
//! With `e` the share of the caches that computations have taken over: a computation of `d` leaves `1 − (1 − e)·exp(−d/τ)`;
//! host code that takes `h` when warm takes `h·(1 + κ·e)` and leaves `e·exp(−h/η)`. So host time follows the sizes of the
//! computations around it, while what the host does stays the same.

use crate::cost::{Prediction, Provenance, Work};
use crate::graph::{ExecutionGraph, LaneKind, NodeId, TaskKind};
use crate::scenario::draft::Draft;
use crate::units::DurNs;

/// τ: a computation this long takes over all but 1/e of the caches, in seconds.
///
/// The three constants make the warm host time of one model the same at batches 64, 256 and 1024. They were picked by hand
/// after two grids (180 and 120 sets, and as many of a form by bytes instead of time that was dropped) over all our perceptron
/// and recommender captures, so errors on those are not held out. In the second grid they are the best set on the unfused
/// recommender, and over all three series; on both recommenders others are better (100 ms, 100 µs, 120: 2.4 % to 2.6 %).
/// Error of the host's time as a share of the iteration, with the measured computations around it: 0.5 % on the perceptron,
/// 0.8 % and 4.4 % on the recommender unfused and fused. The set that is best on the perceptron alone (10 ms, 10 µs, 60)
/// misses the recommenders by 10 and 8 %: that is what to expect of a model unlike these.
const TAKE_OVER_S: f64 = 10e-3;
/// η: warm host time after which all but 1/e of the caches are its own again, in seconds.
const RECOVERY_S: f64 = 50e-6;
/// κ: how much longer host code takes on cold caches.
const SLOWDOWN: f64 = 30.0;
/// Relative error of host time predicted so.
const ERROR: f32 = 0.25;

/// How far computations have taken over a thread's caches, 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
struct Evicted(f64);

impl Evicted {
    fn compute(&mut self, seconds: f64) {
        self.0 = 1.0 - (1.0 - self.0) * (-seconds / TAKE_OVER_S).exp();
    }

    /// By how much host code slows down now.
    fn slowdown(self) -> f64 {
        1.0 + SLOWDOWN * self.0
    }

    fn host(&mut self, warm_seconds: f64) {
        self.0 *= (-warm_seconds / RECOVERY_S).exp();
    }
}

/// Lets host time of a trace without device work follow the computations before it, which edits changed.
///
/// # Complexity
/// O(tasks).
pub(super) fn follow(draft: &mut Draft<'_>) {
    let graph = draft.graph();
    let mut lanes = vec![(Evicted::default(), Evicted::default()); graph.lanes.len()];
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let lane = task.lane.0 as usize;
        if !matches!(graph.lanes[lane].kind, LaneKind::Thread { .. }) {
            continue;
        }
        let (traced, now) = &mut lanes[lane];
        let gone = draft.is_removed(node);
        if computes(draft, node) {
            traced.compute(task.duration.secs());
            if !gone {
                now.compute(draft.price(node).duration.secs());
            }
        } else if matches!(task.kind, TaskKind::Host(_) | TaskKind::Compute) {
            let (before, after) = (traced.slowdown(), now.slowdown());
            let warm = task.duration.secs() / before;
            traced.host(warm);
            if !gone {
                now.host(warm);
                draft.recost(node, slower(after / before));
            }
        }
    }
}

/// By how much each host task was slowed down when it was traced; 1 for all else.
///
/// # Arguments
/// `computed`: the computations whose work is known, in order.
///
/// # Complexity
/// O(tasks).
pub(super) fn slowdowns(graph: &ExecutionGraph, computed: &[(NodeId, Work)]) -> Vec<f64> {
    let mut lanes = vec![Evicted::default(); graph.lanes.len()];
    let mut slowdowns = vec![1.0; graph.tasks.node_count()];
    let mut large = computed.iter().filter(|(_, work)| !super::is_small(work)).map(|&(node, _)| node).peekable();
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let evicted = &mut lanes[task.lane.0 as usize];
        if large.next_if_eq(&node).is_some() {
            evicted.compute(task.duration.secs());
        } else if matches!(task.kind, TaskKind::Host(_) | TaskKind::Compute) {
            slowdowns[node.index()] = evicted.slowdown();
            evicted.host(task.duration.secs() / evicted.slowdown());
        }
    }
    slowdowns
}

/// Whether a task computes enough to be told from host code.
fn computes(draft: &Draft<'_>, node: NodeId) -> bool {
    let is_large = |work: Option<&Work>| work.is_some_and(|work| !super::is_small(work));
    draft.graph().tasks[node].kind == TaskKind::Compute
        && (is_large(draft.work(node)) || is_large(draft.base().work(node)))
}

fn slower(factor: f64) -> Option<(f64, Prediction)> {
    const LEAST: f64 = 1e-3;
    let prediction = Prediction {
        duration: DurNs::ZERO,
        provenance: Provenance::Anchored,
        model: "host-caches",
        error: ERROR,
        extrapolated: false,
    };
    ((factor - 1.0).abs() > LEAST).then_some((factor, prediction))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_code_is_slow_after_a_large_computation_and_recovers() {
        let mut caches = Evicted::default();
        assert!((caches.slowdown() - 1.0).abs() < 1e-12);
        caches.compute(1.0);
        assert!((caches.slowdown() - (1.0 + SLOWDOWN)).abs() < 0.01);
        caches.host(RECOVERY_S);
        assert!(caches.slowdown() < 0.5 * SLOWDOWN && caches.slowdown() > 0.3 * SLOWDOWN);
        caches.host(20.0 * RECOVERY_S);
        assert!((caches.slowdown() - 1.0).abs() < 1e-3);
    }
}

//! Host code after a large computation finds its caches cold: what lies between computations takes a multiple of its time.
//!
//! With `e` the share of the caches that computations have taken over: a computation of `d` leaves `1 − (1 − e)·exp(−d/τ)`;
//! host code that takes `h` when warm takes `h·(1 + κ·e)` and leaves `e·exp(−h/η)`. So host time follows the sizes of the
//! computations around it, while what the host does stays the same.
//!
//! What cold code waits for is memory, whose time does not follow the processor's: `κ = μ/w`, with `w` what the trace's quickest host
//! tasks take. On a machine whose host code is slow anyhow, cold caches slow it by a smaller factor.

use crate::cost::{Prediction, Provenance, Work};
use crate::graph::{ExecutionGraph, HostPart, LaneKind, NodeId, TaskKind};
use crate::scenario::draft::Draft;
use crate::units::DurNs;

/// τ: a computation this long takes over all but 1/e of the caches, in seconds.
///
/// The three constants make the warm host time of one model the same at several batch sizes. τ and η were picked by hand after
/// grids over our perceptron and recommender captures. μ was picked on those and on captures of the same models on a second machine,
/// whose quickest host tasks take 0.2 µs, not 0.07: the host's time alone asks for 1.6 to 2.1 µs on both, whole iterations for
/// 2.8 to 3.5. With one κ for both machines the host's time on the second is off by 9 % of the iteration, with 2.1 µs by 1.6 %, and by 1.1 %
/// on other models captured there (a perceptron, a recommender, GPT-2, BERT), of which no constant saw any.
const TAKE_OVER_S: f64 = 10e-3;
/// η: warm host time after which all but 1/e of the caches are its own again, in seconds.
const RECOVERY_S: f64 = 50e-6;
/// μ: how much longer than its warm time a short piece of host code takes on cold caches, in seconds.
const COLD_S: f64 = 3.5e-6;
/// Share of host tasks that are quicker than `w`.
const QUICKEST: f64 = 0.05;
/// κ where a trace has no host tasks to tell it.
const USUAL_SLOWDOWN: f64 = 20.0;
/// Relative error of host time predicted so.
const ERROR: f32 = 0.25;

/// How far computations have taken over a thread's caches, 0 to 1.
#[derive(Clone, Copy, Debug, Default)]
struct Evicted(f64);

impl Evicted {
    fn compute(&mut self, seconds: f64) {
        self.0 = 1.0 - (1.0 - self.0) * (-seconds / TAKE_OVER_S).exp();
    }

    /// By how much host code slows down now, where it takes `1 + kappa` times as long on cold caches.
    fn slowdown(self, kappa: f64) -> f64 {
        1.0 + kappa * self.0
    }

    fn host(&mut self, warm_seconds: f64) {
        self.0 *= (-warm_seconds / RECOVERY_S).exp();
    }
}

/// Lets host time of a trace without device work follow the computations before it, which edits changed.
///
/// # Complexity
/// O(tasks).
pub(super) fn follow(draft: &mut Draft<'_>, kappa: f64) {
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
            let (before, after) = (traced.slowdown(kappa), now.slowdown(kappa));
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
pub(super) fn slowdowns(graph: &ExecutionGraph, computed: &[(NodeId, Work)], kappa: f64) -> Vec<f64> {
    let mut lanes = vec![Evicted::default(); graph.lanes.len()];
    let mut slowdowns = vec![1.0; graph.tasks.node_count()];
    let mut large = computed.iter().filter(|(_, work)| !super::is_small(work)).map(|&(node, _)| node).peekable();
    for node in graph.tasks.node_indices() {
        let task = &graph.tasks[node];
        let evicted = &mut lanes[task.lane.0 as usize];
        if large.next_if_eq(&node).is_some() {
            evicted.compute(task.duration.secs());
        } else if matches!(task.kind, TaskKind::Host(_) | TaskKind::Compute) {
            slowdowns[node.index()] = evicted.slowdown(kappa);
            evicted.host(task.duration.secs() / evicted.slowdown(kappa));
        }
    }
    slowdowns
}

/// κ of the machine that `graph` was traced on.
///
/// # Arguments
/// `computed`: the computations whose work is known.
///
/// # Complexity
/// O(tasks).
pub(super) fn kappa(graph: &ExecutionGraph, computed: &[(NodeId, Work)]) -> f64 {
    let mut is_code = vec![true; graph.tasks.node_count()];
    for (node, _) in computed.iter().filter(|(_, work)| !super::is_small(work)) {
        is_code[node.index()] = false;
    }
    let of_operators =
        |kind| matches!(kind, TaskKind::Compute | TaskKind::Host(_)) && kind != TaskKind::Host(HostPart::Between);
    let tasks =
        graph.tasks.node_indices().filter(|node| is_code[node.index()] && of_operators(graph.tasks[*node].kind));
    let mut times: Vec<DurNs> =
        tasks.map(|node| graph.tasks[node].duration).filter(|time| *time > DurNs::ZERO).collect();
    let at = (times.len() as f64 * QUICKEST) as usize;
    if times.is_empty() {
        return USUAL_SLOWDOWN;
    }
    COLD_S / times.select_nth_unstable(at).1.secs()
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
        const SLOWDOWN: f64 = 30.0;
        let mut caches = Evicted::default();
        assert!((caches.slowdown(SLOWDOWN) - 1.0).abs() < 1e-12);
        caches.compute(1.0);
        assert!((caches.slowdown(SLOWDOWN) - (1.0 + SLOWDOWN)).abs() < 0.01);
        caches.host(RECOVERY_S);
        assert!(caches.slowdown(SLOWDOWN) < 0.5 * SLOWDOWN && caches.slowdown(SLOWDOWN) > 0.3 * SLOWDOWN);
        caches.host(20.0 * RECOVERY_S);
        assert!((caches.slowdown(SLOWDOWN) - 1.0).abs() < 1e-3);
    }
}

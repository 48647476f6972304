//! The host of a trace without device work, as a cost model fitted to the trace itself: a linear law per kind of operator.
//!
//! `t = dispatch + a·FLOP + b·bytes`, with `a` for products only and `b` by kind; what the trace shows of neither dispatch nor
//! streaming has a usual figure. It only ever supplies ratios between two sizes of one operator (anchored predictions). The
//! processor's caches, the C library's heap and pages that no one touched before have no part in it.

use rustc_hash::FxHashMap;

use crate::cost::{Estimate, Family, Work, doublings};
use crate::graph::{ExecutionGraph, NodeId, TaskKind};
use crate::units::DurNs;

use super::sparse;
use super::work_classes::{Classifier, Overrides, Sharing};

/// Fitted costs of host computations.
#[derive(Clone, Debug, PartialEq)]
pub struct HostModel {
    /// Seconds that an operator takes which does next to nothing.
    dispatch: f64,
    /// Seconds per FLOP of products.
    per_flop: f64,
    /// Seconds per byte, by [`Group`].
    per_byte: [f64; 4],
}

/// Kinds of computations that are bound alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Product,
    Lookup,
    /// Updates of parameters, in place.
    Update,
    Stream,
}

impl Group {
    fn of(work: &Work) -> Self {
        match work.family {
            Family::Gemm | Family::Conv | Family::Attention => Self::Product,
            Family::Embedding => Self::Lookup,
            Family::Optimizer => Self::Update,
            _ => Self::Stream,
        }
    }
}

/// Traffic of the largest operator that is nothing but dispatch.
const SMALL_BYTES: u64 = 1 << 12;
/// Arithmetic of the largest operator that is nothing but dispatch.
const SMALL_FLOP: f64 = 1e4;
/// Dispatch where nothing small was traced, in seconds.
const USUAL_DISPATCH_S: f64 = 2e-6;
/// Seconds per byte streamed where the trace shows none.
const USUAL_BYTE_S: f64 = 0.06e-9;
/// Least share of a product's time that is arithmetic, whatever the streaming rate says of its bytes.
const LEAST_ARITHMETIC: f64 = 0.3;
/// Relative error stated, of work that is [`FULL_ERROR`] doublings away: as much for each doubling as un-profiled iterations of our
/// captures err by, predicted between batches ×4 and ×16 apart, root mean square of the kind of model that is worse (`lab
/// whatif`): recommenders 20 % a doubling (n 12), perceptron 5 % (n 6). No constant here is fitted on a capture. What the law leaves
/// out is most of it: host code and small operators are slower after large ones.
const ERROR: f32 = 0.8;
/// Doublings of the work from which a computation has all of that error: as far as captures are apart.
const FULL_ERROR: f64 = 4.0;

impl HostModel {
    /// The model that fits the host computations of `graph`; `None` when there are none whose work is known.
    ///
    /// # Complexity
    /// O(tasks).
    pub fn fit(graph: &ExecutionGraph) -> Option<Self> {
        let computed = computations(graph);
        if computed.is_empty() {
            return None;
        }
        let took = |node: NodeId| graph.tasks[node].duration.secs();
        let mut small: Vec<f64> =
            computed.iter().filter(|(_, work)| is_small(work)).map(|&(node, _)| took(node)).collect();
        small.sort_by(f64::total_cmp);
        let dispatch = small.get(small.len() / 2).copied().unwrap_or(USUAL_DISPATCH_S);
        let rest = |seconds: f64| (seconds - dispatch).max(0.0);
        let of = |group: Group| computed.iter().filter(move |(_, work)| Group::of(work) == group && !is_small(work));
        let by_bytes = |group| per_unit(of(group).map(|(node, work)| (work.bytes().0 as f64, rest(took(*node)))));
        let stream = by_bytes(Group::Stream).unwrap_or(USUAL_BYTE_S);
        let arithmetic = |work: &Work, s: f64| rest(s - stream * work.bytes().0 as f64).max(rest(s) * LEAST_ARITHMETIC);
        let products = of(Group::Product).map(|(node, work)| (work.flop.0, arithmetic(work, took(*node))));
        let per_flop = per_unit(products).unwrap_or(0.0);
        let own = |group| by_bytes(group).unwrap_or(stream);
        Some(Self { dispatch, per_flop, per_byte: [stream, own(Group::Lookup), own(Group::Update), stream] })
    }

    /// The time of `work`.
    pub fn estimate(&self, work: &Work) -> Estimate {
        let group = Group::of(work);
        let per_flop = if group == Group::Product { self.per_flop } else { 0.0 };
        let seconds = self.dispatch + per_flop * work.flop.0 + self.per_byte[group as usize] * work.bytes().0 as f64;
        let duration = DurNs::from_secs_f64(seconds);
        Estimate { duration, model: "host-fit", error: ERROR, extrapolated: false }
    }

    /// What a computation of another size takes, over what it takes now, with the error of that.
    pub fn ratio(&self, old: &Work, new: &Work) -> (f64, Estimate) {
        let (before, after) = (self.estimate(old), self.estimate(new));
        let error = after.error * (doublings(old, new) / FULL_ERROR).min(1.0) as f32;
        (after.duration.0 as f64 / before.duration.0.max(1) as f64, Estimate { error, ..after })
    }
}

/// Whether `work` is nothing but dispatch.
fn is_small(work: &Work) -> bool {
    work.bytes().0 <= SMALL_BYTES && work.flop.0 <= SMALL_FLOP
}

/// The median time per unit, each row weighted by its time: rows that claim much and take little do not count.
fn per_unit(rows: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let mut rows: Vec<(f64, f64)> =
        rows.filter(|&(units, _)| units > 0.0).map(|(units, seconds)| (seconds / units, seconds)).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = rows.iter().map(|row| row.1).sum::<f64>() / 2.0;
    let mut passed = 0.0;
    let reaches_half = |row: &&(f64, f64)| {
        passed += row.1;
        passed >= half
    };
    rows.iter().find(reaches_half).map(|row| row.0)
}

/// The host computations whose work is known, in order.
fn computations(graph: &ExecutionGraph) -> Vec<(NodeId, Work)> {
    if graph.tasks.node_weights().all(|task| task.kind != TaskKind::Compute) {
        return Vec::new();
    }
    let (overrides, sharing) = (Overrides::default(), Sharing::of_graph(graph));
    let mut classifier = Classifier::new(graph, &overrides, &sharing, 0);
    let updates: FxHashMap<NodeId, Work> =
        sparse::updates(graph).filter(|(node, _)| !sharing.auxiliary[node.index()]).collect();
    let computes = graph.tasks.node_indices().filter(|&node| graph.tasks[node].kind == TaskKind::Compute);
    let of_class: Vec<(NodeId, u32)> = computes.map(|node| (node, classifier.class(node))).collect();
    let classes = classifier.classes();
    let known = of_class.into_iter().filter_map(|(node, class)| {
        let by_arguments = || classes.get(class as usize).and_then(|class| class.work.as_deref().cloned());
        Some((node, updates.get(&node).cloned().or_else(by_arguments)?))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::per_unit;

    #[test]
    fn the_fit_is_the_rate_of_what_takes_the_time() {
        let rows = [(1e6, 1.0), (2e6, 2.0), (3e6, 3.0), (1e12, 1e-3), (2e6, 4.0)];
        assert!((per_unit(rows.into_iter()).unwrap() - 1e-6).abs() < 1e-12);
        assert_eq!(per_unit(std::iter::empty()), None);
    }
}
